//! A partial-key B+-tree (Bohannon, McIlroy, Rastogi, "Main-Memory Index Structures with
//! Fixed-Size Partial Keys", SIGMOD 2001), which the Masstree paper compares Masstree with (§4.1).
//!
//! A node holds of each key, beside a link to its record, only where it first differs from the key
//! before it and the four bytes from there on. A search remembers where the key looked for differs
//! from the last key below it. Mostly that tells how the next one compares, else these four bytes
//! do; only where they are equal it must look at the whole key. So nodes are narrow for keys of
//! any length: 20 keys of a leaf are four cache lines, 18 of an interior node five, and both are
//! prefetched whole. The first key of a node is compared with the node's bound, the separator to
//! its left, which a search has come by. Where keys differ is counted in bytes, not in bits.
//!
//! Concurrency is that of the B-trees beside it: version words, readers that write nothing, full
//! interior nodes split on the way down. A record is one key with its value, written before it is
//! in the tree. Removal marks it.

mod entries;

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_memory::prefetch_lines;
use hedgerow_sync::{Version, VersionWord};

use self::entries::{Entries, Found, NOWHERE, Partial};
use super::arena::{Arena, NONE};
use super::binary::Pair;
use super::key::{ByIntegers, Probe, Tails};

/// Keys of a leaf and of an interior node.
const LEAF_KEYS: usize = 20;
const INTERIOR_KEYS: usize = 18;

#[repr(C, align(64))]
struct Leaf(Entries<LEAF_KEYS>);

#[repr(C, align(64))]
struct Interior {
    entries: Entries<INTERIOR_KEYS>,
    children: [AtomicU32; INTERIOR_KEYS + 1],
}

/// Two to a line.
#[derive(Default)]
#[repr(align(32))]
struct Record(Pair<ByIntegers>);

const _: () = {
    assert!(size_of::<Leaf>() == 4 * 64 && size_of::<Interior>() == 5 * 64);
    assert!(size_of::<Record>() == 32);
};

impl Default for Leaf {
    fn default() -> Self {
        Self(Entries::new(true))
    }
}

impl Default for Interior {
    fn default() -> Self {
        Self {
            entries: Entries::new(false),
            children: Default::default(),
        }
    }
}

/// The tree; see the module.
pub struct PartialKeyTree {
    /// The levels of interior nodes above, the root's position below.
    root: AtomicU64,
    interiors: Arena<Interior>,
    leaves: Arena<Leaf>,
    records: Arena<Record>,
    tails: Tails,
}

impl Default for PartialKeyTree {
    fn default() -> Self {
        let leaves = Arena::default();
        Self {
            root: AtomicU64::new(u64::from(leaves.take())),
            interiors: Arena::default(),
            leaves,
            records: Arena::default(),
            tails: Tails::default(),
        }
    }
}

/// A node as a descent met it.
#[derive(Clone, Copy)]
struct Met {
    at: u32,
    version: Version,
    /// Where the key looked for differs from the node's bound.
    differs_at: usize,
}

/// Where a descent ended.
struct Descent {
    leaf: Met,
    /// `None` where the leaf is the root.
    parent: Option<Met>,
}

impl PartialKeyTree {
    /// The version word of a node so many levels above the leaves, whose lines it asks for.
    #[inline(always)]
    fn version(&self, level: u32, at: u32) -> &VersionWord {
        if level == 0 {
            let leaf = self.leaves.get(at);
            prefetch_lines::<4, _>(std::ptr::from_ref(leaf));
            return &leaf.0.version;
        }
        let node = self.interiors.get(at);
        prefetch_lines::<5, _>(std::ptr::from_ref(node));
        &node.entries.version
    }

    /// The root and how many levels above the leaves it is.
    #[inline(always)]
    fn root(&self, key: &[u8]) -> (u32, Met) {
        let differs_at = if key.is_empty() { NOWHERE } else { 0 };
        loop {
            let root = self.root.load(Acquire);
            let (level, at) = ((root >> 32) as u32, root as u32);
            let version = self.version(level, at).stable();
            // Else it may have split, and be only the left half by now.
            if self.root.load(Acquire) == root {
                let met = Met {
                    at,
                    version,
                    differs_at,
                };
                return (level, met);
            }
        }
    }

