//! Race tests on a Masstree: two or three threads in exactly the situation that one step of the
//! concurrency protocol is there for.
//!
//! Random histories ([`crate::history`]) meet such a situation when they are lucky. A race test
//! makes it happen: the callback of an update runs under a node's latch and that of `get_many` in
//! the middle of its batch, so a thread can hold the tree still in the one place that matters while
//! another comes along; where readers cannot be held, more of them than cores run against one
//! writer on one slot. Values are stored inline, so that a wrong answer is a wrong number and
//! never a wild pointer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow_masstree::Masstree;

/// One race test.
#[derive(Debug, Clone, Copy)]
pub struct RaceTest {
    /// What it is about, in words.
    pub name: &'static str,
    /// Runs so many rounds; complains in words.
    pub run: fn(usize) -> Result<(), String>,
    /// Rounds that show a bug with near certainty.
    pub rounds: usize,
}

/// All race tests.
pub const RACE_TESTS: [RaceTest; 6] = [
    RaceTest {
        name: "a reader meets the reuse of a slot",
        run: slot_reuse,
        rounds: 4_000_000,
    },
    RaceTest {
        name: "a writer waits for a split",
        run: writer_at_a_split,
        rounds: 200,
    },
    RaceTest {
        name: "a writer waits for an unlinking",
        run: writer_at_an_unlinking,
        rounds: 200,
    },
    RaceTest {
        name: "a writer waits for a widening",
        run: writer_at_a_widening,
        rounds: 200,
    },
    RaceTest {
        name: "a batch of reads meets a split",
        run: get_many_at_a_split,
        rounds: 200,
    },
    RaceTest {
        name: "a reader meets a slot that becomes a layer",
        run: new_layer,
        rounds: 4_000_000,
    },
];

type Tree = Masstree<u64>;

/// How long a latch is held for the other thread to arrive at it.
pub(crate) const ARRIVAL: Duration = Duration::from_micros(300);

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Stores each number under itself.
fn fill(tree: &Tree, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| {
        tree.put(&key(number), number);
    });
}

fn expect(tree: &Tree, number: u64, what: &str) -> Result<(), String> {
    let found = tree.get(&key(number));
    if found != Some(number) {
        return Err(format!("key {number}, {what}: {found:?}"));
    }
    tree.verify()
}

pub(crate) fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// Runs `change` on `held` under its node's latch, and `arrive` while that latch is held.
fn meet_at_latch(tree: &Tree, held: &[u8], change: Option<u64>, arrive: impl FnOnce() + Send) {
    let latched = AtomicBool::new(false);
    let coming = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            await_flag(&latched);
            coming.store(true, Ordering::Release);
            arrive();
        });
        tree.update(held, |_| {
            latched.store(true, Ordering::Release);
            await_flag(&coming);
            thread::sleep(ARRIVAL);
            change
        });
    });
}

/// The second writer found the full node, then its key's half moved right: it must follow.
fn writer_at_a_split(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let tree = Tree::new();
        fill(&tree, (10..=150).step_by(10));
        meet_at_latch(&tree, &key(75), Some(75), || {
            tree.put(&key(145), 145);
        });
        expect(&tree, 145, "put while its node split")?;
    }
    Ok(())
}

/// The second writer found the narrow node of a layer, which was then replaced by a wider one: it
/// must follow.
fn writer_at_a_widening(rounds: usize) -> Result<(), String> {
    let keys: [&[u8]; 4] = [b"slice-01a", b"slice-01b", b"slice-01c", b"slice-01d"];
    for _ in 0..rounds {
        let tree = Tree::new();
        tree.put(keys[0], 0);
        tree.put(keys[1], 1);
        meet_at_latch(&tree, keys[2], Some(2), || {
            tree.put(keys[3], 3);
        });
        for (key, number) in keys.into_iter().zip(0..) {
            let found = tree.get(key);
            if found != Some(number) {
                return Err(format!(
                    "key {number} of a layer that was widened: {found:?}"
                ));
            }
        }
        tree.verify()?;
        if tree.statistics().get("widenings") != Some(1.0) {
            return Err("no node was widened".to_owned());
        }
    }
    Ok(())
}

/// The lowest number in the right one of [`two_nodes`]: half of the sixteen are below.
const RIGHT: u64 = 80;

