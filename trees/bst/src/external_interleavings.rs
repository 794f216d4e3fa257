//! The lock-free external trees under shuttle: their links and update words are shuttle's atomics.
//! What runs is the code that ships.
//!
//! Two or three threads update few keys, in situations made for each step of the protocols, while
//! another one reads; afterwards the keys are compared and the tree verified. Twins that leave a
//! step out must fail: their words store something else when the step is taken.

use std::mem;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{Direction, OrderedIntMap};
use hedgerow_modelled::Modelled;
use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Runner, thread};

use crate::edge_ext_lf::{EdgeExtLf, FLAG, TAG};
use crate::ext_lf::ExtLf;
use crate::form::Improved;
use crate::modelled_form::twin;
use crate::tagged_link::is_leaf;
use crate::tree::SearchTree;

type Edge<W> = EdgeExtLf<u64, Improved, W>;
type Ext<W> = ExtLf<u64, Improved, W>;

twin!(
    /// `edge-ext-lf`: edges are not tagged.
    NotTagged,
    |current, new| if new == current | TAG { current } else { new }
);
twin!(
    /// `edge-ext-lf`: a sibling's flag does not move up with its edge.
    FlagNotMoved,
    |current, new| if is_leaf(current) { new } else { new & !FLAG }
);
twin!(
    /// `ext-lf`: parents are not marked.
    NotMarked,
    |current, new| if new & 3 == 3 { current } else { new }
);
twin!(
    /// `ext-lf`: all clean update words are the same.
    VersionsStay,
    |current, new| if current & 3 != 0 && new & 3 == 0 { 0 } else { new }
);

/// What threads do to a tree, and what is left.
#[derive(Clone, Copy)]
struct Situation {
    /// Inserted before, in this order.
    keys: &'static [u64],
    /// What each thread does: it inserts positive numbers, and removes negative ones.
    threads: &'static [&'static [i64]],
    /// The keys that are left.
    left: &'static [u64],
    /// Keys that are there all the time.
    staying: &'static [u64],
}

/// An insertion below the sibling of a leaf that is removed.
const INSERTION_AT_SIBLING: Situation = Situation {
    keys: &[10, 20],
    threads: &[&[-10], &[25]],
    left: &[20, 25],
    staying: &[20],
};

/// Both leaves of an inner node are removed.
const BOTH_SIBLINGS: Situation = Situation {
    keys: &[5, 10, 20],
    threads: &[&[-10], &[-20]],
    left: &[5],
    staying: &[5],
};

/// Inner nodes on one path are unlinked, while a leaf is inserted at its end.
const CHAIN: Situation = Situation {
    keys: &[10, 20, 30, 40],
    threads: &[&[-20, 22], &[-30], &[45, -40]],
    left: &[10, 22, 45],
    staying: &[10],
};

/// The last key is removed beside an insertion.
const EMPTY: Situation = Situation {
    keys: &[10],
    threads: &[&[-10, 30], &[20, -20]],
    left: &[30],
    staying: &[],
};

/// Both threads insert and remove the same keys.
const SAME_KEYS: Situation = Situation {
    keys: &[10, 20],
    threads: &[&[-10, 10, 15], &[15, -10, 10]],
    left: &[10, 15, 20],
    staying: &[20],
};

/// Insertions at one leaf.
const ONE_LEAF: Situation = Situation {
    keys: &[10, 20],
    threads: &[&[21, 22], &[23]],
    left: &[10, 20, 21, 22, 23],
    staying: &[10, 20],
};

const SITUATIONS: [Situation; 6] = [
    INSERTION_AT_SIBLING,
    BOTH_SIBLINGS,
    CHAIN,
    EMPTY,
    SAME_KEYS,
    ONE_LEAF,
];

/// The word of a key.
fn word(key: u64) -> u64 {
    key * 7
}

fn update(tree: &impl SearchTree<u64>, step: i64) {
    let key = step.unsigned_abs();
    let present = if step > 0 {
        tree.insert(key, word(key))
    } else {
        tree.remove(key)
    };
    assert!(
        present.is_none_or(|found| found == word(key)),
        "another key's word"
    );
}

