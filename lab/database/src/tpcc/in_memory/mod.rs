//! TPC-C in the lab's database.
//!
//! Its indexes have no order. So, as DBx1000's extensions do: customers of a last name, orders of a
//! customer (the newest first) and lines of an order are multimaps; and a table of our own has the
//! oldest order of each district that was not delivered yet.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod schema;
mod stock_level;

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use super::columns::Table;
use super::consistency::{self, Done, Rows};
use super::input::{Input, Terminal};
use super::run::Tpcc;
use crate::database::Database;
use crate::error::Result;
use crate::index_form::IndexForm;
use crate::loaded::Loaded;
use crate::outcome::Outcome;
use crate::session::{Session, Step};
use crate::settings::Settings;
use crate::workers::{self, Harness, Worker};

impl Tpcc {
    /// Loads a fresh database with indexes that `new_index` makes, runs the transactions, and
    /// checks all consistency conditions.
    ///
    /// # Errors
    ///
    /// [`Error::Inconsistent`](crate::Error::Inconsistent), and
    /// [`Error::Usage`](crate::Error::Usage) for a size without meaning.
    pub fn run(
        &self,
        new_index: &dyn Fn() -> IndexForm,
        settings: Settings,
        harness: Harness,
    ) -> Result<Outcome> {
        let loaded = self.loaded(new_index, settings)?;
        let outcome = loaded.slice(self.seed, harness)?;
        loaded.check()?;
        Ok(outcome)
    }

    /// Loads a fresh database with indexes that `new_index` makes, for transactions in slices.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`](crate::Error::Usage) for a size without meaning.
    pub fn loaded(
        &self,
        new_index: &dyn Fn() -> IndexForm,
        settings: Settings,
    ) -> Result<LoadedTpcc> {
        self.size.check()?;
        Ok(LoadedTpcc {
            tpcc: *self,
            database: schema::load(&self.size, self.seed, self.threads, (new_index, settings)),
            done: Mutex::default(),
        })
    }
}

/// A loaded database, and what its transactions have done.
pub struct LoadedTpcc {
    tpcc: Tpcc,
    database: Database,
    done: Mutex<Done>,
}

impl LoadedTpcc {
    /// Makes room for the rows of a slice, so that no table grows while transactions are timed: of
    /// a hundred at most 52 are new-orders, with ten lines on average.
    fn reserve(&self) {
        let transactions = self.tpcc.transactions * self.tpcc.threads.max(1) as u64;
        let orders = (transactions * 52).div_ceil(100) + 1000;
        let rows = [
            (Table::History, transactions),
            (Table::Order, orders),
            (Table::NewOrder, orders),
            (Table::OrderLine, orders * 10),
        ];
        for (of, rows) in rows {
            self.database.reserve(schema::table(of), rows);
        }
    }
}

impl Loaded for LoadedTpcc {
    fn slice(&self, seed: u64, harness: Harness) -> Result<Outcome> {
        self.reserve();
        let tpcc = &self.tpcc;
        let clerk = |thread| Clerk {
            session: Session::new(&self.database, thread),
            terminal: Terminal::new(&tpcc.size, tpcc.mix, seed, thread),
            date: 1,
            done: Done::default(),
            all_done: &self.done,
        };
        workers::run(tpcc.threads, tpcc.transactions, harness, clerk)
    }

    fn check(&self) -> Result<()> {
        let done = *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        self.database.verify()?;
        consistency::check(&self.database, &self.tpcc.size, done)
    }
}

impl Rows for Database {
    fn visit(&self, table: Table, visit: &mut dyn FnMut(&[u64])) -> Result<()> {
        let mut words = Vec::new();
        self.for_each_row(schema::table(table), |row| {
            row.copy_to(&mut words);
            visit(&words);
        });
        Ok(())
    }
}

/// A thread that plays the transactions of its terminal.
struct Clerk<'a> {
    session: Session<'a>,
    terminal: Terminal<'a>,
    date: u64,
    done: Done,
    all_done: &'a Mutex<Done>,
}

impl Worker for Clerk<'_> {
    fn step(&mut self) -> Result<()> {
        let input = self.terminal.next();
        self.date += 1;
        let (date, mut done) = (self.date, Done::default());
        let committed = self.session.transact_as(input.kind(), |tx| {
            done = Done::default();
            play(tx, &input, date, &mut done)
        });
        if committed {
            self.done = self.done.and(done);
        }
        Ok(())
    }

    fn outcome(&self, seconds: f64) -> Outcome {
        self.session.outcome(seconds)
    }
}

impl Drop for Clerk<'_> {
    fn drop(&mut self) {
        let mut all = self.all_done.lock().unwrap_or_else(PoisonError::into_inner);
        *all = all.and(self.done);
    }
}

/// One try of a transaction; `done` is what it did if it commits.
fn play(tx: &mut Session<'_>, input: &Input, date: u64, done: &mut Done) -> Step<bool> {
    match input {
        Input::NewOrder(input) => {
            done.new_orders = 1;
            new_order::run(tx, input, date)
        }
        Input::Payment(input) => {
            done.payments = 1;
            payment::run(tx, input, date)
        }
        Input::OrderStatus(input) => {
            black_box(order_status::run(tx, input)?);
            Ok(true)
        }
        Input::Delivery(input) => {
            done.delivered = delivery::run(tx, input, date)?;
            Ok(true)
        }
        Input::StockLevel(input) => {
            black_box(stock_level::run(tx, input)?);
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests;
