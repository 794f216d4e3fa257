//! The stock-level transaction (clause 2.8.2.2).

use super::super::columns::{district, order_line, stock};
use super::super::input::StockLevel;
use super::super::keys;
use super::schema::{DISTRICT, ORDER_LINES, STOCK, read};
use crate::session::{Session, Step};

/// Counts the items of a district's last twenty orders that run low.
pub(super) fn run(tx: &mut Session<'_>, input: &StockLevel) -> Step<u64> {
    let district = keys::district(input.warehouse, input.district);
    let next = read(tx, DISTRICT, district)?.word(district::NEXT_O_ID);
    let mut items = Vec::new();
    for o in next.saturating_sub(20)..next {
        for at in tx.find_all(ORDER_LINES.0, keys::order(district, o)) {
            items.push(tx.read(ORDER_LINES.1, at)?.word(order_line::I_ID));
        }
    }
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        let stock = read(tx, STOCK, keys::stock(input.warehouse, item))?;
        low += u64::from(stock.word(stock::QUANTITY) < input.threshold);
    }
    Ok(low)
}
