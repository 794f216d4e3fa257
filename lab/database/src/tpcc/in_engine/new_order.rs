//! The new-order transaction (clause 2.4.2.2). It predicts the number of the order.
//!
//! It locks its customer although it changes nothing there: as long as another has that lock, no
//! order of the customer commits.

use hedgerow::{Transaction, WriteOptions};

use super::super::columns::{
    Table, customer, district, item, new_order, order, order_line, stock, stock_dist, warehouse,
};
use super::super::input::{Line, NewOrder};
use super::super::keys;
use super::super::restock::restocked;
use super::engine_database::{EngineDatabase, Try};
use super::spaces::{LockList, NEVER_REMOVED, Spaces, get, put};
use crate::error::Result;

/// Orders items; says whether it committed: it rolls back if an item does not exist.
pub(super) fn run(
    database: &EngineDatabase,
    input: &NewOrder,
    options: &WriteOptions,
    date: u64,
) -> Result<Try<bool>> {
    let spaces = &database.spaces;
    let district = keys::district(input.warehouse, input.district);
    let read = |table, key| Ok::<_, crate::Error>(spaces.read(table, key)?.expect(NEVER_REMOVED));
    let tax = read(Table::Warehouse, input.warehouse)?[warehouse::TAX];
    let o = read(Table::District, district)?[district::NEXT_O_ID];
    attempt(database, (input, tax, o), options, date)
}

/// The same if the district's next order is `o`.
pub(super) fn attempt(
    database: &EngineDatabase,
    (input, tax, o): (&NewOrder, u64, u64),
    options: &WriteOptions,
    date: u64,
) -> Result<Try<bool>> {
    let spaces = &database.spaces;
    let district = keys::district(input.warehouse, input.district);
    let locks = locks(spaces, input, district, o);
    locks.transact(&database.db, options, |tx| {
        let districts = spaces.table(Table::District);
        let mut row = get(tx, districts, district)?;
        if row[district::NEXT_O_ID] != o {
            tx.rollback();
            return Ok(Try::Again);
        }
        row[district::NEXT_O_ID] += 1;
        put(tx, districts, district, &row)?;
        let customer = keys::customer(district, input.customer);
        let customer = get(tx, spaces.table(Table::Customer), customer)?;
        put_order(tx, spaces, input, (district, o), date)?;
        let mut total = 0;
        for (number, line) in (1..).zip(&input.lines) {
            let Some(amount) = order_one(tx, spaces, input, (o, number, line))? else {
                tx.rollback();
                return Ok(Try::Done(false));
            };
            total += amount;
        }
        // What the terminal would show.
        let taxes = 10_000 + tax + row[district::TAX];
        std::hint::black_box(total * taxes * (10_000 - customer[customer::DISCOUNT]));
        Ok(Try::Done(true))
    })
}

fn locks<'a>(spaces: &'a Spaces, input: &NewOrder, district: u64, o: u64) -> LockList<'a> {
    let mut locks = LockList::default();
    let customer = keys::customer(district, input.customer);
    let order = keys::order(district, o);
    locks.add(spaces.table(Table::District), district);
    locks.add(spaces.table(Table::Customer), customer);
    locks.add(spaces.table(Table::Order), order);
    locks.add(spaces.table(Table::NewOrder), order);
    locks.add(
        &spaces.customer_orders,
        keys::order_of_customer(customer, o),
    );
    for (number, line) in (1..).zip(&input.lines) {
        locks.add(
            spaces.table(Table::OrderLine),
            keys::order_line(order, number),
        );
        let stock = keys::stock(line.supply_warehouse, line.item);
        locks.add(spaces.table(Table::Stock), stock);
    }
    locks
}

/// The order, and that it is new.
fn put_order(
    tx: &mut Transaction<'_>,
    spaces: &Spaces,
    input: &NewOrder,
    (district, o): (u64, u64),
    date: u64,
) -> hedgerow::Result<()> {
    let key = keys::order(district, o);
    let mut row = [0; order::WORDS];
    row[order::ID] = o;
    (row[order::D_ID], row[order::W_ID]) = (input.district, input.warehouse);
    row[order::C_ID] = input.customer;
    row[order::ENTRY_D] = date;
    row[order::OL_CNT] = input.lines.len() as u64;
    let is_local = |line: &Line| line.supply_warehouse == input.warehouse;
    row[order::ALL_LOCAL] = u64::from(input.lines.iter().all(is_local));
    put(tx, spaces.table(Table::Order), key, &row)?;
    if let Some((space, key)) = spaces.other_keys(Table::Order, &row) {
        put(tx, space, key, &[])?;
    }
    let mut row = [0; new_order::WORDS];
    row[new_order::O_ID] = o;
    (row[new_order::D_ID], row[new_order::W_ID]) = (input.district, input.warehouse);
    put(tx, spaces.table(Table::NewOrder), key, &row)
}

/// Takes one line's items from the stock; returns what they cost, if the item exists.
fn order_one(
    tx: &mut Transaction<'_>,
    spaces: &Spaces,
    input: &NewOrder,
    (o, number, line): (u64, u64, &Line),
) -> hedgerow::Result<Option<u64>> {
    let item = tx.get(spaces.table(Table::Item), &line.item.to_be_bytes())?;
    let Some(item) = item.map(|item| super::spaces::decode(&item)) else {
        return Ok(None);
    };
    let amount = item[item::PRICE] * line.quantity;
    let (stocks, key) = (
        spaces.table(Table::Stock),
        keys::stock(line.supply_warehouse, line.item),
    );
    let mut stock = get(tx, stocks, key)?;
    stock[stock::QUANTITY] = restocked(stock[stock::QUANTITY], line.quantity);
    stock[stock::YTD] += line.quantity;
    stock[stock::ORDER_CNT] += 1;
    stock[stock::REMOTE_CNT] += u64::from(line.supply_warehouse != input.warehouse);
    put(tx, stocks, key, &stock)?;
    let mut row = [0; order_line::WORDS];
    row[order_line::O_ID] = o;
    (row[order_line::D_ID], row[order_line::W_ID]) = (input.district, input.warehouse);
    row[order_line::NUMBER] = number;
    row[order_line::I_ID] = line.item;
    row[order_line::SUPPLY_W_ID] = line.supply_warehouse;
    row[order_line::QUANTITY] = line.quantity;
    row[order_line::AMOUNT] = amount;
    let info = stock_dist(input.district);
    let to = order_line::DIST_INFO.at;
    row[to..to + info.words()].copy_from_slice(&stock[info.at..info.at + info.words()]);
    let order = keys::order(keys::district(input.warehouse, input.district), o);
    put(
        tx,
        spaces.table(Table::OrderLine),
        keys::order_line(order, number),
        &row,
    )?;
    Ok(Some(amount))
}