/// Plays a situation, beside a thread that reads.
fn play<T: SearchTree<u64> + 'static>(
    tree: &Arc<T>,
    situation: Situation,
    read: impl Fn(&T) + Send + 'static,
) {
    situation
        .keys
        .iter()
        .for_each(|&key| update(&**tree, key as i64));
    let updates = situation.threads.iter().map(|&steps| {
        let tree = Arc::clone(tree);
        thread::spawn(move || steps.iter().for_each(|&step| update(&*tree, step)))
    });
    let mut threads: Vec<_> = updates.collect();
    let reader = Arc::clone(tree);
    threads.push(thread::spawn(move || read(&reader)));
    for thread in threads {
        thread.join().expect("a thread ended well");
    }
    for key in 0..50 {
        let wanted = situation.left.contains(&key).then(|| word(key));
        assert_eq!(tree.get(key), wanted, "a key was lost, or came back");
    }
    tree.verify().expect("sound");
}

/// Plays a situation, while a thread looks up what stays.
fn beside_lookups<T: SearchTree<u64> + 'static>(tree: &Arc<T>, situation: Situation) {
    play(tree, situation, move |tree| {
        for &key in situation.staying {
            assert_eq!(tree.get(key), Some(word(key)), "a key was lost");
        }
    });
}

/// Plays a situation, while a thread scans both ways.
fn beside_scans<W: Word + 'static>(situation: Situation) {
    play(&Arc::new(Edge::<W>::segregated()), situation, move |tree| {
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut seen = Vec::new();
            tree.scan(Bound::Unbounded, direction, |key, found| {
                assert_eq!(found, word(key), "another key's word");
                seen.push(key);
                ControlFlow::Continue(())
            });
            if direction == Direction::Reverse {
                seen.reverse();
            }
            assert!(
                seen.is_sorted_by(|one, next| one < next),
                "out of order: {seen:?}"
            );
            let found = situation.staying.iter().all(|key| seen.contains(key));
            assert!(found, "a key was lost: {seen:?}");
        }
    });
}

/// Runs many schedules; `HEDGEROW_TEST_SCALE` multiplies them.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let schedules = (300.0 * scale) as usize;
    shuttle::check_random(run.clone(), schedules);
    shuttle::check_pct(run, schedules, 3);
}

/// Runs schedules of a twin, the same in every run. Twins unlink what others still reach, so
/// nothing is freed in this process from now on, and no tree of theirs.
fn expose<T: SearchTree<u64> + 'static>(situation: Situation) {
    mem::forget(epoch::pin());
    let run = move || {
        let tree = Arc::new(T::segregated());
        mem::forget(Arc::clone(&tree));
        beside_lookups(&tree, situation);
    };
    let scheduler = RandomScheduler::new_from_seed(18, 20_000);
    Runner::new(scheduler, shuttle::Config::default()).run(run);
}

/// Plays a situation in the same schedules in every run, and returns how often threads helped.
fn helps<T: SearchTree<u64> + 'static>(situation: Situation) -> u64 {
    let sum = Arc::new(AtomicU64::new(0));
    let all = Arc::clone(&sum);
    let run = move || {
        let tree = Arc::new(T::segregated());
        beside_lookups(&tree, situation);
        let helps = tree.statistics().get("helps").expect("counted");
        all.fetch_add(helps as u64, Ordering::Relaxed);
    };
    let scheduler = RandomScheduler::new_from_seed(18, 300);
    Runner::new(scheduler, shuttle::Config::default()).run(run);
    sum.load(Ordering::Relaxed)
}

#[test]
fn edge_ext_lf_loses_no_key() {
    for situation in SITUATIONS {
        explore(move || beside_lookups(&Arc::new(Edge::<Modelled>::segregated()), situation));
    }
}

#[test]
fn scans_of_edge_ext_lf_see_what_stays() {
    for situation in [BOTH_SIBLINGS, CHAIN, SAME_KEYS, ONE_LEAF] {
        explore(move || beside_scans::<Modelled>(situation));
    }
}

#[test]
fn ext_lf_loses_no_key() {
    for situation in SITUATIONS {
        explore(move || beside_lookups(&Arc::new(Ext::<Modelled>::segregated()), situation));
    }
}

#[test]
fn threads_complete_what_others_began() {
    assert!(helps::<Edge<Modelled>>(CHAIN) > 0);
    assert!(helps::<Ext<Modelled>>(CHAIN) > 0);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn edges_that_are_not_tagged_are_noticed() {
    expose::<Edge<NotTagged>>(INSERTION_AT_SIBLING);
}

#[test]
#[should_panic(expected = "an edge has lost its marks")]
fn flags_that_do_not_move_up_are_noticed() {
    expose::<Edge<FlagNotMoved>>(BOTH_SIBLINGS);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn parents_that_are_not_marked_are_noticed() {
    expose::<Ext<NotMarked>>(INSERTION_AT_SIBLING);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn clean_words_that_come_back_are_noticed() {
    expose::<Ext<VersionsStay>>(ONE_LEAF);
}
