//! The whole tree under shuttle: its mapping table, free list and chunk markers on shuttle's
//! atomics, its epochs the centralised ones, its nodes tiny. What runs is the code that ships.
//!
//! Two or three threads append, consolidate, split, merge and use ids again, in situations made for
//! each; afterwards every answer is compared and the tree verified. Twins that leave a step out
//! must fail: a word whose compare-and-swap does not compare, epochs that recycle ids at once, and
//! a removal from a multimap that does not look again.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{Direction, ScanRange};
use hedgerow_modelled::Modelled;
use hedgerow_sync::word::Word;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Runner, thread};

use crate::chunk_word::ChunkWord;
use crate::configuration::{Configuration, Threshold, Tiny};
use crate::epochs::{CentralisedEpochs, CentralisedGuard, Epochs};
use crate::mapping_table::{Entries, MappingTable, NONE};
use crate::multimap::BwMultimap;
use crate::tree::BwTree;

const IDS: usize = 64;

/// A few entries on words of shuttle's.
struct FewEntries<W>(Vec<W>);

// SAFETY: a word for each id, as atomic as `W`. Twins with wrong words free no memory.
unsafe impl<W: ChunkWord + 'static> Entries for FewEntries<W> {
    type Word = W;
    type Shared = W;
    type Sharing = ();

    fn reserve() -> io::Result<Self> {
        Ok(Self((0..IDS).map(|_| W::new(0)).collect()))
    }

    unsafe fn word(&self, id: u32) -> &W {
        &self.0[id as usize]
    }

    fn capacity(&self) -> usize {
        IDS
    }
}

/// A word that exchanges addresses without comparing; markers of chunks, which are small, are
/// right.
struct Blind(Modelled);

// SAFETY: a twin, which does not compare addresses; its tree frees nothing (`Endless`).
unsafe impl Word for Blind {
    fn new(value: u64) -> Self {
        Self(Modelled::new(value))
    }

    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        if new <= u64::from(u32::MAX) {
            return self.0.compare_exchange_weak(current, new, success, failure);
        }
        self.0.store(new, Ordering::Release);
        Ok(current)
    }

    fn fence(ordering: Ordering) {
        Modelled::fence(ordering);
    }

    fn pause(rounds: &mut u32) {
        Modelled::pause(rounds);
    }
}

/// Epochs that let ids be used again at once, and never free memory, so that what goes wrong is an
/// answer.
#[derive(Default)]
struct IdsAtOnce(CentralisedEpochs);

// SAFETY: it frees no memory; ids that are used again too early are what its test looks for.
unsafe impl Epochs for IdsAtOnce {
    type Guard = CentralisedGuard;

    fn pin(&self) -> CentralisedGuard {
        self.0.pin()
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(
        _guard: &CentralisedGuard,
        _bytes: usize,
        release: F,
    ) {
        std::mem::forget(release);
    }

    unsafe fn retire_id<F: FnOnce() + Send + 'static>(_guard: &CentralisedGuard, release: F) {
        release();
    }
}

/// Epochs that never end: what two threads replaced is retired twice.
#[derive(Default)]
struct Endless;

// SAFETY: it frees nothing.
unsafe impl Epochs for Endless {
    type Guard = ();

    fn pin(&self) {}

    unsafe fn retire<F: FnOnce() + Send + 'static>(_guard: &(), _bytes: usize, release: F) {
        std::mem::forget(release);
    }
}

// SAFETY: the memory is that of `hedgerow_memory`.
unsafe impl ChunkWord for Modelled {
    type Newest = ();
}

// SAFETY: as above.
unsafe impl ChunkWord for Blind {
    type Newest = ();
}

macro_rules! modelled {
    ($name:ident, $word:ty, $epochs:ty, $threshold:expr) => {
        enum $name {}

        impl Configuration for $name {
            type Entries = FewEntries<$word>;
            type Epochs = $epochs;
            const LEAF_ITEMS: usize = Tiny::LEAF_ITEMS;
            const INNER_ITEMS: usize = Tiny::INNER_ITEMS;
            const NODE_BYTES: usize = Tiny::NODE_BYTES;
            const THRESHOLD: Threshold = $threshold;
            const LEAF_CHAIN: u16 = 2;
            const INNER_CHAIN: u16 = 2;
            const LEAF_DELTA_BYTES: usize = Tiny::LEAF_DELTA_BYTES;
            const INNER_DELTA_BYTES: usize = Tiny::INNER_DELTA_BYTES;
        }
    };
}

