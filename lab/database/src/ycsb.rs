//! YCSB as the paper runs it (§4.1): one table, one index, transactions of sixteen accesses.
//!
//! A row has 128 bytes, sixteen words. An access reads the row whose key is drawn by Zipf's law, or
//! updates it: it adds one to a word. Rows are loaded in the order of their keys, the most popular
//! first, as DBx1000 does.

use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_lab_data::Zipf;
use hedgerow_lab_data::random::Random;

use crate::database::{Database, IndexId, TableId};
use crate::error::{Error, Result};
use crate::index_form::IndexForm;
use crate::loaded::Loaded;
use crate::outcome::Outcome;
use crate::session::{Session, Step};
use crate::settings::Settings;
use crate::workers::{self, Harness, Worker};

/// Words of a row.
const WORDS: usize = 16;
const TABLE: TableId = TableId(0);
const BY_KEY: IndexId = IndexId(0);

/// A run of YCSB.
#[derive(Debug, Clone, Copy)]
pub struct Ycsb {
    /// Rows of the table: 10 million in the paper.
    pub rows: u64,
    /// Threads.
    pub threads: usize,
    /// Transactions of each thread: 100,000 in the paper. The run ends when the first thread has
    /// done its own.
    pub transactions: u64,
    /// Accesses of a transaction, each to another row: 16.
    pub accesses: usize,
    /// Updates among a hundred accesses: 10.
    pub update_percent: u64,
    /// The exponent of Zipf's law. The paper does not say; DBx1000's standard is 0.6.
    pub zipf_exponent: f64,
    /// What random numbers are made from.
    pub seed: u64,
}

impl Ycsb {
    /// The paper's parameters, for so many rows, threads and transactions of a thread.
    #[must_use]
    pub fn new(rows: u64, threads: usize, transactions: u64) -> Self {
        Self {
            rows,
            threads,
            transactions,
            accesses: 16,
            update_percent: 10,
            zipf_exponent: 0.6,
            seed: 1,
        }
    }

    /// Loads a fresh database with an empty index and runs the transactions.
    ///
    /// # Errors
    ///
    /// [`Error::Inconsistent`] if an update was lost or the index is broken.
    pub fn run(&self, form: IndexForm, settings: Settings, harness: Harness) -> Result<Outcome> {
        let loaded = self.loaded(form, settings)?;
        let outcome = loaded.slice(self.seed, harness)?;
        loaded.check()?;
        Ok(outcome)
    }

    /// Loads a fresh database with an empty index, for transactions in slices.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for fewer rows than a transaction accesses.
    pub fn loaded(&self, form: IndexForm, settings: Settings) -> Result<LoadedYcsb> {
        if self.rows < self.accesses as u64 {
            let why = format!("{} accesses want as many rows", self.accesses);
            return Err(Error::Usage(why));
        }
        Ok(LoadedYcsb {
            ycsb: *self,
            database: self.load(form, settings),
            zipf: Zipf::new(self.rows, self.zipf_exponent),
            updates: AtomicU64::new(0),
        })
    }

    fn load(&self, form: IndexForm, settings: Settings) -> Database {
        let mut database = Database::new(settings);
        let table = database.add_table("usertable", WORDS);
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let index = database.add_index(table, form, rows);
        assert_eq!((table, index), (TABLE, BY_KEY));
        let threads = self.threads.max(1) as u64;
        std::thread::scope(|scope| {
            let database = &database;
            for thread in 0..threads {
                let keys = self.rows * thread / threads..self.rows * (thread + 1) / threads;
                scope.spawn(move || {
                    for key in keys {
                        database.load(TABLE, &[0; WORDS], &[(BY_KEY, key)]);
                    }
                });
            }
        });
        database
    }

    /// Compares the rows with what the transactions that committed did.
    fn check(&self, database: &Database, updates: u64) -> Result<()> {
        database.verify()?;
        let (mut rows, mut found) = (0, 0);
        database.for_each_row(TABLE, |row| {
            rows += 1;
            found += (0..WORDS).map(|word| row.word(word)).sum::<u64>();
        });
        if (rows, found) != (self.rows, updates) {
            return Err(Error::Inconsistent(format!(
                "{} rows and {updates} committed updates became {rows} rows and {found} updates",
                self.rows
            )));
        }
        Ok(())
    }
}

/// A loaded database, and how many updates its transactions have committed.
pub struct LoadedYcsb {
    ycsb: Ycsb,
    database: Database,
    zipf: Zipf,
    updates: AtomicU64,
}

impl Loaded for LoadedYcsb {
    fn slice(&self, seed: u64, harness: Harness) -> Result<Outcome> {
        let ycsb = &self.ycsb;
        let client = |thread| Client {
            ycsb,
            zipf: &self.zipf,
            session: Session::new(&self.database, thread),
            next: Accesses {
                random: Random::for_thread(seed, thread as u64),
                list: Vec::with_capacity(ycsb.accesses),
                read: 0,
            },
            updates: 0,
            all_updates: &self.updates,
        };
        workers::run(ycsb.threads, ycsb.transactions, harness, client)
    }

    fn check(&self) -> Result<()> {
        let updates = self.updates.load(Ordering::Relaxed);
        self.ycsb.check(&self.database, updates)
    }
}

