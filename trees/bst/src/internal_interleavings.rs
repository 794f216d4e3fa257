//! The lock-free internal trees under shuttle: their links and `op` words on shuttle's atomics.
//! What runs is the code that ships.
//!
//! Two or three threads insert, remove and look up in situations made for each step of the
//! protocols; afterwards every answer is compared and the tree verified. Twins that leave a step
//! out must fail.

use std::sync::Arc;

use hedgerow_index::ConcurrentIntMap;
use hedgerow_modelled::Modelled;
use shuttle::scheduler::PctScheduler;
use shuttle::{Config, MaxSteps, Runner, thread};

use crate::form::Improved;
use crate::modelled_form::twin;
use crate::tree::SearchTree;
use crate::twin::{Step, TreeWord};
use crate::{EdgeIntLf, IntLf};

impl TreeWord for Modelled {}

/// A word of shuttle's whose tree leaves the step of the same name out.
macro_rules! without {
    ($name:ident) => {
        twin!($name, |_, new| new);

        impl TreeWord for $name {
            const WITHOUT: Option<Step> = Some(Step::$name);
        }
    };
}

without!(MissValidated);
without!(NullsNumbered);
without!(TargetCompared);
without!(MarkedUnlinked);
without!(RemovedStillLinked);
without!(PromotedUnlinkedFirst);
without!(PromotionNoticed);

type Int<W> = IntLf<u64, Improved, W>;
type Edge<W> = EdgeIntLf<u64, Improved, W>;

/// What a thread does, and what it must see; values are ten times the key.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The key is absent.
    Insert(u64),
    /// The key is present.
    Remove(u64),
    /// Several threads do, and all but one find it absent.
    TryRemove(u64),
    /// The key is there all the time.
    Get(u64),
    /// The key is never there.
    Miss(u64),
}

use Act::{Get, Insert, Miss, Remove, TryRemove};

/// Does what each list says in a thread of its own, and then compares the tree with the keys that
/// must be left.
fn run<T: SearchTree<u64> + 'static>(
    keys: &[u64],
    threads: &[&'static [Act]],
    left: &[u64],
) -> Arc<T> {
    let tree = Arc::new(T::segregated());
    for &key in keys {
        assert_eq!(tree.insert(key, key * 10), None);
    }
    let threads = threads.iter().map(|&acts| {
        let tree = Arc::clone(&tree);
        thread::spawn(move || acts.iter().filter(|act| perform(&*tree, **act)).count())
    });
    let threads: Vec<_> = threads.collect();
    let removed: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("a thread ended well"))
        .sum();
    tree.verify().expect("sound");
    for &key in left {
        assert_eq!(tree.get(key), Some(key * 10), "key {key} was lost");
    }
    let keys = tree.statistics().get("keys");
    assert_eq!(keys, Some(left.len() as f64), "a removed key is back");
    assert!(removed <= 1, "a key was removed {removed} times");
    tree
}

/// Does it; whether it removed a key that others tried to remove as well.
fn perform(tree: &impl ConcurrentIntMap<u64>, act: Act) -> bool {
    match act {
        Insert(key) => assert_eq!(tree.insert(key, key * 10), None, "{act:?}"),
        Remove(key) => assert_eq!(tree.remove(key), Some(key * 10), "{act:?}"),
        Get(key) => assert_eq!(tree.get(key), Some(key * 10), "{act:?}"),
        Miss(key) => assert_eq!(tree.get(key), None, "{act:?}"),
        TryRemove(key) => {
            let removed = tree.remove(key);
            assert!(removed.is_none_or(|value| value == key * 10), "{act:?}");
            return removed.is_some();
        }
    }
    false
}

/// The next greater pair is a child of the removed node's right child.
const DEEP: &[u64] = &[20, 10, 40, 30, 50];
/// It is the right child.
const CHILD: &[u64] = &[20, 10, 30, 40];

fn lookups_beside_relocation<T: SearchTree<u64> + 'static>() {
    run::<T>(
        DEEP,
        &[&[Remove(20)], &[Get(30), Miss(25)]],
        &[10, 30, 40, 50],
    );
    run::<T>(CHILD, &[&[Remove(20)], &[Get(30), Get(40)]], &[10, 30, 40]);
}

fn insertions_beside_relocation<T: SearchTree<u64> + 'static>() {
    let left = &[10, 25, 30, 40, 50];
    run::<T>(DEEP, &[&[Remove(20)], &[Insert(25)]], left);
    let left = &[10, 30, 35, 40, 50];
    run::<T>(DEEP, &[&[Remove(20)], &[Insert(35)]], left);
    let left = &[10, 25, 40, 50];
    run::<T>(DEEP, &[&[Remove(20), Remove(30)], &[Insert(25)]], left);
}

fn removals_beside_relocation<T: SearchTree<u64> + 'static>() {
    // Of the target's child, of the next greater pair, of its parent, and of the same key.
    run::<T>(DEEP, &[&[Remove(20)], &[Remove(10)]], &[30, 40, 50]);
    run::<T>(DEEP, &[&[Remove(20)], &[Remove(30)]], &[10, 40, 50]);
    run::<T>(DEEP, &[&[Remove(20)], &[Remove(40)]], &[10, 30, 50]);
    run::<T>(CHILD, &[&[Remove(20)], &[Remove(30)]], &[10, 40]);
    let same = run::<T>(
        DEEP,
        &[&[TryRemove(20)], &[TryRemove(20)]],
        &[10, 30, 40, 50],
    );
    assert_eq!(same.get(20), None);
}

