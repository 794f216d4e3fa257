//! The trees with locks that neither balance nor help each other, under shuttle: `ticket`,
//! `log-int` and `citrus` with their links, versions, locks and readers' words on shuttle's
//! atomics. What runs is the code that ships.
//!
//! Two or three threads insert, remove, look up and scan in situations made for each step of the
//! protocols; afterwards every answer is compared and the tree verified. Twins that leave a step
//! out must fail: words that store something else when the step is taken, locks that do not lock,
//! and grace periods that are not waited for.

use std::mem::ManuallyDrop;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};
use hedgerow_modelled::Modelled;
use hedgerow_sync::epoch;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner, thread};

use crate::grace_period::{GracePeriods, ReaderWord, wait_for_sections};
use crate::modelled_form::{Locked, Unlocked, twin};
use crate::tree::SearchTree;
use crate::{Citrus, LogInt, Ticket};

/// The bits of a node of `ticket` that say which links are locked.
const LOCKS: u64 = 1 << 32 | 1;

/// Whether a word of `citrus` is a state with few tags, and no link.
fn is_state(value: u64) -> bool {
    value & 0xffff_ffff < 64 && value >> 32 < 64
}

twin!(
    /// `ticket`: a removal does not lock the links of the leaf's parent.
    ParentNotLocked,
    |current, new| if new & LOCKS == LOCKS && current & LOCKS == 0 { current } else { new }
);
twin!(
    /// `ticket`: a link that was changed has the version that it had before.
    VersionsStay,
    |current, new| if current & LOCKS > new & LOCKS { current & !LOCKS | new & LOCKS } else { new }
);
twin!(
    /// `log-int`: removed nodes are not marked.
    RemovedNotMarked,
    |_, new| new,
    |value| value & !1
);
twin!(
    /// `citrus`: removed nodes are not marked.
    StateNotMarked,
    |_, new| new,
    |value| if is_state(value) { value & !1 } else { value }
);
twin!(
    /// `citrus`: links that lose their nodes keep their tags.
    TagsStay,
    |_, new| new,
    |value| if is_state(value) { value & 1 } else { value }
);

/// More than run at once.
const READERS: usize = 8;

/// The readers of one tree: a word for each of shuttle's threads that run at once, whose numbers
/// follow each other.
struct ModelledReaders<const WAITS: bool>([ReaderWord<Modelled>; READERS]);

impl<const WAITS: bool> Default for ModelledReaders<WAITS> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| ReaderWord::new()))
    }
}

/// A section of a thread of shuttle's.
struct ModelledSection<'a>(&'a ReaderWord<Modelled>);

impl Drop for ModelledSection<'_> {
    fn drop(&mut self) {
        self.0.exit();
    }
}

impl<const WAITS: bool> GracePeriods for ModelledReaders<WAITS> {
    type Section<'a> = ModelledSection<'a>;

    fn enter(&self) -> ModelledSection<'_> {
        let word = &self.0[usize::from(shuttle::current::me()) % READERS];
        word.enter();
        ModelledSection(word)
    }

    fn wait(&self) {
        if WAITS {
            wait_for_sections(|| &self.0);
        }
    }
}

type ShippedTicket = Ticket<u64, Locked, Modelled>;
type ParentNotLockedTicket = Ticket<u64, Locked, ParentNotLocked>;
type VersionsStayTicket = Ticket<u64, Locked, VersionsStay>;
type ShippedLogInt = LogInt<u64, Locked, Modelled>;
type NotMarkedLogInt = LogInt<u64, Locked, RemovedNotMarked>;
type UnlockedLogInt = LogInt<u64, Unlocked, Modelled>;
type ShippedCitrus = Citrus<u64, Locked, Modelled, ModelledReaders<true>>;
type NotMarkedCitrus = Citrus<u64, Locked, StateNotMarked, ModelledReaders<true>>;
type TagsStayCitrus = Citrus<u64, Locked, TagsStay, ModelledReaders<true>>;
type UnlockedCitrus = Citrus<u64, Unlocked, Modelled, ModelledReaders<true>>;
type ImpatientCitrus = Citrus<u64, Locked, Modelled, ModelledReaders<false>>;

