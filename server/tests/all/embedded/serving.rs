//! The server over a directory, a faulty disk and memory alone; values of many megabytes.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use crate::support::{
    Client, Started, Value, array, bulk, copy_files, ok, one_worker, request, start,
};
use hedgerow::Durability;
use hedgerow_server::ServerOptions;
use hedgerow_vfs::{CallKind, FaultyVfs, SystemVfs};

#[test]
fn a_server_in_memory_alone_serves_and_refuses_to_save() {
    let started = Started::in_memory(one_worker());
    let mut client = started.client();
    assert_eq!(client.run("SET k v"), ok());
    assert_eq!(client.run("INCR n"), Value::Integer(1));
    assert_eq!(client.run("GET k"), bulk("v"));
    assert!(matches!(client.run("SAVE"), Value::Error(text) if text.contains("memory alone")));
    assert_eq!(
        client.run("CONFIG GET appendonly"),
        Value::Array(vec![bulk("appendonly"), bulk("no")])
    );
}

#[test]
fn a_value_of_many_megabytes_comes_back() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let value: Vec<u8> = (0..40u32 << 20).map(|i| (i / 7) as u8).collect();
    let mut sent = request(&[b"SET", b"large", &value]);
    sent.extend(request(&[b"GET", b"large"]));
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    assert_eq!(client.reply(), ok());
    assert!(
        client.reply() == Value::Bulk(value),
        "the value came back changed"
    );
    thread.join().unwrap();
}

#[test]
fn synchronous_writes_are_durable_when_acknowledged() {
    let started = Started::new(ServerOptions {
        durability: Durability::Sync,
        ..one_worker()
    });
    let mut client = started.client();
    let mut burst = Vec::new();
    for i in 0..500u32 {
        burst.extend(request(&[b"SET", format!("k{i}").as_bytes(), b"v"]));
        burst.extend(request(&[b"GET", format!("k{i}").as_bytes()]));
        burst.extend(request(&[b"INCR", b"count"]));
    }
    client.send(&burst);
    for i in 1..=500 {
        assert_eq!(
            [client.reply(), client.reply(), client.reply()],
            [ok(), bulk("v"), Value::Integer(i)]
        );
    }
    assert_eq!(client.run("MULTI"), ok());
    client.run("SET x 1");
    client.run("INCR x");
    assert_eq!(client.run("EXEC"), array([ok(), Value::Integer(2)]));
    // Taken as it is, as after the end of the process.
    let copy = tempfile::tempdir().unwrap();
    copy_files(started.dir.path(), copy.path());
    let db = hedgerow::Db::open(copy.path()).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    assert_eq!(keyspace.len(), 502);
    assert_eq!(
        keyspace.get(b"count").unwrap().as_deref(),
        Some(&b"500"[..])
    );
    assert_eq!(keyspace.get(b"x").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn waitaof_waits_for_durability() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let one_zero = array([Value::Integer(1), Value::Integer(0)]);
    assert_eq!(client.run("WAITAOF 1 0 0"), one_zero);
    for i in 0..20 {
        client.run(&format!("SET k {i}"));
        assert_eq!(client.run("WAITAOF 1 0 0"), one_zero);
    }
    let copy = tempfile::tempdir().unwrap();
    copy_files(started.dir.path(), copy.path());
    let db = hedgerow::Db::open(copy.path()).unwrap();
    let value = db.keyspace("default").unwrap().get(b"k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"19"[..]));
}

#[test]
fn waitaof_waits_no_longer_than_its_timeout() {
    let disk = FaultyVfs::new(Arc::new(SystemVfs));
    let dir = tempfile::tempdir().unwrap();
    let db = hedgerow::Db::builder().vfs(Arc::new(disk.clone()));
    let db = Arc::new(db.open(dir.path()).unwrap());
    let server = start(Arc::clone(&db), one_worker()).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let replied = |local| array([Value::Integer(local), Value::Integer(0)]);
    client.run("SET k 1");
    assert_eq!(client.run("WAITAOF 1 0 200000"), replied(1), "in time");
    let paused = disk.pause_once(CallKind::Sync, 0);
    client.run("SET k 2");
    let mut pipeline = request(&[b"WAITAOF", b"1", b"0", b"20"]);
    pipeline.extend(request(&[b"GET", b"k"]));
    pipeline.extend(request(&[b"WAITAOF", b"1", b"0", b"0"]));
    client.send(&pipeline);
    assert_eq!(client.reply(), replied(0), "the sync takes longer");
    assert_eq!(client.reply(), bulk("2"));
    paused.release();
    assert_eq!(
        client.reply(),
        replied(1),
        "without a timeout it is awaited"
    );
}

#[test]
fn shutdown_ends_the_wait_and_keeps_the_data() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    assert_eq!(client.run("SET a 1"), ok());
    client.send(&request(&[b"SHUTDOWN"]));
    assert_eq!(client.try_reply(), None);
    started.server.wait();
    started.server.shutdown();
    assert!(
        TcpStream::connect(started.resp()).is_err(),
        "nobody listens any more"
    );
    started.db.close().unwrap();
    let db = hedgerow::Db::open(started.dir.path()).unwrap();
    assert_eq!(
        db.keyspace("default")
            .unwrap()
            .get(b"a")
            .unwrap()
            .as_deref(),
        Some(&b"1"[..])
    );
}
