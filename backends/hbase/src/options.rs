//! How gateways are used: limits on time, connections and bytes.

use std::time::Duration;

use crate::error::{Error, Result};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Limits on time, connections and bytes. [`Default`] suits gateways with HBase's own defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most connections to one gateway, whatever they do: callers wait for a free one. 8 by
    /// default. A gateway serves each connection with a thread of its own, of which it has
    /// `hbase.thrift.minWorkerThreads` (16) at once; connections beyond them may wait in its queue
    /// without an answer. So the sum over all clients of a gateway should stay below that.
    pub connections: usize,
    /// The most connections to one gateway that stay open while nobody uses them. 8 by default.
    pub idle_connections: usize,
    /// How long a connection stays open while nobody uses it: 30 s by default. It must be less than
    /// the gateway's own timeout, `hbase.thrift.server.socket.read.timeout` (60 s), after which the
    /// gateway closes the connection, perhaps just as a call is sent on it.
    pub idle_timeout: Duration,
    /// How long a new connection may take, with the first answer on it: 3 s by default.
    pub connect_timeout: Duration,
    /// How long a call that may be repeated waits for an answer before it is repeated, where its
    /// deadline leaves more time: 20 s by default.
    pub attempt_timeout: Duration,
    /// How many times a call is sent at most: 5 by default.
    pub attempts: u32,
    /// The shortest pause before a gateway that failed is tried again, and before a call that HBase
    /// refused for now is repeated: 100 ms by default. It doubles with each failure, and varies by
    /// a quarter, so that clients do not all come back at once.
    pub min_backoff: Duration,
    /// The longest such pause: 5 s by default.
    pub max_backoff: Duration,
    /// The longest request, in bytes: 2 MiB by default, which is what gateways accept unless
    /// `hbase.regionserver.thrift.framed.max_frame_size_in_mb` says otherwise. A gateway closes the
    /// connection at a longer one.
    pub request_limit_bytes: usize,
    /// The longest answer, in bytes: 256 MiB by default.
    pub reply_limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connections: 8,
            idle_connections: 8,
            idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(3),
            attempt_timeout: Duration::from_secs(20),
            attempts: 5,
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            request_limit_bytes: 2 << 20,
            reply_limit_bytes: 256 << 20,
        }
    }
}

impl Options {
    /// Fails with [`Error::InvalidOption`] where an option makes every call fail.
    pub(crate) fn check(&self) -> Result<()> {
        let faults = [
            (self.connections == 0, "connections must be at least 1"),
            (self.attempts == 0, "attempts must be at least 1"),
            (
                self.connect_timeout.is_zero() || self.attempt_timeout.is_zero(),
                "timeouts must be more than nothing",
            ),
            (
                self.connect_timeout.max(self.attempt_timeout) > DAY || self.max_backoff > DAY,
                "timeouts and pauses must be at most a day",
            ),
            (
                self.min_backoff.is_zero() || self.min_backoff > self.max_backoff,
                "min_backoff must be more than nothing and at most max_backoff",
            ),
            (
                self.request_limit_bytes > i32::MAX as usize
                    || self.reply_limit_bytes > i32::MAX as usize,
                "limits of requests and answers must be less than 2 GiB",
            ),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, why)) => Err(Error::InvalidOption(why)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_nonsense_is_not() {
        assert_eq!(Options::default().check(), Ok(()));
        let nonsense: [fn(&mut Options); 8] = [
            |options| options.connections = 0,
            |options| options.attempts = 0,
            |options| options.connect_timeout = Duration::ZERO,
            |options| options.attempt_timeout = Duration::MAX,
            |options| options.max_backoff = Duration::MAX,
            |options| options.min_backoff = Duration::from_secs(6),
            |options| options.request_limit_bytes = 1 << 31,
            |options| options.reply_limit_bytes = usize::MAX,
        ];
        for set in nonsense {
            let mut options = Options::default();
            set(&mut options);
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
