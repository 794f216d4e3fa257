//! Clients that send much, ask for much or fetch nothing: what the server keeps for them is
//! bounded, others are served meanwhile, and nobody waits for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Client, Started, Value, bulk, eventually, failed, ok, one_worker, request};
use crate::tested::Database;
use hedgerow::backend::Backend;
use hedgerow_server::ServerOptions;

pub(crate) const MIB: usize = 1 << 20;
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(120));

pub(crate) fn with_memory(bytes: usize) -> Started {
    Started::new(ServerOptions {
        client_memory_bytes: bytes,
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        http: Some("127.0.0.1:0".parse().unwrap()),
        ..one_worker()
    })
}

pub(crate) fn metric(started: &Started, name: &str) -> u64 {
    let mut stream = TcpStream::connect(started.server.addresses().http.unwrap()).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect(name).parse().unwrap()
}

/// Sends until everything is sent or the server closes; whether everything was.
fn send_all(stream: &mut TcpStream, bytes: &[u8], times: usize) -> bool {
    stream.set_write_timeout(TIMEOUT).unwrap();
    for _ in 0..times {
        match stream.write_all(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it waits for ever"),
            Err(_) => return false,
        }
    }
    true
}

#[test]
fn what_is_parsed_of_a_long_request_counts() {
    let started = Started::new(ServerOptions {
        client_hard_limit_bytes: 12 * MIB,
        ..one_worker()
    });
    let mut stream = started.client().stream;
    // The buffer of what is sent, 6 MiB, is below the limit.
    let arguments = 1024 * 1024;
    stream
        .write_all(format!("*{arguments}\r\n").as_bytes())
        .unwrap();
    let _ = send_all(&mut stream, &b"$0\r\n\r\n".repeat(1024), 1023);
    stream.set_read_timeout(TIMEOUT).unwrap();
    let closed = stream.read(&mut [0; 1]);
    assert!(
        matches!(closed, Ok(0))
            || closed.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    );
}

#[test]
fn a_client_that_sends_everything_before_it_reads_is_answered() {
    // Elsewhere each write of a row takes milliseconds.
    let (memory, times) = match Database::IS_REMOTE {
        false => (64 * MIB, 1500),
        true => (3 * MIB, 60),
    };
    let started = with_memory(memory);
    let mut client = started.client();
    assert_eq!(client.call(&[b"SET", b"key", &[b'v'; 1000]]), ok());
    // The requests, 23 MB, are longer than sockets hold, and fit into the server's memory. The
    // replies, 151 MB, do not: they are made as they are fetched. Elsewhere, 1 and 6 MB.
    let get = request(&[b"GET", b"key"]);
    let set = request(&[b"SET", b"other", &[b'w'; 100]]);
    let burst = [get.repeat(100), set.repeat(100)].concat();
    assert!(send_all(&mut client.stream, &burst, times));
    let reply = [
        format!("$1000\r\n{}\r\n", "v".repeat(1000)).repeat(100),
        "+OK\r\n".repeat(100),
    ]
    .concat();
    let mut received = vec![0; reply.len()];
    for _ in 0..times {
        client.stream.read_exact(&mut received).unwrap();
        assert!(received == reply.as_bytes());
    }
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn who_holds_most_of_the_memory_is_closed() {
    let started = with_memory(16 * MIB);
    let mut small = started.client();
    assert_eq!(small.call(&[b"SET", b"key", &[b'v'; 10_000]]), ok());
    let mut hostile = started.client();
    let burst = request(&[b"GET", b"key"]).repeat(10_000);
    // It never reads: at some time there is no memory for what it sends.
    assert!(!send_all(&mut hostile.stream, &burst, 1000));
    assert_eq!(small.run("PING"), Value::Simple("PONG".into()));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 1);
    // Many that announce much and send a part.
    let part = [
        b"*2\r\n$3\r\nGET\r\n$30000000\r\n".to_vec(),
        vec![b'x'; 6 * MIB],
    ]
    .concat();
    let mut many: Vec<Client> = (0..8).map(|_| started.client()).collect();
    let sent = many
        .iter_mut()
        .filter_map(|client| send_all(&mut client.stream, &part, 1).then_some(()));
    let _sent = sent.count();
    assert_eq!(small.run("PING"), Value::Simple("PONG".into()));
}

/// Clients grow together, each within the limit by itself, and fall silent: some have to go, though
/// nobody asks for more.
#[test]
fn clients_that_grow_together_are_within_the_limit_when_they_are_silent() {
    let limit = 8 * MIB;
    let started = with_memory(limit);
    let mut many: Vec<Client> = (0..40).map(|_| started.client()).collect();
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5000000\r\n".to_vec();
    for client in &mut many {
        let _ = send_all(&mut client.stream, &head, 1);
    }
    let piece = vec![b'x'; 100_000];
    for _ in 0..10 {
        for client in &mut many {
            let _ = send_all(&mut client.stream, &piece, 1);
        }
    }
    eventually(|| {
        let used = metric(&started, "hedgerow_client_memory_bytes") as usize;
        (used <= limit).then_some(())
    });
    // Others are served, also what needs room for its reply.
    let mut other = started.client();
    assert_eq!(other.run("SET k v"), ok());
    let found = Value::Array(vec![bulk("v")]);
    eventually(|| (other.run("MGET k") == found).then_some(()));
    assert!(metric(&started, "hedgerow_connections_closed_for_memory_total") > 0);
}

