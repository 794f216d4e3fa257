//! Lines with fields that updates write, and who else is on them (§4.3.2).
//!
//! Two locks on one line are one lock to the caches: whoever takes one takes the line from who
//! spins on the other. A lock or a link also takes its line from those who only read another node
//! there. So one pass over the lines counts the nodes of all kinds on each.

use super::nodes::Nodes;
use super::share::share;

/// Lines with fields of a kind that updates write: locks, versions, links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LineSharing {
    /// Lines that hold such fields.
    pub lines: usize,
    /// Those that hold such fields of several nodes of the kind.
    pub shared_lines: usize,
    /// Those that hold such fields of another kind, too.
    pub mixed_lines: usize,
    /// Aligned pairs of lines that hold such fields.
    pub pairs: usize,
    /// Those that hold such fields of several nodes of the kind: shared where the processor fetches
    /// pairs.
    pub shared_pairs: usize,
    /// Nodes that have such fields on a line with those of another node, of any kind.
    pub sharing_nodes: usize,
}

impl LineSharing {
    /// The share of lines with written fields that several nodes of the kind have in common.
    #[must_use]
    pub fn shared_share(&self) -> f64 {
        share(self.shared_lines, self.lines)
    }
}

/// For the lines that updates write, by the kind of the written node, what else they hold. A line
/// with written fields of several kinds counts for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenLines {
    /// The kinds, in the order of rows and columns.
    pub kinds: Vec<&'static str>,
    /// `counts[a][b]`: lines with written fields of a node of kind `a` that hold bytes of another
    /// node, of kind `b`, whether these are written or not.
    pub counts: Vec<Vec<usize>>,
    /// Lines with written fields of a node of each kind, and with no other node.
    pub alone: Vec<usize>,
    /// All lines with written fields of each kind; 0 of a kind that is never written.
    pub all: Vec<usize>,
}

impl WrittenLines {
    /// The share of the lines with written fields of a kind that hold another node, of another
    /// kind or of the same.
    #[must_use]
    pub fn share(&self, written: &str, beside: &str) -> f64 {
        let place = |kind: &str| self.kinds.iter().position(|&known| known == kind);
        match (place(written), place(beside)) {
            (Some(written), Some(beside)) => share(self.counts[written][beside], self.all[written]),
            _ => 0.0,
        }
    }
}

/// What a pass over all lines finds.
pub(super) struct Sharing {
    /// Of each kind.
    pub(super) kinds: Vec<LineSharing>,
    pub(super) lines: WrittenLines,
}

/// A node on a line.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    node: usize,
    kind: u16,
    /// Whether updates write bytes of the node on this line.
    is_written: bool,
}

/// How many nodes of a kind are on a line, or on a pair of lines.
#[derive(Clone, Copy, Default)]
struct Count {
    nodes: usize,
    written: usize,
}

pub(super) fn sharing(nodes: &Nodes) -> Sharing {
    let places = places(nodes);
    let kinds = nodes.kinds.len();
    let mut found = Sharing {
        kinds: vec![LineSharing::default(); kinds],
        lines: WrittenLines {
            kinds: nodes.kinds.clone(),
            counts: vec![vec![0; kinds]; kinds],
            alone: vec![0; kinds],
            all: vec![0; kinds],
        },
    };
    let mut is_sharing = vec![false; nodes.nodes.len()];
    for line in places.chunk_by(|a, b| a.line == b.line) {
        let counts = counts(line, kinds);
        found.add_line(&counts);
        let written = line.iter().filter(|place| place.is_written);
        if written.clone().count() > 1 {
            written.for_each(|place| is_sharing[place.node] = true);
        }
    }
    for pair in places.chunk_by(|a, b| a.line / 2 == b.line / 2) {
        found.add_pair(&counts(&once_each(pair), kinds));
    }
    for (node, _) in nodes.nodes.iter().zip(is_sharing).filter(|found| found.1) {
        found.kinds[usize::from(node.kind)].sharing_nodes += 1;
    }
    found
}

/// All lines of all nodes, by line.
fn places(nodes: &Nodes) -> Vec<Place> {
    let mut places = Vec::new();
    for (nth, node) in nodes.nodes.iter().enumerate() {
        let lines = nodes.lines(node.extent());
        places.extend(lines.map(|line| Place {
            line,
            node: nth,
            kind: node.kind,
            is_written: nodes.writes(node, line),
        }));
    }
    places.sort_unstable_by_key(|place| (place.line, place.node));
    places
}

/// The nodes of a pair of lines, those on both once.
fn once_each(pair: &[Place]) -> Vec<Place> {
    let mut places = pair.to_vec();
    places.sort_unstable_by_key(|place| place.node);
    places.dedup_by(|second, first| {
        first.is_written |= second.node == first.node && second.is_written;
        second.node == first.node
    });
    places
}

/// The nodes of a line by their kinds.
fn counts(places: &[Place], kinds: usize) -> Vec<Count> {
    let mut counts = vec![Count::default(); kinds];
    for place in places {
        let count = &mut counts[usize::from(place.kind)];
        count.nodes += 1;
        count.written += usize::from(place.is_written);
    }
    counts
}

impl Sharing {
    fn add_line(&mut self, counts: &[Count]) {
        let nodes: usize = counts.iter().map(|count| count.nodes).sum();
        let all_written: usize = counts.iter().map(|count| count.written).sum();
        for (kind, count) in counts.iter().enumerate().filter(|(_, c)| c.written > 0) {
            let found = &mut self.kinds[kind];
            found.lines += 1;
            found.shared_lines += usize::from(count.written > 1);
            found.mixed_lines += usize::from(all_written > count.written);
            self.lines.all[kind] += 1;
            self.lines.alone[kind] += usize::from(nodes == 1);
            for (other, beside) in counts.iter().enumerate() {
                // The written node itself is none beside it.
                let least = if other == kind { 2 } else { 1 };
                self.lines.counts[kind][other] += usize::from(beside.nodes >= least);
            }
        }
    }

    fn add_pair(&mut self, counts: &[Count]) {
        for (found, count) in self.kinds.iter_mut().zip(counts) {
            found.pairs += usize::from(count.written > 0);
            found.shared_pairs += usize::from(count.written > 1);
        }
    }
}
