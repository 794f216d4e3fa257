//! `CONFIG RESETSTAT` and memcached's `stats reset`: what they set back to zero, and what stays.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::monitoring::{field, info, metrics, number, options, parse, stats};
use crate::support::*;
use crate::tested::Database;
use hedgerow::backend::Backend;

/// Sends lines to the memcached port and returns all that is said to them.
fn memcached(started: &Started, lines: &str) -> String {
    let mut stream = TcpStream::connect(started.server.addresses().memcached.unwrap()).unwrap();
    stream
        .write_all(format!("{lines}quit\r\n").as_bytes())
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// Requests of all kinds that statistics count.
fn work(started: &Started, client: &mut Client) {
    client.run("SET a 1");
    client.run("GET a");
    client.run("GET none");
    client.run("INCR word");
    client.run("LPUSH a b");
    client.run("HSET a b c");
    let said = memcached(
        started,
        "get a\r\nget none\r\nset b 0 0 1\r\n1\r\nadd c 0 0 1\r\n1\r\ntouch b \
         0\r\nmn\r\nnonsense\r\n",
    );
    assert!(said.ends_with("TOUCHED\r\nMN\r\nERROR\r\n"), "{said}");
    // What a tick did is counted at its end, behind its replies: the next tick comes later.
    client.run("PING");
}

#[test]
fn config_resetstat_resets_what_info_counts_and_nothing_else() {
    let started = Started::new(options());
    let mut client = started.client();
    work(&started, &mut client);
    let counted_of_memcached = |name: &str| stats(&started, "")[name].clone();
    let hits = counted_of_memcached("get_hits");
    assert_eq!(hits, "2");
    assert_eq!(client.run("CONFIG RESETSTAT"), ok());
    let all = info(&mut client, "everything");
    for name in [
        "total_connections_received",
        "total_error_replies",
        "protocol_errors",
        "rejected_connections",
        "expired_keys",
        "keyspace_hits",
        "keyspace_misses",
        "batched_reads",
        "read_batches",
        "batched_puts",
    ] {
        assert_eq!(number(&all, name), 0.0, "{name} in {all}");
    }
    // The request that asked for it is counted, as Redis does, at the end of its tick.
    assert_eq!(number(&all, "total_commands_processed"), 1.0, "{all}");
    assert!(number(&all, "total_net_input_bytes") < 100.0, "{all}");
    let commands: Vec<&str> = all
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next())
        .collect();
    assert_eq!(commands, ["config"], "{all}");
    assert!(!all.contains("errorstat_"), "{all}");
    // What is the case now is no count.
    assert!(number(&all, "connected_clients") >= 1.0);
    assert_eq!(number(&all, "used_memory") > 0.0, !Database::IS_REMOTE);
    let rows = field(&all, "db0").map(|rows| rows.split(',').next());
    let counts = lacking::counts_rows(&started);
    assert_eq!(rows, counts.then_some(Some("keys=4")), "{all}");
    // Prometheus takes a counter that falls for a restart, and memcached's clients did not ask.
    let families = parse(&metrics(&started));
    let of =
        |name: &str, labels: &str| families[name].samples[&(name.to_owned(), labels.to_owned())];
    assert_eq!(of("hedgerow_commands_total", "command=\"get\""), 2.0);
    assert_eq!(of("hedgerow_error_replies_total", "code=\"ERR\""), 1.0);
    assert!(of("hedgerow_requests_total", "") >= 14.0);
    assert_eq!(counted_of_memcached("get_hits"), hits);
    // Counting goes on.
    client.run("GET a");
    client.run("LPUSH a b");
    let all = info(&mut client, "everything");
    assert_eq!(number(&all, "keyspace_hits"), 1.0);
    assert_eq!(field(&all, "errorstat_ERR"), Some("count=1"));
    assert!(field(&all, "cmdstat_get").unwrap().starts_with("calls=1,"));
}

