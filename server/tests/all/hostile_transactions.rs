//! Clients that use transactions and snapshots in every wrong way: each gets a clear error, nothing
//! waits or is lost, and the connection goes on.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{
    Client, Started, TIMEOUT, Value, array, bulk, eventually, failed, ok, one_worker, request,
    start, statistic, token,
};
use hedgerow_server::ServerOptions;

fn reset() -> Value {
    Value::Simple("RESET".into())
}

/// The requests of a packet, and the replies to all of them.
fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<Value> {
    let packet: Vec<u8> = lines
        .iter()
        .flat_map(|line| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            request(&words)
        })
        .collect();
    client.send(&packet);
    lines.iter().map(|_| client.reply()).collect()
}

#[test]
fn one_packet_holds_whole_transactions() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let (lines, expected): (Vec<&str>, Vec<Value>) = [
        ("SET a 1", ok()),
        ("GET a", bulk("1")),
        ("BEGIN", ok()),
        ("GET a", bulk("1")),
        ("SET a 2", ok()),
        ("GET a", bulk("2")),
        ("SET b 2", ok()),
        ("COMMIT", ok()),
        ("GET a", bulk("2")),
        ("SET a 3", ok()),
        ("BEGIN SNAPSHOT", ok()),
        ("SET a 4", ok()),
        ("GET a", bulk("4")),
        ("ROLLBACK", ok()),
        ("MGET a b", array([bulk("3"), bulk("2")])),
    ]
    .into_iter()
    .unzip();
    let replies = pipeline(&mut client, &lines);
    assert_eq!(replies, expected);
    // More requests than one batch has, and an end of the connection behind them.
    let mut lines = vec!["BEGIN"];
    lines.extend(["INCR n"; 1000]);
    lines.extend(["COMMIT", "BEGIN", "INCR n", "QUIT"]);
    let replies = pipeline(&mut client, &lines);
    assert_eq!(replies[1000], Value::Integer(1000));
    assert_eq!(replies[1001], ok());
    assert_eq!(replies[1003], Value::Integer(1001));
    assert_eq!(client.try_reply(), None);
    eventually(|| (statistic(&started, "open_transactions") == 0.0).then_some(()));
    assert_eq!(started.client().run("GET n"), bulk("1000"));
}

#[test]
fn what_follows_a_failure_in_a_packet_stays_inside() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("SET a 1"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("INCR a"), Value::Integer(2));
    assert_eq!(other.run("SET a 7"), ok());
    let replies = pipeline(
        &mut client,
        &[
            "COMMIT", "COMMIT", "ROLLBACK", "GET a", "BEGIN", "BEGIN", "MULTI", "SET a 8", "COMMIT",
        ],
    );
    failed(&replies[0], &["CONFLICT "]);
    failed(&replies[1], &["COMMIT without BEGIN"]);
    failed(&replies[2], &["ROLLBACK without BEGIN"]);
    assert_eq!(replies[3], bulk("7"));
    assert_eq!(replies[4], ok());
    failed(&replies[5], &["BEGIN is not possible"]);
    failed(&replies[6], &["MULTI is not possible"]);
    assert_eq!(replies[7..], [ok(), ok()]);
    assert_eq!(client.run("GET a"), bulk("8"));
    // The commands of MULTI name what may not be queued, and nothing of them runs.
    for refused in ["BEGIN", "COMMIT", "ROLLBACK", "SNAPSHOT", "WITH t GET a"] {
        let replies = pipeline(&mut client, &["MULTI", "SET a 9", refused, "EXEC"]);
        failed(&replies[2], &["not allowed inside a transaction"]);
        failed(&replies[3], &["EXECABORT"]);
    }
    assert_eq!(client.run("GET a"), bulk("8"));
    assert_eq!(client.run("WATCH a"), ok());
    failed(&client.run("BEGIN"), &["UNWATCH"]);
    assert_eq!(client.run("UNWATCH"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    failed(&client.run("WATCH a"), &["WATCH is not possible"]);
    assert_eq!(client.run("UNWATCH"), ok());
    assert_eq!(client.run("RESET"), reset());
}

#[test]
fn names_and_times_are_checked() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let longest = "n".repeat(128);
    let named = |client: &mut Client, name: &[u8], ttl: &str| {
        client.call(&[b"SNAPSHOT", b"NAME", name, b"TTL", ttl.as_bytes()])
    };
    assert_eq!(
        named(&mut client, longest.as_bytes(), "1000"),
        bulk(&longest)
    );
    let megabyte = vec![b'n'; 1 << 20];
    let too_long = "n".repeat(129);
    let names: [&[u8]; 5] = [b"", too_long.as_bytes(), &megabyte, b"a\r\nb", b"\xff\xfe"];
    for name in names {
        failed(
            &named(&mut client, name, "1000"),
            &["1 to 128 bytes", "UTF-8"],
        );
    }
    for ttl in ["0", "-1", "3600001", "9223372036854775807"] {
        failed(
            &named(&mut client, b"t", ttl),
            &["1 to 3600000 milliseconds"],
        );
    }
    for ttl in ["9223372036854775808", "1e3", "", "10 ", "0x10"] {
        failed(
            &named(&mut client, b"t", ttl),
            &["ERR value is not an integer"],
        );
    }
    for wrong in [
        "SNAPSHOT NAME",
        "SNAPSHOT TTL",
        "SNAPSHOT NOW 1",
        "SNAPSHOT NAME a TTL",
        "SNAPSHOT LIST a",
        "SNAPSHOT RELEASE",
        "SNAPSHOT RELEASE a b",
        "SNAPSHOT NAME a NAME b",
        "SNAPSHOT TTL 1 TTL 2",
    ] {
        failed(&client.run(wrong), &["syntax error"]);
    }
    for wrong in ["WITH", "WITH token", "COMMIT now", "ROLLBACK now"] {
        failed(&client.run(wrong), &["wrong number of arguments"]);
    }
    // A name like that of an option, and one that needs quotes.
    for name in ["LIST", "RELEASE", "with \"quotes\"", "日本"] {
        assert_eq!(named(&mut client, name.as_bytes(), "60000"), bulk(name));
        let read = client.call(&[b"WITH", name.as_bytes(), b"DBSIZE"]);
        assert_eq!(read, Value::Integer(0));
        let released = client.call(&[b"SNAPSHOT", b"RELEASE", name.as_bytes()]);
        assert_eq!(released, Value::Integer(1));
    }
    let long = client.call(&[b"WITH", &megabyte, b"GET", b"a"]);
    failed(&long, &["no such snapshot"]);
}

