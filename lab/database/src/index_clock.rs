//! How much of the transactions' time the indexes take.
//!
//! To read a clock twice an access would cost much of what is measured. So one transaction of
//! sixteen is timed, and in it each access to an index; what reading the clock takes is subtracted.
//! The share of the indexes in those transactions stands for all.

use std::sync::OnceLock;
use std::time::Instant;

/// One transaction of so many is timed.
const TIMED: u64 = 16;

/// A session's clock.
#[derive(Debug)]
pub(crate) struct IndexClock {
    transactions: u64,
    now_ns: fn() -> u64,
    /// When the transaction began, if it is timed.
    began_ns: Option<u64>,
    accesses: u64,
    /// What one reading of the clock takes.
    reading_ns: f64,
    index_ns: f64,
    total_ns: f64,
}

impl IndexClock {
    pub(crate) fn new() -> Self {
        Self::by(monotonic_ns)
    }

    fn by(now_ns: fn() -> u64) -> Self {
        Self {
            transactions: 0,
            now_ns,
            began_ns: None,
            accesses: 0,
            reading_ns: reading_ns(now_ns),
            index_ns: 0.0,
            total_ns: 0.0,
        }
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        let is_timed = self.transactions.is_multiple_of(TIMED);
        self.transactions += 1;
        self.accesses = 0;
        self.began_ns = is_timed.then(self.now_ns);
    }

    /// An access to an index.
    #[inline]
    pub(crate) fn access<R>(&mut self, access: impl FnOnce() -> R) -> R {
        if self.began_ns.is_none() {
            return access();
        }
        let began_ns = (self.now_ns)();
        let result = access();
        let elapsed_ns = ((self.now_ns)() - began_ns) as f64;
        self.index_ns += (elapsed_ns - self.reading_ns).max(0.0);
        self.accesses += 1;
        result
    }

    /// The transaction ends.
    pub(crate) fn end(&mut self) {
        if let Some(began_ns) = self.began_ns.take() {
            let readings_ns = (2 * self.accesses + 1) as f64 * self.reading_ns;
            let elapsed_ns = ((self.now_ns)() - began_ns) as f64;
            self.total_ns += (elapsed_ns - readings_ns).max(0.0);
        }
    }

    /// The indexes' share of the time, from 0 to 1.
    pub(crate) fn index_share(&self) -> f64 {
        (self.index_ns / self.total_ns.max(1.0)).min(1.0)
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
        assert_eq!(clock.index_share(), 0.75);
    }
}
