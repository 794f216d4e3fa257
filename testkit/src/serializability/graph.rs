//! Dependencies between transactions, and graphs of them.

use super::anomaly::CycleOrder;

/// Why one transaction must precede another. Versions are numbers of
/// [`Versions::all`](super::versions::Versions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// ww: the first wrote `before`, the second the version after it.
    Write { before: u32, after: u32 },
    /// wr: the first wrote `version`, which the second read.
    Read { version: u32, range: u32 },
    /// wr: the second read a later version than `version`, or it.
    ReadNoEarlier { version: u32, range: u32 },
    /// rw: the first read `version`, which the second replaced by `next`.
    Anti {
        version: u32,
        next: u32,
        range: u32,
        is_predicate: bool,
    },
    /// rw: the first read `version` or an earlier one; the second replaced it by `next`.
    AntiNoLater {
        version: u32,
        next: u32,
        range: u32,
        is_predicate: bool,
    },
    /// One process ran the first before the second.
    Process,
    /// The first ended before the second began.
    RealTime,
}

impl Reason {
    pub fn is_anti(&self) -> bool {
        matches!(self, Reason::Anti { .. } | Reason::AntiNoLater { .. })
    }

    pub fn is_predicate(&self) -> bool {
        match self {
            Reason::Anti { is_predicate, .. } | Reason::AntiNoLater { is_predicate, .. } => {
                *is_predicate
            }
            _ => false,
        }
    }

    pub fn is_write(&self) -> bool {
        matches!(self, Reason::Write { .. })
    }

    pub fn is_read(&self) -> bool {
        matches!(self, Reason::Read { .. } | Reason::ReadNoEarlier { .. })
    }

    /// Whether it counts where `order` does.
    pub fn is_of(&self, order: CycleOrder) -> bool {
        match self {
            Reason::Process => order == CycleOrder::Process,
            Reason::RealTime => order == CycleOrder::RealTime,
            _ => true,
        }
    }
}

/// Transaction `from` must precede transaction `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub from: u32,
    pub to: u32,
    pub reason: Reason,
}

/// The edges that leave each node, in one array: those of node `n` are between `starts[n]` and
/// `starts[n + 1]`, each with the number that its maker gave it.
#[derive(Debug)]
pub(super) struct Graph {
    starts: Vec<u32>,
    leaving: Vec<(u32, u32)>,
}

impl Graph {
    /// A graph of `nodes` nodes and of `edges`, which are from, to and number.
    pub fn new(nodes: usize, edges: impl Iterator<Item = (u32, u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        for (from, ..) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut leaving = vec![(0, 0); starts[nodes] as usize];
        for (from, to, number) in edges {
            let at = &mut next[from as usize];
            leaving[*at as usize] = (to, number);
            *at += 1;
        }
        Graph { starts, leaving }
    }

    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Where the edges of `node` lead, with their numbers.
    pub fn leaving(&self, node: u32) -> &[(u32, u32)] {
        let node = node as usize;
        &self.leaving[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// How many edges lead to each node.
    pub fn entering(&self) -> Vec<u32> {
        let mut entering = vec![0; self.nodes()];
        for (to, _) in &self.leaving {
            entering[*to as usize] += 1;
        }
        entering
    }
}
