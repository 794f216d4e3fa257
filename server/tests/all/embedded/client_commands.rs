//! Replies that are left out, over a disk that keeps syncs waiting.

use std::sync::Arc;

use crate::support::{Client, TIMEOUT, bulk, ok, one_worker, start};
use hedgerow::{Db, Durability};
use hedgerow_server::{Server, ServerOptions};
use hedgerow_vfs::{CallKind, FaultyVfs, SystemVfs};

/// A server of one worker that promises so much of a write, and its disk.
fn on_faulty_disk(durability: Durability) -> (Server, FaultyVfs, tempfile::TempDir) {
    let disk = FaultyVfs::new(Arc::new(SystemVfs));
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder().vfs(Arc::new(disk.clone()));
    let db = Arc::new(builder.durability(durability).open(dir.path()).unwrap());
    let options = ServerOptions {
        durability,
        ..one_worker()
    };
    (start(db, options).unwrap(), disk, dir)
}

#[test]
fn writes_whose_replies_are_left_out_hold_nothing_up_forever() {
    let wait = |timeout_ms: u64| {
        format!("CLIENT REPLY OFF\r\nSET a 1\r\nWAITAOF 1 0 {timeout_ms}\r\nCLIENT REPLY ON\r\n")
    };
    // What is behind a write waits for it, and goes out once it is durable.
    let (server, disk, _dir) = on_faulty_disk(Durability::Sync);
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let paused = disk.pause_once(CallKind::Sync, 0);
    client.send(wait(1).as_bytes());
    assert!(paused.is_reached_within(TIMEOUT), "no sync was begun");
    paused.release();
    assert_eq!((client.reply(), client.run("GET a")), (ok(), bulk("1")));

    // A wait whose reply is left out is none: what is behind it goes out though nothing becomes
    // durable, and no reply comes when its time is up.
    let (server, disk, _dir) = on_faulty_disk(Durability::Periodic);
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let paused = disk.pause_once(CallKind::Sync, 0);
    for timeout_ms in [1, 0] {
        client.send(wait(timeout_ms).as_bytes());
        assert_eq!((client.reply(), client.run("GET a")), (ok(), bulk("1")));
    }
    paused.release();
}
