//! The consistency conditions of clause 3.3.2, checked over all rows of a database at rest.
//!
//! A [`Checker`] sees every row once, in any order, and then says which conditions do not hold. It
//! knows how many transactions committed ([`Done`]), so that it misses no order and no payment
//! either. Condition 11 (orders less new orders are 2100 a district) is one of the database before
//! any delivery; here the difference is what was delivered before and since.

use std::collections::BTreeMap;

use super::columns::{
    Table, customer, district, history, new_order, order, order_line, stock, warehouse,
};
use super::keys;
use super::size::Size;
use crate::error::{Error, Result};

/// What the transactions of a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// New-order transactions that committed.
    pub new_orders: u64,
    /// Payments that committed.
    pub payments: u64,
    /// Orders that were delivered.
    pub delivered: u64,
}

impl Done {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            new_orders: self.new_orders + other.new_orders,
            payments: self.payments + other.payments,
            delivered: self.delivered + other.delivered,
        }
    }
}

/// A database whose rows can be read at rest.
pub(crate) trait Rows {
    /// Visits all rows of a table.
    fn visit(&self, table: Table, visit: &mut dyn FnMut(&[u64])) -> Result<()>;
}

/// Checks all conditions.
///
/// # Errors
///
/// [`Error::Inconsistent`] with the first violation of each condition.
pub(crate) fn check(rows: &dyn Rows, size: &Size, done: Done) -> Result<()> {
    let mut checker = Checker::default();
    for table in Table::ALL {
        rows.visit(table, &mut |row| checker.see(table, row))?;
    }
    let violations = checker.violations(size, done);
    match violations.is_empty() {
        true => Ok(()),
        false => {
            let texts: Vec<String> = violations.into_values().collect();
            Err(Error::Inconsistent(texts.join("; ")))
        }
    }
}

/// The first violation of each condition, by its number. From 13 on they are ours.
pub(crate) type Violations = BTreeMap<u32, String>;

#[derive(Debug, Default)]
struct OfWarehouse {
    ytd: i64,
    districts_ytd: i64,
    payments: i64,
}

#[derive(Debug, Default)]
struct OfDistrict {
    ytd: i64,
    next_order: u64,
    payments: i64,
    orders: u64,
    newest_order: u64,
    lines: u64,
    /// The sum of what the orders say.
    lines_of_orders: u64,
    new_orders: u64,
    oldest_new: u64,
    newest_new: u64,
}

#[derive(Debug, Default)]
struct OfOrder {
    is_there: bool,
    is_new: bool,
    customer: u64,
    carrier: u64,
    lines_of_order: u64,
    lines: u64,
    delivered_lines: u64,
    delivered_amount: i64,
}

#[derive(Debug, Default)]
struct OfCustomer {
    balance: i64,
    ytd_payment: i64,
    payments: i64,
    delivered_amount: i64,
}

/// What the rows say, until all are seen.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    rows: BTreeMap<Table, u64>,
    warehouses: BTreeMap<u64, OfWarehouse>,
    districts: BTreeMap<u64, OfDistrict>,
    orders: BTreeMap<u64, OfOrder>,
    customers: BTreeMap<u64, OfCustomer>,
    /// Quantities of order lines, and how many, by the number of their order.
    lines: Vec<(u64, u64)>,
    stock_ytd: u64,
    stock_orders: u64,
}

impl Checker {
    /// Takes in a row.
    pub(crate) fn see(&mut self, table: Table, row: &[u64]) {
        *self.rows.entry(table).or_default() += 1;
        match table {
            Table::Warehouse => self.warehouse(row[warehouse::ID]).ytd = row[warehouse::YTD] as i64,
            Table::District => self.see_district(row),
            Table::Customer => {
                let district = keys::district(row[customer::W_ID], row[customer::D_ID]);
                let of = self.customer(keys::customer(district, row[customer::ID]));
                of.balance = row[customer::BALANCE] as i64;
                of.ytd_payment = row[customer::YTD_PAYMENT] as i64;
            }
            Table::History => self.see_history(row),
            Table::NewOrder => self.see_new_order(row),
            Table::Order => self.see_order(row),
            Table::OrderLine => self.see_order_line(row),
            Table::Item => {}
            Table::Stock => {
                self.stock_ytd += row[stock::YTD];
                self.stock_orders += row[stock::ORDER_CNT];
            }
        }
    }

    fn warehouse(&mut self, id: u64) -> &mut OfWarehouse {
        self.warehouses.entry(id).or_default()
    }

