//! The order-status transaction (clause 2.6.2.2).

use super::super::answers::Status;
use super::super::columns::{customer, order, order_line};
use super::super::input::OrderStatus;
use super::super::keys;
use super::payment::find_customer;
use super::schema::{CUSTOMER, CUSTOMER_ORDERS, ORDER_LINES};
use crate::session::{Session, Step};

/// Reads a customer's newest order.
pub(super) fn run(tx: &mut Session<'_>, input: &OrderStatus) -> Step<Status> {
    let district = keys::district(input.warehouse, input.district);
    let at = find_customer(tx, district, input.who);
    let customer = tx.read(CUSTOMER.1, at)?;
    let mut status = Status {
        customer: customer.word(customer::ID),
        balance: customer.word(customer::BALANCE) as i64,
        ..Status::default()
    };
    let key = keys::customer(district, status.customer);
    if let Some(at) = tx.find(CUSTOMER_ORDERS.0, key) {
        let order = tx.read(CUSTOMER_ORDERS.1, at)?;
        status.order = order.word(order::ID);
        let lines = tx.find_all(ORDER_LINES.0, keys::order(district, status.order));
        debug_assert_eq!(lines.len() as u64, order.word(order::OL_CNT));
        status.lines = lines.len() as u64;
        for at in lines {
            let line = tx.read(ORDER_LINES.1, at)?;
            status.amount += line.word(order_line::AMOUNT);
        }
    }
    Ok(status)
}
