//! The border node's protocols under shuttle: the shipping version word and permutation, on
//! shuttle's atomics, through many interleavings of one writer and one reader.
//!
//! Slots are modelled atomics in a small struct, because the node's own are the processor's;
//! the steps of reader and writer are those of `descend::probe`, `update::insert`,
//! `remove::remove_slot`, `update::store_suffix`, `snapshot::copy_entries`, `layer::make_layer` and
//! `widen::widen`. Each test has a twin with one step left out, which must fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_modelled::Modelled;
use hedgerow_sync::version::{Version, VersionWord};
use shuttle::sync::atomic::{AtomicU64, fence};
use shuttle::thread;

use crate::node::border::{LAYER, SUFFIX, UNSTABLE};
use crate::node::{Permutation, WIDTH};

/// The parts of a border node that the protocols touch.
struct SmallBorder {
    version: VersionWord<Modelled>,
    permutation: AtomicU64,
    lengths: [AtomicU64; WIDTH],
    slices: [AtomicU64; WIDTH],
    values: [AtomicU64; WIDTH],
    /// Which of the bags is the node's.
    bag: AtomicU64,
    /// The suffixes of a first bag and of the one that replaces it; 0 stands for an empty one.
    bags: [[AtomicU64; WIDTH]; 2],
}

impl SmallBorder {
    /// Holds `keys` (ascending), each with the value of [`value_of`] and suffix of [`suffix_of`].
    fn new(keys: &[u64]) -> Arc<Self> {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        let node = Self {
            version: VersionWord::new(true, true),
            permutation: AtomicU64::new(Permutation::sequential(keys.len()).raw()),
            lengths: zeros(),
            slices: zeros(),
            values: zeros(),
            bag: AtomicU64::new(0),
            bags: [zeros(), zeros()],
        };
        for (slot, &key) in keys.iter().enumerate() {
            node.slices[slot].store(key, Ordering::Relaxed);
            node.values[slot].store(value_of(key), Ordering::Relaxed);
            node.bags[0][slot].store(suffix_of(key), Ordering::Relaxed);
        }
        Arc::new(node)
    }

    fn permutation(&self) -> Permutation {
        Permutation::from_raw(self.permutation.load(Ordering::Acquire))
    }

    /// The value of `key`, without validation.
    fn find(&self, key: u64) -> Option<u64> {
        let permutation = self.permutation();
        (0..permutation.count())
            .map(|index| permutation.slot(index))
            .find(|&slot| self.slices[slot].load(Ordering::Relaxed) == key)
            .map(|slot| self.values[slot].load(Ordering::Acquire))
    }

    fn get(&self, key: u64) -> Option<u64> {
        loop {
            let version = self.version.stable();
            let found = self.find(key);
            if self.version.validate(version) {
                return found;
            }
        }
    }

    fn remove(&self, key: u64) {
        self.version.lock();
        let permutation = self.permutation();
        let index = (0..permutation.count())
            .find(|&i| self.slices[permutation.slot(i)].load(Ordering::Relaxed) == key);
        let removed = permutation.remove(index.expect("present"), WIDTH);
        self.permutation.store(removed.raw(), Ordering::Release);
        self.version.unlock();
    }

    /// Inserts at the front; `mark` when the slot may have been seen by readers.
    fn insert_first(&self, key: u64, mark: bool) {
        self.version.lock();
        let (slot, permutation) = self.permutation().insert(0);
        if mark {
            self.version.mark_inserting();
        }
        self.slices[slot].store(key, Ordering::Relaxed);
        self.values[slot].store(value_of(key), Ordering::Release);
        self.permutation.store(permutation.raw(), Ordering::Release);
        self.version.unlock();
    }
}

fn value_of(key: u64) -> u64 {
    key * 1_000
}