    fn district(&mut self, key: u64) -> &mut OfDistrict {
        self.districts.entry(key).or_default()
    }

    fn order(&mut self, key: u64) -> &mut OfOrder {
        self.orders.entry(key).or_default()
    }

    fn customer(&mut self, key: u64) -> &mut OfCustomer {
        self.customers.entry(key).or_default()
    }

    fn see_district(&mut self, row: &[u64]) {
        let (w, ytd) = (row[district::W_ID], row[district::YTD] as i64);
        self.warehouse(w).districts_ytd += ytd;
        let of = self.district(keys::district(w, row[district::ID]));
        of.ytd = ytd;
        of.next_order = row[district::NEXT_O_ID];
    }

    fn see_history(&mut self, row: &[u64]) {
        let (w, amount) = (row[history::W_ID], row[history::AMOUNT] as i64);
        self.warehouse(w).payments += amount;
        self.district(keys::district(w, row[history::D_ID]))
            .payments += amount;
        let district = keys::district(row[history::C_W_ID], row[history::C_D_ID]);
        self.customer(keys::customer(district, row[history::C_ID]))
            .payments += amount;
    }

    fn see_new_order(&mut self, row: &[u64]) {
        let (district, o) = (
            keys::district(row[new_order::W_ID], row[new_order::D_ID]),
            row[new_order::O_ID],
        );
        self.order(keys::order(district, o)).is_new = true;
        let of = self.district(district);
        of.oldest_new = match of.new_orders {
            0 => o,
            _ => of.oldest_new.min(o),
        };
        of.newest_new = of.newest_new.max(o);
        of.new_orders += 1;
    }

    fn see_order(&mut self, row: &[u64]) {
        let district = keys::district(row[order::W_ID], row[order::D_ID]);
        let of = self.district(district);
        of.orders += 1;
        of.newest_order = of.newest_order.max(row[order::ID]);
        of.lines_of_orders += row[order::OL_CNT];
        let of = self.order(keys::order(district, row[order::ID]));
        of.is_there = true;
        of.customer = keys::customer(district, row[order::C_ID]);
        of.carrier = row[order::CARRIER_ID];
        of.lines_of_order = row[order::OL_CNT];
    }

    fn see_order_line(&mut self, row: &[u64]) {
        let district = keys::district(row[order_line::W_ID], row[order_line::D_ID]);
        let o = row[order_line::O_ID];
        self.district(district).lines += 1;
        self.lines.push((o, row[order_line::QUANTITY]));
        let of = self.order(keys::order(district, o));
        of.lines += 1;
        if row[order_line::DELIVERY_D] != 0 {
            of.delivered_lines += 1;
            of.delivered_amount += row[order_line::AMOUNT] as i64;
        }
    }

    /// All rows were seen: which conditions do not hold.
    pub(crate) fn violations(mut self, size: &Size, done: Done) -> Violations {
        let mut found = Violations::new();
        self.check_warehouses(&mut found);
        self.check_districts(size, &mut found);
        self.check_orders(&mut found);
        self.check_customers(&mut found);
        self.check_counts(size, done, &mut found);
        found
    }

    fn check_warehouses(&self, found: &mut Violations) {
        for (w, of) in &self.warehouses {
            let who = format!("warehouse {w}");
            equal(
                found,
                1,
                &who,
                ("W_YTD", of.ytd),
                ("sum(D_YTD)", of.districts_ytd),
            );
            equal(
                found,
                8,
                &who,
                ("W_YTD", of.ytd),
                ("sum(H_AMOUNT)", of.payments),
            );
        }
    }

    fn check_districts(&self, size: &Size, found: &mut Violations) {
        for (key, of) in &self.districts {
            let who = format!("district {key:#x}");
            let next = ("D_NEXT_O_ID", of.next_order as i64);
            equal(
                found,
                2,
                &who,
                next,
                ("max(O_ID) + 1", of.newest_order as i64 + 1),
            );
            if of.new_orders > 0 {
                equal(
                    found,
                    2,
                    &who,
                    next,
                    ("max(NO_O_ID) + 1", of.newest_new as i64 + 1),
                );
                let range = (of.newest_new - of.oldest_new + 1) as i64;
                let count = ("count(NEW-ORDER)", of.new_orders as i64);
                equal(
                    found,
                    3,
                    &who,
                    ("max(NO_O_ID) - min(NO_O_ID) + 1", range),
                    count,
                );
            }
            let lines = ("count(ORDER-LINE)", of.lines as i64);
            equal(
                found,
                4,
                &who,
                ("sum(O_OL_CNT)", of.lines_of_orders as i64),
                lines,
            );
            equal(
                found,
                9,
                &who,
                ("D_YTD", of.ytd),
                ("sum(H_AMOUNT)", of.payments),
            );
            let delivered = of.orders as i64 - of.new_orders as i64;
            if delivered < size.delivered_orders() as i64 {
                let first = size.delivered_orders();
                let text = format!("{who} had {first} orders delivered, and has {delivered}");
                found.entry(11).or_insert_with(|| violation(11, &text));
            }
        }
    }

