//! `SNAPSHOT` and `WITH` over each index: exact replies, bounds, and pages that fit together.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::IndexKind;
use hedgerow_server::ServerOptions;
use hedgerow_testkit::over_each_index;

use crate::embedded::over_index::OverIndex;
use crate::support::{
    Client, Started, Value, array, bulk, eventually, failed, ok, one_worker, statistic, token,
};

over_each_index! {
    a_snapshot_is_read_by_its_token_while_others_write,
    snapshots_end_with_their_connections_and_in_time,
    pages_of_a_snapshot_fit_together,
}

fn a_snapshot_is_read_by_its_token_while_others_write(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let (mut client, mut other) = (over.client(), over.client());
    assert_eq!(client.run("MSET @number-a 1 @number-b 2"), ok());
    assert_eq!(client.run("HSET @number-h f v"), Value::Integer(1));
    let own = token(client.run("SNAPSHOT"));
    let named = token(client.run("SNAPSHOT NAME report TTL 60000"));
    assert_eq!((own.len(), named.as_str()), (32, "report"));
    assert_eq!(other.run("MSET @number-a 9 @number-c 3"), ok());
    assert_eq!(other.run("DEL @number-b @number-h"), Value::Integer(2));
    for at in [&own, &named] {
        reads_as_it_was(&over, &mut client, at);
        // Clearing the database changes nothing in it.
        assert_eq!(other.run("FLUSHDB"), ok());
        reads_as_it_was(&over, &mut client, at);
    }
    // Another connection can read the named one alone.
    assert_eq!(other.run("WITH report GET @number-b"), bulk("2"));
    let foreign = other.run(&format!("WITH {own} GET @number-a"));
    failed(&foreign, &["no such snapshot"]);
    let release = format!("SNAPSHOT RELEASE {own}");
    assert_eq!(other.run(&release), Value::Integer(0));
    failed(&client.run("SNAPSHOT NAME report"), &["already"]);
    let Value::Array(list) = client.run("SNAPSHOT LIST") else {
        panic!("no list");
    };
    assert_eq!(list.len(), 2);
    assert_eq!(client.run(&release), Value::Integer(1));
    assert_eq!(client.run(&release), Value::Integer(0));
    let released = client.run(&format!("WITH {own} GET @number-a"));
    failed(&released, &["no such snapshot"]);
}

fn reads_as_it_was(over: &OverIndex, client: &mut Client, at: &str) {
    let mut run = |command: &str| client.run(&format!("WITH {at} {command}"));
    assert_eq!(run("GET @number-a"), bulk("1"));
    let both = array([bulk("1"), bulk("2"), Value::Null]);
    assert_eq!(run("MGET @number-a @number-b @number-c"), both);
    let hash = array([bulk("f"), bulk("v")]);
    assert_eq!(run("HGETALL @number-h"), hash);
    let scanned = run("HSCAN @number-h 0");
    assert_eq!(scanned, array([bulk("0"), hash]));
    let keys = ["number-h", "number-b", "number-a"].map(|key| over.bulk_key(key));
    assert_eq!(run("RANGE - + KEYS REV"), array(keys.clone()));
    let sorted = Value::Array(keys.into_iter().rev().collect());
    assert_eq!(run("KEYS *"), sorted);
    assert_eq!(run("SCAN 0"), array([bulk("0"), sorted]));
    let one = array([over.bulk_key("number-b"), bulk("2")]);
    assert_eq!(run("PREFIX @number-b"), one);
    assert_eq!(run("COUNTRANGE - +"), Value::Integer(3));
    assert_eq!(run("DBSIZE"), Value::Integer(3));
    assert_eq!(run("EXISTS @number-b @number-c"), Value::Integer(1));
    assert_eq!(run("TYPE @number-h"), Value::Simple("hash".into()));
    assert_eq!(run("OBJECT ENCODING @number-a"), bulk("int"));
    failed(&run("SET @number-a 2"), &["SET", "without WITH"]);
    failed(&run("PING"), &["PING"]);
    failed(&run("GET"), &["wrong number"]);
    failed(&run("NOTHING x"), &["unknown command"]);
    failed(&run("RANDOMKEY"), &["RANDOMKEY"]);
    for command in ["BEGIN", "MULTI", "SNAPSHOT", "DELRANGE - +", "FLUSHDB"] {
        failed(&run(command), &[command.split(' ').next().unwrap()]);
    }
    failed(&run(&format!("WITH {at} GET x")), &["WITH"]);
}

