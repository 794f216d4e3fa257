//! What lies beside the lines of each kind (§3.2.3).
//!
//! Processors fetch neighbouring lines along: the next one, or the other one of an aligned pair. A
//! line that is fetched for nothing takes the place of one that a search needs.

use super::nodes::Nodes;
use super::share::share;

/// Which lines count as neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one before and the one after.
    Either,
    /// The other one of the aligned pair.
    Pair,
}

/// For the lines of each kind, what their neighbours hold. A neighbour that holds nodes of several
/// kinds counts for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbours {
    /// The kinds, in the order of rows and columns.
    pub kinds: Vec<&'static str>,
    /// `counts[a][b]`: neighbours of lines with nodes of kind `a` that have nodes of kind `b`.
    pub counts: Vec<Vec<usize>>,
    /// Neighbours of lines with nodes of each kind that have no node at all.
    pub nothing: Vec<usize>,
    /// All neighbours of lines with nodes of each kind.
    pub all: Vec<usize>,
}

impl Neighbours {
    /// The share of neighbours of a kind's lines that hold nodes of another kind, or of the same.
    #[must_use]
    pub fn share(&self, of: &str, holding: &str) -> f64 {
        let place = |kind: &str| self.kinds.iter().position(|&known| known == kind);
        match (place(of), place(holding)) {
            (Some(of), Some(holding)) => share(self.counts[of][holding], self.all[of]),
            _ => 0.0,
        }
    }
}

pub(super) fn neighbours(nodes: &Nodes, which: Which) -> Neighbours {
    let mut places: Vec<(usize, u16)> = Vec::new();
    for node in &nodes.nodes {
        let lines = nodes.lines(node.extent());
        places.extend(lines.map(|line| (line, node.kind)));
    }
    places.sort_unstable();
    places.dedup();
    let lines: Vec<&[(usize, u16)]> = places.chunk_by(|a, b| a.0 == b.0).collect();
    let kinds = nodes.kinds.len();
    let mut found = Neighbours {
        kinds: nodes.kinds.clone(),
        counts: vec![vec![0; kinds]; kinds],
        nothing: vec![0; kinds],
        all: vec![0; kinds],
    };
    for (nth, line) in lines.iter().enumerate() {
        let number = line[0].0;
        let before = nth.checked_sub(1).map(|nth| lines[nth]);
        let before = before.filter(|other| other[0].0 + 1 == number);
        let after = lines.get(nth + 1).copied();
        let after = after.filter(|other| other[0].0 == number + 1);
        match which {
            Which::Either => {
                found.add(line, before);
                found.add(line, after);
            }
            Which::Pair if number.is_multiple_of(2) => found.add(line, after),
            Which::Pair => found.add(line, before),
        }
    }
    found
}

impl Neighbours {
    fn add(&mut self, line: &[(usize, u16)], neighbour: Option<&[(usize, u16)]>) {
        for &(_, kind) in line {
            let kind = usize::from(kind);
            self.all[kind] += 1;
            let Some(neighbour) = neighbour else {
                self.nothing[kind] += 1;
                continue;
            };
            for &(_, other) in neighbour {
                self.counts[kind][usize::from(other)] += 1;
            }
        }
    }
}
