//! What Redis has not, or does otherwise: ordered commands, cursors, RESP3, transactions.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{
    Client, Started, Value, array, bulk, error, eventually, failed, ok, one_worker,
};

fn bulks(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| bulk(item)).collect())
}

pub(crate) fn with_trees() -> (Started, Client) {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for key in ["ash", "elm", "fir", "oak", "yew"] {
        assert_eq!(client.run(&format!("SET {key} {key}-value")), ok());
    }
    assert_eq!(
        client.run("HSET hazel height 6 nuts yes"),
        Value::Integer(2)
    );
    (started, client)
}

#[test]
fn ranges_have_ends_limits_and_directions() {
    let (_started, mut client) = with_trees();
    for (request, expected) in [
        (
            "RANGE elm fir",
            &["elm", "elm-value", "fir", "fir-value"][..],
        ),
        ("RANGE (elm [fir", &["fir", "fir-value"]),
        ("RANGE elm (fir KEYS", &["elm"]),
        (
            "RANGE - + KEYS",
            &["ash", "elm", "fir", "hazel", "oak", "yew"],
        ),
        ("RANGE - + KEYS REV LIMIT 2", &["yew", "oak"]),
        ("RANGE - + LIMIT 0", &[]),
        ("RANGE b d", &[]),
        ("RANGE oak elm", &[]),
        ("RANGE (elm (elm", &[]),
        ("RANGE + -", &[]),
        ("PREFIX e KEYS", &["elm"]),
        ("PREFIX none", &[]),
    ] {
        assert_eq!(client.run(request), bulks(expected), "{request}");
    }
    assert_eq!(client.run("COUNTRANGE - +"), Value::Integer(6));
    assert_eq!(client.run("COUNTRANGE (ash hazel"), Value::Integer(3));
    assert_eq!(client.run("DELRANGE (ash (oak"), Value::Integer(3));
    assert_eq!(client.run("RANGE - + KEYS"), bulks(&["ash", "oak", "yew"]));
    assert_eq!(client.run("RANGE - + LIMIT"), error("ERR syntax error"));
    assert_eq!(client.run("RANGE - + COLUMNS"), error("ERR syntax error"));
    assert_eq!(client.run("RANGE - + NO"), error("ERR syntax error"));
    assert!(matches!(client.run("RANGE -"), Value::Error(_)));
}

#[test]
fn ranges_show_columns() {
    let (_started, mut client) = with_trees();
    let pairs = bulks(&["height", "6", "nuts", "yes"]);
    assert_eq!(
        client.run("RANGE hazel hazel"),
        array([bulk("hazel"), pairs])
    );
    let chosen = array([bulk("yes"), Value::Null]);
    let request = "RANGE hazel oak COLUMNS nuts bark LIMIT 2";
    let nulls = array([Value::Null, Value::Null]);
    assert_eq!(
        client.run(request),
        array([bulk("hazel"), chosen, bulk("oak"), nulls])
    );
    assert!(matches!(client.run("HELLO 3"), Value::Map(_)));
    let pairs = vec![(bulk("height"), bulk("6")), (bulk("nuts"), bulk("yes"))];
    assert_eq!(
        client.run("RANGE hazel hazel"),
        array([bulk("hazel"), Value::Map(pairs)])
    );
}

#[test]
fn long_ranges_are_removed_whole() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let burst: String = (0..3000).map(|i| format!("SET key{i:04} v\r\n")).collect();
    client.send(burst.as_bytes());
    for _ in 0..3000 {
        assert_eq!(client.reply(), ok());
    }
    assert_eq!(
        client.run("DELRANGE key0001 (key2999"),
        Value::Integer(2998)
    );
    assert_eq!(client.run("RANGE - + KEYS"), bulks(&["key0000", "key2999"]));
}