fn snapshots_end_with_their_connections_and_in_time(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let (mut client, mut other) = (over.client(), over.client());
    token(client.run("SNAPSHOT NAME report TTL 60000"));
    let open = || statistic(&over.started, "snapshots");
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
    failed(&other.run("SNAPSHOT"), &["16", "--max-snapshots"]);
    assert_eq!(other.run("RESET"), Value::Simple("RESET".into()));
    assert_eq!(open(), 0.0);
}

#[test]
fn options_bound_the_number_and_the_age_of_snapshots() {
    let started = Started::new(ServerOptions {
        max_snapshots: 1,
        max_shared_snapshots: 2,
        max_snapshot_age: Duration::from_secs(5),
        ..one_worker()
    });
    let (mut client, mut other) = (started.client(), started.client());
    let own = token(client.run("SNAPSHOT"));
    failed(
        &client.run("SNAPSHOT"),
        &["1", "--max-snapshots", "RELEASE"],
    );
    token(other.run("SNAPSHOT"));
    token(client.run("SNAPSHOT NAME a TTL 5000"));
    token(other.run("SNAPSHOT NAME b TTL 1000"));
    let refused = client.run("SNAPSHOT NAME c TTL 1000");
    failed(&refused, &["2", "--max-shared-snapshots", "RELEASE"]);
    failed(
        &client.run("SNAPSHOT NAME c TTL 5001"),
        &["1 to 5000 milliseconds", "--max-snapshot-age"],
    );
    // One without a time ends after the longest.
    let gone = eventually(|| match client.run(&format!("WITH {own} DBSIZE")) {
        Value::Integer(0) => None,
        other => Some(other),
    });
    failed(&gone, &["no such snapshot", "its time is over"]);
}

