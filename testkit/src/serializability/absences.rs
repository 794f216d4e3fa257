//! Reads of absent registers, of which nobody knows what they saw: the key before it was first
//! written, or one of its removals.
//!
//! Each such read has a first and a last *absence* that it can have seen, which follow from real
//! time and from the reader's own write. The bounds give edges: the reader comes after the writer
//! of the first one and before whoever ended the last one. If the edges have a cycle, so does
//! every choice. If they have none, a [serial execution](super::execution) looks for an order in
//! which every such key is absent when it is read; it is a proof that there is no anomaly. Where
//! the execution meets a read whose key is present then, the read either came earlier, and saw an
//! absence before, or comes later: both are tried, by narrower bounds.

use std::collections::HashMap;

use super::dependencies::AbsentRead;
use super::execution::{Execution, Ran};
use super::graph::{Edge, Reason};
use super::history::{History, Status};
use super::model::Model;
use super::phenomena::points;
use super::reads::NO_RANGE;
use super::versions::{NONE, Versions};

/// Edges that all executions of a history may look at, and executions that any history may have.
const MAX_EDGES: usize = 30_000_000;
const MAX_EXECUTIONS: usize = 300;

/// The first and the last absence that a read can have seen, by their place among those of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    first: u32,
    last: u32,
}

/// What the search found.
#[derive(Debug)]
pub(super) enum Verdict {
    /// An order explains every read.
    Ordered,
    /// These edges have a cycle. So do those of each other choice of absences, if there were any.
    Cyclic { edges: Vec<Edge>, chosen: bool },
    /// The edges that hold for all choices have no cycle; the search for an order took too long.
    Undecided,
}

/// The search for an order.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub history: &'a History,
    pub versions: &'a Versions,
    pub reads: &'a [AbsentRead],
    /// The edges that do not depend on any choice.
    pub fixed: &'a [Edge],
    pub model: Model,
}

