//! The two ticket locks of an inner node, one for each link, in one word.
//!
//! ```text
//!  63                          33  32   31                           1   0
//! ┌──────────────────────────────┬────┬──────────────────────────────┬────┐
//! │ version of the right link    │lock│ version of the left link     │lock│
//! └──────────────────────────────┴────┴──────────────────────────────┴────┘
//! ```
//!
//! A ticket lock is two counters: the next ticket and the ticket that is served. Nobody waits with
//! a ticket here: an update locks a link only if its version is still the one that the update's
//! search saw, and searches again otherwise. So the tickets differ by one at most, and their sum
//! says everything: it is odd while the lock is taken, and each use of the lock adds two. The
//! published form has two counters of 16 bits each; their sum in 32 bits wraps around after 2³¹
//! updates of one link, which would all have to happen between one update's search and its locking.

use std::sync::atomic::Ordering;

use hedgerow_sync::word::Word;

/// One of an inner node's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    /// Where the keys that are `at_or_above` a node's key are.
    #[inline(always)]
    pub(super) fn of(at_or_above: bool) -> Self {
        match at_or_above {
            false => Side::Left,
            true => Side::Right,
        }
    }

    #[inline(always)]
    pub(super) fn other(self) -> Self {
        Side::of(self == Side::Left)
    }

    /// The lowest bit of this side's half, which says that the lock is taken.
    #[inline(always)]
    fn lock(self) -> u64 {
        1 << (32 * self as u32)
    }

    /// This side's half of `word` moves on by `steps`, modulo 2³².
    #[inline(always)]
    fn advance(self, word: u64, steps: u32) -> u64 {
        let shift = 32 * self as u32;
        let half = ((word >> shift) as u32).wrapping_add(steps);
        (word & !(0xffff_ffff << shift)) | (u64::from(half) << shift)
    }
}

/// Versions of both links of a node, as a search saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions(u64);

impl Versions {
    /// Whether neither lock was taken.
    pub(super) fn is_unlocked(self) -> bool {
        self.0 & (Side::Left.lock() | Side::Right.lock()) == 0
    }

    /// Whether a version of `side` that was unlocked is unchanged in `now`.
    #[inline(always)]
    fn allow(self, side: Side, now: u64) -> bool {
        let half = 0xffff_ffff << (32 * side as u32);
        self.0 & side.lock() == 0 && (self.0 ^ now) & half == 0
    }
}

/// The word of both locks.
#[repr(transparent)]
pub(super) struct EdgeLocks<W>(W);

impl<W: Word> EdgeLocks<W> {
    /// Unlocked.
    pub(super) fn new() -> Self {
        Self(W::new(0))
    }

    /// The versions as they are. Acquire: links loaded afterwards are of these versions or later.
    #[inline(always)]
    pub(super) fn versions(&self) -> Versions {
        Versions(self.0.load(Ordering::Acquire))
    }

    /// Locks the link of `side` if its version is still the one `seen`, unlocked.
    #[inline]
    pub(super) fn try_lock(&self, side: Side, seen: Versions) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        // The other half may change meanwhile: it is another lock.
        while seen.allow(side, word) {
            match self.swap(word, side.advance(word, 1)) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Locks both links if their versions are still those `seen`, unlocked.
    #[inline]
    pub(super) fn try_lock_both(&self, seen: Versions) -> bool {
        let locked = Side::Right.advance(Side::Left.advance(seen.0, 1), 1);
        seen.is_unlocked()
            && loop {
                match self.swap(seen.0, locked) {
                    Ok(_) => break true,
                    // Exchanges may fail though the word is the same.
                    Err(now) if now == seen.0 => {}
                    Err(_) => break false,
                }
            }
    }

    /// Unlocks `side` after a change of its link, with the next version.
    #[inline]
    pub(super) fn unlock(&self, side: Side) {
        self.advance(side, 1);
    }

    /// Unlocks `side` with the version that it had: nothing changed.
    #[inline]
    pub(super) fn unlock_unchanged(&self, side: Side) {
        self.advance(side, u32::MAX);
    }

    fn advance(&self, side: Side, steps: u32) {
        let mut word = self.0.load(Ordering::Relaxed);
        debug_assert!(
            word & side.lock() != 0,
            "unlocked a link that is not locked"
        );
        while let Err(now) = self.swap(word, side.advance(word, steps)) {
            word = now;
        }
    }

    #[inline(always)]
    fn swap(&self, word: u64, new: u64) -> Result<u64, u64> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.compare_exchange_weak(word, new, success, failure)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_change_of_one_link_leaves_the_other_as_it_was_seen() {
        let locks: EdgeLocks<AtomicU64> = EdgeLocks::new();
        let seen = locks.versions();
        assert!(locks.try_lock(Side::Left, seen) && !locks.try_lock(Side::Left, seen));
        assert!(
            !locks.try_lock(Side::Left, locks.versions()),
            "it is locked"
        );
        assert!(locks.try_lock(Side::Right, seen), "it is not");
        locks.unlock(Side::Left);
        locks.unlock_unchanged(Side::Right);
        assert!(!locks.try_lock(Side::Left, seen) && !locks.try_lock_both(seen));
        assert!(locks.try_lock(Side::Right, seen), "nothing changed there");
        locks.unlock(Side::Right);
        assert!(locks.versions().is_unlocked() && locks.try_lock_both(locks.versions()));
        assert!(!locks.try_lock_both(locks.versions()));
    }

    #[test]
    fn versions_wrap_around_without_touching_each_other() {
        let locks = EdgeLocks(AtomicU64::new(0xffff_fffe_ffff_fffe));
        for side in [Side::Left, Side::Right] {
            assert!(locks.try_lock(side, locks.versions()));
            locks.unlock(side);
        }
        assert_eq!(locks.versions(), Versions(0));
    }
}