    fn check_orders(&mut self, found: &mut Violations) {
        for (key, of) in &self.orders {
            let who = format!("order {key:#x}");
            let mut unless = |condition: u32, holds: bool, text: &str| {
                let text = || violation(condition, &format!("{who} {text}: {of:?}"));
                if !holds {
                    found.entry(condition).or_insert_with(text);
                }
            };
            unless(5, of.is_there || !of.is_new, "is new and does not exist");
            unless(
                5,
                (of.carrier == 0) == of.is_new,
                "has a carrier and is new, or neither",
            );
            unless(
                6,
                of.lines == of.lines_of_order,
                "has another number of lines than it says",
            );
            let delivered = if of.carrier == 0 { 0 } else { of.lines };
            unless(7, of.delivered_lines == delivered, "is delivered in part");
        }
        for of in self.orders.values() {
            let customer = self.customers.entry(of.customer).or_default();
            customer.delivered_amount += of.delivered_amount;
        }
    }

    fn check_customers(&self, found: &mut Violations) {
        for (key, of) in &self.customers {
            let who = format!("customer {key:#x}");
            let owed = of.delivered_amount - of.payments;
            let delivered = ("sum(OL_AMOUNT)", of.delivered_amount);
            let balance = ("C_BALANCE", of.balance);
            equal(
                found,
                10,
                &who,
                balance,
                ("sum(OL_AMOUNT) - sum(H_AMOUNT)", owed),
            );
            let both = ("C_BALANCE + C_YTD_PAYMENT", of.balance + of.ytd_payment);
            equal(found, 12, &who, both, delivered);
        }
    }

    /// What was there, and what the transactions added.
    fn check_counts(&self, size: &Size, done: Done, found: &mut Violations) {
        let rows = |table| self.rows.get(&table).copied().unwrap_or_default();
        let mut count = |condition, name, is: u64, expected: u64| {
            let expected = ("expected", expected as i64);
            equal(
                found,
                condition,
                "the database",
                (name, is as i64),
                expected,
            );
        };
        let districts = size.all_districts();
        let delivered = (rows(Table::Order)).wrapping_sub(rows(Table::NewOrder));
        let first = districts * size.delivered_orders();
        count(11, "orders delivered", delivered, first + done.delivered);
        let orders = districts * size.orders() + done.new_orders;
        count(13, "orders", rows(Table::Order), orders);
        let payments = districts * size.customers + done.payments;
        count(14, "payments", rows(Table::History), payments);
        count(15, "warehouses", rows(Table::Warehouse), size.warehouses);
        count(15, "districts", rows(Table::District), districts);
        count(
            15,
            "customers",
            rows(Table::Customer),
            districts * size.customers,
        );
        count(15, "items", rows(Table::Item), size.items);
        count(
            15,
            "stocks",
            rows(Table::Stock),
            size.warehouses * size.items,
        );
        let ordered = self.lines.iter().filter(|(o, _)| *o > size.orders());
        let (lines, quantity) = ordered.fold((0, 0), |(lines, sum), (_, quantity)| {
            (lines + 1, sum + quantity)
        });
        count(16, "sum(S_ORDER_CNT)", self.stock_orders, lines);
        count(16, "sum(S_YTD)", self.stock_ytd, quantity);
    }
}

fn violation(condition: u32, text: &str) -> String {
    match condition {
        ..=12 => format!("3.3.2.{condition}: {text}"),
        _ => format!("beyond 3.3.2: {text}"),
    }
}

