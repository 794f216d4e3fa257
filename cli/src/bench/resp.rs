//! A small RESP client: queue requests, send them in one write, take their replies.

use std::io::{BufRead, BufReader, Read, Write};

use crate::address::{ServerAddress, ServerStream};
use crate::error::{Error, Result};

/// A connection with requests in flight.
pub(crate) struct Connection {
    stream: BufReader<ServerStream>,
    queued: Vec<u8>,
    in_flight: usize,
    line: Vec<u8>,
}

fn failed(source: std::io::Error) -> Error {
    Error::Stream {
        operation: "talk to the server",
        source,
    }
}

impl Connection {
    pub(crate) fn open(address: &ServerAddress) -> Result<Connection> {
        let stream = address.connect().map_err(|error| {
            Error::Failed(format!(
                "could not connect to {address}: {error}; is the server running?"
            ))
        })?;
        let stream = BufReader::with_capacity(1 << 16, stream);
        Ok(Connection {
            stream,
            queued: Vec::new(),
            in_flight: 0,
            line: Vec::new(),
        })
    }

    /// Queues one request.
    pub(crate) fn send(&mut self, words: &[&[u8]]) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.queued, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(self.queued, "${}\r\n", word.len());
            self.queued.extend_from_slice(word);
            self.queued.extend_from_slice(b"\r\n");
        }
        self.in_flight += 1;
    }

    /// Sends what is queued and takes every reply; how many were null.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.stream
            .get_mut()
            .write_all(&self.queued)
            .map_err(failed)?;
        self.queued.clear();
        let mut nulls = 0;
        for _ in 0..std::mem::take(&mut self.in_flight) {
            nulls += u64::from(self.reply()?);
        }
        Ok(nulls)
    }

    /// Takes one reply, nested ones included; whether it was null.
    fn reply(&mut self) -> Result<bool> {
        let mut left = 1u64;
        let mut null = false;
        while left > 0 {
            left -= 1;
            self.line.clear();
            self.stream
                .read_until(b'\n', &mut self.line)
                .map_err(failed)?;
            let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
            let (kind, rest) = text.split_at_checked(1).unwrap_or(("", ""));
            let number = || {
                rest.parse::<i64>().map_err(|_| {
                    Error::Failed(format!("the server sent {text:?}, which is no RESP reply"))
                })
            };
            match kind {
                "-" => {
                    return Err(Error::Failed(format!(
                        "the server refused a request: {rest}"
                    )));
                }
                "+" | ":" | "," | "#" => {}
                "_" => null = true,
                // As everywhere else, what is below zero is none.
                "$" | "=" => match u64::try_from(number()?) {
                    Err(_) => null = true,
                    Ok(length) => self.skip(length + 2)?,
                },
                "*" | "~" | ">" => match u64::try_from(number()?) {
                    Err(_) => null = true,
                    Ok(items) => left = left.saturating_add(items),
                },
                "%" => match u64::try_from(number()?) {
                    Err(_) => null = true,
                    Ok(pairs) => left = left.saturating_add(2 * pairs),
                },
                _ => {
                    return Err(Error::Failed(
                        "the server closed the connection or does not speak RESP".into(),
                    ));
                }
            }
        }
        Ok(null)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        let skipped = std::io::copy(&mut self.stream.by_ref().take(bytes), &mut std::io::sink())
            .map_err(failed)?;
        if skipped < bytes {
            return Err(Error::Failed(
                "the server closed the connection in a reply".into(),
            ));
        }
        Ok(())
    }
}
