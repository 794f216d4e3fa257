//! The memcached protocol over real sockets: exchanges, requests cut anywhere, real clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::support::{PATIENCE, Started};
use hedgerow_server::ServerOptions;

fn start() -> Started {
    let loopback = "127.0.0.1:0".parse().ok();
    Started::new(ServerOptions {
        memcached: loopback,
        workers: 1,
        ..ServerOptions::default()
    })
}

fn connect(server: &Started) -> TcpStream {
    let stream = TcpStream::connect(server.server.addresses().memcached.unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends bytes and reads until the answer to a final `mn` is there; returns what came before it.
fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    stream.write_all(b"mn\r\n").unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !answer.ends_with(b"MN\r\n") {
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&chunk[..n]);
    }
    answer.truncate(answer.len() - 4);
    String::from_utf8_lossy(&answer).into_owned()
}

const EXCHANGES: &[(&str, &str)] = &[
    ("get a\r\n", "END\r\n"),
    ("set a 7 0 3\r\none\r\n", "STORED\r\n"),
    (
        "get a b a\r\n",
        "VALUE a 7 3\r\none\r\nVALUE a 7 3\r\none\r\nEND\r\n",
    ),
    (
        "set q 0 0 1 noreply\r\nx\r\nget q\r\n",
        "VALUE q 0 1\r\nx\r\nEND\r\n",
    ),
    (
        "add a 0 0 1\r\nz\r\nadd b 1 0 1\r\nb\r\n",
        "NOT_STORED\r\nSTORED\r\n",
    ),
    (
        "replace zz 0 0 1\r\nz\r\nreplace b 2 0 2\r\nbb\r\n",
        "NOT_STORED\r\nSTORED\r\n",
    ),
    (
        "append b 9 9 1\r\nB\r\nprepend b 9 9 1\r\n_\r\nget b\r\n",
        "STORED\r\nSTORED\r\nVALUE b 2 4\r\n_bbB\r\nEND\r\n",
    ),
    ("append zz 0 0 1\r\nz\r\n", "NOT_STORED\r\n"),
    (
        "cas a 0 0 1 1\r\nz\r\ncas zz 0 0 1 1\r\nz\r\n",
        "EXISTS\r\nNOT_FOUND\r\n",
    ),
    (
        "set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 20\r\nincr zz 1\r\nincr a 1\r\nincr n x\r\n",
        "STORED\r\n15\r\n0\r\nNOT_FOUND\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nCLIENT_ERROR invalid numeric delta argument\r\n",
    ),
    (
        "set n 0 0 20\r\n18446744073709551615\r\nincr n 2\r\n",
        "STORED\r\n1\r\n",
    ),
    (
        "touch a 100\r\ntouch zz 100\r\n",
        "TOUCHED\r\nNOT_FOUND\r\n",
    ),
    ("gat 0 a zz\r\n", "VALUE a 7 3\r\none\r\nEND\r\n"),
    ("set gone 0 -1 1\r\nx\r\nget gone\r\n", "STORED\r\nEND\r\n"),
    (
        "delete a\r\ndelete a\r\ndelete b 0\r\ndelete b 5\r\n",
        "DELETED\r\nNOT_FOUND\r\nDELETED\r\nCLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
    ),
    ("nonsense\r\n\r\nget\r\n", "ERROR\r\nERROR\r\nERROR\r\n"),
    // Invalidated: served on, and one reader is told to make it anew.
    (
        "ms st 1 T100\r\na\r\nmd st I T30 q\r\nmg st v\r\nmg st v\r\nmg st\r\nget st\r\n",
        "HD\r\nVA 1 X W\r\na\r\nVA 1 Z X\r\na\r\nHD Z X\r\nVALUE st 0 1\r\na\r\nEND\r\n",
    ),
    (
        "md st I\r\nmg st t\r\nms st 1\r\nb\r\nmg st v\r\n",
        "HD\r\nHD t30 X W\r\nHD\r\nVA 1\r\nb\r\n",
    ),
    (
        "md zz I\r\nmd st I C1\r\nmd st I T-1\r\nmg st\r\n",
        "NF\r\nEX\r\nHD\r\nEN\r\n",
    ),
    // Made by a miss: the first reader wins.
    (
        "mg new N30 t v\r\nmg new v s\r\nms new 2 T90\r\nok\r\nmg new v\r\nmg nw N-1\r\nmg nw\r\n",
        "VA 0 t30 W\r\n\r\nVA 0 s0 Z\r\n\r\nHD\r\nVA 2\r\nok\r\nHD W\r\nEN\r\n",
    ),
    // Nearly over: the first reader wins.
    (
        "mg new R30\r\nmg new R100 t\r\nmg new R100\r\nms new 1 T10\r\nx\r\nmg new T60 R30\r\n",
        "HD\r\nHD t90 W\r\nHD Z\r\nHD\r\nHD\r\n",
    ),
    (
        "ms new 1 T10\r\nx\r\nmg new R30 T60\r\nms new 1\r\nx\r\nmg new R30\r\nmg new Rx\r\n",
        "HD\r\nHD W\r\nHD\r\nHD\r\nCLIENT_ERROR bad token in command line format\r\n",
    ),
    // Older than what is there: stored, and stale from the start.
    (
        "ms old 1 C1 I\r\nx\r\nms old 1\r\na\r\nms old 2 C1\r\nbb\r\nms old 2 C1 I T50\r\nbb\r\nmg old v t\r\nmg old\r\n",
        "NF\r\nHD\r\nEX\r\nHD\r\nVA 2 t-1 X W\r\nbb\r\nHD Z X\r\n",
    ),
    (
        "ms cnt 1\r\n5\r\nmd cnt I\r\nma cnt v\r\nmg cnt v\r\nmd cnt I\r\nms cnt 1 MA\r\n0\r\nmg cnt v\r\n",
        "HD\r\nHD\r\nVA 1\r\n6\r\nVA 1 X W\r\n6\r\nHD\r\nHD\r\nVA 2\r\n60\r\n",
    ),
    ("ms k 3 F5 T0 k Oq1\r\nabc\r\n", "HD kk Oq1\r\n"),
    ("mg k v f s t k O9\r\n", "VA 3 f5 s3 t-1 kk O9\r\nabc\r\n"),
    (
        "mg k\r\nmg zz v\r\nmg zz q v\r\nmg k x\r\n",
        "HD\r\nEN\r\nCLIENT_ERROR invalid flag\r\n",
    ),
    (
        "ms k 1 ME\r\nz\r\nms k 1 MA\r\nd\r\nms k 1 MP\r\n_\r\nmg k v\r\n",
        "NS\r\nHD\r\nHD\r\nVA 5\r\n_abcd\r\n",
    ),
    (
        "ms k 1 C1\r\nz\r\nmd k C1\r\nmd k q\r\nmd k q\r\nmd k\r\n",
        "EX\r\nEX\r\nNF\r\nNF\r\n",
    ),
    (
        "ma c\r\nma c N0 J5 v\r\nma c D3 v\r\nma c MD D100 v t\r\n",
        "NF\r\nVA 1\r\n5\r\nVA 1\r\n8\r\nVA 1 t-1\r\n0\r\n",
    ),
    (
        "ms Zm9v 3 b\r\nbar\r\nget foo\r\nmg Zm9v b k v\r\n",
        "HD\r\nVALUE foo 0 3\r\nbar\r\nEND\r\nVA 3 kZm9v b\r\nbar\r\n",
    ),
    (
        "ms s1 1\r\na\r\nms s2 1\r\nb\r\nms s3 1\r\nc\r\nmr s1 s3 v\r\n",
        "HD\r\nHD\r\nHD\r\nVA 1 ks1\r\na\r\nVA 1 ks2\r\nb\r\nEN\r\n",
    ),
    (
        "mr s - p r l2\r\nmr - - l0\r\n",
        "HD ks3\r\nHD ks2\r\nEN\r\nEN\r\n",
    ),
    (
        "verbosity 1\r\nflush_all x\r\nflush_all\r\nget s1\r\n",
        "OK\r\nCLIENT_ERROR invalid exptime argument\r\nOK\r\nEND\r\n",
    ),
];

