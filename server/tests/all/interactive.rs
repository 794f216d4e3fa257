//! `BEGIN … COMMIT`, `SNAPSHOT` and `WITH`: exact replies, conflicts, and what ends with whom.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow_server::ServerOptions;

use crate::support::{Client, Started, Value, array, bulk, eventually, ok, one_worker};

fn failed(value: &Value, parts: &[&str]) {
    let Value::Error(text) = value else {
        panic!("no error: {value:?}");
    };
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

fn token(value: Value) -> String {
    let Value::Bulk(token) = value else {
        panic!("no token: {value:?}");
    };
    String::from_utf8(token).unwrap()
}

#[test]
fn a_transaction_answers_at_once_and_commits_as_one() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("SET a 1"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("GET a"), bulk("1"));
    assert_eq!(client.run("INCRBY a 4"), Value::Integer(5));
    assert_eq!(client.run("HSET h f v"), Value::Integer(1));
    assert_eq!(client.run("MSET b 2 c 3"), ok());
    assert_eq!(
        client.run("RANGE - + KEYS"),
        array([bulk("a"), bulk("b"), bulk("c"), bulk("h")])
    );
    assert_eq!(client.run("COUNTRANGE a c"), Value::Integer(3));
    assert_eq!(client.run("DELRANGE c c"), Value::Integer(1));
    // Nobody else sees any of it.
    assert_eq!(other.run("MGET a b"), array([bulk("1"), Value::Null]));
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(other.run("MGET a b"), array([bulk("5"), bulk("2")]));
    assert_eq!(other.run("EXISTS c"), Value::Integer(0));
    assert_eq!(client.run("BEGIN SNAPSHOT"), ok());
    assert_eq!(client.run("SET a lost"), ok());
    assert_eq!(client.run("ROLLBACK"), ok());
    assert_eq!(client.run("GET a"), bulk("5"));
}

#[test]
fn a_conflict_says_so_and_nothing_has_happened() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("COUNTRANGE order: order;"), Value::Integer(0));
    assert_eq!(client.run("SET orders 0"), ok());
    assert_eq!(other.run("SET order:1 new"), ok());
    let refused = client.run("COMMIT");
    failed(&refused, &["CONFLICT ", "order:1", "run it again"]);
    assert_eq!(client.run("GET orders"), Value::Null);
    failed(&client.run("COMMIT"), &["COMMIT without BEGIN"]);
    // Under snapshot isolation that is allowed; two writes of a key are not.
    assert_eq!(client.run("BEGIN snapshot"), ok());
    assert_eq!(client.run("GET order:1"), bulk("new"));
    assert_eq!(client.run("SET orders 1"), ok());
    assert_eq!(other.run("SET order:1 newer"), ok());
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("BEGIN SNAPSHOT"), ok());
    assert_eq!(client.run("SET orders 2"), ok());
    assert_eq!(other.run("SET orders 3"), ok());
    failed(&client.run("COMMIT"), &["CONFLICT ", "orders"]);
    assert_eq!(client.run("GET orders"), bulk("3"));
}

#[test]
fn what_no_transaction_can_hold_is_refused_by_name() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    failed(&client.run("ROLLBACK"), &["ROLLBACK without BEGIN"]);
    failed(&client.run("BEGIN SERIALIZABLE NOW"), &["syntax"]);
    failed(&client.run("BEGIN SOMEHOW"), &["syntax"]);
    assert_eq!(client.run("BEGIN SERIALIZABLE"), ok());
    assert_eq!(client.run("SET kept here"), ok());
    for command in [
        "MULTI", "WATCH k", "EXEC", "FLUSHDB", "FLUSHALL", "BEGIN", "SNAPSHOT",
    ] {
        let name = command.split(' ').next().unwrap();
        failed(&client.run(command), &[name, "COMMIT or ROLLBACK"]);
    }
    // A command that is refused leaves no part of its effect, and the transaction goes on.
    failed(&client.run("INCR kept"), &["not an integer"]);
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("GET kept"), bulk("here"));
    assert_eq!(client.run("MULTI"), ok());
    failed(&client.run("BEGIN"), &["not allowed"]);
    failed(&client.run("EXEC"), &["EXECABORT"]);
    assert_eq!(client.run("WATCH kept"), ok());
    failed(&client.run("BEGIN"), &["UNWATCH"]);
}

