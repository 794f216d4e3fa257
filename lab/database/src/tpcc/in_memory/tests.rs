//! TPC-C in the lab's database stays consistent over every tree, and does what the specification
//! says at its edges.

use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_memory::Placement;

use super::super::answers::Status;
use super::super::columns::district;
use super::super::input::{Delivery, Mix, NewOrder, OrderStatus, Payment, StockLevel, Who};
use super::super::keys;
use super::super::scenarios::{self, Played};
use super::super::size::Size;
use super::*;
use crate::row_lock::Concurrency;
use crate::trees;

fn new_index() -> IndexForm {
    IndexForm::lists(SharedMatryoshka::<u64>::new())
}

#[test]
fn it_stays_consistent_however_rows_are_locked() {
    for concurrency in [Concurrency::NoWait, Concurrency::WaitDie] {
        for (mix, warehouses) in [(Mix::Full, 1), (Mix::Full, 2), (Mix::Paper, 2)] {
            let tpcc = Tpcc {
                size: Size::reduced(warehouses),
                mix,
                threads: 3,
                transactions: 300,
                seed: 5,
            };
            let settings = Settings {
                concurrency,
                padded_locks: false,
                ..Settings::default()
            };
            let outcome = tpcc
                .run(&new_index, settings, Harness::default())
                .expect("consistent");
            assert!(outcome.committed + outcome.rolled_back >= 300);
            assert!(outcome.index_operations > 5 * outcome.committed);
            let ended = outcome.kinds.map(|kind| kind.ended);
            let all = outcome.committed + outcome.rolled_back;
            assert_eq!(ended.iter().sum::<u64>(), all);
            assert_eq!(ended.iter().all(|ended| *ended > 0), mix == Mix::Full);
            for kind in outcome.kinds {
                assert!(kind.index_seconds <= kind.seconds, "{kind:?}");
            }
        }
    }
}

#[test]
fn a_size_without_meaning_is_refused() {
    let tpcc = Tpcc {
        size: Size::new(0),
        mix: Mix::Full,
        threads: 1,
        transactions: 1,
        seed: 1,
    };
    let refused = tpcc.run(&new_index, Settings::default(), Harness::default());
    assert!(
        refused
            .expect_err("no warehouse")
            .to_string()
            .contains("1 to 65535 warehouses")
    );
}

/// A payment that does not add to the district, and one that is done twice.
#[test]
fn broken_payments_are_found() {
    let size = Size::reduced(1);
    let input = Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 1,
        customer_district: 2,
        who: Who::Number(3),
        amount: 4200,
    };
    let done = Done {
        payments: 1,
        ..Done::default()
    };
    let after = |transaction: &dyn Fn(&mut Session<'_>) -> Step<()>| {
        let database = schema::load(&size, 5, 1, (&new_index, Settings::default()));
        Session::new(&database, 0).transact(|tx| {
            transaction(tx)?;
            Ok(true)
        });
        let checked = consistency::check(&database, &size, done);
        checked.map_err(|error| error.to_string())
    };
    let pay = |tx: &mut Session<'_>| payment::run(tx, &input, 9).map(drop);
    assert_eq!(after(&pay), Ok(()));
    let without_district = |tx: &mut Session<'_>| {
        pay(tx)?;
        let row = schema::write(tx, schema::DISTRICT, keys::district(1, 2))?;
        tx.set(row, district::YTD, row.word(district::YTD) - 4200);
        Ok(())
    };
    let error = after(&without_district).expect_err("the district lacks it");
    assert!(
        error.contains("3.3.2.1:") && error.contains("3.3.2.9:"),
        "{error}"
    );
    let twice = |tx: &mut Session<'_>| pay(tx).and_then(|()| pay(tx));
    let error = after(&twice).expect_err("one payment was to be made");
    assert!(error.contains("payments is 302, expected 301"), "{error}");
}

/// The database with one terminal.
struct Alone {
    database: Database,
    size: Size,
}