/// Every lookup that walks a chain consolidates it.
const AT_ONCE: Threshold = Threshold::Adaptive { walked: 1 };

modelled!(Shipped, Modelled, CentralisedEpochs, Threshold::Fixed);
modelled!(Adapting, Modelled, CentralisedEpochs, AT_ONCE);
modelled!(NotComparing, Blind, Endless, Threshold::Fixed);
modelled!(AdaptingNotComparing, Blind, Endless, AT_ONCE);
modelled!(RecyclingAtOnce, Modelled, IdsAtOnce, Threshold::Fixed);

/// A tree with these keys, each of which is its own value.
fn tree<C: Configuration<Entries: Entries<Sharing = ()>>>(
    keys: impl IntoIterator<Item = u8>,
) -> Arc<BwTree<C>> {
    let tree = BwTree::new();
    keys.into_iter().for_each(|key| {
        tree.put(&[key], &[key]);
    });
    Arc::new(tree)
}

/// Runs each list of steps in a thread: positive numbers are put, negative ones removed.
fn run<C: Configuration<Entries: Entries<Sharing = ()>>>(
    tree: &Arc<BwTree<C>>,
    threads: &[&'static [i16]],
) {
    let threads = threads.iter().map(|&steps| {
        let tree = Arc::clone(tree);
        thread::spawn(move || {
            for &step in steps {
                let key = step.unsigned_abs() as u8;
                if step > 0 {
                    tree.put(&[key], &[key]);
                } else {
                    assert!(tree.remove(&[key]), "a key was lost");
                }
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().expect("a thread ended well");
    }
}

fn expect<C: Configuration>(tree: &BwTree<C>, expected: &[u8]) {
    let mut found = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |key, value| {
        assert_eq!(key, value, "another key's value");
        found.push(key[0]);
        ControlFlow::Continue(())
    });
    assert_eq!(found, expected, "a key was lost");
    for &key in expected {
        assert!(tree.contains(&[key]), "a key was lost");
    }
    tree.verify().expect("sound");
}

/// Runs many schedules; `HEDGEROW_TEST_SCALE` multiplies them.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let schedules = (1_000.0 * scale) as usize;
    shuttle::check_random(run.clone(), schedules);
    shuttle::check_pct(run, schedules, 3);
}

fn appends<C: Configuration<Entries: Entries<Sharing = ()>>>() {
    let tree = tree::<C>([10]);
    run(&tree, &[&[1, 2], &[3, -10]]);
    expect(&tree, &[1, 2, 3]);
}

#[test]
fn appends_and_consolidations_lose_nothing() {
    explore(appends::<Shipped>);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn a_swap_that_does_not_compare_is_noticed() {
    shuttle::check_random(appends::<NotComparing>, 2_000);
}

/// One thread's lookups consolidate the chain that another one appends to, and merge what it
/// empties.
fn reads_that_consolidate<C: Configuration<Entries: Entries<Sharing = ()>>>() {
    let tree = tree::<C>((1..=8).map(|number| number * 10));
    let reader = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for _ in 0..2 {
                let found = tree.get_with(&[80], |value| value[0]);
                assert_eq!(found, Some(80), "a key was lost");
                tree.contains(&[10]);
            }
        })
    };
    run(&tree, &[&[11, 81, -10, -20, -30, 82]]);
    reader.join().expect("the reader ended well");
    expect(&tree, &[11, 40, 50, 60, 70, 80, 81, 82]);
}

#[test]
fn lookups_that_consolidate_lose_nothing() {
    explore(reads_that_consolidate::<Adapting>);
}

/// One thread's lookups consolidate the only leaf while another one appends to it: all that can go
/// wrong is that a delta is lost.
fn reads_of_one_leaf<C: Configuration<Entries: Entries<Sharing = ()>>>() {
    let tree = tree::<C>([10]);
    let reader = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for key in [10, 1, 2] {
                tree.contains(&[key]);
            }
        })
    };
    run(&tree, &[&[1, 2]]);
    reader.join().expect("the reader ended well");
    expect(&tree, &[1, 2, 10]);
}

