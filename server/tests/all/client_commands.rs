//! What a connection asks of itself and of others: which replies it gets, pauses, what `RESET`
//! leaves, what `CLIENT LIST` shows, and settings that change while the server runs.

use std::io::Read;
use std::net::Shutdown;

use crate::support::{Client, Started, Value, array, bulk, error, failed, ok, one_worker};
use hedgerow_server::ServerOptions;

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

#[test]
fn replies_are_left_out_as_the_client_wants() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    // One burst: what is batched and what is not keeps the order.
    client.send(
        b"SET a 1\r\nCLIENT REPLY OFF\r\nSET a 2\r\nGET a\r\nNOSUCH\r\nMULTI\r\nINCR a\r\nEXEC\r\n\
          CLIENT REPLY SKIP\r\nGET a\r\nCLIENT REPLY ON\r\nGET a\r\n\
          CLIENT REPLY SKIP\r\nSET a 5\r\nGET a\r\n\
          CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nGET a\r\nGET a\r\nPING\r\n",
    );
    let expected = [ok(), ok(), bulk("3"), bulk("5"), bulk("5")];
    for expected in expected {
        assert_eq!(client.reply(), expected);
    }
    assert_eq!(client.reply(), Value::Simple("PONG".into()));
    // Inside a transaction the reply counts its parts.
    client.send(b"MULTI\r\nCLIENT REPLY OFF\r\nGET a\r\nEXEC\r\nPING\r\nRESET\r\nPING\r\n");
    let queued = Value::Simple("QUEUED".into());
    assert_eq!(client.reply(), ok());
    assert_eq!((client.reply(), client.reply()), (queued.clone(), queued));
    assert_eq!(client.reply(), array([ok(), bulk("5")]));
    assert_eq!(client.reply(), Value::Simple("RESET".into()));
    assert_eq!(client.reply(), Value::Simple("PONG".into()));
}

#[test]
fn reset_forgets_the_name_but_not_the_library() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("CLIENT SETINFO LIB-NAME hedge");
    client.run("CLIENT SETINFO LIB-VER 1.2");
    client.run("CLIENT SETNAME row");
    assert_eq!(client.run("RESET"), Value::Simple("RESET".into()));
    let info = text(client.run("CLIENT INFO"));
    assert!(
        info.contains(" name= ") && info.contains(" lib-name=hedge lib-ver=1.2"),
        "{info}"
    );
}

#[test]
fn client_list_has_the_fields_that_tools_read() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let mut other = started.client();
    other.run("MULTI");
    other.run("SET key value");
    let list = text(client.run("CLIENT LIST"));
    let names = [
        "id",
        "addr",
        "laddr",
        "fd",
        "name",
        "age",
        "idle",
        "flags",
        "db",
        "sub",
        "psub",
        "ssub",
        "multi",
        "watch",
        "qbuf",
        "qbuf-free",
        "argv-mem",
        "multi-mem",
        "rbs",
        "rbp",
        "obl",
        "oll",
        "omem",
        "tot-mem",
        "events",
        "cmd",
        "user",
        "redir",
        "resp",
        "lib-name",
        "lib-ver",
    ];
    for line in list.lines() {
        let found: Vec<&str> = line
            .split(' ')
            .map(|field| field.split_once('=').expect("name=value").0)
            .collect();
        assert_eq!(found, names, "{line}");
    }
    assert!(
        list.contains(" multi=1 watch=0 ") && list.contains(" multi-mem=11 "),
        "{list}"
    );
}

/// The ids that `CLIENT LIST` replies.
fn listed_ids(list: &Value) -> Vec<i64> {
    let list = text(list.clone());
    let first_fields = list.lines().filter_map(|line| line.split(' ').next());
    let ids = first_fields.map(|field| field.strip_prefix("id=").unwrap().parse().unwrap());
    ids.collect()
}

#[test]
fn who_was_ended_is_listed_no_more() {
    let started = Started::new(one_worker());
    let id = |client: &mut Client| match client.run("CLIENT ID") {
        Value::Integer(id) => id,
        other => panic!("{other:?} is no id"),
    };
    let mut client = started.client();
    let own = id(&mut client);
    // A queue ends others only once it has committed.
    let mut other = started.client();
    let ended = id(&mut other);
    let kill = format!("CLIENT KILL ID {ended}");
    let list_both = format!("CLIENT LIST ID {ended} {own}");
    for line in ["MULTI", "CLIENT LIST", &kill, "CLIENT LIST", &list_both] {
        client.run(line);
    }
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no replies of a queue");
    };
    assert_eq!(listed_ids(&replies[0]), [own, ended]);
    assert_eq!(replies[1], Value::Integer(1));
    for list in &replies[2..] {
        assert_eq!(listed_ids(list), [own]);
    }
    assert_eq!(other.try_reply(), None);
    // In one burst, before the worker looks.
    let mut other = started.client();
    let ended = id(&mut other);
    client.send(format!("CLIENT KILL ID {ended}\r\nCLIENT LIST\r\n").as_bytes());
    assert_eq!(client.reply(), Value::Integer(1));
    assert_eq!(listed_ids(&client.reply()), [own]);
    assert_eq!(other.try_reply(), None);
}

