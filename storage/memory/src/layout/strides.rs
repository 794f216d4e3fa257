//! How far apart the nodes of a kind lie (§3.2.3, §4.3.1).

use std::collections::HashMap;

use super::nodes::Nodes;

/// Strides that are counted by themselves.
const MOST: usize = 16;

/// Distances in bytes from the start of each node to that of the next one of its kind in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strides {
    /// The commonest distances and how often each occurs, the commonest first.
    pub common: Vec<(usize, usize)>,
    /// How often others occur.
    pub others: usize,
}

pub(super) fn strides(nodes: &Nodes, kind: usize) -> Strides {
    let next = nodes.of_kind(kind).skip(1);
    let pairs = nodes.of_kind(kind).zip(next);
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for (one, next) in pairs {
        *counts.entry(next.address - one.address).or_default() += 1;
    }
    let mut common: Vec<(usize, usize)> = counts.into_iter().collect();
    common.sort_unstable_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes));
    let others = common.iter().skip(MOST).map(|&(_, count)| count).sum();
    common.truncate(MOST);
    Strides { common, others }
}
