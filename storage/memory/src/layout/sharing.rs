//! Fields that updates write and that share a cache line with those of other nodes (§4.3.2).
//!
//! Two locks on one line are one lock to the caches: whoever takes one takes the line from who
//! spins on the other.

use std::collections::BTreeSet;

use super::nodes::{Node, Nodes};
use super::share::share;

/// Lines with fields of a kind that updates write: locks, versions, links.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineSharing {
    /// Lines that hold such fields.
    pub lines: usize,
    /// Those that hold such fields of several nodes of the kind.
    pub shared_lines: usize,
    /// Aligned pairs of lines that hold such fields.
    pub pairs: usize,
    /// Those that hold such fields of several nodes: shared where the processor fetches pairs.
    pub shared_pairs: usize,
    /// Nodes that share a line.
    pub sharing_nodes: usize,
}

impl LineSharing {
    /// The share of lines with written fields that several nodes have in common.
    #[must_use]
    pub fn shared_share(&self) -> f64 {
        share(self.shared_lines, self.lines)
    }
}

pub(super) fn line_sharing(nodes: &Nodes, kind: usize) -> LineSharing {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (nth, node) in nodes.of_kind(kind).enumerate() {
        let lines = written_lines(nodes, node);
        places.extend(lines.map(|line| (line, nth)));
    }
    // A node may have two ranges on one line.
    places.sort_unstable();
    places.dedup();
    let lines = Units::of(&places, |line| line);
    let pairs = Units::of(&places, |line| line / 2);
    LineSharing {
        lines: lines.all,
        shared_lines: lines.shared,
        pairs: pairs.all,
        shared_pairs: pairs.shared,
        sharing_nodes: lines.nodes.len(),
    }
}

fn written_lines(nodes: &Nodes, node: &Node) -> impl Iterator<Item = usize> {
    let ranges = nodes.written(node).map(|range| nodes.lines(range));
    ranges.into_iter().flatten()
}

/// Lines, or pairs of them.
struct Units {
    all: usize,
    /// Those of several nodes.
    shared: usize,
    /// The nodes that share one.
    nodes: BTreeSet<usize>,
}

impl Units {
    /// From lines and the nodes that have them, by line.
    fn of(places: &[(usize, usize)], unit: impl Fn(usize) -> usize) -> Self {
        let mut units = Self {
            all: 0,
            shared: 0,
            nodes: BTreeSet::new(),
        };
        for group in places.chunk_by(|a, b| unit(a.0) == unit(b.0)) {
            units.all += 1;
            if group.iter().any(|&(_, node)| node != group[0].1) {
                units.shared += 1;
                units.nodes.extend(group.iter().map(|&(_, node)| node));
            }
        }
        units
    }
}
