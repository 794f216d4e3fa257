//! Why a server could not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a server could not start, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A port that other machines can reach, and no password.
    #[error(
        "refusing to listen on {address} without a password, because other machines can reach it; \
         set a password or listen on 127.0.0.1"
    )]
    PasswordNeeded {
        /// The address asked for.
        address: SocketAddr,
    },
    /// A port for memcached clients or HTTP that other machines can reach, no password, and
    /// nobody who said that this is meant.
    #[error(
        "refusing to listen on {address} ({protocol}) without a password, because other machines \
         can reach it; set a password, listen on 127.0.0.1, or allow it explicitly \
         (allow-unprotected)"
    )]
    Unprotected {
        /// What would be spoken there.
        protocol: &'static str,
        /// The address asked for.
        address: SocketAddr,
    },
    /// An option is out of range.
    #[error("invalid server option: {0}")]
    InvalidOption(String),
    /// An address could not be bound.
    #[error("could not listen on {address}: {source}; choose another address or stop its user")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// A UDP port of a worker could not be bound.
    #[error(
        "could not listen on udp:{address}: {source}; choose another address or stop its user: \
         each worker has a port of its own, one behind the other"
    )]
    BindUdp {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// A Unix domain socket could not be made.
    #[error(
        "could not listen on unix:{}: {source}; choose another path, stop its user or remove it",
        path.display()
    )]
    BindUnix {
        /// The file asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The database refused what the server needs at its start.
    #[error("the database could not be used: {0}")]
    Database(#[from] hedgerow::Error),
    /// io_uring was asked for, and the kernel or a policy forbids it.
    #[error(
        "io_uring cannot be used: {source}; ask for another event loop (--event-loop auto or epoll)"
    )]
    EventLoop {
        /// What the operating system said.
        source: io::Error,
    },
    /// The operating system refused a thread, a poll, or a waker.
    #[error("could not {operation}: {source}; check the limits of this process")]
    System {
        /// What was tried, as a verb.
        operation: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A thread of the server panicked, so the server asked to be stopped.
    #[error("the thread {thread} panicked; report the message that it wrote, and start again")]
    Panicked {
        /// Its name.
        thread: String,
    },
    /// The event loop of a thread failed, so the server asked to be stopped.
    #[error(
        "the event loop of the thread {thread} failed: {reason}; check the limits of this process, \
         and start again"
    )]
    EventLoopFailed {
        /// The thread's name.
        thread: String,
        /// What the operating system said.
        reason: String,
    },
}

impl Error {
    pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { operation, source }
    }
}
