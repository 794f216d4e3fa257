//! The least that a server does: what sockets alone cost, under every figure from client to server.
//!
//! One thread waits for connections that have something to read, reads each once, answers from the
//! standard library's hash table, and writes once. It knows `GET`, `SET` and `DEL` in Redis's
//! protocol, keeps no order and no log, and trusts its clients: no server that does more than this
//! takes less time.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::{LabError, Result};

/// The hidden subcommand that serves.
pub const SUBCOMMAND: &str = "bare-server";

const LISTENER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
const READ_BYTES: usize = 16 << 10;

type Rows = HashMap<Vec<u8>, Vec<u8>>;

/// The words of a request, and the bytes behind it.
type Request<'a> = (Vec<&'a [u8]>, &'a [u8]);

/// A client, and the part of a request that it sent already.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Serves until it is killed.
///
/// # Errors
///
/// An address that cannot be bound, a system that does not poll.
pub fn serve(address: SocketAddr) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address)?;
    let readable = Interest::READABLE;
    poll.registry()
        .register(&mut listener, LISTENER, readable)?;
    let mut events = Events::with_capacity(EVENTS);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let (mut rows, mut replies) = (Rows::new(), Vec::new());
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for event in &events {
            if event.token() != LISTENER {
                let connection = &mut connections[event.token().0];
                let open = connection.as_mut();
                let answered = open.is_some_and(|open| open.answer(&mut rows, &mut replies));
                if !answered {
                    *connection = None;
                }
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true)?;
                let token = Token(connections.len());
                poll.registry().register(&mut stream, token, readable)?;
                connections.push(Some(Connection {
                    stream,
                    received: Vec::new(),
                }));
            }
        }
    }
}

impl Connection {
    /// Answers what has arrived; `false` if the client is gone or not understood.
    fn answer(&mut self, rows: &mut Rows, replies: &mut Vec<u8>) -> bool {
        let mut bytes = [0; READ_BYTES];
        loop {
            let read = match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            self.received.extend_from_slice(&bytes[..read]);
            let Ok(used) = answer_all(&self.received, rows, replies) else {
                return false;
            };
            self.received.drain(..used);
            if !replies.is_empty() && self.stream.write_all(replies).is_err() {
                return false;
            }
            replies.clear();
            if read < bytes.len() {
                return true;
            }
        }
    }
}

/// Answers the whole requests that some bytes begin with; how many bytes these are.
fn answer_all(received: &[u8], rows: &mut Rows, replies: &mut Vec<u8>) -> Result<usize> {
    let mut rest = received;
    while let Some((words, behind)) = request(rest)? {
        match (words[0], &words[1..]) {
            (b"GET", [key]) => match rows.get(*key) {
                Some(value) => {
                    write!(replies, "${}\r\n", value.len())?;
                    replies.extend_from_slice(value);
                    replies.extend_from_slice(b"\r\n");
                }
                None => replies.extend_from_slice(b"$-1\r\n"),
            },
            (b"SET", [key, value, condition @ ..]) => {
                let refused = match condition {
                    [b"NX"] => rows.contains_key(*key),
                    [b"XX"] => !rows.contains_key(*key),
                    _ => false,
                };
                if refused {
                    replies.extend_from_slice(b"$-1\r\n");
                } else {
                    rows.insert(key.to_vec(), value.to_vec());
                    replies.extend_from_slice(b"+OK\r\n");
                }
            }
            (b"DEL", [key]) => write!(replies, ":{}\r\n", u8::from(rows.remove(*key).is_some()))?,
            _ => replies.extend_from_slice(b"-ERR unknown command\r\n"),
        }
        rest = behind;
    }
    Ok(received.len() - rest.len())
}

/// The words of the request that some bytes begin with, and what is behind it; `None` as long as a
/// part is missing.
fn request(bytes: &[u8]) -> Result<Option<Request<'_>>> {
    let Some((count, mut rest)) = number(b'*', bytes)? else {
        return Ok(None);
    };
    let mut words = Vec::with_capacity(count.min(8));
    for _ in 0..count.max(1) {
        let Some((length, behind)) = number(b'$', rest)? else {
            return Ok(None);
        };
        if behind.len() < length + 2 {
            return Ok(None);
        }
        words.push(&behind[..length]);
        rest = &behind[length + 2..];
    }
    Ok(Some((words, rest)))
}

/// A line of a mark and a number, and what is behind it.
fn number(mark: u8, bytes: &[u8]) -> Result<Option<(usize, &[u8])>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let digits = bytes[..end].strip_prefix(&[mark]);
    let digits = digits.and_then(|digits| digits.strip_suffix(b"\r"));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    let number = number.and_then(|digits| digits.parse::<u16>().ok());
    let number = number.ok_or_else(|| LabError::Usage("not a request of Redis's".to_owned()))?;
    Ok(Some((usize::from(number), &bytes[end + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_as_redis_does_and_waits_for_the_rest_of_a_request() {
        let (mut rows, mut replies) = (Rows::new(), Vec::new());
        let sent = b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv1\r\n$2\r\nXX\r\n\
                     *4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv1\r\n$2\r\nNX\r\n\
                     *4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv2\r\n$2\r\nNX\r\n\
                     *2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n\
                     *2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        for end in 0..sent.len() {
            let used = answer_all(&sent[..end], &mut rows, &mut replies).expect("requests");
            assert!(used <= end);
            rows.clear();
            replies.clear();
        }
        let used = answer_all(sent, &mut rows, &mut replies).expect("requests");
        assert_eq!(used, sent.len());
        let said = String::from_utf8_lossy(&replies).into_owned();
        let expected = "$-1\r\n+OK\r\n$-1\r\n$2\r\nv1\r\n:1\r\n$-1\r\n";
        assert_eq!(said, expected);
        assert!(answer_all(b"hello\r\n", &mut rows, &mut replies).is_err());
    }
}
