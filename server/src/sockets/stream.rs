//! One connection, over TCP or a Unix domain socket, or a request that came by UDP.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use super::address::SocketAddress;
use super::datagram::Exchange;

/// How long a client may be silent before the system asks whether it is there; as in Redis.
const ASKED_AFTER: Duration = Duration::from_secs(300);
/// Between two such questions.
const ASKED_AGAIN: Duration = Duration::from_secs(100);

/// A connected socket that does not block, or what takes the place of one.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// The worker's port sends the reply.
    Datagram(Box<Exchange>),
}

/// The same expression over any stream.
macro_rules! any {
    ($stream:expr, $inner:ident => $use:expr) => {
        match $stream {
            Stream::Tcp($inner) => $use,
            Stream::Unix($inner) => $use,
            Stream::Datagram($inner) => $use,
        }
    };
}

/// The same expression over either connected socket, and nothing to do for a datagram.
macro_rules! connected {
    ($stream:expr, $inner:ident => $use:expr) => {
        match $stream {
            Stream::Tcp($inner) => $use,
            Stream::Unix($inner) => $use,
            Stream::Datagram(_) => Ok(()),
        }
    };
}

impl Stream {
    /// Has replies sent at once, as they go out in one write and waiting for more would only delay
    /// them; and has the system find out whether a silent client is still there, whose connection
    /// would stay for ever if its host or the way to it had gone.
    pub(crate) fn set_up(&self) {
        if let Stream::Tcp(stream) = self {
            // Whether they are refused changes no answer.
            let _ = stream.set_nodelay(true);
            let asked = TcpKeepalive::new().with_time(ASKED_AFTER);
            let _ = SockRef::from(stream).set_tcp_keepalive(&asked.with_interval(ASKED_AGAIN));
        }
    }

    /// Where the client is, as far as the system tells.
    pub(crate) fn peer(&self) -> Option<SocketAddress> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok().map(SocketAddress::Tcp),
            Stream::Unix(_) => self.own(),
            Stream::Datagram(exchange) => Some(SocketAddress::Tcp(exchange.client())),
        }
    }

    /// Where the server's end is, as far as the system tells.
    pub(crate) fn own(&self) -> Option<SocketAddress> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok().map(SocketAddress::Tcp),
            Stream::Unix(stream) => {
                let address = stream.local_addr().ok()?;
                Some(SocketAddress::Unix(address.as_pathname()?.to_owned()))
            }
            Stream::Datagram(exchange) => Some(SocketAddress::Tcp(exchange.own())),
        }
    }

    /// The socket of this connection alone. A datagram has none.
    #[inline]
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Stream::Tcp(stream) => Some(stream.as_fd()),
            Stream::Unix(stream) => Some(stream.as_fd()),
            Stream::Datagram(_) => None,
        }
    }

    /// Bytes of memory that it takes up beyond what all connections do.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Datagram(exchange) => exchange.memory(),
        }
    }

    /// Tells the client that nothing more will come.
    pub(crate) fn end_writing(&self) {
        // The client may be gone already.
        let _ = connected!(self, stream => stream.shutdown(Shutdown::Write));
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        any!(self, stream => stream.read(buffer))
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        any!(self, stream => stream.write(bytes))
    }

    #[inline]
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        any!(self, stream => stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        any!(self, stream => stream.flush())
    }
}

impl Source for Stream {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        connected!(self, stream => stream.register(registry, token, interests))
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        connected!(self, stream => stream.reregister(registry, token, interests))
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        connected!(self, stream => stream.deregister(registry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_is_asked_whether_it_is_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let kept = accepted.try_clone().unwrap();
        accepted.set_nonblocking(true).unwrap();
        Stream::Tcp(TcpStream::from_std(accepted)).set_up();
        assert!(kept.nodelay().unwrap());
        assert!(SockRef::from(&kept).keepalive().unwrap());
    }
}
