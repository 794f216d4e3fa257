//! What a thread's last prefetch found, for the writes that follow it.
//!
//! A batch of writes is prefetched first: all its keys go down the tree together, a level at a
//! time, so that their cache misses overlap. The writes come one by one afterwards, in the same
//! order, and each would go down the same path again. So the thread remembers the leaf of each key,
//! the version snapshot of the node above it, and the index of the record that the prefetch found
//! likely. A write that finds its key here latches that leaf and validates the snapshot, as at the
//! end of any descent, and looks at the index before it searches. Where the node above was changed
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
    static PREFETCHED: RefCell<PrefetchedKeys> = const { RefCell::new(PrefetchedKeys::new()) };
}

/// Where the record of a key is, or would be.
#[derive(Clone, Copy)]
pub(super) struct LikelyPlace {
    /// The leaf that covers the key.
    pub leaf: Leaf,
    /// The index of its record there, unless the leaf changed; none if a search has to tell.
    pub index: Option<usize>,
}

/// A key that was prefetched.
struct PrefetchedKey {
    /// Where its bytes are.
    bytes: Range<usize>,
    place: LikelyPlace,
}

/// Places in one tree by the keys that were prefetched, in their order.
struct PrefetchedKeys {
    /// The tree's number.
    tree: u64,
    bytes: Vec<u8>,
    keys: Vec<PrefetchedKey>,
    /// The first that no write has come for.
    next: usize,
    /// Writes of other keys since the last that was found.
    others: u32,
}

impl PrefetchedKeys {
    const fn new() -> Self {
        Self {
            tree: 0,
            bytes: Vec::new(),
            keys: Vec::new(),
            next: 0,
            others: 0,
        }
    }

    fn forget(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        (self.next, self.others) = (0, 0);
    }

    fn add(&mut self, key: &[u8], place: LikelyPlace) {
        if self.keys.len() == MOST || key.len() > MOST_KEY_BYTES {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let bytes = start..self.bytes.len();
        self.keys.push(PrefetchedKey { bytes, place });
    }

    /// The place of a key, which is forgotten with all before it.
    #[inline(always)]
    fn take(&mut self, tree: u64, key: &[u8]) -> Option<LikelyPlace> {
        if self.next == self.keys.len() || self.tree != tree {
            return None;
        }
        let left = &self.keys[self.next..];
        let found = left
            .iter()
            .position(|other| self.bytes[other.bytes.clone()] == *key);
        let Some(found) = found else {
            self.others += 1;
            if self.others == MOST_OTHERS {
                self.forget();
            }
            return None;
        };
        self.next += found + 1;
        self.others = 0;
        Some(self.keys[self.next - 1].place)
    }
}

/// Forgets what the thread remembers, as it prefetches keys of a tree.
pub(super) fn restart(tree: u64) {
    with(|prefetched| {
        prefetched.forget();
        prefetched.tree = tree;
    });
}

/// Remembers the places of further keys, as far as they were found.
pub(super) fn add<'k>(places: impl Iterator<Item = (&'k [u8], LikelyPlace)>) {
    with(|prefetched| {
        for (key, place) in places {
            prefetched.add(key, place);
        }
    });
}

/// The place of a key as it was prefetched, once. Whoever latches its leaf must validate the
/// snapshot of the node above.
#[inline(always)]
pub(super) fn take(tree: u64, key: &[u8]) -> Option<LikelyPlace> {
    with(|prefetched| prefetched.take(tree, key)).flatten()
}

/// Runs on what the thread remembers; a thread that is ending remembers nothing.
#[inline(always)]
fn with<R>(run: impl FnOnce(&mut PrefetchedKeys) -> R) -> Option<R> {
    let run = |prefetched: &RefCell<PrefetchedKeys>| run(&mut prefetched.borrow_mut());
    PREFETCHED.try_with(run).ok()
}