#[test]
fn lookups_that_consolidate_one_leaf_lose_nothing() {
    explore(reads_of_one_leaf::<Adapting>);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn a_lookup_whose_swap_does_not_compare_is_noticed() {
    shuttle::check_random(reads_of_one_leaf::<AdaptingNotComparing>, 2_000);
}

#[test]
fn splits_at_once_lose_nothing() {
    explore(|| {
        let tree = tree::<Shipped>([10, 20, 30, 40]);
        run(&tree, &[&[11, 12, 13], &[31, 32, 33]]);
        expect(&tree, &[10, 11, 12, 13, 20, 30, 31, 32, 33, 40]);
    });
}

/// The first leaf is emptied and takes over the second, while the third splits: the parent gets a
/// separator and loses one.
#[test]
fn merges_beside_splits_lose_nothing() {
    explore(|| {
        let tree = tree::<Shipped>((1..=14).map(|number| number * 10));
        run(
            &tree,
            &[&[-10, -20, -30, -40, -50], &[121, 122, 123, 124, 125]],
        );
        let mut expected: Vec<u8> = (6..=14).map(|n| n * 10).chain(121..=125).collect();
        expected.sort_unstable();
        expect(&tree, &expected);
        assert_eq!(tree.counters().get("merges"), Some(1.0));
    });
}

#[test]
fn an_emptied_tree_is_one_leaf() {
    explore(|| {
        let tree = tree::<Shipped>([10, 20, 30, 40, 50, 60]);
        run(&tree, &[&[-10, -30, -50], &[-60, -40, -20]]);
        expect(&tree, &[]);
        assert_eq!(tree.statistics().get("leaves"), Some(1.0));
    });
}

/// Two leaves below an inner node merge, while a third one splits again and again: the inner node
/// may split beside the merge of its children.
#[test]
fn a_parent_that_splits_beside_a_merge_keeps_its_children() {
    const NEW: &[i16] = &[97, 98, 99, 101, 102, 105, 106, 107, 113, 114, 115];
    explore(|| {
        let tree = tree::<Shipped>((1..=30).map(|number| number * 8));
        run(&tree, &[&[-8, -16, -24, -32, -40], NEW]);
        let old = (6..=30).map(|number| number * 8);
        let mut expected: Vec<u8> = old.chain(NEW.iter().map(|&key| key as u8)).collect();
        expected.sort_unstable();
        expect(&tree, &expected);
        assert_eq!(tree.counters().get("merges"), Some(1.0));
        assert!(tree.statistics().get("height") > Some(2.0));
    });
}

/// The first leaf is emptied and takes over the second, whose keys one thread reads; then the third
/// splits, and its new neighbour takes the second one's id.
fn reads_beside_recycling<C: Configuration<Entries: Entries<Sharing = ()>>>() {
    let tree = tree::<C>((1..=12).map(|number| number * 10));
    let reader = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for key in [110, 60, 110, 60] {
                let found = tree.get_with(&[key], |value| value[0]);
                assert_eq!(found, Some(key), "a key was lost");
            }
        })
    };
    run(
        &tree,
        &[&[-10, -20, -30, -40, -50, 121, 122, 123, 124, 125, 126]],
    );
    reader.join().expect("the reader ended well");
    let expected: Vec<u8> = (6..12).map(|n| n * 10).chain(120..=126).collect();
    expect(&tree, &expected);
    assert_eq!(tree.counters().get("merges"), Some(1.0));
}

#[test]
fn readers_meet_no_id_that_was_used_again() {
    explore(reads_beside_recycling::<Shipped>);
}

/// As [`reads_beside_recycling`], but a scan in the first leaf waits for all of it, so that its
/// next step is to the second leaf's id.
fn scan_beside_recycling<C: Configuration<Entries: Entries<Sharing = ()>>>() {
    let tree = tree::<C>((1..=12).map(|number| number * 10));
    let mut found = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
    tree.scan_range(&all, |key, _| {
        if found.is_empty() {
            run(
                &tree,
                &[&[-10, -20, -30, -40, -50, 121, 122, 123, 124, 125, 126]],
            );
        }
        found.push(key[0]);
        ControlFlow::Continue(())
    });
    let staying = (6..=12).map(|number| number * 10);
    assert!(
        staying.into_iter().all(|key| found.contains(&key)),
        "a key was lost: {found:?}"
    );
}

