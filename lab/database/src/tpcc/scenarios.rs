//! The edges of the specification, played in both forms of the database and on every index.

use super::answers::Status;
use super::columns::{
    Table, customer, district, history, new_order, order, order_line, stock, warehouse,
};
use super::consistency::Done;
use super::input::{Delivery, Line, NewOrder, OrderStatus, Payment, StockLevel, Who};
use super::restock::restocked;
use super::size::{DISTRICTS, Size};

/// Two warehouses, and fewer customers than last names.
pub(super) const SIZE: Size = Size {
    warehouses: 2,
    items: 50,
    customers: 10,
};

/// More customers than last names: several have the same.
pub(super) const NAMESAKES: Size = Size {
    warehouses: 1,
    items: 20,
    customers: 1200,
};

/// A form of the database that plays one transaction after the other.
pub(super) trait Played {
    /// Says whether it committed.
    fn new_order(&mut self, input: &NewOrder) -> bool;
    fn payment(&mut self, input: &Payment);
    fn order_status(&mut self, input: &OrderStatus) -> Status;
    /// Says how many orders were delivered.
    fn delivery(&mut self, input: &Delivery) -> u64;
    /// Says how many items run low.
    fn stock_level(&mut self, input: &StockLevel) -> u64;
    fn rows(&self, table: Table) -> Vec<Vec<u64>>;
    /// Panics unless all twelve conditions hold after `done`.
    fn check(&self, done: Done);
}

/// All of them but the one that wants [`NAMESAKES`], in one database of [`SIZE`].
pub(super) fn play_edges(played: &mut dyn Played) {
    let mut done = Done::default();
    an_unknown_item_rolls_all_back(played);
    done.new_orders += remote_lines_count_where_they_are_supplied(played);
    done.payments += a_remote_payment_is_the_terminals(played);
    done.new_orders += stock_level_counts_items_of_the_last_twenty_orders(played);
    done.delivered += deliveries_end_without_new_orders(played);
    played.check(done);
}

