//! Tables and indexes of the database, and how it is loaded.

use super::super::columns::{Table, customer, new_order, order, order_line};
use super::super::size::{DISTRICTS, Size};
use super::super::{columns, keys, population};
use crate::database::{Database, IndexId, TableId};
use crate::index_form::IndexForm;
use crate::row::Row;
use crate::session::{Session, Step, Writable};
use crate::settings::Settings;

/// An index with its table.
pub(super) type Index = (IndexId, TableId);

pub(super) const WAREHOUSE: Index = (IndexId(0), table(Table::Warehouse));
pub(super) const DISTRICT: Index = (IndexId(1), table(Table::District));
pub(super) const CUSTOMER: Index = (IndexId(2), table(Table::Customer));
/// All customers of a last name.
pub(super) const CUSTOMER_NAME: Index = (IndexId(3), table(Table::Customer));
pub(super) const NEW_ORDER: Index = (IndexId(4), table(Table::NewOrder));
pub(super) const ORDER: Index = (IndexId(5), table(Table::Order));
/// All orders of a customer, the newest first.
pub(super) const CUSTOMER_ORDERS: Index = (IndexId(6), table(Table::Order));
/// All lines of an order.
pub(super) const ORDER_LINES: Index = (IndexId(7), table(Table::OrderLine));
pub(super) const ITEM: Index = (IndexId(8), table(Table::Item));
pub(super) const STOCK: Index = (IndexId(9), table(Table::Stock));
/// Our own: the oldest order of a district that is not delivered.
pub(super) const UNDELIVERED: Index = (IndexId(10), TableId(Table::ALL.len()));

/// Columns of our own table.
pub(super) mod undelivered {
    pub(in super::super) const O_ID: usize = 0;
    pub(in super::super) const WORDS: usize = 1;
}

/// The database's table.
pub(super) const fn table(table: Table) -> TableId {
    TableId(table as usize)
}

/// The row under a key that must be there, for reading.
pub(super) fn read<'db>(tx: &mut Session<'db>, index: Index, key: u64) -> Step<&'db Row> {
    let at = tx.find(index.0, key).expect(NEVER_REMOVED);
    tx.read(index.1, at)
}

/// The row under a key that must be there, for writing.
pub(super) fn write<'db>(tx: &mut Session<'db>, index: Index, key: u64) -> Step<Writable<'db>> {
    let at = tx.find(index.0, key).expect(NEVER_REMOVED);
    tx.write(index.1, at)
}

const NEVER_REMOVED: &str = "rows of this table are loaded for every key and never removed";

/// The keys of a row of the specification.
pub(super) fn index_keys(of: Table, row: &[u64]) -> Vec<(IndexId, u64)> {
    match of {
        Table::Warehouse => vec![(WAREHOUSE.0, row[columns::warehouse::ID])],
        Table::District => {
            let (w, d) = (row[columns::district::W_ID], row[columns::district::ID]);
            vec![(DISTRICT.0, keys::district(w, d))]
        }
        Table::Customer => {
            let district = keys::district(row[customer::W_ID], row[customer::D_ID]);
            vec![
                (CUSTOMER.0, keys::customer(district, row[customer::ID])),
                (CUSTOMER_NAME.0, keys::name(district, row[customer::NAME])),
            ]
        }
        Table::History => Vec::new(),
        Table::NewOrder => {
            let district = keys::district(row[new_order::W_ID], row[new_order::D_ID]);
            vec![(NEW_ORDER.0, keys::order(district, row[new_order::O_ID]))]
        }
        Table::Order => {
            let district = keys::district(row[order::W_ID], row[order::D_ID]);
            let customer = keys::customer(district, row[order::C_ID]);
            vec![
                (ORDER.0, keys::order(district, row[order::ID])),
                (CUSTOMER_ORDERS.0, customer),
            ]
        }
        Table::OrderLine => {
            let district = keys::district(row[order_line::W_ID], row[order_line::D_ID]);
            vec![(ORDER_LINES.0, keys::order(district, row[order_line::O_ID]))]
        }
        Table::Item => vec![(ITEM.0, row[columns::item::ID])],
        Table::Stock => {
            let (w, i) = (row[columns::stock::W_ID], row[columns::stock::I_ID]);
            vec![(STOCK.0, keys::stock(w, i))]
        }
    }
}

/// Inserts a row of the specification.
pub(super) fn insert(tx: &mut Session<'_>, of: Table, row: &[u64]) {
    tx.insert(table(of), row, &index_keys(of, row));
}

/// What a database's indexes are made over, and how it works.
pub(super) type Made<'a> = (&'a dyn Fn() -> IndexForm, Settings);

/// A database with the rows of clause 4.3.3.1, loaded by so many threads.
pub(super) fn load(size: &Size, seed: u64, threads: usize, made: Made<'_>) -> Database {
    let database = empty(size, made);
    let sink = |of: Table, row: &[u64]| database.load(table(of), row, &index_keys(of, row));
    population::items(size, seed, &mut { sink });
    let threads = threads.max(1) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (database, mut sink) = (&database, sink);
            scope.spawn(move || {
                let own = (1..=size.warehouses).filter(|w| w % threads == thread);
                for w in own {
                    population::warehouse(size, seed, w, &mut sink);
                    load_undelivered(database, size, w);
                }
            });
        }
    });
    database
}

fn load_undelivered(database: &Database, size: &Size, w: u64) {
    for d in 1..=DISTRICTS {
        let mut row = [0; undelivered::WORDS];
        row[undelivered::O_ID] = size.delivered_orders() + 1;
        let key = (UNDELIVERED.0, keys::district(w, d));
        database.load(UNDELIVERED.1, &row, &[key]);
    }
}

fn empty(size: &Size, (new_index, settings): Made<'_>) -> Database {
    let mut database = Database::new(settings);
    for of in Table::ALL {
        assert_eq!(database.add_table(of.name(), of.words()), table(of));
    }
    let own = database.add_table("oldest order not delivered", undelivered::WORDS);
    assert_eq!(own, UNDELIVERED.1);
    let districts = size.all_districts();
    let customers = districts * size.customers;
    let indexes = [
        (WAREHOUSE, size.warehouses),
        (DISTRICT, districts),
        (CUSTOMER, customers),
        (CUSTOMER_NAME, customers),
        (NEW_ORDER, customers),
        (ORDER, customers),
        (CUSTOMER_ORDERS, customers),
        (ORDER_LINES, customers),
        (ITEM, size.items),
        (STOCK, size.warehouses * size.items),
        (UNDELIVERED, districts),
    ];
    for ((index, of), keys) in indexes {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        assert_eq!(database.add_index(of, new_index(), keys), index);
    }
    database
}