/// All keys that a scan returns, which must be distinct.
fn scan_all(client: &mut Client, options: &str, mut between: impl FnMut()) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let Value::Array(mut items) = client.run(&format!("SCAN {cursor} {options}")) else {
            panic!("SCAN replies an array");
        };
        let (Some(Value::Array(keys)), Some(Value::Bulk(next))) = (items.pop(), items.pop()) else {
            panic!("a cursor and keys");
        };
        for key in keys {
            let Value::Bulk(key) = key else {
                panic!("keys are bulk strings")
            };
            assert!(found.insert(key), "each key comes once");
        }
        cursor = String::from_utf8(next).unwrap();
        if cursor == "0" {
            return found;
        }
        between();
    }
}

#[test]
fn scans_return_every_key_that_stays_whatever_else_changes() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for i in 0..500 {
        client.run(&format!("SET stay:{i:03} v"));
        client.run(&format!("SET go:{i:03} v"));
    }
    let mut other = started.client();
    let mut step = 0;
    let found = scan_all(&mut client, "COUNT 7", || {
        other.run(&format!("DEL go:{:03}", (step * 37) % 500));
        other.run(&format!("SET new:{step} v"));
        step += 1;
    });
    let staying = found.iter().filter(|key| key.starts_with(b"stay:")).count();
    assert_eq!(staying, 500);
    assert_eq!(
        scan_all(&mut client, "MATCH stay:1?? COUNT 9", || {}).len(),
        100
    );
    assert_eq!(
        scan_all(&mut client, "MATCH stay:* COUNT 100", || {}).len(),
        500
    );
    client.run("HSET stay:hash f v");
    assert_eq!(
        scan_all(&mut client, "TYPE hash COUNT 1000", || {}).len(),
        1
    );
    let Value::Error(text) = client.run("SCAN 12345") else {
        panic!("an unknown cursor")
    };
    assert!(text.starts_with("ERR invalid cursor"), "{text}");
}

/// How many keys each call of a scan returns.
fn sizes_of_scan(client: &mut Client, options: &str) -> Vec<usize> {
    let (mut sizes, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.run(&format!("SCAN {cursor} {options}"));
        let Value::Array(parts) = reply else {
            panic!("{reply:?}")
        };
        let [Value::Bulk(next), Value::Array(keys)] = &parts[..] else {
            panic!("{parts:?}")
        };
        sizes.push(keys.len());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            return sizes;
        }
    }
}

#[test]
fn count_says_how_many_keys_a_scan_looks_at() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for i in 0..30 {
        client.run(&format!("SET a:{i:02} v"));
        client.run(&format!("SET b:{i:02} v"));
    }
    for (options, sizes) in [
        ("", &[10, 10, 10, 10, 10, 10, 0][..]),
        ("COUNT 40", &[40, 20]),
        // Others are not looked at.
        ("MATCH b:* COUNT 20", &[20, 10]),
        // A reply may have none while there are more.
        ("MATCH *:29 COUNT 20", &[0, 1, 1, 0]),
        ("TYPE hash COUNT 30", &[0, 0, 0]),
    ] {
        assert_eq!(sizes_of_scan(&mut client, options), sizes, "{options}");
    }
    let burst: String = (0..20_000).map(|i| format!("SET c:{i} v\r\n")).collect();
    client.send(burst.as_bytes());
    for _ in 0..20_000 {
        assert_eq!(client.reply(), ok());
    }
    let sizes = sizes_of_scan(&mut client, "COUNT 1000000");
    assert_eq!(sizes, [20_000, 60], "one call has a bound of its own");
}

#[test]
fn transactions_fail_if_what_they_watch_changes() {
    let started = Started::new(one_worker());
    let (mut one, mut other) = (started.client(), started.client());
    one.run("SET a 1");
    for (change, aborts) in [
        ("SET a 2", true),
        ("DEL a", true),
        ("SET b 1", false),
        ("EXPIRE a 1000", false),
        ("SET a 3", true),
        ("DELRANGE a a", true),
        ("DEL a", false),
        ("SETEX a 1000 1", true),
        ("FLUSHDB", true),
        ("FLUSHDB", false),
    ] {
        assert_eq!(one.run("WATCH a"), ok());
        other.run(change);
        one.run("MULTI");
        one.run(counting_or("GET a", &started));
        let reply = one.run("EXEC");
        let failed = matches!(reply, Value::Error(_));
        assert!(
            !failed && (reply == Value::Null) == aborts,
            "after {change}: {reply:?}"
        );
    }
}

