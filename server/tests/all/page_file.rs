//! A server over B-trees in a page file, one page of which is damaged: only the requests that need
//! it fail.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::support::{Client, Value, bulk, one_worker, request, start};
use hedgerow::{Db, IndexKind};
use hedgerow_server::ServerOptions;

const ROWS: u32 = 20_000;
const MEMORY: usize = 2 << 20;

fn key(n: u32) -> String {
    format!("{n:05}")
}

fn value(n: u32) -> String {
    format!("{n:05}-").repeat(30)
}

/// A database with a flipped bit in the page of the row that is returned.
fn damaged(dir: &std::path::Path) -> (Arc<Db>, u32) {
    let open = || {
        Db::builder()
            .index(IndexKind::BTree)
            .memory_limit(Some(MEMORY))
            .open(dir)
            .unwrap()
    };
    let db = open();
    let rows = db.keyspace("default").unwrap();
    for n in 0..ROWS {
        rows.put(key(n).as_bytes(), value(n).as_bytes()).unwrap();
    }
    db.close().unwrap();
    drop((rows, db));
    let file = dir.join("pages.hdg");
    let mut bytes = std::fs::read(&file).unwrap();
    let victim = ROWS / 2;
    let value = value(victim);
    let places = bytes.windows(value.len()).enumerate();
    let places = places.filter(|(_, window)| *window == value.as_bytes());
    // Older versions of the page may lie elsewhere.
    for at in places.map(|(at, _)| at).collect::<Vec<_>>() {
        bytes[at] ^= 1;
    }
    std::fs::write(&file, bytes).unwrap();
    (Arc::new(open()), victim)
}

#[test]
fn a_damaged_page_fails_the_requests_that_need_it_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (db, victim) = damaged(dir.path());
    let options = ServerOptions {
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        ..one_worker()
    };
    let server = start(Arc::clone(&db), options).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let asked: Vec<u32> = (0..64).map(|i| (victim + i * 311) % ROWS).collect();
    let burst = asked
        .iter()
        .flat_map(|&n| request(&[b"GET", key(n).as_bytes()]));
    client.send(&burst.collect::<Vec<u8>>());
    for &n in &asked {
        let reply = client.reply();
        match reply {
            Value::Error(text) if n == victim => {
                for part in ["pages.hdg", "checksum", "backup"] {
                    assert!(text.contains(part), "{text}");
                }
            }
            reply => assert_eq!(reply, bulk(&value(n)), "{n}"),
        }
    }
    let failed = |reply| matches!(reply, Value::Error(text) if text.contains("pages.hdg"));
    assert!(failed(client.run(&format!("SET {} x", key(victim)))));
    assert!(failed(client.run("RANGE 0 9 LIMIT 20000 KEYS")));
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));

    let mut memcached = TcpStream::connect(server.addresses().memcached.unwrap()).unwrap();
    let (first, last) = (key(1), key(ROWS - 1));
    let request = format!("get {first} {} {last}\r\nget {last}\r\n", key(victim));
    memcached.write_all(request.as_bytes()).unwrap();
    let found = |n: u32| format!("VALUE {} 0 {}\r\n{}\r\n", key(n), value(n).len(), value(n));
    let mut reply = String::new();
    let end = format!("{}END\r\n", found(ROWS - 1));
    let mut buffer = [0; 4096];
    while !reply.ends_with(&end) {
        let read = memcached.read(&mut buffer).unwrap();
        assert!(read > 0, "{reply}");
        reply.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    assert!(
        reply.starts_with(&format!("{}SERVER_ERROR ", found(1))),
        "{reply}"
    );
    assert_eq!(reply.lines().count(), 3 + 3, "{reply}");

    let Value::Bulk(text) = client.run("INFO memory") else {
        panic!("INFO answers with text");
    };
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains(&format!("pages_budget_bytes:{MEMORY}\r\n")),
        "{text}"
    );
    assert!(text.contains("pages_resident:"), "{text}");
}
