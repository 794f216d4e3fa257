//! The "4-tree": three keys and four children to a node, unbalanced, for any number of threads.
//!
//! A node is one cache line, and holds all that a descent needs as a rule: the children and the
//! first 8 bytes of each key. A record of half a line has the rest, for keys whose first 8 bytes
//! are equal, and the value; the paper has the records of a node in a second line of its own. A
//! node fills up before it gets children.
//!
//! It is lock-free. A record is written before it is in the tree, then comes in by one
//! compare-and-swap: of a node's first free place, or of the empty link to a child, which then
//! begins with this record. Keys of a node stay in the places that they came to. The copy of a
//! key's first bytes follows; whoever meets a record before that makes the copy itself, so nobody
//! waits. Nodes and records never leave: a search never starts again.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;

use super::arena::{Arena, NONE};
use super::binary::Pair;
use super::key::{ByIntegers, NodeKey, Probe, Tails};

const KEYS: usize = 3;

#[derive(Default)]
#[repr(C, align(64))]
struct Node {
    children: [AtomicU32; KEYS + 1],
    /// The first 8 bytes of the keys whose bit is set in `copied`.
    first: [AtomicU64; KEYS],
    /// In the order of arrival.
    records: [AtomicU32; KEYS],
    copied: AtomicU32,
}

/// Two to a line.
#[derive(Default)]
#[repr(align(32))]
struct Record(Pair<ByIntegers>);

const _: () = assert!(size_of::<Node>() == 64 && size_of::<Record>() == 32);

/// What a node has for a key.
enum Place<'a> {
    /// The key.
    Here(&'a Record),
    /// No such key, and this place of the node free.
    Free(usize),
    /// No such key, and no free place: it is below this child, if anywhere.
    Below(&'a AtomicU32),
}

/// A tree of fanout 4 with integer comparison ("4-tree").
pub struct FourTree {
    root: u32,
    nodes: Arena<Node>,
    records: Arena<Record>,
    tails: Tails,
}

impl Default for FourTree {
    fn default() -> Self {
        let nodes = Arena::default();
        Self {
            root: nodes.take(),
            nodes,
            records: Arena::default(),
            tails: Tails::default(),
        }
    }
}

impl FourTree {
    #[inline(always)]
    fn place<'a>(&'a self, node: &'a Node, probe: &Probe<'_>) -> Place<'a> {
        let copied = node.copied.load(Acquire);
        let mut lower = 0;
        for (place, at) in node.records.iter().enumerate() {
            let mut order = Ordering::Equal;
            if copied & 1 << place != 0 {
                order = probe.first_word().cmp(&node.first[place].load(Relaxed));
            }
            if order == Ordering::Equal {
                let position = at.load(Acquire);
                if position == NONE {
                    return Place::Free(place);
                }
                if copied & 1 << place == 0 {
                    self.copy(node, place, position);
                }
                let record = self.records.get(position);
                order = record.0.key.compare(probe, &self.tails);
                if order == Ordering::Equal {
                    return Place::Here(record);
                }
            }
            lower += usize::from(order == Ordering::Greater);
        }
        Place::Below(&node.children[lower])
    }

    /// Copies a record's first bytes to its node. Whoever does it writes the same.
    fn copy(&self, node: &Node, place: usize, record: u32) {
        let first = self.records.get(record).0.key.first_word();
        node.first[place].store(first, Relaxed);
        node.copied.fetch_or(1 << place, Release);
    }

    /// The key's record, if it was ever here.
    #[inline(always)]
    fn found(&self, key: &[u8]) -> Option<&Record> {
        let probe = Probe::new(key);
        let mut at = self.root;
        loop {
            match self.place(self.nodes.get(at), &probe) {
                Place::Here(record) => return Some(record),
                Place::Free(_) => return None,
                Place::Below(child) => at = child.load(Acquire),
            }
            if at == NONE {
                return None;
            }
        }
    }

    /// A record that no other thread can see.
    fn record(&self, probe: &Probe<'_>, value: u64) -> u32 {
        let at = self.records.take();
        self.records.get(at).0.fill(probe, value, &self.tails);
        at
    }

    /// A node of one record that no other thread can see.
    fn leaf(&self, record: u32) -> u32 {
        let at = self.nodes.take();
        let node = self.nodes.get(at);
        node.records[0].store(record, Relaxed);
        self.copy(node, 0, record);
        at
    }
}

/// Fills an empty link, unless somebody else did.
fn fill(link: &AtomicU32, with: u32) -> bool {
    link.compare_exchange(NONE, with, Release, Relaxed).is_ok()
}

impl Map for FourTree {
    fn put(&self, key: &[u8], value: u64) {
        let probe = Probe::new(key);
        // What was made for the key in vain stays unused.
        let (mut record, mut leaf) = (NONE, NONE);
        let mut at = self.root;
        loop {
            let node = self.nodes.get(at);
            let place = self.place(node, &probe);
            if let Place::Below(child) = place {
                let child = child.load(Acquire);
                if child != NONE {
                    at = child;
                    continue;
                }
            }
            if let Place::Here(record) = place {
                return record.0.replace(value);
            }
            if record == NONE {
                record = self.record(&probe, value);
            }
            // Who is too late looks at this node again.
            match place {
                Place::Free(place) if fill(&node.records[place], record) => {
                    return self.copy(node, place, record);
                }
                Place::Below(child) => {
                    if leaf == NONE {
                        leaf = self.leaf(record);
                    }
                    if fill(child, leaf) {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.found(key)?.0.value()
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.found(key).is_some_and(|record| record.0.remove())
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
