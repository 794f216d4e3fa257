//! The version word of a tree node (Masstree, Fig. 3), in 64 bits.
//!
//! ```text
//!  63              32 31            8 7  6   5      4     3       2         1        0
//! ┌──────────────────┬───────────────┬─────┬──────┬─────┬───────┬─────────┬─────────┬──────┐
//! │ inserts (vinsert)│ splits(vsplit)│  0  │border│root │deleted│splitting│inserting│locked│
//! └──────────────────┴───────────────┴─────┴──────┴─────┴───────┴─────────┴─────────┴──────┘
//! ```
//!
//! A writer sets *locked*, then, before it makes a change that readers could see half done,
//! *inserting* or *splitting*; unlocking is one store that clears these bits and adds to the
//! counter that belongs to them. A reader waits until neither dirty bit is set
//! ([`VersionWord::stable`]), reads the node, and asks [`VersionWord::validate`]. The lock bit
//! alone does not count as a change: a latched node may be read.
//!
//! With 32 and 24 bits the counters cannot wrap around while a reader is between its two loads
//! (the paper's 32-bit word could, after 2²² inserts).
//!
//! Ordering, the trap of this field: an acquire *load* of the version does not keep the reads
//! before it from moving after it. `validate` therefore issues an acquire *fence* and then a
//! relaxed load; the writer's marks are followed by a release fence.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::word::Word;

const LOCKED: u64 = 1;
const INSERTING: u64 = 1 << 1;
const SPLITTING: u64 = 1 << 2;
const DELETED: u64 = 1 << 3;
const ROOT: u64 = 1 << 4;
const BORDER: u64 = 1 << 5;
const SPLIT_UNIT: u64 = 1 << 8;
const SPLIT_MASK: u64 = 0x00ff_ffff << 8;
const INSERT_UNIT: u64 = 1 << 32;
const DIRTY: u64 = INSERTING | SPLITTING;

/// A version snapshot: a node's version as a reader loaded it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

impl Version {
    /// Whether the node left the tree for good.
    #[inline(always)]
    pub fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// Whether the node is the root of its B+-tree.
    #[inline(always)]
    pub fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    /// Whether the node is a border node.
    #[inline(always)]
    pub fn is_border(self) -> bool {
        self.0 & BORDER != 0
    }

    /// Whether a writer held the latch.
    #[inline(always)]
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether a writer was in the middle of a change.
    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether responsibility for keys moved out of the node between the two versions.
    #[inline(always)]
    pub fn split_since(self, earlier: Version) -> bool {
        (self.0 ^ earlier.0) & (SPLIT_MASK | DELETED) != 0
    }
}

/// The version word itself.
#[repr(transparent)]
pub struct VersionWord<W: Word = AtomicU64>(W);

impl<W: Word> VersionWord<W> {
    /// The word of a new node, unlocked and clean.
    pub fn new(border: bool, root: bool) -> Self {
        let flags = if border { BORDER } else { 0 } | if root { ROOT } else { 0 };
        Self(W::new(flags))
    }

    /// The word of the right half of a split: latched and marked splitting from birth, so
    /// that a reader or writer that reaches it waits for the split to end.
    pub fn new_sibling(border: bool) -> Self {
        let flags = if border { BORDER } else { 0 };
        Self(W::new(flags | LOCKED | SPLITTING))
    }

    /// The word as it is, without waiting. Acquire.
    #[inline(always)]
    pub fn load(&self) -> Version {
        Version(self.0.load(Ordering::Acquire))
    }

    /// Waits until no change is under way and returns the version (`stableversion`, Fig. 4).
    #[inline(always)]
    pub fn stable(&self) -> Version {
        let version = self.load();
        if !version.is_dirty() {
            return version;
        }
        self.stable_slow()
    }

    #[cold]
    #[inline(never)]
    fn stable_slow(&self) -> Version {
        let mut attempts = 0;
        loop {
            let version = self.load();
            if !version.is_dirty() {
                return version;
            }
            W::pause(&mut attempts);
        }
    }