/// A command for a transaction: it counts in another row, or, where a transaction has one row, is
/// `of_one`.
fn counting_or(of_one: &'static str, started: &Started) -> &'static str {
    match started.serves("MULTI") {
        true => "INCR count",
        false => of_one,
    }
}

/// Watches `w`, lets others run some commands, and tells whether a transaction then failed.
fn aborts(one: &mut Client, other: &mut Client, commands: &[&str], change: &str) -> bool {
    assert_eq!(one.run("WATCH w"), ok());
    for command in commands {
        let reply = other.run(command);
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
    one.run("MULTI");
    one.run(change);
    let reply = one.run("EXEC");
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    reply == Value::Null
}

#[test]
fn a_watched_key_that_comes_and_goes_has_changed() {
    let started = Started::new(one_worker());
    let change = counting_or("APPEND w x", &started);
    let (mut one, mut other) = (started.client(), started.client());
    for (commands, expected) in [
        (&["SET w 1", "DEL w"][..], true),
        (&["DEL w", "GET w"], false),
        (&["HSET w f v", "HDEL w f"], true),
        (&["SET w 1", "DELRANGE v x"], true),
        (&["SET v 1", "SET x 1", "DELRANGE v x"], false),
        (&["SET w 1", "FLUSHDB"], true),
        (&["SET w 1", "FLUSHDB", "SET w 2", "DEL w"], true),
        (&["FLUSHDB", "SET w 2", "DEL w"], true),
        (&["SET v 1", "FLUSHDB"], false),
        (&["MSET v 1 w 2", "DEL v w"], true),
        (&["SET w 1", "EXPIRE w -1"], true),
        (&["SELECT 1", "SET w 1", "DEL w", "SELECT 0"], false),
    ] {
        assert_eq!(
            aborts(&mut one, &mut other, commands, change),
            expected,
            "{commands:?}"
        );
        other.run("DEL w");
    }
    assert_eq!(one.run("WATCH w"), ok());
    other.run("SET w 1");
    other.run("DEL w");
    assert_eq!(one.run("UNWATCH"), ok());
    one.run("MULTI");
    assert_eq!(
        one.run("EXEC"),
        Value::Array(Vec::new()),
        "nothing is watched"
    );
}

#[test]
fn large_hashes_are_scanned_in_parts() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    for i in 0..500 {
        client.run(&format!("HSET large field{i:03} {i}"));
    }
    client.run("HSET small a 1 b 2");
    let (mut seen, mut cursor, mut calls) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let reply = client.run(&format!("HSCAN large {cursor} COUNT 40"));
        let Value::Array(parts) = reply else {
            panic!("{reply:?}")
        };
        let [Value::Bulk(next), Value::Array(fields)] = &parts[..] else {
            panic!("{parts:?}")
        };
        assert!(fields.len() <= 80, "COUNT bounds it");
        seen.extend(fields.chunks(2).map(|pair| pair[0].clone()));
        // What comes and goes elsewhere changes nothing for those that stay.
        other.run(&format!("HSET large field{calls:03}x new"));
        other.run(&format!("HDEL large field{:03}", 499 - calls));
        calls += 1;
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    assert!(calls >= 12, "{calls} calls");
    let stayed = (13..480).map(|i| bulk(&format!("field{i:03}")));
    for field in stayed {
        let times = seen.iter().filter(|seen| **seen == field).count();
        assert_eq!(times, 1, "{field:?}");
    }
    let Value::Array(reply) = client.run("HSCAN large 0 MATCH *7 COUNT 100") else {
        panic!("no array")
    };
    let Value::Array(fields) = &reply[1] else {
        panic!("no fields")
    };
    assert!(reply[0] != bulk("0") && (10..=40).contains(&fields.len()));
    let whole = array([bulk("0"), bulks(&["a", "1", "b", "2"])]);
    assert_eq!(client.run("HSCAN small 0 COUNT 1"), whole);
    let none = array([bulk("0"), Value::Array(Vec::new())]);
    assert_eq!(client.run("HSCAN none 0"), none);
    let Value::Error(text) = client.run("HSCAN large 12345") else {
        panic!("an unknown cursor")
    };
    assert!(text.starts_with("ERR invalid cursor"), "{text}");
}

/// The lines of a reply as text.
pub(crate) fn text(reply: Value) -> String {
    match reply {
        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Six clients: `number0` to `number5`, each with the database of its number.
fn named_clients(started: &Started) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..6).map(|_| started.client()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.run(&format!("CLIENT SETNAME number{i}")), ok());
        client.run(&format!("SELECT {i}"));
    }
    clients
}

