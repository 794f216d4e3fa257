//! The whole tree under shuttle: links, versions, states and locks on shuttle's atomics. What runs
//! is the code that ships.
//!
//! A few threads read, insert and remove in situations made for each; afterwards every answer is
//! compared and the tree verified, its balance included. Twins that leave a step out must fail: a
//! lock that does not lock, and a word that loses the marks of shrinking nodes.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};
use hedgerow_memory::Placement;
use hedgerow_modelled::Modelled;
use hedgerow_sync::word::Word;
use shuttle::thread;

use super::{FromRoot, OccAvl, Recursive, Validation};
use crate::form::Form;
use crate::modelled_form::{Locked, Unlocked};

/// A word that does not take what only versions hold: small numbers. Nodes that shrink, or that
/// are unlinked, look as they did.
struct Unmarked(Modelled);

// SAFETY: a twin, which loses marks of versions. Its test only inserts, so nothing is retired.
unsafe impl Word for Unmarked {
    fn new(value: u64) -> Self {
        Self(Modelled::new(value))
    }

    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        // Links are 0 or large, and states of items have a high bit.
        if value == 0 || value > 1 << 12 {
            self.0.store(value, ordering);
        }
    }

    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange_weak(current, new, success, failure)
    }

    fn fence(ordering: Ordering) {
        Modelled::fence(ordering);
    }

    fn pause(rounds: &mut u32) {
        Modelled::pause(rounds);
    }
}

/// A tree with these keys, inserted in this order, each its own word.
fn tree<F: Form, V: Validation, W: Word + 'static>(keys: &[u64]) -> Arc<OccAvl<u64, F, V, W>> {
    let tree = OccAvl::empty(Placement::System);
    for &key in keys {
        assert_eq!(tree.insert(key, key), None);
    }
    Arc::new(tree)
}

/// Runs each list of steps in a thread: positive numbers are inserted, negative ones removed.
fn run<F: Form, V: Validation, W: Word + 'static>(
    tree: &Arc<OccAvl<u64, F, V, W>>,
    threads: &[&'static [i64]],
) -> Vec<thread::JoinHandle<()>> {
    let spawn = |&steps: &&'static [i64]| {
        let tree = Arc::clone(tree);
        thread::spawn(move || {
            for &step in steps {
                let key = step.unsigned_abs();
                match step > 0 {
                    true => assert_eq!(tree.insert(key, key), None, "a key was lost"),
                    false => assert_eq!(tree.remove(key), Some(key), "a key was lost"),
                }
            }
        })
    };
    threads.iter().map(spawn).collect()
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a thread ended well");
    }
}

fn shown(tree: &impl OrderedIntMap<u64>) -> Vec<u64> {
    let mut shown = Vec::new();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, word| {
        assert_eq!(key, word, "another key's word");
        shown.push(key);
        ControlFlow::Continue(())
    });
    shown
}

fn expect(tree: &impl OrderedIntMap<u64>, expected: &[u64]) {
    for &key in expected {
        assert_eq!(tree.get(key), Some(key), "a key was lost");
    }
    assert_eq!(shown(tree), expected, "a key was lost");
    tree.verify().expect("sound");
}

/// Runs many schedules; `HEDGEROW_TEST_SCALE` multiplies them.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    let schedules = (400.0 * scale) as usize;
    shuttle::check_random(run.clone(), schedules);
    shuttle::check_pct(run, schedules, 3);
}

/// One thread's inserts move 30 below 40 while others look for keys on either side.
fn reads_beside_a_rotation<F: Form, V: Validation, W: Word + 'static>() {
    let tree = tree::<F, V, W>(&[20, 10, 30, 40]);
    let reader = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || {
            for key in [40, 30] {
                assert_eq!(tree.get(key), Some(key), "a key was lost");
            }
            let shown = shown(&*tree);
            let staying = shown.into_iter().filter(|key| key % 10 == 0);
            assert!(staying.eq([10, 20, 30, 40]), "a key was lost");
        })
    };
    let writer = run(&tree, &[&[45]]);
    reader.join().expect("the reader ended well");
    join(writer);
    expect(&*tree, &[10, 20, 30, 40, 45]);
}

