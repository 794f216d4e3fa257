//! Replies of the memcached protocol where requests are wrong, or ask for something rare: those of
//! memcached 1.6, and lines that a client can always take apart.

use crate::memcached::{ask, connect, start};
use crate::support::Started;

/// Sends each request to one connection and compares its reply.
fn compare(server: &Started, exchanges: &[(&str, &str)]) {
    let mut stream = connect(server);
    let mut wrong = Vec::new();
    for (request, expected) in exchanges {
        let answer = ask(&mut stream, request.as_bytes());
        if answer != *expected {
            wrong.push(format!(
                "{request:?}\n  got      {answer:?}\n  expected {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_scan_encodes_keys_that_would_break_its_lines() {
    let server = start();
    let mut client = server.client();
    for key in [&b""[..], b"\x7f", b"a b", b"a\r\nEN", b"a-b", b"\xff\xfe"] {
        client.call(&[b"SET", key, b"v"]);
    }
    let scan = ask(&mut connect(&server), b"mr - - s Oq\r\n");
    assert_eq!(
        scan,
        "HD k b s1 Oq\r\nHD kYQ0KRU4= b s1 Oq\r\nHD kYSBi b s1 Oq\r\nHD ka-b s1 Oq\r\n\
         HD kfw== b s1 Oq\r\nHD k\u{fffd}\u{fffd} s1 Oq\r\nEN\r\n"
    );
    compare(
        &server,
        &[
            ("mr YSBi - b v l1\r\n", "VA 1 kYSBi b\r\nv\r\nEN\r\n"),
            ("mr YSBi YS1i b\r\n", "HD kYSBi b\r\nEN\r\n"),
            ("mg YSBi b k v\r\n", "VA 1 kYSBi b\r\nv\r\n"),
        ],
    );
}
