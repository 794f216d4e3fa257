//! What a reply to a write is worth when the disk is slow, full or broken. A copy of the files is
//! what a kill of the process would leave behind.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::monitoring::info;
use crate::support::{
    Client, TIMEOUT, Value, array, bulk, copy_files, ok, one_worker, request, start,
};
use hedgerow::{Db, Durability, IndexKind};
use hedgerow_server::{Server, ServerOptions};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, SystemVfs};

pub const INDEXES: [IndexKind; 5] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::Bst,
    IndexKind::BTree,
];

/// A server of one worker on a disk that fails when asked to.
pub struct OnFaultyDisk {
    pub disk: FaultyVfs,
    dir: tempfile::TempDir,
    pub server: Server,
    db: Arc<Db>,
}

impl OnFaultyDisk {
    fn new(index: IndexKind, durability: Durability) -> OnFaultyDisk {
        OnFaultyDisk::over(index, |options| ServerOptions {
            durability,
            ..options
        })
    }

    /// As `set` changes the options.
    pub fn over(
        index: IndexKind,
        set: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> OnFaultyDisk {
        let options = set(ServerOptions {
            memcached: Some("127.0.0.1:0".parse().unwrap()),
            ..one_worker()
        });
        let disk = FaultyVfs::new(Arc::new(SystemVfs));
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder()
            .vfs(Arc::new(disk.clone()))
            .index(index)
            // Else a full disk goes unnoticed until these are used up.
            .log_reserve_bytes(0)
            .log_ahead_bytes(0)
            .durability(options.durability)
            .open(dir.path());
        let db = Arc::new(db.unwrap());
        let server = start(Arc::clone(&db), options).unwrap();
        OnFaultyDisk {
            disk,
            dir,
            server,
            db,
        }
    }

    fn resp(&self) -> Client {
        Client::connect(self.server.addresses().resp.unwrap())
    }

    fn memcached(&self) -> SocketAddr {
        self.server.addresses().memcached.unwrap()
    }

    /// The value that a kill at this moment would leave.
    pub fn after_a_kill(&self, key: &str) -> Option<Vec<u8>> {
        let copy = tempfile::tempdir().unwrap();
        copy_files(self.dir.path(), copy.path());
        let db = Db::open(copy.path()).unwrap();
        db.keyspace("default").unwrap().get(key.as_bytes()).unwrap()
    }

    /// Waits until the log has found its disk well again.
    fn await_health(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while self.db.health() != hedgerow::Health::Healthy {
            assert!(Instant::now() < deadline, "{:?}", self.db.health());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn says(reply: &Value, words: &[&str]) {
    let Value::Error(text) = reply else {
        panic!("{reply:?} is no error");
    };
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

#[test]
fn a_write_beside_waitaof_is_written_out_before_its_reply() {
    for index in INDEXES {
        let started = OnFaultyDisk::new(index, Durability::Periodic);
        let mut waiting = started.resp();
        waiting.run("SET waiting1 1");
        let paused = started.disk.pause_once(CallKind::Sync, 0);
        waiting.send(&request(&[b"WAITAOF", b"1", b"0", b"0"]));
        // From here on the log's thread is in a sync and writes nothing by itself.
        assert!(paused.is_reached_within(TIMEOUT), "no sync was begun");
        let mut client = started.resp();
        let mut pipeline = request(&[b"SET", b"some_key", b"1"]);
        pipeline.extend(request(&[b"WAITAOF", b"1", b"0", b"0"]));
        client.send(&pipeline);
        assert_eq!(client.reply(), ok());
        let left = started.after_a_kill("some_key");
        assert_eq!(left.as_deref(), Some(&b"1"[..]), "{}", index.name());
        paused.release();
        let durable = array([Value::Integer(1), Value::Integer(0)]);
        assert_eq!(
            (waiting.reply(), client.reply()),
            (durable.clone(), durable)
        );
    }
}

/// Its write may be applied, and it would do it again.
#[test]
fn who_waits_for_the_reply_to_a_write_is_not_idle() {
    let started = OnFaultyDisk::over(IndexKind::Masstree, |options| ServerOptions {
        durability: Durability::Sync,
        idle_timeout: Some(Duration::from_millis(500)),
        ..options
    });
    let mut client = started.resp();
    assert_eq!(client.run("SET before_1 1"), ok());
    let paused = started.disk.pause_once(CallKind::Sync, 0);
    client.send(&request(&[b"SET", b"some_key", b"1"]));
    assert!(paused.is_reached_within(TIMEOUT), "no sync was begun");
    // The server looks for idle connections once a second.
    std::thread::sleep(Duration::from_millis(2500));
    paused.release();
    assert_eq!(client.reply(), ok());
}

/// What the HTTP port answers a probe.
fn probe(started: &OnFaultyDisk) -> String {
    let address = started.server.addresses().http.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_full_disk_is_said_to_probes_until_there_is_space() {
    let started = OnFaultyDisk::over(IndexKind::Masstree, |options| ServerOptions {
        durability: Durability::Sync,
        http: Some("127.0.0.1:0".parse().unwrap()),
        ..options
    });
    let mut client = started.resp();
    let written = |client: &mut Client, state: &str| {
        let persistence = info(client, "persistence");
        let line = format!("aof_last_write_status:{state}\r\n");
        assert!(persistence.contains(&line), "{persistence}");
    };
    assert_eq!(client.run("SET before_1 1"), ok());
    assert!(probe(&started).starts_with("HTTP/1.1 200"));
    written(&mut client, "ok");
    started.disk.set_space(Some(0));
    says(&client.run("SET some_key 1"), &["MISCONF", "disk is full"]);
    let probed = probe(&started);
    assert!(probed.starts_with("HTTP/1.1 503"), "{probed}");
    assert!(probed.contains("disk is full"), "{probed}");
    written(&mut client, "err");
    started.disk.set_space(None);
    started.await_health();
    assert!(probe(&started).starts_with("HTTP/1.1 200"));
    written(&mut client, "ok");
}

#[test]
fn a_write_that_could_not_be_written_out_is_not_acknowledged() {
    for index in INDEXES {
        let started = OnFaultyDisk::new(index, Durability::Periodic);
        let mut client = started.resp();
        assert_eq!(client.run("SET before_1 1"), ok());
        started.disk.set_space(Some(0));
        let mut pipeline = request(&[b"GET", b"before_1"]);
        pipeline.extend(request(&[b"SET", b"some_key", b"1"]));
        pipeline.extend(request(&[b"GET", b"some_key"]));
        pipeline.extend(request(&[b"INCR", b"a_number"]));
        pipeline.extend(request(&[b"ECHO", b"end"]));
        client.send(&pipeline);
        assert_eq!(client.reply(), bulk("1"));
        says(&client.reply(), &["MISCONF", "disk is full", "applied"]);
        assert_eq!(client.reply(), bulk("1"), "it is visible");
        says(&client.reply(), &["MISCONF", "disk is full", "applied"]);
        assert_eq!(client.reply(), bulk("end"));
        // This one is refused before anything happens.
        says(&client.run("SET another1 1"), &["MISCONF", "disk is full"]);
        let errors = info(&mut client, "errorstats");
        assert!(errors.contains("errorstat_MISCONF:count=3\r\n"), "{errors}");
        assert_eq!(client.run("GET another1"), Value::Null);
        assert_eq!(started.after_a_kill("before_1").as_deref(), Some(&b"1"[..]));
        started.disk.set_space(None);
        started.await_health();
        assert_eq!(client.run("SET some_key 2"), ok());
        assert_eq!(started.after_a_kill("some_key").as_deref(), Some(&b"2"[..]));
        assert_eq!(started.after_a_kill("a_number").as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_write_that_met_a_broken_disk_is_not_acknowledged() {
    for index in INDEXES {
        let started = OnFaultyDisk::new(index, Durability::Periodic);
        let mut client = started.resp();
        assert_eq!(client.run("SET before_1 1"), ok());
        let broken = Fault::Error(std::io::ErrorKind::Other);
        started.disk.fail_from(CallKind::Write, 0, broken);
        let mut pipeline = request(&[b"SET", b"some_key", b"1"]);
        pipeline.extend(request(&[b"GET", b"before_1"]));
        client.send(&pipeline);
        says(&client.reply(), &["MISCONF", "applied", "injected"]);
        assert_eq!(client.reply(), bulk("1"));
        says(&client.run("SET another1 1"), &["MISCONF", "injected"]);
        assert_eq!(client.run("GET another1"), Value::Null);
    }
}

#[test]
fn a_synchronous_write_on_a_full_disk_is_answered() {
    for index in INDEXES {
        let started = OnFaultyDisk::new(index, Durability::Sync);
        let mut client = started.resp();
        assert_eq!(client.run("SET before_1 1"), ok());
        started.disk.set_space(Some(0));
        // Longer than what the log has written ahead.
        let mut pipeline = request(&[b"SET", b"some_key", &[b'v'; 200_000]]);
        pipeline.extend(request(&[b"STRLEN", b"some_key"]));
        pipeline.extend(request(&[b"MSET", b"number_1", b"1", b"number_2", b"1"]));
        pipeline.extend(request(&[b"PING"]));
        client.send(&pipeline);
        says(&client.reply(), &["MISCONF", "disk is full", "applied"]);
        assert_eq!(client.reply(), Value::Integer(200_000), "it is visible");
        says(&client.reply(), &["MISCONF", "disk is full"]);
        assert_eq!(client.reply(), Value::Simple("PONG".into()));
        says(&client.run("SET another1 1"), &["MISCONF", "disk is full"]);
        let errors = info(&mut client, "errorstats");
        assert!(errors.contains("errorstat_MISCONF:count=3\r\n"), "{errors}");
        started.disk.set_space(None);
        started.await_health();
        assert_eq!(client.run("SET some_key 2"), ok());
        assert_eq!(started.after_a_kill("some_key").as_deref(), Some(&b"2"[..]));
    }
}

#[test]
fn a_synchronous_write_whose_sync_fails_is_answered_and_the_connection_goes_on() {
    let started = OnFaultyDisk::new(IndexKind::Masstree, Durability::Sync);
    let mut client = started.resp();
    let broken = Fault::Error(std::io::ErrorKind::Other);
    started.disk.fail_from(CallKind::Sync, 0, broken);
    let mut pipeline = request(&[b"SET", b"some_key", b"1"]);
    pipeline.extend(request(&[b"GET", b"some_key"]));
    client.send(&pipeline);
    says(&client.reply(), &["MISCONF", "applied", "injected"]);
    assert_eq!(client.reply(), bulk("1"));
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
}

/// What the reply to a `COMMIT` says, a `GET` behind it and a kill agree with: all of it is there,
/// or nothing.
#[test]
fn a_commit_that_met_a_failing_disk_is_not_acknowledged() {
    let full = |disk: &FaultyVfs| disk.set_space(Some(0));
    let broken = |disk: &FaultyVfs| {
        let fault = Fault::Error(std::io::ErrorKind::Other);
        disk.fail_from(CallKind::Write, 0, fault);
        disk.fail_from(CallKind::Sync, 0, fault);
    };
    let faults = [("full", full as fn(&FaultyVfs)), ("broken", broken)];
    let both = |name: &str| [format!("{name}_1"), format!("{name}_2")];
    for (index, durability) in INDEXES.into_iter().flat_map(|index| {
        [Durability::Sync, Durability::Periodic].map(|durability| (index, durability))
    }) {
        for (what, fail) in faults {
            let context = format!("{}, {durability:?}, {what}", index.name());
            let started = OnFaultyDisk::new(index, durability);
            let mut client = started.resp();
            let begin = |client: &mut Client, name: &str| {
                assert_eq!(client.run("BEGIN"), ok());
                for key in both(name) {
                    assert_eq!(client.run(&format!("SET {key} 1")), ok());
                }
            };
            begin(&mut client, "before");
            assert_eq!(client.run("COMMIT"), ok());
            begin(&mut client, "beside");
            fail(&started.disk);
            let mut pipeline = request(&[b"COMMIT"]);
            pipeline.extend(request(&[b"MGET", b"beside_1", b"beside_2"]));
            client.send(&pipeline);
            says(&client.reply(), &["MISCONF", "applied"]);
            assert_eq!(client.reply(), array([bulk("1"), bulk("1")]), "{context}");
            // One that begins now is refused before anything happens.
            begin(&mut client, "behind");
            says(&client.run("COMMIT"), &["MISCONF"]);
            let nothing = array([Value::Null, Value::Null]);
            assert_eq!(client.run("MGET behind_1 behind_2"), nothing, "{context}");
            let after_a_kill = |name: &str| both(name).map(|key| started.after_a_kill(&key));
            let [first, second] = after_a_kill("beside");
            assert_eq!(first, second, "{context}: half of a commit");
            if what == "full" {
                started.disk.set_space(None);
                started.await_health();
                begin(&mut client, "behind");
                assert_eq!(client.run("COMMIT"), ok(), "{context}");
                for name in ["beside", "behind"] {
                    let there = [Some(b"1".to_vec()), Some(b"1".to_vec())];
                    assert_eq!(after_a_kill(name), there, "{context}");
                }
            }
        }
    }
}

/// Failures reach memcached clients in their own protocol.
#[test]
fn memcached_clients_are_told_of_a_failing_disk_in_their_protocol() {
    use std::io::{BufRead, BufReader, Write};
    let full = |disk: &FaultyVfs| disk.set_space(Some(0));
    let broken = |disk: &FaultyVfs| {
        let fault = Fault::Error(std::io::ErrorKind::Other);
        disk.fail_from(CallKind::Write, 0, fault);
        disk.fail_from(CallKind::Sync, 0, fault);
    };
    let faults: [fn(&FaultyVfs); 2] = [full, broken];
    for durability in [Durability::Sync, Durability::Periodic] {
        for fault in faults {
            let started = OnFaultyDisk::new(IndexKind::Masstree, durability);
            let mut stream = std::net::TcpStream::connect(started.memcached()).unwrap();
            let timeout = Some(TIMEOUT);
            stream.set_read_timeout(timeout).unwrap();
            fault(&started.disk);
            // A set without a reply, one with a reply, a quiet meta one, and a read.
            stream
                .write_all(
                    b"set a 0 0 1 noreply\r\n1\r\nset b 0 0 1\r\n1\r\nms c 1 q\r\n1\r\nmn\r\n",
                )
                .unwrap();
            let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
            for _ in 0..2 {
                let line = lines.next().unwrap();
                assert!(line.starts_with("SERVER_ERROR "), "{line}");
            }
            assert_eq!(lines.next().as_deref(), Some("MN"));
        }
    }
}

/// A `gat` whose values are sent over several ticks is acknowledged by its `END` alone.
#[test]
fn a_long_gat_ends_in_an_error_where_the_disk_fails() {
    use std::io::{BufRead, BufReader, Read, Write};
    const VALUE_BYTES: usize = 1 << 20;
    let full = |disk: &FaultyVfs| disk.set_space(Some(0));
    let broken = |disk: &FaultyVfs| {
        let fault = Fault::Error(std::io::ErrorKind::Other);
        disk.fail_from(CallKind::Write, 0, fault);
        disk.fail_from(CallKind::Sync, 0, fault);
    };
    let faults: [fn(&FaultyVfs); 2] = [full, broken];
    for durability in [Durability::Sync, Durability::Periodic] {
        for fault in faults {
            let started = OnFaultyDisk::new(IndexKind::Masstree, durability);
            let mut client = started.resp();
            for key in [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"] {
                assert_eq!(client.call(&[b"SET", key, &[b'v'; VALUE_BYTES]]), ok());
            }
            let mut stream = std::net::TcpStream::connect(started.memcached()).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            fault(&started.disk);
            stream
                .write_all(b"gat 100 a b c d e f g h\r\nmn\r\n")
                .unwrap();
            let mut stream = BufReader::new(stream);
            let mut next_line = || {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if line.starts_with("VALUE ") {
                    stream.read_exact(&mut vec![0; VALUE_BYTES + 2]).unwrap();
                }
                line
            };
            let mut line = next_line();
            while line.starts_with("VALUE ") {
                line = next_line();
            }
            assert!(line.starts_with("SERVER_ERROR "), "{line}");
            assert_eq!(next_line(), "MN\r\n");
        }
    }
}