#[test]
fn reads_beside_rotations_lose_nothing() {
    explore(reads_beside_a_rotation::<Locked, Recursive, Modelled>);
    explore(reads_beside_a_rotation::<Locked, FromRoot, Modelled>);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn a_rotation_that_does_not_mark_is_noticed() {
    shuttle::check_random(reads_beside_a_rotation::<Locked, FromRoot, Unmarked>, 4_000);
}

/// Keys of both threads go to the same empty links, and unbalance the same nodes.
fn inserts<F: Form, V: Validation, W: Word + 'static>() {
    let tree = tree::<F, V, W>(&[20]);
    join(run(&tree, &[&[21, 23, 25], &[22, 24]]));
    expect(&*tree, &[20, 21, 22, 23, 24, 25]);
}

#[test]
fn inserts_lose_nothing_and_leave_a_balanced_tree() {
    explore(inserts::<Locked, Recursive, Modelled>);
    explore(inserts::<Locked, FromRoot, Modelled>);
}

/// Both keys belong into one empty link, and neither unbalances a node.
fn inserts_into_one_link<F: Form>() {
    let tree = tree::<F, FromRoot, Modelled>(&[20, 10]);
    join(run(&tree, &[&[30], &[40]]));
    expect(&*tree, &[10, 20, 30, 40]);
}

#[test]
fn inserts_into_one_link_lose_nothing() {
    explore(inserts_into_one_link::<Locked>);
}

#[test]
#[should_panic(expected = "a key was lost")]
fn inserts_without_locks_are_noticed() {
    shuttle::check_random(inserts_into_one_link::<Unlocked>, 4_000);
}

/// Nodes are unlinked while keys are put below them; routers come and go.
fn removals<V: Validation>() {
    let tree = tree::<Locked, V, Modelled>(&[20, 10, 40, 5, 30, 50]);
    join(run(&tree, &[&[-10, -40, 7], &[-50, 45, -20]]));
    expect(&*tree, &[5, 7, 30, 45]);
}

#[test]
fn removals_lose_nothing_and_leave_a_balanced_tree() {
    explore(removals::<Recursive>);
    explore(removals::<FromRoot>);
}

/// A repair as published: who corrected a node's height has done with the node.
struct LooksOnce;

impl Validation for LooksOnce {
    const NAMES: [&'static str; 2] = ["once", "once"];
    const FROM_ROOT: bool = true;
    const LOOKS_AGAIN: bool = false;
}

/// One thread lowers the left child of the root and the other one raises the right child, so that
/// the root's height stays. A thread that has read the old heights would lower it.
fn heights_on_both_sides<V: Validation>() {
    let tree = tree::<Locked, V, Modelled>(&[40, 20, 60, 10]);
    join(run(&tree, &[&[-10], &[70]]));
    expect(&*tree, &[20, 40, 60, 70]);
}

#[test]
fn heights_changed_on_both_sides_end_up_right() {
    explore(heights_on_both_sides::<FromRoot>);
    explore(heights_on_both_sides::<Recursive>);
}

#[test]
#[should_panic(expected = "WrongHeight")]
fn a_height_that_is_looked_at_once_is_noticed() {
    shuttle::check_pct(heights_on_both_sides::<LooksOnce>, 20_000, 3);
}

/// A key is removed, and comes back with another word: readers see the one, nothing, the other.
#[test]
fn words_come_one_after_another() {
    explore(|| {
        let tree = tree::<Locked, FromRoot, Modelled>(&[20, 10, 30]);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                assert_eq!(tree.remove(20), Some(20));
                assert_eq!(tree.insert(20, 21), None);
                assert_eq!(tree.remove(20), Some(21));
                assert_eq!(tree.insert(20, 22), None);
            })
        };
        let order = |word| {
            [Some(20), None, Some(21), Some(22)]
                .iter()
                .position(|w| *w == word)
        };
        let mut last = Some(0);
        for _ in 0..3 {
            let seen = tree.get(20);
            // Nothing comes twice, before 21 and after it.
            if seen.is_some() {
                assert!(order(seen) >= last, "{seen:?} after {last:?}");
                last = order(seen);
            }
        }
        writer.join().expect("the writer ended well");
        assert_eq!(tree.get(20), Some(22));
    });
}
