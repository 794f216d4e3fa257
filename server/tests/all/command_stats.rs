//! `INFO commandstats`: which commands ran, failed, and were refused before they ran.

use crate::support::monitoring::{info, metrics, options};
use crate::support::{Client, Started, Value, error, ok, one_worker};
use hedgerow_server::ServerOptions;

/// What is counted of a command, without its time; `None` if it is not listed.
fn counted(client: &mut Client, command: &str) -> Option<String> {
    let Value::Bulk(text) = client.run("INFO commandstats") else {
        panic!("INFO replies text");
    };
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))?;
    let is_count = |field: &&str| !field.starts_with("usec");
    let fields: Vec<&str> = line.split(',').filter(is_count).collect();
    Some(fields.join(" "))
}

#[track_caller]
fn assert_counted(client: &mut Client, command: &str, calls: u32, rejected: u32, failed: u32) {
    let expected = format!("calls={calls} rejected_calls={rejected} failed_calls={failed}");
    assert_eq!(counted(client, command), Some(expected), "{command}");
}

#[test]
fn refused_and_failed_commands_are_counted_as_such() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET s v");
    client.run("HSET h f v");
    // Refused before they run.
    client.run("GET");
    client.run("GET a b");
    client.run("CONFIG GET");
    // They ran and failed: one by one, in a batch, in one commit of several keys.
    client.run("INCR s");
    client.run("GET h");
    client.send(b"GET s\r\nGET h\r\nGET s\r\n");
    (0..3).for_each(|_| drop(client.reply()));
    client.run("RENAME missing s");
    client.run("GETRANGE s 0 0");
    assert_counted(&mut client, "get", 4, 2, 2);
    assert_counted(&mut client, "incr", 1, 0, 1);
    assert_counted(&mut client, "config", 0, 1, 0);
    assert_counted(&mut client, "rename", 1, 0, 1);
    assert_counted(&mut client, "getrange", 1, 0, 0);
    assert_eq!(counted(&mut client, "nosuch"), None);
    client.run("CONFIG RESETSTAT");
    assert_counted(&mut client, "config", 1, 0, 0);
    assert_eq!(counted(&mut client, "get"), None);
}

/// How often an error was replied, by its first word.
#[track_caller]
fn assert_replied(client: &mut Client, error: &str, count: u32) {
    let text = info(client, "errorstats");
    let expected = format!("errorstat_{error}:count={count}\r\n");
    assert!(text.contains(&expected), "{expected} in {text}");
}

#[test]
fn errors_are_counted_once_whatever_they_are_replied_in() {
    let started = Started::new(options());
    let mut client = started.client();
    client.run("SET s v");
    client.run("HSET h f v");
    // A batch of one read, and one of several.
    client.run("GET h");
    assert_replied(&mut client, "WRONGTYPE", 1);
    client.send(b"GET s\r\nGET h\r\nGET h\r\n");
    (0..3).for_each(|_| drop(client.reply()));
    assert_replied(&mut client, "WRONGTYPE", 3);
    client.run("STRLEN h");
    assert_replied(&mut client, "WRONGTYPE", 4);
    client.run("INCR s");
    assert_replied(&mut client, "ERR", 1);
    // Within the reply of a transaction.
    for queued in ["MULTI", "STRLEN h", "INCR s", "EXEC"] {
        client.run(queued);
    }
    assert_replied(&mut client, "WRONGTYPE", 5);
    assert_replied(&mut client, "ERR", 2);
    for queued in ["MULTI", "GET", "EXEC"] {
        client.run(queued);
    }
    assert_replied(&mut client, "ERR", 3);
    assert_replied(&mut client, "EXECABORT", 1);
    // No request at all.
    let mut malformed = started.client();
    malformed.send(b"*1\r\n!\r\n");
    assert!(matches!(malformed.reply(), Value::Error(_)));
    assert_replied(&mut client, "ERR", 4);
    let failed = "hedgerow_commands_failed_total{command=\"get\"} 3";
    let rejected = "hedgerow_commands_rejected_total{command=\"get\"} 1";
    let metrics = metrics(&started);
    assert!(
        metrics.contains(failed) && metrics.contains(rejected),
        "{metrics}"
    );
}

