//! YCSB's operations by Redis's protocol: `HGETALL`, `HSET` of one field or of all, and
//! `RANGE … LIMIT`. A thread with a connection for each client, one operation under way on each,
//! each reply checked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::{Kind, Operation};

use super::operations::{Lists, Played};
use super::values::{FIELDS, name, value};
use crate::{LabError, Result};

/// How long a reply may take until the run is given up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Does the operations, for so long at most.
///
/// # Errors
///
/// A connection that fails, or the first wrong answer.
pub fn play(
    address: SocketAddr,
    keys: &Keys,
    lists: &Lists,
    limit: Option<Duration>,
) -> Result<Played> {
    let clients = lists.iter().map(|_| Client::connect(address));
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let barrier = &Barrier::new(clients.len() + 1);
    thread::scope(|scope| {
        let players = clients.into_iter().zip(lists).map(|(mut client, list)| {
            scope.spawn(move || {
                barrier.wait();
                client.play(keys, list, limit.unwrap_or(Duration::MAX))
            })
        });
        let players: Vec<_> = players.collect();
        barrier.wait();
        let start = Instant::now();
        let mut times = Vec::new();
        for player in players {
            let outcome = player.join();
            times.extend(outcome.map_err(|_| LabError::Process("a client ended".to_owned()))??);
        }
        Ok(Played::of(times, start.elapsed().as_secs_f64()))
    })
}

/// A connection.
struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            request: Vec::new(),
            line: Vec::new(),
        })
    }

    /// The time of each operation.
    fn play(&mut self, keys: &Keys, list: &[Operation], limit: Duration) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(list.len());
        let start = Instant::now();
        for operation in list {
            let before = Instant::now();
            if before - start >= limit {
                break;
            }
            self.operate(keys.get(operation.record as usize), operation)?;
            times.push(before.elapsed());
        }
        Ok(times)
    }

    fn operate(&mut self, key: &[u8], operation: &Operation) -> Result<()> {
        match operation.kind {
            Kind::Read => self.read(key),
            Kind::Update => self.set(key, 1, 0),
            Kind::Insert => self.set(key, FIELDS, FIELDS),
            Kind::Scan => self.scan(key, operation.scan_length as usize),
            Kind::ReadModifyWrite => {
                self.read(key)?;
                self.set(key, 1, 0)
            }
            other => Err(LabError::Usage(format!("YCSB has no {}", other.name()))),
        }
    }

    fn read(&mut self, key: &[u8]) -> Result<()> {
        self.ask(&[b"HGETALL", key])?;
        self.record(key)
    }

    /// Writes the first fields, of which so many are new.
    fn set(&mut self, key: &[u8], fields: usize, new: usize) -> Result<()> {
        let mut words = vec![b"HSET".to_vec(), key.to_vec()];
        for field in 0..fields {
            words.extend([name(field).into_bytes(), value(key, field).to_vec()]);
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.ask(&words)?;
        match self.head(b':')? {
            got if got == new => Ok(()),
            got => Err(wrong(key, &format!("{got} new fields, not {new}"))),
        }
    }

    fn scan(&mut self, key: &[u8], rows: usize) -> Result<()> {
        let limit = rows.to_string();
        self.ask(&[b"RANGE", key, b"+", b"LIMIT", limit.as_bytes()])?;
        let words = self.head(b'*')?;
        if words == 0 || words > 2 * rows || !words.is_multiple_of(2) {
            return Err(wrong(key, &format!("{words} words for {rows} rows")));
        }
        for row in 0..words / 2 {
            let found = self.bulk()?;
            if row == 0 && found != key {
                return Err(wrong(key, "the range begins with another key"));
            }
            self.record(&found)?;
        }
        Ok(())
    }

    /// Reads a record and checks each field.
    fn record(&mut self, key: &[u8]) -> Result<()> {
        let words = self.head(b'*')?;
        if words != 2 * FIELDS {
            return Err(wrong(key, &format!("{words} words")));
        }
        for field in 0..FIELDS {
            if self.bulk()? != name(field).as_bytes() || self.bulk()? != value(key, field) {
                return Err(wrong(key, &format!("field {field}")));
            }
        }
        Ok(())
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<()> {
        self.request.clear();
        write!(self.request, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.request, "${}\r\n", word.len())?;
            self.request.extend_from_slice(word);
            self.request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.request)?;
        Ok(())
    }

    /// The number in the next line, which must be of this type.
    fn head(&mut self, expected: u8) -> Result<usize> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let number = self.line.strip_prefix(&[expected]);
        let number = number.and_then(|rest| std::str::from_utf8(rest).ok()?.trim().parse().ok());
        number.ok_or_else(|| {
            let line = self.line.escape_ascii();
            LabError::WrongAnswer(format!("\"{line}\" instead of {}", expected as char))
        })
    }

    fn bulk(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.head(b'$')? + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - 2);
        Ok(bytes)
    }
}

fn wrong(key: &[u8], what: &str) -> LabError {
    LabError::WrongAnswer(format!("key \"{}\": {what}", key.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that answers the only request with these bytes.
    fn answering(reply: Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).expect("a request") > 0);
            stream.write_all(&reply).expect("it reads");
        });
        address
    }

    fn ask(kind: Kind, reply: &[u8]) -> std::result::Result<usize, String> {
        let keys: Keys = ["user1"].iter().collect();
        let operation = Operation {
            kind,
            record: 0,
            scan_length: 2,
        };
        let played = play(
            answering(reply.to_vec()),
            &keys,
            &vec![vec![operation]],
            None,
        );
        played
            .map(|played| played.operations)
            .map_err(|error| error.to_string())
    }

    fn record(key: &[u8]) -> Vec<u8> {
        let mut bytes = b"*20\r\n".to_vec();
        for field in 0..FIELDS {
            write!(bytes, "$6\r\n{}\r\n$100\r\n", name(field)).expect("memory");
            bytes.extend(value(key, field));
            bytes.extend(b"\r\n");
        }
        bytes
    }

    #[test]
    fn right_replies_are_counted_and_wrong_ones_end_the_run() {
        let whole = record(b"user1");
        assert_eq!(ask(Kind::Read, &whole), Ok(1));
        assert!(ask(Kind::Read, &record(b"user2")).is_err());
        assert_eq!(ask(Kind::Update, b":0\r\n"), Ok(1));
        assert!(ask(Kind::Update, b":1\r\n").is_err());
        assert_eq!(ask(Kind::Insert, b":10\r\n"), Ok(1));
        let range = [b"*2\r\n$5\r\nuser1\r\n".to_vec(), whole].concat();
        assert_eq!(ask(Kind::Scan, &range), Ok(1));
        let other = [b"*2\r\n$5\r\nuser2\r\n".to_vec(), record(b"user2")].concat();
        assert!(ask(Kind::Scan, &other).is_err());
        let refused = ask(Kind::Read, b"-ERR no gateway\r\n").expect_err("an error");
        assert!(refused.contains("no gateway"), "{refused}");
    }
}
