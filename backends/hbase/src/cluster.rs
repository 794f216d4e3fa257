//! What all keyspaces of one HBase namespace share: the gateways, and who writes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::clock::{Clock, now_ms};
use crate::error::Result;
use crate::gateways::Gateways;
use crate::options::Options;

/// The deadline of requests right behind one that found nobody, and for how long.
const SHORT_DEADLINE: Duration = Duration::from_millis(100);
const SHORT_DEADLINE_FOR_MS: u64 = 1000;
/// How often such a deadline doubles, if requests go on failing.
const MOST_DOUBLINGS: u32 = 5;

/// How long a call may take for which there is another way.
const TRY_FOR: Duration = Duration::from_secs(2);

/// How a [`Hbase`](crate::Hbase) behaves.
#[derive(Clone, Debug)]
pub struct HbaseOptions {
    /// Of the connections to gateways.
    pub gateways: Options,
    /// After so long a request fails.
    pub deadline: Duration,
    /// The longest value, or columns with their names, in bytes.
    pub max_value_bytes: usize,
    /// How long a row that is removed, or has expired, stays in HBase: longer than the clocks of
    /// servers differ.
    pub keep_dead: Duration,
    /// How often all rows are looked through for those whose time is over.
    pub sweep_interval: Duration,
    /// Whether the namespace and tables are made where there are none.
    pub create: bool,
}

impl Default for HbaseOptions {
    fn default() -> HbaseOptions {
        HbaseOptions {
            // Regions of a server that died are elsewhere after some seconds.
            gateways: Options {
                attempts: 30,
                max_backoff: Duration::from_secs(1),
                ..Options::default()
            },
            deadline: Duration::from_secs(30),
            // What fits a request of 2 MiB, which is what gateways take.
            max_value_bytes: 3 << 19,
            keep_dead: Duration::from_secs(3600),
            sweep_interval: Duration::from_secs(1800),
            create: true,
        }
    }
}

/// Requests that found no gateway, or got no answer, since the last one that did.
#[derive(Default)]
pub(crate) struct Silence {
    /// When the last of them failed, in milliseconds since the Unix epoch; 0 if there is none.
    failed_ms: AtomicU64,
    /// How many there are, those at the same time counted once.
    failed: AtomicU32,
}

impl Silence {
    /// How long a request may take at this time that has so long by itself. Each that fails gives
    /// the next one twice its time, as HBase may be slow, and no more.
    fn timeout(&self, deadline: Duration, now_ms: u64) -> Duration {
        let failed_ms = self.failed_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(failed_ms) >= SHORT_DEADLINE_FOR_MS {
            return deadline;
        }
        let doublings = self.failed.load(Ordering::Relaxed).saturating_sub(1);
        (SHORT_DEADLINE * (1 << doublings.min(MOST_DOUBLINGS))).min(deadline)
    }

    /// A request failed that began at that time.
    fn record(&self, began_ms: u64, now_ms: u64) {
        let failed_ms = self.failed_ms.swap(now_ms, Ordering::Relaxed);
        if began_ms >= failed_ms {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        self.failed_ms.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}

/// What keyspaces share.
pub(crate) struct Cluster {
    pub(crate) gateways: Gateways,
    pub(crate) clock: Clock,
    /// Drawn when the cluster was opened.
    pub(crate) writer: u64,
    pub(crate) silence: Silence,
    /// Dead rows that were taken away.
    pub(crate) purged: AtomicU64,
    pub(crate) options: HbaseOptions,
}

impl Cluster {
    /// Makes calls that read, within the deadline of a request: a short one right behind a request
    /// that found nobody, so that a queue of requests does not wait as long for each of them. Every
    /// write begins with a read.
    pub(crate) fn read<T>(&self, call: impl FnOnce(&Calls<'_>) -> Result<T>) -> Result<T> {
        let began_ms = now_ms();
        let timeout = self.silence.timeout(self.options.deadline, began_ms);
        let outcome = call(&self.gateways.within(timeout));
        match &outcome {
            Err(error) if error.is_unreachable() => self.silence.record(began_ms, now_ms()),
            _ => self.silence.end(),
        }
        outcome
    }

    /// How many calls can be under way at once.
    pub(crate) fn connections(&self) -> usize {
        self.gateways.count() * self.options.gateways.connections
    }

    /// Makes a call that is given up soon, as the caller knows another way.
    pub(crate) fn try_read<T>(&self, call: impl FnOnce(&Calls<'_>) -> Result<T>) -> Result<T> {
        let timeout = self.silence.timeout(self.options.deadline, now_ms());
        let outcome = call(&self.gateways.within(timeout.min(TRY_FOR)));
        if outcome.is_ok() {
            self.silence.end();
        }
        outcome
    }

    /// Makes calls that write, within the deadline of a request.
    pub(crate) fn write<T>(&self, call: impl FnOnce(&Calls<'_>) -> T) -> T {
        call(&self.gateways.within(self.options.deadline))
    }

    /// For a change that others may overtake.
    pub(crate) fn attempts(&self) -> Attempts {
        Attempts {
            until: Instant::now() + self.options.deadline,
            made: 0,
        }
    }
}

/// The attempts of one change.
pub(crate) struct Attempts {
    until: Instant,
    made: u32,
}

impl Attempts {
    /// Lets a change that was overtaken try again: soon at first, and later after a random wait, so
    /// that not all come back together.
    ///
    /// # Errors
    /// The deadline is over.
    pub(crate) fn again(&mut self, key: &[u8]) -> hedgerow::Result<()> {
        if Instant::now() >= self.until {
            return Err(hedgerow::Error::Backend(
                format!(
                    "{} attempts to change {:?} were overtaken by others, and nothing happened; \
                     spread these changes over more keys",
                    self.made + 1,
                    key.escape_ascii().to_string()
                )
                .into(),
            ));
        }
        self.made += 1;
        if self.made > 2 {
            let most_us = 500_u64 << self.made.min(6);
            std::thread::sleep(Duration::from_micros(rand::random_range(0..most_us)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_behind_one_that_found_nobody_get_a_tenth_of_a_second_then_more() {
        const DEADLINE: Duration = Duration::from_secs(30);
        let ms = |silence: &Silence, now_ms| silence.timeout(DEADLINE, now_ms).as_millis();
        let silence = Silence::default();
        assert_eq!(ms(&silence, 5_000_000), 30_000);
        for expected in [100, 200, 400, 800, 1600, 3200, 3200] {
            silence.record(5_000_000, 5_000_000);
            // Those that began before that fail with it.
            silence.record(4_999_999, 5_000_000);
            assert_eq!(ms(&silence, 5_000_999), expected);
            assert_eq!(ms(&silence, 5_001_000), 30_000);
        }
        assert_eq!(
            silence.timeout(Duration::from_millis(50), 5_000_000),
            Duration::from_millis(50)
        );
        silence.end();
        assert_eq!(ms(&silence, 5_000_000), 30_000);
        silence.record(5_000_000, 5_000_000);
        assert_eq!(ms(&silence, 5_000_000), 100);
    }
}