#[test]
fn exchanges_are_as_documented() {
    let server = start();
    let mut stream = connect(&server);
    for (request, expected) in EXCHANGES {
        let answer = ask(&mut stream, request.as_bytes());

        assert_eq!(answer, *expected, "{request:?}");
    }
    let long = "k".repeat(251);
    assert!(ask(&mut stream, format!("get {long}\r\n").as_bytes()).starts_with("CLIENT_ERROR"));
    assert!(ask(&mut stream, b"version\r\n").starts_with("VERSION "));
    assert!(ask(&mut stream, b"stats\r\n").ends_with("END\r\n"));
    let cas = ask(&mut stream, b"set u 0 0 1\r\n1\r\ngets u\r\n");
    let cas = cas.split_whitespace().nth(5).unwrap().to_owned();
    let swap = format!("cas u 0 0 1 {cas}\r\n2\r\ncas u 0 0 1 {cas}\r\n3\r\nget u\r\n");
    assert_eq!(
        ask(&mut stream, swap.as_bytes()),
        "STORED\r\nEXISTS\r\nVALUE u 0 1\r\n2\r\nEND\r\n"
    );
    stream.write_all(b"quit\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn requests_may_arrive_in_any_pieces() {
    let server = start();
    let request = b"set a 7 0 5\r\nv\r\nlu\r\nget a\r\nms m 2 k\r\nxy\r\nmg m v\r\nset big 0 0 3 noreply\r\nabc\r\nget big\r\n";
    let whole = ask(&mut connect(&server), request);
    for cut in 1..request.len() {
        let mut stream = connect(&server);
        stream.write_all(&request[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(ask(&mut stream, &request[cut..]), whole, "cut at {cut}");
    }
    let mut stream = connect(&server);
    request
        .iter()
        .for_each(|byte| stream.write_all(&[*byte]).unwrap());
    assert_eq!(ask(&mut stream, b""), whole);
}

#[test]
fn what_is_malformed_gets_an_error_and_harms_nobody() {
    let server = start();
    let mut stream = connect(&server);
    assert_eq!(
        ask(&mut stream, b"set a 0 0 2\r\nabc\r\n"),
        "CLIENT_ERROR bad data chunk\r\n"
    );
    assert!(ask(&mut stream, b"set a 0 0 -1\r\n").starts_with("CLIENT_ERROR"));
    assert!(ask(&mut stream, b"set a 0 0 99999999999999999999\r\n").starts_with("CLIENT_ERROR"));
    assert_eq!(ask(&mut stream, b"get a\r\n"), "END\r\n");
    // A line without an end is cut off, and its connection closed.
    let mut endless = connect(&server);
    let _ = endless.write_all(&vec![b'x'; 200 << 10]);
    let mut answer = Vec::new();
    let _ = endless.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"CLIENT_ERROR line too long"));
    assert_eq!(ask(&mut stream, b"get a\r\n"), "END\r\n");
}

#[test]
fn memccapable_is_content() {
    let server = start();
    let address = server.server.addresses().memcached.unwrap();
    let port = address.port().to_string();
    match Command::new("memccapable")
        .args(["-a", "-h", "127.0.0.1", "-p", &port])
        .output()
    {
        Err(error) => println!("skipped: memccapable cannot be run ({error})"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && !text.contains("FAIL"), "{text}");
        }
    }
}
