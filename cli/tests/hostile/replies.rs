//! Clients that ask for much more than they send: a value is held once however often a request
//! names it, who reads nothing holds a bounded amount, and others are served meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::{Server, TIMEOUT, connect};

const MIB: usize = 1 << 20;
const VALUE_BYTES: usize = 8 * MIB;
const TIMES: usize = 100;

/// Asks at both ports in turn, and remembers the longest wait.
struct Probe {
    resp: TcpStream,
    memcached: TcpStream,
    asked: u32,
    slowest: Duration,
}

impl Probe {
    fn new(server: &Server) -> Probe {
        let [resp, memcached] = [server.resp, server.memcached].map(|port| {
            let stream = connect(port);
            stream.set_nodelay(true).unwrap();
            stream
        });
        let (asked, slowest) = (0, Duration::ZERO);
        Probe {
            resp,
            memcached,
            asked,
            slowest,
        }
    }

    fn ask(&mut self) {
        let asked = Instant::now();
        expect(&mut self.resp, b"PING\r\n", b"+PONG\r\n");
        expect(&mut self.memcached, b"mn\r\n", b"MN\r\n");
        self.slowest = self.slowest.max(asked.elapsed());
        self.asked += 1;
    }

    fn report(&self, beside: &str) {
        let (asked, slowest_ms) = (2 * self.asked, self.slowest.as_millis());
        println!("{asked} requests beside {beside}: the slowest two took {slowest_ms} ms");
    }
}

/// Sends a request whose reply is exactly this one.
#[track_caller]
fn expect(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).unwrap();
    let mut received = vec![0; reply.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, reply);
}

/// Stores a value of `VALUE_BYTES` under the key `key`.
fn store(server: &Server) -> Vec<u8> {
    let value: Vec<u8> = (0..VALUE_BYTES).map(|i| (i / 7) as u8).collect();
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${VALUE_BYTES}\r\n");
    let request = [head.as_bytes(), &value, b"\r\n"].concat();
    expect(&mut connect(server.resp), &request, b"+OK\r\n");
    value
}

/// A request that names the key many times, the head of its reply, of each value, and the end.
struct Amplified {
    port: SocketAddr,
    request: String,
    head: String,
    of_each: String,
    end: &'static str,
}

fn amplified(server: &Server) -> [Amplified; 5] {
    let keys = " key".repeat(TIMES);
    let bulk = format!("${VALUE_BYTES}\r\n");
    let queued = "+QUEUED\r\n".repeat(TIMES);
    let of_item = format!("VALUE key 0 {VALUE_BYTES}\r\n");
    [
        Amplified {
            port: server.resp,
            request: format!("MGET{keys}\r\n"),
            head: format!("*{TIMES}\r\n"),
            of_each: bulk.clone(),
            end: "",
        },
        Amplified {
            port: server.resp,
            request: format!("MULTI\r\n{}EXEC\r\n", "GET key\r\n".repeat(TIMES)),
            head: format!("+OK\r\n{queued}*{TIMES}\r\n"),
            of_each: bulk.clone(),
            end: "",
        },
        Amplified {
            port: server.resp,
            request: "GET key\r\n".repeat(TIMES),
            head: String::new(),
            of_each: bulk,
            end: "",
        },
        Amplified {
            port: server.memcached,
            request: format!("get{keys}\r\n"),
            head: String::new(),
            of_each: of_item,
            end: "END\r\n",
        },
        Amplified {
            port: server.memcached,
            request: "mg key v\r\n".repeat(TIMES),
            head: String::new(),
            of_each: format!("VA {VALUE_BYTES}\r\n"),
            end: "",
        },
    ]
}

#[test]
fn a_value_that_a_request_names_often_is_held_once() {
    let server = Server::start(1024, &[]);
    let value = store(&server);
    let before = server.peak_mib();
    let mut probe = Probe::new(&server);
    for asked in amplified(&server) {
        let mut stream = connect(asked.port);
        stream.write_all(asked.request.as_bytes()).unwrap();
        // The reply has begun: from here on the server holds what it will.
        stream.peek(&mut [0]).unwrap();
        (0..50).for_each(|_| probe.ask());
        let mut head = vec![0; asked.head.len()];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(String::from_utf8_lossy(&head), asked.head);
        let one = [asked.of_each.as_bytes(), &value, b"\r\n"].concat();
        let mut received = vec![0; one.len()];
        for i in 0..TIMES {
            stream.read_exact(&mut received).unwrap();
            assert!(received == one, "value {i} of {:.20}", asked.request);
        }
        expect(&mut stream, b"", asked.end.as_bytes());
    }
    probe.report("requests that name a value often");
    let grown = server.peak_growth_mib(before);
    println!("{grown} MiB more than before");
    assert!(grown < 96, "{grown} MiB for a value of 8 MiB");
}