#[test]
fn a_pause_holds_back_what_it_names_until_it_ends() {
    let started = Started::new(one_worker());
    let (mut pauser, mut other) = (started.client(), started.client());
    assert_eq!(other.run("SET a 1"), ok());
    assert_eq!(pauser.run("CLIENT PAUSE 3600000 WRITE"), ok());
    // Reads go on; writes, and what would run some, wait in their order.
    assert_eq!(other.run("GET a"), bulk("1"));
    other.send(b"INCR a\r\nGET a\r\n");
    let mut third = started.client();
    third.send(b"SET b 1\r\nGET b\r\n");
    for _ in 0..20 {
        assert_eq!(pauser.run("GET a"), bulk("1"));
    }
    assert_eq!(pauser.run("GET b"), Value::Null);
    assert_eq!(pauser.run("CLIENT UNPAUSE"), ok());
    assert_eq!(
        (other.reply(), other.reply()),
        (Value::Integer(2), bulk("2"))
    );
    assert_eq!((third.reply(), third.reply()), (ok(), bulk("1")));
    // One that waits for its end by the clock.
    assert_eq!(pauser.run("CLIENT PAUSE 50"), ok());
    other.send(b"GET a\r\nINCR a\r\n");
    assert_eq!(
        (other.reply(), other.reply()),
        (bulk("2"), Value::Integer(3))
    );
}

/// They came in one packet, before anybody was paused.
#[test]
fn a_pause_holds_back_what_is_pipelined_behind_it() {
    let started = Started::new(one_worker());
    let (mut pauser, mut other) = (started.client(), started.client());
    pauser.send(b"SET a 1\r\nCLIENT PAUSE 3600000 WRITE\r\nGET a\r\nSET a 2\r\nGET a\r\n");
    assert_eq!((pauser.reply(), pauser.reply()), (ok(), ok()));
    assert_eq!(pauser.reply(), bulk("1"));
    for _ in 0..20 {
        assert_eq!(other.run("GET a"), bulk("1"));
    }
    assert_eq!(other.run("CLIENT UNPAUSE"), ok());
    assert_eq!((pauser.reply(), pauser.reply()), (ok(), bulk("2")));
    // Also if it is a queue that pauses.
    pauser.send(b"MULTI\r\nCLIENT PAUSE 3600000 WRITE\r\nGET a\r\nEXEC\r\nSET a 3\r\n");
    let replies: Vec<Value> = (0..4).map(|_| pauser.reply()).collect();
    assert_eq!(replies[3], array([ok(), bulk("2")]), "{replies:?}");
    for _ in 0..20 {
        assert_eq!(other.run("GET a"), bulk("2"));
    }
    assert_eq!(other.run("CLIENT UNPAUSE"), ok());
    assert_eq!(pauser.reply(), ok());
}

/// Such a client may have asked again elsewhere: its waiting requests must not run later.
#[test]
fn who_hangs_up_in_a_pause_is_closed_and_its_writes_do_not_run() {
    let started = Started::new(one_worker());
    let (mut pauser, mut before) = (started.client(), started.client());
    assert_eq!(pauser.run("SET a 1"), ok());
    assert_eq!(pauser.run("CLIENT PAUSE 3600000 WRITE"), ok());
    // One waits already; one hangs up with its request, and what stood before that is answered.
    before.send(b"INCR a\r\n");
    assert_eq!(pauser.run("GET a"), bulk("1"));
    let mut at_once = started.client();
    at_once.send(b"GET a\r\nINCR a\r\n");
    at_once.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!((at_once.reply(), at_once.try_reply()), (bulk("1"), None));
    before.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(before.try_reply(), None);
    // The worker had closed both before their ends were seen.
    let clients = text(pauser.run("INFO clients"));
    assert!(clients.contains("connected_clients:1\r\n"), "{clients}");
    assert_eq!(pauser.run("CLIENT UNPAUSE"), ok());
    assert_eq!(pauser.run("GET a"), bulk("1"));
}

