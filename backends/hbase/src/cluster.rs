//! What all keyspaces of one HBase namespace share: the gateways, and who writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::gateways::Gateways;
use crate::options::Options;
use crate::tombstones::Tombstones;

/// The deadline of requests behind one that found nobody.
const SHORT_DEADLINE: Duration = Duration::from_millis(100);

/// How a [`Hbase`](crate::Hbase) behaves.
#[derive(Clone, Debug)]
pub struct HbaseOptions {
    /// Of the connections to gateways.
    pub gateways: Options,
    /// After so long a request fails.
    pub deadline: Duration,
    /// The longest value, or columns with their names, in bytes.
    pub max_value_bytes: usize,
    /// How long a removed row keeps its tombstone: longer than any write that hangs in a gateway,
    /// and than the clocks of servers differ.
    pub keep_tombstones: Duration,
}

impl Default for HbaseOptions {
    fn default() -> HbaseOptions {
        HbaseOptions {
            gateways: Options::default(),
            deadline: Duration::from_secs(30),
            // What fits a request of 2 MiB, which is what gateways take.
            max_value_bytes: 3 << 19,
            keep_tombstones: Duration::from_secs(3600),
        }
    }
}

/// What keyspaces share.
pub(crate) struct Cluster {
    pub(crate) gateways: Gateways,
    pub(crate) clock: Clock,
    /// Drawn when the cluster was opened.
    pub(crate) writer: u64,
    pub(crate) tombstones: Tombstones,
    /// The last request found no gateway, or got no answer.
    pub(crate) is_unreachable: AtomicBool,
    pub(crate) options: HbaseOptions,
}

impl Cluster {
    /// Makes calls of one request, within its deadline: a short one where the last request found
    /// nobody, so that the requests behind it do not wait as long, one after the other.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&Calls<'_>) -> Result<T>) -> Result<T> {
        let timeout = match self.is_unreachable.load(Ordering::Relaxed) {
            true => SHORT_DEADLINE.min(self.options.deadline),
            false => self.options.deadline,
        };
        let outcome = call(&self.gateways.within(timeout));
        let is_unreachable = outcome.as_ref().is_err_and(Error::is_unreachable);
        self.is_unreachable.store(is_unreachable, Ordering::Relaxed);
        outcome
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
