//! What a thread's last prefetch found, for the writes that follow it.
//!
//! A batch of writes is prefetched first: all its keys go down the tree together, a level at a
//! time, so that their cache misses overlap. The writes come one by one afterwards, in the same
//! order, and each would go down the same path again. So the thread remembers the leaf of each key,
//! and the version snapshot of the node above it. A write that finds its key here latches that leaf
//! and validates the snapshot, as at the end of any descent. Where the node above was changed
//! meanwhile, say as an earlier write of the batch split a leaf below it, the write goes down from
//! the root.
//!
//! A page number and a snapshot keep nothing alive: what they name may have been evicted, or given
//! back and used again. Each of these changes the version of the node above the leaf.

use std::cell::RefCell;
use std::ops::Range;

use super::descend::Leaf;

/// Keys that are remembered: a prefetch of more leaves the first of them to descents.
const MOST: usize = 64;
/// Keys longer than this are left to descents.
const MOST_KEY_BYTES: usize = 256;
/// Writes of other keys after which all is forgotten.
const MOST_OTHERS: u32 = 4;

thread_local! {
    static PREFETCHED: RefCell<PrefetchedLeaves> = const { RefCell::new(PrefetchedLeaves::new()) };
}

/// A key, and the leaf that covers it.
struct KeyLeaf {
    /// Where its bytes are.
    key: Range<usize>,
    leaf: Leaf,
}

/// Leaves of one tree by the keys that were prefetched, in their order.
struct PrefetchedLeaves {
    /// The tree's number.
    tree: u64,
    bytes: Vec<u8>,
    leaves: Vec<KeyLeaf>,
    /// The first that no write has come for.
    next: usize,
    /// Writes of other keys since the last that was found.
    others: u32,
}

impl PrefetchedLeaves {
    const fn new() -> Self {
        Self {
            tree: 0,
            bytes: Vec::new(),
            leaves: Vec::new(),
            next: 0,
            others: 0,
        }
    }

    fn forget(&mut self) {
        self.bytes.clear();
        self.leaves.clear();
        (self.next, self.others) = (0, 0);
    }

    fn add(&mut self, key: &[u8], leaf: Leaf) {
        if self.leaves.len() == MOST || key.len() > MOST_KEY_BYTES {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key = start..self.bytes.len();
        self.leaves.push(KeyLeaf { key, leaf });
    }

    /// The leaf of a key, which is forgotten with all before it.
    #[inline(always)]
    fn take(&mut self, tree: u64, key: &[u8]) -> Option<Leaf> {
        if self.next == self.leaves.len() || self.tree != tree {
            return None;
        }
        let left = &self.leaves[self.next..];
        let found = left
            .iter()
            .position(|of| self.bytes[of.key.clone()] == *key);
        let Some(found) = found else {
            self.others += 1;
            if self.others == MOST_OTHERS {
                self.forget();
            }
            return None;
        };
        self.next += found + 1;
        self.others = 0;
        Some(self.leaves[self.next - 1].leaf)
    }
}

/// Forgets what the thread remembers, as it prefetches keys of a tree.
pub(super) fn restart(tree: u64) {
    with(|prefetched| {
        prefetched.forget();
        prefetched.tree = tree;
    });
}

/// Remembers the leaves of further keys, as far as they were found.
pub(super) fn add(keys: &[&[u8]], leaves: &[Option<Leaf>]) {
    with(|prefetched| {
        for (key, leaf) in keys.iter().zip(leaves) {
            if let Some(leaf) = leaf {
                prefetched.add(key, *leaf);
            }
        }
    });
}

/// The leaf of a key as it was prefetched, once. Whoever latches it must validate the snapshot of
/// the node above.
#[inline(always)]
pub(super) fn take(tree: u64, key: &[u8]) -> Option<Leaf> {
    with(|prefetched| prefetched.take(tree, key)).flatten()
}

/// Runs on what the thread remembers; a thread that is ending remembers nothing.
#[inline(always)]
fn with<R>(run: impl FnOnce(&mut PrefetchedLeaves) -> R) -> Option<R> {
    let run = |prefetched: &RefCell<PrefetchedLeaves>| run(&mut prefetched.borrow_mut());
    PREFETCHED.try_with(run).ok()
}