    /// How a key compares with that of a record, and where they differ.
    #[inline]
    fn compare(&self, key: &[u8], record: u32) -> (Ordering, usize) {
        // A reader beside a writer may see a place that no record was ever in.
        let record = self.records.get_run(record, 1).and_then(|run| run.first());
        let different = record.and_then(|record| record.0.key.difference(key, &self.tails));
        different.unwrap_or((Ordering::Equal, NOWHERE))
    }

    #[inline(always)]
    fn search<const WIDTH: usize>(
        &self,
        entries: &Entries<WIDTH>,
        key: &[u8],
        differs_at: usize,
    ) -> Found {
        entries.search(key, differs_at, |record| self.compare(key, record))
    }

    /// The leaf where a key belongs. A writer splits full interior nodes on the way.
    #[inline(always)]
    fn descend<const WRITES: bool>(&self, key: &[u8]) -> Descent {
        'root: loop {
            let (mut level, mut met) = self.root(key);
            let mut parent = None;
            while level > 0 {
                let node = self.interiors.get(met.at);
                let entries = &node.entries;
                let child = loop {
                    let found = self.search(entries, key, met.differs_at);
                    let (rank, differs_at) = match found.is_here {
                        true => (found.rank + 1, NOWHERE),
                        false => (found.rank, found.after_lower),
                    };
                    let at = node.children[rank].load(Acquire);
                    let version = self.version(level - 1, at).stable();
                    if entries.version.validate(met.version) {
                        break Met {
                            at,
                            version,
                            differs_at,
                        };
                    }
                    let now = entries.version.stable();
                    if now.split_since(met.version) {
                        continue 'root;
                    }
                    met.version = now;
                };
                if WRITES && entries.is_full() {
                    self.split_interior(level, parent, met);
                    continue 'root;
                }
                parent = Some(met);
                met = child;
                level -= 1;
            }
            return Descent { leaf: met, parent };
        }
    }

    /// Latches the parent of a node that is to split; `Err` if it has changed meanwhile. It has
    /// room, as a writer does not pass by full nodes.
    fn latch_parent(&self, parent: Option<Met>) -> Result<Option<&Interior>, ()> {
        let Some(met) = parent else {
            return Ok(None);
        };
        let node = self.interiors.get(met.at);
        node.entries.version.lock();
        if node.entries.version.validate(met.version) {
            return Ok(Some(node));
        }
        node.entries.version.unlock();
        Err(())
    }

    /// Hangs a new right neighbour, whose bound is a record's key, into the latched parent, or
    /// into a new root above the node of this level.
    fn hang(&self, parent: Option<&Interior>, level: u32, left: u32, (bound, right): (u32, u32)) {
        let new_root = parent.is_none().then(|| self.interiors.take());
        let node = match (parent, new_root) {
            (Some(parent), _) => {
                parent.entries.version.mark_inserting();
                parent
            }
            (None, root) => {
                let root = self.interiors.get(root.unwrap_or(NONE));
                root.children[0].store(left, Release);
                root
            }
        };
        let mut children = node.children.iter();
        let rank = children.position(|child| child.load(Relaxed) == left);
        let rank = rank.expect("the parent of a node that splits has it as a child");
        let count = node.entries.count();
        for at in (rank + 1..=count).rev() {
            let child = node.children[at].load(Relaxed);
            node.children[at + 1].store(child, Release);
        }
        node.children[rank + 1].store(right, Release);
        let key = self.key_of(bound);
        let before = match rank.checked_sub(1) {
            Some(before) => node.entries.record(before),
            None => node.entries.bound(),
        };
        let differs_at = match before {
            NONE if key.is_empty() => NOWHERE,
            NONE => 0,
            before => self.compare(&key, before).1,
        };
        self.insert(&node.entries, &key, rank, differs_at, bound);
        if let Some(root) = new_root {
            let word = u64::from(level + 1) << 32 | u64::from(root);
            self.root.store(word, Release);
        }
    }

    /// Puts a record's key at a rank of a latched and marked node with room, and compares the key
    /// behind with it.
    fn insert<const WIDTH: usize>(
        &self,
        entries: &Entries<WIDTH>,
        key: &[u8],
        rank: usize,
        differs_at: usize,
        record: u32,
    ) {
        let rest = key.get(differs_at..).unwrap_or_default();
        entries.insert(rank, Partial::new(differs_at, rest), record);
        if rank + 1 < entries.count() {
            let next = entries.record(rank + 1);
            let (_, at) = self.compare(key, next);
            let next = self.key_of(next);
            let rest = next.get(at..).unwrap_or_default();
            entries.set_partial(rank + 1, Partial::new(at, rest));
        }
    }

    fn key_of(&self, record: u32) -> Vec<u8> {
        self.records.get(record).0.key.bytes(&self.tails)
    }

    /// Splits a full interior node, unless it or its parent has changed meanwhile.
    #[cold]
    fn split_interior(&self, level: u32, parent: Option<Met>, met: Met) {
        let Ok(parent) = self.latch_parent(parent) else {
            return;
        };
        let node = self.interiors.get(met.at);
        node.entries.version.lock();
        if node.entries.version.validate(met.version) {
            let at = self.interiors.take();
            let right = self.interiors.get(at);
            right.entries.version.lock();
            right.entries.version.mark_splitting();
            node.entries.version.mark_splitting();
            let left = INTERIOR_KEYS / 2;
            let bound = node.entries.record(left);
            right.entries.begin_at(bound);
            node.entries.split(left + 1, left, &right.entries);
            for rank in left + 1..=INTERIOR_KEYS {
                let child = node.children[rank].load(Relaxed);
                right.children[rank - left - 1].store(child, Release);
            }
            self.hang(parent, level, met.at, (bound, at));
            right.entries.version.unlock();
        }
        node.entries.version.unlock();
        if let Some(parent) = parent {
            parent.entries.version.unlock();
        }
    }

    /// Splits a full leaf, unless it or its parent has changed meanwhile.
    #[inline(never)]
    fn split_leaf(&self, descent: &Descent) {
        let Ok(parent) = self.latch_parent(descent.parent) else {
            return;
        };
        let leaf = &self.leaves.get(descent.leaf.at).0;
        let now = leaf.version.lock();
        if !now.split_since(descent.leaf.version) && leaf.is_full() {
            let at = self.leaves.take();
            let right = &self.leaves.get(at).0;
            right.version.lock();
            right.version.mark_splitting();
            leaf.version.mark_splitting();
            let left = LEAF_KEYS / 2;
            let bound = leaf.record(left);
            right.begin_at(bound);
            leaf.split(left, left, right);
            // The first key on the right is the bound.
            right.set_partial(0, Partial::new(NOWHERE, &[]));
            self.hang(parent, 0, descent.leaf.at, (bound, at));
            right.version.unlock();
        }
        leaf.version.unlock();
        if let Some(parent) = parent {
            parent.entries.version.unlock();
        }
    }

    /// The record of a key, if it was ever here.
    #[inline(always)]
    fn found(&self, key: &[u8]) -> Option<&Record> {
        loop {
            let met = self.descend::<false>(key).leaf;
            let leaf = &self.leaves.get(met.at).0;
            let mut version = met.version;
            while !version.split_since(met.version) {
                let found = self.search(leaf, key, met.differs_at);
                let at = found.is_here.then(|| leaf.record(found.rank));
                if leaf.version.validate(version) {
                    return at.map(|at| self.records.get(at));
                }
                version = leaf.version.stable();
            }
        }
    }
}

impl Map for PartialKeyTree {
    fn put(&self, key: &[u8], value: u64) {
        loop {
            let descent = self.descend::<true>(key);
            let leaf = &self.leaves.get(descent.leaf.at).0;
            if leaf.version.lock().split_since(descent.leaf.version) {
                leaf.version.unlock();
                continue;
            }
            let found = self.search(leaf, key, descent.leaf.differs_at);
            let has_room = !leaf.is_full();
            if found.is_here {
                self.records.get(leaf.record(found.rank)).0.replace(value);
            } else if has_room {
                let at = self.records.take();
                self.records
                    .get(at)
                    .0
                    .fill(&Probe::new(key), value, &self.tails);
                leaf.version.mark_inserting();
                self.insert(leaf, key, found.rank, found.after_lower, at);
            }
            leaf.version.unlock();
            if found.is_here || has_room {
                return;
            }
            self.split_leaf(&descent);
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