/// A thread that runs transactions.
struct Client<'a> {
    ycsb: &'a Ycsb,
    zipf: &'a Zipf,
    session: Session<'a>,
    next: Accesses,
    /// Updates of transactions that committed.
    updates: u64,
    all_updates: &'a AtomicU64,
}

impl Worker for Client<'_> {
    fn step(&mut self) -> Result<()> {
        self.next.draw(self.ycsb, self.zipf);
        self.session.transact(|tx| self.next.run(tx));
        let updates = self.next.list.iter().filter(|(_, word)| word.is_some());
        self.updates += updates.count() as u64;
        Ok(())
    }

    fn outcome(&self, seconds: f64) -> Outcome {
        self.session.outcome(seconds)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        std::hint::black_box(self.next.read);
        self.all_updates.fetch_add(self.updates, Ordering::Relaxed);
    }
}

/// What a transaction does.
struct Accesses {
    random: Random,
    /// Keys, and which word each updates.
    list: Vec<(u64, Option<usize>)>,
    /// A sum of what was read, so that reads are not optimised away.
    read: u64,
}

impl Accesses {
    /// Draws the next transaction: a row that it has already is drawn again.
    fn draw(&mut self, ycsb: &Ycsb, zipf: &Zipf) {
        self.list.clear();
        while self.list.len() < ycsb.accesses {
            let key = zipf.rank(&mut self.random);
            if self.list.iter().any(|&(drawn, _)| drawn == key) {
                continue;
            }
            let is_update = self.random.below(100) < ycsb.update_percent;
            let word = self.random.below(WORDS as u64) as usize;
            self.list.push((key, is_update.then_some(word)));
        }
    }

    fn run(&mut self, tx: &mut Session<'_>) -> Step<bool> {
        for &(key, update) in &self.list {
            let found = tx.find(BY_KEY, key);
            let at = found.expect("no row of this table is ever removed");
            match update {
                None => self.read = self.read.wrapping_add(tx.read(TABLE, at)?.word(0)),
                Some(word) => {
                    let row = tx.write(TABLE, at)?;
                    tx.set(row, word, row.word(word) + 1);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_matryoshka::SharedMatryoshka;

    use super::*;
    use crate::row_lock::Concurrency;

    #[test]
    fn no_update_is_lost_however_rows_are_locked() {
        for concurrency in [Concurrency::NoWait, Concurrency::WaitDie] {
            for padded_locks in [false, true] {
                let settings = Settings {
                    concurrency,
                    padded_locks,
                    ..Settings::default()
                };
                // So few rows that transactions meet.
                let ycsb = Ycsb {
                    update_percent: 50,
                    ..Ycsb::new(20, 3, 300)
                };
                let form = IndexForm::lists(SharedMatryoshka::<u64>::new());
                let outcome = ycsb
                    .run(form, settings, Harness::default())
                    .expect("consistent");
                let accesses = 16 * outcome.committed;
                assert!(outcome.committed >= 300 && outcome.index_operations >= accesses);
                assert!(outcome.index_seconds <= outcome.thread_seconds());
            }
        }
    }

    #[test]
    fn a_transaction_accesses_each_row_once() {
        let ycsb = Ycsb::new(16, 1, 1);
        let zipf = Zipf::new(ycsb.rows, ycsb.zipf_exponent);
        let mut next = Accesses {
            random: Random::new(7),
            list: Vec::new(),
            read: 0,
        };
        for _ in 0..100 {
            next.draw(&ycsb, &zipf);
            let mut keys: Vec<u64> = next.list.iter().map(|&(key, _)| key).collect();
            keys.sort_unstable();
            assert_eq!(keys, (0..16).collect::<Vec<u64>>());
        }
        let form = IndexForm::lists(SharedMatryoshka::<u64>::new());
        let refused = Ycsb::new(15, 1, 1).run(form, Settings::default(), Harness::default());
        let refused = refused.expect_err("16 rows of 15");
        assert!(refused.to_string().contains("16 accesses"), "{refused}");
    }

    #[test]
    fn slices_of_one_database_add_up() {
        let ycsb = Ycsb::new(50, 2, 40);
        let form = IndexForm::lists(SharedMatryoshka::<u64>::new());
        let loaded = ycsb.loaded(form, Settings::default()).expect("enough rows");
        for seed in 0..3 {
            let outcome = loaded.slice(seed, Harness::default());
            assert!(outcome.expect("consistent").committed >= 40);
            loaded.check().expect("all slices so far are counted");
        }
        loaded.updates.fetch_add(1, Ordering::Relaxed);
        loaded.check().expect_err("an update that nobody did");
    }

    #[test]
    fn a_lost_update_is_found() {
        let ycsb = Ycsb::new(20, 1, 10);
        let form = IndexForm::lists(SharedMatryoshka::<u64>::new());
        let database = ycsb.load(form, Settings::default());
        assert!(ycsb.check(&database, 0).is_ok());
        let error = ycsb.check(&database, 1).expect_err("nothing was updated");
        assert!(
            error.to_string().contains("20 rows and 0 updates"),
            "{error}"
        );
    }
}