/// A violation unless both are the same.
fn equal(
    found: &mut Violations,
    condition: u32,
    who: &str,
    (left_name, left): (&str, i64),
    (right_name, right): (&str, i64),
) {
    if left != right {
        let text = format!("{who}: {left_name} is {left}, {right_name} {right}");
        found
            .entry(condition)
            .or_insert_with(|| violation(condition, &text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::population;
    use super::*;

    const SIZE: Size = Size {
        warehouses: 2,
        items: 20,
        customers: 10,
    };

    fn rows() -> Vec<(Table, Vec<u64>)> {
        let mut rows = Vec::new();
        let mut sink = |table, row: &[u64]| rows.push((table, row.to_vec()));
        population::items(&SIZE, 7, &mut sink);
        (1..=2).for_each(|w| population::warehouse(&SIZE, 7, w, &mut sink));
        rows
    }

    /// The conditions that do not hold after `change` of the first row of a table that `is` one.
    fn broken(table: Table, is: impl Fn(&[u64]) -> bool, change: impl Fn(&mut [u64])) -> Vec<u32> {
        let mut rows = rows();
        let mut of_table = rows.iter_mut().filter(|(of, _)| *of == table);
        let (_, row) = of_table.find(|(_, row)| is(row)).expect("such a row");
        change(row);
        violations(&rows)
    }

    fn without(table: Table, is: impl Fn(&[u64]) -> bool) -> Vec<u32> {
        let mut rows = rows();
        let place = rows.iter().position(|(of, row)| *of == table && is(row));
        rows.remove(place.expect("such a row"));
        violations(&rows)
    }

    fn violations(rows: &[(Table, Vec<u64>)]) -> Vec<u32> {
        let mut checker = Checker::default();
        rows.iter()
            .for_each(|(table, row)| checker.see(*table, row));
        checker
            .violations(&SIZE, Done::default())
            .into_keys()
            .collect()
    }

    #[test]
    fn the_first_rows_are_consistent_and_have_their_widths() {
        let rows = rows();
        assert!(rows.iter().all(|(table, row)| row.len() == table.words()));
        assert!(violations(&rows).is_empty());
        assert!(rows.len().abs_diff(SIZE.rows() as usize) < rows.len() / 10);
    }

    #[test]
    fn each_condition_is_found_broken() {
        let any = |_: &[u64]| true;
        let new = |row: &[u64]| row[order::CARRIER_ID] == 0;
        let old_line = |row: &[u64]| row[order_line::DELIVERY_D] != 0;
        assert_eq!(
            broken(Table::Warehouse, any, |row| row[warehouse::YTD] += 1),
            [1, 8]
        );
        assert_eq!(
            broken(Table::District, any, |row| row[district::NEXT_O_ID] += 1),
            [2]
        );
        // A payment that does not add to the district.
        assert_eq!(
            broken(Table::District, any, |row| row[district::YTD] -= 1),
            [1, 9]
        );
        let middle = |row: &[u64]| row[new_order::O_ID] == 9;
        assert_eq!(without(Table::NewOrder, middle), [3, 5, 11]);
        assert_eq!(
            without(Table::NewOrder, |row| row[new_order::O_ID] == 10),
            [2, 5, 11]
        );
        assert_eq!(
            broken(Table::Order, any, |row| row[order::OL_CNT] += 1),
            [4, 6]
        );
        assert_eq!(without(Table::OrderLine, any), [4, 6]);
        assert_eq!(
            broken(Table::Order, new, |row| row[order::CARRIER_ID] = 3),
            [5, 7]
        );
        let forget = |row: &mut [u64]| row[order_line::DELIVERY_D] = 0;
        assert_eq!(broken(Table::OrderLine, old_line, forget), [7]);
        assert_eq!(
            broken(Table::History, any, |row| row[history::AMOUNT] += 1),
            [8, 9, 10]
        );
        assert_eq!(
            broken(Table::Customer, any, |row| row[customer::BALANCE] = 0),
            [10, 12]
        );
        assert_eq!(
            broken(Table::Customer, any, |row| row[customer::YTD_PAYMENT] = 0),
            [12]
        );
        let dear = |row: &mut [u64]| row[order_line::AMOUNT] = 1;
        assert_eq!(broken(Table::OrderLine, old_line, dear), [10, 12]);
        assert_eq!(without(Table::History, any), [8, 9, 10, 14]);
        assert_eq!(without(Table::Stock, any), [15]);
        assert_eq!(broken(Table::Stock, any, |row| row[stock::YTD] = 5), [16]);
        assert_eq!(
            broken(Table::Stock, any, |row| row[stock::ORDER_CNT] = 1),
            [16]
        );
    }

    #[test]
    fn lost_transactions_are_found() {
        let mut checker = Checker::default();
        rows()
            .iter()
            .for_each(|(table, row)| checker.see(*table, row));
        let done = Done {
            new_orders: 1,
            payments: 1,
            delivered: 1,
        };
        let found = checker.violations(&SIZE, done);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [11, 13, 14]);
        assert!(
            found[&13].contains("orders is 200, expected 201"),
            "{found:?}"
        );
    }
}