fn open_transactions(started: &Started) -> f64 {
    started.db.statistics().get("open_transactions").unwrap()
}

#[test]
fn idle_transactions_and_those_of_closed_connections_end() {
    let options = ServerOptions {
        transaction_idle_timeout: Duration::from_millis(1),
        ..one_worker()
    };
    let started = Started::new(options);
    let mut client = started.client();
    assert_eq!(client.run("BEGIN"), ok());
    thread::sleep(Duration::from_millis(20));
    failed(&client.run("SET a 1"), &["rolled back", "1 ms", "ROLLBACK"]);
    // Nothing runs outside of it unnoticed.
    failed(&client.run("SET a 1"), &["rolled back"]);
    failed(&client.run("COMMIT"), &["rolled back"]);
    assert_eq!(client.run("EXISTS a"), Value::Integer(0));
    // Also while the client is silent.
    assert_eq!(client.run("BEGIN"), ok());
    eventually(|| (open_transactions(&started) == 0.0).then_some(()));
    assert_eq!(client.run("ROLLBACK"), ok());

    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    assert_eq!(open_transactions(&started), 1.0);
    drop(client);
    eventually(|| (open_transactions(&started) == 0.0).then_some(()));
    assert_eq!(other.run("EXISTS a"), Value::Integer(0));
    assert_eq!(other.run("BEGIN"), ok());
    assert_eq!(other.run("RESET"), Value::Simple("RESET".into()));
    assert_eq!(open_transactions(&started), 0.0);
}

#[test]
fn a_snapshot_is_read_by_its_token_while_others_write() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("MSET a 1 b 2"), ok());
    assert_eq!(client.run("HSET h f v"), Value::Integer(1));
    let own = token(client.run("SNAPSHOT"));
    let named = token(client.run("SNAPSHOT NAME report TTL 60000"));
    assert_eq!((own.len(), named.as_str()), (32, "report"));
    assert_eq!(other.run("MSET a 9 c 3"), ok());
    assert_eq!(other.run("DEL b h"), Value::Integer(2));
    for at in [&own, &named] {
        let mut run = |command: &str| client.run(&format!("WITH {at} {command}"));
        assert_eq!(run("GET a"), bulk("1"));
        let both = array([bulk("1"), bulk("2"), Value::Null]);
        assert_eq!(run("MGET a b c"), both);
        assert_eq!(run("HGETALL h"), array([bulk("f"), bulk("v")]));
        let keys = array([bulk("h"), bulk("b"), bulk("a")]);
        assert_eq!(run("RANGE - + KEYS REV"), keys);
        assert_eq!(run("PREFIX b"), array([bulk("b"), bulk("2")]));
        assert_eq!(run("COUNTRANGE - +"), Value::Integer(3));
        assert_eq!(run("DBSIZE"), Value::Integer(3));
        assert_eq!(run("EXISTS b c"), Value::Integer(1));
        failed(&run("SET a 2"), &["SET", "without WITH"]);
        failed(&run("PING"), &["PING"]);
        failed(&run("GET"), &["wrong number"]);
        failed(&run("NOTHING x"), &["unknown command"]);
    }
    // Another connection can read the named one alone.
    assert_eq!(other.run("WITH report GET b"), bulk("2"));
    failed(
        &other.run(&format!("WITH {own} GET a")),
        &["no such snapshot"],
    );
    failed(&client.run("SNAPSHOT NAME report"), &["already"]);
    for wrong in [
        "SNAPSHOT TTL 0",
        "SNAPSHOT TTL 3600001",
        "SNAPSHOT NAME",
        "SNAPSHOT NOW 1",
    ] {
        assert!(matches!(client.run(wrong), Value::Error(_)), "{wrong}");
    }
    let Value::Array(list) = client.run("SNAPSHOT LIST") else {
        panic!("no list");
    };
    assert_eq!(list.len(), 2);
    assert_eq!(
        client.run(&format!("SNAPSHOT RELEASE {own}")),
        Value::Integer(1)
    );
    assert_eq!(
        client.run(&format!("SNAPSHOT RELEASE {own}")),
        Value::Integer(0)
    );
    failed(
        &client.run(&format!("WITH {own} GET a")),
        &["no such snapshot"],
    );
}

