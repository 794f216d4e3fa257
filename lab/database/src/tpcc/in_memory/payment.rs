//! The payment transaction (clause 2.5.2.2), and how it finds its customer.

use super::super::columns::{Table, customer, district, history, warehouse};
use super::super::input::{Payment, Who};
use super::super::keys;
use super::super::restock::{data_of_bad_credit, middle};
use super::schema::{CUSTOMER, CUSTOMER_NAME, DISTRICT, WAREHOUSE, insert, write};
use crate::row::RowAt;
use crate::session::{Session, Step, Writable};

/// Takes a customer's money.
pub(super) fn run(tx: &mut Session<'_>, input: &Payment, date: u64) -> Step<bool> {
    let warehouse = write(tx, WAREHOUSE, input.warehouse)?;
    add(tx, warehouse, warehouse::YTD, input.amount);
    let district = write(
        tx,
        DISTRICT,
        keys::district(input.warehouse, input.district),
    )?;
    add(tx, district, district::YTD, input.amount);
    let of = keys::district(input.customer_warehouse, input.customer_district);
    let at = find_customer(tx, of, input.who);
    let customer = tx.write(CUSTOMER.1, at)?;
    add(tx, customer, customer::BALANCE, input.amount.wrapping_neg());
    add(tx, customer, customer::YTD_PAYMENT, input.amount);
    add(tx, customer, customer::PAYMENT_CNT, 1);
    let id = customer.word(customer::ID);
    if customer.word(customer::BAD_CREDIT) == 1 {
        let data = customer::DATA.decode(|at| customer.word(at));
        let data = data_of_bad_credit(input, id, &data);
        for (at, word) in (customer::DATA.at..).zip(customer::DATA.encode(&data)) {
            tx.set(customer, at, word);
        }
    }
    let mut row = [0; history::WORDS];
    row[history::C_ID] = id;
    row[history::C_D_ID] = input.customer_district;
    row[history::C_W_ID] = input.customer_warehouse;
    (row[history::D_ID], row[history::W_ID]) = (input.district, input.warehouse);
    row[history::DATE] = date;
    row[history::AMOUNT] = input.amount;
    let mut names = warehouse::NAME.decode(|at| warehouse.word(at));
    names.extend(b"    ");
    names.extend(district::NAME.decode(|at| district.word(at)));
    history::DATA.store(&mut row, &names);
    insert(tx, Table::History, &row);
    Ok(true)
}

fn add<'db>(tx: &mut Session<'db>, row: Writable<'db>, column: usize, by: u64) {
    tx.set(row, column, row.word(column).wrapping_add(by));
}

/// A customer of a district. Of those with a last name it is the middle one by first name; names
/// never change, so no lock is needed to compare them.
pub(super) fn find_customer(tx: &mut Session<'_>, district: u64, who: Who) -> RowAt {
    let number = match who {
        Who::Number(number) => number,
        Who::Name(name) => {
            let found = tx.find_all(CUSTOMER_NAME.0, keys::name(district, name));
            let mut by_name: Vec<(Vec<u8>, RowAt)> = found
                .into_iter()
                .map(|at| {
                    let row = tx.peek(CUSTOMER.1, at);
                    (customer::FIRST.decode(|at| row.word(at)), at)
                })
                .collect();
            by_name.sort_by(|one, other| one.0.cmp(&other.0));
            let middle = middle(by_name.len());
            return by_name.swap_remove(middle).1;
        }
    };
    let found = tx.find(CUSTOMER.0, keys::customer(district, number));
    found.expect("customers are loaded for every number and never removed")
}
