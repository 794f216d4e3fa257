//! The bulk load: ascending pairs become a tree from below, in one pass, and appear at once.
//!
//! Pages are built as pairs come, nodes above them when all have come; nobody else knows of them
//! yet, so nothing is latched. The root is then put in the place of the empty map's only page,
//! under the latches of the anchor and of that page, as a split of the root would put it: who
//! searches finds no pair or any of them.

use hedgerow_index::NotAscending;
use hedgerow_memory::Placement;
use hedgerow_sync::epoch;

use super::{Tree, release_nodes};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::SharedNodeKey;
use crate::served::node::page::Page;

/// Why a bulk load was refused. The map is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The keys do not ascend strictly.
    NotAscending(NotAscending),
    /// The map holds keys already.
    NotEmpty,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAscending(error) => error.fmt(out),
            Self::NotEmpty => out.write_str(
                "the map holds keys already; load into an empty one, or insert the pairs one by \
                 one",
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// A node that is built, and the greatest key below it.
type Built<L> = (L, usize);

/// Nodes that nobody else knows of, all of one level; given back unless they are taken.
struct Level<L: SharedNodeKey>(Vec<Built<L>>);

impl<L: SharedNodeKey> Drop for Level<L> {
    fn drop(&mut self) {
        for &(_, root) in &self.0 {
            // SAFETY: built here and linked nowhere, so that this is the last use of all below it.
            unsafe { release_nodes::<L>(root) }
        }
    }
}

impl<L: SharedNodeKey> Level<L> {
    /// Adds a page of these pairs with an eighth of its room left, if there are any.
    fn push_page<C: Capacity>(&mut self, placement: Placement, pairs: &[(L, u64)]) {
        if let Some(last) = pairs.last() {
            let most = Tree::<C, L>::LINES;
            let lines = (pairs.len() * 8).div_ceil(L::LEAF * 7).min(most);
            self.0
                .push((last.0, Page::build(placement, pairs, lines, most)));
        }
    }

    /// The nodes above these, as even as can be and an eighth of their room left.
    fn above<C: Capacity>(mut self, placement: Placement, over_pages: bool) -> Self {
        let below = std::mem::take(&mut self.0);
        let nodes = below.len().div_ceil((C::FAN_OUT * 7 / 8).max(3));
        let part = |node: usize| below.len() * node / nodes;
        let node = |node: usize| {
            let (greatest, children): (Vec<L>, Vec<usize>) =
                below[part(node)..part(node + 1)].iter().copied().unzip();
            let (last, separators) = greatest.split_last().expect("a part has nodes");
            (
                *last,
                Inner::build(placement, separators, &children, over_pages),
            )
        };
        Self((0..nodes).map(node).collect())
    }
}

/// Builds all nodes; the level of the root, or `None` without pairs.
fn build<C: Capacity, L: SharedNodeKey>(
    placement: Placement,
    pairs: impl IntoIterator<Item = (L, u64)>,
) -> Result<Option<Level<L>>, NotAscending> {
    let each = Tree::<C, L>::LINES * L::LEAF * 7 / 8;
    let mut level = Level(Vec::new());
    // Two pages' worth, so that the last two can share what there is.
    let mut run: Vec<(L, u64)> = Vec::with_capacity(2 * each);
    for (position, pair) in pairs.into_iter().enumerate() {
        if run.last().is_some_and(|last| last.0 >= pair.0) {
            return Err(NotAscending { position });
        }
        if run.len() == 2 * each {
            level.push_page::<C>(placement, &run[..each]);
            run.drain(..each);
        }
        run.push(pair);
    }
    let cut = if run.len() > each { run.len() / 2 } else { 0 };
    level.push_page::<C>(placement, &run[..cut]);
    level.push_page::<C>(placement, &run[cut..]);
    let mut over_pages = true;
    while level.0.len() > 1 {
        level = level.above::<C>(placement, over_pages);
        over_pages = false;
    }
    Ok(Some(level).filter(|level| !level.0.is_empty()))
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// A tree of ascending pairs, its nodes from size classes.
    pub(crate) fn built(pairs: impl IntoIterator<Item = (L, u64)>) -> Self {
        let built = build::<C, L>(Placement::Merged, pairs)
            .expect("who knows the pairs knows that they ascend");
        let Some(mut level) = built else {
            return Self::of(Placement::Merged, &[]);
        };
        let root = level.0.pop().expect("a level has a node");
        Self::with_root(root.1)
    }

    /// Puts ascending pairs into an empty tree, all at one moment.
    pub(crate) fn load(
        &self,
        placement: Placement,
        pairs: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), LoadError> {
        let Some(mut level) = build::<C, L>(placement, pairs).map_err(LoadError::NotAscending)?
        else {
            return Ok(());
        };
        let guard = epoch::pin();
        if !level.0.iter().all(|&(_, root)| self.fill(root, &guard)) {
            return Err(LoadError::NotEmpty);
        }
        // The tree's now.
        level.0.clear();
        Ok(())
    }
}