/// A field of the line that `CLIENT LIST` has of a named client.
fn listed_field(list: &str, client: usize, field: &str) -> String {
    let name = format!(" name=number{client} ");
    let line = list.lines().find(|line| line.contains(&name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in {list}"));
    let found = line.split(' ').find_map(|pair| pair.strip_prefix(field));
    found
        .unwrap_or_else(|| panic!("{field} is not in {line}"))
        .to_owned()
}

#[test]
fn connections_are_listed() {
    let options = hedgerow_server::ServerOptions {
        workers: 2,
        ..one_worker()
    };
    let started = Started::new(options);
    let mut clients = named_clients(&started);
    clients[3].run("WATCH a b");
    clients[3].run("MULTI");
    clients[3].run("GET a");
    let list = text(clients[0].run("CLIENT LIST"));
    assert_eq!(list.lines().count(), 6, "{list}");
    let field = |i: usize, name: &str| listed_field(&list, i, name);
    assert_eq!(field(0, "cmd="), "client|list");
    assert_eq!(
        (field(2, "db="), field(2, "cmd=")),
        ("2".into(), "select".into())
    );
    for (name, value) in [
        ("multi=", "1"),
        ("watch=", "2"),
        ("flags=", "x"),
        ("cmd=", "get"),
    ] {
        assert_eq!(field(3, name), value);
    }
    let address = |client: &Client| client.stream.local_addr().unwrap().to_string();
    assert_eq!(field(4, "addr="), address(&clients[4]));
    // In the order of the request, each as often as it is named.
    let ids = [5, 2, 5].map(|i| field(i, "id="));
    let request = format!("CLIENT LIST ID 999999 {}", ids.join(" "));
    let listed = text(clients[0].run(&request));
    let listed = listed.lines().filter_map(|line| line.split(' ').next());
    let expected = ids.map(|id| format!("id={id}"));
    assert_eq!(listed.collect::<Vec<&str>>(), expected);
}

#[test]
fn connections_are_ended() {
    let options = hedgerow_server::ServerOptions {
        workers: 2,
        ..one_worker()
    };
    let started = Started::new(options);
    let mut clients = named_clients(&started);
    let list = text(clients[0].run("CLIENT LIST"));
    let field = |i: usize, name: &str| listed_field(&list, i, name);
    let address = |client: &Client| client.stream.local_addr().unwrap().to_string();
    let id = field(5, "id=");
    assert_eq!(
        clients[0].run(&format!("CLIENT KILL ID {id}")),
        Value::Integer(1)
    );
    assert_eq!(clients[5].try_reply(), None, "it was ended");
    let fourth = address(&clients[4]);
    assert_eq!(clients[0].run(&format!("CLIENT KILL {fourth}")), ok());
    assert_eq!(clients[4].try_reply(), None);
    let lines = |client: &mut Client| text(client.run("CLIENT LIST")).lines().count();
    assert_eq!(lines(&mut clients[0]), 4);
    let gone = clients[0].run(&format!("CLIENT KILL {fourth}"));
    assert_eq!(gone, error("ERR No such client"));
    for none in ["TYPE pubsub", "TYPE normal TYPE pubsub", "MAXAGE 100000"] {
        let ended = clients[0].run(&format!("CLIENT KILL {none}"));
        assert_eq!(ended, Value::Integer(0), "{none}");
    }
    for (request, expected) in [
        ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE odd", "ERR Unknown client type 'odd'"),
        ("CLIENT KILL USER nobody", "ERR No such user 'nobody'"),
        ("CLIENT KILL ID 1 SKIPME", "ERR syntax error"),
        ("CLIENT LIST ID", "ERR syntax error"),
    ] {
        assert_eq!(clients[0].run(request), error(expected), "{request}");
    }
    let one = format!("CLIENT LIST ID {id} 1 {}", field(1, "id="));
    let listed = text(clients[0].run(&one));
    assert!(
        listed.contains("name=number1") && !listed.contains("name=number5"),
        "{listed}"
    );
    // The last type counts.
    assert_eq!(
        clients[0].run("CLIENT KILL TYPE pubsub TYPE normal SKIPME no"),
        Value::Integer(4)
    );
    assert_eq!(clients[0].try_reply(), None, "after its reply");
    assert_eq!(clients[1].try_reply(), None);
    let mut last = started.client();
    // The one that asked is told that it ends before it is gone from the list.
    eventually(|| (lines(&mut last) == 1).then_some(()));
    assert!(text(last.run("CLIENT INFO")).contains(" cmd=client|info "));
}

#[test]
fn resp3_says_nulls_and_maps_in_its_own_types() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("HSET h f v");
    assert_eq!(client.run("HGETALL h"), bulks(&["f", "v"]));
    let Value::Map(hello) = client.run("HELLO 3") else {
        panic!("HELLO 3 replies a map")
    };
    assert!(
        hello.contains(&(bulk("proto"), Value::Integer(3))),
        "{hello:?}"
    );
    assert_eq!(
        client.run("HGETALL h"),
        Value::Map(vec![(bulk("f"), bulk("v"))])
    );
    client.send(b"GET absent\r\n");
    assert_eq!(client.reply(), Value::Null);
    assert!(matches!(client.run("CONFIG GET save"), Value::Map(_)));
    assert_eq!(
        client.run("HELLO 4"),
        error("NOPROTO unsupported protocol version")
    );
    assert_eq!(client.run("RESET"), Value::Simple("RESET".into()));
    assert_eq!(client.run("HGETALL h"), bulks(&["f", "v"]));
}

#[test]
fn an_exec_that_is_refused_ends_its_transaction() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("MULTI");
    client.run("SET a 1");
    failed(
        &client.run("EXEC now"),
        &["EXECABORT", "wrong number of arguments for 'exec' command"],
    );
    assert_eq!(client.run("GET a"), Value::Null);
    assert_eq!(client.run("EXEC"), error("ERR EXEC without MULTI"));
}

