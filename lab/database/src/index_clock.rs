//! How much of the transactions' time the indexes take.
//!
//! To read a clock twice an access would cost much of what is measured. So one transaction of
//! sixteen of a kind is timed, and each access to an index in it; what reading the clock takes is
//! subtracted. What the indexes took in those transactions stands for all of the kind.

use std::sync::OnceLock;
use std::time::Instant;

use crate::outcome::{KindOutcome, MOST_KINDS};

/// One transaction of so many of a kind is timed.
const TIMED: u64 = 16;

/// A session's clock.
#[derive(Debug)]
pub(crate) struct IndexClock {
    now_ns: fn() -> u64,
    /// What one reading of the clock takes.
    reading_ns: f64,
    kinds: [Kind; MOST_KINDS],
    /// The kind of the transaction that is under way.
    kind: usize,
    /// When it began, if it is timed.
    began_ns: Option<u64>,
    /// How often the clock was read since then.
    readings: u64,
}

/// Transactions of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    transactions: u64,
    timed: u64,
    /// From begin to end of those that were timed.
    total_ns: f64,
    index_ns: f64,
}

impl Kind {
    fn outcome(&self) -> KindOutcome {
        let seconds = |ns: f64| ns / self.timed.max(1) as f64 * self.transactions as f64 / 1e9;
        KindOutcome {
            ended: self.transactions,
            seconds: seconds(self.total_ns),
            index_seconds: seconds(self.index_ns),
        }
    }
}

impl IndexClock {
    pub(crate) fn new() -> Self {
        Self::by(monotonic_ns)
    }

    fn by(now_ns: fn() -> u64) -> Self {
        Self {
            now_ns,
            reading_ns: reading_ns(now_ns),
            kinds: [Kind::default(); MOST_KINDS],
            kind: 0,
            began_ns: None,
            readings: 0,
        }
    }

    /// A transaction of a kind begins.
    pub(crate) fn begin(&mut self, kind: usize) {
        self.kind = kind;
        let of_kind = &mut self.kinds[kind];
        let is_timed = of_kind.transactions.is_multiple_of(TIMED);
        of_kind.transactions += 1;
        self.readings = 0;
        self.began_ns = is_timed.then(|| (self.now_ns)());
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
        self.kinds[self.kind].index_ns += (elapsed_ns - self.reading_ns).max(0.0);
        self.readings += 2;
        result
    }

    /// The transaction ends.
    pub(crate) fn end(&mut self) {
        let Some(began_ns) = self.began_ns.take() else {
            return;
        };
        let elapsed_ns = ((self.now_ns)() - began_ns) as f64;
        let of_kind = &mut self.kinds[self.kind];
        of_kind.timed += 1;
        // One of the two readings at the ends is within what elapsed.
        let readings_ns = self.reading_ns * (self.readings + 1) as f64;
        of_kind.total_ns += (elapsed_ns - readings_ns).max(0.0);
    }

    /// Seconds that the indexes took in all transactions; at most those that the session ran for.
    pub(crate) fn index_seconds(&self, seconds: f64) -> f64 {
        let kinds = self.kinds().into_iter();
        let index_seconds: f64 = kinds.map(|kind| kind.index_seconds).sum();
        index_seconds.min(seconds)
    }

    /// What the transactions of each kind took.
    pub(crate) fn kinds(&self) -> [KindOutcome; MOST_KINDS] {
        self.kinds.map(|kind| kind.outcome())
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
            clock.begin(0);
            for _ in 0..4 {
                clock.access(|| pass(if slow { 75 } else { 1 }));
                pass(25);
            }
            clock.end();
        }
        assert_eq!(clock.reading_ns, 20.0);
        assert_eq!(clock.index_seconds(1.0), 3.0 * 300.0 * 16.0 / 1e9);
    }

    /// A kind of which there are few is timed, too, and what one kind takes is not another's.
    #[test]
    fn each_kind_is_timed_by_itself() {
        let mut clock = IndexClock::by(|| pass(20));
        for transaction in 0..8 * TIMED {
            let kind = usize::from(transaction % 8 == 1);
            clock.begin(kind);
            clock.access(|| pass(75));
            pass(if kind == 1 { 900 } else { 25 });
            clock.end();
        }
        let [most, few, ..] = clock.kinds();
        assert_eq!((most.ended, few.ended), (7 * TIMED, TIMED));
        for (kind, rest_us) in [(most, 0.025), (few, 0.9)] {
            let [index_us, others_us] = kind.each_us();
            assert!((index_us - 0.075).abs() < 1e-9, "{index_us}");
            assert!((others_us - rest_us).abs() < 1e-9, "{others_us}");
        }
        assert_eq!(clock.kinds()[2], KindOutcome::default());
    }

    #[test]
    fn what_is_between_transactions_is_no_index_time() {
        let index_seconds = |draw_ns| {
            let mut clock = IndexClock::by(|| pass(20));
            let began_ns = pass(0);
            for _ in 0..4 * TIMED {
                pass(draw_ns);
                clock.begin(0);
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
