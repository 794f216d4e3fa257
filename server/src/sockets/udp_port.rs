//! A UDP port, which one worker reads from and answers.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::{Exchange, LONGEST_DATAGRAM, Outgoing};
use crate::error::{Error, Result};

/// How many rows of ports are tried where any will do.
const TRIES: usize = 32;
/// Bytes that the system keeps for a worker that is busy, and of replies on their way: it may allow
/// fewer.
const WAITING_BYTES: usize = 4 << 20;
/// Replies that are sent in one call.
const SENT_TOGETHER: usize = 64;

/// A bound port. It does not block.
pub(crate) struct UdpPort {
    socket: UdpSocket,
    at: SocketAddr,
    buffer: Box<[u8]>,
    /// Replies that are to be sent together.
    pub(crate) outgoing: Vec<Outgoing>,
}

/// What came of a look for a datagram.
pub(crate) enum Received {
    /// A request, or what an error is replied to.
    Exchange(Exchange),
    /// Something that cannot be answered.
    Nothing,
    /// There is no other for now.
    Drained,
}

impl UdpPort {
    /// Binds as many ports as there are workers, one behind the other, and the first at an
    /// address; at port 0, wherever so many are free.
    ///
    /// # Errors
    /// [`Error::BindUdp`].
    pub(crate) fn bind_all(first: SocketAddr, workers: usize) -> Result<Vec<UdpPort>> {
        let tries = if first.port() == 0 { TRIES } else { 1 };
        let mut bound = UdpPort::bind_from(first, workers);
        for _ in 1..tries {
            if bound.is_ok() {
                break;
            }
            bound = UdpPort::bind_from(first, workers);
        }
        bound
    }

    fn bind_from(first: SocketAddr, workers: usize) -> Result<Vec<UdpPort>> {
        let mut ports = vec![UdpPort::bind(first)?];
        for worker in 1..workers {
            let mut next = ports[0].at;
            let port = u16::try_from(worker).ok();
            let port = port.and_then(|worker| next.port().checked_add(worker));
            let Some(port) = port else {
                let source = io::Error::other("there are fewer ports above it than workers");
                return Err(Error::BindUdp {
                    address: first,
                    source,
                });
            };
            next.set_port(port);
            ports.push(UdpPort::bind(next)?);
        }
        Ok(ports)
    }

    fn bind(address: SocketAddr) -> Result<UdpPort> {
        let bind = || -> io::Result<UdpPort> {
            let domain = Domain::for_address(address);
            let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
            // Where it is refused there is less room.
            let _ = socket.set_recv_buffer_size(WAITING_BYTES);
            let _ = socket.set_send_buffer_size(WAITING_BYTES);
            socket.bind(&address.into())?;
            socket.set_nonblocking(true)?;
            let socket = std::net::UdpSocket::from(socket);
            let at = socket.local_addr()?;
            Ok(UdpPort {
                socket: UdpSocket::from_std(socket),
                at,
                buffer: vec![0; LONGEST_DATAGRAM + 1].into(),
                outgoing: Vec::new(),
            })
        };
        bind().map_err(|source| Error::BindUdp { address, source })
    }

    /// Where it is.
    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Has a poll tell when datagrams arrive.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// Takes a datagram.
    pub(crate) fn receive(&mut self) -> Received {
        match self.socket.recv_from(&mut self.buffer) {
            Ok((count, client)) => {
                let begun = Exchange::begin(client, self.at, &self.buffer[..count]);
                begun.map_or(Received::Nothing, Received::Exchange)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Drained,
            // Such as that an earlier reply found nobody.
            Err(_) => Received::Nothing,
        }
    }

    /// Sends the replies, in one system call if there are several. Those for which the system has
    /// no room are lost, as any datagram may be: how many.
    pub(crate) fn send(&mut self) -> usize {
        let (mut sent, mut lost) = (0, 0);
        while sent < self.outgoing.len() {
            let end = self.outgoing.len().min(sent + SENT_TOGETHER);
            match send_some(&self.socket, &self.outgoing[sent..end]) {
                Ok(count) => sent += count.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // One that cannot be sent keeps no other back.
                Err(_) => (sent, lost) = (sent + 1, lost + 1),
            }
        }
        self.outgoing.clear();
        lost
    }
}

/// Sends the first of some datagrams: how many.
#[cfg(target_os = "linux")]
fn send_some(socket: &UdpSocket, datagrams: &[Outgoing]) -> io::Result<usize> {
    use rustix::net::addr::SocketAddrArg;
    use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

    if let [alone] = datagrams {
        return send_first(socket, alone);
    }
    let addresses: Vec<_> = datagrams.iter().map(|each| each.to.as_any()).collect();
    let parts: Vec<_> = datagrams
        .iter()
        .map(|each| [IoSlice::new(&each.bytes)])
        .collect();
    let mut without: Vec<_> = datagrams
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let messages = addresses.iter().zip(&parts).zip(&mut without);
    let mut messages: Vec<_> = messages
        .map(|((to, parts), without)| MMsgHdr::new_with_addr(to, parts, without))
        .collect();
    Ok(sendmmsg(socket, &mut messages, SendFlags::DONTWAIT)?)
}

/// Sends the first of some datagrams: how many.
#[cfg(not(target_os = "linux"))]
fn send_some(socket: &UdpSocket, datagrams: &[Outgoing]) -> io::Result<usize> {
    datagrams
        .first()
        .map_or(Ok(0), |first| send_first(socket, first))
}

fn send_first(socket: &UdpSocket, datagram: &Outgoing) -> io::Result<usize> {
    socket.send_to(&datagram.bytes, datagram.to).map(|_| 1)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn workers_have_ports_one_behind_the_other() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let ports = UdpPort::bind_all(any, 3).unwrap();
        let first = ports[0].at().port();
        let found: Vec<u16> = ports.iter().map(|port| port.at().port()).collect();
        assert_eq!(found, [first, first + 1, first + 2]);
        let taken = UdpPort::bind_all(ports[1].at(), 1).err().unwrap();
        assert!(taken.to_string().contains("udp:127.0.0.1"), "{taken}");
        let last = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::MAX));
        assert!(UdpPort::bind_all(last, 2).is_err());
    }
}
