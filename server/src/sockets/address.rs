//! One end of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where one end of a connection is. Shown as Redis shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketAddress {
    /// An address and a port, of TCP or UDP.
    Tcp(SocketAddr),
    /// The file of the server's socket: clients have none of their own.
    Unix(PathBuf),
}

impl SocketAddress {
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, SocketAddress::Unix(_))
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Tcp(address) => address.fmt(f),
            SocketAddress::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}
