//! The delivery transaction (clause 2.7.4.2): one transaction of the engine for each district, as
//! the clause allows. It predicts which new order is the oldest; another delivery may be faster.

use hedgerow::{Direction, WriteOptions};

use super::super::columns::{Table, customer, order, order_line};
use super::super::input::Delivery;
use super::super::keys;
use super::engine_database::{EngineDatabase, Try};
use super::spaces::{LockList, get, key_bytes, nearest, put};
use crate::error::Result;

/// Delivers the oldest new order of a district; says whether there was one.
pub(super) fn run(
    database: &EngineDatabase,
    (input, d): (&Delivery, u64),
    options: &WriteOptions,
    date: u64,
) -> Result<Try<bool>> {
    let table = database.spaces.table(Table::NewOrder);
    let district = keys::district(input.warehouse, d);
    let orders = (
        keys::order(district, 0),
        keys::order(district, keys::MOST_ORDERS),
    );
    match nearest(table, orders, Direction::Forward)? {
        Some(order) => attempt(database, (input, district, order), options, date),
        None => Ok(Try::Done(false)),
    }
}

/// Delivers an order if it is still new.
pub(super) fn attempt(
    database: &EngineDatabase,
    (input, district, order): (&Delivery, u64, u64),
    options: &WriteOptions,
    date: u64,
) -> Result<Try<bool>> {
    let spaces = &database.spaces;
    let table = |table| spaces.table(table);
    // Customer and number of lines never change. Of an order about to commit the row may be absent.
    let Some(row) = spaces.read(Table::Order, order)? else {
        return Ok(Try::Again);
    };
    let customer = keys::customer(district, row[order::C_ID]);
    let lines: Vec<u64> = (1..=row[order::OL_CNT])
        .map(|n| keys::order_line(order, n))
        .collect();
    let mut locks = LockList::default();
    locks.add(table(Table::NewOrder), order);
    locks.add(table(Table::Order), order);
    locks.add(table(Table::Customer), customer);
    lines
        .iter()
        .for_each(|line| locks.add(table(Table::OrderLine), *line));
    locks.transact(&database.db, options, |tx| {
        if !tx.remove(table(Table::NewOrder), &key_bytes(order))? {
            tx.rollback();
            return Ok(Try::Again);
        }
        let mut row = get(tx, table(Table::Order), order)?;
        row[order::CARRIER_ID] = input.carrier;
        put(tx, table(Table::Order), order, &row)?;
        let mut amount = 0;
        for key in &lines {
            let mut line = get(tx, table(Table::OrderLine), *key)?;
            line[order_line::DELIVERY_D] = date;
            amount += line[order_line::AMOUNT];
            put(tx, table(Table::OrderLine), *key, &line)?;
        }
        let mut row = get(tx, table(Table::Customer), customer)?;
        row[customer::BALANCE] = row[customer::BALANCE].wrapping_add(amount);
        row[customer::DELIVERY_CNT] += 1;
        put(tx, table(Table::Customer), customer, &row)?;
        Ok(Try::Done(true))
    })
}
