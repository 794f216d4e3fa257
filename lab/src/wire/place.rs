//! Where a server is asked, and a connection to it: over TCP or a Unix domain socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;

/// How long a server may take for one batch before the run is given up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where a server is asked.
#[derive(Debug, Clone)]
pub enum Place {
    /// A port.
    Tcp(SocketAddr),
    /// The file of a Unix domain socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Path> for Place {
    fn from(file: &Path) -> Self {
        Self::Unix(file.to_owned())
    }
}

/// A blocking connection that sends at once and does not wait for ever.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects.
pub(super) fn connect(place: &Place) -> Result<Stream> {
    match place {
        Place::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(Stream::Tcp(stream))
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(Stream::Unix(stream))
        }
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            Self::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
