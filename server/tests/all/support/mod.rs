//! A started server and a plain RESP client. Which backend the server has, each test program says
//! in a module `tested` of its own.

#![allow(dead_code)] // Each test program uses a part of it.

pub mod lacking;
pub mod monitoring;
pub mod redis_process;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::WriteOptions;
use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow_server::{EventLoop, Server, ServerOptions};

use crate::tested::{self, Database, Place};

/// How long a test waits for what must come: only a hang takes longer, on any machine.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// Starts a server with the event loop that `HEDGEROW_TEST_EVENT_LOOP` names (`epoll`, `io_uring`),
/// if it names one and the options leave it open.
pub fn start(
    db: Arc<Database>,
    mut options: ServerOptions,
) -> hedgerow_server::Result<Server<Database>> {
    let named = std::env::var("HEDGEROW_TEST_EVENT_LOOP");
    options.event_loop = match (options.event_loop, named.as_deref()) {
        (EventLoop::Auto, Ok("epoll")) => EventLoop::Epoll,
        (EventLoop::Auto, Ok("io_uring")) => EventLoop::IoUring,
        (EventLoop::Auto, Ok(other)) => panic!("HEDGEROW_TEST_EVENT_LOOP: no loop {other:?}"),
        (asked, _) => asked,
    };
    Server::start(db, options)
}

/// A server over a database of its own.
pub struct Started {
    pub server: Server<Database>,
    pub db: Arc<Database>,
    /// Where its rows are; it goes with the test.
    pub dir: Place,
}

impl Started {
    pub fn new(options: ServerOptions) -> Started {
        let (db, dir) = tested::open(&options);
        let db = Arc::new(db);
        let server = start(Arc::clone(&db), options).unwrap();
        Started { server, db, dir }
    }

    pub fn resp(&self) -> SocketAddr {
        self.server.addresses().resp.unwrap()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.resp())
    }
}

/// One worker, RESP alone.
pub fn one_worker() -> ServerOptions {
    ServerOptions {
        workers: 1,
        ..ServerOptions::default()
    }
}

/// A RESP reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Other(String),
}

/// A connection that sends requests and decodes replies.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    /// What stands for each `@` of [`Client::run`], if something does.
    key_prefix: Option<&'static str>,
}

/// Encodes a request.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    /// A client that puts this in the place of each `@` of [`Client::run`].
    pub fn with_key_prefix(self, prefix: &'static str) -> Client {
        Client {
            key_prefix: Some(prefix),
            ..self
        }
    }

    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        // A lost reply fails the test instead of hanging it.
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client {
            stream,
            buffer: Vec::new(),
            key_prefix: None,
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends words separated by blanks and returns the reply.
    pub fn run(&mut self, line: &str) -> Value {
        let line = match self.key_prefix {
            Some(prefix) => &line.replace('@', prefix),
            None => line,
        };
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        self.call(&words)
    }

    pub fn call(&mut self, words: &[&[u8]]) -> Value {
        self.send(&request(words));
        self.reply()
    }

    pub fn reply(&mut self) -> Value {
        self.try_reply().expect("the server closed the connection")
    }

    /// The next reply; `None` if the server has closed.
    pub fn try_reply(&mut self) -> Option<Value> {
        let line = self.line()?;
        let (kind, rest) = (line[0], String::from_utf8_lossy(&line[1..]).into_owned());
        let count = || rest.parse::<i64>().unwrap();
        Some(match kind {
            b'+' => Value::Simple(rest),
            b'-' => Value::Error(rest),
            b':' => Value::Integer(count()),
            b'_' => Value::Null,
            b'$' | b'*' if count() < 0 => Value::Null,
            b'$' | b'=' => Value::Bulk(self.bytes(count() as usize)?),
            b'*' | b'~' => {
                let items: Option<Vec<Value>> = (0..count()).map(|_| self.try_reply()).collect();
                Value::Array(items?)
            }
            b'%' => {
                let pairs: Option<Vec<(Value, Value)>> = (0..count())
                    .map(|_| self.try_reply().zip(self.try_reply()))
                    .collect();
                Value::Map(pairs?)
            }
            _ => Value::Other(String::from_utf8_lossy(&line).into_owned()),
        })
    }

    fn more(&mut self) -> bool {
        let mut chunk = [0; 65_536];
        let n = match self.stream.read(&mut chunk) {
            Ok(n) => n,
            // The server closed while something was on its way to it.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no reply, and the connection stays open: {error}"),
        };
        self.buffer.extend_from_slice(&chunk[..n]);
        n > 0
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.drain(..end + 2).take(end).collect();
                return Some(line);
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn bytes(&mut self, n: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < n + 2 {
            if !self.more() {
                return None;
            }
        }
        let bytes = self.buffer.drain(..n + 2).take(n).collect();
        Some(bytes)
    }
}

/// What `find` finds, as soon as it finds something; only what never comes fails the test.
pub fn eventually<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn ok() -> Value {
    Value::Simple("OK".into())
}

pub fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

pub fn error(text: &str) -> Value {
    Value::Error(text.into())
}

/// Checks that a reply is an error with these words.
#[track_caller]
pub fn failed(value: &Value, words: &[&str]) {
    let Value::Error(text) = value else {
        panic!("no error: {value:?}");
    };
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

/// The token that `SNAPSHOT` replied.
#[track_caller]
pub fn token(value: Value) -> String {
    let Value::Bulk(token) = value else {
        panic!("no token: {value:?}");
    };
    String::from_utf8(token).unwrap()
}

/// A statistic of the database.
pub fn statistic(started: &Started, name: &str) -> f64 {
    Backend::statistics(&*started.db)
        .get(name)
        .expect("a known statistic")
}

/// Stores a value of the first database, as a program with the library would.
pub fn put(db: &impl Backend, key: &[u8], value: &[u8], options: &WriteOptions) {
    let rows = db.keyspace("default").unwrap();
    rows.put_with(key, value, options).unwrap();
}

pub fn array<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}

/// Copies a directory as it is, as a kill of the process that has it open would leave it.
pub fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
