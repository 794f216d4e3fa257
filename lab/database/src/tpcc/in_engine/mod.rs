//! TPC-C in a database of Hedgerow's: its transactions, its log, any of its indexes.
//!
//! A transaction of the engine names the keys that it locks before it begins, and waits for no
//! other lock thereafter. Where keys depend on rows (the next order of a district, the newest one
//! of a customer, the oldest new one), the transaction is predicted: it first reads those rows
//! without locks, then locks, and reads them again; if they changed, it begins anew. Columns that
//! never change (names, prices, taxes) are read without locks.

mod delivery;
mod engine_database;
mod new_order;
mod order_status;
mod payment;
mod spaces;
mod stock_level;

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use hedgerow::{Durability, WriteOptions};

pub use self::engine_database::EngineDatabase;
use self::engine_database::Try;
use self::spaces::Spaces;
use super::columns::Table;
use super::consistency::{self, Done, Rows};
use super::input::{Input, Terminal};
use super::run::Tpcc;
use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::workers::{self, Harness, Worker};

impl EngineDatabase {
    /// Runs transactions of a terminal a thread. Returns what they came to, and what they did.
    /// The outcome's aborts are transactions that were predicted wrongly; it tells no index time.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub fn run(
        &self,
        tpcc: &Tpcc,
        durability: Durability,
        harness: Harness,
    ) -> Result<(Outcome, Done)> {
        let done = Mutex::default();
        let clerk = |thread| Clerk {
            database: self,
            terminal: Terminal::new(&self.size, tpcc.mix, tpcc.seed, thread),
            options: WriteOptions::default().durability(durability),
            date: 1,
            counts: Outcome::default(),
            done: Done::default(),
            all_done: &done,
        };
        let outcome = workers::run(tpcc.threads, tpcc.transactions, harness, clerk)?;
        Ok((
            outcome,
            done.into_inner().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// Checks all consistency conditions of a database at rest in which transactions did `done`
    /// since it was loaded, and every index.
    ///
    /// # Errors
    ///
    /// [`Error::Inconsistent`], and those of the engine.
    pub fn check(&self, done: Done) -> Result<()> {
        self.db.verify()?;
        let (customers, orders) = self.spaces.unnamed_rows();
        if customers != 0 || orders != 0 {
            return Err(Error::Inconsistent(format!(
                "customers less their names are {customers}, orders less those of customers \
                 {orders}"
            )));
        }
        consistency::check(&self.spaces, &self.size, done)
    }
}

impl Rows for Spaces {
    fn visit(&self, table: Table, visit: &mut dyn FnMut(&[u64])) -> Result<()> {
        self.for_each(table, visit)
    }
}

/// A thread that plays the transactions of its terminal.
struct Clerk<'a> {
    database: &'a EngineDatabase,
    terminal: Terminal<'a>,
    options: WriteOptions,
    date: u64,
    counts: Outcome,
    done: Done,
    all_done: &'a Mutex<Done>,
}

impl Worker for Clerk<'_> {
    fn step(&mut self) -> Result<()> {
        let input = self.terminal.next();
        self.date += 1;
        let committed = self.play(&input)?;
        self.counts.committed += u64::from(committed);
        self.counts.rolled_back += u64::from(!committed);
        Ok(())
    }

    fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            threads: 1,
            seconds,
            ..self.counts
        }
    }
}

impl Clerk<'_> {
    /// Runs a transaction to its end; says whether it committed.
    fn play(&mut self, input: &Input) -> Result<bool> {
        let (database, options, date) = (self.database, self.options, self.date);
        match input {
            Input::NewOrder(input) => {
                let committed = self.until_done(|| new_order::run(database, input, &options, date));
                let committed = committed?;
                self.done.new_orders += u64::from(committed);
                Ok(committed)
            }
            Input::Payment(input) => {
                payment::run(database, input, &options, date)?;
                self.done.payments += 1;
                Ok(true)
            }
            Input::OrderStatus(input) => {
                black_box(self.until_done(|| order_status::run(database, input, &options))?);
                Ok(true)
            }
            Input::Delivery(input) => {
                for d in 1..=super::size::DISTRICTS {
                    let run = || delivery::run(database, (input, d), &options, date);
                    let delivered = self.until_done(run)?;
                    self.done.delivered += u64::from(delivered);
                }
                Ok(true)
            }
            Input::StockLevel(input) => {
                black_box(stock_level::run(database, input)?);
                Ok(true)
            }
        }
    }

    /// Tries a transaction until it was predicted right. Each wrong prediction is another's commit.
    fn until_done<T>(&mut self, mut run: impl FnMut() -> Result<Try<T>>) -> Result<T> {
        loop {
            if let Try::Done(done) = run()? {
                return Ok(done);
            }
            self.counts.aborts += 1;
        }
    }
}

impl Drop for Clerk<'_> {
    fn drop(&mut self) {
        let mut all = self.all_done.lock().unwrap_or_else(PoisonError::into_inner);
        *all = all.and(self.done);
    }
}

#[cfg(test)]
mod tests;