fn only(rows: Vec<Vec<u64>>, is: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    let mut rows: Vec<Vec<u64>> = rows.into_iter().filter(|row| is(row)).collect();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn of_district(played: &dyn Played, w: u64, d: u64) -> Vec<u64> {
    only(played.rows(Table::District), |row| {
        (row[district::W_ID], row[district::ID]) == (w, d)
    })
}

fn of_stock(played: &dyn Played, w: u64, i: u64) -> Vec<u64> {
    only(played.rows(Table::Stock), |row| {
        (row[stock::W_ID], row[stock::I_ID]) == (w, i)
    })
}

fn line(item: u64, supply_warehouse: u64, quantity: u64) -> Line {
    Line {
        item,
        supply_warehouse,
        quantity,
    }
}

/// Clause 2.4.2.3: the last item is unknown, and what was done before is undone.
fn an_unknown_item_rolls_all_back(played: &mut dyn Played) {
    let before: Vec<_> = Table::ALL.map(|table| played.rows(table)).to_vec();
    let mut lines: Vec<Line> = (1..=6).map(|item| line(item, 1 + item % 2, 3)).collect();
    lines.push(line(SIZE.items + 1, 1, 1));
    let input = NewOrder {
        warehouse: 1,
        district: 3,
        customer: 4,
        lines,
    };
    assert!(!played.new_order(&input));
    for (table, rows) in Table::ALL.into_iter().zip(before) {
        assert_eq!(played.rows(table), rows, "{table:?}");
    }
    played.check(Done::default());
}

/// Clause 2.4.2.2: an item may come twice and from another warehouse.
fn remote_lines_count_where_they_are_supplied(played: &mut dyn Played) -> u64 {
    let (near, far) = (of_stock(played, 1, 7), of_stock(played, 2, 7));
    let next = of_district(played, 1, 3)[district::NEXT_O_ID];
    let input = NewOrder {
        warehouse: 1,
        district: 3,
        customer: 4,
        lines: vec![
            line(7, 1, 2),
            line(7, 2, 9),
            line(7, 2, 4),
            line(8, 1, 1),
            line(9, 1, 1),
        ],
    };
    assert!(played.new_order(&input));
    let (left, taken) = (of_stock(played, 1, 7), of_stock(played, 2, 7));
    let counts = [stock::YTD, stock::ORDER_CNT, stock::REMOTE_CNT];
    assert_eq!(counts.map(|at| left[at] - near[at]), [2, 1, 0]);
    assert_eq!(counts.map(|at| taken[at] - far[at]), [13, 2, 2]);
    let first = restocked(far[stock::QUANTITY], 9);
    assert_eq!(taken[stock::QUANTITY], restocked(first, 4));
    assert_eq!(of_district(played, 1, 3)[district::NEXT_O_ID], next + 1);
    let placed = only(played.rows(Table::Order), |row| {
        (row[order::W_ID], row[order::D_ID], row[order::ID]) == (1, 3, next)
    });
    assert_eq!((placed[order::ALL_LOCAL], placed[order::OL_CNT]), (0, 5));
    let lines = played.rows(Table::OrderLine).into_iter().filter(|row| {
        (
            row[order_line::W_ID],
            row[order_line::D_ID],
            row[order_line::O_ID],
        ) == (1, 3, next)
    });
    let status = played.order_status(&OrderStatus {
        warehouse: 1,
        district: 3,
        who: Who::Number(4),
    });
    let amount = lines.map(|row| row[order_line::AMOUNT]).sum();
    assert_eq!(
        (status.customer, status.order, status.lines, status.amount),
        (4, next, 5, amount)
    );
    1
}

/// Clause 2.5.2.2: the customer of another warehouse pays, this warehouse and district get it.
fn a_remote_payment_is_the_terminals(played: &mut dyn Played) -> u64 {
    let ytd = |played: &dyn Played, w| {
        let of = only(played.rows(Table::Warehouse), |row| row[warehouse::ID] == w);
        of[warehouse::YTD]
    };
    let customer = |played: &dyn Played| {
        only(played.rows(Table::Customer), |row| {
            (row[customer::W_ID], row[customer::D_ID], row[customer::ID]) == (2, 5, 6)
        })
    };
    let (here, there, before) = (ytd(played, 1), ytd(played, 2), customer(played));
    let (payments, of_here) = (played.rows(Table::History).len(), of_district(played, 1, 2));
    let of_there = of_district(played, 2, 5);
    played.payment(&Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 2,
        customer_district: 5,
        who: Who::Number(6),
        amount: 12_345,
    });
    assert_eq!((ytd(played, 1), ytd(played, 2)), (here + 12_345, there));
    let now = of_district(played, 1, 2);
    assert_eq!(now[district::YTD], of_here[district::YTD] + 12_345);
    assert_eq!(of_district(played, 2, 5), of_there);
    let after = customer(played);
    let balance = before[customer::BALANCE].wrapping_sub(12_345);
    assert_eq!(after[customer::BALANCE], balance);
    let count = after[customer::PAYMENT_CNT];
    assert_eq!(count, before[customer::PAYMENT_CNT] + 1);
    assert_eq!(played.rows(Table::History).len(), payments + 1);
    let paid = only(played.rows(Table::History), |row| {
        row[history::AMOUNT] == 12_345
    });
    let ids = [
        history::W_ID,
        history::D_ID,
        history::C_W_ID,
        history::C_D_ID,
        history::C_ID,
    ];
    assert_eq!(ids.map(|at| paid[at]), [1, 2, 2, 5, 6]);
    1
}