#[test]
fn a_scan_meets_no_id_that_was_used_again() {
    shuttle::check_random(scan_beside_recycling::<Shipped>, 100);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn ids_used_again_at_once_are_noticed() {
    shuttle::check_random(scan_beside_recycling::<RecyclingAtOnce>, 1);
}

/// What one thread leaves half done, another one completes: the same schedules in every run.
#[test]
fn threads_complete_what_others_began() {
    const HELP: [&str; 2] = ["helped_separators", "helped_merges"];
    let helped = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let sums = Arc::clone(&helped);
    let run = move || {
        let tree = tree::<Shipped>((1..=14).map(|number| number * 10));
        run(
            &tree,
            &[
                &[-10, -20, -30, -40, -50],
                &[121, 123, 125],
                &[122, 124, 126],
            ],
        );
        let mut expected: Vec<u8> = (6..=14).map(|n| n * 10).chain(121..=126).collect();
        expected.sort_unstable();
        expect(&tree, &expected);
        let counters = tree.counters();
        for (sum, name) in sums.iter().zip(HELP) {
            sum.fetch_add(
                counters.get(name).expect("counted") as u64,
                Ordering::Relaxed,
            );
        }
    };
    let scheduler = RandomScheduler::new_from_seed(17, 1_000);
    Runner::new(scheduler, shuttle::Config::default()).run(run);
    for (sum, name) in helped.iter().zip(HELP) {
        assert!(sum.load(Ordering::Relaxed) > 0, "{name}");
    }
}

/// The key whose values threads remove in [`removals_meet`].
const OF: &[u8] = b"of";

/// Removes a value of the key that ends with 7.
type RemoveSeven<C> = fn(&BwMultimap<C>) -> bool;

/// Three threads remove values that end with 7, of which there are two.
fn removals_meet<C: Configuration<Entries: Entries<Sharing = ()>>>(remove: RemoveSeven<C>) {
    let map = Arc::new(BwMultimap::<C>::new());
    for value in [[1, 7], [2, 8], [3, 7]] {
        assert_eq!(map.insert(OF, &value), Ok(true));
    }
    let threads = [(); 3].map(|()| {
        let map = Arc::clone(&map);
        thread::spawn(move || remove(&map))
    });
    let removed = threads.map(|thread| thread.join().expect("a thread ended well"));
    let removed = removed.into_iter().filter(|removed| *removed).count();
    assert!(removed <= 2, "a value was removed twice");
    assert!(removed == 2, "a value was missed");
    let mut left = Vec::new();
    map.values(OF, |value| {
        left.push(value.to_vec());
        ControlFlow::Continue(())
    });
    assert_eq!(left, [[2, 8]]);
    map.verify().expect("sound");
}

fn remove_seven<C: Configuration>(map: &BwMultimap<C>) -> bool {
    map.remove_first(OF, |value| value.ends_with(&[7]))
}

/// As [`remove_seven`], but gives up where another thread was first.
fn try_once<C: Configuration>(map: &BwMultimap<C>) -> bool {
    let mut first = None;
    map.values(OF, |value| match value.ends_with(&[7]) {
        true => {
            first = Some(value.to_vec());
            ControlFlow::Break(())
        }
        false => ControlFlow::Continue(()),
    });
    first.is_some_and(|first| map.remove(OF, &first))
}

#[test]
fn threads_that_remove_the_same_values_remove_each_once() {
    explore(|| removals_meet::<Shipped>(remove_seven));
}

#[test]
#[should_panic(expected = "a value was removed twice")]
fn removals_whose_swaps_do_not_compare_are_noticed() {
    shuttle::check_random(|| removals_meet::<NotComparing>(remove_seven), 2_000);
}

#[test]
#[should_panic(expected = "a value was missed")]
fn removals_that_give_up_are_noticed() {
    shuttle::check_random(|| removals_meet::<Shipped>(try_once), 2_000);
}

/// Ids are taken from the free list and given back by two threads: none is given to both.
#[test]
fn the_free_list_gives_each_id_to_one_thread() {
    explore(|| {
        let table = Arc::new(MappingTable::<FewEntries<Modelled>>::new().unwrap());
        let ids: Vec<_> = (0..3).map(|_| table.allocate()).collect();
        ids.into_iter().for_each(|id| table.recycle(id));
        let threads = [0, 1].map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for _ in 0..2 {
                    let (one, two) = (table.allocate(), table.allocate());
                    assert!(one != two && one != NONE && two != NONE);
                    for id in [one, two] {
                        table.install(id, u64::from(id) << 8);
                    }
                    thread::yield_now();
                    for id in [two, one] {
                        assert_eq!(table.load(id), u64::from(id) << 8, "two threads have an id");
                        table.recycle(id);
                    }
                }
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a thread ended well"));
    });
}
