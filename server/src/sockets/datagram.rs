//! One request in a datagram, and its reply in one or several, framed as memcached frames them.
//!
//! ```text
//!  0            2          4           6          8
//! +------------+----------+-----------+----------+----------------------
//! | request id | sequence | datagrams | 0        | of a request or reply
//! +------------+----------+-----------+----------+----------------------
//! ```
//!
//! Each is a number of two bytes, big endian. The client chooses the id, and the reply repeats it.
//! A reply that one datagram has no room for comes in several, whose sequence begins at 0; UDP may
//! lose any of them, or change their order. A request is one datagram.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// Bytes before the request or the reply.
pub(crate) const FRAME_BYTES: usize = 8;
/// Bytes of a datagram with a reply: memcached's, which common networks carry in one piece.
const DATAGRAM_BYTES: usize = 1400;
/// The longest reply, in bytes.
const LONGEST_REPLY: usize = 64 << 10;
/// The longest request with its frame, in bytes.
pub(crate) const LONGEST_DATAGRAM: usize = 4096;

// Where each field of a frame begins: behind the one before.
const SEQUENCE_AT: usize = size_of::<u16>();
const DATAGRAMS_AT: usize = SEQUENCE_AT + size_of::<u16>();
const RESERVED_AT: usize = DATAGRAMS_AT + size_of::<u16>();

// The frame as it is drawn above, and in two bytes as many datagrams as the longest reply takes.
const _: () = {
    assert!(SEQUENCE_AT == 2 && DATAGRAMS_AT == 4 && RESERVED_AT == 6);
    assert!(RESERVED_AT + size_of::<u16>() == FRAME_BYTES);
    assert!(LONGEST_REPLY / (DATAGRAM_BYTES - FRAME_BYTES) < u16::MAX as usize);
};

/// How errors begin. A server at whose port they arrive answers none of them: else a packet with
/// the address of another server would have both send errors to each other without an end.
const ERRORS: [&[u8]; 3] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"];

const SEVERAL: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const TOO_LONG: &[u8] = b"SERVER_ERROR a request over UDP is longer than 4088 bytes: use TCP\r\n";
const INCOMPLETE: &[u8] = b"CLIENT_ERROR the request goes on behind its datagram\r\n";
const REPLY_TOO_LONG: &[u8] = b"SERVER_ERROR the reply is longer than 64 KiB: use TCP\r\n";

/// A datagram to be sent.
pub(crate) struct Outgoing {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// A request that came in a datagram, and the reply as far as it is known: to the event loop, a
/// connection whose client sends this and nothing more.
pub(crate) struct Exchange {
    client: SocketAddr,
    own: SocketAddr,
    id: [u8; 2],
    request: Vec<u8>,
    /// How much of the request was read.
    read: usize,
    reply: Vec<u8>,
    is_too_long: bool,
    is_cut_short: bool,
    is_ended: bool,
}

impl Exchange {
    /// Begins with what came from a client. `None` if that is not to be answered: it has no frame,
    /// or is an error.
    pub(crate) fn begin(client: SocketAddr, own: SocketAddr, datagram: &[u8]) -> Option<Exchange> {
        let (frame, request) = datagram.split_at_checked(FRAME_BYTES)?;
        if ERRORS.iter().any(|error| request.starts_with(error)) {
            return None;
        }
        let mut exchange = Exchange {
            client,
            own,
            id: [frame[0], frame[1]],
            request: Vec::new(),
            read: 0,
            reply: Vec::new(),
            is_too_long: false,
            is_cut_short: false,
            is_ended: false,
        };
        if datagram.len() > LONGEST_DATAGRAM {
            exchange.reply.extend_from_slice(TOO_LONG);
        } else if frame[DATAGRAMS_AT..RESERVED_AT] != 1_u16.to_be_bytes() {
            exchange.reply.extend_from_slice(SEVERAL);
        } else {
            exchange.request.extend_from_slice(request);
        }
        Some(exchange)
    }

    /// Where the client is.
    pub(crate) fn client(&self) -> SocketAddr {
        self.client
    }

    /// Where the request arrived.
    pub(crate) fn own(&self) -> SocketAddr {
        self.own
    }

    /// Whether the reply is too long already, whatever follows.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Whether the reply is complete.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Bytes of memory that are taken up.
    pub(crate) fn memory(&self) -> usize {
        self.request.capacity() + self.reply.capacity()
    }

    /// The last request is none without what would follow.
    pub(crate) fn cut_short(&mut self) {
        self.is_cut_short = true;
    }

