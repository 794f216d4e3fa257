//! How much of the transactions' time the indexes take.
//!
//! To read a clock twice an access would cost much of what is measured. So one transaction of
//! sixteen is timed, each access to an index in it; what reading the clock takes is subtracted.
//! What the indexes took in each of those transactions stands for sixteen.

use std::sync::OnceLock;
use std::time::Instant;

/// One transaction of so many is timed.
const TIMED: u64 = 16;

/// A session's clock.
#[derive(Debug)]
pub(crate) struct IndexClock {
    transactions: u64,
    now_ns: fn() -> u64,
    /// Whether the transaction that is under way is timed.
    is_timed: bool,
    /// What one reading of the clock takes.
    reading_ns: f64,
    index_ns: f64,
}

impl IndexClock {
    pub(crate) fn new() -> Self {
        Self::by(monotonic_ns)
    }

    fn by(now_ns: fn() -> u64) -> Self {
        Self {
            transactions: 0,
            now_ns,
            is_timed: false,
            reading_ns: reading_ns(now_ns),
            index_ns: 0.0,
        }
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        self.is_timed = self.transactions.is_multiple_of(TIMED);
        self.transactions += 1;
    }

    /// An access to an index.
    #[inline]
    pub(crate) fn access<R>(&mut self, access: impl FnOnce() -> R) -> R {
        if !self.is_timed {
            return access();
        }
        let began_ns = (self.now_ns)();
        let result = access();
        let elapsed_ns = ((self.now_ns)() - began_ns) as f64;
        self.index_ns += (elapsed_ns - self.reading_ns).max(0.0);
        result
    }

    /// The transaction ends.
    pub(crate) fn end(&mut self) {
        self.is_timed = false;
    }

    /// Seconds that the indexes took in all transactions; at most those that the session ran for.
    pub(crate) fn index_seconds(&self, seconds: f64) -> f64 {
        let timed = self.transactions.div_ceil(TIMED).max(1);
        let each_ns = self.index_ns / timed as f64;
        (each_ns * self.transactions as f64 / 1e9).min(seconds)
    }
}

/// Nanoseconds since the first call of the process.
fn monotonic_ns() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// What reading the clock takes: the least of some averages.
fn reading_ns(now_ns: fn() -> u64) -> f64 {
    const READINGS: u32 = 64;
    let average = |_| {
        let began_ns = now_ns();
        let mut last_ns = began_ns;
        (0..READINGS).for_each(|_| last_ns = now_ns());
        (last_ns - began_ns) as f64 / f64::from(READINGS)
    };
    (0..16).map(average).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW_NS: Cell<u64> = const { Cell::new(0) };
    }

    fn pass(ns: u64) -> u64 {
        NOW_NS.with(|now_ns| {
            now_ns.set(now_ns.get() + ns);
            now_ns.get()
        })
    }

    #[test]
    fn one_transaction_of_sixteen_is_timed_less_the_clock_itself() {
        // Reading this clock takes 20 ns.
        let mut clock = IndexClock::by(|| pass(20));
        for transaction in 0..3 * TIMED {
            // Only the timed ones are slow in their indexes.
            let slow = transaction.is_multiple_of(TIMED);
            clock.begin();
            for _ in 0..4 {
                clock.access(|| pass(if slow { 75 } else { 1 }));
                pass(25);
            }
            clock.end();
        }
        assert_eq!(clock.reading_ns, 20.0);
        assert_eq!(clock.index_seconds(1.0), 3.0 * 300.0 * 16.0 / 1e9);
    }

    #[test]
    fn what_is_between_transactions_is_no_index_time() {
        let index_seconds = |draw_ns| {
            let mut clock = IndexClock::by(|| pass(20));
            let began_ns = pass(0);
            for _ in 0..4 * TIMED {
                pass(draw_ns);
                clock.begin();
                clock.access(|| pass(75));
                pass(25);
                clock.end();
            }
            clock.index_seconds((pass(0) - began_ns) as f64 / 1e9)
        };
        let expected = (4 * TIMED) as f64 * 75.0 / 1e9;
        for draw_ns in [0, 1000, 1_000_000] {
            assert!(
                (index_seconds(draw_ns) - expected).abs() < 1e-12,
                "{draw_ns}"
            );
        }
    }
}
