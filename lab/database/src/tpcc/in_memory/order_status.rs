//! The order-status transaction (clause 2.6.2.2).

use super::super::columns::{customer, order, order_line};
use super::super::input::OrderStatus;
use super::super::keys;
use super::payment::find_customer;
use super::schema::{CUSTOMER, CUSTOMER_ORDERS, ORDER_LINES};
use crate::session::{Session, Step};

/// Reads a customer's newest order.
pub(super) fn run(tx: &mut Session<'_>, input: &OrderStatus) -> Step<bool> {
    let district = keys::district(input.warehouse, input.district);
    let at = find_customer(tx, district, input.who);
    let customer = tx.read(CUSTOMER.1, at)?;
    let mut sum = customer.word(customer::BALANCE);
    let key = keys::customer(district, customer.word(customer::ID));
    if let Some(at) = tx.find(CUSTOMER_ORDERS.0, key) {
        let order = tx.read(CUSTOMER_ORDERS.1, at)?;
        let lines = tx.find_all(ORDER_LINES.0, keys::order(district, order.word(order::ID)));
        debug_assert_eq!(lines.len() as u64, order.word(order::OL_CNT));
        for at in lines {
            let line = tx.read(ORDER_LINES.1, at)?;
            sum = sum.wrapping_add(line.word(order_line::AMOUNT));
        }
    }
    std::hint::black_box(sum);
    Ok(true)
}