impl Alone {
    fn new(size: Size, new_index: &dyn Fn() -> IndexForm) -> Self {
        let database = schema::load(&size, 5, 1, (new_index, Settings::default()));
        Self { database, size }
    }

    /// What a transaction that commits tells.
    fn commit<T: Default>(&self, mut run: impl FnMut(&mut Session<'_>) -> Step<T>) -> T {
        let mut told = T::default();
        let committed = Session::new(&self.database, 0).transact(|tx| {
            told = run(tx)?;
            Ok(true)
        });
        assert!(committed);
        told
    }
}

impl Played for Alone {
    fn new_order(&mut self, input: &NewOrder) -> bool {
        Session::new(&self.database, 0).transact(|tx| new_order::run(tx, input, 9))
    }

    fn payment(&mut self, input: &Payment) {
        self.commit(|tx| payment::run(tx, input, 9));
    }

    fn order_status(&mut self, input: &OrderStatus) -> Status {
        self.commit(|tx| order_status::run(tx, input))
    }

    fn delivery(&mut self, input: &Delivery) -> u64 {
        self.commit(|tx| delivery::run(tx, input, 9))
    }

    fn stock_level(&mut self, input: &StockLevel) -> u64 {
        self.commit(|tx| stock_level::run(tx, input))
    }

    fn rows(&self, table: Table) -> Vec<Vec<u64>> {
        let mut rows = Vec::new();
        let visited = self
            .database
            .visit(table, &mut |row| rows.push(row.to_vec()));
        visited.expect("no error in memory");
        rows
    }

    fn check(&self, done: Done) {
        self.database.verify().expect("indexes and rows agree");
        consistency::check(&self.database, &self.size, done).expect("consistent");
    }
}

#[test]
fn edges_are_as_specified_over_every_tree() {
    for tree in trees() {
        for new in [Some(tree.improved), tree.baseline].into_iter().flatten() {
            let new_index = || new.form(Placement::Segregated);
            scenarios::play_edges(&mut Alone::new(scenarios::SIZE, &new_index));
        }
    }
}

#[test]
fn of_several_customers_of_a_name_the_middle_one_is_meant() {
    scenarios::play_namesakes(&mut Alone::new(scenarios::NAMESAKES, &new_index));
}

#[test]
fn every_tree_stays_consistent_under_threads() {
    for tree in trees() {
        for (new, placement) in [
            (Some(tree.improved), Placement::Segregated),
            (tree.baseline, Placement::System),
        ] {
            let Some(new) = new else { continue };
            let tpcc = Tpcc {
                size: Size::reduced(2),
                mix: Mix::Full,
                threads: 3,
                transactions: 100,
                seed: 7,
            };
            let ran = tpcc.run(
                &|| new.form(placement),
                Settings::default(),
                Harness::default(),
            );
            let outcome = ran.unwrap_or_else(|error| panic!("{}: {error}", tree.name));
            assert!(outcome.committed + outcome.rolled_back >= 100);
        }
    }
}

/// What a run inserts has room before, so that no transaction waits for a table to grow.
#[test]
fn no_table_grows_while_transactions_are_timed() {
    for mix in [Mix::Paper, Mix::Full] {
        let tpcc = Tpcc {
            size: Size::reduced(2),
            mix,
            threads: 2,
            transactions: 3000,
            seed: 9,
        };
        let load = || tpcc.loaded(&new_index, Settings::default());
        let room = |loaded: &LoadedTpcc| {
            Table::ALL.map(|of| loaded.database.table(schema::table(of)).room())
        };
        let loaded = load().expect("a size with a meaning");
        let first = room(&loaded);
        loaded.reserve();
        let reserved = room(&loaded);
        assert_ne!(first, reserved);
        // A slice reserves by itself, and what it inserts has room there.
        let loaded = load().expect("a size with a meaning");
        loaded.slice(9, Harness::default()).expect("consistent");
        loaded.check().expect("consistent");
        assert_eq!(room(&loaded), reserved);
        let lines = loaded.database.places(schema::table(Table::OrderLine));
        assert!(lines > 12_000, "{lines} lines");
    }
}