/// What a thread does, and what it must see. The word of a key is ten times the key.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The key is absent.
    Insert(u64),
    /// The key is present.
    Remove(u64),
    /// Several threads insert it; all but one find it present.
    TryInsert(u64),
    /// Several threads remove it; all but one find it absent.
    TryRemove(u64),
    /// The key is there all the time.
    Get(u64),
    /// The key is never there.
    Miss(u64),
    /// The key appears at some time, and is there from then on.
    Watch(u64),
}

use Act::{Get, Insert, Miss, Remove, TryInsert, TryRemove, Watch};

/// Does it; says whether a `Try…` did what it tried.
fn perform(tree: &impl ConcurrentIntMap<u64>, act: Act) -> bool {
    match act {
        Insert(key) => assert_eq!(tree.insert(key, key * 10), None, "{act:?}"),
        Remove(key) => assert_eq!(tree.remove(key), Some(key * 10), "{act:?}"),
        Get(key) => assert_eq!(tree.get(key), Some(key * 10), "{act:?}"),
        Miss(key) => assert_eq!(tree.get(key), None, "{act:?}"),
        TryInsert(key) => return tree.insert(key, key * 10).is_none(),
        TryRemove(key) => return tree.remove(key).is_some(),
        Watch(key) => {
            let seen = [(); 3].map(|()| tree.get(key).is_some());
            assert!(seen.is_sorted(), "{act:?}: {seen:?}");
        }
    }
    false
}

/// A tree that is left alone when a run of a twin ends in the middle.
type Shared<T> = Arc<ManuallyDrop<T>>;

fn filled<T: SearchTree<u64>>(keys: &[u64]) -> Shared<T> {
    let tree = T::segregated();
    for &key in keys {
        assert_eq!(tree.insert(key, key * 10), None);
    }
    Arc::new(ManuallyDrop::new(tree))
}

/// Compares the tree with the keys that must be left, and drops it.
fn expect<T: SearchTree<u64>>(tree: Shared<T>, left: &[u64]) {
    tree.verify().expect("sound");
    for &key in left {
        assert_eq!(tree.get(key), Some(key * 10), "key {key} was lost");
    }
    let keys = tree.statistics().get("keys");
    assert_eq!(keys, Some(left.len() as f64), "a removed key is back");
    let tree = Arc::into_inner(tree).expect("every thread has ended");
    drop(ManuallyDrop::into_inner(tree));
}

/// Does what each list says in a thread of its own; returns how many tries did something.
fn run<T: SearchTree<u64> + 'static>(tree: &Shared<T>, threads: &[&'static [Act]]) -> usize {
    let threads = threads.iter().map(|&acts| {
        let tree = Arc::clone(tree);
        thread::spawn(move || acts.iter().filter(|act| perform(&**tree, **act)).count())
    });
    let threads: Vec<_> = threads.collect();
    let counts = threads.into_iter().map(|thread| thread.join());
    counts
        .map(|count| count.expect("a thread ended well"))
        .sum()
}

fn check<T: SearchTree<u64> + 'static>(keys: &[u64], threads: &[&'static [Act]], left: &[u64]) {
    let tree = filled::<T>(keys);
    run(&tree, threads);
    expect(tree, left);
}

/// The successor of 20 is a child of its right child.
const DEEP: &[u64] = &[20, 10, 40, 30, 50];
/// It is the right child.
const CHILD: &[u64] = &[20, 10, 30, 40];

/// At one leaf, at its sibling, and at both ends.
fn inserts_meet<T: SearchTree<u64> + 'static>() {
    check::<T>(
        &[20],
        &[&[Insert(10)], &[Insert(15)], &[Insert(12)]],
        &[10, 12, 15, 20],
    );
    check::<T>(&[], &[&[Insert(10)], &[Insert(20)]], &[10, 20]);
    let tree = filled::<T>(&[20]);
    assert_eq!(run(&tree, &[&[TryInsert(10)], &[TryInsert(10)]]), 1);
    expect(tree, &[10, 20]);
}