/// Two clients that ask at once for a snapshot of one name, which all can read: one gets it.
#[test]
fn a_name_is_given_once_and_the_bound_holds() {
    const CLIENTS: usize = 4;
    let started = Started::new(ServerOptions {
        workers: 2,
        max_shared_snapshots: 2,
        ..ServerOptions::default()
    });
    for round in 0..100 {
        let same = format!("SNAPSHOT NAME same{round} TTL 60000");
        let given = AtomicU64::new(0);
        thread::scope(|scope| {
            for n in 0..CLIENTS {
                let (mut client, same, given) = (started.client(), &same, &given);
                scope.spawn(move || {
                    for command in [same, &format!("SNAPSHOT NAME own{n} TTL 60000")] {
                        if matches!(client.run(command), Value::Bulk(_)) {
                            given.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let Value::Array(list) = started.client().run("SNAPSHOT LIST") else {
            panic!("no list");
        };
        assert_eq!((list.len(), given.into_inner()), (2, 2), "round {round}");
        let mut names: Vec<String> = list.iter().map(token_of).collect();
        for name in &names {
            started.client().run(&format!("SNAPSHOT RELEASE {name}"));
        }
        names.dedup();
        assert_eq!(names.len(), 2, "one name, two snapshots");
    }
}

/// The token in a map of `SNAPSHOT LIST`.
fn token_of(entry: &Value) -> String {
    let Value::Array(fields) = entry else {
        panic!("no map: {entry:?}");
    };
    assert_eq!(fields[0], bulk("token"));
    token(fields[1].clone())
}

/// Sets a flag when it is dropped, also by a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pages through all rows, by `RANGE` in both directions and by `SCAN`, while others write, remove
/// and clear.
fn pages_of_a_snapshot_fit_together(index: IndexKind) {
    page_through(index, 20_000);
}

#[test]
fn a_million_rows_are_paged_in_memory() {
    page_through(IndexKind::Masstree, 1_000_000);
}

#[test]
fn a_million_rows_are_paged_beyond_memory() {
    page_through(IndexKind::BTree, 1_000_000);
}

fn page_through(index: IndexKind, rows: usize) {
    let over = OverIndex::new(
        index,
        ServerOptions {
            workers: 2,
            ..ServerOptions::default()
        },
    );
    let names: Vec<String> = (0..rows).map(|i| format!("k{i:06}0")).collect();
    let all: Vec<String> = names.iter().map(|name| over.key(name)).collect();
    let keyspace = over.started.db.keyspace("default").unwrap();
    for key in &all {
        keyspace.put(key.as_bytes(), b"old").unwrap();
    }
    let mut client = over.client();
    let at = token(client.run("SNAPSHOT NAME pages TTL 3600000"));
    let (done, clears) = (&AtomicBool::new(false), &AtomicU64::new(0));
    thread::scope(|scope| {
        let _ends_writers = SetAtEnd(done);
        let mut writer = over.client();
        scope.spawn(move || write_and_clear(&mut writer, rows, done, clears));
        let mut other = over.client();
        let (pages, clears_then) = (
            pages_by_range(&mut client, &at, false),
            clears.load(Ordering::Relaxed),
        );
        assert!(pages == all, "{index:?}: forwards");
        let mut backwards = pages_by_range(&mut other, &at, true);
        backwards.reverse();
        assert!(backwards == all, "{index:?}: backwards");
        // The rest also of a database that is cleared while pages are read.
        eventually(|| (clears.load(Ordering::Relaxed) > clears_then).then_some(()));
        assert!(pages_by_scan(&mut client, &at) == all, "{index:?}: scan");
        assert!(
            pages_by_range(&mut other, &at, true)
                .into_iter()
                .rev()
                .eq(all.iter().cloned())
        );
    });
}

/// Writes, removes and adds rows in no order, and clears the database now and then.
fn write_and_clear(client: &mut Client, rows: usize, done: &AtomicBool, clears: &AtomicU64) {
    for n in (0..rows).cycle() {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let i = n * 7919 % rows;
        client.run(&format!("DEL @k{i:06}0"));
        client.run(&format!("SET @k{i:06}x new"));
        client.run(&format!("SET @k{:06}0 new", (i + 1) % rows));
        if n % 1000 == 999 {
            assert_eq!(client.run("FLUSHDB"), ok());
            clears.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// All keys of a snapshot in the order of `RANGE`, a thousand at a time. All values are old ones.
fn pages_by_range(client: &mut Client, at: &str, is_reverse: bool) -> Vec<String> {
    let mut after = Bound::Unbounded;
    let mut seen = Vec::new();
    loop {
        let page = client.run(&match (&after, is_reverse) {
            (Bound::Excluded(last), false) => format!("WITH {at} RANGE ({last} + LIMIT 1000"),
            (Bound::Excluded(last), true) => format!("WITH {at} RANGE - ({last} LIMIT 1000 REV"),
            (_, false) => format!("WITH {at} RANGE - + LIMIT 1000"),
            (_, true) => format!("WITH {at} RANGE - + LIMIT 1000 REV"),
        });
        let Value::Array(rows) = page else {
            panic!("no page: {page:?}");
        };
        for row in rows.chunks(2) {
            assert_eq!(row[1], bulk("old"));
            seen.push(token(row[0].clone()));
        }
        match seen.last() {
            Some(last) if !rows.is_empty() => after = Bound::Excluded(last.clone()),
            _ => return seen,
        }
    }
}

/// All keys of a snapshot, by a cursor.
fn pages_by_scan(client: &mut Client, at: &str) -> Vec<String> {
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        let Value::Array(reply) = client.run(&format!("WITH {at} SCAN {cursor} COUNT 1000")) else {
            panic!("no reply");
        };
        let [next, Value::Array(keys)] = &reply[..] else {
            panic!("no page: {reply:?}");
        };
        seen.extend(keys.iter().map(|key| token(key.clone())));
        cursor = token(next.clone());
        if cursor == "0" {
            return seen;
        }
    }
}

/// A snapshot, and a transaction, judge what has expired, and how long rows have left, by their own
/// time.
#[test]
fn times_to_live_are_those_of_what_is_read() {
    let (started, clock) = Started::with_clock(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    let now_ms = clock.load(Ordering::SeqCst);
    let set = format!("SET e v PXAT {}", now_ms + 30_000);
    assert_eq!(client.run(&set), ok());
    let token = token(client.run("SNAPSHOT NAME e1"));
    assert_eq!(other.run("BEGIN"), ok());
    // When the row has expired for everybody else.
    clock.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!(client.run("GET e"), Value::Null);
    assert_eq!(client.run("PTTL e"), Value::Integer(-2));
    let mut at = |command: &str| client.run(&format!("WITH {token} {command} e"));
    assert_eq!(at("GET"), bulk("v"));
    assert_eq!(at("PTTL"), Value::Integer(30_000));
    assert_eq!(at("TTL"), Value::Integer(30));
    assert_eq!(at("PEXPIRETIME"), Value::Integer(now_ms as i64 + 30_000));
    assert_eq!(other.run("GET e"), bulk("v"));
    assert_eq!(other.run("PTTL e"), Value::Integer(30_000));
    assert_eq!(other.run("ROLLBACK"), ok());
}
