//! TPC-C stays consistent on every index, under several threads, and after it was opened again.

use hedgerow::{Builder, Db, Direction, IndexKind};

use super::super::answers::Status;
use super::super::columns::district;
use super::super::input::{Delivery, Line, Mix, NewOrder, OrderStatus, Payment, StockLevel};
use super::super::keys;
use super::super::scenarios::{self, Played};
use super::super::size::Size;
use super::*;

/// Every index that a keyspace can have; names that this build does not know are left out.
fn indexes() -> Vec<IndexKind> {
    let names = ["masstree", "matryoshka", "bwtree", "btree", "bst"];
    names.into_iter().filter_map(IndexKind::from_name).collect()
}

const SIZE: Size = Size {
    warehouses: 1,
    items: 100,
    customers: 10,
};

fn tpcc(mix: Mix, seed: u64) -> Tpcc {
    Tpcc {
        size: SIZE,
        mix,
        threads: 3,
        transactions: 80,
        seed,
    }
}

fn builder(index: IndexKind) -> Builder {
    Db::builder().index(index)
}

#[test]
fn it_is_consistent_on_every_index_and_after_opening_again() {
    let indexes = indexes();
    assert!(indexes.len() >= 4);
    for index in indexes {
        let folder = tempfile::tempdir().expect("a folder");
        let db = builder(index).open(folder.path()).expect("a new database");
        let database = EngineDatabase::load(db, index, SIZE, 3).expect("loaded");
        database
            .check(Done::default())
            .expect("consistent at first");
        let mut all = Done::default();
        for (mix, seed) in [(Mix::Full, 1), (Mix::Paper, 2)] {
            let ran = database.run(&tpcc(mix, seed), Durability::None, Harness::default());
            let (outcome, done) = ran.expect("it runs");
            assert!(outcome.committed + outcome.rolled_back >= 80, "{outcome:?}");
            all = all.and(done);
            database
                .check(all)
                .unwrap_or_else(|error| panic!("{index:?}: {error}"));
        }
        database.db().close().expect("closed");
        drop(database);

        let db = builder(index).open(folder.path()).expect("opened again");
        let database = EngineDatabase::open(db, SIZE).expect("all keyspaces are there");
        database
            .check(all)
            .unwrap_or_else(|error| panic!("{index:?}, reopened: {error}"));
        let (_, done) = database
            .run(
                &tpcc(Mix::Full, 4),
                Durability::Periodic,
                Harness::default(),
            )
            .expect("it goes on");
        database
            .check(all.and(done))
            .unwrap_or_else(|error| panic!("{index:?}: {error}"));
    }
}

#[test]
fn a_district_without_a_payment_is_found() {
    let db = Db::builder().open_in_memory().expect("a database");
    let database = EngineDatabase::load(db, IndexKind::Masstree, SIZE, 3).expect("loaded");
    let (_, done) = database
        .run(&tpcc(Mix::Paper, 1), Durability::None, Harness::default())
        .expect("it runs");
    database.check(done).expect("consistent");
    let key = keys::district(1, 2);
    let mut row = database
        .spaces
        .read(Table::District, key)
        .expect("no error")
        .expect("there");
    row[district::YTD] -= 1;
    let mut locks = spaces::LockList::default();
    let space = database.spaces.table(Table::District);
    locks.add(space, key);
    let put = locks.transact(&database.db, &WriteOptions::default(), |tx| {
        spaces::put(tx, space, key, &row)
    });
    put.expect("stored");
    let error = database
        .check(done)
        .expect_err("a cent is missing")
        .to_string();
    assert!(
        error.contains("3.3.2.1:") && error.contains("3.3.2.9:"),
        "{error}"
    );
}