#[test]
fn tokens_are_of_no_use_to_others() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    assert_eq!(client.run("SET a 1"), ok());
    let secret = token(client.run("SNAPSHOT"));
    // A name alone is no permission for others either, who may use it themselves.
    token(client.run("SNAPSHOT NAME same"));
    assert_eq!(client.run("SET a 2"), ok());
    for at in [&secret, "same"] {
        failed(
            &other.run(&format!("WITH {at} GET a")),
            &["no such snapshot"],
        );
        let release = format!("SNAPSHOT RELEASE {at}");
        assert_eq!(other.run(&release), Value::Integer(0));
    }
    assert_eq!(other.run("SNAPSHOT LIST"), Value::Array(Vec::new()));
    token(other.run("SNAPSHOT NAME same"));
    assert_eq!(other.run("WITH same GET a"), bulk("2"));
    assert_eq!(client.run("WITH same GET a"), bulk("1"));
    assert_eq!(client.run("WITH same get a"), bulk("1"));
    // Not inside a transaction, which reads at its own moment.
    assert_eq!(client.run("BEGIN"), ok());
    failed(&client.run("WITH same GET a"), &["WITH is not possible"]);
    failed(
        &client.run("SNAPSHOT RELEASE same"),
        &["SNAPSHOT is not possible"],
    );
    assert_eq!(client.run("ROLLBACK"), ok());
    assert_eq!(client.run("WITH same GET a"), bulk("1"));
    assert_eq!(client.run("RESET"), reset());
    failed(&client.run("WITH same GET a"), &["no such snapshot"]);
    assert_eq!(other.run("WITH same GET a"), bulk("2"));
}

#[test]
fn replies_have_the_shape_of_their_protocol() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    assert_eq!(client.run("HSET h f v"), Value::Integer(1));
    token(client.run("SNAPSHOT NAME n TTL 60000"));
    let Value::Array(list) = client.run("SNAPSHOT LIST") else {
        panic!("no array");
    };
    let [Value::Array(fields)] = &list[..] else {
        panic!("RESP2 has no maps: {list:?}");
    };
    let names: Vec<&Value> = fields.iter().step_by(2).collect();
    assert_eq!(
        names,
        [&bulk("token"), &bulk("age"), &bulk("ttl"), &bulk("owner")]
    );
    assert_eq!((&fields[1], &fields[7]), (&bulk("n"), &bulk("server")));
    assert_eq!(
        client.run("WITH n HGETALL h"),
        array([bulk("f"), bulk("v")])
    );
    assert_eq!(client.run("WITH n GET x"), Value::Null);

    let Value::Map(_) = client.run("HELLO 3") else {
        panic!("no map");
    };
    let Value::Array(list) = client.run("SNAPSHOT LIST") else {
        panic!("no array");
    };
    let [Value::Map(fields)] = &list[..] else {
        panic!("RESP3 has maps: {list:?}");
    };
    assert_eq!(fields.len(), 4);
    assert!(matches!(fields[2].1, Value::Integer(1..=60_000)));
    let hash = Value::Map(vec![(bulk("f"), bulk("v"))]);
    assert_eq!(client.run("WITH n HGETALL h"), hash);
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("HGETALL h"), hash);
    assert_eq!(client.run("GET x"), Value::Null);
    failed(&client.run("HGETALL h more"), &["wrong number"]);
    assert_eq!(client.run("SET a 1"), ok());
    // A change of the protocol is no end of the transaction.
    assert!(matches!(client.run("HELLO 2"), Value::Array(_)));
    assert_eq!(client.run("HGETALL h"), array([bulk("f"), bulk("v")]));
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("GET a"), bulk("1"));
}

