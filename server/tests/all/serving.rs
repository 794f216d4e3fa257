//! Started servers over real sockets: pipelining, limits, passwords.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::support::{
    Client, Started, Value, bulk, error, eventually, lacking, ok, one_worker, request, start,
};
use crate::tested::Database;
use hedgerow::backend::Backend;
use hedgerow_server::ServerOptions;

/// Escapes are longer than what they mean. Also of a stranger, whose buffer others have later.
#[test]
fn an_inline_command_full_of_escapes_harms_nobody() {
    let started = Started::new(ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    });
    let escaped = format!("SET k \"{}\"\r\n", "\\x41".repeat(3000));
    let mut stranger = started.client();
    for _ in 0..3 {
        stranger.send(escaped.as_bytes());
        let refused = error("NOAUTH Authentication required.");
        assert_eq!(stranger.reply(), refused);
    }
    let mut client = started.client();
    assert_eq!(client.run("AUTH secret"), ok());
    for length in [10_000, 20_000, 100_000] {
        let value = vec![b'v'; length];
        assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
        assert!(client.run("GET k") == Value::Bulk(value));
        client.send(escaped.as_bytes());
        assert_eq!(client.reply(), ok());
        assert!(client.run("GET k") == Value::Bulk(vec![b'A'; 3000]));
    }
}

/// A client that sends everything before it reads is not silent, though nothing reaches it.
#[test]
fn who_sends_and_does_not_read_yet_is_not_idle() {
    const FIRST: usize = 8_000;
    const LATER: usize = 60;
    let started = Started::new(ServerOptions {
        idle_timeout: Some(Duration::from_secs(1)),
        ..one_worker()
    });
    let mut client = started.client();
    let value = vec![b'v'; 4_000];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    // More than the server holds for one that does not read, and the system beside it.
    client.send(&b"GET k\r\n".repeat(FIRST));
    for _ in 0..LATER {
        client.send(b"GET k\r\n");
        std::thread::sleep(Duration::from_millis(60));
    }
    for n in 0..FIRST + LATER {
        assert!(client.reply() == Value::Bulk(value.clone()), "reply {n}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for i in 0..3000u32 {
        let (key, value) = (format!("key{}", i % 97), i.to_string());
        sent.extend(request(&[b"SET", key.as_bytes(), value.as_bytes()]));
        expected.push(ok());
        sent.extend(request(&[b"GET", key.as_bytes()]));
        expected.push(bulk(&value));
        if i % 7 == 0 {
            sent.extend(request(&[b"APPEND", key.as_bytes(), b"x"]));
            expected.push(Value::Integer(value.len() as i64 + 1));
            sent.extend(request(&[b"GET", key.as_bytes()]));
            expected.push(bulk(&format!("{value}x")));
            sent.extend_from_slice(b"GET absent\r\nECHO \"a b\"\r\n\r\n");
            expected.extend([Value::Null, bulk("a b")]);
        }
    }
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    for (i, expected) in expected.iter().enumerate() {
        assert_eq!(client.reply(), *expected, "reply {i}");
    }
    thread.join().unwrap();
}

#[test]
fn runs_of_gets_are_one_batch_over_connections() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for i in 0..64 {
        client.call(&[
            b"SET",
            format!("k{i}").as_bytes(),
            format!("v{i}").as_bytes(),
        ]);
    }
    client.call(&[b"HSET", b"hash", b"f", b"v"]);
    let mut burst = Vec::new();
    for i in 0..64 {
        burst.extend(request(&[b"GET", format!("k{i}").as_bytes()]));
    }
    burst.extend(request(&[b"GET", b"hash"]));
    burst.extend(request(&[b"GET", &vec![b'x'; 70_000]]));
    client.send(&burst);
    for i in 0..64 {
        assert_eq!(client.reply(), bulk(&format!("v{i}")));
    }
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(client.reply(), error(wrong));
    // A key that no row can have: a mistake, or, to a backend elsewhere, a row that is not there.
    match client.reply() {
        Value::Error(text) => assert!(text.contains("limit"), "{text}"),
        reply => assert!(Database::IS_REMOTE && reply == Value::Null, "{reply:?}"),
    }
    let Value::Bulk(info) = client.run("INFO stats") else {
        panic!("INFO is text")
    };
    let info = String::from_utf8(info).unwrap();
    let number = |name: &str| -> u64 {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.parse().unwrap()
    };
    assert_eq!(number("batched_reads:"), 65);
    assert!(number("read_batches:") < 65, "{info}");
}

