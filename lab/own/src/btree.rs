//! Our B-tree on pages, in each of its configurations: for one thread ([`Paged`]), and for many
//! threads on a buffer pool that holds all of its pages ([`SharedPaged`]).
//!
//! Values are eight bytes in the leaves. Batched lookups are handed over in the groups that an
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

/// The tree behind a `RefCell`, whose flag costs nothing next to a cache miss.
pub struct Paged<C: Configuration>(RefCell<BTree<C>>);

impl<C: Configuration> Default for Paged<C> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk().expect("values of eight bytes"))
}

/// Visits up to `count` pairs from `from` on.
fn scan_pairs<C: Configuration>(
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
        visit(key, number(value));
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

impl<C: Configuration> Map for Paged<C> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.borrow_mut().insert(key, &value.to_le_bytes());
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.borrow_mut().get(key, number)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.borrow_mut().remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        scan_pairs(&mut self.0.borrow_mut(), from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        let mut tree = self.0.borrow_mut();
        for from in keys.iter() {
            scan_pairs(&mut tree, from, count, |key, value| {
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
            tree.get_many(&some, |_, value| tally.count(value.map(number)));
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
            visit(key, number(value));
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
        self.0.get(key, number).expect(NEVER_FAILS)
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
            let read = |_: usize, value: Option<&[u8]>| tally.count(value.map(number));
            self.0.get_many(&some, read).expect(NEVER_FAILS);
        }
        Some(tally)
    }
}
