//! How near children lie to their parents (§3.2.4).

use crate::superpage::SUPERPAGE_BYTES;

use super::nodes::{Node, Nodes};
use super::pages::PAGE_BYTES;
use super::share::share;

/// How near two nodes are, by the lines that a search reads first; the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// On one cache line: the second costs nothing.
    SameLine,
    /// On the two lines of an aligned pair: the second may have been fetched along.
    SamePair,
    /// On neighbouring lines of different pairs.
    NextLine,
    /// On one page of 4 KiB.
    SamePage,
    /// In one aligned range of 2 MiB.
    SameSuperpage,
    /// Further apart.
    Apart,
}

impl Nearness {
    /// All of them, the nearest first.
    pub const ALL: [Self; 6] = [
        Self::SameLine,
        Self::SamePair,
        Self::NextLine,
        Self::SamePage,
        Self::SameSuperpage,
        Self::Apart,
    ];

    fn of(nodes: &Nodes, one: &Node, other: &Node) -> Self {
        let (a, b) = (nodes.first_line(one), nodes.first_line(other));
        let same = |unit: usize| a * nodes.line_bytes / unit == b * nodes.line_bytes / unit;
        match () {
            () if a == b => Self::SameLine,
            () if a / 2 == b / 2 => Self::SamePair,
            () if a.abs_diff(b) == 1 => Self::NextLine,
            () if same(PAGE_BYTES) => Self::SamePage,
            () if same(SUPERPAGE_BYTES) => Self::SameSuperpage,
            () => Self::Apart,
        }
    }
}

/// How near the children of one kind lie to their parents of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collocation {
    /// The kind of the parents.
    pub parent: &'static str,
    /// The kind of the children.
    pub child: &'static str,
    /// Children by their nearness, in the order of [`Nearness::ALL`].
    pub children: [usize; 6],
    /// Parents by the nearness of their nearest child of the kind.
    pub parents: [usize; 6],
    /// Of the parents whose nearest child is on a [neighbouring line](Nearness::NextLine), those
    /// that are on an odd line themselves: the first one of a pair fetches nothing of the next.
    pub odd_parents: usize,
}

impl Collocation {
    /// The share of parents whose nearest child of the kind is that near.
    #[must_use]
    pub fn share_of_parents(&self, nearness: Nearness) -> f64 {
        let all = self.parents.iter().sum();
        share(self.parents[nearness as usize], all)
    }

    /// The share of children that are that near.
    #[must_use]
    pub fn share_of_children(&self, nearness: Nearness) -> f64 {
        let all = self.children.iter().sum();
        share(self.children[nearness as usize], all)
    }
}

/// A link from a parent to a child, by their places among the nodes.
struct Link {
    parent: usize,
    child_kind: u16,
    nearness: Nearness,
    odd: bool,
}

pub(super) fn collocations(nodes: &Nodes) -> Vec<Collocation> {
    let mut links: Vec<(u16, Link)> = Vec::new();
    for child in nodes.nodes.iter().filter(|node| node.parent != 0) {
        // A parent that the structure did not visit is no node of it.
        let Some(parent) = nodes.at(child.parent) else {
            continue;
        };
        let link = Link {
            parent: parent.address,
            child_kind: child.kind,
            nearness: Nearness::of(nodes, parent, child),
            odd: nodes.first_line(parent) % 2 == 1,
        };
        links.push((parent.kind, link));
    }
    let by = |(kind, link): &(u16, Link)| (*kind, link.child_kind, link.parent, link.nearness);
    links.sort_unstable_by_key(by);
    let same_kinds = |a: &(u16, Link), b: &(u16, Link)| {
        let kinds = |link: &(u16, Link)| (link.0, link.1.child_kind);
        kinds(a) == kinds(b)
    };
    let groups = links.chunk_by(same_kinds);
    groups.map(|group| collocation(nodes, group)).collect()
}

/// Of links between nodes of two kinds, sorted by parent and nearness.
fn collocation(nodes: &Nodes, links: &[(u16, Link)]) -> Collocation {
    let (parent_kind, first) = &links[0];
    let mut found = Collocation {
        parent: nodes.kinds[usize::from(*parent_kind)],
        child: nodes.kinds[usize::from(first.child_kind)],
        children: [0; 6],
        parents: [0; 6],
        odd_parents: 0,
    };
    for (_, link) in links {
        found.children[link.nearness as usize] += 1;
    }
    for family in links.chunk_by(|a, b| a.1.parent == b.1.parent) {
        let nearest = &family[0].1;
        found.parents[nearest.nearness as usize] += 1;
        found.odd_parents += usize::from(nearest.nearness == Nearness::NextLine && nearest.odd);
    }
    found
}
