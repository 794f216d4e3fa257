//! A gateway that answers as a script says, and remembers what it was asked.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hedgerow_hbase::thrift2::{
    TColumnValue, THRegionLocation, TIOError, TResult, TThriftServerType,
};
use hedgerow_hbase::{ClusterUrl, Gateways, Options, TableName};
use thrift::ApplicationErrorKind;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TMessageIdentifier, TMessageType, TOutputProtocol, TSerializable, TType,
};

/// More time than anything here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// The question that each connection begins with.
pub const HANDSHAKE: &str = "getThriftServerType";

/// A call that arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub number: i32,
    /// How many calls of this method arrived before.
    pub nth: usize,
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// The structure of its arguments.
    pub arguments: Vec<u8>,
}

/// What a script says to a call.
pub enum Reply {
    Void,
    Flag(bool),
    Integer(i32),
    Row(TResult),
    Rows(Vec<TResult>),
    Location(THRegionLocation),
    /// A `TIOError`, with `canRetry` or without.
    IoError(&'static str, Option<bool>),
    /// An error of Thrift itself.
    Application(ApplicationErrorKind, &'static str),
    /// These bytes, whatever they are.
    Bytes(Vec<u8>),
    /// Nothing, on a connection that stays open.
    Silence,
    /// The end of the connection.
    Close,
    /// A reply and then the end of the connection.
    ThenClose(Box<Reply>),
    /// A reply once the gate is open.
    Behind(Arc<Gate>, Box<Reply>),
}

/// Something to wait for.
#[derive(Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.is_open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().expect("no panic");
        let waited = self
            .opened
            .wait_timeout_while(is_open, LONG, |is_open| !*is_open);
        assert!(!waited.expect("no panic").1.timed_out(), "nobody opened");
    }
}

type Script = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A script that answers the first question of each connection as gateways do.
fn behind_handshake(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Script {
    Box::new(move |seen| match seen.method.as_str() {
        HANDSHAKE => Reply::Integer(TThriftServerType::TWO.0),
        _ => script(seen),
    })
}

struct Shared {
    script: Script,
    /// The longest frame that is read; the connection of a longer one is closed.
    frame_limit: usize,
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<Vec<TcpStream>>,
    busy: AtomicUsize,
    most_busy: AtomicUsize,
    ended: AtomicUsize,
    is_stopped: AtomicBool,
}

pub struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl Fake {
    /// Answers the first question of each connection by itself, and all others by the script.
    pub fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::listen(ANY_PORT, usize::MAX, behind_handshake(script))
    }

    /// Answers by the script alone.
    pub fn raw(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::listen(ANY_PORT, usize::MAX, Box::new(script))
    }

    /// As `start`, with a limit on the length of frames, as gateways have one.
    pub fn with_frame_limit(
        frame_limit: usize,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Fake {
        Fake::listen(ANY_PORT, frame_limit, behind_handshake(script))
    }

    /// As `start`, where another one was before.
    pub fn restart(
        address: SocketAddr,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Fake {
        Fake::listen(address, usize::MAX, behind_handshake(script))
    }

    fn listen(address: SocketAddr, frame_limit: usize, script: Script) -> Fake {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script,
            frame_limit,
            seen: Mutex::default(),
            connections: Mutex::default(),
            busy: AtomicUsize::new(0),
            most_busy: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let listener = std::thread::spawn(move || accept(&accepting, &listener));
        Fake {
            address,
            shared,
            listener: Some(listener),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The calls that arrived, first questions left out.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.shared.seen.lock().expect("no panic");
        let seen = seen.iter().filter(|seen| seen.method != HANDSHAKE);
        seen.cloned().collect()
    }

    /// How many calls of a method arrived.
    pub fn count(&self, method: &str) -> usize {
        let seen = self.shared.seen.lock().expect("no panic");
        seen.iter().filter(|seen| seen.method == method).count()
    }

    /// The most connections that had a call at once.
    pub fn most_busy(&self) -> usize {
        self.shared.most_busy.load(Ordering::SeqCst)
    }

    /// Waits until so many connections have ended, on whichever side.
    pub fn await_ended(&self, count: usize) {
        let what = format!("{count} ended connections");
        await_that(&what, || self.shared.ended.load(Ordering::SeqCst) >= count);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // The listener looks at that when somebody connects.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let connections = self.shared.connections.lock().expect("no panic");
        for connection in connections.iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for (nth, socket) in listener.incoming().enumerate() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let socket = socket.expect("a connection");
        let clone = socket.try_clone().expect("another handle");
        shared.connections.lock().expect("no panic").push(clone);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            serve(&shared, socket, nth);
        });
    }
}

/// Answers the calls of a connection until it ends.
fn serve(shared: &Shared, mut socket: TcpStream, connection: usize) {
    while let Some(message) = read_frame(shared, &mut socket) {
        let seen = remember(shared, &message, connection);
        let busy = shared.busy.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_busy.fetch_max(busy, Ordering::SeqCst);
        let goes_on = reply(&mut socket, &seen, (shared.script)(&seen));
        shared.busy.fetch_sub(1, Ordering::SeqCst);
        if !goes_on {
            break;
        }
    }
    close(shared, socket);
    shared.ended.fetch_add(1, Ordering::SeqCst);
}

/// Closes a connection as a gateway does: with its other handle. One that is only shut down resets
/// nobody who waits for room to send.
fn close(shared: &Shared, socket: TcpStream) {
    let _ = socket.shutdown(Shutdown::Both);
    let mut connections = shared.connections.lock().expect("no panic");
    if let Ok(peer) = socket.peer_addr() {
        connections.retain(|other| other.peer_addr().is_ok_and(|other| other != peer));
    }
    drop(socket);
}

fn read_frame(shared: &Shared, socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).ok()?;
    let bytes = u32::from_be_bytes(header) as usize;
    if bytes > shared.frame_limit {
        return None;
    }
    let mut message = vec![0; bytes];
    socket.read_exact(&mut message).ok()?;
    Some(message)
}

