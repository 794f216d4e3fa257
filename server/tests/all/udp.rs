//! The memcached protocol by UDP: a request in a datagram, its reply in one or several.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use hedgerow::Durability;
use hedgerow_server::{Error, EventLoop, ServerOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::monitoring::counter;
use crate::support::{Started, TIMEOUT, bulk, eventually, one_worker};

fn any_port() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 0)))
}

pub(crate) fn over_udp(options: ServerOptions) -> ServerOptions {
    ServerOptions {
        memcached_udp: any_port(),
        ..options
    }
}

/// A client: a socket, the id of its next request, and those of what must not be answered.
pub(crate) struct Client {
    pub(crate) socket: UdpSocket,
    id: AtomicU16,
    unanswered: RefCell<Vec<u16>>,
}

/// How long a reply may be away before the request is sent again: UDP may lose it.
const AGAIN: Duration = Duration::from_secs(2);

impl Client {
    pub(crate) fn of(address: SocketAddr) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(AGAIN)).unwrap();
        let id = AtomicU16::new(0x1234);
        let unanswered = RefCell::default();
        Client {
            socket,
            id,
            unanswered,
        }
    }

    fn new(started: &Started) -> Client {
        Client::of(started.server.addresses().memcached_udp.unwrap())
    }

    /// Sends a request, and says by which id its reply will be known.
    pub(crate) fn send(&self, request: &[u8]) -> u16 {
        let id = self.id.fetch_add(1, Ordering::Relaxed);
        self.send_as(id, request);
        id
    }

    /// Sends what must not be answered.
    fn send_in_vain(&self, request: &[u8]) {
        let id = self.send(request);
        self.unanswered.borrow_mut().push(id);
    }

    fn send_as(&self, id: u16, request: &[u8]) {
        let frame = [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
        self.socket.send(&[&frame, request].concat()).unwrap();
    }

    /// The reply to a request in this many datagrams, if it is complete before one fails to come.
    fn receive(&self, id: u16) -> Option<(String, usize)> {
        let mut pieces = BTreeMap::new();
        let mut buffer = [0; 2000];
        loop {
            let count = self.socket.recv(&mut buffer).ok()?;
            assert!(count <= 1400, "{count} bytes");
            let word = |at: usize| u16::from_be_bytes([buffer[at], buffer[at + 1]]);
            let answers_nothing = self.unanswered.borrow().contains(&word(0));
            assert!(!answers_nothing, "a reply to {:#x}", word(0));
            if word(0) != id {
                continue;
            }
            assert_eq!(word(6), 0, "reserved");
            pieces.insert(word(2), buffer[8..count].to_vec());
            if pieces.len() == usize::from(word(4)) {
                let reply: Vec<u8> = pieces.values().flatten().copied().collect();
                return Some((String::from_utf8(reply).unwrap(), pieces.len()));
            }
        }
    }

    /// What is replied to a request that may run twice, and in how many datagrams.
    pub(crate) fn ask(&self, request: &str) -> (String, usize) {
        let id = self.send(request.as_bytes());
        let mut tries = TIMEOUT.as_secs() / AGAIN.as_secs();
        loop {
            if let Some(reply) = self.receive(id) {
                return reply;
            }
            assert!(tries > 0, "no reply to {request:?}");
            tries -= 1;
            self.send_as(id, request.as_bytes());
        }
    }

    /// The reply to a request that was sent, however late.
    pub(crate) fn await_reply(&self, id: u16) -> (String, usize) {
        self.socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let reply = self.receive(id).expect("a reply");
        self.socket.set_read_timeout(Some(AGAIN)).unwrap();
        reply
    }

    #[track_caller]
    pub(crate) fn answers(&self, request: &str, reply: &str) {
        assert_eq!(self.ask(request), (reply.to_owned(), 1), "{request:?}");
    }
}

#[test]
fn requests_and_replies_are_datagrams() {
    for event_loop in [EventLoop::Auto, EventLoop::Epoll] {
        let started = Started::new(over_udp(ServerOptions {
            event_loop,
            ..one_worker()
        }));
        let client = Client::new(&started);
        client.answers("set a 7 0 3\r\none\r\n", "STORED\r\n");
        client.answers("get a b\r\n", "VALUE a 7 3\r\none\r\nEND\r\n");
        client.answers("mg a v\r\n", "VA 3\r\none\r\n");
        // Several in one datagram, of which some say nothing.
        let several = "set q 0 0 1 noreply\r\nx\r\nget q\r\nmn\r\nquit\r\nget a\r\n";
        client.answers(several, "VALUE q 0 1\r\nx\r\nEND\r\nMN\r\n");
        // Nothing is replied to these. Datagrams of one client may run in any order.
        client.send_in_vain(b"set r 0 0 1 noreply\r\ny\r\n");
        client.send_in_vain(b"quit\r\n");
        client.socket.send(b"7 bytes").unwrap();
        client
            .unanswered
            .borrow_mut()
            .push(u16::from_be_bytes(*b"7 "));
        let found = "VALUE r 0 1\r\ny\r\nEND\r\n";
        eventually(|| (client.ask("get r\r\n").0 == found).then_some(()));
        assert_eq!(started.client().run("GET a"), bulk("one"));
    }
}

