//! Row locks and locked lists under shuttle, with its mutexes and conditions. What runs is the code
//! that ships.
//!
//! Transactions lock the same rows in opposite orders, upgrade and are undone, without waiting and
//! by wait-die, and the oldest is neither refused nor passed; lists of one lock come and go while
//! others search the map. Twins that leave a step out must fail.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_lab_data::random::mix64;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::{Config, Runner, thread};

use hedgerow_memory::Placement;

use crate::key_map::KeyMap;
use crate::locked_lists::LockedLists;
use crate::locks::{Locks, Step};
use crate::multimap::Multimap;
use crate::row_lock::{Concurrency, Granted, Mode, Refused, Request, RowLock};

/// Declares locks of shuttle's. Their releases wake nobody if `$notifies` is false.
macro_rules! modelled {
    ($(#[$about:meta])* $name:ident, $without:expr, $notifies:expr) => {
        $(#[$about])*
        enum $name {}

        impl Locks for $name {
            const WITHOUT: Option<Step> = $without;

            type Mutex<T: Default + Send> = Mutex<T>;
            type Guard<'m, T: Default + Send + 'm> = MutexGuard<'m, T>;
            type Condvar = Condvar;

            fn lock<T: Default + Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
                mutex.lock().expect("no panic under the lock")
            }

            fn wait<'m, T: Default + Send + 'm>(
                condvar: &Condvar,
                guard: MutexGuard<'m, T>,
            ) -> MutexGuard<'m, T> {
                condvar.wait(guard).expect("no panic under the lock")
            }

            fn notify_all(condvar: &Condvar) {
                if $notifies {
                    condvar.notify_all();
                }
            }
        }
    };
}

modelled!(Modelled, None, true);
modelled!(
    /// Nobody is told of a release.
    Silent,
    None,
    false
);
modelled!(
    /// A visit takes what it found in the map for the list's head.
    HeadNotChecked,
    Some(Step::HeadChecked),
    true
);
modelled!(
    /// Readers share a row's lock also while an older writer waits for it.
    ReadersPass,
    Some(Step::OlderWaitersFirst),
    true
);
modelled!(
    /// An insert searches the map before it locks the list.
    SearchedUnlocked,
    Some(Step::SearchedLocked),
    true
);

/// Runs the same schedules each time: at random, and with few preemptions, which may be long.
fn explore(run: impl Fn() + Send + Sync + Clone + 'static) {
    let random = RandomScheduler::new_from_seed(18, 1_000);
    Runner::new(random, Config::default()).run(run.clone());
    let priorities = PctScheduler::new_from_seed(18, 3, 1_000);
    Runner::new(priorities, Config::default()).run(run);
}

/// A row: a number that only who has locked the row reads or writes.
struct Row<L: Locks> {
    lock: RowLock<L>,
    number: AtomicU64,
}

impl<L: Locks> Row<L> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: RowLock::default(),
            number: AtomicU64::new(0),
        })
    }
}

/// How transactions lock rows.
#[derive(Debug, Clone, Copy)]
struct Rules {
    concurrency: Concurrency,
    /// Shared locks of a row that a transaction takes for its own.
    shared: u32,
    /// By how much a transaction is older when it locks its second row.
    ages: u64,
}

const SHIPPED: Rules = Rules {
    concurrency: Concurrency::WaitDie,
    shared: 1,
    ages: 0,
};

impl Rules {
    /// Reads the first row and adds one to both; changes nothing if a lock is refused.
    fn try_add<L: Locks>(self, rows: [&Row<L>; 2], timestamp: u64) -> Result<(), Refused> {
        let request = |mode, timestamp| Request {
            mode,
            timestamp,
            concurrency: self.concurrency,
        };
        let [first, second] = rows;
        let shared = request(Mode::Shared, timestamp);
        assert_eq!(first.lock.acquire(shared, || 0)?, Granted::Anew);
        let number = first.number.load(Ordering::Relaxed);
        let exclusive = request(Mode::Exclusive, timestamp);
        if let Err(refused) = first.lock.acquire(exclusive, || self.shared) {
            first.lock.release(Mode::Shared, timestamp);
            return Err(refused);
        }
        let exclusive = request(Mode::Exclusive, timestamp - self.ages);
        if let Err(refused) = second.lock.acquire(exclusive, || 0) {
            first.lock.release(Mode::Exclusive, timestamp);
            return Err(refused);
        }
        first.number.store(number + 1, Ordering::Relaxed);
        let number = second.number.load(Ordering::Relaxed);
        second.number.store(number + 1, Ordering::Relaxed);
        second.lock.release(Mode::Exclusive, timestamp);
        first.lock.release(Mode::Exclusive, timestamp);
        Ok(())
    }