#[test]
fn a_pause_holds_nothing_back_that_stands_before_what_it_names() {
    let started = Started::new(one_worker());
    let (mut pauser, mut other) = (started.client(), started.client());
    let value = vec![b'v'; 1 << 20];
    assert_eq!(other.call(&[b"SET", b"a", &value]), ok());
    assert_eq!(pauser.run("CLIENT PAUSE 3600000 WRITE"), ok());
    // Replies so large that a tick puts most of them off.
    let mut requests = b"GET a\r\n".repeat(20);
    requests.extend_from_slice(b"SET b 1\r\n");
    other.send(&requests);
    for _ in 0..20 {
        assert_eq!(other.reply(), Value::Bulk(value.clone()));
    }
    assert_eq!(pauser.run("GET b"), Value::Null);
    assert_eq!(pauser.run("CLIENT UNPAUSE"), ok());
    assert_eq!(other.reply(), ok());
    // Whether `EXEC` writes is known once what stands before it has run.
    assert_eq!(other.run("MULTI"), ok());
    other.run("SET a 1");
    assert_eq!(pauser.run("CLIENT PAUSE 3600000 WRITE"), ok());
    other.send(b"DISCARD\r\nMULTI\r\nGET b\r\nEXEC\r\n");
    let replies: Vec<Value> = (0..4).map(|_| other.reply()).collect();
    assert_eq!(replies[3], array([bulk("1")]), "{replies:?}");
}

#[test]
fn a_pause_holds_no_client_that_is_to_be_refused() {
    let started = Started::new(ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    });
    let mut pauser = started.client();
    assert_eq!(pauser.run("AUTH secret"), ok());
    for scope in ["WRITE", "ALL"] {
        assert_eq!(pauser.run(&format!("CLIENT PAUSE 3600000 {scope}")), ok());
        let mut stranger = started.client();
        let Value::Error(refused) = stranger.run("SET a 1") else {
            panic!("a stranger wrote");
        };
        assert!(refused.starts_with("NOAUTH"), "{refused}");
        assert_eq!(stranger.run("AUTH secret"), ok());
    }
}

#[test]
fn help_and_the_table_of_commands_say_what_there_is() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for container in ["CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT"] {
        let Value::Array(lines) = client.run(&format!("{container} HELP")) else {
            panic!("lines of text");
        };
        let title = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        assert_eq!(lines[0], Value::Simple(title));
        assert_eq!(
            lines.last(),
            Some(&Value::Simple("    Prints this help.".into()))
        );
        // Each subcommand is explained, listed, and described.
        let Value::Array(names) =
            client.run(&format!("COMMAND LIST FILTERBY PATTERN {container}|*"))
        else {
            panic!("names");
        };
        for name in names.into_iter().map(text) {
            let part = name.split_once('|').unwrap().1.to_uppercase();
            let starts =
                |line: &Value| matches!(line, Value::Simple(line) if line.starts_with(&part));
            assert!(lines.iter().any(starts), "{name} is explained");
            let Value::Array(info) = client.run(&format!("COMMAND INFO {name}")) else {
                panic!("a description");
            };
            assert!(matches!(&info[0], Value::Array(fields) if fields[0] == bulk(&name)));
        }
    }
    let Value::Array(written) = client.run("COMMAND LIST FILTERBY ACLCAT write") else {
        panic!("names");
    };
    assert!(written.contains(&bulk("copy")) && !written.contains(&bulk("get")));
}

#[test]
fn subcommands_have_keys_and_their_containers_have_none() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let request = "COMMAND INFO object object|encoding object|help memory memory|usage client get";
    let Value::Array(descriptions) = client.run(request) else {
        panic!("descriptions");
    };
    let positions = descriptions.into_iter().map(|fields| match fields {
        Value::Array(fields) => fields[3..6].to_vec(),
        other => panic!("{other:?}"),
    });
    let (none, second) = ([0, 0, 0], [2, 2, 1]);
    let expected = [none, second, none, none, second, none, [1, 1, 1]];
    let expected = expected.map(|places| places.map(Value::Integer).to_vec());
    assert_eq!(positions.collect::<Vec<_>>(), expected);
    let keys = client.run("COMMAND GETKEYS OBJECT ENCODING k");
    assert_eq!(keys, array([bulk("k")]));
}

#[test]
fn of_a_wrong_option_and_a_wrong_value_the_option_is_told() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let unknown = error("ERR Unrecognized option 'foo'");
    let long = vec![b'x'; (64 << 10) + 1];
    for value in [&b"a b"[..], &long] {
        let reply = client.call(&[b"CLIENT", b"SETINFO", b"foo", value]);
        assert_eq!(reply, unknown);
    }
    assert_eq!(
        client.call(&[b"CLIENT", b"SETINFO", b"lib-name", b"a b"]),
        error("ERR lib-name cannot contain spaces, newlines or special characters.")
    );
}