fn removals_meet<T: SearchTree<u64> + 'static>() {
    check::<T>(DEEP, &[&[Remove(20)], &[Remove(30)]], &[10, 40, 50]);
    check::<T>(
        DEEP,
        &[&[Remove(20)], &[Remove(40)], &[Remove(10)]],
        &[30, 50],
    );
    check::<T>(CHILD, &[&[Remove(20)], &[Remove(30)]], &[10, 40]);
    check::<T>(&[10, 20], &[&[Remove(20)], &[Remove(10)]], &[]);
    let tree = filled::<T>(DEEP);
    assert_eq!(
        run(&tree, &[&[TryRemove(20)], &[TryRemove(20)]]),
        1,
        "removed twice"
    );
    expect(tree, &[10, 30, 40, 50]);
}

fn inserts_beside_removals<T: SearchTree<u64> + 'static>() {
    check::<T>(DEEP, &[&[Remove(20)], &[Insert(25)]], &[10, 25, 30, 40, 50]);
    check::<T>(DEEP, &[&[Remove(20)], &[Insert(35)]], &[10, 30, 35, 40, 50]);
    check::<T>(
        &[10, 20],
        &[&[Remove(10)], &[Insert(5), Insert(15)]],
        &[5, 15, 20],
    );
    check::<T>(&[20], &[&[Insert(10)], &[Insert(5), Remove(5)]], &[10, 20]);
    check::<T>(
        &[20, 10, 40],
        &[&[Insert(25)], &[Insert(30), Remove(20)]],
        &[10, 25, 30, 40],
    );
    // The only child of 30 takes its place, and 28 is inserted below it.
    check::<T>(
        &[30, 20, 10],
        &[&[Remove(30), Insert(30)], &[Insert(28)]],
        &[10, 20, 28, 30],
    );
}

fn lookups_beside_removals<T: SearchTree<u64> + 'static>() {
    const ACTS: &[Act] = &[Get(30), Miss(25), Get(30), Get(40), Get(30), Get(30)];
    check::<T>(DEEP, &[&[Remove(20)], ACTS], &[10, 30, 40, 50]);
    check::<T>(CHILD, &[&[Remove(20)], ACTS], &[10, 30, 40]);
    check::<T>(
        DEEP,
        &[&[Remove(20), Insert(20)], ACTS],
        &[10, 20, 30, 40, 50],
    );
}

/// A key that is inserted again appears once, and stays.
fn lookups_beside_inserts<T: SearchTree<u64> + 'static>() {
    check::<T>(
        DEEP,
        &[&[Insert(25)], &[Watch(25)]],
        &[10, 20, 25, 30, 40, 50],
    );
    let threads: &[&[Act]] = &[&[Remove(20)], &[Insert(25)], &[Watch(25)]];
    check::<T>(&[20, 10, 40, 30], threads, &[10, 25, 30, 40]);
    let threads: &[&[Act]] = &[&[Remove(30)], &[TryInsert(30), Get(20)], &[Get(10)]];
    let tree = filled::<T>(&[30, 20, 10]);
    let inserted = run(&tree, threads);
    let left: &[u64] = if inserted == 1 {
        &[10, 20, 30]
    } else {
        &[10, 20]
    };
    expect(tree, left);
}

/// Scans both ways beside removals and inserts around the keys that stay.
fn scans<T: SearchTree<u64> + OrderedIntMap<u64> + 'static>() {
    const STAYING: &[u64] = &[10, 30, 50];
    for (direction, from) in [(Direction::Forward, 5), (Direction::Reverse, 55)] {
        let tree = filled::<T>(DEEP);
        let scanner = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let mut found = Vec::new();
                tree.scan(Bound::Included(from), direction, |key, word| {
                    assert_eq!(word, key * 10);
                    found.push(key);
                    ControlFlow::Continue(())
                });
                found
            })
        };
        run(
            &tree,
            &[&[Remove(20), Insert(25)], &[Remove(40), Insert(28)]],
        );
        let mut found = scanner.join().expect("the scan ended well");
        if direction == Direction::Reverse {
            found.reverse();
        }
        let ascending = found.windows(2).all(|pair| pair[0] < pair[1]);
        let complete = STAYING.iter().all(|key| found.contains(key));
        assert!(ascending && complete, "scanned {found:?}");
        expect(tree, &[10, 25, 28, 30, 50]);
    }
}

