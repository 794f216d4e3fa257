//! A serial execution of a history: runs the transactions one by one in an order that the graph of
//! dependencies allows, holds which registers are absent, and runs a transaction that read an
//! absent register only while that register is absent.
//!
//! A point (see [`points`](super::phenomena::points)) that installs nothing runs as soon as it can:
//! that takes no order away from the others. Among those that install something, the commit
//! timestamp decides, or the end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::dependencies::AbsentRead;
use super::graph::Graph;
use super::history::History;
use super::model::Model;
use super::versions::Versions;

/// How an execution ended.
#[derive(Debug)]
pub(super) enum Ran {
    /// All transactions ran.
    ToTheEnd,
    /// No transaction could be next: the graph has a cycle.
    IntoCycle,
    /// All that could be next read a register as absent that was present.
    IntoPresent {
        /// One such read, by its place among those of the execution.
        read: usize,
        /// The place of the version that was current then.
        place: u32,
    },
}

/// An execution that can run once.
#[derive(Debug)]
pub(super) struct Execution<'a> {
    history: &'a History,
    versions: &'a Versions,
    reads: &'a [AbsentRead],
    model: Model,
    /// The absent reads of each point.
    reads_of: HashMap<u32, Vec<u32>>,
    /// The versions that each point installs of keys with absent reads.
    installs_of: HashMap<u32, Vec<u32>>,
    /// The current version of keys with absent reads.
    current: HashMap<u32, u32>,
    /// Points that wait until a key is absent.
    waiting: HashMap<u32, Vec<u32>>,
    free: Vec<u32>,
    installing: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Execution<'a> {
    pub fn new(
        history: &'a History,
        versions: &'a Versions,
        reads: &'a [AbsentRead],
        model: Model,
    ) -> Self {
        let mut execution = Execution {
            history,
            versions,
            reads,
            model,
            reads_of: HashMap::new(),
            installs_of: HashMap::new(),
            current: HashMap::new(),
            waiting: HashMap::new(),
            free: Vec::new(),
            installing: BinaryHeap::new(),
        };
        if model.has_anti_dependencies() {
            for (number, read) in (0..).zip(reads) {
                let (point, _) = execution.points_of(read.transaction);
                execution.reads_of.entry(point).or_default().push(number);
                execution.add_key(read.key);
            }
        }
        execution
    }

    fn add_key(&mut self, key: u32) {
        let chain = &self.versions.keys[key as usize].chain;
        if self.current.insert(key, chain[0]).is_some() {
            return;
        }
        for version in &chain[1..] {
            let (_, point) = self.points_of(self.versions.version(*version).writer);
            self.installs_of.entry(point).or_default().push(*version);
        }
    }

    /// Where a transaction reads, and where it installs.
    fn points_of(&self, transaction: u32) -> (u32, u32) {
        match self.model.is_snapshot() {
            true => (2 * transaction, 2 * transaction + 1),
            false => (transaction, transaction),
        }
    }

    /// Runs all points of `graph`.
    pub fn run(mut self, graph: &Graph) -> Ran {
        let mut entering = graph.entering();
        for (point, _) in (0..).zip(&entering).filter(|(_, before)| **before == 0) {
            self.make_ready(point);
        }
        let mut ran = 0;
        while let Some(point) = self.next() {
            ran += 1;
            self.install(point);
            for (after, _) in graph.leaving(point) {
                entering[*after as usize] -= 1;
                if entering[*after as usize] == 0 {
                    self.make_ready(*after);
                }
            }
        }
        if ran == graph.nodes() {
            return Ran::ToTheEnd;
        }
        // Every cycle is one whatever waits; waiting tells nothing where there is a cycle.
        if has_cycle(graph) {
            return Ran::IntoCycle;
        }
        let waiting = self.waiting.values().flatten();
        let point = waiting.min().expect("all others ran");
        let read = self.unexplained(*point).expect("it waits");
        let current = self.current[&self.reads[read].key];
        Ran::IntoPresent {
            read,
            place: self.versions.version(current).place,
        }
    }

    /// The next point, taken from those that are ready.
    fn next(&mut self) -> Option<u32> {
        if let Some(point) = self.free.pop() {
            return Some(point);
        }
        while let Some(Reverse((_, point))) = self.installing.pop() {
            // What was absent when it became ready may be present now.
            match self.unexplained(point) {
                None => return Some(point),
                Some(read) => self.wait(point, read),
            }
        }
        None
    }

    fn make_ready(&mut self, point: u32) {
        if let Some(read) = self.unexplained(point) {
            self.wait(point, read);
        } else if self.installs_of.contains_key(&point) {
            let transaction = match self.model.is_snapshot() {
                true => point / 2,
                false => point,
            };
            let transaction = &self.history.transactions[transaction as usize];
            let rank = transaction.timestamp().unwrap_or(transaction.end);
            self.installing.push(Reverse((rank, point)));
        } else {
            self.free.push(point);
        }
    }

    fn wait(&mut self, point: u32, read: usize) {
        let key = self.reads[read].key;
        self.waiting.entry(key).or_default().push(point);
    }

    /// A read of the point whose key is present.
    fn unexplained(&self, point: u32) -> Option<usize> {
        let mut reads = self.reads_of.get(&point)?.iter().map(|read| *read as usize);
        reads.find(|read| {
            let current = self.current[&self.reads[*read].key];
            self.versions.version(current).value.is_some()
        })
    }

    fn install(&mut self, point: u32) {
        let Some(installs) = self.installs_of.remove(&point) else {
            return;
        };
        // All at once: no reader may run between two versions of one commit.
        for number in &installs {
            let version = self.versions.version(*number);
            self.current.insert(version.key, *number);
        }
        for number in installs {
            let version = self.versions.version(number);
            if version.value.is_none() {
                for waiting in self.waiting.remove(&version.key).unwrap_or_default() {
                    self.make_ready(waiting);
                }
            }
        }
    }
}

fn has_cycle(graph: &Graph) -> bool {
    let mut entering = graph.entering();
    let mut ready: Vec<u32> = (0..graph.nodes() as u32)
        .filter(|node| entering[*node as usize] == 0)
        .collect();
    let mut removed = 0;
    while let Some(node) = ready.pop() {
        removed += 1;
        for (after, _) in graph.leaving(node) {
            entering[*after as usize] -= 1;
            if entering[*after as usize] == 0 {
                ready.push(*after);
            }
        }
    }
    removed < graph.nodes()
}
