//! A small RESP2 client: enough to write, read back and pipeline.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+text`
    Simple(String),
    /// `-text`
    Error(String),
    /// `:number`
    Integer(i64),
    /// `$length bytes`, `None` for the null bulk string.
    Bulk(Option<Vec<u8>>),
    /// `*count replies`, `None` for the null array.
    Array(Option<Vec<Reply>>),
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    pending: Vec<u8>,
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a RESP reply: {line:?}"),
    )
}

impl Client {
    /// Connects; replies that take longer than two minutes are errors: only a hang takes longer.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let writer = TcpStream::connect_timeout(&address, Duration::from_secs(120))?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(Duration::from_secs(120)))?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Client {
            reader,
            writer,
            pending: Vec::new(),
        })
    }

    /// Queues one command.
    pub fn queue(&mut self, words: &[&[u8]]) {
        self.pending
            .extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.pending
                .extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.pending.extend_from_slice(word);
            self.pending.extend_from_slice(b"\r\n");
        }
    }

    /// Sends what was queued.
    pub fn send(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    /// Reads one reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let Some(body) = line.strip_suffix("\r\n").filter(|body| !body.is_empty()) else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection closed",
            ));
        };
        let (kind, rest) = body.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| malformed(body));
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Bulk(None)),
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Ok(Reply::Bulk(Some(bytes)))
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Array(None)),
                Ok(count) => {
                    let replies: io::Result<Vec<Reply>> =
                        (0..count).map(|_| self.receive()).collect();
                    Ok(Reply::Array(Some(replies?)))
                }
            },
            _ => Err(malformed(body)),
        }
    }

    /// One command, one reply.
    pub fn call(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.queue(words);
        self.send()?;
        self.receive()
    }

    /// The values of those of some keys that are there, read together with `MGET`; the error says
    /// what was answered instead.
    pub fn read_values(&mut self, keys: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        words.extend(keys.iter().map(Vec::as_slice));
        let reply = self.call(&words).map_err(|e| format!("MGET: {e}"))?;
        let Reply::Array(Some(values)) = reply else {
            return Err(format!("MGET answered {reply:?}"));
        };
        let mut found = BTreeMap::new();
        for (key, value) in keys.iter().zip(values) {
            match value {
                Reply::Bulk(Some(value)) => drop(found.insert(key.clone(), value)),
                Reply::Bulk(None) => {}
                other => return Err(format!("MGET holds {other:?}")),
            }
        }
        Ok(found)
    }
}