impl Search<'_> {
    /// Looks for an order of the transactions.
    pub fn run(&self) -> Verdict {
        let executions = (MAX_EDGES / (self.fixed.len() + 1)).max(MAX_EXECUTIONS);
        let mut open = vec![self.bounds()];
        let mut cyclic = Vec::new();
        for execution in 0..executions {
            let Some(bounds) = open.pop() else {
                let chosen = execution > 1;
                return Verdict::Cyclic {
                    edges: cyclic,
                    chosen,
                };
            };
            let edges = self.edges(&bounds);
            match self.execute(&edges) {
                Ran::ToTheEnd => return Verdict::Ordered,
                Ran::IntoCycle => cyclic = edges,
                Ran::IntoPresent { read, place } => {
                    let [earlier, later] = self.narrow(&bounds, read, place);
                    open.extend([earlier, later]);
                }
            }
        }
        Verdict::Undecided
    }

    /// The edges that do not depend on choices, and those of the bounds.
    fn edges(&self, bounds: &[Bounds]) -> Vec<Edge> {
        let mut edges = self.fixed.to_vec();
        if self.model.has_anti_dependencies() {
            for (read, bounds) in self.reads.iter().zip(bounds) {
                self.add_edges(read, *bounds, &mut edges);
            }
        }
        edges
    }

    fn execute(&self, edges: &[Edge]) -> Ran {
        let transactions = self.history.transactions.len();
        let graph = points(transactions, edges, self.model.is_snapshot());
        Execution::new(self.history, self.versions, self.reads, self.model).run(&graph)
    }

    /// The bounds if a read came before the version at `place`, and if it came after it. The key is
    /// present at that version, which lies between the first and the last absence of the read: both
    /// are narrower.
    fn narrow(&self, bounds: &[Bounds], read: usize, place: u32) -> [Vec<Bounds>; 2] {
        let key = self.reads[read].key;
        let absences = &self.versions.keys[key as usize].absences;
        let before =
            absences.partition_point(|absence| self.versions.version(*absence).place < place);
        let mut earlier = bounds.to_vec();
        earlier[read].last = before as u32 - 1;
        let mut later = bounds.to_vec();
        later[read].first = before as u32;
        debug_assert!(
            earlier[read].last >= bounds[read].first,
            "an absence before"
        );
        debug_assert!(later[read].first <= bounds[read].last, "an absence after");
        [earlier, later]
    }

    fn add_edges(&self, read: &AbsentRead, bounds: Bounds, edges: &mut Vec<Edge>) {
        let absences = &self.versions.keys[read.key as usize].absences;
        let is_exact = bounds.first == bounds.last;
        let (range, reader) = (read.range, read.transaction);
        let first = absences[bounds.first as usize];
        let writer = self.versions.version(first).writer;
        if writer != NONE && writer != reader {
            let version = first;
            let reason = match is_exact {
                true => Reason::Read { version, range },
                false => Reason::ReadNoEarlier { version, range },
            };
            edges.push(Edge {
                from: writer,
                to: reader,
                reason,
            });
        }
        let version = absences[bounds.last as usize];
        let next = self.versions.version(version).next;
        if next == NONE || self.versions.version(next).writer == reader {
            return;
        }
        let is_predicate = range != NO_RANGE;
        let reason = match is_exact {
            true => Reason::Anti {
                version,
                next,
                range,
                is_predicate,
            },
            false => Reason::AntiNoLater {
                version,
                next,
                range,
                is_predicate,
            },
        };
        edges.push(Edge {
            from: reader,
            to: self.versions.version(next).writer,
            reason,
        });
    }

    fn bounds(&self) -> Vec<Bounds> {
        let mut times: HashMap<u32, Times> = HashMap::new();
        let reads = self.reads.iter();
        reads
            .map(|read| {
                let times = self.model.has_real_time().then(|| {
                    &*times
                        .entry(read.key)
                        .or_insert_with(|| Times::of(self.history, self.versions, read.key))
                });
                self.bounds_of(read, times)
            })
            .collect()
    }

    fn bounds_of(&self, read: &AbsentRead, times: Option<&Times>) -> Bounds {
        let key = &self.versions.keys[read.key as usize];
        let place = |version: u32| self.versions.version(version).place as usize;
        // The places of versions that the read can have seen: from the one, before the other.
        let (mut start, mut end) = (0, key.chain.len());
        if read.is_before_write {
            let is_own = |version: &u32| self.versions.version(*version).writer == read.transaction;
            end = key.chain.iter().position(is_own).unwrap_or(end);
        }
        if let Some(times) = times {
            let reader = &self.history.transactions[read.transaction as usize];
            start = times.replaced_before(reader.begin);
            if reader.status != Status::Unknown {
                end = end.min(times.begun_after(reader.end));
            }
        }
        let first = key
            .absences
            .partition_point(|absence| place(*absence) < start);
        let behind = key
            .absences
            .partition_point(|absence| place(*absence) < end);
        if first < behind {
            return Bounds {
                first: first as u32,
                last: behind as u32 - 1,
            };
        }
        // No absence fits: the last one before `start` makes the cycle that says so.
        let stale = first.max(1) as u32 - 1;
        Bounds {
            first: stale,
            last: stale,
        }
    }
}

/// When the versions of a key can have been the current ones, by their place.
#[derive(Debug)]
struct Times {
    /// The earliest end of the writer of this version or of a later one: ascends.
    ends: Vec<u64>,
    /// The latest begin of the writer of this version or of an earlier one: ascends.
    begins: Vec<u64>,
}

impl Times {
    fn of(history: &History, versions: &Versions, key: u32) -> Self {
        let chain = versions.keys[key as usize].chain.iter();
        let writers = chain.map(|version| {
            let writer = versions.version(*version).writer;
            (writer != NONE).then(|| &history.transactions[writer as usize])
        });
        let (mut begins, mut ends): (Vec<u64>, Vec<u64>) = writers
            .map(|writer| match writer {
                None => (0, 0),
                Some(writer) if writer.status == Status::Unknown => (writer.begin, u64::MAX),
                Some(writer) => (writer.begin, writer.end),
            })
            .unzip();
        for place in 1..begins.len() {
            begins[place] = begins[place].max(begins[place - 1]);
        }
        for place in (1..ends.len()).rev() {
            ends[place - 1] = ends[place - 1].min(ends[place]);
        }
        Times { ends, begins }
    }

    /// The last version that was surely installed before an instant.
    fn replaced_before(&self, instant: u64) -> usize {
        self.ends
            .partition_point(|end| *end < instant)
            .saturating_sub(1)
    }

    /// The first version that surely was not installed before an instant.
    fn begun_after(&self, instant: u64) -> usize {
        self.begins.partition_point(|begin| *begin <= instant)
    }
}
