//! Memory of transactions that are open, and of values of several megabytes.

use std::time::Duration;

use crate::client_memory::{MIB, metric, with_memory};
use crate::support::{
    Client, Started, Value, bulk, eventually, failed, ok, one_worker, request, statistic,
};
use hedgerow_server::ServerOptions;

/// Calls `request` with 0, 1, … until it is refused; how often it was not, and the error.
fn until_refused(mut request: impl FnMut(usize) -> Value) -> (usize, String) {
    (0..1_000_000)
        .find_map(|n| match request(n) {
            Value::Error(text) => Some((n, text)),
            _ => None,
        })
        .expect("an endless transaction is refused")
}

/// The number behind a name and a mark in a text that a command replies.
fn number_in(client: &mut Client, command: &str, name: &str) -> usize {
    let Value::Bulk(text) = client.run(command) else {
        panic!("no text");
    };
    let text = String::from_utf8(text).unwrap();
    let (_, behind) = text.split_once(name).expect(name);
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// Each value fills a tick, so the last key of the pipeline is alone in its batch.
#[test]
fn a_pipeline_of_values_that_each_fill_a_turn_is_answered() {
    let started = with_memory(256 * MIB);
    let mut client = started.client();
    let value = vec![b'v'; 3 * MIB];
    assert_eq!(client.call(&[b"SET", b"key", &value]), ok());
    for length in 1..6 {
        client.send(&request(&[b"GET", b"key"]).repeat(length));
        for _ in 0..length {
            assert!(client.reply() == Value::Bulk(value.clone()));
        }
    }
    assert_eq!(started.client().run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn what_a_transaction_wrote_and_read_takes_bounded_memory() {
    let started = with_memory(4 * MIB);
    let (mut client, mut other) = (started.client(), started.client());
    let value = vec![b'v'; 1000];
    let key = |n: usize| format!("key{n:08}").into_bytes();
    for what in ["long", "short", "same", "remove", "read", "ranges"] {
        let isolation: &[u8] = match what {
            "remove" | "read" | "ranges" => b"SERIALIZABLE",
            _ => b"SNAPSHOT",
        };
        assert_eq!(client.call(&[b"BEGIN", isolation]), ok());
        let memory = |other: &mut Client| number_in(other, "INFO clients", "client_memory_bytes:");
        let before = memory(&mut other);
        // What replaces a write of its own takes no more than that.
        if what == "same" {
            for _ in 0..5000 {
                assert_eq!(client.call(&[b"SET", b"key", &value]), ok());
            }
            assert!(memory(&mut other) < before + MIB / 2);
            assert_eq!(client.run("ROLLBACK"), ok());
            continue;
        }
        let mut grew = 0;
        let (count, text) = until_refused(|n| {
            if n % 500 == 499 {
                grew = memory(&mut other) - before;
            }
            match what {
                "long" => client.call(&[b"SET", &key(n), &value]),
                "short" => client.call(&[b"SET", &key(n), b""]),
                "remove" => client.call(&[b"DEL", &key(n)]),
                "read" => client.call(&[b"GET", &key(n)]),
                _ => client.call(&[b"RANGE", &key(n), &key(n + 1)]),
            }
        });
        assert!(count > 1000 && count < 100_000, "{what}: {count}");
        assert!(
            text.contains("rolled back") && text.contains("`--client-memory`"),
            "{text}"
        );
        assert!(
            (MIB / 2..=2 * MIB + MIB / 2).contains(&grew),
            "{what}: {grew}"
        );
        assert!(
            memory(&mut other) < before + MIB / 2,
            "{what}: it comes back"
        );
        failed(&client.run("SET key v"), &["rolled back"]);
        failed(&client.run("COMMIT"), &["rolled back"]);
        assert_eq!(other.run("DBSIZE"), Value::Integer(0), "{what}");
    }
    assert_eq!(client.run("SET key v"), ok());
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}

/// Each has less than it may, all together more.
#[test]
fn transactions_count_as_memory_of_their_connections() {
    let started = with_memory(4 * MIB);
    let mut small = started.client();
    let value = vec![b'v'; 100_000];
    let mut open: Vec<Client> = Vec::new();
    for n in 0..4u8 {
        let mut client = started.client();
        assert_eq!(client.run("BEGIN"), ok());
        for row in 0..(12 + n) {
            client.send(&request(&[b"SET", &[b'a' + n, b'a' + row], &value]));
            let _ok = client.try_reply();
        }
        open.push(client);
    }
    let used = number_in(&mut small, "INFO clients", "client_memory_bytes:");
    assert!(used < 4 * MIB, "{used}");
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert!((1..=2).contains(&closed), "{closed}");
    // `CLIENT INFO` tells a connection its share.
    let share = number_in(&mut open[0], "CLIENT INFO", "multi-mem=");
    assert!((1_200_000..1_400_000).contains(&share), "{share}");
    assert_eq!(open[0].run("COMMIT"), ok());
    assert!(number_in(&mut open[0], "CLIENT INFO", "multi-mem=") < 1000);
    // Those that were closed wrote nothing.
    let open_now = statistic(&started, "open_transactions");
    assert_eq!(open_now as u64, 3 - closed);
    assert_eq!(small.run("DBSIZE"), Value::Integer(12));
}

/// A few bytes that would remove many rows.
#[test]
fn a_range_is_removed_in_a_transaction_as_far_as_there_is_memory() {
    let started = with_memory(4 * MIB);
    let rows = started.db.keyspace("default").unwrap();
    for n in 0..20_000 {
        rows.put(format!("key{n:08}").as_bytes(), b"v").unwrap();
    }
    let mut client = started.client();
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    let words = ["memory", "`--client-memory`", "outside"];
    failed(&client.run("DELRANGE - +"), &words);
    // It has changed nothing, and a smaller one is possible.
    assert_eq!(client.run("DBSIZE"), Value::Integer(20_001));
    let few = client.run("DELRANGE key00000000 (key00001000");
    assert_eq!(few, Value::Integer(1000));
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("DBSIZE"), Value::Integer(19_001));
    assert_eq!(client.run("DELRANGE - +"), Value::Integer(19_001));
}

#[test]
fn an_idle_transaction_gives_its_memory_back() {
    let started = Started::new(ServerOptions {
        transaction_idle_timeout: Duration::from_millis(200),
        ..one_worker()
    });
    let (mut client, mut other) = (started.client(), started.client());
    let mut memory = || number_in(&mut other, "INFO clients", "client_memory_bytes:");
    // Until the machine is quick enough to begin and write in time.
    eventually(|| {
        client.run("ROLLBACK");
        assert_eq!(client.run("BEGIN"), ok());
        let value = vec![b'v'; 4 * MIB];
        let written = client.call(&[b"SET", b"key", &value]) == ok();
        (written && memory() > 4 * MIB).then_some(())
    });
    eventually(|| (memory() < MIB).then_some(()));
    failed(&client.run("COMMIT"), &["rolled back"]);
}

/// A few kilobytes of commands whose replies are many times as long.
#[test]
fn a_transaction_whose_replies_find_no_room_does_not_happen() {
    let started = with_memory(MIB);
    let mut client = started.client();
    assert_eq!(client.run("SET before 1"), ok());
    let mut queue = |commands: usize| {
        assert_eq!(client.run("MULTI"), ok());
        client.run("INCR before");
        client.run("SELECT 1");
        for _ in 0..commands {
            client.run("COMMAND");
        }
        client.run("SET behind 1");
        client.run("EXEC")
    };
    let refused = queue(1000);
    failed(&refused, &["client-memory", "no row was changed"]);
    assert!(matches!(queue(1), Value::Array(replies) if replies.len() == 4));
    // The second one led there, and the first had changed nothing.
    assert_eq!(client.run("GET behind"), bulk("1"));
    assert_eq!(client.run("SELECT 0"), ok());
    assert_eq!(client.run("GET before"), bulk("2"));
    assert_eq!(client.run("EXISTS behind"), Value::Integer(0));
    // A client that wants no replies wants its changes all the same.
    let silent = [&["CLIENT REPLY OFF", "MULTI"][..], &["COMMAND"; 1000]].concat();
    let loud = ["INCR before", "EXEC", "CLIENT REPLY ON"];
    for line in silent.iter().chain(&loud) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.send(&request(&words));
    }
    assert_eq!(client.reply(), ok());
    assert_eq!(client.run("GET before"), bulk("3"));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}

#[test]
fn a_transaction_whose_replies_find_no_room_has_no_effect_on_clients() {
    let started = with_memory(MIB);
    let (mut client, mut other) = (started.client(), started.client());
    let Value::Integer(id) = other.run("CLIENT ID") else {
        panic!("CLIENT ID");
    };
    assert_eq!(client.run("MULTI"), ok());
    client.run(&format!("CLIENT KILL ID {id}"));
    client.run("CLIENT SETNAME lost");
    client.run("CLIENT PAUSE 3600000 WRITE");
    for _ in 0..1000 {
        client.run("COMMAND");
    }
    failed(&client.run("EXEC"), &["client-memory"]);
    assert_eq!(client.run("CLIENT GETNAME"), Value::Null);
    assert_eq!(other.run("SET a 1"), ok());
}

/// Requests that run in one tick, each of which finds room for its reply while the others have
/// none yet.
#[test]
fn the_large_replies_of_one_tick_share_the_memory_that_is_left() {
    const VALUE_BYTES: usize = 2 * MIB;
    let started = with_memory(8 * MIB);
    let mut other = started.client();
    let mut clients: Vec<Client> = (0..8).map(|_| started.client()).collect();
    for (n, client) in (b'a'..).zip(&mut clients) {
        assert_eq!(client.call(&[b"SET", &[n], &vec![n; VALUE_BYTES]]), ok());
        // From here on a small reply is expected, as was the last one.
        assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
    }
    assert_eq!(other.run("CLIENT PAUSE 1000000 WRITE"), ok());
    for (n, client) in (b'a'..).zip(&mut clients) {
        client.send(&request(&[b"GETEX", &[n]]));
    }
    eventually(|| {
        let Value::Bulk(list) = other.run("CLIENT LIST") else {
            panic!("no list");
        };
        let list = String::from_utf8(list).unwrap();
        let waiting = list
            .lines()
            .filter(|line| line.contains(" cmd=getex ") && !line.contains(" qbuf=0 "));
        (waiting.count() == clients.len()).then_some(())
    });
    assert_eq!(other.run("CLIENT UNPAUSE"), ok());
    let mut served = 0;
    for (n, client) in (b'a'..).zip(&mut clients) {
        match client.reply() {
            Value::Bulk(value) => {
                assert!(value == vec![n; VALUE_BYTES]);
                served += 1;
            }
            refused => failed(&refused, &["client-memory"]),
        }
    }
    assert!((1..=3).contains(&served), "{served} replies in 8 MiB");
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
    // Nothing of them is left.
    for (n, client) in (b'a'..).zip(&mut clients) {
        assert!(client.call(&[b"GETEX", &[n]]) == Value::Bulk(vec![n; VALUE_BYTES]));
    }
}

#[test]
fn what_a_client_says_of_itself_counts_and_has_an_end() {
    let longest = vec![b'n'; 64 << 10];
    let started = with_memory(4 * MIB);
    let (mut client, mut other) = (started.client(), started.client());
    let mut memory = || number_in(&mut other, "INFO clients", "client_memory_bytes:");
    let before = memory();
    let said: [&[&[u8]]; 4] = [
        &[b"CLIENT", b"SETNAME"],
        &[b"HELLO", b"2", b"SETNAME"],
        &[b"CLIENT", b"SETINFO", b"LIB-NAME"],
        &[b"CLIENT", b"SETINFO", b"LIB-VER"],
    ];
    let too_long = [&longest[..], b"n"].concat();
    for command in said {
        let refused = client.call(&[command, &[&too_long]].concat());
        failed(&refused, &["ERR ", "65537 bytes", "65536"]);
    }
    assert!(memory() < before + longest.len());
    for command in said {
        let taken = client.call(&[command, &[&longest]].concat());
        assert!(!matches!(taken, Value::Error(_)), "{taken:?}");
    }
    let grown = memory() - before;
    assert!(
        (3 * longest.len()..4 * longest.len()).contains(&grown),
        "{grown}"
    );
    // What the library says stays.
    assert_eq!(client.run("RESET"), Value::Simple("RESET".into()));
    let grown = memory() - before;
    assert!(
        (2 * longest.len()..3 * longest.len()).contains(&grown),
        "{grown}"
    );
}

/// As `DELRANGE` inside `BEGIN`.
#[test]
fn a_database_is_emptied_in_a_transaction_as_far_as_there_is_memory() {
    let started = with_memory(4 * MIB);
    for (name, count) in [("default", 10), ("db1", 20_000), ("db2", 10)] {
        let rows = started.db.keyspace(name).unwrap();
        for n in 0..count {
            rows.put(format!("key{n:08}").as_bytes(), b"v").unwrap();
        }
    }
    let mut client = started.client();
    let sizes = |client: &mut Client| {
        [0, 1, 2].map(|n| {
            assert_eq!(client.run(&format!("SELECT {n}")), ok());
            client.run("DBSIZE")
        })
    };
    let words = ["memory", "`--client-memory`", "outside"];
    assert_eq!(client.run("SELECT 1"), ok());
    for command in ["FLUSHDB", "FLUSHALL", "DELRANGE - +"] {
        client.run("SELECT 1");
        for line in ["MULTI", "SET a 1", command, "SET a 2"] {
            client.run(line);
        }
        let Value::Array(replies) = client.run("EXEC") else {
            panic!("{command}");
        };
        failed(&replies[1], &words);
        assert_eq!((&replies[0], &replies[2]), (&ok(), &ok()));
        // It has changed nothing, in no database.
        let expected = [10, 20_001, 10].map(Value::Integer);
        assert_eq!(sizes(&mut client), expected, "{command}");
    }
    // A smaller one is possible.
    for line in ["MULTI", "SELECT 2", "FLUSHDB", "SELECT 0", "FLUSHDB"] {
        client.run(line);
    }
    assert!(matches!(client.run("EXEC"), Value::Array(_)));
    assert_eq!(sizes(&mut client), [0, 20_001, 0].map(Value::Integer));
    assert_eq!(client.run("FLUSHALL"), ok());
    assert_eq!(sizes(&mut client), [0; 3].map(Value::Integer));
}

/// In a transaction that is open: the change must be undone whose reply finds no room, or the
/// value would be lost that nobody was told.
#[test]
fn a_command_in_a_transaction_whose_reply_finds_no_room_changes_nothing() {
    let started = with_memory(MIB);
    let rows = started.db.keyspace("default").unwrap();
    rows.put(b"big", &vec![b'v'; 4 * MIB]).unwrap();
    let mut client = started.client();
    for command in ["GETDEL big", "SET big small GET"] {
        assert_eq!(client.run("BEGIN"), ok());
        assert_eq!(client.run("SET other 1"), ok());
        failed(
            &client.run(command),
            &["client-memory", "no row was changed"],
        );
        assert_eq!(client.run("STRLEN big"), Value::Integer(4 * MIB as i64));
        assert_eq!(client.run("TTL big"), Value::Integer(-1));
        assert_eq!(client.run("COMMIT"), ok(), "the transaction goes on");
        assert_eq!(client.run("STRLEN big"), Value::Integer(4 * MIB as i64));
        assert_eq!(client.run("TTL big"), Value::Integer(-1));
        assert_eq!(client.run("GETDEL other"), bulk("1"));
    }
    // A client that wants no replies wants its changes all the same.
    for line in [
        "CLIENT REPLY OFF",
        "BEGIN",
        "GETDEL big",
        "COMMIT",
        "CLIENT REPLY ON",
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.send(&request(&words));
    }
    assert_eq!(client.reply(), ok());
    assert_eq!(client.run("EXISTS big"), Value::Integer(0));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}

/// Plain reads, which the server batches.
#[test]
fn a_value_that_finds_no_room_is_refused_and_its_connection_goes_on() {
    let started = with_memory(4 * MIB);
    let rows = started.db.keyspace("default").unwrap();
    rows.put(b"big", &vec![b'v'; 16 * MIB]).unwrap();
    rows.put(b"small", b"value").unwrap();
    let mut client = started.client();
    failed(
        &client.run("GET big"),
        &["client-memory", "no row was changed"],
    );
    client.send(b"GET small\r\nGET big\r\nGET small\r\nGET big\r\nGET none\r\n");
    for expected in [
        Some(bulk("value")),
        None,
        Some(bulk("value")),
        None,
        Some(Value::Null),
    ] {
        match expected {
            Some(expected) => assert_eq!(client.reply(), expected),
            None => failed(&client.reply(), &["client-memory"]),
        }
    }
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
    let errors = metric(&started, "hedgerow_error_replies_total{code=\"ERR\"}");
    assert_eq!(errors, 3);
}