/// A key that a lookup saw is in scans from then on, both ways.
fn scans_after_lookups<T: SearchTree<u64> + OrderedIntMap<u64> + 'static>() {
    let tree = filled::<T>(DEEP);
    let watcher = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            let seen = tree.get(25).is_some();
            let upward = tree.successor(21).is_some_and(|(key, _)| key == 25);
            let downward = tree.predecessor(29).is_some_and(|(key, _)| key == 25);
            let again = tree.get(25).is_some();
            assert!(
                [seen, upward, downward, again].is_sorted(),
                "25 came and went"
            );
        })
    };
    run(&tree, &[&[Insert(25)]]);
    watcher.join().expect("the watcher ended well");
    expect(tree, &[10, 20, 25, 30, 40, 50]);
}

/// Runs many schedules; `HEDGEROW_TEST_SCALE` multiplies them.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let schedules = (150.0 * scale) as usize;
    shuttle::check_random(run.clone(), schedules);
    shuttle::check_pct(run, schedules, 3);
}

/// Runs a twin in the same schedules each time, of few steps. What it retires twice is never freed:
/// this thread stays pinned.
fn expect_failure(run: impl Fn() + Send + Sync + 'static) {
    std::mem::forget(epoch::pin());
    let mut config = Config::default();
    config.max_steps = MaxSteps::FailAfter(50_000);
    let run = Arc::new(run);
    let again = Arc::clone(&run);
    let random = RandomScheduler::new_from_seed(18, 2_500);
    Runner::new(random, config.clone()).run(move || run());
    // One thread stops while another does much: chance alone is not so patient.
    let priorities = PctScheduler::new_from_seed(18, 3, 2_500);
    Runner::new(priorities, config).run(move || again());
}

macro_rules! scenarios {
    ($name:ident, $tree:ty) => {
        mod $name {
            use super::*;

            #[test]
            fn updates_meet() {
                explore(inserts_meet::<$tree>);
                explore(removals_meet::<$tree>);
                explore(inserts_beside_removals::<$tree>);
            }

            #[test]
            fn lookups_see_what_is_there() {
                explore(lookups_beside_removals::<$tree>);
                explore(lookups_beside_inserts::<$tree>);
            }
        }
    };
}

scenarios!(ticket, ShippedTicket);
scenarios!(log_int, ShippedLogInt);
scenarios!(citrus, ShippedCitrus);

#[test]
fn scans_of_log_int_skip_nothing() {
    explore(scans::<ShippedLogInt>);
    explore(scans_after_lookups::<ShippedLogInt>);
}

macro_rules! must_fail {
    ($name:ident, $scenario:ident, $twin:ty, $message:literal) => {
        #[test]
        #[should_panic(expected = $message)]
        fn $name() {
            expect_failure($scenario::<$twin>);
        }
    };
}

must_fail!(
    ticket_without_locked_parents,
    inserts_beside_removals,
    ParentNotLockedTicket,
    "was lost"
);
must_fail!(
    ticket_without_new_versions,
    inserts_meet,
    VersionsStayTicket,
    "was lost"
);
must_fail!(
    log_int_without_marks,
    inserts_beside_removals,
    NotMarkedLogInt,
    "exceeded max_steps"
);
must_fail!(
    log_int_without_locks_by_inserts,
    inserts_meet,
    UnlockedLogInt,
    "follow each other in the tree, not in the list"
);
must_fail!(
    log_int_without_locks_by_removals,
    removals_meet,
    UnlockedLogInt,
    "self.child_address(side) == old.address()"
);
must_fail!(
    citrus_without_locks_by_inserts,
    inserts_meet,
    UnlockedCitrus,
    "was lost"
);
must_fail!(
    citrus_without_locks_by_removals,
    removals_meet,
    UnlockedCitrus,
    "comes after"
);
must_fail!(
    citrus_without_marks,
    inserts_beside_removals,
    NotMarkedCitrus,
    "was lost"
);
must_fail!(
    citrus_without_tags,
    inserts_beside_removals,
    TagsStayCitrus,
    "comes after"
);
must_fail!(
    citrus_without_grace_periods,
    lookups_beside_removals,
    ImpatientCitrus,
    "Get(30)"
);
