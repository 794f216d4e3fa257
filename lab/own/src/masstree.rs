//! Our Masstree, as the paper measures it and as the engine uses it.
//!
//! * [`Inline`]: 8-byte values in the nodes, the paper's configuration and the peers'; for any
//!   number of threads, or with all synchronisation compiled out, the mark of §6.4.
//! * [`Indexed`]: values as byte strings in blocks of their own: one more dependent miss, as the
//!   engine pays it. Of the trees in memory that the engine can use.
//!
//! Runs hold a pin over up to a thousand operations: operations pin by themselves, but a nested
//! pin costs next to nothing, while an outermost one is a full memory fence, which keeps the
//! processor from overlapping one lookup with the next. The server's batches hold one too.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, ScanRange};
use hedgerow_lab_contender::{Map, Steps, Tally, take_steps, value_of};
use hedgerow_lab_data::KeyRange;
use hedgerow_masstree::{Bytes, Configuration, Masstree};
use hedgerow_matryoshka::MatryoshkaIndex;
use hedgerow_simd::Level;
use hedgerow_sync::epoch;

/// Operations under one pin: long enough to hide its cost, short enough to free memory.
pub const OPERATIONS_PER_PIN: usize = 1024;

/// Masstree with inline 8-byte values.
pub struct Inline<C: Configuration>(Masstree<u64, C>);

impl<C: Configuration> Inline<C> {
    /// An empty tree that searches nodes with this kernel.
    #[must_use]
    pub fn with_level(level: Level) -> Self {
        Self(Masstree::with_level(level))
    }
}

impl<C: Configuration> Default for Inline<C> {
    fn default() -> Self {
        Self(Masstree::new())
    }
}

/// Counts down; breaks a scan after the last pair.
pub(super) fn one_less(left: &mut usize) -> ControlFlow<()> {
    *left -= 1;
    if *left == 0 {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The runs that hold a pin, written once for both trees.
macro_rules! pinned_runs {
    () => {
        fn get_run(&self, keys: KeyRange<'_>) -> Tally {
            let mut tally = Tally::default();
            for some in keys.chunks(OPERATIONS_PER_PIN) {
                let _pin = epoch::pin();
                for key in some.iter() {
                    tally.count(Map::get(self, key));
                }
            }
            tally
        }

        fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
            let zero = black_box(0_u64);
            let mut tally = Tally::default();
            let mut last = 0;
            for some in keys.chunks(OPERATIONS_PER_PIN) {
                let _pin = epoch::pin();
                for index in 0..some.len() as u64 {
                    let value = Map::get(self, some.get((index + (last & zero)) as usize));
                    last = value.unwrap_or(0);
                    tally.count(value);
                }
            }
            tally
        }

        fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
            let mut tally = Tally::default();
            for some in steps.chunks(OPERATIONS_PER_PIN) {
                let _pin = epoch::pin();
                tally = tally.and(take_steps(self, &some));
            }
            tally
        }

        fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
            let mut removed = 0;
            for some in keys.chunks(OPERATIONS_PER_PIN) {
                let _pin = epoch::pin();
                removed += some.iter().filter(|key| Map::remove(self, key)).count() as u64;
            }
            removed
        }
    };
}

pub(super) use pinned_runs;

impl<C: Configuration> Map for Inline<C> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        self.0.update(key, |present| present.or(Some(value)))
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        let mut left = count;
        let from = Bound::Included(from);
        self.0.scan(from, Direction::Forward, |key, value| {
            visit(key, value);
            one_less(&mut left)
        });
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for from in keys.iter() {
            let mut left = count;
            let from = Bound::Included(from);
            self.0.scan(from, Direction::Forward, |key, value| {
                black_box(key);
                tally.count(Some(value));
                one_less(&mut left)
            });
        }
        tally
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some.iter() {
                self.0.put(key, value_of(key).wrapping_add(add));
            }
        }
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut slices: Vec<&[u8]> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            slices.clear();
            slices.extend(some.iter());
            self.0.get_many(&slices, |_, value| tally.count(value));
        }
        Some(tally)
    }

    pinned_runs!();
}

/// An index whose operations have their callbacks compiled in, as the engine calls its default
/// index: [`Index`](hedgerow_index::Index) would cost an indirect call for each.
pub trait InlinedIndex: Default {
    /// Runs `read` on the value of `key`.
    fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R>;

    /// Calls `read` once for each key.
    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>));

    /// Replaces, inserts or removes one key.
    fn update_with<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R;

    /// Visits the pairs of a range.
    fn scan_range(&self, range: &ScanRange<'_>, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>);

    /// Fills the empty index with ascending pairs at once; whether it can, and was empty.
    fn bulk_load<'k>(&self, pairs: impl Iterator<Item = (&'k [u8], [u8; 8])>) -> bool {
        drop(pairs);
        false
    }
}

macro_rules! inlined_index {
    ($index:ty) => {
        impl InlinedIndex for $index {
            #[inline]
            fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
                self.get_with(key, read)
            }

            #[inline]
            fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
                self.get_many(keys, read);
            }

            #[inline]
            fn update_with<R>(
                &self,
                key: &[u8],
                new: &mut Vec<u8>,
                decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
            ) -> R {
                self.update_with(key, new, decide)
            }

            #[inline]
            fn scan_range(
                &self,
                range: &ScanRange<'_>,
                visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
            ) {
                self.scan_range(range, visit);
            }
        }
    };
}

inlined_index!(Masstree<Bytes>);
inlined_index!(MatryoshkaIndex);

/// A tree with values in blocks, as the engine's index.
#[derive(Default)]
pub struct Indexed<I = Masstree<Bytes>>(pub(super) I);

impl<I> Indexed<I> {
    /// The index.
    pub fn index(&self) -> &I {
        &self.0
    }
}

fn word(value: &[u8]) -> u64 {
    value
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

impl<I: InlinedIndex> Indexed<I> {
    #[inline]
    fn put_with(&self, key: &[u8], value: u64, new: &mut Vec<u8>) {
        self.0.update_with(key, new, |_, new| {
            new.extend_from_slice(&value.to_le_bytes());
            Decision::Put(())
        });
    }

    /// Visits up to `count` pairs from `from` on.
    #[inline]
    fn scan_pairs(&self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let range = ScanRange::starting_at(Bound::Included(from), Direction::Forward);
        self.0.scan_range(&range.limited(count), |key, value| {
            visit(key, word(value));
            ControlFlow::Continue(())
        });
    }
}

impl<I: InlinedIndex> Map for Indexed<I> {
    #[inline]
    fn put(&self, key: &[u8], value: u64) {
        self.put_with(key, value, &mut Vec::new());
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get_with(key, word)
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.update_with(key, &mut Vec::new(), |present, _| {
            Decision::Remove(present.is_some())
        })
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.scan_pairs(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for from in keys.iter() {
            self.scan_pairs(from, count, |key, value| {
                black_box(key);
                tally.count(Some(value));
            });
        }
        tally
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        let mut new = Vec::new();
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some.iter() {
                self.put_with(key, value_of(key).wrapping_add(add), &mut new);
            }
        }
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        let pairs = keys.iter().map(|key| (key, value_of(key).to_le_bytes()));
        if !self.0.bulk_load(pairs) {
            self.put_run(keys, 0);
        }
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut slices: Vec<&[u8]> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            slices.clear();
            slices.extend(some.iter());
            self.0
                .get_many(&slices, |_, value| tally.count(value.map(word)));
        }
        Some(tally)
    }

    pinned_runs!();
}