#[test]
fn a_command_that_waits_for_its_turn_is_counted_once() {
    let started = Started::new(options());
    let mut client = started.client();
    client.call(&[b"SET", b"large", &vec![b'v'; 1 << 20]]);
    // Two such replies fit into a tick: the others are put off, again and again.
    for _ in 0..20 {
        client.send(b"GET large\r\nGETRANGE large 0 -1\r\n");
    }
    for _ in 0..40 {
        assert!(matches!(client.reply(), Value::Bulk(_)));
    }
    client.run("PING");
    let all = info(&mut client, "everything");
    for name in ["cmdstat_get", "cmdstat_getrange"] {
        let found = field(&all, name).unwrap();
        assert!(found.starts_with("calls=20,"), "{name}: {found}");
    }
    // With SET and PING.
    assert_eq!(number(&all, "total_commands_processed"), 42.0);
}

#[test]
fn a_key_that_waits_for_its_turn_is_counted_once() {
    let started = Started::new(options());
    let mut client = started.client();
    client.call(&[b"SET", b"large", &vec![b'v'; 1 << 20]]);
    client.call(&[b"SET", b"small", b"value"]);
    // Keys in front of and behind the large values that are put off, found and not found.
    let round = b"GET small\r\nGET none\r\nGET large\r\nGET none\r\nGET small\r\n";
    client.send(&round.repeat(20));
    for _ in 0..20 {
        let replies: [Value; 5] = std::array::from_fn(|_| client.reply());
        let [
            Value::Bulk(first),
            Value::Null,
            Value::Bulk(large),
            Value::Null,
            Value::Bulk(last),
        ] = &replies
        else {
            panic!("{replies:?}");
        };
        assert_eq!((first.len(), large.len(), last.len()), (5, 1 << 20, 5));
    }
    client.run("PING");
    let all = info(&mut client, "everything");
    let read = ["keyspace_hits", "keyspace_misses", "batched_reads"].map(|name| number(&all, name));
    assert_eq!(read, [60.0, 40.0, 100.0]);

    let line = format!("get{}\r\n", " small none large none".repeat(20));
    let said = memcached(&started, &line);
    assert_eq!(said.matches("VALUE ").count(), 40);
    let said = memcached(&started, &format!("gat 0{}\r\n", " large".repeat(20)));
    assert_eq!(said.matches("VALUE large ").count(), 20);
    client.run("PING");
    let all = stats(&started, "");
    let read = ["cmd_get", "get_hits", "get_misses", "cmd_touch"].map(|name| all[name].as_str());
    assert_eq!(read, ["180", "100", "80", "1"]);
}

#[test]
fn stats_reset_resets_what_stats_counts_and_nothing_else() {
    let started = Started::new(options());
    let mut client = started.client();
    work(&started, &mut client);
    let before = stats(&started, "");
    assert_eq!(memcached(&started, "stats reset\r\n"), "RESET\r\n");
    let after = stats(&started, "");
    for name in [
        "cmd_get",
        "cmd_set",
        "cmd_flush",
        "cmd_touch",
        "cmd_meta",
        "get_hits",
        "get_misses",
        "rejected_connections",
        "listen_disabled_num",
        "total_items",
        "evictions",
        "reclaimed",
    ] {
        assert_eq!(after[name], "0", "{name} in {after:?}");
    }
    // The connection that asks.
    assert_eq!(after["total_connections"], "1");
    let read_bytes: u64 = after["bytes_read"].parse().unwrap();
    assert!(read_bytes < 100, "{after:?}");
    assert_eq!(after["curr_items"], before["curr_items"]);
    assert_eq!(after["max_connections"], before["max_connections"]);
    let all = info(&mut client, "stats");
    assert_eq!(
        number(&all, "keyspace_hits"),
        2.0,
        "Redis clients did not ask"
    );
    memcached(&started, "get a\r\n");
    client.run("PING");
    assert_eq!(stats(&started, "")["get_hits"], "1");
}
