//! Keys of rows: integers, whose order is that of their parts.
//!
//! ```text
//!   district │ warehouse: 16 │ district: 4 │         stock  │ warehouse │ item: 20 │
//!   customer │ district │ customer: 16 │            name   │ district │ name: 10 │
//!   order    │ district │ order: 28 │
//! ```

const DISTRICT_BITS: u32 = 4;
const CUSTOMER_BITS: u32 = 16;
const NAME_BITS: u32 = 10;
const ORDER_BITS: u32 = 28;
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

pub(crate) fn order(district: u64, order: u64) -> u64 {
    join(district, order, ORDER_BITS)
}

pub(crate) fn stock(warehouse: u64, item: u64) -> u64 {
    join(warehouse, item, ITEM_BITS)
}

/// The most of each part.
pub(crate) const MOST_WAREHOUSES: u64 = (1 << 16) - 1;
pub(crate) const MOST_CUSTOMERS: u64 = (1 << CUSTOMER_BITS) - 1;
pub(crate) const MOST_ITEMS: u64 = (1 << ITEM_BITS) - 2;
const _: () = assert!(16 + DISTRICT_BITS + CUSTOMER_BITS + ORDER_BITS == u64::BITS);
