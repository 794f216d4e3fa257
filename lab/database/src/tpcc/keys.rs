//! Keys of rows: integers, whose order is that of their parts.
//!
//! ```text
//!   district   │ warehouse: 16 │ district: 4 │
//!   customer   │ district │ customer: 16 │      … by name     │ district │ name: 10 │ customer: 16 │
//!   order      │ district │ order: 28 │         … of customer │ customer │ order: 28 │
//!   order line │ order │ number: 4 │            stock         │ warehouse │ item: 20 │
//! ```

const DISTRICT_BITS: u32 = 4;
const CUSTOMER_BITS: u32 = 16;
const NAME_BITS: u32 = 10;
const ORDER_BITS: u32 = 28;
const NUMBER_BITS: u32 = 4;
const ITEM_BITS: u32 = 20;

fn join(high: u64, low: u64, bits: u32) -> u64 {
    debug_assert!(low >> bits == 0, "{low} has more than {bits} bits");
    high << bits | low
}

pub(crate) fn district(warehouse: u64, district: u64) -> u64 {
    join(warehouse, district, DISTRICT_BITS)
}

pub(crate) fn customer(district: u64, customer: u64) -> u64 {
    join(district, customer, CUSTOMER_BITS)
}

pub(crate) fn name(district: u64, name: u64) -> u64 {
    join(district, name, NAME_BITS)
}

pub(crate) fn customer_of_name(name: u64, customer: u64) -> u64 {
    join(name, customer, CUSTOMER_BITS)
}

pub(crate) fn order(district: u64, order: u64) -> u64 {
    join(district, order, ORDER_BITS)
}

pub(crate) fn order_of_customer(customer: u64, order: u64) -> u64 {
    join(customer, order, ORDER_BITS)
}

pub(crate) fn order_line(order: u64, number: u64) -> u64 {
    join(order, number, NUMBER_BITS)
}

pub(crate) fn stock(warehouse: u64, item: u64) -> u64 {
    join(warehouse, item, ITEM_BITS)
}

/// The last part of a key of [`customer_of_name`].
pub(crate) fn last_customer(key: u64) -> u64 {
    key & ((1 << CUSTOMER_BITS) - 1)
}

/// The last part of a key of [`order`] or [`order_of_customer`].
pub(crate) fn last_order(key: u64) -> u64 {
    key & ((1 << ORDER_BITS) - 1)
}

/// The most of each part.
pub(crate) const MOST_WAREHOUSES: u64 = (1 << 16) - 1;
pub(crate) const MOST_CUSTOMERS: u64 = (1 << CUSTOMER_BITS) - 1;
pub(crate) const MOST_ITEMS: u64 = (1 << ITEM_BITS) - 2;
/// Of a district.
pub(crate) const MOST_ORDERS: u64 = (1 << ORDER_BITS) - 1;

const _: () = assert!(16 + DISTRICT_BITS + CUSTOMER_BITS + ORDER_BITS == u64::BITS);