/// A full node loses its last key, and another key takes the only free slot.
fn reuse(mark: bool) {
    let keys: Vec<u64> = (10..10 + WIDTH as u64).collect();
    let gone = keys[WIDTH - 1];
    let node = SmallBorder::new(&keys);
    let writer = {
        let node = node.clone();
        thread::spawn(move || {
            node.remove(gone);
            node.insert_first(5, mark);
        })
    };
    for key in [gone, 5, 10] {
        let found = node.get(key);
        assert!(
            found.is_none_or(|value| value == value_of(key)),
            "another key's value"
        );
        assert!(found.is_some() || key != 10, "a key that stays was lost");
    }
    writer.join().expect("writer");
    assert_eq!(node.get(5), Some(value_of(5)));
}

#[test]
fn a_reused_slot_never_shows_another_keys_value() {
    shuttle::check_random(|| reuse(true), 1_500);
    shuttle::check_pct(|| reuse(true), 1_500, 3);
}

#[test]
#[should_panic(expected = "another key's value")]
fn reuse_without_counting_an_insert_is_noticed() {
    shuttle::check_pct(|| reuse(false), 20_000, 3);
}

#[test]
fn inserts_into_fresh_slots_need_no_mark() {
    let run = || {
        let node = SmallBorder::new(&[10, 20]);
        let writer = {
            let node = node.clone();
            thread::spawn(move || {
                node.insert_first(5, false);
                node.insert_first(4, false);
            })
        };
        for key in [4, 5, 10, 20] {
            let found = node.get(key);
            assert!(found.is_none_or(|value| value == value_of(key)));
            assert!(found.is_some() || key < 10, "a key that stays was lost");
        }
        writer.join().expect("writer");
    };
    shuttle::check_random(run, 1_500);
    shuttle::check_pct(run, 1_500, 3);
}

const OLD_VALUE: u64 = 7;
const LAYER_POINTER: u64 = 4_096;

/// A slot turns from suffix to layer while a reader looks at it.
fn make_layer(unstable: bool) {
    let node = SmallBorder::new(&[10]);
    node.lengths[0].store(u64::from(SUFFIX), Ordering::Relaxed);
    node.values[0].store(OLD_VALUE, Ordering::Relaxed);
    let writer = {
        let node = node.clone();
        thread::spawn(move || node.become_layer(0, unstable))
    };
    for _ in 0..3 {
        let length = node.lengths[0].load(Ordering::Acquire);
        let value = node.values[0].load(Ordering::Acquire);
        if length == node.lengths[0].load(Ordering::Acquire) && length != u64::from(UNSTABLE) {
            let expected = if length == u64::from(LAYER) {
                LAYER_POINTER
            } else {
                OLD_VALUE
            };
            assert_eq!(value, expected, "a layer pointer taken for a value");
        }
    }
    writer.join().expect("writer");
}

#[test]
fn a_slot_that_becomes_a_layer_is_never_misread() {
    shuttle::check_random(|| make_layer(true), 2_000);
    shuttle::check_pct(|| make_layer(true), 2_000, 3);
}

#[test]
#[should_panic(expected = "a layer pointer taken for a value")]
fn a_layer_made_without_the_unstable_mark_is_noticed() {
    shuttle::check_random(|| make_layer(false), 5_000);
}

/// Never 0: the suffix of a long key is not empty.
fn suffix_of(key: u64) -> u64 {
    key + 1
}

/// Long keys, and what becomes of their suffixes.
impl SmallBorder {
    fn long(keys: &[u64]) -> Arc<Self> {
        let node = Self::new(keys);
        for length in &node.lengths[..keys.len()] {
            length.store(u64::from(SUFFIX), Ordering::Relaxed);
        }
        node
    }

    fn suffix(&self, slot: usize) -> u64 {
        let bag = self.bag.load(Ordering::Acquire) as usize;
        self.bags[bag][slot].load(Ordering::Acquire)
    }

