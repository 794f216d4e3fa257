//! The server over a backend elsewhere: what it says without asking that backend, how it empties
//! it, and how much memory the replies to reads take.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow::{Db, Durability};
use hedgerow_server::{Server, ServerOptions};

use super::asked_again::{
    AskedAgain, CLEARED_UNTIL_MS, LISTED, LISTS_COUNTED, SYNCED, UNREACHABLE,
};
use crate::client_memory::MIB;
use crate::support::monitoring::{field, info, number, options, page};
use crate::support::{Client, TIMEOUT, Value, eventually, ok, request};

fn serve(options: ServerOptions) -> (Server<AskedAgain>, Client) {
    let db = Db::builder().open_in_memory().unwrap();
    let server = Server::start(Arc::new(AskedAgain(db)), options).unwrap();
    let client = Client::connect(server.addresses().resp.unwrap());
    (server, client)
}

/// Makes a numbered database, which becomes that of the client.
fn make(client: &mut Client, keyspace: &str) {
    assert_eq!(client.run(&keyspace.replace("db", "SELECT ")), ok());
    assert_eq!(client.run("SET a 1"), ok());
}

/// An answer from elsewhere may be long in coming, and the port of `/healthz` has one thread.
#[test]
fn keyspaces_are_shown_without_asking_the_backend_for_them() {
    let (server, mut client) = serve(options());
    make(&mut client, LISTS_COUNTED);
    let shown = info(&mut client, "everything");
    for keyspace in ["default", LISTS_COUNTED] {
        let index = field(&shown, &format!("index_{keyspace}"));
        assert_eq!(index, Some("index=asked-again"), "{shown}");
    }
    page(server.addresses().http.unwrap());
    assert_eq!(LISTED.load(Ordering::SeqCst), 0);
    // `FLUSHALL` must know all of them.
    assert_eq!(client.run("FLUSHALL"), ok());
    assert_eq!(LISTED.load(Ordering::SeqCst), 1);
}

/// Requests that run by themselves run in threads, whose counts are added up.
#[test]
fn keys_that_single_requests_look_up_are_hits_or_misses() {
    let (_server, mut client) = serve(options());
    assert_eq!(client.run("SET a 1"), ok());
    client.run("CONFIG RESETSTAT");
    assert_eq!(client.run("STRLEN a"), Value::Integer(1));
    assert_eq!(client.run("EXISTS a none"), Value::Integer(1));
    client.run("MGET a none");
    let shown = info(&mut client, "stats");
    let counted = ["keyspace_hits", "keyspace_misses"].map(|name| number(&shown, name));
    assert_eq!(counted, [3.0, 2.0], "{shown}");
}

#[test]
fn a_server_whose_backend_is_out_of_reach_is_not_healthy() {
    let (server, mut client) = serve(options());
    let http = server.addresses().http.unwrap();
    let healthz = || {
        let mut stream = TcpStream::connect(http).unwrap();
        let head = b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(head).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(healthz().starts_with("HTTP/1.1 200 "));
    assert!(page(http).contains("\nhedgerow_healthy 1\n"));
    make(&mut client, UNREACHABLE);
    let answer = healthz();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("nobody answers\n"), "{answer}");
    assert!(page(http).contains("\nhedgerow_healthy 0\n"));
    let section = info(&mut client, "persistence");
    assert_eq!(field(&section, "aof_last_write_status"), Some("err"));
}

#[test]
fn a_database_is_emptied_as_durably_as_rows_are_written() {
    let (server, mut client) = serve(ServerOptions {
        durability: Durability::Sync,
        ..options()
    });
    for command in ["FLUSHDB", "FLUSHALL"] {
        assert_eq!(client.call(&[b"SET", SYNCED, b"1"]), ok());
        assert_eq!(client.run(command), ok(), "{command}");
        assert_eq!(client.run("DBSIZE"), Value::Integer(0), "{command}");
    }
    let mut memcached = TcpStream::connect(server.addresses().memcached.unwrap()).unwrap();
    memcached.set_read_timeout(Some(TIMEOUT)).unwrap();
    for line in ["flush_all\r\n", "flush_all 1\r\n"] {
        assert_eq!(client.call(&[b"SET", SYNCED, b"1"]), ok());
        memcached.write_all(line.as_bytes()).unwrap();
        let mut answer = [0; 4];
        memcached.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"OK\r\n", "{line}");
        eventually(|| (client.run("DBSIZE") == Value::Integer(0)).then_some(()));
    }
}

/// A backend that removes row after row leaves what is stored later.
#[test]
fn a_delayed_flush_is_of_what_was_stored_until_it_was_due() {
    let now_ms = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since.as_millis() as u64
    };
    let begun_ms = now_ms();
    let (server, mut client) = serve(ServerOptions {
        durability: Durability::Sync,
        ..options()
    });
    assert_eq!(client.call(&[b"SET", SYNCED, b"1"]), ok());
    let mut memcached = TcpStream::connect(server.addresses().memcached.unwrap()).unwrap();
    memcached.set_read_timeout(Some(TIMEOUT)).unwrap();
    memcached.write_all(b"flush_all 1\r\n").unwrap();
    eventually(|| (client.run("DBSIZE") == Value::Integer(0)).then_some(()));
    let until_ms = CLEARED_UNTIL_MS.load(Ordering::SeqCst);
    assert!((begun_ms..=now_ms()).contains(&until_ms), "{until_ms}");
}

/// Requests of one tick, whose values together are more than there is memory for.
#[test]
fn large_values_of_many_requests_are_made_as_they_are_fetched() {
    let (server, mut client) = serve(ServerOptions {
        client_memory_bytes: 32 * MIB,
        ..options()
    });
    let value = |letter: u8| vec![letter; MIB];
    for key in 0..40u8 {
        assert_eq!(client.call(&[b"SET", &[key], &value(key)]), ok());
    }
    let burst: Vec<u8> = (0..40u8)
        .flat_map(|key| request(&[b"GET", &[key]]))
        .collect();
    client.send(&burst);
    for key in 0..40 {
        assert!(client.reply() == Value::Bulk(value(key)));
    }
    let shown = page(server.addresses().http.unwrap());
    let closed = "\nhedgerow_connections_closed_for_memory_total 0\n";
    assert!(shown.contains(closed), "{shown}");
}

/// The reply holds one of them, and there is no room for a copy of each.
#[test]
fn values_with_the_same_content_are_read_again_where_there_is_no_room_for_copies() {
    let (_server, mut client) = serve(ServerOptions {
        client_memory_bytes: 4 * MIB,
        ..options()
    });
    let (keys, value) = (*b"abcdefgh", vec![b'v'; MIB]);
    for key in keys.chunks(1) {
        assert_eq!(client.call(&[b"SET", key, &value]), ok());
    }
    let mut words: Vec<&[u8]> = vec![b"MGET", b"none"];
    words.extend(keys.chunks(1));
    let Value::Array(replies) = client.call(&words) else {
        panic!("a value that is held once, in four times its memory");
    };
    let mut expected = vec![Value::Null];
    expected.resize(9, Value::Bulk(value));
    assert!(replies == expected);
}
