//! Where a server is asked, and a connection to it: over TCP or a Unix domain socket; or by UDP,
//! where a request is one datagram and so is its reply, framed as memcached frames them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
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
    /// A UDP port.
    Udp(SocketAddr),
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
    Udp(Datagrams),
}

/// Bytes before the request or the reply in a datagram: the request's id, the datagram's number,
/// how many there are, and two that are zero.
const FRAME_BYTES: usize = 8;

/// A socket that sends to one server, with one request under way.
pub(super) struct Datagrams {
    socket: UdpSocket,
    /// That of the last request.
    id: u16,
    buffer: Vec<u8>,
    /// What was received of the last reply and not read.
    left: Range<usize>,
}

impl Datagrams {
    fn connect(address: &SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            socket,
            id: 0,
            buffer: vec![0; 2048],
            left: 0..0,
        })
    }

    fn frame(&self) -> [u8; FRAME_BYTES] {
        let id = self.id.to_be_bytes();
        [id[0], id[1], 0, 0, 0, 1, 0, 0]
    }
}

impl Read for Datagrams {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            let count = self.socket.recv(&mut self.buffer)?;
            if count < FRAME_BYTES || self.buffer[..FRAME_BYTES] != self.frame() {
                return Err(io::Error::other("a datagram that is no whole reply"));
            }
            self.left = FRAME_BYTES..count;
        }
        let read = (&self.buffer[self.left.clone()]).read(to)?;
        self.left.start += read;
        Ok(read)
    }
}

impl Write for Datagrams {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.id = self.id.wrapping_add(1);
        self.left = 0..0;
        let frame = self.frame();
        self.buffer[..FRAME_BYTES].copy_from_slice(&frame);
        let end = FRAME_BYTES + bytes.len();
        let room = self.buffer.get_mut(FRAME_BYTES..end);
        let room = room.ok_or_else(|| io::Error::other("a request longer than a datagram"))?;
        room.copy_from_slice(bytes);
        self.socket.send(&self.buffer[..end])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        Place::Udp(address) => Ok(Stream::Udp(Datagrams::connect(address)?)),
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            Self::Unix(stream) => stream.read(to),
            Self::Udp(datagrams) => datagrams.read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Udp(datagrams) => datagrams.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Udp(datagrams) => datagrams.flush(),
        }
    }
}