    /// Whether nothing but the lock bit changed since `snapshot`: then the reads made in between
    /// are consistent.
    #[inline(always)]
    #[must_use]
    pub fn validate(&self, snapshot: Version) -> bool {
        W::fence(Ordering::Acquire);
        (self.0.load(Ordering::Relaxed) ^ snapshot.0) & !LOCKED == 0
    }

    /// Takes the latch and returns the version, which then has the lock bit set.
    #[inline(always)]
    pub fn lock(&self) -> Version {
        let current = self.0.load(Ordering::Relaxed);
        if current & LOCKED == 0
            && self
                .0
                .compare_exchange_weak(
                    current,
                    current | LOCKED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok()
        {
            return Version(current | LOCKED);
        }
        self.lock_slow()
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) -> Version {
        let mut attempts = 0;
        loop {
            let current = self.0.load(Ordering::Relaxed);
            if current & LOCKED == 0
                && self
                    .0
                    .compare_exchange_weak(
                        current,
                        current | LOCKED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                return Version(current | LOCKED);
            }
            W::pause(&mut attempts);
        }
    }

    #[inline(always)]
    fn set(&self, bits: u64) {
        let current = self.0.load(Ordering::Relaxed);
        debug_assert!(current & LOCKED != 0, "marked without the latch");
        self.0.store(current | bits, Ordering::Relaxed);
        W::fence(Ordering::Release);
    }

    /// Marks that keys move within the node. The caller holds the latch.
    #[inline(always)]
    pub fn mark_inserting(&self) {
        self.set(INSERTING);
    }

    /// Marks that responsibility for keys leaves the node. The caller holds the latch.
    #[inline(always)]
    pub fn mark_splitting(&self) {
        self.set(SPLITTING);
    }

    /// Marks the node as gone; readers wait until it is unlocked and then start again.
    #[inline(always)]
    pub fn mark_deleted(&self) {
        self.set(DELETED | SPLITTING);
    }

    /// Makes the node a non-root; takes effect for readers no later than the unlock.
    #[inline(always)]
    pub fn clear_root(&self) {
        let current = self.0.load(Ordering::Relaxed);
        debug_assert!(current & LOCKED != 0);
        self.0.store(current & !ROOT, Ordering::Release);
    }

    /// Releases the latch with one store, counting what was marked.
    #[inline(always)]
    pub fn unlock(&self) {
        let current = self.0.load(Ordering::Relaxed);
        debug_assert!(current & LOCKED != 0, "unlocked without the latch");
        let mut next = current & !(LOCKED | DIRTY);
        if current & SPLITTING != 0 {
            next = (next & !SPLIT_MASK) | (next.wrapping_add(SPLIT_UNIT) & SPLIT_MASK);
        }
        if current & INSERTING != 0 {
            next = next.wrapping_add(INSERT_UNIT);
        }
        self.0.store(next, Ordering::Release);
    }

    /// For trees that one thread owns: sets the deleted bit without any protocol.
    pub fn set_deleted_unshared(&self) {
        let current = self.0.load(Ordering::Relaxed);
        self.0.store(current | DELETED, Ordering::Relaxed);
    }

    /// For trees that one thread owns: clears the root bit without the latch.
    pub fn clear_root_unshared(&self) {
        let current = self.0.load(Ordering::Relaxed);
        self.0.store(current & !ROOT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlocking_counts_what_was_marked_and_nothing_else() {
        let word: VersionWord = VersionWord::new(true, true);
        let clean = word.stable();
        word.lock();
        assert!(word.validate(clean), "the lock bit alone is no change");
        word.unlock();
        assert!(word.validate(clean));
        word.lock();
        word.mark_inserting();
        word.unlock();
        assert!(!word.validate(clean) && !word.stable().split_since(clean));
        let inserted = word.stable();
        word.lock();
        word.mark_splitting();
        word.unlock();
        assert!(word.stable().split_since(inserted));
        assert!(word.stable().is_root() && word.stable().is_border());
    }

    #[test]
    fn the_split_counter_wraps_without_touching_its_neighbours() {
        let word: VersionWord = VersionWord(AtomicU64::new(SPLIT_MASK | BORDER));
        word.lock();
        word.mark_splitting();
        word.unlock();
        assert_eq!(word.0.load(Ordering::Relaxed), BORDER);
    }
}
