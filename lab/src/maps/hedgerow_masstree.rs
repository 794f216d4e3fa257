//! Our Masstree, as the paper measures it and as the engine uses it.
//!
//! * [`Inline`]: 8-byte values in the nodes, the paper's configuration and the peer's.
//! * [`Alone`]: the same with all synchronisation compiled out, the mark of §6.4.
//! * [`Indexed`]: values as byte strings in blocks of their own, through the `Index` trait:
//!   one more dependent miss, as the engine pays it.
//!
//! Runs hold a pin over up to a thousand operations, as the peer's hold a guard: operations
//! pin by themselves, but a nested pin costs next to nothing, while an outermost one is a full
//! memory fence, which keeps the processor from overlapping one lookup with the next. The
//! server's batches hold one too.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, Index};
use hedgerow_masstree::{Bytes, Concurrent, Masstree, SingleThreaded};
use hedgerow_sync::epoch;

use super::{ContenderMap, Tally};
use crate::keys::Key;

/// Operations under one pin: long enough to hide its cost, short enough to free memory.
const OPERATIONS_PER_PIN: usize = 1024;

/// Masstree with inline 8-byte values, for any number of threads.
pub type Inline = Integers<Concurrent>;

/// The same for one thread, without latches, versions and epochs.
pub type Alone = Integers<SingleThreaded>;

/// Masstree with inline 8-byte values.
pub struct Integers<C: hedgerow_masstree::configuration::Configuration>(Masstree<u64, C>);

impl<C: hedgerow_masstree::configuration::Configuration> ContenderMap for Integers<C> {
    const BATCHES: bool = true;

    fn new() -> Self {
        Self(Masstree::new())
    }

    #[inline]
    fn put(&self, key: &Key, value: u64) {
        self.0.put(key.as_slice(), value);
    }

    #[inline]
    fn get(&self, key: &Key) -> Option<u64> {
        self.0.get(key.as_slice())
    }

    #[inline]
    fn remove(&self, key: &Key) -> bool {
        self.0.remove(key.as_slice()).is_some()
    }

    #[inline]
    fn scan(&self, from: &Key, count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let mut left = count;
        self.0.scan(
            Bound::Included(from.as_slice()),
            Direction::Forward,
            |key, value| {
                visit(key, value);
                left -= 1;
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
    }

    fn put_run(&self, keys: &[Key], add: u64) {
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some {
                self.put(key, key.value().wrapping_add(add));
            }
        }
    }

    fn get_run(&self, keys: &[Key]) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some {
                tally.count(self.get(key));
            }
        }
        tally
    }

    fn dependent_run(&self, keys: &[Key]) -> Tally {
        let zero = black_box(0u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for index in 0..some.len() as u64 {
                let value = self.get(&some[(index + (last & zero)) as usize]);
                last = value.unwrap_or(0);
                tally.count(value);
            }
        }
        tally
    }

    fn remove_run(&self, keys: &[Key]) -> u64 {
        let mut removed = 0;
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            removed += some.iter().filter(|key| self.remove(key)).count() as u64;
        }
        removed
    }

    fn get_many_run(&self, keys: &[Key], group: usize) -> Tally {
        let mut tally = Tally::default();
        let mut slices: Vec<&[u8]> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            slices.clear();
            slices.extend(some.iter().map(Key::as_slice));
            self.0.get_many(&slices, |_, value| tally.count(value));
        }
        tally
    }
}

/// Masstree with values in blocks, as the engine's index.
pub struct Indexed(Masstree<Bytes>);

fn word(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("values of 8 bytes"))
}

impl ContenderMap for Indexed {
    const BATCHES: bool = true;

    fn new() -> Self {
        Self(Masstree::new())
    }

    #[inline]
    fn put(&self, key: &Key, value: u64) {
        let mut new = Vec::new();
        self.put_with(key, value, &mut new);
    }

    #[inline]
    fn get(&self, key: &Key) -> Option<u64> {
        Index::get(&self.0, key.as_slice(), word)
    }

    #[inline]
    fn remove(&self, key: &Key) -> bool {
        Index::update(&self.0, key.as_slice(), &mut Vec::new(), |present, _| {
            Decision::Remove(present.is_some())
        })
    }

    #[inline]
    fn scan(&self, from: &Key, count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let mut left = count;
        let from = Bound::Included(from.as_slice());
        Index::scan(&self.0, from, Direction::Forward, |key, value| {
            visit(key, word(value));
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }

    fn put_run(&self, keys: &[Key], add: u64) {
        let mut new = Vec::new();
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some {
                self.put_with(key, key.value().wrapping_add(add), &mut new);
            }
        }
    }

    fn get_run(&self, keys: &[Key]) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some {
                tally.count(self.get(key));
            }
        }
        tally
    }

    fn dependent_run(&self, keys: &[Key]) -> Tally {
        let zero = black_box(0u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for index in 0..some.len() as u64 {
                let value = self.get(&some[(index + (last & zero)) as usize]);
                last = value.unwrap_or(0);
                tally.count(value);
            }
        }
        tally
    }

    fn remove_run(&self, keys: &[Key]) -> u64 {
        let mut removed = 0;
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            removed += some.iter().filter(|key| self.remove(key)).count() as u64;
        }
        removed
    }

    fn get_many_run(&self, keys: &[Key], group: usize) -> Tally {
        let mut tally = Tally::default();
        let mut slices: Vec<&[u8]> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            slices.clear();
            slices.extend(some.iter().map(Key::as_slice));
            Index::get_many(&self.0, &slices, |_, value| tally.count(value.map(word)));
        }
        tally
    }
}

impl Indexed {
    #[inline]
    fn put_with(&self, key: &Key, value: u64, new: &mut Vec<u8>) {
        Index::update(&self.0, key.as_slice(), new, |_, new| {
            new.extend_from_slice(&value.to_le_bytes());
            Decision::Put(())
        });
    }
}
