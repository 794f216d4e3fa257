//! What transactions are asked to do (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).

use super::draws::Draws;
use super::size::{DISTRICTS, Size};

/// Which transactions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// New-order and payment, 45 to 43, as the paper.
    Paper,
    /// All five: 45 % new-order, 43 % payment, 4 % of each other.
    Full,
}

/// The names of the five transactions, in the order in which an
/// [`Outcome`](crate::Outcome) has their kinds.
pub const TRANSACTIONS: [&str; 5] = [
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
];

/// A transaction's input.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    /// Which of the [`TRANSACTIONS`] it is of.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::NewOrder(_) => 0,
            Self::Payment(_) => 1,
            Self::OrderStatus(_) => 2,
            Self::Delivery(_) => 3,
            Self::StockLevel(_) => 4,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct NewOrder {
    pub(crate) warehouse: u64,
    pub(crate) district: u64,
    pub(crate) customer: u64,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// An item that does not exist, in the last line, rolls the transaction back.
    pub(crate) item: u64,
    pub(crate) supply_warehouse: u64,
    pub(crate) quantity: u64,
}

/// A customer by number or by last name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    Number(u64),
    Name(u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Payment {
    pub(crate) warehouse: u64,
    pub(crate) district: u64,
    pub(crate) customer_warehouse: u64,
    pub(crate) customer_district: u64,
    pub(crate) who: Who,
    /// In cents.
    pub(crate) amount: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderStatus {
    pub(crate) warehouse: u64,
    pub(crate) district: u64,
    pub(crate) who: Who,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) warehouse: u64,
    pub(crate) carrier: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StockLevel {
    pub(crate) warehouse: u64,
    pub(crate) district: u64,
    pub(crate) threshold: u64,
}

/// Draws the inputs of a terminal at a warehouse.
pub(crate) struct Terminal<'a> {
    size: &'a Size,
    mix: Mix,
    warehouse: u64,
    draws: Draws,
}

impl<'a> Terminal<'a> {
    /// The terminal of the n-th thread.
    pub(crate) fn new(size: &'a Size, mix: Mix, seed: u64, thread: usize) -> Self {
        Self {
            size,
            mix,
            warehouse: 1 + thread as u64 % size.warehouses,
            draws: Draws::new(seed ^ 0x5eed, thread as u64),
        }
    }

    pub(crate) fn next(&mut self) -> Input {
        let percent = match self.mix {
            Mix::Paper => self.draws.within(1..=88),
            Mix::Full => self.draws.within(1..=100),
        };
        match percent {
            ..=45 => Input::NewOrder(self.new_order()),
            46..=88 => Input::Payment(self.payment()),
            89..=92 => Input::OrderStatus(OrderStatus {
                warehouse: self.warehouse,
                district: self.district(),
                who: self.who(),
            }),
            93..=96 => Input::Delivery(Delivery {
                warehouse: self.warehouse,
                carrier: self.draws.within(1..=10),
            }),
            _ => Input::StockLevel(StockLevel {
                warehouse: self.warehouse,
                district: self.district(),
                threshold: self.draws.within(10..=20),
            }),
        }
    }

    fn new_order(&mut self) -> NewOrder {
        let mut lines: Vec<Line> = (0..self.draws.within(5..=15))
            .map(|_| self.line())
            .collect();
        if self.draws.percent(1)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.size.items + 1;
        }
        NewOrder {
            warehouse: self.warehouse,
            district: self.district(),
            customer: self.draws.customer(self.size.customers),
            lines,
        }
    }

    fn line(&mut self) -> Line {
        let is_remote = self.draws.percent(1);
        Line {
            item: self.draws.item(self.size.items),
            supply_warehouse: match is_remote {
                true => self.other_warehouse(),
                false => self.warehouse,
            },
            quantity: self.draws.within(1..=10),
        }
    }

    fn payment(&mut self) -> Payment {
        let district = self.district();
        let is_remote = self.draws.percent(15);
        let (customer_warehouse, customer_district) = match is_remote {
            true => (self.other_warehouse(), self.district()),
            false => (self.warehouse, district),
        };
        Payment {
            warehouse: self.warehouse,
            district,
            customer_warehouse,
            customer_district,
            who: self.who(),
            amount: self.draws.within(100..=500_000),
        }
    }

    fn who(&mut self) -> Who {
        match self.draws.percent(60) {
            true => Who::Name(self.draws.name(self.size.customers)),
            false => Who::Number(self.draws.customer(self.size.customers)),
        }
    }

    fn district(&mut self) -> u64 {
        self.draws.within(1..=DISTRICTS)
    }

    /// Another warehouse; the same one if it is the only one.
    fn other_warehouse(&mut self) -> u64 {
        if self.size.warehouses == 1 {
            return self.warehouse;
        }
        let other = self.draws.within(1..=self.size.warehouses - 1);
        other + u64::from(other >= self.warehouse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_shares_of_the_specification() {
        let size = Size::new(3);
        let mut terminal = Terminal::new(&size, Mix::Full, 1, 1);
        let (mut kinds, mut rollbacks, mut names, mut remote) = ([0; 5], 0, 0, 0);
        for _ in 0..20_000 {
            match terminal.next() {
                Input::NewOrder(input) => {
                    kinds[0] += 1;
                    assert!((5..=15).contains(&input.lines.len()) && input.warehouse == 2);
                    rollbacks += usize::from(input.lines.iter().any(|l| l.item > size.items));
                }
                Input::Payment(input) => {
                    kinds[1] += 1;
                    names += usize::from(matches!(input.who, Who::Name(_)));
                    remote += usize::from(input.customer_warehouse != 2);
                    assert!((1..=3).contains(&input.customer_warehouse));
                }
                Input::OrderStatus(_) => kinds[2] += 1,
                Input::Delivery(_) => kinds[3] += 1,
                Input::StockLevel(_) => kinds[4] += 1,
            }
        }
        // The same draws on every machine.
        assert!((8700..9300).contains(&kinds[0]) && (8300..8900).contains(&kinds[1]));
        assert!(
            kinds[2..].iter().all(|kind| (700..900).contains(kind)),
            "{kinds:?}"
        );
        assert!((50..140).contains(&rollbacks));
        assert!((4900..5500).contains(&names) && (1100..1500).contains(&remote));
        let mut terminal = Terminal::new(&size, Mix::Paper, 1, 0);
        let few = (0..1000).map(|_| terminal.next());
        let is_paper = |input: &Input| matches!(input, Input::NewOrder(_) | Input::Payment(_));
        assert_eq!(few.filter(is_paper).count(), 1000);
    }
}