#[test]
fn commands_of_a_transaction_are_counted_when_they_run() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET s v");
    for queued in ["MULTI", "GET s", "INCR s", "DISCARD"] {
        client.run(queued);
    }
    assert_eq!(counted(&mut client, "get"), None);
    for queued in ["MULTI", "GET", "GET s", "EXEC"] {
        client.run(queued);
    }
    assert_counted(&mut client, "get", 0, 1, 0);
    assert_counted(&mut client, "exec", 1, 0, 1);
    for queued in ["MULTI", "GET s", "INCR s", "SAVE", "DISCARD"] {
        client.run(queued);
    }
    assert_counted(&mut client, "save", 0, 1, 0);
    for queued in ["MULTI", "GET s", "INCR s", "GET s", "EXEC"] {
        client.run(queued);
    }
    assert_counted(&mut client, "get", 2, 1, 0);
    assert_counted(&mut client, "incr", 1, 0, 1);
    assert_counted(&mut client, "exec", 2, 0, 1);
    assert_counted(&mut client, "multi", 4, 0, 0);
    if !started.serves("BEGIN") {
        return;
    }
    // One that answers at once.
    for command in ["BEGIN", "INCR s", "GET s", "COMMIT"] {
        client.run(command);
    }
    assert_counted(&mut client, "get", 3, 1, 0);
    assert_counted(&mut client, "incr", 2, 0, 2);
}

#[test]
fn commands_of_strangers_are_counted_as_refused() {
    let started = Started::new(ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    });
    let mut client = started.client();
    let refused = error("NOAUTH Authentication required.");
    assert_eq!(client.run("GET a"), refused);
    assert_eq!(client.run("AUTH secret"), ok());
    client.run("AUTH wrong");
    assert_counted(&mut client, "get", 0, 1, 0);
    assert_counted(&mut client, "auth", 2, 0, 1);
}

/// A failing `GET` that is looked up again, since large replies in front of it wait for the next
/// ticks, has failed once.
#[test]
fn a_read_that_is_put_off_fails_once() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("HSET h f v");
    let value = vec![b'v'; 3 << 19];
    for key in ["a", "b", "c", "d"] {
        client.call(&[b"SET", key.as_bytes(), &value]);
    }
    client.send(b"GET a\r\nGET b\r\nGET c\r\nGET d\r\nGET h\r\n");
    for _ in 0..4 {
        assert_eq!(client.reply(), Value::Bulk(value.clone()));
    }
    assert!(matches!(client.reply(), Value::Error(_)));
    assert_counted(&mut client, "get", 5, 0, 1);
}

#[test]
fn keys_that_reading_commands_look_up_are_hits_or_misses() {
    let started = Started::new(options());
    let mut client = started.client();
    client.run("SET s v");
    client.run("HSET h f v");
    let mut counted = |commands: &[&str]| {
        client.run("CONFIG RESETSTAT");
        for command in commands {
            client.run(command);
        }
        let text = info(&mut client, "stats");
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_start_matches(':').parse().unwrap()
        };
        (number("keyspace_hits"), number("keyspace_misses"))
    };
    assert_eq!(counted(&["GET s", "GET no"]), (1, 1));
    assert_eq!(counted(&["MGET s no s h"]), (3, 1));
    assert_eq!(
        counted(&["HGET h f", "HGETALL no", "TTL s", "STRLEN s"]),
        (3, 1)
    );
    assert_eq!(counted(&["EXISTS s no", "TYPE no"]), (1, 2));
    // What writes looks nothing up, in the sense of these counters.
    assert_eq!(
        counted(&["INCR n", "APPEND s w", "HSET h g v", "DEL no"]),
        (0, 0)
    );
    assert_eq!(counted(&["MULTI", "GET s", "MGET no s", "EXEC"]), (2, 1));
    assert_eq!(counted(&["BEGIN", "GET s", "GET no", "COMMIT"]), (1, 1));
    assert_eq!(counted(&["RANGE - +", "SCAN 0"]), (0, 0));
}
