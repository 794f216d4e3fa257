//! Transactions: two-phase locking by rows, undo on abort.
//!
//! A transaction locks each row that it reads or writes, and unlocks all when it ends. It changes
//! rows in place and remembers what was there. Rows that it inserts or removes enter and leave the
//! indexes when it commits, under their locks: who finds such a row waits for the lock or aborts.

use std::ops::ControlFlow;

use crate::database::{Database, IndexId, TableId};
use crate::index_clock::IndexClock;
use crate::multimap::Multimap;
use crate::outcome::Outcome;
use crate::row::{Row, RowAt};
use crate::row_lock::{Granted, Mode, Request};

/// The transaction met another's lock, or a row that is no longer there: it must be aborted, and
/// may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict;

/// What a step of a transaction comes to.
pub type Step<T> = Result<T, Conflict>;

/// A row that the transaction has exclusively.
#[derive(Debug, Clone, Copy)]
pub struct Writable<'db>(&'db Row);

impl Writable<'_> {
    /// A word of the row.
    #[inline]
    #[must_use]
    pub fn word(&self, column: usize) -> u64 {
        self.0.word(column)
    }
}

/// Index entries of a row.
type Keys = Vec<(IndexId, u64)>;

/// Runs transactions of one thread, one after the other.
pub struct Session<'db> {
    database: &'db Database,
    request: Request,
    thread: u64,
    locked: Vec<(&'db Row, Mode)>,
    undo: Vec<(&'db Row, usize, u64)>,
    inserted: Vec<(TableId, &'db Row, Keys)>,
    removed: Vec<(TableId, &'db Row, Keys)>,
    /// Places that are free once they are unlocked.
    freed: Vec<(TableId, &'db Row)>,
    clock: IndexClock,
    counts: Outcome,
}

/// Bits of a timestamp that tell threads apart.
const THREAD_BITS: u32 = 16;

impl<'db> Session<'db> {
    /// A session of the thread of this number.
    #[must_use]
    pub fn new(database: &'db Database, thread: usize) -> Self {
        Self {
            database,
            request: Request {
                mode: Mode::Shared,
                timestamp: 0,
                concurrency: database.settings().concurrency,
            },
            thread: thread as u64 & ((1 << THREAD_BITS) - 1),
            locked: Vec::new(),
            undo: Vec::new(),
            inserted: Vec::new(),
            removed: Vec::new(),
            freed: Vec::new(),
            clock: IndexClock::new(),
            counts: Outcome::default(),
        }
    }

    /// Runs one transaction. It commits if `run` returns `Ok(true)` and rolls back if it returns
    /// `Ok(false)`; after a conflict it is undone and begins again, as old as before.
    pub fn transact(&mut self, run: impl FnMut(&mut Self) -> Step<bool>) -> bool {
        self.transact_as(0, run)
    }

    /// As [`transact`](Self::transact), for a transaction of the kind of this number, below
    /// [`MOST_KINDS`](crate::MOST_KINDS).
    pub fn transact_as(
        &mut self,
        kind: usize,
        mut run: impl FnMut(&mut Self) -> Step<bool>,
    ) -> bool {
        let sequence = (self.request.timestamp >> THREAD_BITS) + 1;
        self.request.timestamp = sequence << THREAD_BITS | self.thread;
        self.clock.begin(kind);
        let committed = loop {
            match run(self) {
                Ok(true) => {
                    self.commit();
                    self.counts.committed += 1;
                    break true;
                }
                Ok(false) => {
                    self.abort();
                    self.counts.rolled_back += 1;
                    break false;
                }
                Err(Conflict) => {
                    self.abort();
                    self.counts.aborts += 1;
                    // The other may need this processor to go on.
                    std::thread::yield_now();
                }
            }
        };
        self.clock.end();
        committed
    }

    /// The row that was inserted last under `key`.
    pub fn find(&mut self, index: IndexId, key: u64) -> Option<RowAt> {
        let found = self.access(index, |index| index.newest(key));
        found.map(RowAt::from_raw)
    }

    /// All rows under `key`, the newest first.
    pub fn find_all(&mut self, index: IndexId, key: u64) -> Vec<RowAt> {
        let mut found = Vec::new();
        self.access(index, |index| {
            index.visit(key, &mut |value| {
                found.push(RowAt::from_raw(value));
                ControlFlow::Continue(())
            });
        });
        found
    }

    /// Locks a row that others may read meanwhile.
    ///
    /// # Errors
    ///
    /// [`Conflict`]: the transaction must end.
    pub fn read(&mut self, table: TableId, at: RowAt) -> Step<&'db Row> {
        self.lock(table, at, Mode::Shared)
    }

    /// Locks a row for this transaction alone.
    ///
    /// # Errors
    ///
    /// [`Conflict`]: the transaction must end.
    pub fn write(&mut self, table: TableId, at: RowAt) -> Step<Writable<'db>> {
        self.lock(table, at, Mode::Exclusive).map(Writable)
    }

    /// The row without a lock, for columns that never change of rows that are never removed.
    #[must_use]
    pub fn peek(&self, table: TableId, at: RowAt) -> &'db Row {
        self.database.table(table).row(at)
    }

    /// Changes a word of a row.
    pub fn set(&mut self, row: Writable<'db>, column: usize, word: u64) {
        self.undo.push((row.0, column, row.0.word(column)));
        row.0.store(column, word);
    }

    /// Inserts a row, with its keys in indexes of the table, when the transaction commits.
    pub fn insert(&mut self, table: TableId, words: &[u64], keys: &[(IndexId, u64)]) {
        let request = Request {
            mode: Mode::Exclusive,
            ..self.request
        };
        let row = self.database.table(table).place(request, words);
        self.locked.push((row, Mode::Exclusive));
        self.inserted.push((table, row, keys.to_vec()));
    }

    /// Removes a row, and its keys from indexes of the table, when the transaction commits.
    pub fn remove(&mut self, table: TableId, row: Writable<'db>, keys: &[(IndexId, u64)]) {
        self.removed.push((table, row.0, keys.to_vec()));
    }

    /// Counts and times so far; the session ran for so many seconds.
    pub(crate) fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            threads: 1,
            seconds,
            index_seconds: self.clock.index_seconds(seconds),
            kinds: self.clock.kinds(),
            ..self.counts
        }
    }

    fn access<R>(&mut self, index: IndexId, access: impl FnOnce(&'db dyn Multimap) -> R) -> R {
        self.counts.index_operations += 1;
        let index = self.database.index(index);
        self.clock.access(|| access(index))
    }

    fn lock(&mut self, table: TableId, at: RowAt, mode: Mode) -> Step<&'db Row> {
        let row = self.database.table(table).row(at);
        let request = Request {
            mode,
            ..self.request
        };
        let is_row = |other: &Row| std::ptr::eq(other, row);
        let shared = || {
            let own = self.locked.iter();
            own.filter(|(other, mode)| is_row(other) && *mode == Mode::Shared)
                .count() as u32
        };
        match row.lock().acquire(request, shared).map_err(|_| Conflict)? {
            Granted::Already => {}
            Granted::Anew => self.locked.push((row, mode)),
            Granted::Upgraded => {
                self.locked.retain(|(other, _)| !is_row(other));
                self.locked.push((row, mode));
            }
        }
        // Between the search in the index and the lock another may have removed the row.
        match row.at() == at {
            true => Ok(row),
            false => Err(Conflict),
        }
    }

    fn commit(&mut self) {
        for (_, row, keys) in std::mem::take(&mut self.inserted) {
            let at = row.change_incarnation().raw();
            for (index, key) in keys {
                self.access(index, |index| index.insert(key, at));
            }
        }
        for (table, row, keys) in std::mem::take(&mut self.removed) {
            let at = row.at().raw();
            for (index, key) in keys {
                let was_there = self.access(index, |index| index.remove(key, at));
                assert!(was_there, "an index without a row of its table");
            }
            row.change_incarnation();
            self.freed.push((table, row));
        }
        self.undo.clear();
        self.unlock();
    }

    fn abort(&mut self) {
        for (row, column, word) in self.undo.drain(..).rev() {
            row.store(column, word);
        }
        let places = self.inserted.drain(..);
        self.freed
            .extend(places.map(|(table, row, _)| (table, row)));
        self.removed.clear();
        self.unlock();
    }

    /// Unlocks all rows. Only then are places free: who takes one that is still locked leaves it.
    fn unlock(&mut self) {
        for (row, mode) in self.locked.drain(..) {
            row.lock().release(mode, self.request.timestamp);
        }
        for (table, row) in self.freed.drain(..) {
            self.database.table(table).free_place(row);
        }
    }
}

