//! What a server logs about its clients.
//!
//! A client can cause such events as often as it likes. So the server logs each kind at most once a
//! second, with the number of events left out: hostile clients cannot fill a disk with log lines,
//! and the event loops spend little on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::port::PortProtocol;
use crate::sockets::address::SocketAddress;

const INTERVAL_MS: u64 = 1000;
/// Names of commands in one line.
const SHOWN_COMMANDS: usize = 5;

/// The events about clients, each kind at each port with its own limit.
pub(crate) struct ClientEvents {
    started: Instant,
    refused: Limits,
    closed: Limits,
    wrong_passwords: Limits,
    slow: Limit,
    slow_together: Limit,
    descriptors: Limits,
}

/// When the next event of a kind may be written, and how many were left out since the last.
#[derive(Default)]
struct Limit {
    next_ms: AtomicU64,
    left_out: AtomicU64,
}

/// One for each port.
type Limits = [Limit; 3];

impl Limit {
    /// Whether an event may be written at `now_ms`; then, how many were left out before it.
    fn admit(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let admitted = now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(
                    next_ms,
                    now_ms + INTERVAL_MS,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if admitted {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl ClientEvents {
    pub(crate) fn new() -> ClientEvents {
        ClientEvents {
            started: Instant::now(),
            refused: Limits::default(),
            closed: Limits::default(),
            wrong_passwords: Limits::default(),
            slow: Limit::default(),
            slow_together: Limit::default(),
            descriptors: Limits::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// A connection was refused as it came.
    pub(crate) fn refused(&self, port: PortProtocol, peer: Option<SocketAddress>, reason: &str) {
        if let Some(left_out) = self.refused[port as usize].admit(self.now_ms()) {
            let peer = shown(peer);
            tracing::warn!(%port, peer, reason, left_out, "connection refused");
        }
    }

    /// A connection was closed because of what its client did.
    pub(crate) fn closed(&self, port: PortProtocol, peer: Option<SocketAddress>, reason: &str) {
        if let Some(left_out) = self.closed[port as usize].admit(self.now_ms()) {
            let peer = shown(peer);
            tracing::warn!(%port, peer, reason, left_out, "connection closed");
        }
    }

    /// A client gave a wrong password.
    pub(crate) fn wrong_password(&self, port: PortProtocol, peer: Option<SocketAddress>) {
        let limit = &self.wrong_passwords[port as usize];
        if let Some(left_out) = limit.admit(self.now_ms()) {
            tracing::warn!(%port, peer = shown(peer), left_out, "wrong password");
        }
    }

    /// A command took longer than the threshold by itself.
    pub(crate) fn slow(&self, peer: Option<SocketAddress>, command: &str, took: Duration) {
        if let Some(left_out) = self.slow.admit(self.now_ms()) {
            let (peer, duration_ms) = (shown(peer), took.as_millis() as u64);
            tracing::warn!(peer, command, duration_ms, left_out, "slow command");
        }
    }

    /// Requests that ran together took longer than the threshold, and none whose own time is known
    /// did: so many, the RESP commands among them by name. The peer is known if
    /// all were of one connection.
    pub(crate) fn slow_together(
        &self,
        peer: Option<SocketAddress>,
        commands: impl Iterator<Item = &'static str>,
        requests: u64,
        took: Duration,
    ) {
        let Some(left_out) = self.slow_together.admit(self.now_ms()) else {
            return;
        };
        let mut names: Vec<&str> = Vec::new();
        for command in commands {
            if !names.contains(&command) {
                names.push(command);
            }
            if names.len() == SHOWN_COMMANDS {
                break;
            }
        }
        let (peer, commands) = (shown(peer), names.join(" "));
        let duration_ms = took.as_millis() as u64;
        tracing::warn!(
            peer,
            commands,
            requests,
            duration_ms,
            left_out,
            "slow commands together"
        );
    }

    /// The process has no file descriptor left for a connection that waits.
    pub(crate) fn out_of_descriptors(&self, port: PortProtocol, error: &std::io::Error) {
        if let Some(left_out) = self.descriptors[port as usize].admit(self.now_ms()) {
            tracing::error!(
                %port,
                %error,
                left_out,
                "cannot accept a connection; raise the limit of open files (ulimit -n)"
            );
        }
    }
}

fn shown(peer: Option<SocketAddress>) -> String {
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_a_second_passes_and_the_others_are_counted() {
        let limit = Limit::default();
        assert_eq!(limit.admit(10), Some(0));
        assert_eq!(limit.admit(10), None);
        assert_eq!(limit.admit(1009), None);
        assert_eq!(limit.admit(1010), Some(2));
        assert_eq!(limit.admit(1011), None);
        assert_eq!(limit.admit(99_999), Some(1));
    }
}