#[test]
fn snapshots_end_with_their_connections_and_in_time() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    token(client.run("SNAPSHOT NAME report TTL 60000"));
    let open = || started.db.statistics().get("snapshots").unwrap();
    token(client.run("SNAPSHOT NAME mine"));
    assert_eq!(open(), 2.0);
    drop(client);
    eventually(|| (open() == 1.0).then_some(()));
    assert_eq!(other.run("SNAPSHOT RELEASE report"), Value::Integer(1));
    assert_eq!(open(), 0.0);
    token(other.run("SNAPSHOT NAME short TTL 1"));
    eventually(|| (open() == 0.0).then_some(()));
    for _ in 0..16 {
        token(other.run("SNAPSHOT"));
    }
    failed(&other.run("SNAPSHOT"), &["16", "SNAPSHOT RELEASE"]);
}

/// Sets a flag when it is dropped, also by a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pages through all keys, by `RANGE` and by `SCAN`, while another client writes.
#[test]
fn pages_of_a_snapshot_fit_together() {
    let started = Started::new(ServerOptions {
        workers: 2,
        ..ServerOptions::default()
    });
    let all: Vec<Vec<u8>> = (0..5_000)
        .map(|i| format!("k{i:05}").into_bytes())
        .collect();
    let mut client = started.client();
    for key in &all {
        client.send(&crate::support::request(&[b"SET", key, b"old"]));
    }
    for _ in &all {
        assert_eq!(client.reply(), ok());
    }
    let at = token(client.run("SNAPSHOT"));
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let address = started.resp();
        scope.spawn(move || {
            let mut writer = Client::connect(address);
            for i in (0..5_000).cycle() {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                writer.run(&format!("DEL k{i:05}"));
                writer.run(&format!("SET k{i:05}x new"));
            }
        });
        let _ends_writer = SetAtEnd(done);
        assert_eq!(pages_by_range(&mut client, &at), all);
        assert_eq!(pages_by_scan(&mut client, &at), all);
    });
}

/// All keys of a snapshot, a hundred at a time.
fn pages_by_range(client: &mut Client, at: &str) -> Vec<Vec<u8>> {
    let mut from = Bound::Unbounded;
    let mut seen = Vec::new();
    loop {
        let start = match &from {
            Bound::Excluded(last) => format!("({last}"),
            _ => "-".to_owned(),
        };
        let page = client.run(&format!("WITH {at} RANGE {start} + LIMIT 100 KEYS"));
        let Value::Array(keys) = page else {
            panic!("no page: {page:?}");
        };
        if keys.is_empty() {
            break;
        }
        for key in keys {
            let Value::Bulk(key) = key else {
                panic!("no key")
            };
            from = Bound::Excluded(String::from_utf8(key.clone()).unwrap());
            seen.push(key);
        }
    }
    seen
}

/// All keys of a snapshot, by a cursor.
fn pages_by_scan(client: &mut Client, at: &str) -> Vec<Vec<u8>> {
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        let Value::Array(reply) = client.run(&format!("WITH {at} SCAN {cursor} COUNT 200")) else {
            panic!("no reply");
        };
        let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else {
            panic!("no page: {reply:?}");
        };
        seen.extend(keys.iter().map(|key| match key {
            Value::Bulk(key) => key.clone(),
            other => panic!("no key: {other:?}"),
        }));
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    seen
}
