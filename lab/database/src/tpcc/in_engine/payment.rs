//! The payment transaction (clause 2.5.2.2). Its keys depend on nothing that changes.

use hedgerow::WriteOptions;

use super::super::columns::{Table, customer, district, history, warehouse};
use super::super::input::Payment;
use super::super::keys;
use super::super::restock::data_of_bad_credit;
use super::engine_database::EngineDatabase;
use super::spaces::{LockList, get, put};
use crate::error::Result;

/// Takes a customer's money.
pub(super) fn run(
    database: &EngineDatabase,
    input: &Payment,
    options: &WriteOptions,
    date: u64,
) -> Result<()> {
    let spaces = &database.spaces;
    let district = keys::district(input.warehouse, input.district);
    let of = keys::district(input.customer_warehouse, input.customer_district);
    let number = spaces.customer(of, input.who)?;
    let (customer, payment) = (keys::customer(of, number), database.next_payment());
    let table = |table| spaces.table(table);
    let mut locks = LockList::default();
    locks.add(table(Table::Warehouse), input.warehouse);
    locks.add(table(Table::District), district);
    locks.add(table(Table::Customer), customer);
    locks.add(table(Table::History), payment);
    locks.transact(&database.db, options, |tx| {
        let mut warehouse_row = get(tx, table(Table::Warehouse), input.warehouse)?;
        warehouse_row[warehouse::YTD] += input.amount;
        put(tx, table(Table::Warehouse), input.warehouse, &warehouse_row)?;
        let mut district_row = get(tx, table(Table::District), district)?;
        district_row[district::YTD] += input.amount;
        put(tx, table(Table::District), district, &district_row)?;
        let mut row = get(tx, table(Table::Customer), customer)?;
        pay(&mut row, input);
        put(tx, table(Table::Customer), customer, &row)?;
        let mut row = [0; history::WORDS];
        row[history::C_ID] = number;
        row[history::C_D_ID] = input.customer_district;
        row[history::C_W_ID] = input.customer_warehouse;
        (row[history::D_ID], row[history::W_ID]) = (input.district, input.warehouse);
        row[history::DATE] = date;
        row[history::AMOUNT] = input.amount;
        let mut names = warehouse::NAME.decode(|at| warehouse_row[at]);
        names.extend(b"    ");
        names.extend(district::NAME.decode(|at| district_row[at]));
        history::DATA.store(&mut row, &names);
        put(tx, table(Table::History), payment, &row)
    })
}

fn pay(customer: &mut [u64], input: &Payment) {
    customer[customer::BALANCE] = customer[customer::BALANCE].wrapping_sub(input.amount);
    customer[customer::YTD_PAYMENT] += input.amount;
    customer[customer::PAYMENT_CNT] += 1;
    if customer[customer::BAD_CREDIT] == 1 {
        let data = customer::DATA.decode(|at| customer[at]);
        let data = data_of_bad_credit(input, customer[customer::ID], &data);
        customer::DATA.store(customer, &data);
    }
}