#[test]
fn nothing_is_read_without_the_password() {
    let started = Started::new(ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    });
    let mut client = started.client();
    for command in [
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SNAPSHOT",
        "WITH t GET a",
        "SNAPSHOT LIST",
    ] {
        failed(&client.run(command), &["NOAUTH"]);
    }
    assert_eq!(client.run("AUTH secret"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    failed(&client.run("AUTH wrong"), &["WRONGPASS"]);
    assert_eq!(client.run("RESET"), reset());
    failed(&client.run("COMMIT"), &["NOAUTH"]);
    assert_eq!(statistic(&started, "open_transactions"), 0.0);
}

/// A client that wants no replies gets none, and its commits happen.
#[test]
fn replies_can_be_left_out() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let silent = [
        "CLIENT REPLY OFF",
        "BEGIN",
        "SET a 1",
        "COMMIT",
        "COMMIT",
        "CLIENT REPLY ON",
    ];
    for line in silent {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.send(&request(&words));
    }
    assert_eq!(client.reply(), ok());
    assert_eq!(client.run("GET a"), bulk("1"));
}

/// Writes of memcached clients count as those of others.
#[test]
fn memcached_clients_are_others() {
    let started = Started::new(ServerOptions {
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        ..one_worker()
    });
    let mut client = started.client();
    let address = started.server.addresses().memcached.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut ask = |line: &str, expected: &str| {
        stream.write_all(line.as_bytes()).unwrap();
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(String::from_utf8_lossy(&received), expected, "{line}");
    };
    assert_eq!(client.run("SET a 1"), ok());
    let at = token(client.run("SNAPSHOT"));
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("INCR a"), Value::Integer(2));
    ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    ask("incr a 5\r\n", "6\r\n");
    failed(&client.run("COMMIT"), &["CONFLICT "]);
    assert_eq!(client.run("GET a"), bulk("6"));
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET b 1"), ok());
    ask("BEGIN\r\n", "ERROR\r\n");
    ask("flush_all\r\n", "OK\r\n");
    failed(&client.run("COMMIT"), &["CONFLICT ", "cleared"]);
    assert_eq!(client.run(&format!("WITH {at} GET a")), bulk("1"));
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
}

/// Checks that an error is one that a Redis client can use: short, in words of commands and flags.
#[track_caller]
fn is_for_clients(value: &Value, words: &[&str]) {
    failed(value, words);
    let Value::Error(text) = value else { return };
    assert!(text.len() < 800, "{} bytes", text.len());
    assert!(!text.contains("::") && !text.contains('_'), "{text}");
}

#[test]
fn errors_of_transactions_are_short_and_in_the_words_of_clients() {
    let dir = tempfile::tempdir().unwrap();
    let db = hedgerow::Db::builder().version_memory(Some(256 << 10));
    let db = std::sync::Arc::new(db.open(dir.path()).unwrap());
    let server = start(db.clone(), one_worker()).unwrap();
    let started = Started { server, db, dir };
    let (mut client, mut other) = (started.client(), started.client());
    // A conflict about a key as long and as unreadable as can be.
    let key = vec![0xff; 65_536];
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.call(&[b"GET", &key]), Value::Null);
    assert_eq!(client.run("SET mine 1"), ok());
    assert_eq!(other.call(&[b"SET", &key, b"v"]), ok());
    is_for_clients(&client.run("COMMIT"), &["CONFLICT ", "run it again", "…"]);
    // Too many keys read one by one.
    assert_eq!(client.run("BEGIN"), ok());
    let refused = (0..20_000).find_map(|i| match client.run(&format!("GET key{i}")) {
        Value::Null => None,
        refused => Some(refused),
    });
    let said = [
        "rolled back",
        "BEGIN SNAPSHOT",
        "`--version-memory`",
        "ROLLBACK",
    ];
    is_for_clients(&refused.unwrap(), &said);
    is_for_clients(&client.run("GET key"), &said);
    is_for_clients(&client.run("COMMIT"), &said);
    // Too old, when others have replaced too much.
    let large = vec![b'v'; 10_000];
    let mut write_all = || {
        for i in 0..50 {
            let key = format!("large{i}");
            assert_eq!(other.call(&[b"SET", key.as_bytes(), &large]), ok());
        }
    };
    write_all();
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("GET key"), Value::Null);
    write_all();
    let said = ["`--version-memory`", "nothing of it happened"];
    is_for_clients(&client.run("GET key"), &said);
}