    /// Inserts a long key into a slot that no reader has seen. The bag has no room for its suffix,
    /// so what is live moves to another.
    fn insert_first_long(&self, key: u64) {
        self.version.lock();
        let before = self.permutation();
        let (slot, permutation) = before.insert(0);
        for other in (0..before.count()).map(|index| before.slot(index)) {
            if self.lengths[other].load(Ordering::Relaxed) == u64::from(SUFFIX) {
                let suffix = self.bags[0][other].load(Ordering::Relaxed);
                self.bags[1][other].store(suffix, Ordering::Relaxed);
            }
        }
        self.bags[1][slot].store(suffix_of(key), Ordering::Relaxed);
        self.bag.store(1, Ordering::Release);
        self.lengths[slot].store(u64::from(SUFFIX), Ordering::Relaxed);
        self.slices[slot].store(key, Ordering::Relaxed);
        self.values[slot].store(value_of(key), Ordering::Release);
        self.permutation.store(permutation.raw(), Ordering::Release);
        self.version.unlock();
    }

    /// The steps of `layer::make_layer`.
    fn become_layer(&self, slot: usize, unstable: bool) {
        self.version.lock();
        if unstable {
            self.lengths[slot].store(u64::from(UNSTABLE), Ordering::Relaxed);
            fence(Ordering::Release);
        }
        self.values[slot].store(LAYER_POINTER, Ordering::Release);
        self.lengths[slot].store(u64::from(LAYER), Ordering::Release);
        self.version.unlock();
    }

    /// Slice and suffix of all keys, as a scan copies them. With `empty_is_torn`, it begins again
    /// where a suffix is empty.
    fn scan(&self, empty_is_torn: bool) -> Vec<(u64, u64)> {
        loop {
            let version = self.version.stable();
            let order = self.permutation();
            let entries: Vec<(u64, u64)> = (0..order.count())
                .map(|index| order.slot(index))
                .map(|slot| {
                    let slice = self.slices[slot].load(Ordering::Relaxed);
                    (slice, self.suffix(slot))
                })
                .collect();
            let torn = empty_is_torn && entries.iter().any(|&(_, suffix)| suffix == 0);
            if !torn && self.version.validate(version) {
                return entries;
            }
        }
    }

    /// Whether the long `key` is there; it is in the layer of its slice too.
    fn contains_long(&self, key: u64, empty_is_torn: bool) -> bool {
        loop {
            let version = self.version.stable();
            let order = self.permutation();
            let slot = (0..order.count())
                .map(|index| order.slot(index))
                .find(|&slot| self.slices[slot].load(Ordering::Relaxed) == key);
            let Some(slot) = slot else {
                return false;
            };
            let length = self.lengths[slot].load(Ordering::Acquire);
            let stable = length == self.lengths[slot].load(Ordering::Acquire);
            let suffix = self.suffix(slot);
            let is_layer = length == u64::from(LAYER);
            let torn = !stable
                || length == u64::from(UNSTABLE)
                || empty_is_torn && !is_layer && suffix == 0;
            if torn {
                thread::yield_now();
            } else if self.version.validate(version) {
                return is_layer || suffix == suffix_of(key);
            }
        }
    }
}

/// A key goes and another one's suffix moves the bag, while a scan copies the node.
fn replace_bag_below_a_scan(empty_is_torn: bool) {
    let node = SmallBorder::long(&[10, 20]);
    let writer = {
        let node = node.clone();
        thread::spawn(move || {
            node.remove(10);
            node.insert_first_long(5);
        })
    };
    for _ in 0..2 {
        for (slice, suffix) in node.scan(empty_is_torn) {
            assert_eq!(suffix, suffix_of(slice), "a key that never was");
        }
    }
    writer.join().expect("writer");
    assert_eq!(node.scan(true), [5, 20].map(|key| (key, suffix_of(key))));
}

#[test]
fn a_scan_visits_no_key_whose_suffix_was_left_behind() {
    shuttle::check_random(|| replace_bag_below_a_scan(true), 1_500);
    shuttle::check_pct(|| replace_bag_below_a_scan(true), 1_500, 3);
}

#[test]
#[should_panic(expected = "a key that never was")]
fn a_scan_that_takes_an_empty_suffix_for_one_is_noticed() {
    shuttle::check_pct(|| replace_bag_below_a_scan(false), 20_000, 3);
}