#[test]
fn the_versions_of_a_value_that_is_named_often_are_held_once() {
    let server = Server::start(1024, &[]);
    let value = store(&server);
    let before = server.peak_mib();
    let mut probe = Probe::new(&server);
    let mut stream = connect(server.memcached);
    let request = format!("gets{}\r\n", " key".repeat(TIMES));
    stream.write_all(request.as_bytes()).unwrap();
    stream.peek(&mut [0]).unwrap();
    (0..50).for_each(|_| probe.ask());
    let mut received = vec![0; VALUE_BYTES + 2];
    for _ in 0..TIMES {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let words: Vec<&str> = head.split_whitespace().collect();
        let length = VALUE_BYTES.to_string();
        let ["VALUE", "key", "0", bytes, _version] = words[..] else {
            panic!("{head}");
        };
        assert_eq!(bytes, length);
        stream.read_exact(&mut received).unwrap();
        assert!(received[..VALUE_BYTES] == value);
    }
    expect(&mut stream, b"", b"END\r\n");
    let grown = server.peak_growth_mib(before);
    println!("{grown} MiB more than before");
    assert!(grown < 96, "{grown} MiB for a value of 8 MiB");
}

#[test]
fn clients_that_do_not_read_hold_a_bounded_amount() {
    let server = Server::start(1024, &[]);
    store(&server);
    let before = server.peak_mib();
    let mut probe = Probe::new(&server);
    // All ask, and none reads.
    let mut deaf = Vec::new();
    for asked in amplified(&server) {
        for _ in 0..4 {
            let mut stream = connect(asked.port);
            stream.write_all(asked.request.as_bytes()).unwrap();
            deaf.push(stream);
        }
        (0..20).for_each(|_| probe.ask());
    }
    assert_eq!(deaf.len(), 20);
    for stream in &deaf {
        // Its reply has begun.
        stream.peek(&mut [0]).unwrap();
        (0..20).for_each(|_| probe.ask());
    }
    probe.report("20 clients that do not read");
    let grown = server.peak_growth_mib(before);
    println!("{grown} MiB more than before");
    // Each holds one copy, and buffers.
    assert!(grown < 320, "{grown} MiB for 20 values of 8 MiB");
    server.is_well("20 clients that do not read");
    assert!(!server.log().contains("used up"), "{}", server.log());
}

/// Stores values of 1 MiB that differ, whose keys and contents it returns.
fn store_different(server: &Server) -> Vec<(String, Vec<u8>)> {
    let mut stream = connect(server.resp);
    let different = (0..TIMES).map(|number| {
        let key = format!("different-{number:02}");
        let value: Vec<u8> = (0..MIB).map(|i| (i / 7 + number) as u8).collect();
        let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${MIB}\r\n", key.len());
        let request = [head.as_bytes(), &value, b"\r\n"].concat();
        expect(&mut stream, &request, b"+OK\r\n");
        (key, value)
    });
    different.collect()
}

/// Ten clients that read nothing ask for a hundred values each, which differ. `MGET` and `EXEC`
/// show them as they were at one moment and so have to hold them: once, for all who ask. A `gat`
/// looks at its keys as the values are fetched.
#[test]
fn values_that_many_clients_ask_for_are_held_once() {
    const CLIENTS: usize = 10;
    let server = Server::start(1024, &["--client-memory", "2GiB"]);
    let stored = store_different(&server);
    let before = server.peak_mib();
    let mut probe = Probe::new(&server);
    let keys: Vec<&str> = stored.iter().map(|(key, _)| key.as_str()).collect();
    let keys = keys.join(" ");
    let gets: String = stored
        .iter()
        .map(|(key, _)| format!("GET {key}\r\n"))
        .collect();
    let begun = format!("+OK\r\n{}*{TIMES}\r\n", "+QUEUED\r\n".repeat(TIMES));
    let array = format!("*{TIMES}\r\n");
    for (port, request, head, end) in [
        (server.resp, format!("MGET {keys}\r\n"), array, ""),
        (server.resp, format!("MULTI\r\n{gets}EXEC\r\n"), begun, ""),
        (
            server.memcached,
            format!("gat 0 {keys}\r\n"),
            String::new(),
            "END\r\n",
        ),
    ] {
        let ask = || {
            let mut stream = connect(port);
            stream.write_all(request.as_bytes()).unwrap();
            // Its reply has begun.
            stream.peek(&mut [0]).unwrap();
            stream
        };
        let mut deaf: Vec<TcpStream> = (0..CLIENTS).map(|_| ask()).collect();
        (0..20).for_each(|_| probe.ask());
        let grown = server.peak_growth_mib(before);
        println!("{:.6}: {grown} MiB more than before", request);
        assert!(grown < 256, "{grown} MiB for 100 MiB after {request:.6}");
        // One of them reads in the end.
        expect(&mut deaf[0], b"", head.as_bytes());
        for (key, value) in &stored {
            let of_each = match end {
                "" => format!("${MIB}\r\n"),
                _ => format!("VALUE {key} 0 {MIB}\r\n"),
            };
            let one = [of_each.as_bytes(), value, b"\r\n"].concat();
            let mut received = vec![0; one.len()];
            deaf[0].read_exact(&mut received).unwrap();
            assert!(received == one, "{key} of {request:.6}");
        }
        expect(&mut deaf[0], b"", end.as_bytes());
    }
    probe.report("10 clients that ask for 100 values and do not read");
    assert!(!server.log().contains("used up"), "{}", server.log());
}

