//! File descriptors: how many connections there can be, and what happens when there are no more.
//!
//! The process's limit, less what the rest of the server needs, bounds the number of connections.
//! Other code in the process may use descriptors, too. So threads that accept keep a few in
//! reserve, with which they can accept a connection and refuse it with an error instead of letting
//! it wait.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Connections of the HTTP port at a time.
pub(crate) const HTTP_CONNECTIONS: usize = 32;

/// Descriptors that are there to be given up: copies of a listening socket.
pub(crate) struct Reserve {
    listener: OwnedFd,
    spares: Vec<OwnedFd>,
    wanted: usize,
}

impl Reserve {
    /// Takes so many descriptors.
    pub(crate) fn new(listener: &impl AsFd, wanted: usize) -> io::Result<Reserve> {
        let mut reserve = Reserve {
            listener: listener.as_fd().try_clone_to_owned()?,
            spares: Vec::new(),
            wanted,
        };
        for _ in 0..wanted {
            reserve.spares.push(reserve.listener.try_clone()?);
        }
        Ok(reserve)
    }

    /// Accepts; if there is no descriptor left, with one of the reserve.
    pub(crate) fn accept<T>(&mut self, accept: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let outcome = accept();
        match &outcome {
            Err(error) if is_shortage(error) => match self.spares.pop() {
                Some(spare) => {
                    drop(spare);
                    accept()
                }
                None => outcome,
            },
            _ => outcome,
        }
    }

    /// Fills the reserve up as far as there are descriptors: after a connection was closed.
    pub(crate) fn refill(&mut self) {
        while self.spares.len() < self.wanted {
            match self.listener.try_clone() {
                Ok(spare) => self.spares.push(spare),
                Err(_) => return,
            }
        }
    }

    /// Whether nothing of the reserve is in use.
    pub(crate) fn is_full(&self) -> bool {
        self.spares.len() == self.wanted
    }
}

/// Whether a connection could not be accepted although it is there.
fn is_shortage(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

/// How long to wait before accepting is tried again, after so many failures in a row.
pub(crate) fn retry_after(failures: u32) -> Duration {
    Duration::from_millis(20 << failures.min(6))
}

/// What the server needs besides its clients' connections: files of the database, event loops
/// and their rings and UDP ports, listening sockets and the reserve, standard streams.
fn own_descriptors(workers: usize) -> usize {
    32 + HTTP_CONNECTIONS + 8 * workers
}

/// The most connections that the process's limit of open files leaves room for; at least one.
pub(crate) fn room_for_connections(workers: usize) -> usize {
    let limit = open_file_limit().unwrap_or(usize::MAX);
    limit.saturating_sub(own_descriptors(workers)).max(1)
}

/// As many connections as are wanted, or as there is [room](room_for_connections) for.
pub(crate) fn most_connections(wanted: usize, workers: usize) -> usize {
    let most = room_for_connections(workers);
    if most < wanted {
        tracing::info!(
            open_files = open_file_limit(),
            max_connections = most,
            wanted,
            "the limit of open files (ulimit -n) allows fewer connections than asked for"
        );
    }
    wanted.min(most)
}

#[cfg(unix)]
fn open_file_limit() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit
        .current
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn open_file_limit() -> Option<usize> {
    None
}

/// Raises the process's limit of open files as far as the system lets it: many systems start
/// programs with a low one, and leave it to those that need more to ask. For programs to call at
/// their start; does nothing if it is refused, or where there is no such limit.
pub fn raise_open_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        // If it is refused, there are fewer connections, and `most_connections` says how many.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::TcpListener;

    #[test]
    fn a_shortage_is_met_from_the_reserve() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reserve = Reserve::new(&listener, 2).unwrap();
        let calls = Cell::new(0);
        // The process has no descriptor until one of the reserve is given up.
        let accept = || {
            calls.set(calls.get() + 1);
            match calls.get() % 2 {
                1 => Err(io::Error::other("too many open files")),
                _ => Ok(()),
            }
        };
        reserve.accept(accept).unwrap();
        assert!(!reserve.is_full());
        reserve.accept(accept).unwrap();
        assert!(reserve.accept(accept).is_err(), "the reserve is empty");
        reserve.refill();
        assert!(reserve.is_full());
        let nobody = || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock));
        assert!(reserve.accept(nobody).is_err());
        assert!(reserve.is_full(), "nobody was waiting");
    }

    #[test]
    fn connections_leave_room_for_files_and_probes() {
        assert_eq!(most_connections(1, 1), 1);
        if let Some(limit) = open_file_limit() {
            let most = most_connections(usize::MAX, 2);
            assert!(most < limit || limit < own_descriptors(2));
        }
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        assert_eq!(retry_after(0), Duration::from_millis(20));
        assert_eq!(retry_after(1), Duration::from_millis(40));
        assert_eq!(retry_after(1000), Duration::from_millis(1280));
    }
}
