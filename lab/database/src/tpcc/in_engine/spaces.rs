//! Keyspaces: a table each, and two that name rows by other columns. Keys are integers in eight
//! bytes, the most significant first; values are the rows' words.

use std::ops::ControlFlow;

use hedgerow::{
    Db, Direction, Durability, IndexKind, Keyspace, KeyspaceOptions, Locks, Transaction,
    WriteOptions,
};

use super::super::columns::{Table, customer, district, new_order, order, order_line};
use super::super::input::Who;
use super::super::restock::middle;
use super::super::size::Size;
use super::super::{columns, keys, population};
use crate::error::Result;

/// The keyspaces of a database.
pub(super) struct Spaces {
    tables: Vec<Keyspace>,
    /// Customers by last name; the values are empty.
    pub(super) customer_names: Keyspace,
    /// Orders by customer; the values are empty.
    pub(super) customer_orders: Keyspace,
}

const CUSTOMER_NAMES: &str = "customers by name";
const CUSTOMER_ORDERS: &str = "orders by customer";

/// Why a row must be there.
pub(super) const NEVER_REMOVED: &str =
    "rows of this table are loaded for every key and never removed";

/// Rows of a commit while loading.
const ROWS_A_COMMIT: usize = 500;

impl Spaces {
    pub(super) fn create(db: &Db, index: IndexKind) -> Result<Self> {
        let options = KeyspaceOptions { index: Some(index) };
        let create = |name| db.create_keyspace_with(name, options);
        Ok(Self {
            tables: collect(Table::ALL.map(|table| create(table.name())))?,
            customer_names: create(CUSTOMER_NAMES)?,
            customer_orders: create(CUSTOMER_ORDERS)?,
        })
    }

    pub(super) fn open(db: &Db) -> Result<Self> {
        let tables = Table::ALL.map(|table| db.open_keyspace(table.name()));
        Ok(Self {
            tables: collect(tables)?,
            customer_names: db.open_keyspace(CUSTOMER_NAMES)?,
            customer_orders: db.open_keyspace(CUSTOMER_ORDERS)?,
        })
    }

    pub(super) fn table(&self, table: Table) -> &Keyspace {
        &self.tables[table as usize]
    }

    /// Loads the rows of clause 4.3.3.1; says how many payments are among them.
    pub(super) fn load(&self, db: &Db, size: &Size, seed: u64) -> Result<u64> {
        let mut payments = 0;
        let (mut batch, mut failed) = (db.batch(), Ok(()));
        let mut sink = |table: Table, row: &[u64]| {
            let key = match table {
                Table::History => payments,
                _ => primary_key(table, row),
            };
            payments += u64::from(table == Table::History);
            batch.put(self.table(table), &key_bytes(key), &encode(row));
            if let Some((space, key)) = self.other_keys(table, row) {
                batch.put(space, &key_bytes(key), b"");
            }
            if batch.len() >= ROWS_A_COMMIT {
                let full = std::mem::replace(&mut batch, db.batch());
                if let Err(error) = full.commit(Durability::None) {
                    failed = Err(error);
                }
            }
        };
        population::items(size, seed, &mut sink);
        (1..=size.warehouses).for_each(|w| population::warehouse(size, seed, w, &mut sink));
        failed?;
        batch.commit(Durability::None)?;
        db.sync()?;
        Ok(payments)
    }

    /// The entries of a row beside its own key.
    pub(super) fn other_keys(&self, table: Table, row: &[u64]) -> Option<(&Keyspace, u64)> {
        match table {
            Table::Customer => {
                let district = keys::district(row[customer::W_ID], row[customer::D_ID]);
                let name = keys::name(district, row[customer::NAME]);
                let key = keys::customer_of_name(name, row[customer::ID]);
                Some((&self.customer_names, key))
            }
            Table::Order => {
                let district = keys::district(row[order::W_ID], row[order::D_ID]);
                let customer = keys::customer(district, row[order::C_ID]);
                let key = keys::order_of_customer(customer, row[order::ID]);
                Some((&self.customer_orders, key))
            }
            _ => None,
        }
    }

    /// The key that the next payment may have.
    pub(super) fn next_payment(&self) -> Result<u64> {
        let last = nearest(
            self.table(Table::History),
            (0, u64::MAX),
            Direction::Reverse,
        )?;
        Ok(last.map_or(0, |last| last + 1))
    }

    /// Customers and orders less their entries in the other keyspaces.
    pub(super) fn unnamed_rows(&self) -> (i64, i64) {
        let len = |space: &Keyspace| space.len() as i64;
        (
            len(self.table(Table::Customer)) - len(&self.customer_names),
            len(self.table(Table::Order)) - len(&self.customer_orders),
        )
    }

