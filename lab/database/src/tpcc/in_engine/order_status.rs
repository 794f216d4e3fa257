//! The order-status transaction (clause 2.6.2.2). It predicts which order of the customer is the
//! newest: as long as it has the customer's lock, no other commits.

use hedgerow::{Direction, WriteOptions};

use super::super::answers::Status;
use super::super::columns::{Table, customer, order, order_line};
use super::super::input::OrderStatus;
use super::super::keys;
use super::engine_database::{EngineDatabase, Try};
use super::spaces::{LockList, get, nearest, nearest_within};
use crate::error::Result;

/// Reads a customer's newest order.
pub(super) fn run(
    database: &EngineDatabase,
    input: &OrderStatus,
    options: &WriteOptions,
) -> Result<Try<Status>> {
    let spaces = &database.spaces;
    let district = keys::district(input.warehouse, input.district);
    let customer = keys::customer(district, spaces.customer(district, input.who)?);
    let newest = nearest(
        &spaces.customer_orders,
        orders(customer),
        Direction::Reverse,
    )?;
    attempt(database, (district, customer), newest, options)
}

fn orders(customer: u64) -> (u64, u64) {
    let first = keys::order_of_customer(customer, 0);
    (first, keys::order_of_customer(customer, keys::MOST_ORDERS))
}

/// Reads a customer's order if it is the newest one.
pub(super) fn attempt(
    database: &EngineDatabase,
    (district, customer): (u64, u64),
    predicted: Option<u64>,
    options: &WriteOptions,
) -> Result<Try<Status>> {
    let spaces = &database.spaces;
    let mut locks = LockList::default();
    locks.add(spaces.table(Table::Customer), customer);
    let mut lines = Vec::new();
    if let Some(key) = predicted {
        let order = keys::order(district, keys::last_order(key));
        // How many lines an order has never changes; of one about to commit, the row may be absent.
        let Some(row) = spaces.read(Table::Order, order)? else {
            return Ok(Try::Again);
        };
        locks.add(spaces.table(Table::Order), order);
        lines.extend((1..=row[order::OL_CNT]).map(|number| keys::order_line(order, number)));
        let space = spaces.table(Table::OrderLine);
        lines.iter().for_each(|line| locks.add(space, *line));
    }
    locks.transact(&database.db, options, |tx| {
        let orders = orders(customer);
        let newest = nearest_within(tx, &spaces.customer_orders, orders, Direction::Reverse)?;
        if newest != predicted {
            return Ok(Try::Again);
        }
        let customer = get(tx, spaces.table(Table::Customer), customer)?;
        let mut status = Status {
            customer: customer[customer::ID],
            balance: customer[customer::BALANCE] as i64,
            order: predicted.map_or(0, keys::last_order),
            lines: lines.len() as u64,
            amount: 0,
        };
        for line in &lines {
            let line = get(tx, spaces.table(Table::OrderLine), *line)?;
            status.amount += line[order_line::AMOUNT];
        }
        Ok(Try::Done(status))
    })
}
