//! Commit stripes: who writes a key now, and when it was last written.
//!
//! An array of words; a key hashes to one. Every write locks its key's stripe before it takes a
//! timestamp, and unlocks it when it is in index and log. So timestamps of a key only grow, even
//! across its removal (the index forgets a removed key's version; the stripe does not).
//!
//! ```text
//! 63 ............ 2      1       0
//! last timestamp / 4   MULTI   LOCKED
//! ```
//!
//! The last timestamp is stored rounded up to a multiple of four, less one: it is only a floor. A
//! commit of several keys locks all their stripes, in ascending order (so that no threads wait for
//! each other in a circle), and marks them MULTI; readers of single keys wait for that mark to
//! clear. So a reader that saw one key of the commit cannot then miss another. Readers check the
//! marks only while such a commit is under way, as a counter beside the array says. Closed ranges
//! are listed beside the stripes (`removals`): a writer that locks a stripe for a key of one
//! unlocks it and waits. A thread that has locked a log shard waits for no stripe; one that has
//! locked stripes may wait for a shard. So there is no deadlock between the two.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hedgerow_log::{ShardGuard, Timestamp};
use hedgerow_sync::CachePadded;
use hedgerow_sync::backoff::Backoff;

use crate::commit::closed_ranges::ClosedRanges;
use crate::commit::key_hash::key_hash;
use crate::planted::{PlantedBug, planted};

/// How many stripes there are: few enough to stay in a core's cache, many enough that writers of
/// different keys rarely meet.
pub(crate) const STRIPES: usize = 4096;
const LOCKED: u64 = 1;
const MULTI: u64 = 2;
const FLAGS: u64 = LOCKED | MULTI;

/// What a closed range adds to `multi`: more than all commits of several keys.
pub(crate) const REMOVAL: usize = 1 << (usize::BITS / 2);

pub(crate) struct Stripes {
    words: Box<[AtomicU64]>,
    /// Commits of several keys under way, and closed ranges: one load reads both.
    pub(crate) multi: CachePadded<AtomicUsize>,
    /// The closed ranges: see `removals`.
    pub(crate) closed: ClosedRanges,
    /// Batches of reads under way, by groups of threads.
    batches: [CachePadded<AtomicUsize>; CONNECTION_SLOTS],
    /// How many threads have waited for a closed range since the database was opened, for tests.
    #[cfg(test)]
    pub(crate) waited: AtomicUsize,
}

/// Groups of threads that count their batches together.
const CONNECTION_SLOTS: usize = 16;
/// How often a batch checks for a moment without commits of several keys.
const BATCH_ROUNDS: u32 = 300;

/// A batch of reads under way. See [`Stripes::begin_batch`].
pub(crate) struct BatchGuard<'a> {
    slot: &'a AtomicUsize,
}