#[test]
fn settings_change_together_or_not_at_all() {
    let started = Started::new(ServerOptions {
        max_connections: 50,
        ..one_worker()
    });
    let mut client = started.client();
    let get = |client: &mut Client, name: &str| client.run(&format!("CONFIG GET {name}"));
    let refused = "ERR CONFIG SET failed (possibly related to argument 'timeout') - \
                   argument must be between 0 and 2147483647 inclusive";
    let Value::Error(too_many) = client.run("CONFIG SET maxclients 4294967295") else {
        panic!("there are not so many descriptors");
    };
    assert!(too_many.contains("not able to handle"), "{too_many}");
    let both = "CONFIG SET maxclients 7 timeout -1";
    assert_eq!(client.run(both), error(refused));
    assert_eq!(
        get(&mut client, "maxclients"),
        array([bulk("maxclients"), bulk("50")])
    );
    assert_eq!(
        client.run("CONFIG SET maxclients 1 appendfsync always"),
        ok()
    );
    assert_eq!(
        get(&mut client, "appendfsync"),
        array([bulk("appendfsync"), bulk("always")])
    );
    // The settings hold: one more client is refused, and a shorter argument is too long.
    let full = error("ERR max number of clients reached");
    assert_eq!(Client::connect(started.resp()).reply(), full);
    assert_eq!(
        client.run("CONFIG SET proto-max-bulk-len 1mb maxclients 100"),
        ok()
    );
    // The engine takes no longer values than it did at the start.
    let beyond = client.run("CONFIG SET proto-max-bulk-len 513mb");
    failed(&beyond, &["proto-max-bulk-len", "between"]);
    // It is not the limit of replies.
    for n in 0..100 {
        let key = vec![n; 20_000];
        assert_eq!(client.call(&[b"SET", &key, b""]), ok());
    }
    assert!(matches!(client.run("KEYS *"), Value::Array(keys) if keys.len() == 100));
    assert_eq!(client.run("FLUSHDB"), ok());
    let long = vec![b'x'; (1 << 20) + 1];
    let mut other = started.client();
    let too_long = error("ERR Protocol error: invalid bulk length");
    other.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", long.len()).as_bytes());
    assert_eq!(other.reply(), too_long);
    // A password asks those that come, not those that are there.
    assert_eq!(client.run("CONFIG SET requirepass secret"), ok());
    assert_eq!(client.run("SET a 1"), ok());
    let mut stranger = started.client();
    assert_eq!(
        stranger.run("GET a"),
        error("NOAUTH Authentication required.")
    );
    assert_eq!(stranger.run("AUTH secret"), ok());
    assert_eq!(stranger.run("GET a"), bulk("1"));
}

#[test]
fn a_malformed_request_is_not_told_to_a_client_that_wants_no_replies() {
    let started = Started::new(one_worker());
    for replies in ["CLIENT REPLY OFF", "CLIENT REPLY SKIP"] {
        for malformed in [&b"*1\r\n:1\r\n"[..], b"PING \"\r\n"] {
            let mut client = started.client();
            // In one burst, and behind what has run.
            client.send(&[format!("{replies}\r\n").as_bytes(), malformed].concat());
            assert_eq!(
                client.try_reply(),
                None,
                "{replies}: the connection is closed"
            );
        }
    }
    let mut client = started.client();
    client.send(b"CLIENT REPLY OFF\r\nCLIENT REPLY ON\r\n*1\r\n:1\r\n");
    assert_eq!(client.reply(), ok());
    let malformed = error("ERR Protocol error: expected '$', got ':'");
    assert_eq!(client.try_reply(), Some(malformed));
}

#[test]
fn the_time_has_microseconds() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let mut within_milliseconds = (0..1000).map(|_| {
        let Value::Array(mut parts) = client.run("TIME") else {
            panic!("seconds and microseconds");
        };
        let micros = text(parts.pop().unwrap());
        micros.parse::<u64>().unwrap() % 1000
    });
    assert!(within_milliseconds.any(|micros| micros != 0));
}

#[test]
fn sets_of_a_description_are_sets_in_resp3() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    assert!(matches!(client.run("HELLO 3"), Value::Map(_)));
    client.send(b"COMMAND INFO echo nosuch\r\n");
    let mut received = Vec::new();
    while !received.ends_with(b"_\r\n") {
        let mut chunk = [0; 4096];
        let n = client.stream.read(&mut chunk).unwrap();
        received.extend_from_slice(&chunk[..n]);
    }
    let expected = "*2\r\n*10\r\n$4\r\necho\r\n:2\r\n~1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n\
                    ~2\r\n+@connection\r\n+@fast\r\n~0\r\n~0\r\n~0\r\n_\r\n";
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}
