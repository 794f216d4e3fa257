//! A transaction is rolled back if no command came for a time, and for nothing else: not because
//! the server itself held a command back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hedgerow::Db;
use hedgerow_server::ServerOptions;

use crate::support::{
    Client, Started, Value, bulk, eventually, failed, ok, one_worker, request, start,
};

/// Long enough for a test to send the next command in time, on any machine.
const LIMIT: Duration = Duration::from_secs(2);

fn limited() -> ServerOptions {
    ServerOptions {
        transaction_idle_timeout: LIMIT,
        ..one_worker()
    }
}

fn send_all(client: &mut Client, lines: &[&str]) {
    let words = |line: &&str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        request(&words)
    };
    client.send(&lines.iter().flat_map(words).collect::<Vec<u8>>());
}

#[test]
fn a_pause_that_holds_a_command_back_is_no_idleness() {
    let started = Started::new(limited());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(other.run("CLIENT PAUSE 4000 WRITE"), ok());
    send_all(&mut client, &["BEGIN", "SET a 1", "SET a 2", "COMMIT"]);
    for _ in 0..4 {
        assert_eq!(client.reply(), ok());
    }
    assert_eq!(client.run("GET a"), bulk("2"));
}

/// Where whoever asks for the time waits while the gate is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    somebody_waits: AtomicBool,
}

impl Gate {
    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            self.somebody_waits.store(true, Ordering::SeqCst);
            closed = self.opened.wait(closed).unwrap();
        }
    }

    fn set_closed(&self, to: bool) {
        *self.closed.lock().unwrap() = to;
        self.opened.notify_all();
    }
}

#[test]
fn a_worker_that_is_busy_is_no_idleness() {
    let (gate, dir) = (Arc::new(Gate::default()), tempfile::tempdir().unwrap());
    let asked = Arc::clone(&gate);
    let now = move || {
        asked.pass();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_millis() as u64
    };
    let db = Db::builder().sweep_interval(None).now(Box::new(now));
    let db = Arc::new(db.open(dir.path()).unwrap());
    let server = start(Arc::clone(&db), limited()).unwrap();
    let started = Started { server, db, dir };
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(other.run("SET e v EX 3600"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    // The one worker is busy with the other's command while the client's next one waits.
    gate.set_closed(true);
    send_all(&mut other, &["GET e"]);
    eventually(|| gate.somebody_waits.load(Ordering::SeqCst).then_some(()));
    send_all(&mut client, &["SET a 2"]);
    thread::sleep(LIMIT + LIMIT / 2);
    gate.set_closed(false);
    assert_eq!(other.reply(), bulk("v"));
    assert_eq!(client.reply(), ok());
    assert_eq!(client.run("COMMIT"), ok());
}

#[test]
fn every_command_of_the_connection_is_a_use() {
    let started = Started::new(limited());
    let mut client = started.client();
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    let until = Instant::now() + LIMIT * 2;
    while Instant::now() < until {
        for (command, reply) in [
            ("PING", Value::Simple("PONG".into())),
            ("SELECT 0", ok()),
            ("ECHO here", bulk("here")),
        ] {
            assert_eq!(client.run(command), reply);
            thread::sleep(LIMIT / 10);
        }
    }
    assert_eq!(client.run("COMMIT"), ok());
    // A part of a command that never ends is none.
    assert_eq!(client.run("BEGIN"), ok());
    let begun = Instant::now();
    client.send(b"*2\r\n$3\r\nGET\r\n");
    let open = || started.db.statistics().get("open_transactions") == Some(1.0);
    eventually(|| (!open()).then_some(()));
    assert!(begun.elapsed() >= LIMIT);
    client.send(b"$1\r\na\r\n");
    failed(&client.reply(), &["rolled back", "no command came"]);
}
