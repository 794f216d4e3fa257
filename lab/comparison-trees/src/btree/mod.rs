//! A B+-tree of fanout 15 as the paper's last steps have it: for any number of threads, with or
//! without prefetching of whole nodes, and with or without a permutation in its leaves.
//!
//! Nodes hold the first 16 bytes of each key (`Slot`) or exactly 8 (`Fixed`); a longer key's
//! end lies elsewhere, a cache miss per comparison: what Fig. 9 is about. Search is linear, as
//! in the paper.
//!
//! Concurrency is Masstree's (§4.4–4.6): version words, readers that write nothing and validate
//! hand over hand, insertions retried at the node and splits from the root, one latch for a write
//! without a split. Two things differ. A writer splits a full interior node as it comes by, so
//! that the parent of a node that splits has room: splits latch from the top, two levels at most,
//! and nodes need no links to parents and siblings. And removal leaves nodes as empty as they
//! become, so that no node ever leaves the tree.

mod nodes;
mod order;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_memory::prefetch_lines;
use hedgerow_sync::{Version, VersionWord};

use self::nodes::{Interior, Leaf};
use self::order::WIDTH;
use super::arena::Arena;
use super::key::{NodeKey, Probe, Tails};

/// The tree; see the module.
pub struct BTree<K, const PREFETCH: bool, const PERMUTER: bool> {
    /// The levels of interior nodes above, the root's position below.
    root: AtomicU64,
    interiors: Arena<Interior<K>>,
    leaves: Arena<Leaf<K>>,
    tails: Tails,
}

impl<K: NodeKey, const PREFETCH: bool, const PERMUTER: bool> Default
    for BTree<K, PREFETCH, PERMUTER>
{
    fn default() -> Self {
        let leaves = Arena::default();
        Self {
            root: AtomicU64::new(u64::from(leaves.take())),
            interiors: Arena::default(),
            leaves,
            tails: Tails::default(),
        }
    }
}

/// A node as a descent met it.
#[derive(Clone, Copy)]
struct Met {
    at: u32,
    version: Version,
}

/// Where a descent ended.
struct Descent {
    leaf: Met,
    /// `None` where the leaf is the root.
    parent: Option<Met>,
}

/// Asks for all lines of a node at once: seven or eight with 16-byte keys, up to five with 8-byte
/// ones.
#[inline(always)]
fn prefetch<N>(node: &N) {
    if size_of::<N>() > 5 * 64 {
        prefetch_lines::<8, _>(std::ptr::from_ref(node));
    } else {
        prefetch_lines::<5, _>(std::ptr::from_ref(node));
    }
}

impl<K: NodeKey, const PREFETCH: bool, const PERMUTER: bool> BTree<K, PREFETCH, PERMUTER> {
    /// The version word of a node so many levels above the leaves.
    #[inline(always)]
    fn version(&self, level: u32, at: u32) -> &VersionWord {
        if level == 0 {
            let leaf = self.leaves.get(at);
            if PREFETCH {
                prefetch(leaf);
            }
            return &leaf.version;
        }
        let node = self.interiors.get(at);
        if PREFETCH {
            prefetch(node);
        }
        &node.version
    }

    /// The root and how many levels above the leaves it is.
    #[inline(always)]
    fn root(&self) -> (u32, Met) {
        loop {
            let root = self.root.load(Acquire);
            let (level, at) = ((root >> 32) as u32, root as u32);
            let version = self.version(level, at).stable();
            // Else it may have split, and be only the left half by now.
            if self.root.load(Acquire) == root {
                return (level, Met { at, version });
            }
        }
    }

