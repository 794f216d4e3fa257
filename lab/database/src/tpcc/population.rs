//! The rows that a database begins with (clause 4.3.3.1).

use super::columns::{
    Table, Text, customer, district, history, item, new_order, order, order_line, stock,
    stock_dist, warehouse,
};
use super::draws::{Draws, last_name};
use super::size::{DISTRICTS, Size};

/// What receives the rows of a table.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Table, &[u64]);

/// The date of rows that are there from the start.
const DATE: u64 = 1;

/// The items, the same for all warehouses.
pub(crate) fn items(size: &Size, seed: u64, sink: Sink<'_>) {
    let mut draws = Draws::new(seed, 0);
    let mut row = vec![0; item::WORDS];
    for id in 1..=size.items {
        row[item::ID] = id;
        row[item::IM_ID] = draws.within(1..=10_000);
        row[item::PRICE] = draws.within(100..=10_000);
        item::NAME.store(&mut row, &draws.text(14..=24));
        item::DATA.store(&mut row, &draws.data());
        sink(Table::Item, &row);
    }
}

/// All that a warehouse has.
pub(crate) fn warehouse(size: &Size, seed: u64, w: u64, sink: Sink<'_>) {
    let mut draws = Draws::new(seed, w);
    let mut row = vec![0; warehouse::WORDS];
    row[warehouse::ID] = w;
    row[warehouse::TAX] = draws.within(0..=2000);
    row[warehouse::YTD] = DISTRICTS * size.district_ytd();
    warehouse::NAME.store(&mut row, &draws.text(6..=10));
    let address = [warehouse::STREET_1, warehouse::STREET_2, warehouse::CITY];
    store_address(
        &mut row,
        &mut draws,
        address,
        (warehouse::STATE, warehouse::ZIP),
    );
    sink(Table::Warehouse, &row);
    for i in 1..=size.items {
        sink(Table::Stock, &stock_row(&mut draws, w, i));
    }
    for d in 1..=DISTRICTS {
        sink(Table::District, &district_row(size, &mut draws, w, d));
        for c in 1..=size.customers {
            sink(Table::Customer, &customer_row(&mut draws, (w, d, c)));
            sink(Table::History, &history_row(&mut draws, (w, d, c)));
        }
        let customers = draws.permutation(size.customers);
        for (o, c) in (1..).zip(customers) {
            orders(size, &mut draws, (w, d, o), c, sink);
        }
    }
}

fn store_address(row: &mut [u64], draws: &mut Draws, lines: [Text; 3], (state, zip): (Text, Text)) {
    for line in lines {
        line.store(row, &draws.text(10..=20));
    }
    state.store(row, &draws.text(2..=2));
    let mut code = draws.digits(4);
    code.extend(b"11111");
    zip.store(row, &code);
}

fn stock_row(draws: &mut Draws, w: u64, i: u64) -> Vec<u64> {
    let mut row = vec![0; stock::WORDS];
    row[stock::I_ID] = i;
    row[stock::W_ID] = w;
    row[stock::QUANTITY] = draws.within(10..=100);
    for d in 1..=DISTRICTS {
        stock_dist(d).store(&mut row, &draws.text(24..=24));
    }
    stock::DATA.store(&mut row, &draws.data());
    row
}

fn district_row(size: &Size, draws: &mut Draws, w: u64, d: u64) -> Vec<u64> {
    let mut row = vec![0; district::WORDS];
    row[district::ID] = d;
    row[district::W_ID] = w;
    row[district::TAX] = draws.within(0..=2000);
    row[district::YTD] = size.district_ytd();
    row[district::NEXT_O_ID] = size.orders() + 1;
    district::NAME.store(&mut row, &draws.text(6..=10));
    let address = [district::STREET_1, district::STREET_2, district::CITY];
    store_address(&mut row, draws, address, (district::STATE, district::ZIP));
    row
}

fn customer_row(draws: &mut Draws, (w, d, c): (u64, u64, u64)) -> Vec<u64> {
    let mut row = vec![0; customer::WORDS];
    row[customer::ID] = c;
    row[customer::D_ID] = d;
    row[customer::W_ID] = w;
    row[customer::NAME] = match c {
        0..=1000 => c - 1,
        _ => draws.name_to_load(),
    };
    row[customer::BAD_CREDIT] = u64::from(draws.percent(10));
    row[customer::CREDIT_LIM] = 5_000_000;
    row[customer::DISCOUNT] = draws.within(0..=5000);
    row[customer::BALANCE] = (-1000_i64) as u64;
    row[customer::YTD_PAYMENT] = 1000;
    row[customer::PAYMENT_CNT] = 1;
    row[customer::SINCE] = DATE;
    customer::FIRST.store(&mut row, &draws.text(8..=16));
    customer::MIDDLE.store(&mut row, b"OE");
    let name = last_name(row[customer::NAME]);
    customer::LAST.store(&mut row, name.as_bytes());
    let address = [customer::STREET_1, customer::STREET_2, customer::CITY];
    store_address(&mut row, draws, address, (customer::STATE, customer::ZIP));
    customer::PHONE.store(&mut row, &draws.digits(16));
    customer::DATA.store(&mut row, &draws.text(300..=500));
    row
}

fn history_row(draws: &mut Draws, (w, d, c): (u64, u64, u64)) -> Vec<u64> {
    let mut row = vec![0; history::WORDS];
    row[history::C_ID] = c;
    (row[history::C_D_ID], row[history::C_W_ID]) = (d, w);
    (row[history::D_ID], row[history::W_ID]) = (d, w);
    row[history::DATE] = DATE;
    row[history::AMOUNT] = 1000;
    history::DATA.store(&mut row, &draws.text(12..=24));
    row
}

/// An order, its lines, and whether it is still to be delivered.
fn orders(size: &Size, draws: &mut Draws, (w, d, o): (u64, u64, u64), c: u64, sink: Sink<'_>) {
    let is_new = o > size.delivered_orders();
    let mut row = vec![0; order::WORDS];
    row[order::ID] = o;
    (row[order::D_ID], row[order::W_ID], row[order::C_ID]) = (d, w, c);
    row[order::ENTRY_D] = DATE;
    row[order::CARRIER_ID] = if is_new { 0 } else { draws.within(1..=10) };
    row[order::OL_CNT] = draws.within(5..=15);
    row[order::ALL_LOCAL] = 1;
    sink(Table::Order, &row);
    for number in 1..=row[order::OL_CNT] {
        let mut line = vec![0; order_line::WORDS];
        line[order_line::O_ID] = o;
        (line[order_line::D_ID], line[order_line::W_ID]) = (d, w);
        line[order_line::NUMBER] = number;
        line[order_line::I_ID] = draws.within(1..=size.items);
        line[order_line::SUPPLY_W_ID] = w;
        line[order_line::DELIVERY_D] = if is_new { 0 } else { DATE };
        line[order_line::QUANTITY] = 5;
        line[order_line::AMOUNT] = if is_new { draws.within(1..=999_999) } else { 0 };
        order_line::DIST_INFO.store(&mut line, &draws.text(24..=24));
        sink(Table::OrderLine, &line);
    }
    if is_new {
        let mut row = [0; new_order::WORDS];
        row[new_order::O_ID] = o;
        (row[new_order::D_ID], row[new_order::W_ID]) = (d, w);
        sink(Table::NewOrder, &row);
    }
}