#[test]
fn each_worker_has_a_port() {
    let started = Started::new(over_udp(ServerOptions {
        workers: 3,
        http: any_port(),
        ..ServerOptions::default()
    }));
    let first = started.server.addresses().memcached_udp.unwrap();
    for worker in 0..3 {
        let address = SocketAddr::new(first.ip(), first.port() + worker);
        let client = Client::of(address);
        client.answers(&format!("set w{worker} 0 0 1\r\n1\r\n"), "STORED\r\n");
        client.answers("get w0\r\n", "VALUE w0 0 1\r\n1\r\nEND\r\n");
        let settings = client.ask("stats settings\r\n").0;
        assert!(settings.contains(&format!("STAT udpport {}\r\n", first.port())));
        let places = client.ask("stats conns\r\n").0;
        assert!(places.contains(&format!("STAT memcached-udp:addr udp:{first}\r\n")));
        let general = client.ask("stats\r\n").0;
        assert!(general.contains("STAT curr_connections 0\r\n"), "{general}");
    }
    let counted = counter(&started, "hedgerow_datagrams_total");
    assert!(counted >= 15, "{counted}");
    let taken = Started::new(one_worker());
    let options = ServerOptions {
        memcached_udp: Some(first),
        ..one_worker()
    };
    let refused = hedgerow_server::Server::start(taken.db.clone(), options);
    assert!(matches!(refused, Err(Error::BindUdp { .. })));
}

#[test]
fn long_replies_come_in_several_datagrams() {
    let started = Started::new(over_udp(one_worker()));
    let client = Client::new(&started);
    let value = |bytes: usize| "v".repeat(bytes);
    for (key, bytes) in [("a", 2000), ("b", 2000), ("c", 60_000), ("d", 70_000)] {
        let mut resp = started.client();
        resp.run(&format!("SET {key} {}", value(bytes)));
    }
    let (reply, datagrams) = client.ask("get a b\r\n");
    let (two, long) = (value(2000), value(60_000));
    let expected = format!("VALUE a 0 2000\r\n{two}\r\nVALUE b 0 2000\r\n{two}\r\nEND\r\n");
    assert_eq!((reply, datagrams), (expected, 3));
    let (reply, datagrams) = client.ask("get c\r\n");
    let expected = format!("VALUE c 0 60000\r\n{long}\r\nEND\r\n");
    assert_eq!((reply, datagrams), (expected, 44));
    let too_long = "SERVER_ERROR the reply is longer than 64 KiB: use TCP\r\n";
    client.answers("get d\r\n", too_long);
    client.answers("get c c\r\n", too_long);
    client.answers(&format!("get{}\r\n", " c".repeat(2000)), too_long);
    client.answers("get n\r\n", "END\r\n");
}

#[test]
fn what_is_no_request_of_one_datagram_is_refused() {
    let started = Started::new(over_udp(one_worker()));
    let client = Client::new(&started);
    let goes_on = "CLIENT_ERROR the request goes on behind its datagram\r\n";
    client.answers("get a", goes_on);
    client.answers("set a 0 0 9\r\nshort\r\n", goes_on);
    client.answers(
        "version\r\nget a",
        &format!("VERSION {}\r\n{goes_on}", version()),
    );
    client.answers("get\r\n", "ERROR\r\n");
    let long = format!("set a 0 0 5000\r\n{}\r\n", "x".repeat(5000));
    let refused = client.ask(&long).0;
    assert!(refused.starts_with("SERVER_ERROR a request over UDP is longer"));
    client.socket.send(&[0, 9, 0, 0, 0, 2, 0, 0, b'g']).unwrap();
    let several = "SERVER_ERROR multi-packet request not supported\r\n";
    assert_eq!(client.await_reply(9), (several.to_owned(), 1));
    // An error that another server sent: to answer it would be to be answered.
    client.send_in_vain(b"ERROR\r\n");
    client.send_in_vain(b"SERVER_ERROR out of memory\r\n");
    client.answers("get a\r\n", "END\r\n");
    client.answers("get a\r\n", "END\r\n");
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[test]
fn a_password_goes_before_the_requests_of_each_datagram() {
    let started = Started::new(over_udp(ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    }));
    let client = Client::new(&started);
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    let said = "set auth 0 0 14\r\ndefault secret\r\n";
    client.answers("get a\r\n", refused);
    client.answers(
        &format!("{said}set a 0 0 1\r\n1\r\nget a\r\n"),
        "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n",
    );
    client.answers("get a\r\n", refused);
    let open = ServerOptions {
        memcached_udp: Some(SocketAddr::from(([0, 0, 0, 0], 1))),
        ..one_worker()
    };
    let refused = open.check().unwrap_err().to_string();
    assert!(
        refused.contains("UDP") && refused.contains("password"),
        "{refused}"
    );
}