#[test]
fn the_protocol_that_hello_names_in_a_transaction_is_that_of_the_next_reply() {
    let started = Started::new(one_worker());
    let replies = |hello: &str| {
        let mut stream = TcpStream::connect(started.resp()).unwrap();
        let lines = format!(
            "HSET h f 1\r\nMULTI\r\n{hello}\r\nHGETALL h\r\nHGET h none\r\nEXEC\r\nQUIT\r\n"
        );
        stream.write_all(lines.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    let third = replies("HELLO 3");
    assert!(
        third.ends_with("%1\r\n$1\r\nf\r\n$1\r\n1\r\n_\r\n+OK\r\n"),
        "{third}"
    );
    let second = replies("HELLO 3\r\nHELLO 2");
    let expected = "*2\r\n$1\r\nf\r\n$1\r\n1\r\n$-1\r\n+OK\r\n";
    assert!(second.ends_with(expected), "{second}");
}

#[test]
fn a_shutdown_that_contradicts_itself_is_refused() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for refused in [
        "NOSAVE SAVE",
        "SAVE NOSAVE",
        "ABORT NOW",
        "NOW ABORT",
        "SOON",
    ] {
        let reply = client.run(&format!("SHUTDOWN {refused}"));
        assert_eq!(reply, error("ERR syntax error"), "{refused}");
    }
    failed(&client.run("SHUTDOWN ABORT"), &["No shutdown in progress"]);
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn many_fields_of_a_hash_are_found_by_one_walk() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let names: Vec<String> = (0..50).map(|n| format!("f{n:02}")).collect();
    let pairs = |names: &[String]| {
        let pairs: Vec<String> = names
            .iter()
            .map(|name| format!("{name} of-{name}"))
            .collect();
        pairs.join(" ")
    };
    let set = format!("HSET h {}", pairs(&names[..30]));
    assert_eq!(client.run(&set), Value::Integer(30));
    // Twenty are there, ten are new, and one of them is named twice.
    let set = format!("HSET h {} f39 last", pairs(&names[10..40]));
    assert_eq!(client.run(&set), Value::Integer(10));
    let read = client.run("HMGET h f45 f39 f00 f39 a f20 z f00");
    let of = |name: &str| bulk(&format!("of-{name}"));
    let expected = [
        Value::Null,
        bulk("last"),
        of("f00"),
        bulk("last"),
        Value::Null,
        of("f20"),
        Value::Null,
        of("f00"),
    ];
    assert_eq!(read, array(expected.clone()));
    let rows = client.run("RANGE h h COLUMNS f45 f39 f00 f39 a f20 z f00");
    assert_eq!(rows, array([bulk("h"), array(expected)]));
    let removed = client.run("HDEL h f05 nope f05 f01 z f02 a f03 f39");
    assert_eq!(removed, Value::Integer(5));
    assert_eq!(client.run("HLEN h"), Value::Integer(35));
    assert_eq!(
        client.run("HMGET h f01 f04"),
        array([Value::Null, of("f04")])
    );
}

#[test]
fn an_expiry_later_than_all_is_earlier_than_none() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET k v");
    let last = i64::MAX;
    assert_eq!(
        client.run(&format!("PEXPIREAT k {last} GT")),
        Value::Integer(0)
    );
    assert_eq!(
        client.run(&format!("PEXPIREAT k {last} LT")),
        Value::Integer(1)
    );
    assert_eq!(client.run("PEXPIRETIME k"), Value::Integer(last));
    assert_eq!(
        client.run(&format!("PEXPIREAT k {last} LT")),
        Value::Integer(0)
    );
}