#[test]
fn pipelines_that_are_written_before_they_are_read_are_answered() {
    // All replies together are many times as long as what the server may hold.
    const REQUESTS: usize = 150_000;
    const VALUE_BYTES: usize = 2_000;
    let server = Server::start(1024, &[]);
    let value = "v".repeat(VALUE_BYTES);
    let set = format!("SET key {value}\r\n");
    expect(&mut connect(server.resp), set.as_bytes(), b"+OK\r\n");
    let before = server.peak_mib();
    let mut probe = Probe::new(&server);
    for (port, request, reply) in [
        (
            server.resp,
            "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
            format!("${VALUE_BYTES}\r\n{value}\r\n"),
        ),
        (
            server.memcached,
            "get key\r\n",
            format!("VALUE key 0 {VALUE_BYTES}\r\n{value}\r\nEND\r\n"),
        ),
    ] {
        let mut stream = connect(port);
        let pipeline = request.repeat(REQUESTS);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (&stream).write_all(pipeline.as_bytes()).unwrap());
            while !writer.is_finished() {
                probe.ask();
            }
        });
        (0..20).for_each(|_| probe.ask());
        let replies = reply.repeat(1000);
        let mut received = vec![0; replies.len()];
        for _ in 0..REQUESTS / 1000 {
            stream.read_exact(&mut received).unwrap();
            assert!(received == replies.as_bytes());
        }
    }
    probe.report("pipelines that are written before they are read");
    let grown = server.peak_growth_mib(before);
    println!("{grown} MiB more than before");
    assert!(grown < 128, "{grown} MiB");
}

/// Makes a value of `VALUE_BYTES` with a short request.
fn make_value(server: &Server) {
    let request = format!("SETRANGE key {} x\r\n", VALUE_BYTES - 1);
    let reply = format!(":{VALUE_BYTES}\r\n");
    expect(
        &mut connect(server.resp),
        request.as_bytes(),
        reply.as_bytes(),
    );
}

/// Asks for much more than sockets hold, and waits until the reply has begun.
fn ask_for_much(server: &Server) -> TcpStream {
    let mut stream = connect(server.resp);
    let request = format!("MGET{}\r\n", " key".repeat(TIMES));
    stream.write_all(request.as_bytes()).unwrap();
    stream.peek(&mut [0]).unwrap();
    stream
}

#[test]
fn who_stays_over_the_soft_limit_is_closed_by_name() {
    let limits = [
        "--client-soft-limit",
        "4MiB",
        "--client-soft-limit-time",
        "1s",
    ];
    let server = Server::start(1024, &limits);
    make_value(&server);
    let mut deaf = ask_for_much(&server);
    let mut probe = Probe::new(&server);
    let address = deaf.local_addr().unwrap().to_string();
    let words = ["connection closed", "soft limit", &address];
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    let asked = Instant::now();
    while !server.log().lines().any(is_it) {
        assert!(asked.elapsed() < TIMEOUT, "{}", server.log());
        probe.ask();
    }
    let mut said = Vec::new();
    let _ = deaf.read_to_end(&mut said);
    assert!(
        said.len() < TIMES * VALUE_BYTES,
        "the connection was closed"
    );
    probe.ask();
    let (_, metrics) = server.get("/metrics", "");
    let closed = "hedgerow_connections_closed_for_memory_total 1\n";
    assert!(metrics.contains(closed), "{metrics}");
}

#[test]
fn who_is_over_the_soft_limit_for_less_than_its_time_is_served() {
    let limits = [
        "--client-soft-limit",
        "4MiB",
        "--client-soft-limit-time",
        "1h",
    ];
    let server = Server::start(1024, &limits);
    make_value(&server);
    let mut slow = ask_for_much(&server);
    // The server looks once a second.
    std::thread::sleep(Duration::from_secs(3));
    let bytes = format!("*{TIMES}\r\n").len() + TIMES * (VALUE_BYTES + "$8388608\r\n\r\n".len());
    let mut received = vec![0; MIB];
    let mut left = bytes;
    while left > 0 {
        let n = slow.read(&mut received[..left.min(MIB)]).unwrap();
        assert!(n > 0, "closed with {left} bytes left: {}", server.log());
        left -= n;
    }
    expect(&mut slow, b"PING\r\n", b"+PONG\r\n");
}