impl Drop for Session<'_> {
    /// A panic in a transaction leaves no locks behind.
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_matryoshka::SharedMatryoshka;

    use super::*;
    use crate::index_form::IndexForm;
    use crate::row_lock::Concurrency;
    use crate::settings::Settings;

    const TABLE: TableId = TableId(0);
    const BY_KEY: IndexId = IndexId(0);

    /// A table with rows of two words under their first.
    fn database(concurrency: Concurrency, rows: u64) -> Database {
        let settings = Settings {
            concurrency,
            padded_locks: false,
            ..Settings::default()
        };
        let mut database = Database::new(settings);
        let table = database.add_table("numbers", 2);
        let form = IndexForm::lists(SharedMatryoshka::<u64>::new());
        let index = database.add_index(table, form, 100);
        (0..rows).for_each(|key| database.load(table, &[key, key * 10], &[(index, key)]));
        database
    }

    fn rows(database: &Database) -> Vec<(u64, u64)> {
        let mut rows = Vec::new();
        database.for_each_row(TABLE, |row| rows.push((row.word(0), row.word(1))));
        rows.sort_unstable();
        database.verify().expect("consistent");
        rows
    }

    #[test]
    fn a_rollback_leaves_nothing_and_takes_no_memory() {
        let database = database(Concurrency::NoWait, 3);
        let mut session = Session::new(&database, 0);
        for _ in 0..100 {
            let committed = session.transact(|tx| {
                let at = tx.find(BY_KEY, 1).expect("it is there");
                let row = tx.write(TABLE, at)?;
                tx.set(row, 1, 77);
                tx.set(row, 1, 78);
                tx.insert(TABLE, &[9, 90], &[(BY_KEY, 9)]);
                let at = tx.find(BY_KEY, 2).expect("it is there");
                let row = tx.write(TABLE, at)?;
                tx.remove(TABLE, row, &[(BY_KEY, 2)]);
                Ok(false)
            });
            assert!(!committed);
        }
        assert_eq!(rows(&database), [(0, 0), (1, 10), (2, 20)]);
        assert_eq!(database.places(TABLE), 4);
        assert_eq!(session.outcome(1.0).rolled_back, 100);
    }

    #[test]
    fn insertions_and_removals_take_the_same_places_again() {
        let database = database(Concurrency::WaitDie, 1);
        let mut session = Session::new(&database, 0);
        for key in 1..200 {
            let committed = session.transact(|tx| {
                let at = tx.find(BY_KEY, key - 1).expect("the one before");
                let row = tx.write(TABLE, at)?;
                tx.remove(TABLE, row, &[(BY_KEY, key - 1)]);
                tx.insert(TABLE, &[key, 0], &[(BY_KEY, key)]);
                Ok(true)
            });
            assert!(committed);
        }
        assert_eq!(rows(&database), [(199, 0)]);
        assert!(database.places(TABLE) <= 2);
    }

    /// The other transaction removes the row between the search and the lock, and its place may
    /// be another row's by then.
    #[test]
    fn a_row_that_was_removed_behind_the_search_is_a_conflict() {
        let database = database(Concurrency::NoWait, 2);
        let (mut session, mut other) = (Session::new(&database, 0), Session::new(&database, 1));
        let mut tries = 0;
        let committed = session.transact(|tx| {
            tries += 1;
            let Some(at) = tx.find(BY_KEY, 1) else {
                return Ok(true);
            };
            other.transact(|tx| {
                let row = tx.write(TABLE, at)?;
                tx.remove(TABLE, row, &[(BY_KEY, 1)]);
                Ok(true)
            });
            other.transact(|tx| {
                tx.insert(TABLE, &[5, 50], &[(BY_KEY, 5)]);
                Ok(true)
            });
            tx.read(TABLE, at)?;
            unreachable!("the row is gone")
        });
        assert!(committed && tries == 2);
        assert_eq!(rows(&database), [(0, 0), (5, 50)]);
    }

    #[test]
    fn a_conflict_undoes_and_tries_again() {
        let database = database(Concurrency::NoWait, 2);
        let (mut session, mut other) = (Session::new(&database, 0), Session::new(&database, 1));
        let mut tries = 0;
        session.transact(|tx| {
            tries += 1;
            let (first, second) = (tx.find(BY_KEY, 0), tx.find(BY_KEY, 1));
            let first = tx.write(TABLE, first.expect("there"))?;
            tx.set(first, 1, first.word(1) + 1);
            if tries == 1 {
                // The other has the second row now, and asks for the first in vain.
                let mut others_tries = 0;
                other.transact(|tx| {
                    others_tries += 1;
                    if others_tries == 2 {
                        return Ok(false);
                    }
                    tx.write(TABLE, second.expect("there"))?;
                    let at = tx.find(BY_KEY, 0).expect("there");
                    tx.write(TABLE, at).map(|_| true)
                });
                return Err(Conflict);
            }
            let second = tx.write(TABLE, second.expect("there"))?;
            tx.set(second, 1, 1);
            Ok(true)
        });
        assert_eq!(rows(&database), [(0, 1), (1, 1)]);
        let counts = session.outcome(1.0);
        assert_eq!((tries, counts.committed, counts.aborts), (2, 1, 1));
    }

    /// Else it could be the youngest whenever it tries.
    #[test]
    fn a_transaction_that_tries_again_stays_as_old() {
        let database = database(Concurrency::WaitDie, 1);
        let mut session = Session::new(&database, 3);
        let mut ages = Vec::new();
        for _ in 0..2 {
            let mut tries = 0;
            session.transact(|tx| {
                tries += 1;
                ages.push(tx.request.timestamp);
                match tries {
                    1 | 2 => Err(Conflict),
                    _ => Ok(true),
                }
            });
        }
        assert!(ages[0] < ages[3], "{ages:?}");
        assert_eq!(ages, [[ages[0]; 3], [ages[3]; 3]].concat());
    }
}