    /// Adds the datagrams of the reply, of which there are none if nothing was replied.
    pub(crate) fn end(&mut self, outgoing: &mut Vec<Outgoing>) {
        self.is_ended = true;
        if self.is_cut_short {
            self.reply.extend_from_slice(INCOMPLETE);
        }
        if self.is_too_long {
            self.reply = REPLY_TOO_LONG.to_vec();
        }
        let pieces = self.reply.chunks(DATAGRAM_BYTES - FRAME_BYTES);
        let datagrams = (pieces.len() as u16).to_be_bytes();
        outgoing.extend(pieces.enumerate().map(|(sequence, piece)| {
            let mut bytes = Vec::with_capacity(FRAME_BYTES + piece.len());
            bytes.extend_from_slice(&self.id);
            bytes.extend_from_slice(&(sequence as u16).to_be_bytes());
            bytes.extend_from_slice(&datagrams);
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(piece);
            Outgoing {
                to: self.client,
                bytes,
            }
        }));
    }
}

impl Read for Exchange {
    /// Of the request what was not read; nothing once all of it was.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.request[self.read..]).read(buffer)?;
        self.read += count;
        if self.read == self.request.len() {
            (self.request, self.read) = (Vec::new(), 0);
        }
        Ok(count)
    }
}

impl Write for Exchange {
    /// Adds to the reply. Of one that is too long nothing is kept.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_too_long |= self.reply.len() + bytes.len() > LONGEST_REPLY;
        if self.is_too_long {
            self.reply = Vec::new();
        } else {
            self.reply.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = parts.iter().map(|part| self.write(part));
        written.sum()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn begin(datagram: &[u8]) -> Option<Exchange> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Exchange::begin(address, address, datagram)
    }

    fn replies(mut exchange: Exchange) -> Vec<Vec<u8>> {
        let mut outgoing = Vec::new();
        exchange.end(&mut outgoing);
        outgoing.into_iter().map(|each| each.bytes).collect()
    }

    const FRAME: [u8; 8] = [7, 9, 0, 0, 0, 1, 0, 0];

    #[test]
    fn a_reply_repeats_the_id_and_numbers_its_datagrams() {
        let mut exchange = begin(&[&FRAME, &b"get k\r\n"[..]].concat()).unwrap();
        let mut request = Vec::new();
        exchange.read_to_end(&mut request).unwrap();
        assert_eq!(request, b"get k\r\n");
        let reply: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        exchange.write_all(&reply).unwrap();
        let datagrams = replies(exchange);
        assert_eq!(datagrams.len(), 3);
        let mut joined = Vec::new();
        for (sequence, datagram) in datagrams.iter().enumerate() {
            assert!(datagram.len() <= DATAGRAM_BYTES);
            assert_eq!(datagram[..8], [7, 9, 0, sequence as u8, 0, 3, 0, 0]);
            joined.extend_from_slice(&datagram[8..]);
        }
        assert_eq!(joined, reply);
    }

    #[test]
    fn what_cannot_be_answered_in_datagrams_is_said() {
        let mut long = begin(&FRAME).unwrap();
        for _ in 0..LONGEST_REPLY / 1024 + 1 {
            long.write_all(&[0; 1024]).unwrap();
        }
        assert!(long.reply.len() <= LONGEST_REPLY);
        let mut cut_short = begin(&FRAME).unwrap();
        cut_short.cut_short();
        for (exchange, text) in [
            (long, "longer than 64 KiB"),
            (begin(&[0, 0, 0, 0, 0, 2, 0, 0]).unwrap(), "multi-packet"),
            (begin(&[0; 8]).unwrap(), "multi-packet"),
            (begin(&[0; LONGEST_DATAGRAM + 1]).unwrap(), "use TCP"),
            (cut_short, "goes on"),
        ] {
            let [datagram] = &replies(exchange)[..] else {
                panic!("{text}");
            };
            let reply = String::from_utf8_lossy(&datagram[8..]);
            assert!(reply.contains(text) && reply.ends_with("\r\n"), "{reply}");
        }
        assert!(begin(&FRAME[..7]).is_none());
        for error in [&b"ERROR\r\n"[..], SEVERAL, INCOMPLETE] {
            assert!(begin(&[&FRAME, error].concat()).is_none());
        }
        assert!(replies(begin(&FRAME).unwrap()).is_empty(), "no reply");
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_or_refused(
            mut datagram in prop::collection::vec(any::<u8>(), 0..5000),
            is_whole in any::<bool>(),
        ) {
            if is_whole && datagram.len() >= FRAME_BYTES {
                datagram[DATAGRAMS_AT..RESERVED_AT].copy_from_slice(&1_u16.to_be_bytes());
            }
            let Some(mut exchange) = begin(&datagram) else {
                prop_assert!(datagram.len() < FRAME_BYTES);
                return Ok(());
            };
            let mut request = Vec::new();
            exchange.read_to_end(&mut request).unwrap();
            if is_whole && datagram.len() <= LONGEST_DATAGRAM {
                prop_assert_eq!(&request, &datagram[FRAME_BYTES..]);
                prop_assert!(exchange.reply.is_empty());
            } else if !exchange.reply.is_empty() {
                prop_assert!(request.is_empty());
            }
        }
    }
}