/// A key's slot becomes a layer and another key's suffix moves the bag, while a reader looks for
/// the key.
fn replace_bag_below_a_get(empty_is_torn: bool) {
    let node = SmallBorder::long(&[10, 20]);
    let writer = {
        let node = node.clone();
        thread::spawn(move || {
            node.become_layer(0, true);
            node.insert_first_long(5);
        })
    };
    for _ in 0..2 {
        let found = node.contains_long(10, empty_is_torn);
        assert!(found, "a key that stays was lost");
    }
    writer.join().expect("writer");
}

#[test]
fn a_get_finds_a_key_whose_suffix_went_into_a_layer() {
    shuttle::check_random(|| replace_bag_below_a_get(true), 1_500);
    shuttle::check_pct(|| replace_bag_below_a_get(true), 1_500, 3);
}

#[test]
#[should_panic(expected = "a key that stays was lost")]
fn a_get_that_takes_an_empty_suffix_for_one_is_noticed() {
    shuttle::check_pct(|| replace_bag_below_a_get(false), 20_000, 3);
}

/// What a narrow node that was replaced forwards to, as `widen::widen` publishes it.
struct SmallLayer {
    narrow: Arc<SmallBorder>,
    wider: Arc<SmallBorder>,
    /// Whether the narrow node has its replacement; `Border::set_replacement`.
    replaced: AtomicU64,
}

impl SmallLayer {
    /// A narrow node of `keys`, and the wider one that is to replace it when `more` arrives.
    fn new(keys: &[u64], more: u64) -> Arc<Self> {
        let mut all = vec![more];
        all.extend(keys);
        Arc::new(Self {
            narrow: SmallBorder::new(keys),
            wider: SmallBorder::new(&all),
            replaced: AtomicU64::new(0),
        })
    }

    /// The steps of `Masstree::widen` on the latched narrow node.
    fn widen(&self, mark: bool) {
        if mark {
            self.narrow.version.mark_splitting();
        }
        let none = Permutation::empty();
        self.narrow.permutation.store(none.raw(), Ordering::Release);
        self.replaced.store(1, Ordering::Release);
        self.narrow.version.clear_root();
        self.narrow.version.unlock();
    }

    /// `Border::next`: only what is no root any more forwards.
    fn next(&self) -> Option<&SmallBorder> {
        let forwards = !self.narrow.version.load().is_root();
        (forwards && self.replaced.load(Ordering::Acquire) == 1).then_some(&*self.wider)
    }

    /// `examine` from the narrow node on, which the reader reached before it was replaced.
    fn get(&self, key: u64) -> Option<u64> {
        let version = self.narrow.version.stable();
        self.get_after(version, key)
    }

    fn get_after(&self, mut version: Version, key: u64) -> Option<u64> {
        loop {
            let found = self.narrow.find(key);
            if self.narrow.version.validate(version) {
                // Readers that come after the replacement go through `true_root`, which climbs.
                return match (found, version.is_root()) {
                    (None, false) => self.wider.get(key),
                    (found, _) => found,
                };
            }
            version = self.narrow.version.stable();
            if let Some(wider) = self.next() {
                return wider.get(key);
            }
        }
    }
}

/// A reader stands in a narrow node while a writer replaces it.
fn widen(mark: bool) {
    let layer = SmallLayer::new(&[10, 20], 5);
    let version = layer.narrow.version.stable();
    let writer = {
        let layer = layer.clone();
        thread::spawn(move || {
            layer.narrow.version.lock();
            layer.widen(mark);
        })
    };
    for key in [10, 20] {
        assert_eq!(
            layer.get_after(version, key),
            Some(value_of(key)),
            "a key that stays was lost"
        );
    }
    writer.join().expect("writer");
    assert_eq!(layer.get(5), Some(value_of(5)));
}

#[test]
fn a_reader_in_a_narrow_node_follows_its_replacement() {
    shuttle::check_random(|| widen(true), 2_000);
    shuttle::check_pct(|| widen(true), 2_000, 3);
}

#[test]
#[should_panic(expected = "a key that stays was lost")]
fn a_widening_that_counts_no_split_is_noticed() {
    shuttle::check_pct(|| widen(false), 20_000, 3);
}
