//! The stock-level transaction (clause 2.8.2.2), which may read what is committed without locks
//! (clause 2.8.2.3).

use std::ops::ControlFlow;

use hedgerow::Direction;

use super::super::columns::{Table, district, order_line, stock};
use super::super::input::StockLevel;
use super::super::keys;
use super::engine_database::EngineDatabase;
use super::spaces::{NEVER_REMOVED, decode, key_bytes};
use crate::error::Result;

/// Counts the items of a district's last twenty orders that run low.
pub(super) fn run(database: &EngineDatabase, input: &StockLevel) -> Result<u64> {
    let spaces = &database.spaces;
    let district = keys::district(input.warehouse, input.district);
    let row = spaces
        .read(Table::District, district)?
        .expect(NEVER_REMOVED);
    let next = row[district::NEXT_O_ID];
    let first_line = |o| keys::order_line(keys::order(district, o), 0);
    let (from, to) = (first_line(next.saturating_sub(20)), first_line(next));
    let mut items = Vec::new();
    let lines = key_bytes(from)..key_bytes(to);
    spaces
        .table(Table::OrderLine)
        .scan(lines, Direction::Forward, |_, row| {
            items.push(decode(row.value().unwrap_or_default())[order_line::I_ID]);
            ControlFlow::Continue(())
        })?;
    items.sort_unstable();
    items.dedup();
    let keys: Vec<[u8; 8]> = items
        .iter()
        .map(|item| key_bytes(keys::stock(input.warehouse, *item)))
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let mut low = 0;
    spaces.table(Table::Stock).get_many(&keys, |_, row| {
        let stock = row.map(|row| decode(row.value().unwrap_or_default()));
        low += u64::from(stock.is_some_and(|stock| stock[stock::QUANTITY] < input.threshold));
    })?;
    Ok(low)
}
