//! The new-order transaction (clause 2.4.2.2).

use super::super::columns::{
    Table, customer, district, item, new_order, order, order_line, stock, stock_dist, warehouse,
};
use super::super::input::{Line, NewOrder};
use super::super::keys;
use super::super::restock::restocked;
use super::schema::{CUSTOMER, DISTRICT, ITEM, STOCK, WAREHOUSE, insert, read, write};
use crate::session::{Session, Step};

/// Orders items; rolls back if one does not exist.
pub(super) fn run(tx: &mut Session<'_>, input: &NewOrder, date: u64) -> Step<bool> {
    let key = keys::district(input.warehouse, input.district);
    let tax = read(tx, WAREHOUSE, input.warehouse)?.word(warehouse::TAX);
    let customer = read(tx, CUSTOMER, keys::customer(key, input.customer))?;
    let district = write(tx, DISTRICT, key)?;
    let o = district.word(district::NEXT_O_ID);
    tx.set(district, district::NEXT_O_ID, o + 1);
    let mut row = [0; order::WORDS];
    row[order::ID] = o;
    (row[order::D_ID], row[order::W_ID]) = (input.district, input.warehouse);
    row[order::C_ID] = input.customer;
    row[order::ENTRY_D] = date;
    row[order::OL_CNT] = input.lines.len() as u64;
    let is_local = |line: &Line| line.supply_warehouse == input.warehouse;
    row[order::ALL_LOCAL] = u64::from(input.lines.iter().all(is_local));
    insert(tx, Table::Order, &row);
    let mut row = [0; new_order::WORDS];
    row[new_order::O_ID] = o;
    (row[new_order::D_ID], row[new_order::W_ID]) = (input.district, input.warehouse);
    insert(tx, Table::NewOrder, &row);
    let mut total = 0;
    for (number, line) in (1..).zip(&input.lines) {
        let Some(at) = tx.find(ITEM.0, line.item) else {
            return Ok(false);
        };
        let amount = tx.read(ITEM.1, at)?.word(item::PRICE) * line.quantity;
        order_one(tx, input, (o, number, line), amount)?;
        total += amount;
    }
    // What the terminal would show.
    let taxes = 10_000 + tax + district.word(district::TAX);
    let rest = 10_000 - customer.word(customer::DISCOUNT);
    std::hint::black_box(total * taxes * rest);
    Ok(true)
}

/// Takes one line's items from the stock.
fn order_one(
    tx: &mut Session<'_>,
    input: &NewOrder,
    (o, number, line): (u64, u64, &Line),
    amount: u64,
) -> Step<()> {
    let stock = write(tx, STOCK, keys::stock(line.supply_warehouse, line.item))?;
    let quantity = restocked(stock.word(stock::QUANTITY), line.quantity);
    tx.set(stock, stock::QUANTITY, quantity);
    tx.set(stock, stock::YTD, stock.word(stock::YTD) + line.quantity);
    tx.set(stock, stock::ORDER_CNT, stock.word(stock::ORDER_CNT) + 1);
    if line.supply_warehouse != input.warehouse {
        tx.set(stock, stock::REMOTE_CNT, stock.word(stock::REMOTE_CNT) + 1);
    }
    let mut row = [0; order_line::WORDS];
    row[order_line::O_ID] = o;
    (row[order_line::D_ID], row[order_line::W_ID]) = (input.district, input.warehouse);
    row[order_line::NUMBER] = number;
    row[order_line::I_ID] = line.item;
    row[order_line::SUPPLY_W_ID] = line.supply_warehouse;
    row[order_line::QUANTITY] = line.quantity;
    row[order_line::AMOUNT] = amount;
    let info = stock_dist(input.district);
    for (to, from) in (order_line::DIST_INFO.at..).zip(info.at..info.at + info.words()) {
        row[to] = stock.word(from);
    }
    insert(tx, Table::OrderLine, &row);
    Ok(())
}