impl Drop for BatchGuard<'_> {
    fn drop(&mut self) {
        self.slot.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The stripe of a key.
#[inline]
pub(crate) fn stripe_of(keyspace: u32, key: &[u8]) -> u32 {
    (key_hash(keyspace, key) % STRIPES as u64) as u32
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes {
            words: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            multi: CachePadded::new(AtomicUsize::new(0)),
            closed: ClosedRanges::default(),
            batches: std::array::from_fn(|_| CachePadded::new(AtomicUsize::new(0))),
            #[cfg(test)]
            waited: AtomicUsize::new(0),
        }
    }

    /// Locks one stripe for a commit of one key.
    #[inline]
    pub(crate) fn lock(&self, stripe: u32) -> StripeGuard<'_> {
        let word = &self.words[stripe as usize];
        let before = acquire(word, LOCKED);
        StripeGuard {
            word,
            after: before,
        }
    }

    /// Locks several stripes (ascending, distinct) for one commit of all of them.
    pub(crate) fn lock_many(&self, locked: Vec<u32>) -> MultiGuard<'_> {
        self.multi.fetch_add(1, Ordering::SeqCst);
        // Batches of reads that began before finish first; later ones wait for us. Sequentially
        // consistent on both sides: either we see their slot, or they see our count.
        for slot in &self.batches {
            let mut backoff = Backoff::new();
            while slot.load(Ordering::SeqCst) != 0 && !planted(PlantedBug::BatchesNotAwaited) {
                backoff.wait();
            }
        }
        self.take_many(locked)
    }

    /// Locks all stripes without waiting for batches of reads: for a commit that changes nothing
    /// that a batch could read.
    pub(crate) fn lock_all_beside_batches(&self) -> MultiGuard<'_> {
        self.multi.fetch_add(1, Ordering::SeqCst);
        self.take_many((0..STRIPES as u32).collect())
    }

    /// Locks stripes for a commit that `multi` already counts.
    fn take_many(&self, locked: Vec<u32>) -> MultiGuard<'_> {
        debug_assert!(locked.is_sorted_by(|a, b| a < b), "ascending and distinct");
        let words = locked.iter().map(|&stripe| &self.words[stripe as usize]);
        let after = words.map(|word| acquire(word, FLAGS)).max().unwrap_or(0);
        MultiGuard {
            stripes: self,
            locked,
            after,
        }
    }

    /// Begins a batch of reads that sees every commit of several keys whole or not at all: none
    /// is installed until the guard is dropped. `None` if such commits follow one another so
    /// closely that the batch must take its keys' stripes instead.
    #[inline]
    pub(crate) fn begin_batch(&self, worker: usize) -> Option<BatchGuard<'_>> {
        let slot = &self.batches[worker % CONNECTION_SLOTS];
        let mut backoff = Backoff::new();
        loop {
            slot.fetch_add(1, Ordering::SeqCst);
            let guard = BatchGuard { slot };
            let multi = self.multi.load(Ordering::SeqCst);
            if multi.is_multiple_of(REMOVAL) || planted(PlantedBug::CommitsNotAwaited) {
                return Some(guard);
            }
            drop(guard);
            if backoff.rounds() > BATCH_ROUNDS {
                return None;
            }
            backoff.wait();
        }
    }

    /// Whether any commit of several keys is under way, or a range is closed.
    #[inline]
    pub(crate) fn has_multi(&self) -> bool {
        self.multi.load(Ordering::Acquire) != 0
    }

    /// Waits while a commit of several keys holds the key's stripe, or the key's range is closed.
    #[cold]
    pub(crate) fn await_multi(&self, keyspace: u32, key: &[u8]) {
        let word = &self.words[stripe_of(keyspace, key) as usize];
        #[cfg(test)]
        self.count_wait(self.is_in_closed_range(keyspace, key));
        let mut backoff = Backoff::new();
        // A range is closed before its stripes are unlocked.
        while word.load(Ordering::Acquire) & MULTI != 0 || self.is_in_closed_range(keyspace, key) {
            backoff.wait();
        }
    }
}

/// Sets `flags` on an unlocked word; returns what it was.
#[inline]
fn acquire(word: &AtomicU64, flags: u64) -> u64 {
    let before = word.load(Ordering::Relaxed);
    if before & LOCKED == 0
        && word
            .compare_exchange_weak(before, before | flags, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    {
        return before;
    }
    acquire_slowly(word, flags)
}

#[cold]
fn acquire_slowly(word: &AtomicU64, flags: u64) -> u64 {
    let mut backoff = Backoff::new();
    loop {
        let before = word.load(Ordering::Relaxed);
        if before & LOCKED == 0
            && word
                .compare_exchange_weak(before, before | flags, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return before;
        }
        backoff.wait();
    }
}

fn floor(word: u64) -> Timestamp {
    Timestamp::from_raw(word | FLAGS)
}

/// A locked stripe. Dropping it without [`StripeGuard::commit`] leaves the last timestamp as it
/// was.
pub(crate) struct StripeGuard<'a> {
    word: &'a AtomicU64,
    after: u64,
}

impl StripeGuard<'_> {
    /// Takes the commit's timestamp from its log shard. The stripe stores it from now on, also if
    /// the index fails: a scan may have seen it, and no other shard may issue it.
    #[inline]
    pub(crate) fn take_timestamp(&mut self, shard: &mut ShardGuard<'_>) -> Timestamp {
        let timestamp = shard.timestamp(self.floor());
        self.commit(timestamp);
        timestamp
    }

    /// A commit must have a later timestamp than this.
    pub(crate) fn floor(&self) -> Timestamp {
        floor(self.after)
    }

    pub(crate) fn commit(&mut self, timestamp: Timestamp) {
        self.after = timestamp.raw() & !FLAGS;
    }
}

impl Drop for StripeGuard<'_> {
    fn drop(&mut self) {
        self.word.store(self.after, Ordering::Release);
    }
}

/// Several locked stripes, marked so that readers of single keys wait.
pub(crate) struct MultiGuard<'a> {
    stripes: &'a Stripes,
    locked: Vec<u32>,
    /// The largest of the words before, or the commit's.
    after: u64,
}

