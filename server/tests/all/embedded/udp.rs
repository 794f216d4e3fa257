//! Datagrams over a disk that keeps syncs waiting, and fails.

use hedgerow::{Durability, IndexKind};
use hedgerow_server::ServerOptions;
use hedgerow_vfs::{CallKind, Fault};

use crate::failing_disk::OnFaultyDisk;
use crate::support::TIMEOUT;
use crate::udp::{Client, over_udp};

#[test]
fn replies_wait_for_the_disk_and_tell_of_it() {
    let started = OnFaultyDisk::over(IndexKind::Masstree, |options| {
        over_udp(ServerOptions {
            durability: Durability::Sync,
            ..options
        })
    });
    let client = Client::of(started.server.addresses().memcached_udp.unwrap());
    client.answers("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    assert_eq!(started.after_a_kill("a").as_deref(), Some(&b"1"[..]));
    let paused = started.disk.pause_once(CallKind::Sync, 0);
    let id = client.send(b"set a 0 0 1\r\n2\r\nget a\r\n");
    assert!(paused.is_reached_within(TIMEOUT), "no sync was begun");
    // Others are answered meanwhile.
    let other = Client::of(started.server.addresses().memcached_udp.unwrap());
    other.answers("get n\r\n", "END\r\n");
    let mut nothing = [0; 100];
    client.socket.set_nonblocking(true).unwrap();
    assert!(client.socket.recv(&mut nothing).is_err(), "not on disk");
    client.socket.set_nonblocking(false).unwrap();
    paused.release();
    let both = "STORED\r\nVALUE a 0 1\r\n2\r\nEND\r\n".to_owned();
    assert_eq!(client.await_reply(id), (both, 1));
    assert_eq!(started.after_a_kill("a").as_deref(), Some(&b"2"[..]));
    let broken = Fault::Error(std::io::ErrorKind::Other);
    started.disk.fail_from(CallKind::Sync, 0, broken);
    // The first write that meets it, so that it fails while it waits. Silent when it succeeds, it
    // is not when it fails. Sent once, as a second one would fail at once.
    let id = client.send(b"ms a 1 q\r\n3\r\n");
    let (reply, _) = client.await_reply(id);
    assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
    let reply = client.ask("set a 0 0 1\r\n4\r\n").0;
    assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
}