/// Another transaction commits between the prediction and the locks.
#[test]
fn a_wrong_prediction_does_nothing_and_is_tried_again() {
    let db = Db::builder().open_in_memory().expect("a database");
    let database = EngineDatabase::load(db, IndexKind::Masstree, SIZE, 3).expect("loaded");
    let options = WriteOptions::default();
    let (district, customer, next) = (keys::district(1, 2), 4, SIZE.orders() + 1);
    let line = Line {
        item: 5,
        supply_warehouse: 1,
        quantity: 3,
    };
    let order = NewOrder {
        warehouse: 1,
        district: 2,
        customer,
        lines: vec![line; 6],
    };
    let customer = keys::customer(district, customer);
    let orders = (
        keys::order_of_customer(customer, 0),
        keys::order_of_customer(customer, next),
    );
    let newest = || {
        let entries = &database.spaces.customer_orders;
        spaces::nearest(entries, orders, Direction::Reverse).expect("no error")
    };
    let before = newest();
    let place = |o| new_order::attempt(&database, (&order, 0, o), &options, 9).expect("no error");
    assert!(matches!(place(next), Try::Done(true)));
    assert!(matches!(place(next), Try::Again));
    let status = |newest| {
        order_status::attempt(&database, (district, customer), newest, &options).expect("no error")
    };
    assert!(matches!(status(before), Try::Again));
    assert!(matches!(status(newest()), Try::Done(_)));
    let delivery = Delivery {
        warehouse: 1,
        carrier: 7,
    };
    let oldest = keys::order(district, SIZE.delivered_orders() + 1);
    let deliver = || {
        let input = (&delivery, district, oldest);
        delivery::attempt(&database, input, &options, 9).expect("no error")
    };
    assert!(matches!(deliver(), Try::Done(true)));
    assert!(matches!(deliver(), Try::Again));
    let done = Done {
        new_orders: 1,
        payments: 0,
        delivered: 1,
    };
    database.check(done).expect("consistent");
}

impl EngineDatabase {
    fn until_done<T>(mut run: impl FnMut() -> Result<Try<T>>) -> T {
        loop {
            if let Try::Done(done) = run().expect("no error") {
                return done;
            }
        }
    }
}

impl Played for EngineDatabase {
    fn new_order(&mut self, input: &NewOrder) -> bool {
        Self::until_done(|| new_order::run(self, input, &WriteOptions::default(), 9))
    }

    fn payment(&mut self, input: &Payment) {
        payment::run(self, input, &WriteOptions::default(), 9).expect("paid");
    }

    fn order_status(&mut self, input: &OrderStatus) -> Status {
        Self::until_done(|| order_status::run(self, input, &WriteOptions::default()))
    }

    fn delivery(&mut self, input: &Delivery) -> u64 {
        let districts = 1..=super::super::size::DISTRICTS;
        let delivered = districts.map(|d| {
            Self::until_done(|| delivery::run(self, (input, d), &WriteOptions::default(), 9))
        });
        delivered.map(u64::from).sum()
    }

    fn stock_level(&mut self, input: &StockLevel) -> u64 {
        stock_level::run(self, input).expect("no error")
    }

    fn rows(&self, table: Table) -> Vec<Vec<u64>> {
        let mut rows = Vec::new();
        let visited = self.spaces.visit(table, &mut |row| rows.push(row.to_vec()));
        visited.expect("no error");
        rows
    }

    fn check(&self, done: Done) {
        Self::check(self, done).expect("consistent");
    }
}

#[test]
fn edges_are_as_specified_on_every_index() {
    for index in indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = builder(index).open(folder.path()).expect("a new database");
        let database = EngineDatabase::load(db, index, scenarios::SIZE, 3);
        scenarios::play_edges(&mut database.expect("loaded"));
    }
}

#[test]
fn of_several_customers_of_a_name_the_middle_one_is_meant() {
    for index in indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = builder(index).open(folder.path()).expect("a new database");
        let database = EngineDatabase::load(db, index, scenarios::NAMESAKES, 3);
        scenarios::play_namesakes(&mut database.expect("loaded"));
    }
}