#[test]
fn replies_in_megabytes_are_made_as_they_are_fetched() {
    // A gateway of HBase with 128 MiB ends where one call finds more values than it has room for.
    let size = if Database::IS_REMOTE { MIB / 8 } else { MIB };
    let started = with_memory(32 * size);
    let mut client = started.client();
    for i in 0..8u8 {
        let (key, value) = ([b'k', b'0' + i], vec![b'0' + i; size]);
        assert_eq!(client.call(&[b"SET", &key, &value]), ok());
    }
    let keys: Vec<[u8; 2]> = (0..64).map(|i| [b'k', b'0' + i % 8]).collect();
    let burst: Vec<u8> = keys
        .iter()
        .flat_map(|key| request(&[b"GET", key]))
        .collect();
    client.send(&burst);
    let mut other = started.client();
    assert_eq!(other.run("PING"), Value::Simple("PONG".into()));
    for key in &keys {
        let reply = client.reply();
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        assert!(reply == Value::Bulk(vec![key[1]; size]));
    }
    // So is one reply that names each value eight times: it is held once.
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(keys.iter().map(|key| &key[..]));
    let Value::Array(values) = client.call(&words) else {
        panic!("8 values in the memory of 32");
    };
    let expected = keys.iter().map(|key| Value::Bulk(vec![key[1]; size]));
    assert!(values.into_iter().eq(expected));
    // One reply that would take more than there is is an error.
    let others: Vec<[u8; 2]> = (0..40).map(|i| [b'o', b'0' + i]).collect();
    for key in &others {
        assert_eq!(client.call(&[b"SET", key, &vec![key[1]; size]]), ok());
    }
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(others.iter().map(|key| &key[..]));
    let Value::Error(text) = client.call(&words) else {
        panic!("40 values in the memory of 32");
    };
    assert!(text.contains("client-memory"), "{text}");
    assert_eq!(client.run("STRLEN k0"), Value::Integer(size as i64));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);

    // The keys of one request of memcached, too.
    let address = started.server.addresses().memcached.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(TIMEOUT).unwrap();
    let names: Vec<String> = (0..40).map(|i| format!("k{}", i % 8)).collect();
    let burst = format!("get {}\r\nget missing\r\nmn\r\n", names.join(" "));
    stream.write_all(burst.as_bytes()).unwrap();
    for name in names {
        let mut expected = format!("VALUE {name} 0 {size}\r\n").into_bytes();
        expected.extend(vec![name.as_bytes()[1]; size]);
        expected.extend(b"\r\n");
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).unwrap();
        assert!(received == expected, "{name}");
    }
    let mut end = [0; 14];
    stream.read_exact(&mut end).unwrap();
    assert_eq!(end, *b"END\r\nEND\r\nMN\r\n");
}

/// What follows the requests that have to wait is parsed again later, from its beginning.
#[test]
fn requests_behind_those_that_wait_are_taken_for_what_they_are() {
    let started = with_memory(64 * MIB);
    let mut client = started.client();
    assert_eq!(client.call(&[b"SET", b"key", &vec![b'v'; MIB]]), ok());
    let words: Vec<Vec<u8>> = (0..600).map(|i| format!("{i}").into_bytes()).collect();
    let mut mset: Vec<&[u8]> = vec![b"MSET"];
    mset.extend(words.iter().map(Vec::as_slice));
    let mset = request(&mset);
    let mut burst = request(&[b"GET", b"key"]).repeat(20);
    burst.extend_from_slice(&mset[..mset.len() / 2]);
    client.send(&burst);
    for _ in 0..20 {
        assert!(client.reply() == Value::Bulk(vec![b'v'; MIB]));
    }
    client.send(&mset[mset.len() / 2..]);
    assert_eq!(client.reply(), ok());
    assert_eq!(client.run("GET 598"), bulk("599"));

    let started = Started::new(ServerOptions {
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        max_bulk_bytes: MIB,
        ..one_worker()
    });
    assert_eq!(
        started.client().call(&[b"SET", b"key", &vec![b'v'; MIB]]),
        ok()
    );
    let mut stream = TcpStream::connect(started.server.addresses().memcached.unwrap()).unwrap();
    stream.set_read_timeout(TIMEOUT).unwrap();
    // An item that is refused, whose data looks like commands.
    let data = b"set evil 0 0 1\r\n1\r\n".repeat(60_000);
    let mut burst = format!("set large 0 0 {}\r\n", data.len()).into_bytes();
    burst.extend(&data);
    burst.extend(b"\r\n");
    burst.extend(b"get key\r\n".repeat(20));
    burst.extend(b"get evil\r\n");
    let mut writer = stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&burst).unwrap());
    let value = [
        format!("VALUE key 0 {MIB}\r\n").into_bytes(),
        vec![b'v'; MIB],
        b"\r\nEND\r\n".to_vec(),
    ];
    let mut expected = b"SERVER_ERROR object too large for cache\r\n".to_vec();
    expected.extend(value.concat().repeat(20));
    expected.extend(b"END\r\n");
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == expected);
    thread.join().unwrap();
}

