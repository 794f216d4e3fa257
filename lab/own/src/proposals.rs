//! Sets of 4-byte integers in the report's tree before its proposals, and with each of them.

use hedgerow_lab_contender::{Map, MapEntry, Promises, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_matryoshka::{
    AllProposals, Compiled, Matryoshka, Reported, Strategy, WithFastNodes, WithPipelining,
    WithSuperpages, WithoutBranches,
};

use super::entries::{own, set_of_integers, single};
use super::integer_sets::IntegerSet;
use super::integers::Integer;

/// Keys of a batch.
const BATCH: usize = 1024;

/// A set that takes a run of keys in batches, and each key of a mix by itself.
struct Batching<S: Strategy>(IntegerSet<u32, Matryoshka<u32, (), S>, true>);

impl<S: Strategy> Default for Batching<S> {
    fn default() -> Self {
        Self(IntegerSet::default())
    }
}

impl<S: Strategy> Map for Batching<S> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    fn put_run(&self, keys: KeyRange<'_>, _: u64) {
        let mut set = self.0.0.borrow_mut();
        let mut some = Vec::with_capacity(BATCH);
        for batch in keys.chunks(BATCH) {
            some.clear();
            some.extend(batch.iter().map(|key| (u32::of(key), ())));
            set.insert_many(&mut some);
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.0.scan(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        self.0.scan_run(keys, count)
    }

    fn load_sorted_run(&self, keys: KeyRange<'_>) {
        self.0.load_sorted_run(keys);
    }
}

/// The tree as the report had it, what each of its proposals makes of it, and all together (§12.6,
/// Tables 18 and 19).
#[must_use]
pub fn proposals() -> Vec<MapEntry> {
    let promises: Promises = set_of_integers::<u32>();
    let entry = |name, build| MapEntry {
        entry: own(name, promises),
        build,
    };
    vec![
        entry("as reported", single::<Batching<Reported>>()),
        entry("A superpages", single::<Batching<WithSuperpages>>()),
        entry("B pipelined batches", single::<Batching<WithPipelining>>()),
        entry(
            "C branch-free search",
            single::<Batching<WithoutBranches>>(),
        ),
        entry("D FAST nodes", single::<Batching<WithFastNodes>>()),
        entry("E compiled", single::<Batching<Compiled>>()),
        entry("all five", single::<Batching<AllProposals>>()),
    ]
}
