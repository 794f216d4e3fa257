//! Our B-tree on pages, in each of its configurations: for one thread ([`Paged`]), and for many
//! threads on a buffer pool that holds all of its pages ([`SharedPaged`]).
//!
//! Values are eight bytes in the leaves; a tree for one thread can have longer ones, which repeat
//! them and are read whole. Batched lookups are handed over in the groups that an
//! experiment asks for; the tree goes down with sixteen of them at a time.

use std::cell::RefCell;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::configuration::Configuration;
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::{Direction, ScanRange};
use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

/// The tree behind a `RefCell`, whose flag costs nothing next to a cache miss. Values have `VALUE`
/// bytes, a multiple of eight.
pub struct Paged<C: Configuration, const VALUE: usize = 8>(RefCell<BTree<C>>);

impl<C: Configuration, const VALUE: usize> Default for Paged<C, VALUE> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// A value of so many bytes: the number, over and over.
fn repeated<const VALUE: usize>(number: u64) -> [u8; VALUE] {
    const { assert!(VALUE > 0 && VALUE.is_multiple_of(8)) };
    let mut value = [0_u8; VALUE];
    for part in value.as_chunks_mut::<8>().0 {
        *part = number.to_le_bytes();
    }
    value
}

/// The number that a value repeats; a wrong one if it does not.
fn number<const VALUE: usize>(value: &[u8]) -> u64 {
    let value: &[u8; VALUE] = value.try_into().expect("values of one length");
    let numbers = value.as_chunks::<8>().0.iter();
    let mut numbers = numbers.map(|part| u64::from_le_bytes(*part));
    let first = numbers.next().expect("eight bytes at least");
    let differences = numbers.fold(0, |all, number| all | (number ^ first));
    if differences == 0 { first } else { !first }
}

/// Visits up to `count` pairs from `from` on.
fn scan_pairs<C: Configuration, const VALUE: usize>(
    tree: &mut BTree<C>,
    from: &[u8],
    count: usize,
    mut visit: impl FnMut(&[u8], u64),
) {
    let mut left = count;
    if left == 0 {
        return;
    }
    tree.scan(Bound::Included(from), Direction::Forward, |key, value| {
        visit(key, number::<VALUE>(value));
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

impl<C: Configuration, const VALUE: usize> Map for Paged<C, VALUE> {
    fn put(&self, key: &[u8], value: u64) {
        let value = repeated::<VALUE>(value);
        self.0.borrow_mut().insert(key, &value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow_mut().get(key, number::<VALUE>)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        scan_pairs::<C, VALUE>(&mut self.0.borrow_mut(), from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let mut tree = self.0.borrow_mut();
        for from in keys.iter() {
            scan_pairs::<C, VALUE>(&mut tree, from, count, |key, value| {
                black_box(key);
                tally.count(Some(value));
            });
        }
        tally
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut tree = self.0.borrow_mut();
        let mut some: Vec<&[u8]> = Vec::with_capacity(group);
        for keys in keys.chunks(group) {
            some.clear();
            some.extend(keys.iter());
            tree.get_many(&some, |_, value| tally.count(value.map(number::<VALUE>)));
        }
        Some(tally)
    }
}

/// More memory than the pages of any experiment take, so that none is ever evicted.
const POOL_BYTES: u64 = 1 << 36;

const NEVER_FAILS: &str = "all pages are in memory";

/// The tree that the database runs, on a buffer pool that evicts nothing, so that its threads
/// measure the tree and its latches alone.
pub struct SharedPaged<C: Configuration>(BTreeIndex<C>);

impl<C: Configuration> Default for SharedPaged<C> {
    fn default() -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(POOL_BYTES));
        let pool = pool.expect("address space for a pool");
        Self(BTreeIndex::create(Arc::new(pool)).expect(NEVER_FAILS))
    }
}

impl<C: Configuration> SharedPaged<C> {
    /// Visits up to `count` pairs from `from` on.
    fn scan_pairs(&self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
        let range = ScanRange::starting_at(Bound::Included(from), Direction::Forward);
        let scanned = self.0.scan_range(&range.limited(count), |key, value| {
            visit(key, number::<8>(value));
            ControlFlow::Continue(())
        });
        scanned.expect(NEVER_FAILS);
    }
}

impl<C: Configuration> Map for SharedPaged<C> {
    fn put(&self, key: &[u8], value: u64) {
        let inserted = self.0.insert(key, &value.to_le_bytes());
        inserted.expect(NEVER_FAILS);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key, number::<8>).expect(NEVER_FAILS)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key).expect(NEVER_FAILS)
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

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut some: Vec<&[u8]> = Vec::with_capacity(group);
        for keys in keys.chunks(group) {
            some.clear();
            some.extend(keys.iter());
            let read = |_: usize, value: Option<&[u8]>| tally.count(value.map(number::<8>));
            self.0.get_many(&some, read).expect(NEVER_FAILS);
        }
        Some(tally)
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_btree::configuration::Hints;

    use super::*;

    #[test]
    fn values_have_their_length_and_all_bytes_of_them_are_read() {
        let map = Paged::<Hints, 64>::default();
        map.put(b"key", 7);
        assert_eq!(map.get(b"key"), Some(7));
        let len = map.0.borrow_mut().get(b"key", <[u8]>::len);
        assert_eq!(len, Some(64));
        for byte in 0..64 {
            let mut damaged = repeated::<64>(7);
            damaged[byte] ^= 1;
            assert_ne!(number::<64>(&damaged), 7, "byte {byte}");
        }
    }
}