#[test]
fn an_empty_cursor_is_that_of_the_beginning() {
    let (_started, mut client) = with_trees();
    let whole = |items: &[&str]| array([bulk("0"), bulks(items)]);
    assert_eq!(
        client.call(&[b"SCAN", b""]),
        whole(&["ash", "elm", "fir", "hazel", "oak", "yew"])
    );
    assert_eq!(
        client.call(&[b"HSCAN", b"hazel", b""]),
        whole(&["height", "6", "nuts", "yes"])
    );
    failed(&client.call(&[b"SCAN", b" "]), &["ERR invalid cursor"]);
}

#[test]
fn an_unknown_cursor_concerns_a_large_hash_alone() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET s v");
    client.run("HSET small f v");
    let fields: Vec<String> = (0..1_000).map(|n| format!("f{n} v")).collect();
    client.run(&format!("HSET large {}", fields.join(" ")));
    let whole = array([bulk("0"), bulks(&["f", "v"])]);
    assert_eq!(client.run("HSCAN small 5"), whole);
    assert_eq!(client.run("HSCAN none 5"), array([bulk("0"), bulks(&[])]));
    let Value::Error(wrong) = client.run("HSCAN s 5") else {
        panic!("a string is no hash");
    };
    assert!(wrong.starts_with("WRONGTYPE"), "{wrong}");
    let Value::Error(unknown) = client.run("HSCAN large 5") else {
        panic!("nobody gave this cursor");
    };
    assert!(unknown.starts_with("ERR invalid cursor"), "{unknown}");
}