impl MultiGuard<'_> {
    /// Takes the commit's timestamp from its log shard. Its stripes store it from now on, also if
    /// the index fails: a scan may have seen it, and no other shard may issue it.
    #[inline]
    pub(crate) fn take_timestamp(&mut self, shard: &mut ShardGuard<'_>) -> Timestamp {
        let timestamp = shard.timestamp(self.floor());
        self.commit(timestamp);
        timestamp
    }

    pub(crate) fn floor(&self) -> Timestamp {
        floor(self.after)
    }

    pub(crate) fn commit(&mut self, timestamp: Timestamp) {
        self.after = timestamp.raw() & !FLAGS;
    }

    pub(crate) fn locked(&self) -> &[u32] {
        &self.locked
    }

    /// Whether a key may have been written after a moment: it was not if this says no. The caller
    /// has a log shard locked. Two loads; knows nothing of keys that share a stripe.
    ///
    /// Whoever wrote the key before the caller locked its shard, and whom a snapshot may have seen
    /// since, has unlocked a shard after it locked the stripe: so its lock is seen here, or what it
    /// left when it unlocked the stripe.
    pub(crate) fn may_have_changed(&self, keyspace: u32, key: &[u8], moment: Timestamp) -> bool {
        let stripe = stripe_of(keyspace, key);
        // While it is locked it has the time of the last commit before.
        let word = self.stripes.words[stripe as usize].load(Ordering::Acquire);
        let is_others = word & LOCKED != 0 && !self.is_locked(stripe);
        is_others || floor(word) > moment
    }

    pub(crate) fn is_locked(&self, stripe: u32) -> bool {
        self.locked.binary_search(&stripe).is_ok()
    }
}

impl Drop for MultiGuard<'_> {
    fn drop(&mut self) {
        // Without a commit this raises some stripes to the floor of others: harmless, a floor may
        // always be higher.
        for &stripe in &self.locked {
            self.stripes.words[stripe as usize].store(self.after, Ordering::Release);
        }
        self.stripes.multi.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn floors_rise_and_guards_restore() {
        let stripes = Stripes::new();
        let ts = Timestamp::new(3, 5);
        stripes.lock(7).commit(ts);
        let guard = stripes.lock(7);
        assert!(guard.floor() >= ts && guard.floor().raw() < ts.raw() + 4);
        drop(guard);
        let mut many = stripes.lock_many(vec![6, 7, 9]);
        assert!(many.floor() >= ts && many.is_locked(9) && !many.is_locked(8));
        many.commit(Timestamp::new(4, 0));
        drop(many);
        for stripe in [6, 7, 9] {
            assert!(stripes.lock(stripe).floor() >= Timestamp::new(4, 0));
        }
        assert!(stripes.lock(8).floor() < Timestamp::new(1, 0));
    }

    /// Which keys a commit of others has to be looked for.
    #[test]
    fn stripes_tell_which_keys_may_have_changed() {
        let stripes = Stripes::new();
        // The hash has a secret: the first keys of different stripes.
        let mut keys: Vec<[u8; 1]> = Vec::new();
        for key in (0..u8::MAX).map(|key| [key]) {
            let is_new = |other: &[u8; 1]| stripe_of(1, other) != stripe_of(1, &key);
            if keys.len() < 3 && keys.iter().all(is_new) {
                keys.push(key);
            }
        }
        let [own, other, third] = [0, 1, 2].map(|at: usize| stripe_of(1, &keys[at]));
        let time = |sequence| Timestamp::new(1, sequence);
        stripes.lock(own).commit(time(100));
        stripes.lock(other).commit(time(200));
        let locked = stripes.lock_many(vec![own]);
        let changed = |at: usize, after| locked.may_have_changed(1, &keys[at], time(after));
        // Times are floors, rounded up a little.
        assert!(changed(0, 99) && !changed(0, 104));
        assert!(changed(1, 199) && !changed(1, 204) && !changed(2, 0));
        // Somebody writes it now.
        let writer = stripes.lock(third);
        assert!(changed(2, 300));
        drop(writer);
        assert!(!changed(2, 300));
    }

    #[test]
    fn readers_wait_for_commits_of_several_keys_only() {
        let stripes = Stripes::new();
        let stripe = stripe_of(1, b"key");
        let single = stripes.lock(stripe);
        stripes.await_multi(1, b"key");
        drop(single);
        let many = stripes.lock_many(vec![stripe]);
        let waited = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                stripes.await_multi(1, b"key");
                stripes.lock(stripe).floor() >= Timestamp::new(9, 0)
            });
            let mut many = many;
            many.commit(Timestamp::new(9, 0));
            drop(many);
            reader.join().unwrap()
        });
        assert!(waited);
    }
}