#[test]
fn reads_and_writes_of_many_connections_do_not_mix() {
    let started = Started::new(ServerOptions {
        workers: 2,
        ..ServerOptions::default()
    });
    let address = started.resp();
    let threads: Vec<_> = (0..8)
        .map(|t: u32| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                assert_eq!(client.run(&format!("SELECT {}", t % 3)), ok());
                for i in 0..300u32 {
                    let (key, value) = (format!("own{t}:{}", i % 5), format!("{t}-{i}"));
                    let mut burst = request(&[b"SET", key.as_bytes(), value.as_bytes()]);
                    burst.extend(request(&[b"GET", key.as_bytes()]));
                    client.send(&burst);
                    assert_eq!(client.reply(), ok());
                    assert_eq!(client.reply(), bulk(&value));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn who_does_not_read_is_not_served_until_he_does() {
    let options = ServerOptions {
        output_limit_bytes: 64 << 10,
        ..one_worker()
    };
    let started = Started::new(options);
    let mut client = started.client();
    client.call(&[b"SET", b"key", &vec![b'v'; 10_000]]);
    let one = request(&[b"GET", b"key"]);
    let burst: Vec<u8> = one.iter().copied().cycle().take(one.len() * 3000).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&burst).unwrap());
    // Another client is served meanwhile, whatever the first has pending.
    let mut other = started.client();
    for _ in 0..100 {
        assert_eq!(other.run("PING"), Value::Simple("PONG".into()));
    }
    for _ in 0..3000 {
        assert_eq!(client.reply(), Value::Bulk(vec![b'v'; 10_000]));
    }
    thread.join().unwrap();
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn floods_of_tiny_requests_are_answered() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        writer.write_all(&b"PING\r\n".repeat(200_000)).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    client.stream.read_to_end(&mut received).unwrap();
    assert!(
        received == b"+PONG\r\n".repeat(200_000),
        "{} bytes",
        received.len()
    );
    thread.join().unwrap();
}

#[test]
fn malformed_requests_get_an_error_and_the_end() {
    let started = Started::new(one_worker());
    for (sent, expected) in [
        (
            &b"*1\r\n$4\r\nPING\r\n*x\r\n"[..],
            "invalid multibulk length",
        ),
        (
            b"*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n",
            "expected '$', got 'P'",
        ),
        (
            b"*1\r\n$4\r\nPING\r\n*1\r\n$600000000\r\n",
            "invalid bulk length",
        ),
    ] {
        let mut client = started.client();
        client.send(sent);
        assert_eq!(client.reply(), Value::Simple("PONG".into()));
        assert_eq!(
            client.reply(),
            error(&format!("ERR Protocol error: {expected}"))
        );
        assert_eq!(client.try_reply(), None, "the connection ends");
    }
    assert_eq!(started.client().run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn connections_over_the_limit_are_told_so() {
    let options = ServerOptions {
        max_connections: 2,
        ..one_worker()
    };
    let started = Started::new(options);
    let mut clients = [started.client(), started.client()];
    for client in &mut clients {
        assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
    }
    let mut refused = started.client();
    assert_eq!(refused.reply(), error("ERR max number of clients reached"));
    assert_eq!(clients[0].run("QUIT"), ok());
    assert_eq!(clients[0].try_reply(), None);
    // A place becomes free, some time after its client was told that it ends.
    eventually(|| {
        let mut client = started.client();
        // Whoever is refused may find the connection closed.
        let _ = client.stream.write_all(b"PING\r\n");
        (client.try_reply() == Some(Value::Simple("PONG".into()))).then_some(())
    });
}

#[test]
fn silent_connections_end() {
    let idle_timeout = Some(Duration::from_millis(100));
    let started = Started::new(ServerOptions {
        idle_timeout,
        ..one_worker()
    });
    // One that never says anything, and one that is silent after its first request; on a busy
    // machine that request may come too late.
    assert_eq!(started.client().try_reply(), None);
    let mut client = started.client();
    while client.stream.write_all(b"PING\r\n").is_err() || client.try_reply().is_none() {
        client = started.client();
    }
    assert_eq!(client.try_reply(), None);
}

/// It sends nothing while it fetches a long reply for many times as long as it may be silent.
#[test]
fn a_client_that_fetches_a_reply_is_not_silent() {
    const LEN: usize = 24 << 20;
    let started = Started::new(ServerOptions {
        idle_timeout: Some(Duration::from_millis(300)),
        ..one_worker()
    });
    let mut client = started.client();
    assert_eq!(client.call(&[b"SET", b"long", &vec![b'v'; LEN]]), ok());
    client.stream.write_all(b"GET long\r\n").unwrap();
    let (mut read, mut part) = (0, vec![0; 512 << 10]);
    let wanted = format!("${LEN}\r\n\r\n").len() + LEN;
    while read < wanted {
        let more = client.stream.read(&mut part).unwrap();
        assert!(more > 0, "{read} of {wanted} bytes");
        read += more;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(read, wanted);
}

#[test]
fn a_client_that_ends_its_side_gets_its_replies() {
    let started = Started::new(one_worker());
    let mut stream = TcpStream::connect(started.resp()).unwrap();
    stream.write_all(b"SET a 1\r\nGET a\r\nPING").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "+OK\r\n$1\r\n1\r\n");
}

#[test]
fn a_password_is_asked_for() {
    let options = ServerOptions {
        password: Some("secret".into()),
        ..one_worker()
    };
    let started = Started::new(options);
    let mut client = started.client();
    let needed = error("NOAUTH Authentication required.");
    let wrong = error("WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(client.run("GET a"), needed);
    assert_eq!(client.run("SET a 1"), needed);
    assert_eq!(client.run("AUTH wrong"), wrong);
    assert_eq!(client.run("AUTH secre"), wrong);
    assert_eq!(client.run("AUTH other secret"), wrong);
    let hello = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO AUTH <user> <pass> option can be used to authenticate the client and select \
                 the RESP protocol version at the same time";
    assert_eq!(client.run("HELLO 3"), error(hello));
    // What follows in the same packet is parsed with the rights that it brings.
    let mut burst = request(&[b"AUTH", b"secret"]);
    burst.extend(request(&[b"SET", b"a", &vec![b'x'; 100_000]]));
    burst.extend(request(&[b"STRLEN", b"a"]));
    client.send(&burst);
    assert_eq!(
        [client.reply(), client.reply(), client.reply()],
        [ok(), ok(), Value::Integer(100_000)]
    );
    let mut client = started.client();
    assert!(matches!(
        client.run("HELLO 3 AUTH default secret"),
        Value::Map(_)
    ));
    assert_eq!(client.run("DEL a"), Value::Integer(1));
    let mut stranger = started.client();
    stranger.send(b"*1000\r\n");
    let text = "ERR Protocol error: unauthenticated multibulk length";
    assert_eq!(stranger.reply(), error(text));
}

#[test]
fn http_tells_metrics_and_health() {
    let http = Some("127.0.0.1:0".parse().unwrap());
    let started = Started::new(ServerOptions {
        http,
        ..one_worker()
    });
    started.client().run("SET a 1");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(started.server.addresses().http.unwrap()).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200") && get("/healthz").ends_with("ok\n"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    // A reply is sent before its request is counted.
    let metrics = eventually(|| {
        let metrics = get("/metrics");
        let counted = metrics
            .lines()
            .any(|line| line == "hedgerow_requests_total 1");
        counted.then_some(metrics)
    });
    let rows = metrics.lines().any(|line| line == "hedgerow_rows 1");
    let of_index = metrics.contains("hedgerow_index_rows{keyspace=\"default\"");
    let counts = lacking::counts_rows(&started);
    assert_eq!((rows, of_index), (counts, counts), "{metrics}");
    for line in ["hedgerow_healthy 1", "hedgerow_batched_puts_total 1"] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} in {metrics}"
        );
    }
    for statistic in Backend::statistics(&*started.db).iter() {
        let name = format!("\nhedgerow_engine_{} ", statistic.name);
        assert!(metrics.contains(&name), "{name} in {metrics}");
    }
}

#[test]
fn a_taken_port_is_named() {
    let started = Started::new(one_worker());
    let options = ServerOptions {
        resp: Some(started.resp()),
        ..one_worker()
    };
    let error = start(started.db.clone(), options).unwrap_err().to_string();
    assert!(error.contains("could not listen on 127.0.0.1:"), "{error}");
}