fn removal_of_the_replacement<T: SearchTree<u64> + 'static>() {
    run::<T>(
        DEEP,
        &[&[Remove(20)], &[Remove(30), Miss(30)]],
        &[10, 40, 50],
    );
}

fn three_threads<T: SearchTree<u64> + 'static>() {
    let left = &[10, 50];
    run::<T>(DEEP, &[&[Remove(20)], &[Remove(30)], &[Remove(40)]], left);
    let threads: &[&[Act]] = &[
        &[Remove(20)],
        &[Insert(25), Remove(25)],
        &[Remove(30), Get(40)],
    ];
    run::<T>(DEEP, threads, &[10, 40, 50]);
}

/// A leaf comes and goes at one link while another thread's insertion there is late.
fn a_link_that_is_null_again<T: SearchTree<u64> + 'static>() {
    run::<T>(&[20], &[&[Insert(10)], &[Insert(5), Remove(5)]], &[10, 20]);
    run::<T>(
        &[20],
        &[&[TryRemove(10), Get(20)], &[Insert(10), TryRemove(10)]],
        &[20],
    );
    let left = &[10, 25, 30, 40];
    run::<T>(
        &[20, 10, 40],
        &[&[Insert(25)], &[Insert(30), Remove(20)]],
        left,
    );
}

/// An insertion is helped, and its key removed, while the thread that began it is late.
fn a_helped_insertion<T: SearchTree<u64> + 'static>() {
    let threads: &[&[Act]] = &[&[Insert(10)], &[TryRemove(10), TryRemove(10)]];
    let tree = Arc::new(T::segregated());
    tree.insert(20, 200);
    let threads = threads.iter().map(|&acts| {
        let tree = Arc::clone(&tree);
        thread::spawn(move || acts.iter().filter(|act| perform(&*tree, **act)).count())
    });
    let threads: Vec<_> = threads.collect();
    let removed: usize = threads.into_iter().map(|t| t.join().expect("ended")).sum();
    tree.verify().expect("sound");
    let left = tree.get(10).is_some();
    assert!(
        removed + usize::from(left) == 1,
        "removed and there, or neither"
    );
}

/// Runs many schedules; `HEDGEROW_TEST_SCALE` multiplies them.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let schedules = (500.0 * scale) as usize;
    shuttle::check_random(run.clone(), schedules);
    preempt(schedules, run);
}

/// The schedules, the same ones each time, have few preemptions, which may be long, and few steps.
fn preempt(schedules: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::default();
    config.max_steps = MaxSteps::FailAfter(20_000);
    let scheduler = PctScheduler::new_from_seed(18, 3, schedules);
    Runner::new(scheduler, config).run(run);
}

macro_rules! scenarios {
    ($name:ident, $tree:ident) => {
        mod $name {
            use super::*;

            #[test]
            fn lookups_see_a_pair_that_moves() {
                explore(lookups_beside_relocation::<$tree<Modelled>>);
            }

            #[test]
            fn insertions_survive_a_pair_that_moves() {
                explore(insertions_beside_relocation::<$tree<Modelled>>);
            }

            #[test]
            fn removals_meet() {
                explore(removals_beside_relocation::<$tree<Modelled>>);
                explore(removal_of_the_replacement::<$tree<Modelled>>);
            }

            #[test]
            fn three_threads_meet() {
                explore(three_threads::<$tree<Modelled>>);
            }

            #[test]
            fn late_insertions_take_effect_once() {
                explore(a_link_that_is_null_again::<$tree<Modelled>>);
                explore(a_helped_insertion::<$tree<Modelled>>);
            }
        }
    };
}

scenarios!(int_lf, Int);
scenarios!(edge_int_lf, Edge);

macro_rules! must_fail {
    ($name:ident, $scenario:ident, $twin:ty, $message:literal) => {
        #[test]
        #[should_panic(expected = $message)]
        fn $name() {
            preempt(20_000, $scenario::<$twin>);
        }
    };
}

must_fail!(
    int_lf_misses_not_validated,
    lookups_beside_relocation,
    Int<MissValidated>,
    "Get(30)"
);
must_fail!(
    int_lf_nulls_not_numbered,
    a_helped_insertion,
    Int<NullsNumbered>,
    "an operation is under way, or a mark left"
);
must_fail!(
    int_lf_target_not_compared,
    removals_beside_relocation,
    Int<TargetCompared>,
    "a relocation to key"
);
must_fail!(
    int_lf_marked_not_unlinked,
    removals_beside_relocation,
    Int<MarkedUnlinked>,
    "a relocation to key"
);
must_fail!(
    edge_int_lf_misses_not_validated,
    lookups_beside_relocation,
    Edge<MissValidated>,
    "Get(30)"
);
must_fail!(
    edge_int_lf_nulls_not_numbered,
    a_link_that_is_null_again,
    Edge<NullsNumbered>,
    "is not between"
);
must_fail!(
    edge_int_lf_removed_not_checked,
    three_threads,
    Edge<RemovedStillLinked>,
    "exceeded max_steps"
);
must_fail!(
    edge_int_lf_flag_not_set,
    removal_of_the_replacement,
    Edge<PromotedUnlinkedFirst>,
    "Miss(30)"
);
must_fail!(
    edge_int_lf_promotion_ignored,
    removals_beside_relocation,
    Edge<PromotionNoticed>,
    "a removed key is back"
);
