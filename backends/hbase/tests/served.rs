//! The server over a real cluster, whose URL is in `HEDGEROW_HBASE_URL`, beside the server over the
//! engine: the same requests get the same replies. Without a URL it says that it was skipped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use hedgerow::backend::Backend;
use hedgerow::{Db, WriteOptions};
use hedgerow_hbase::{Hbase, HbaseOptions};
use hedgerow_server::{Server, ServerOptions};

/// Requests whose commands depend on what is there, in their order, as the server's own tests have
/// them.
const DEPENDING: &str = include_str!("../../../server/tests/all/depending_requests.txt");

/// Where the reply ends that begins at `at`; `None` if it is not all there.
fn reply_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let line = rest.windows(2).position(|two| two == b"\r\n")?;
    let behind = at + line + 2;
    let number = || {
        std::str::from_utf8(&rest[1..line])
            .ok()?
            .parse::<i64>()
            .ok()
    };
    match rest[0] {
        b'$' => {
            let end = usize::try_from(number()?).map_or(behind, |bytes| behind + bytes + 2);
            (end <= bytes.len()).then_some(end)
        }
        b'*' => (0..number()?).try_fold(behind, |at, _| reply_end(bytes, at)),
        _ => Some(behind),
    }
}

/// A connection that sends lines, and reads a reply for each.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Client(stream)
    }

    /// Sends requests, one a line; their replies.
    fn run(&mut self, requests: &str) -> String {
        let mut text = String::new();
        requests
            .lines()
            .for_each(|line| text += &format!("{line}\r\n"));
        self.0.write_all(text.as_bytes()).unwrap();
        let mut replies = Vec::new();
        let mut end = 0;
        for request in requests.lines() {
            let mut buffer = [0; 4096];
            while reply_end(&replies, end).is_none() {
                let bytes = self.0.read(&mut buffer).expect(request);
                assert!(bytes > 0, "the server closed the connection");
                replies.extend_from_slice(&buffer[..bytes]);
            }
            end = reply_end(&replies, end).unwrap();
        }
        assert_eq!(end, replies.len(), "more than was asked for");
        String::from_utf8_lossy(&replies).into_owned()
    }
}

fn options() -> ServerOptions {
    ServerOptions {
        workers: 2,
        memcached: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..ServerOptions::default()
    }
}

fn over_hbase() -> Option<Server<Hbase>> {
    let Ok(url) = std::env::var("HEDGEROW_HBASE_URL") else {
        eprintln!("skipped: HEDGEROW_HBASE_URL names no cluster; `.ci/hbase up` starts one");
        return None;
    };
    let db = Hbase::open(&url.parse().unwrap(), HbaseOptions::default()).unwrap();
    let cleared = db.clear_keyspace("default", &WriteOptions::default());
    cleared.unwrap();
    Some(Server::start(Arc::new(db), options()).unwrap())
}

/// All of it in one test: both work in the keyspace of the first database.
#[test]
fn the_same_requests_get_the_same_replies() {
    let Some(server) = over_hbase() else { return };
    let db = Arc::new(Db::builder().open_in_memory().unwrap());
    let embedded = Server::start(db, options()).unwrap();
    let mut hbase = Client::connect(server.addresses().resp.unwrap());
    let mut engine = Client::connect(embedded.addresses().resp.unwrap());
    for request in DEPENDING.lines() {
        assert_eq!(hbase.run(request), engine.run(request), "{request}");
    }
    // Pipelined, so that puts and reads are joined.
    let mut many = String::new();
    for i in 0..500 {
        many += &format!("SET key:{} {i}\nGET key:{}\n", i % 90, (i + 1) % 90);
    }
    assert_eq!(hbase.run(&many), engine.run(&many));
    for request in [
        "MGET key:1 key:2 none key:3",
        "RANGE key:1 key:3",
        "RANGE - + LIMIT 5 REV",
        "PREFIX key:4",
        "COUNTRANGE - +",
        "DBSIZE",
        "DELRANGE key:2 key:3",
        "DBSIZE",
        "KEYS *1",
        "FLUSHALL",
        "DBSIZE",
    ] {
        assert_eq!(hbase.run(request), engine.run(request), "{request}");
    }
    refuses_what_hbase_cannot_do(&mut hbase);
    serves_memcached_clients(server.addresses().memcached.unwrap());
}

fn refuses_what_hbase_cannot_do(hbase: &mut Client) {
    for request in [
        "RENAME a c",
        "COPY a c",
        "MSETNX x 1 y 2",
        "BEGIN",
        "SNAPSHOT",
        "SAVE",
        "BGSAVE",
        "RANDOMKEY",
        "WITH token GET a",
    ] {
        let reply = hbase.run(request);
        assert!(
            reply.starts_with("-UNSUPPORTED ") && reply.contains("HBase"),
            "{request}: {reply}"
        );
    }
    let info = hbase.run("INFO backend");
    for line in [
        "backend:hbase",
        "backend_lacks_several_rows:",
        "hbase_gateways_healthy:",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
}

fn serves_memcached_clients(address: SocketAddr) {
    let mut memcached = Client::connect(address);
    let mut run = |text: &str, end: &str| {
        memcached.0.write_all(text.as_bytes()).unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(end.as_bytes()) {
            let mut buffer = [0; 1024];
            let bytes = memcached.0.read(&mut buffer).unwrap();
            assert!(bytes > 0);
            reply.extend_from_slice(&buffer[..bytes]);
        }
        String::from_utf8(reply).unwrap()
    };
    assert_eq!(run("set m 5 0 2\r\nhi\r\n", "\r\n"), "STORED\r\n");
    let got = run("gets m\r\n", "END\r\n");
    assert!(got.starts_with("VALUE m 5 2 "), "{got}");
    let cas = got
        .lines()
        .next()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(
        run(&format!("cas m 6 0 2 {cas}\r\nho\r\n"), "\r\n"),
        "STORED\r\n"
    );
    assert_eq!(
        run(&format!("cas m 6 0 2 {cas}\r\nha\r\n"), "\r\n"),
        "EXISTS\r\n"
    );
    assert_eq!(run("append m 0 0 1\r\n!\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(run("get m\r\n", "END\r\n"), "VALUE m 6 3\r\nho!\r\nEND\r\n");
    assert_eq!(run("delete m\r\n", "\r\n"), "DELETED\r\n");
    assert_eq!(run("incr m 1\r\n", "\r\n"), "NOT_FOUND\r\n");
}