/// Clause 2.8.2.2: each item once, of this warehouse's stock, below the threshold; fewer than
/// twenty orders are all of them, and of more only the last twenty count.
fn stock_level_counts_items_of_the_last_twenty_orders(played: &mut dyn Played) -> u64 {
    // Of district 5 the last twenty orders have no other items than these.
    for nth in 0..20 {
        let items = 5 * (nth % 2)..5 * (nth % 2) + 5;
        let input = NewOrder {
            warehouse: 1,
            district: 5,
            customer: 4,
            lines: items.map(|item| line(1 + item, 1, 1)).collect(),
        };
        assert!(played.new_order(&input));
    }
    for (d, threshold) in [(3, 10), (3, 20), (4, 15), (4, 101), (5, 101)] {
        let next = of_district(played, 1, d)[district::NEXT_O_ID];
        let lines = played.rows(Table::OrderLine).into_iter().filter(|row| {
            (row[order_line::W_ID], row[order_line::D_ID]) == (1, d)
                && row[order_line::O_ID] + 20 >= next
        });
        let mut items: Vec<u64> = lines.map(|row| row[order_line::I_ID]).collect();
        items.sort_unstable();
        items.dedup();
        let low = |item: &&u64| of_stock(played, 1, **item)[stock::QUANTITY] < threshold;
        let expected = items.iter().filter(low).count() as u64;
        let found = played.stock_level(&StockLevel {
            warehouse: 1,
            district: d,
            threshold,
        });
        assert_eq!(found, expected, "district {d}, below {threshold}");
        assert!(
            d != 5 || found == 10,
            "{found} items of the last twenty orders"
        );
    }
    20
}

/// Clause 2.7.4.2: a district without new orders is skipped, and its delivery commits.
fn deliveries_end_without_new_orders(played: &mut dyn Played) -> u64 {
    let input = Delivery {
        warehouse: 1,
        carrier: 7,
    };
    let all = |played: &dyn Played| {
        let rows = played.rows(Table::NewOrder).into_iter();
        rows.filter(|row| row[new_order::W_ID] == 1).count() as u64
    };
    let (expected, mut delivered) = (all(played), 0);
    // District 3 has an order more than the others, district 5 twenty.
    let rounds = SIZE.orders() - SIZE.delivered_orders();
    for _ in 0..rounds {
        let oldest = played.rows(Table::NewOrder).into_iter();
        let oldest = oldest.filter(|row| (row[new_order::W_ID], row[new_order::D_ID]) == (1, 3));
        let oldest = oldest.map(|row| row[new_order::O_ID]).min();
        assert_eq!(played.delivery(&input), DISTRICTS);
        delivered += DISTRICTS;
        let order = only(played.rows(Table::Order), |row| {
            (row[order::W_ID], row[order::D_ID], Some(row[order::ID])) == (1, 3, oldest)
        });
        assert_eq!(order[order::CARRIER_ID], 7);
    }
    for nth in 0..20 {
        let districts = if nth == 0 { 2 } else { 1 };
        assert_eq!(played.delivery(&input), districts);
        delivered += districts;
    }
    assert_eq!((all(played), delivered), (0, expected));
    assert_eq!(played.delivery(&input), 0);
    expected
}

/// Clause 2.6.2.2: of several customers of a last name, sorted by first name, the one in the
/// middle, rounded up, is meant. In a database of [`NAMESAKES`].
pub(super) fn play_namesakes(played: &mut dyn Played) {
    let mut of_names = vec![Vec::new(); 1000];
    for row in played.rows(Table::Customer) {
        if row[customer::D_ID] == 2 {
            let first = customer::FIRST.decode(|at| row[at]);
            of_names[row[customer::NAME] as usize].push((first, row[customer::ID]));
        }
    }
    let mut counts = [0; 5];
    for (name, mut customers) in of_names.into_iter().enumerate() {
        customers.sort();
        let count = customers.len();
        let (_, expected) = customers[count.div_ceil(2) - 1];
        counts[count.min(4)] += 1;
        let status = played.order_status(&OrderStatus {
            warehouse: 1,
            district: 2,
            who: Who::Name(name as u64),
        });
        assert_eq!(status.customer, expected, "of {count} customers");
        assert!(status.order > 0 && (5..=15).contains(&status.lines));
    }
    assert!(
        counts[1] > 0 && counts[2] > 0 && counts[3] > 0,
        "{counts:?}"
    );
    played.check(Done::default());
}