#[test]
fn the_commands_of_a_transaction_take_bounded_memory() {
    let started = with_memory(4 * MIB);
    let mut client = started.client();
    assert_eq!(client.run("MULTI"), ok());
    let mut refused = None;
    for round in 0..1000 {
        // Little text, but each argument and command has its place.
        client.send(&request(&[b"GET", b"a"]).repeat(1000));
        let replies: Vec<Value> = (0..1000).map(|_| client.reply()).collect();
        if let Some(Value::Error(text)) = replies.last() {
            refused = Some((round, text.clone()));
            break;
        }
    }
    let (round, text) = refused.expect("a million commands are not queued");
    assert!(
        round > 5 && text.contains("queued since MULTI"),
        "{round} {text}"
    );
    let Value::Error(text) = client.run("EXEC") else {
        panic!("a part of a transaction is none");
    };
    assert!(text.starts_with("EXECABORT"), "{text}");
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn a_connection_over_its_hard_limit_is_closed() {
    let started = Started::new(ServerOptions {
        client_hard_limit_bytes: MIB,
        http: Some("127.0.0.1:0".parse().unwrap()),
        ..one_worker()
    });
    let mut client = started.client();
    let mut other = started.client();
    let part = [
        b"*2\r\n$3\r\nGET\r\n$300000000\r\n".to_vec(),
        vec![b'x'; MIB],
    ]
    .concat();
    assert!(!send_all(&mut client.stream, &part, 100));
    assert_eq!(other.run("PING"), Value::Simple("PONG".into()));
    // For that, and not for a request that makes no sense.
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 1);
}

/// The reply would have no end, and the memory for it has one.
#[test]
fn an_endless_reply_ends_where_the_memory_for_it_does() {
    let started = with_memory(MIB);
    let mut client = started.client();
    assert_eq!(client.run("HSET h f v"), Value::Integer(1));
    for count in ["-9223372036854775807", "-4611686018427387903 WITHVALUES"] {
        let reply = client.run(&format!("HRANDFIELD h {count}"));
        failed(&reply, &["client-memory", "no row was changed"]);
    }
    assert_eq!(client.run("HRANDFIELD h 1"), Value::Array(vec![bulk("f")]));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}

/// A connection has a line for each time that it is named.
#[test]
fn a_list_of_connections_ends_where_the_memory_for_it_does() {
    let started = with_memory(MIB);
    let mut client = started.client();
    assert_eq!(client.call(&[b"CLIENT", b"SETNAME", &[b'n'; 60_000]]), ok());
    let Value::Integer(id) = client.run("CLIENT ID") else {
        panic!("a number");
    };
    let ids = format!(" {id}").repeat(1000);
    let reply = client.run(&format!("CLIENT LIST ID{ids}"));
    failed(&reply, &["client-memory", "no row was changed"]);
    assert!(matches!(client.run("CLIENT LIST"), Value::Bulk(text) if text.len() > 60_000));
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}

/// Each value is small, all that one line names are more than there is memory for.
#[test]
fn many_small_values_of_one_get_are_made_as_they_are_fetched() {
    const VALUE_BYTES: usize = 4000;
    let started = with_memory(16 * MIB);
    let value = [b'v'; VALUE_BYTES];
    assert_eq!(started.client().call(&[b"SET", b"a", &value]), ok());
    let address = started.server.addresses().memcached.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(TIMEOUT).unwrap();
    let keys = 10_000;
    let burst = format!("get{}\r\nget a\r\nmn\r\n", " a".repeat(keys));
    stream.write_all(burst.as_bytes()).unwrap();
    let mut item = format!("VALUE a 0 {VALUE_BYTES}\r\n").into_bytes();
    item.extend(value);
    item.extend(b"\r\n");
    let mut received = vec![0; item.len()];
    for at in 0..keys {
        stream.read_exact(&mut received).unwrap();
        assert!(received == item, "value {at}");
    }
    let rest = [b"END\r\n", item.as_slice(), b"END\r\nMN\r\n"].concat();
    let mut received = vec![0; rest.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == rest);
    let closed = metric(&started, "hedgerow_connections_closed_for_memory_total");
    assert_eq!(closed, 0);
}