    /// Visits all rows of a table.
    pub(super) fn for_each(&self, table: Table, visit: &mut dyn FnMut(&[u64])) -> Result<()> {
        self.table(table).scan(.., Direction::Forward, |_, row| {
            visit(&decode(row.value().unwrap_or_default()));
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// A row without a lock: for columns that never change, and for predictions.
    pub(super) fn read(&self, table: Table, key: u64) -> Result<Option<Vec<u64>>> {
        let read = self.table(table).read(&key_bytes(key), |row| {
            decode(row.value().unwrap_or_default())
        });
        Ok(read?)
    }

    /// The number of a customer of a district: of those with a last name the middle one by first
    /// name. Names never change.
    pub(super) fn customer(&self, district: u64, who: Who) -> Result<u64> {
        let name = match who {
            Who::Number(number) => return Ok(number),
            Who::Name(name) => keys::name(district, name),
        };
        let mut numbers = Vec::new();
        let (least, most) = (
            keys::customer_of_name(name, 0),
            keys::customer_of_name(name, keys::MOST_CUSTOMERS),
        );
        let range = key_bytes(least)..=key_bytes(most);
        self.customer_names
            .scan_keys(range, Direction::Forward, |key| {
                numbers.push(keys::last_customer(key_of(key)));
                ControlFlow::Continue(())
            })?;
        let mut by_name = Vec::with_capacity(numbers.len());
        for number in numbers {
            let row = self.read(Table::Customer, keys::customer(district, number))?;
            let row = row.expect(NEVER_REMOVED);
            by_name.push((customer::FIRST.decode(|at| row[at]), number));
        }
        by_name.sort_unstable();
        Ok(by_name[middle(by_name.len())].1)
    }
}

fn collect<const N: usize>(spaces: [hedgerow::Result<Keyspace>; N]) -> Result<Vec<Keyspace>> {
    let spaces = spaces.into_iter().map(|space| Ok(space?));
    spaces.collect()
}

/// The first or last key of a keyspace between two that it may be.
pub(super) fn nearest(
    space: &Keyspace,
    (least, most): (u64, u64),
    direction: Direction,
) -> Result<Option<u64>> {
    let mut found = None;
    let range = key_bytes(least)..=key_bytes(most);
    space.scan_up_to(range, direction, 1, |key, _| {
        found = Some(key_of(key));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The same within a transaction.
pub(super) fn nearest_within(
    tx: &Transaction<'_>,
    space: &Keyspace,
    (least, most): (u64, u64),
    direction: Direction,
) -> hedgerow::Result<Option<u64>> {
    let mut found = None;
    let range = key_bytes(least)..=key_bytes(most);
    tx.scan(space, range, direction, |key, _| {
        found = Some(key_of(key));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The key of a row, but for payments, which have none.
fn primary_key(table: Table, row: &[u64]) -> u64 {
    match table {
        Table::Warehouse => row[columns::warehouse::ID],
        Table::District => keys::district(row[district::W_ID], row[district::ID]),
        Table::Customer => {
            let district = keys::district(row[customer::W_ID], row[customer::D_ID]);
            keys::customer(district, row[customer::ID])
        }
        Table::History => unreachable!("payments are numbered"),
        Table::NewOrder => {
            let district = keys::district(row[new_order::W_ID], row[new_order::D_ID]);
            keys::order(district, row[new_order::O_ID])
        }
        Table::Order => {
            let district = keys::district(row[order::W_ID], row[order::D_ID]);
            keys::order(district, row[order::ID])
        }
        Table::OrderLine => {
            let district = keys::district(row[order_line::W_ID], row[order_line::D_ID]);
            let order = keys::order(district, row[order_line::O_ID]);
            keys::order_line(order, row[order_line::NUMBER])
        }
        Table::Item => row[columns::item::ID],
        Table::Stock => keys::stock(row[columns::stock::W_ID], row[columns::stock::I_ID]),
    }
}

pub(super) fn key_bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

fn key_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("all keys have eight bytes"))
}

fn encode(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(super) fn decode(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8).map(|word| word.try_into());
    words
        .map(|word| u64::from_le_bytes(word.expect("eight bytes")))
        .collect()
}

/// The keys that a transaction locks.
#[derive(Default)]
pub(super) struct LockList<'a>(Vec<(&'a Keyspace, [u8; 8])>);

impl<'a> LockList<'a> {
    pub(super) fn add(&mut self, space: &'a Keyspace, key: u64) {
        self.0.push((space, key_bytes(key)));
    }

    /// Runs a transaction that has them.
    pub(super) fn transact<R>(
        &self,
        db: &Db,
        options: &WriteOptions,
        run: impl FnOnce(&mut Transaction<'_>) -> hedgerow::Result<R>,
    ) -> Result<R> {
        let keys: Vec<(&Keyspace, &[u8])> = self
            .0
            .iter()
            .map(|(space, key)| (*space, key.as_slice()))
            .collect();
        Ok(db.transact(Locks::Keys(&keys), options, run)?.0)
    }
}

/// The row under a key that must be there.
pub(super) fn get(tx: &Transaction<'_>, space: &Keyspace, key: u64) -> hedgerow::Result<Vec<u64>> {
    let row = tx.get(space, &key_bytes(key))?;
    Ok(decode(&row.expect(NEVER_REMOVED)))
}

/// Stores a row.
pub(super) fn put(
    tx: &mut Transaction<'_>,
    space: &Keyspace,
    key: u64,
    row: &[u64],
) -> hedgerow::Result<()> {
    tx.put(space, &key_bytes(key), &encode(row))
}