    /// The leaf where a key belongs. A writer splits full interior nodes on the way.
    #[inline(always)]
    fn descend<const WRITES: bool>(&self, probe: &Probe<'_>) -> Descent {
        'root: loop {
            let (mut level, mut met) = self.root();
            let mut parent = None;
            while level > 0 {
                let node = self.interiors.get(met.at);
                let child = loop {
                    let at = node.child(probe, &self.tails);
                    let version = self.version(level - 1, at).stable();
                    if node.version.validate(met.version) {
                        break Met { at, version };
                    }
                    let now = node.version.stable();
                    if now.split_since(met.version) {
                        continue 'root;
                    }
                    met.version = now;
                };
                if WRITES && node.is_full() {
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
    fn latch_parent(&self, parent: Option<Met>) -> Result<Option<&Interior<K>>, ()> {
        let Some(met) = parent else {
            return Ok(None);
        };
        let node = self.interiors.get(met.at);
        node.version.lock();
        if node.version.validate(met.version) {
            return Ok(Some(node));
        }
        node.version.unlock();
        Err(())
    }

    /// Hangs a new right neighbour, behind a key, into the latched parent, or into a new root
    /// above the node of this level.
    fn hang(
        &self,
        parent: Option<&Interior<K>>,
        level: u32,
        left: u32,
        (key, right): (K::Key, u32),
    ) {
        if let Some(parent) = parent {
            parent.version.mark_inserting();
            parent.insert(left, key, right);
            return;
        }
        let at = self.interiors.take();
        let root = self.interiors.get(at);
        root.plant(left);
        root.insert(left, key, right);
        let word = u64::from(level + 1) << 32 | u64::from(at);
        self.root.store(word, Release);
    }

    /// Splits a full interior node, unless it or its parent has changed meanwhile.
    #[cold]
    fn split_interior(&self, level: u32, parent: Option<Met>, met: Met) {
        let Ok(parent) = self.latch_parent(parent) else {
            return;
        };
        let node = self.interiors.get(met.at);
        node.version.lock();
        if node.version.validate(met.version) {
            let at = self.interiors.take();
            let right = self.interiors.get(at);
            right.version.lock();
            right.version.mark_splitting();
            node.version.mark_splitting();
            let key = node.split(right);
            self.hang(parent, level, met.at, (key, at));
            right.version.unlock();
        }
        node.version.unlock();
        if let Some(parent) = parent {
            parent.version.unlock();
        }
    }

    /// Puts a key into a leaf that was full, and splits it; whether that was done, which it is not
    /// if the leaf or its parent has changed meanwhile.
    #[inline(never)]
    fn put_into_full(&self, descent: &Descent, probe: &Probe<'_>, value: u64) -> bool {
        let Ok(parent) = self.latch_parent(descent.parent) else {
            return false;
        };
        let leaf = self.leaves.get(descent.leaf.at);
        let now = leaf.version.lock();
        let order = leaf.order();
        let (rank, found) = leaf.rank(order, probe, &self.tails);
        let splits = !now.split_since(descent.leaf.version) && !found && order.count() == WIDTH;
        if splits {
            let at = self.leaves.take();
            let right = self.leaves.get(at);
            right.version.lock();
            right.version.mark_splitting();
            leaf.version.mark_splitting();
            let kept = leaf.split(right);
            let key = K::of(probe, &self.tails);
            if rank > kept {
                right.insert::<PERMUTER>(rank - kept, key, value);
            } else {
                leaf.insert::<PERMUTER>(rank, key, value);
            }
            self.hang(parent, 0, descent.leaf.at, (right.first_key(), at));
            right.version.unlock();
        }
        leaf.version.unlock();
        if let Some(parent) = parent {
            parent.version.unlock();
        }
        splits
    }

    /// Latches the leaf where a key belongs.
    fn latch_leaf<const WRITES: bool>(&self, probe: &Probe<'_>) -> (&Leaf<K>, Descent) {
        loop {
            let descent = self.descend::<WRITES>(probe);
            let leaf = self.leaves.get(descent.leaf.at);
            if !leaf.version.lock().split_since(descent.leaf.version) {
                return (leaf, descent);
            }
            leaf.version.unlock();
        }
    }
}

impl<K: NodeKey, const PREFETCH: bool, const PERMUTER: bool> Map for BTree<K, PREFETCH, PERMUTER> {
    fn put(&self, key: &[u8], value: u64) {
        let probe = Probe::new(key);
        loop {
            let (leaf, descent) = self.latch_leaf::<true>(&probe);
            let order = leaf.order();
            let (rank, found) = leaf.rank(order, &probe, &self.tails);
            let has_room = order.count() < WIDTH;
            if found {
                leaf.values[order.slot(rank)].store(value, Relaxed);
            } else if has_room {
                let key = K::of(&probe, &self.tails);
                leaf.insert::<PERMUTER>(rank, key, value);
            }
            leaf.version.unlock();
            if found || has_room || self.put_into_full(&descent, &probe, value) {
                return;
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let probe = Probe::new(key);
        loop {
            let met = self.descend::<false>(&probe).leaf;
            let leaf = self.leaves.get(met.at);
            let mut version = met.version;
            while !version.split_since(met.version) {
                let order = leaf.order();
                let (rank, found) = leaf.rank(order, &probe, &self.tails);
                let value = found.then(|| leaf.values[order.slot(rank)].load(Relaxed));
                if leaf.version.validate(version) {
                    return value;
                }
                version = leaf.version.stable();
            }
        }
    }

    fn remove(&self, key: &[u8]) -> bool {
        let probe = Probe::new(key);
        let (leaf, _) = self.latch_leaf::<false>(&probe);
        let (rank, found) = leaf.rank(leaf.order(), &probe, &self.tails);
        if found {
            leaf.remove::<PERMUTER>(rank);
        }
        leaf.version.unlock();
        found
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