fn remember(shared: &Shared, message: &[u8], connection: usize) -> Seen {
    let mut rest = message;
    let mut protocol = TBinaryInputProtocol::new(&mut rest, true);
    let begin = protocol.read_message_begin().expect("a call");
    assert_eq!(begin.message_type, TMessageType::Call);
    let mut all = shared.seen.lock().expect("no panic");
    let seen = Seen {
        nth: all.iter().filter(|seen| seen.method == begin.name).count(),
        method: begin.name,
        number: begin.sequence_number,
        connection,
        arguments: rest.to_vec(),
    };
    all.push(seen.clone());
    seen
}

/// Returns whether the connection goes on.
fn reply(socket: &mut TcpStream, seen: &Seen, reply_of_script: Reply) -> bool {
    match reply_of_script {
        Reply::Silence => true,
        Reply::Close => false,
        Reply::Bytes(bytes) => socket.write_all(&bytes).is_ok(),
        Reply::ThenClose(before) => {
            reply(socket, seen, *before);
            false
        }
        Reply::Behind(gate, then) => {
            gate.pass();
            reply(socket, seen, *then)
        }
        answer => socket.write_all(&frame(seen, answer)).is_ok(),
    }
}

type Output<'a> = TBinaryOutputProtocol<&'a mut Vec<u8>>;

/// The frame of an answer.
pub fn frame(seen: &Seen, reply: Reply) -> Vec<u8> {
    let mut message = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut message, true);
    let kind = match reply {
        Reply::Application(..) => TMessageType::Exception,
        _ => TMessageType::Reply,
    };
    let begin = TMessageIdentifier::new(seen.method.clone(), kind, seen.number);
    let written = protocol
        .write_message_begin(&begin)
        .and_then(|()| write_result(&mut protocol, reply))
        .and_then(|()| protocol.write_field_stop());
    written.expect("a vector takes all bytes");
    let header = (message.len() as u32).to_be_bytes();
    [&header[..], &message].concat()
}

fn field(protocol: &mut Output<'_>, wire: TType, id: i16) -> thrift::Result<()> {
    protocol.write_field_begin(
        &TFieldIdentifier::new::<Option<String>, String, Option<i16>>(None, wire, Some(id)),
    )
}

fn write_result(protocol: &mut Output<'_>, reply: Reply) -> thrift::Result<()> {
    match reply {
        Reply::Flag(flag) => {
            field(protocol, TType::Bool, 0)?;
            protocol.write_bool(flag)
        }
        Reply::Integer(integer) => {
            field(protocol, TType::I32, 0)?;
            protocol.write_i32(integer)
        }
        Reply::Row(row) => {
            field(protocol, TType::Struct, 0)?;
            row.write_to_out_protocol(protocol)
        }
        Reply::Rows(rows) => {
            field(protocol, TType::List, 0)?;
            let list = TListIdentifier::new(TType::Struct, rows.len() as i32);
            protocol.write_list_begin(&list)?;
            let mut rows = rows.iter();
            rows.try_for_each(|row| row.write_to_out_protocol(protocol))
        }
        Reply::Location(location) => {
            field(protocol, TType::Struct, 0)?;
            location.write_to_out_protocol(protocol)
        }
        Reply::IoError(message, can_retry) => {
            field(protocol, TType::Struct, 1)?;
            TIOError::new(message.to_owned(), can_retry).write_to_out_protocol(protocol)
        }
        Reply::Application(kind, message) => {
            field(protocol, TType::String, 1)?;
            protocol.write_string(message)?;
            field(protocol, TType::I32, 2)?;
            protocol.write_i32(kind as i32)
        }
        _ => Ok(()),
    }
}

/// A row of one cell.
pub fn row(key: &[u8], value: &[u8]) -> TResult {
    let cell = TColumnValue {
        family: b"f".to_vec(),
        qualifier: b"q".to_vec(),
        value: value.to_vec(),
        timestamp: Some(1),
        tags: None,
        type_: None,
    };
    TResult::new(key.to_vec(), vec![cell], None, None)
}

/// The table that all tests use.
pub fn rows() -> TableName {
    TableName::new("test", "rows").expect("a legal name")
}

/// Where nobody listens: the gateways of other tests are at 127.0.0.1.
pub fn closed_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 1))
}

/// The gateways at these addresses.
pub fn gateways_at(addresses: &[SocketAddr], options: Options) -> Gateways {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let url = format!("hbase://{}/test", addresses.join(","));
    let url: ClusterUrl = url.parse().expect("a URL");
    Gateways::new(&url, options).expect("a thread")
}

/// A client of these gateways.
pub fn gateways(fakes: &[&Fake], options: Options) -> Gateways {
    let addresses: Vec<SocketAddr> = fakes.iter().map(|fake| fake.address()).collect();
    gateways_at(&addresses, options)
}

/// Short pauses, long timeouts, few attempts.
pub fn options() -> Options {
    Options {
        connect_timeout: LONG,
        attempt_timeout: LONG,
        attempts: 3,
        min_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(20),
        ..Options::default()
    }
}

/// Waits until something holds.
pub fn await_that(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
