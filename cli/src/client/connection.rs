//! A connection to a RESP server: a request out, a reply in.

use std::io::{self, BufRead, BufReader, Read, Write};

use super::reply::Reply;
use crate::address::{ServerAddress, ServerStream};
use crate::error::{Error, Result};

/// The deepest nesting of a reply that is read.
const DEEPEST: usize = 64;
/// Memory that the announced length of a string or list is believed to need before it is there.
const BELIEVED: usize = 1 << 16;

/// A connection.
pub(crate) struct Connection {
    stream: BufReader<ServerStream>,
    address: ServerAddress,
}

/// Whether a server that obeys has no reply.
fn asks_for_the_end(words: &[Vec<u8>]) -> bool {
    let command = words.first();
    command.is_some_and(|command| command.eq_ignore_ascii_case(b"SHUTDOWN"))
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: ServerAddress) -> Result<Connection> {
        let stream = address.connect().map_err(|source| {
            Error::Failed(format!(
                "could not connect to {address}: {source}; start hedgerow serve, or name another \
                 server with --resp"
            ))
        })?;
        let stream = BufReader::with_capacity(1 << 16, stream);
        Ok(Connection { stream, address })
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let reply = self.stream.get_mut().write_all(&request);
        let reply = reply.and_then(|()| self.reply(DEEPEST));
        reply.or_else(|source| match source.kind() {
            // It answers with the end of the connection.
            io::ErrorKind::UnexpectedEof if asks_for_the_end(words) => {
                Ok(Reply::Simple("the server shuts down".to_owned()))
            }
            io::ErrorKind::UnexpectedEof => {
                let closed = format!("{} closed the connection", self.address);
                Err(Error::Failed(closed))
            }
            _ => Err(Error::Failed(format!(
                "the connection to {} failed: {source}",
                self.address
            ))),
        })
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    fn reply(&mut self, depth: usize) -> io::Result<Reply> {
        let line = self.line()?;
        let text = || String::from_utf8_lossy(&line[1..]).into_owned();
        let malformed = || {
            let shown = String::from_utf8_lossy(&line).into_owned();
            io::Error::other(format!("it sent {shown:?}, which is no reply of RESP 2"))
        };
        let number = || text().parse::<i64>().map_err(|_| malformed());
        match line.first() {
            Some(b'+') => Ok(Reply::Simple(text())),
            Some(b'-') => Ok(Reply::Error(text())),
            Some(b':') => Ok(Reply::Integer(number()?)),
            Some(b'$') => match usize::try_from(number()?) {
                Ok(len) => self.bulk(len).map(Reply::Bulk),
                Err(_) => Ok(Reply::Null),
            },
            Some(b'*') if depth > 0 => match usize::try_from(number()?) {
                Ok(len) => {
                    let mut items = Vec::with_capacity(len.min(BELIEVED / size_of::<Reply>()));
                    for _ in 0..len {
                        items.push(self.reply(depth - 1)?);
                    }
                    Ok(Reply::Array(items))
                }
                Err(_) => Ok(Reply::Null),
            },
            _ => Err(malformed()),
        }
    }

    fn bulk(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len.min(BELIEVED));
        let wanted = len as u64 + 2;
        let read = self.stream.by_ref().take(wanted).read_to_end(&mut bytes)?;
        if (read as u64) < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}