#[test]
fn many_clients_count_together() {
    for (workers, event_loop) in [(1, EventLoop::Epoll), (2, EventLoop::Auto)] {
        let started = Started::new(over_udp(ServerOptions {
            workers,
            event_loop,
            durability: Durability::Sync,
            ..one_worker()
        }));
        let first = started.server.addresses().memcached_udp.unwrap();
        const CLIENTS: u16 = 40;
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                scope.spawn(move || {
                    let port = first.port() + number % workers as u16;
                    let client = Client::of(SocketAddr::new(first.ip(), port));
                    // So few are not lost, and an older `set` that ran late would undo a newer one.
                    client.socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                    for round in 0..30 {
                        let value = format!("{number}-{round}");
                        let length = value.len();
                        let set = format!("set k{number} 0 0 {length}\r\n{value}\r\n");
                        client.answers(&set, "STORED\r\n");
                        let found = format!("VALUE k{number} 0 {length}\r\n{value}\r\nEND\r\n");
                        client.answers(&format!("get k{number}\r\n"), &found);
                    }
                });
            }
        });
        let mut resp = started.client();
        for number in 0..CLIENTS {
            let last = bulk(&format!("{number}-29"));
            assert_eq!(resp.run(&format!("GET k{number}")), last);
        }
    }
}

#[test]
fn a_flood_that_nobody_reads_the_replies_of_harms_nobody() {
    let started = Started::new(over_udp(one_worker()));
    let mut resp = started.client();
    resp.run(&format!("SET long {}", "x".repeat(60_000)));
    let flood = Client::new(&started);
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..20_000_u32 {
        match round % 4 {
            0 => _ = flood.send(b"get long\r\n"),
            1 => _ = flood.send(b"set flood 0 0 4\r\nover\r\n"),
            _ => {
                let mut noise = vec![0; random.random_range(0..200)];
                random.fill(&mut noise[..]);
                let sent = match round % 4 {
                    2 => flood.socket.send(&noise),
                    _ => Ok(usize::from(flood.send(&noise))),
                };
                sent.unwrap();
            }
        }
        if round % 1000 == 0 {
            assert_eq!(
                resp.run("PING"),
                crate::support::Value::Simple("PONG".into())
            );
        }
    }
    let client = Client::new(&started);
    client.answers("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    eventually(|| {
        let memory = resp.run("INFO clients");
        let crate::support::Value::Bulk(memory) = memory else {
            panic!("no INFO");
        };
        let text = String::from_utf8(memory).unwrap();
        text.contains("connected_clients:1\r\n").then_some(())
    });
    assert!(started.server.failure().is_none());
}

#[test]
fn more_writes_than_may_wait_are_answered_once_they_may_run() {
    let started = Started::new(over_udp(ServerOptions {
        http: any_port(),
        ..one_worker()
    }));
    let (writer, reader) = (Client::new(&started), Client::new(&started));
    let mut resp = started.client();
    resp.run("CLIENT PAUSE 3600000 WRITE");
    // Each keeps a slot, of which there are 1,024 for datagrams; what the system has no room for is
    // lost.
    for _ in 0..1500 {
        writer.send(b"set a 0 0 1\r\n1\r\n");
        // Connections are served meanwhile.
        assert_eq!(resp.run("GET a"), crate::support::Value::Null);
    }
    let counted = counter(&started, "hedgerow_datagrams_total");
    assert_eq!(counted, 1024);
    resp.run("CLIENT UNPAUSE");
    let found = "VALUE a 0 1\r\n1\r\nEND\r\n";
    eventually(|| (reader.ask("get a\r\n").0 == found).then_some(()));
    // The rest was taken as slots became free.
    eventually(|| {
        let counted = counter(&started, "hedgerow_datagrams_total");
        (counted > 1024).then_some(())
    });
    assert_eq!(resp.run("GET a"), bulk("1"));
}