    /// So many transactions, which lock the same two rows in opposite orders.
    fn add<L: Locks>(self, transactions: u64) {
        let rows = [Row::<L>::new(), Row::new()];
        let threads = (0..transactions).map(|number| {
            let [one, other] = rows.clone();
            thread::spawn(move || {
                let rows = match number % 2 {
                    0 => [&*one, &*other],
                    _ => [&*other, &*one],
                };
                while self.try_add(rows, 100 + number).is_err() {
                    thread::yield_now();
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().expect("a transaction ended well");
        }
        for row in &rows {
            let number = row.number.load(Ordering::Relaxed);
            assert_eq!(number, transactions, "an update was lost");
        }
    }
}

#[test]
fn rows_locked_without_waiting_lose_no_update() {
    let rules = Rules {
        concurrency: Concurrency::NoWait,
        ..SHIPPED
    };
    explore(move || rules.add::<Modelled>(2));
    explore(move || rules.add::<Modelled>(3));
}

#[test]
fn rows_locked_by_wait_die_lose_no_update_and_no_circle_waits() {
    explore(|| SHIPPED.add::<Modelled>(2));
    explore(|| SHIPPED.add::<Modelled>(3));
}

/// An older transaction and a younger one lock one row.
fn lock_one_row<L: Locks>() {
    let row = Row::<L>::new();
    let lock = |row: &Row<L>, timestamp| {
        let request = Request {
            mode: Mode::Exclusive,
            timestamp,
            concurrency: Concurrency::WaitDie,
        };
        while row.lock.acquire(request, || 0).is_err() {
            thread::yield_now();
        }
        row.lock.release(Mode::Exclusive, timestamp);
    };
    let older = {
        let row = Arc::clone(&row);
        thread::spawn(move || lock(&row, 1))
    };
    lock(&row, 2);
    older.join().expect("the older one ended well");
}

#[test]
fn the_older_is_woken_by_the_release() {
    explore(lock_one_row::<Modelled>);
}

#[test]
#[should_panic(expected = "deadlock")]
fn releases_that_wake_nobody_are_noticed() {
    explore(lock_one_row::<Silent>);
}

#[test]
#[should_panic(expected = "deadlock")]
fn transactions_that_become_older_are_noticed() {
    let rules = Rules {
        ages: 50,
        ..SHIPPED
    };
    explore(move || rules.add::<Modelled>(2));
}

/// The other reader releases what it has no longer.
#[test]
#[should_panic(expected = "subtract with overflow")]
fn upgrades_beside_readers_are_noticed() {
    let rules = Rules {
        concurrency: Concurrency::NoWait,
        shared: 2,
        ..SHIPPED
    };
    explore(move || rules.add::<Modelled>(3));
}

/// Locks the row as often as it takes, as old as before.
fn insist<L: Locks>(row: &Row<L>, mode: Mode, timestamp: u64) {
    let request = Request {
        mode,
        timestamp,
        concurrency: Concurrency::WaitDie,
    };
    while row.lock.acquire(request, || 0).is_err() {
        thread::yield_now();
    }
}

/// Readers of a row follow one another. The writer is older than all but the first, which it
/// begins behind.
fn write_beside_readers<L: Locks>() {
    let row = Row::<L>::new();
    let read = |row: &Row<L>, timestamp| {
        let is_waiting = row.lock.waiting() > 0;
        insist(row, Mode::Shared, timestamp);
        let is_written = row.number.load(Ordering::Relaxed) == 1;
        assert!(is_written || !is_waiting, "the writer was passed");
        thread::yield_now();
        row.lock.release(Mode::Shared, timestamp);
    };
    insist(&row, Mode::Shared, 1);
    let reader = {
        let row = Arc::clone(&row);
        thread::spawn(move || {
            [5, 7, 9]
                .into_iter()
                .for_each(|timestamp| read(&row, timestamp))
        })
    };
    thread::yield_now();
    row.lock.release(Mode::Shared, 1);
    let writer = {
        let row = Arc::clone(&row);
        thread::spawn(move || {
            let request = Request {
                mode: Mode::Exclusive,
                timestamp: 2,
                concurrency: Concurrency::WaitDie,
            };
            let locked = row.lock.acquire(request, || 0);
            assert_eq!(locked, Ok(Granted::Anew), "the oldest of all died");
            row.number.store(1, Ordering::Relaxed);
            row.lock.release(Mode::Exclusive, 2);
        })
    };
    [6, 8]
        .into_iter()
        .for_each(|timestamp| read(&row, timestamp));
    writer.join().expect("the writer ended well");
    reader.join().expect("the reader ended well");
}

#[test]
fn the_oldest_waits_and_is_not_passed() {
    explore(write_beside_readers::<Modelled>);
}

#[test]
#[should_panic(expected = "the writer was passed")]
fn readers_that_pass_a_writer_are_noticed() {
    explore(write_beside_readers::<ReadersPass>);
}

/// A map each of whose operations is one step.
#[derive(Default)]
struct StepwiseMap(Mutex<BTreeMap<u64, u64>>);

impl StepwiseMap {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.0.lock().expect("no panic under the lock")
    }
}

impl KeyMap for StepwiseMap {
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().get(&key).copied()
    }

    fn insert(&self, key: u64, word: u64) -> Option<u64> {
        let mut map = self.lock();
        let present = map.get(&key).copied();
        map.entry(key).or_insert(word);
        present
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.lock().remove(&key)
    }

    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Empty lists with two locks, and two keys of one of them.
fn multimap<L: Locks>() -> (Arc<LockedLists<L>>, [u64; 2]) {
    let mut keys = (1..).filter(|key| mix64(*key) >> 63 == 0);
    let keys = [(); 2].map(|()| keys.next().expect("every other key"));
    let multimap = LockedLists::new(Box::new(StepwiseMap::default()), 2, Placement::Merged);
    (Arc::new(multimap), keys)
}

fn values<L: Locks>(multimap: &LockedLists<L>, key: u64) -> Vec<u64> {
    let mut values = Vec::new();
    multimap.visit(key, &mut |value| {
        values.push(value);
        ControlFlow::Continue(())
    });
    values
}

/// One key's list ends, and another key's takes its place, while a thread looks for both.
fn visits_beside_an_end<L: Locks>() {
    let (map, [one, other]) = multimap::<L>();
    map.insert(one, 10);
    map.insert(one, 11);
    let writer = {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            assert!(map.remove(one, 10));
            assert!(map.remove(one, 11));
            map.insert(other, 20);
        })
    };
    let seen = values(&map, one);
    let possible = [&[11, 10][..], &[11], &[]];
    assert!(
        possible.contains(&&seen[..]),
        "another key's values: {seen:?}"
    );
    let seen = values(&map, other);
    assert!(
        [&[20][..], &[]].contains(&&seen[..]),
        "another key's values: {seen:?}"
    );
    writer.join().expect("the writer ended well");
    assert_eq!(values(&map, other), [20]);
    assert_eq!(map.len(), 1);
}

/// Two threads begin a key's list.
fn inserts_meet<L: Locks>() {
    let (map, [key, _]) = multimap::<L>();
    let inserter = {
        let map = Arc::clone(&map);
        thread::spawn(move || map.insert(key, 10))
    };
    map.insert(key, 11);
    inserter.join().expect("the insert ended well");
    let mut values = values(&map, key);
    values.sort_unstable();
    assert_eq!(values, [10, 11], "a value was lost");
}

#[test]
fn lists_have_their_keys_values_and_lose_none() {
    explore(visits_beside_an_end::<Modelled>);
    explore(inserts_meet::<Modelled>);
}

#[test]
#[should_panic(expected = "only items in use are named")]
fn heads_that_are_not_checked_are_noticed() {
    explore(visits_beside_an_end::<HeadNotChecked>);
}

#[test]
#[should_panic(expected = "a value was lost")]
fn searches_without_the_lock_are_noticed() {
    explore(inserts_meet::<SearchedUnlocked>);
}
