//! The delivery transaction (clause 2.7.4.2): the oldest new order of each district of a warehouse,
//! all in one transaction.

use super::super::columns::{Table, customer, order, order_line};
use super::super::input::Delivery;
use super::super::keys;
use super::super::size::DISTRICTS;
use super::schema::{
    CUSTOMER, NEW_ORDER, ORDER, ORDER_LINES, UNDELIVERED, index_keys, undelivered, write,
};
use crate::session::{Session, Step};

/// Delivers; says how many orders.
pub(super) fn run(tx: &mut Session<'_>, input: &Delivery, date: u64) -> Step<u64> {
    let mut delivered = 0;
    for d in 1..=DISTRICTS {
        let district = keys::district(input.warehouse, d);
        delivered += u64::from(deliver(
            tx,
            (input.warehouse, d),
            district,
            input.carrier,
            date,
        )?);
    }
    Ok(delivered)
}

/// Delivers the oldest new order of a district, if there is one.
fn deliver(
    tx: &mut Session<'_>,
    (w, d): (u64, u64),
    district: u64,
    carrier: u64,
    date: u64,
) -> Step<bool> {
    let oldest = write(tx, UNDELIVERED, district)?;
    let o = oldest.word(undelivered::O_ID);
    let key = keys::order(district, o);
    let Some(at) = tx.find(NEW_ORDER.0, key) else {
        return Ok(false);
    };
    let new = tx.write(NEW_ORDER.1, at)?;
    tx.remove(NEW_ORDER.1, new, &index_keys(Table::NewOrder, &[o, d, w]));
    tx.set(oldest, undelivered::O_ID, o + 1);
    let order = write(tx, ORDER, key)?;
    tx.set(order, order::CARRIER_ID, carrier);
    let mut amount = 0;
    for at in tx.find_all(ORDER_LINES.0, key) {
        let line = tx.write(ORDER_LINES.1, at)?;
        tx.set(line, order_line::DELIVERY_D, date);
        amount += line.word(order_line::AMOUNT);
    }
    let key = keys::customer(district, order.word(order::C_ID));
    let customer = write(tx, CUSTOMER, key)?;
    let balance = customer.word(customer::BALANCE).wrapping_add(amount);
    tx.set(customer, customer::BALANCE, balance);
    let count = customer.word(customer::DELIVERY_CNT) + 1;
    tx.set(customer, customer::DELIVERY_CNT, count);
    Ok(true)
}