/// Fifteen keys, and a sixteenth that splits their node in the middle.
fn two_nodes() -> Tree {
    let tree = Tree::new();
    fill(&tree, (10..=150).step_by(10).chain([75]));
    tree
}

/// The second writer found a node that then loses its last key: it must not use it.
fn writer_at_an_unlinking(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let tree = two_nodes();
        for number in (RIGHT..150).step_by(10) {
            tree.remove(&key(number));
        }
        meet_at_latch(&tree, &key(150), None, || {
            tree.put(&key(155), 155);
        });
        expect(&tree, 155, "put while its node was unlinked")?;
        if tree.statistics().get("node_deletions") != Some(1.0) {
            return Err("no node was unlinked".to_owned());
        }
    }
    Ok(())
}

/// While the batch is between two nodes, the lower one splits: the batch must notice.
fn get_many_at_a_split(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let tree = two_nodes();
        let batch_waits = AtomicBool::new(false);
        let split = AtomicBool::new(false);
        let mut found = None;
        thread::scope(|scope| {
            scope.spawn(|| {
                await_flag(&batch_waits);
                fill(&tree, RIGHT + 1..RIGHT + 10);
                split.store(true, Ordering::Release);
            });
            // Both keys are equally deep; the first arrives when the second has one step to go.
            tree.get_many(&[&key(10), &key(150)], |index, value| {
                if index == 0 {
                    batch_waits.store(true, Ordering::Release);
                    await_flag(&split);
                } else {
                    found = value;
                }
            });
        });
        if found != Some(150) {
            return Err(format!("get_many lost a key to a split: {found:?}"));
        }
    }
    Ok(())
}

/// Readers of both keys must never see the other's value when they share a slot in turn.
fn slot_reuse(rounds: usize) -> Result<(), String> {
    const FIRST: u64 = 145;
    const SECOND: u64 = 5;
    let tree = Tree::new();
    // A node with one free slot: whatever is inserted goes where the last key was removed.
    fill(&tree, (10..=140).step_by(10).chain([FIRST]));
    let flip = |_| {
        for (old, new) in [(FIRST, SECOND), (SECOND, FIRST)] {
            tree.remove(&key(old));
            tree.put(&key(new), new);
        }
    };
    let read = || {
        [FIRST, SECOND, 10].into_iter().find_map(|number| {
            let found = tree.get(&key(number));
            let right = found == Some(number) || (found.is_none() && number != 10);
            (!right).then(|| format!("key {number}, whose slot was reused: {found:?}"))
        })
    };
    against_readers(rounds, flip, read)
}

/// A key that stays, while another of its slice comes and goes and makes a layer of the slot.
fn new_layer(rounds: usize) -> Result<(), String> {
    const STAYS: &[u8] = b"slice-01, stays";
    const COMES: &[u8] = b"slice-01, comes and goes";
    const VALUE: u64 = 7;
    let tree = Tree::new();
    tree.put(STAYS, VALUE);
    let flip = |_| {
        tree.put(COMES, 8);
        tree.remove(COMES);
        tree.collapse_deferred();
    };
    let read = || {
        let found = tree.get(STAYS);
        (found != Some(VALUE)).then(|| format!("a key that stays, below a new layer: {found:?}"))
    };
    against_readers(rounds, flip, read)
}

/// One writer and more readers than most machines have to spare: some are interrupted in the
/// middle of a read, and go on when the slot holds something else.
pub(crate) fn against_readers(
    rounds: usize,
    write: impl Fn(usize),
    read: impl Fn() -> Option<String> + Sync,
) -> Result<(), String> {
    const READERS: usize = 3;
    let done = AtomicBool::new(false);
    let complaint = thread::scope(|scope| {
        let reader = || {
            while !done.load(Ordering::Relaxed) {
                let complaint = read();
                if complaint.is_some() {
                    done.store(true, Ordering::Relaxed);
                    return complaint;
                }
            }
            None
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(reader)).collect();
        for round in 0..rounds {
            if done.load(Ordering::Relaxed) {
                break;
            }
            write(round);
        }
        done.store(true, Ordering::Relaxed);
        let complaints = readers.into_iter().map(|reader| reader.join());
        complaints
            .filter_map(|complaint| complaint.unwrap_or_else(|_| Some("a reader panicked".into())))
            .next()
    });
    complaint.map_or(Ok(()), Err)
}
