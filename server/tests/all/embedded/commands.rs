//! Commands that need several rows of one moment, a clock that the test sets, checkpoints, or keys
//! drawn at random.

use std::sync::atomic::Ordering;

use crate::commands::{text, with_trees};
use crate::support::{Client, Started, Value, array, eventually, ok, one_worker};

#[test]
fn a_watched_key_changes_when_it_expires_and_not_when_it_is_swept() {
    let (started, clock) = Started::with_clock(one_worker());
    let (mut one, mut other) = (started.client(), started.client());
    // Stores the key so many milliseconds before it expires.
    let mut set = |left_ms: &u64| {
        let at_ms = clock.load(Ordering::SeqCst) + left_ms;
        assert_eq!(other.run(&format!("SET w {left_ms} PXAT {at_ms}")), ok());
    };
    let mut expires = |before: &[u64], wait_ms: u64, during: &[u64]| {
        before.iter().for_each(&mut set);
        clock.fetch_add(wait_ms, Ordering::SeqCst);
        assert_eq!(one.run("WATCH w"), ok());
        during.iter().for_each(&mut set);
        clock.fetch_add(300, Ordering::SeqCst);
        started.db.sweep_expired().unwrap();
        one.run("MULTI");
        one.run("INCR count");
        one.run("EXEC") == Value::Null
    };
    assert!(expires(&[50], 0, &[]), "it expired");
    assert!(expires(&[], 0, &[50]), "it came and expired");
    assert!(!expires(&[20], 21, &[]), "it had expired before");
    assert!(expires(&[20], 21, &[1]), "and came again");
}

#[test]
fn expiries_are_counted() {
    let (started, clock) = Started::with_clock(one_worker());
    let mut client = started.client();
    client.run("MSET a 1 b 2 c 3");
    client.run("EXPIRE a 10000");
    client.run("SET b 2 EX 10000");
    client.run("PERSIST b");
    client.run("HSET h f v");
    let soon = clock.load(Ordering::SeqCst) + 20;
    client.run(&format!("PEXPIREAT h {soon}"));
    assert!(text(client.run("INFO keyspace")).contains("db0:keys=4,expires=2,avg_ttl=0\r\n"));
    clock.store(soon, Ordering::SeqCst);
    started.db.sweep_expired().unwrap();
    let info = text(client.run("INFO"));
    assert!(info.contains("\r\nexpired_keys:1\r\n"), "{info}");
    assert!(
        info.contains("db0:keys=3,expires=1,avg_ttl=0\r\n"),
        "{info}"
    );
}

#[test]
fn checkpoints_are_taken_on_demand() {
    let (started, mut client) = with_trees();
    assert_eq!(client.run("SAVE"), ok());
    assert!(matches!(client.run("LASTSAVE"), Value::Integer(s) if s > 1_600_000_000));
    assert_eq!(
        client.run("BGSAVE"),
        Value::Simple("Background saving started".into())
    );
    let checkpoints = || started.db.statistics().get("checkpoints_total");
    assert!(checkpoints() >= Some(1.0), "{:?}", checkpoints());
}

#[test]
fn nobody_sees_half_of_a_queued_flushall() {
    let options = hedgerow_server::ServerOptions {
        workers: 2,
        ..one_worker()
    };
    let started = Started::new(options);
    let address = started.resp();
    // Stores a row in each of two databases, or removes both.
    let queues = [
        "SET a 1\r\nSELECT 1\r\nSET a 1\r\nSELECT 0\r\n",
        "FLUSHALL\r\n",
    ];
    let mut requests = String::new();
    let mut replies = 0;
    for queue in queues.iter().cycle().take(400) {
        requests += &format!("MULTI\r\n{queue}EXEC\r\n");
        replies += queue.lines().count() + 2;
    }
    let writer = std::thread::spawn(move || {
        let mut client = Client::connect(address);
        client.send(requests.as_bytes());
        for _ in 0..replies {
            client.reply();
        }
    });
    let mut client = started.client();
    for _ in 0..400 {
        client.send(b"MULTI\r\nEXISTS a\r\nSELECT 1\r\nEXISTS a\r\nSELECT 0\r\nEXEC\r\n");
        let last = (0..6).map(|_| client.reply()).last();
        let Some(Value::Array(seen)) = &last else {
            panic!("{last:?}");
        };
        assert_eq!(seen[0], seen[2]);
    }
    writer.join().unwrap();
}

/// Several of them are one, as in Redis.
#[test]
fn a_checkpoint_of_a_queue_is_taken_behind_its_commit() {
    let (started, mut client) = with_trees();
    for line in ["MULTI", "BGSAVE", "BGSAVE SCHEDULE"] {
        client.run(line);
    }
    let scheduled = Value::Simple("Background saving scheduled".into());
    assert_eq!(client.run("EXEC"), array([scheduled.clone(), scheduled]));
    let checkpoints = || started.db.statistics().get("checkpoints_total");
    eventually(|| (checkpoints() >= Some(1.0)).then_some(()));
}

#[test]
fn random_keys_exist() {
    let (_started, mut client) = with_trees();
    for _ in 0..50 {
        let Value::Bulk(key) = client.run("RANDOMKEY") else {
            panic!("some key")
        };
        assert_eq!(client.call(&[b"EXISTS", &key]), Value::Integer(1));
    }
    assert_eq!(client.run("FLUSHALL"), ok());
    assert_eq!(client.run("RANDOMKEY"), Value::Null);
    // Of two keys each comes up, also of two that begin alike.
    for keys in [["a", "b"], ["user:1", "user:2"], ["key", "key:and:more"]] {
        assert_eq!(
            client.call(&[b"MSET", keys[0].as_bytes(), b"1", keys[1].as_bytes(), b"2"]),
            ok()
        );
        let drawn: std::collections::BTreeSet<Vec<u8>> = (0..100)
            .map(|_| match client.run("RANDOMKEY") {
                Value::Bulk(key) => key,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(drawn.len(), 2, "{drawn:?}");
        assert_eq!(client.run("FLUSHALL"), ok());
    }
}

#[test]
fn nobody_sees_half_of_a_transaction() {
    let started = Started::new(crate::support::one_worker());
    let address = started.resp();
    let writer = std::thread::spawn(move || {
        let mut client = Client::connect(address);
        for i in 0..300 {
            client.send(
                format!("MULTI\r\nSET x {i}\r\nHSET h f {i}\r\nSET y {i}\r\nEXEC\r\n").as_bytes(),
            );
            for _ in 0..5 {
                client.reply();
            }
        }
    });
    let mut client = started.client();
    client.run("MSET x 0 y 0");
    for _ in 0..300 {
        let Value::Array(pair) = client.run("MGET x y") else {
            panic!("an array")
        };
        assert_eq!(pair[0], pair[1]);
    }
    writer.join().unwrap();
}
