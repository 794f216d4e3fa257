//! The memcached protocol over real sockets: exchanges, requests cut anywhere, real clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Client, Started, TIMEOUT, Value, bulk, monitoring, one_worker};
use hedgerow_server::ServerOptions;

pub(crate) fn start() -> Started {
    let loopback = "127.0.0.1:0".parse().ok();
    Started::new(ServerOptions {
        memcached: loopback,
        workers: 1,
        ..ServerOptions::default()
    })
}

pub(crate) fn connect(server: &Started) -> TcpStream {
    let stream = TcpStream::connect(server.server.addresses().memcached.unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends bytes and reads until the answer to a final `mn` is there; returns what came before it.
pub(crate) fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
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
        "STORED\r\n15\r\n0\r\nNOT_FOUND\r\nCLIENT_ERROR cannot increment or decrement non-numeric \
         value\r\nCLIENT_ERROR invalid numeric delta argument\r\n",
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
        "DELETED\r\nNOT_FOUND\r\nDELETED\r\nCLIENT_ERROR bad command line format.  Usage: delete \
         <key> [noreply]\r\n",
    ),
    ("nonsense\r\n\r\nget\r\n", "ERROR\r\nERROR\r\nERROR\r\n"),
    // Who wants no reply gets none, of whatever kind.
    (
        "delete zz 5 noreply\r\ntouch zz x noreply\r\nincr zz x noreply\r\nset zz x 0 1 \
         noreply\r\na\r\nflush_all x noreply\r\n",
        "",
    ),
    (
        "set z0 0 0 1\r\na\r\ndelete z0 0 noreply\r\nget z0\r\n",
        "STORED\r\nEND\r\n",
    ),
    // What is stored by appending is as long as all of it; a miss of a compared item is NF.
    (
        "ms ap 2 s\r\nab\r\nms ap 3 MA s\r\ncde\r\nms ap 1 MP s c\r\n_\r\nms zz 1 MA\r\nx\r\nms \
         zz 1 MA C5\r\nx\r\nms zz 1 C5\r\nx\r\nms zz 1 MR C5\r\nx\r\n",
        "HD s2\r\nHD s5\r\nHD s6 c\r\nNS\r\nNS\r\nNF\r\nNF\r\n",
    ),
    // What appending makes has the time of `N`, also where there is a `T`.
    (
        "ms nt 1 MA N30 T60\r\nx\r\nmg nt t v\r\nms nt 1 MA N50 T60\r\ny\r\nmg nt t v\r\n",
        "HD\r\nVA 1 t30\r\nx\r\nHD\r\nVA 2 t30\r\nxy\r\n",
    ),
    // Chosen cas values, compared, and kept until the next change.
    (
        "ms e 2 E973\r\nab\r\nmg e c v\r\ngets e\r\nmg e v C973\r\nmg e v C974\r\nms e 1 \
         C972\r\nx\r\nms e 1 c C973 E5\r\nx\r\nmd e C5 E6 I\r\nmg e c\r\nmd e C6\r\n",
        "HD\r\nVA 2 c973\r\nab\r\nVALUE e 0 2 973\r\nab\r\nEND\r\nHD\r\nVA 2\r\nab\r\nEX\r\nHD \
         c5\r\nHD\r\nHD c6 X W\r\nHD\r\n",
    ),
    (
        "ma en N0 J5 E11 c v\r\nma en C11 E12 c v\r\nmg viv N30 E77 c s\r\nmg viv E5 c s\r\n",
        "VA 1 c11\r\n5\r\nVA 1 c12\r\n6\r\nHD c77 s0 W\r\nHD c77 s0 Z\r\n",
    ),
    // Who only touches an item, or wins it, leaves its cas value as it is.
    (
        "ms keep 1 E9\r\na\r\ngat 100 keep\r\ntouch keep 200\r\nmg keep T50 c\r\nmd keep I \
         E8\r\nmg keep c\r\ngats 0 keep\r\n",
        "HD\r\nVALUE keep 0 1\r\na\r\nEND\r\nTOUCHED\r\nHD c9\r\nHD\r\nHD c8 X W\r\nVALUE keep 0 \
         1 8\r\na\r\nEND\r\n",
    ),
    // The value goes and the item stays; misses return what was sent with them.
    (
        "ms tomb 3 F7\r\nabc\r\nmd tomb x F9\r\nmg tomb v f t\r\nmd tomb x I T60\r\nmg tomb s t f \
         u\r\nmg zz k Oabc s\r\nmg zz q k\r\nmd zz k O1\r\n",
        "HD\r\nHD\r\nVA 0 f9 t-1\r\n\r\nHD\r\nHD s0 t60 f0 X W\r\nEN kzz Oabc\r\nNF kzz O1\r\n",
    ),
    (
        "mg k O123456789012345678901234567890123\r\nmg k E\r\nms k 1 Fx\r\na\r\n",
        "CLIENT_ERROR opaque token too long\r\nCLIENT_ERROR bad token in command line \
         format\r\nCLIENT_ERROR bad command line format\r\n",
    ),
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
        "ms old 1 C1 I\r\nx\r\nms old 1\r\na\r\nms old 2 C1\r\nbb\r\nms old 2 C1 I \
         T50\r\nbb\r\nmg old v t\r\nmg old\r\n",
        "NF\r\nHD\r\nEX\r\nHD\r\nVA 2 t-1 X W\r\nbb\r\nHD Z X\r\n",
    ),
    (
        "ms cnt 1\r\n5\r\nmd cnt I\r\nma cnt v\r\nmg cnt v\r\nmd cnt I\r\nms cnt 1 MA\r\n0\r\nmg \
         cnt v\r\n",
        "HD\r\nHD\r\nVA 1\r\n6\r\nVA 1 X W\r\n6\r\nHD\r\nHD\r\nVA 2\r\n60\r\n",
    ),
    ("ms k 3 F5 T0 k Oq1\r\nabc\r\n", "HD kk Oq1\r\n"),
    ("mg k v f s t k O9\r\n", "VA 3 f5 s3 t-1 kk O9\r\nabc\r\n"),
    (
        "mg k h\r\nmg zz v\r\nmg zz q v\r\nmg k y\r\n",
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
        "verbosity 1\r\nverbosity x\r\nflush_all x\r\nflush_all\r\nget s1\r\n",
        "OK\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid exptime \
         argument\r\nOK\r\nEND\r\n",
    ),
    // Commands that do not take `noreply` say so.
    (
        "version noreply\r\nstats noreply\r\nquit noreply\r\nverbosity 1 noreply\r\n",
        "ERROR\r\nERROR\r\nERROR\r\n",
    ),
];

#[test]
fn exchanges_are_as_documented() {
    let server = start();
    let mut stream = connect(&server);
    let mut wrong = Vec::new();
    for (request, expected) in EXCHANGES {
        let answer = ask(&mut stream, request.as_bytes());
        // Cas values that nobody chose are large, and differ.
        let large = |word: &str| word.len() > 8 && word.starts_with('c');
        let words = answer.split(' ').map(|word| {
            let (word, end) = word.split_at(word.find('\r').unwrap_or(word.len()));
            let word = if large(word) { "c" } else { word };
            format!("{word}{end}")
        });
        let answer = words.collect::<Vec<String>>().join(" ");
        if answer != *expected {
            wrong.push(format!(
                "{request:?}\n  got      {answer:?}\n  expected {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let request = b"set a 7 0 5\r\nv\r\nlu\r\nget a\r\nms m 2 k\r\nxy\r\nmg m v\r\nset big 0 0 3 \
        noreply\r\nabc\r\nget big\r\n";
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
    // With a length that cannot be, what follows would be taken for commands: the connection ends.
    for line in [
        "set a 0 0 -1",
        "set a 0 0 99999999999999999999",
        "set a 0 0 2147483646",
        "set a 0 0 x",
        "cas a 0 0 4294967296 1",
        "ms a -1",
        "ms a 18446744073709551615",
        "\u{80}",
    ] {
        let mut hostile = connect(&server);
        let bytes = line.replace('\u{80}', "");
        let bytes = if bytes.is_empty() {
            vec![0x80; 24]
        } else {
            bytes.into_bytes()
        };
        hostile
            .write_all(&[&bytes, &b"\r\nset a 0 0 6\r\nstored\r\n"[..]].concat())
            .unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is fine: not all that was sent was read.
        let _ = hostile.read_to_end(&mut answer);
        assert!(
            answer.starts_with(b"CLIENT_ERROR "),
            "{line}: {}",
            answer.escape_ascii()
        );
        assert!(!answer.ends_with(b"STORED\r\n"), "{line}");
    }
    // Longer than the server takes, but of a length that can be: the data is passed over.
    let small = Started::new(ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        max_bulk_bytes: 100,
        workers: 1,
        ..ServerOptions::default()
    });
    let request = [b"set a 0 0 2000\r\n", vec![b'\n'; 2000].as_slice(), b"\r\n"].concat();
    assert_eq!(
        ask(&mut connect(&small), &request),
        "SERVER_ERROR object too large for cache\r\n"
    );
    assert_eq!(ask(&mut stream, b"get a\r\n"), "END\r\n");
    // A line without an end is cut off, and its connection closed.
    let mut endless = connect(&server);
    let _ = endless.write_all(&vec![b'x'; 600 << 10]);
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

#[test]
fn the_longest_line_is_the_same_however_it_arrives() {
    let server = start();
    // A thousand keys of the greatest length, in one line of 251 KiB.
    let key = |i: usize| format!("{i:0250}");
    let mut line = "get".to_owned();
    (0..1000).for_each(|i| line += &format!(" {}", key(i)));
    let mut stream = connect(&server);
    let set = format!("set {} 0 0 1\r\nx\r\n", key(999));
    assert_eq!(ask(&mut stream, set.as_bytes()), "STORED\r\n");
    let found = ask(&mut stream, format!("{line}\r\n").as_bytes());
    assert_eq!(found, format!("VALUE {} 0 1\r\nx\r\nEND\r\n", key(999)));
    // One byte more than a line may have, its end included: refused with and without its end.
    let longest = 256 << 10;
    let fits = format!("get a{}\r\n", " ".repeat(longest - 7));
    assert_eq!(ask(&mut stream, fits.as_bytes()), "END\r\n");
    for end in ["\r\n", ""] {
        let mut stream = connect(&server);
        let long = format!("mn{}{end}", " ".repeat(longest + 1 - 2 - end.len()));
        let _ = stream.write_all(long.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.starts_with(b"CLIENT_ERROR line too long"),
            "{}",
            answer.escape_ascii()
        );
    }
}

#[test]
fn a_flush_with_a_delay_removes_what_is_there_when_it_is_due() {
    let server = start();
    let mut stream = connect(&server);
    assert_eq!(
        ask(
            &mut stream,
            b"set a 0 0 1\r\nx\r\nflush_all 86400\r\nget a\r\n"
        ),
        "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    // The later request counts; what is stored before it is due goes too.
    assert_eq!(
        ask(&mut stream, b"flush_all 1\r\nset b 0 0 1\r\ny\r\n"),
        "OK\r\nSTORED\r\n"
    );
    while ask(&mut stream, b"get a b\r\n") != "END\r\n" {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        ask(
            &mut stream,
            b"set a 0 0 1\r\nx\r\nflush_all 0\r\nget a\r\nflush_all -5 noreply\r\n"
        ),
        "STORED\r\nOK\r\nEND\r\n"
    );
}

/// Workers look for a flush that is due every second: time for two looks.
const LOOKS_FOR_A_FLUSH: Duration = Duration::from_millis(2_500);

#[test]
fn a_flush_that_comes_due_during_a_pause_waits_for_its_end() {
    let server = start();
    let (mut stream, mut pauser) = (connect(&server), server.client());
    // On a slow machine the flush may come before the pause: then once more.
    let is_paused_in_time = |stream: &mut TcpStream, pauser: &mut Client| {
        pauser.run("CLIENT UNPAUSE");
        ask(stream, b"set a 0 0 1\r\nx\r\nflush_all 1\r\n");
        pauser.run("CLIENT PAUSE 3600000 WRITE");
        ask(stream, b"get a\r\n") != "END\r\n"
    };
    while !is_paused_in_time(&mut stream, &mut pauser) {}
    let began = Instant::now();
    while began.elapsed() < LOOKS_FOR_A_FLUSH {
        assert_eq!(
            ask(&mut stream, b"get a\r\n"),
            "VALUE a 0 1\r\nx\r\nEND\r\n",
            "flushed during the pause"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    pauser.run("CLIENT UNPAUSE");
    crate::support::eventually(|| (ask(&mut stream, b"get a\r\n") == "END\r\n").then_some(()));
}

#[test]
fn what_is_stored_once_a_flush_is_due_stays() {
    let server = start();
    let mut stream = connect(&server);
    ask(&mut stream, b"set a 0 0 1\r\nx\r\nflush_all 1\r\n");
    // The server read its clock before this.
    let due = Instant::now() + Duration::from_millis(1_050);
    while Instant::now() < due {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        ask(&mut stream, b"set b 0 0 1\r\ny\r\nget a\r\n"),
        "STORED\r\nEND\r\n"
    );
    let stored = Instant::now();
    while stored.elapsed() < LOOKS_FOR_A_FLUSH {
        assert_eq!(
            ask(&mut stream, b"get b\r\n"),
            "VALUE b 0 1\r\ny\r\nEND\r\n"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whatever a memcached client sends that may change something.
const WRITES: &[(&str, &str)] = &[
    ("set a 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("set a 0 0 1 noreply\r\n1\r\n", ""),
    ("add n 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("replace a 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("append a 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("prepend a 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("cas none 0 0 1 1\r\n1\r\n", "NOT_FOUND\r\n"),
    ("incr a 1\r\n", "2\r\n"),
    ("decr a 1\r\n", "0\r\n"),
    ("touch a 0\r\n", "TOUCHED\r\n"),
    ("gat 0 a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
    ("gats 0 none\r\n", "END\r\n"),
    ("delete a\r\n", "DELETED\r\n"),
    ("flush_all\r\n", "OK\r\n"),
    ("ms a 1\r\n1\r\n", "HD\r\n"),
    ("md a\r\n", "HD\r\n"),
    ("ma a\r\n", "HD\r\n"),
    ("mg a v T0\r\n", "VA 1\r\n1\r\n"),
    ("mg none N0\r\n", "HD W\r\n"),
    ("mg a R30\r\n", "HD\r\n"),
];

/// Whatever changes nothing.
const READS: &[(&str, &str)] = &[
    ("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
    (
        "get a none a\r\n",
        "VALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nEND\r\n",
    ),
    ("gets none\r\n", "END\r\n"),
    ("mg a v t\r\n", "VA 1 t-1\r\n1\r\n"),
    ("me none\r\n", "EN\r\n"),
    ("mr a b v\r\n", "VA 1 ka\r\n1\r\nEN\r\n"),
    ("verbosity 1\r\n", "OK\r\n"),
    ("nonsense\r\n", "ERROR\r\n"),
];

/// How many requests of a server's clients have run.
fn requests(server: &Started) -> u64 {
    let mut client = server.client();
    let text = match client.run("INFO stats") {
        crate::support::Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let name = "total_commands_processed:";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_value_that_is_too_large_is_passed_over_also_behind_a_pause() {
    let server = Started::new(ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        max_bulk_bytes: 1000,
        ..one_worker()
    });
    let mut pauser = server.client();
    pauser.run("CLIENT PAUSE 3600000 WRITE");
    let mut writer = connect(&server);
    let data = "set b 0 0 1\r\n!\r\n".repeat(100);
    let set = format!("mn\r\nset a 0 0 {}\r\n{data}\r\n", data.len());
    writer.write_all(set.as_bytes()).unwrap();
    // The worker has taken the request before it answers what came with it.
    let mut first = [0; 4];
    writer.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"MN\r\n");
    pauser.run("CLIENT UNPAUSE");
    assert_eq!(
        ask(&mut writer, b"get b\r\n"),
        "SERVER_ERROR object too large for cache\r\nEND\r\n"
    );
}

#[test]
fn a_pause_holds_no_request_that_has_begun_to_be_answered() {
    let server = start();
    let mut resp = server.client();
    resp.call(&[b"SET", b"a", &vec![b'v'; 1 << 20]]);
    let mut reader = connect(&server);
    let gat = format!("gat 0{}\r\n", " a".repeat(200));
    reader.write_all(gat.as_bytes()).unwrap();
    // More than sockets hold: most of it is still to be looked up.
    let mut first = [0; 8];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"VALUE a ");
    resp.run("CLIENT PAUSE 3600000 WRITE");
    let values = ask(&mut reader, b"");
    assert_eq!(values.matches("VALUE a ").count(), 199);
    assert!(values.ends_with("END\r\n"));
}

#[test]
fn a_pause_of_writes_holds_those_of_memcached_clients() {
    for &(write, reply) in WRITES {
        let server = start();
        let mut pauser = server.client();
        assert_eq!(
            ask(&mut connect(&server), b"set a 0 0 1\r\n1\r\n"),
            "STORED\r\n"
        );
        pauser.run("CLIENT PAUSE 3600000 WRITE");
        for &(read, expected) in READS {
            assert_eq!(
                ask(&mut connect(&server), read.as_bytes()),
                expected,
                "{read}"
            );
        }
        let mut writer = connect(&server);
        writer
            .write_all(format!("mn\r\n{write}").as_bytes())
            .unwrap();
        // The worker has taken the request before it answers what came with it.
        let mut first = [0; 4];
        writer.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"MN\r\n");
        for _ in 0..3 {
            assert_eq!(
                ask(&mut connect(&server), b"get a\r\n"),
                "VALUE a 0 1\r\n1\r\nEND\r\n",
                "{write} ran during the pause"
            );
        }
        pauser.run("PING");
        let before = requests(&server);
        let after = requests(&server);
        // Each such look is one request, and nothing else runs.
        assert_eq!(after - before, 1, "{write}");
        writer.set_nonblocking(true).unwrap();
        let answered = writer.read(&mut [0; 64]);
        assert!(answered.is_err(), "{write} was answered during the pause");
        writer.set_nonblocking(false).unwrap();
        pauser.run("CLIENT UNPAUSE");
        assert_eq!(ask(&mut writer, b""), reply, "{write}");
    }
}

#[test]
fn a_pause_of_everything_holds_reads_of_memcached_clients() {
    let server = Started::new(monitoring::options());
    assert_eq!(
        ask(&mut connect(&server), b"set a 0 0 1\r\n1\r\n"),
        "STORED\r\n"
    );
    let mut reader = connect(&server);
    assert_eq!(ask(&mut reader, b""), "");
    assert_eq!(
        server.client().run("CLIENT PAUSE 3600000 ALL"),
        crate::support::ok()
    );
    let received = || {
        let families = monitoring::parse(&monitoring::metrics(&server));
        let name = "hedgerow_received_bytes_total";
        families[name].samples[&(name.to_owned(), String::new())]
    };
    let before = received();
    reader.write_all(b"get a\r\n").unwrap();
    // Counted behind the replies of the tick that took the request.
    crate::support::eventually(|| (received() >= before + 7.0).then_some(()));
    reader.set_nonblocking(true).unwrap();
    let answered = reader.read(&mut [0; 64]);
    assert!(answered.is_err(), "answered during the pause");
}

#[test]
fn nobody_wins_a_stale_item_while_writes_are_paused() {
    let server = start();
    let mut client = connect(&server);
    assert_eq!(
        ask(&mut client, b"ms a 1\r\n1\r\nmd a I\r\n"),
        "HD\r\nHD\r\n"
    );
    let mut pauser = server.client();
    pauser.run("CLIENT PAUSE 3600000 WRITE");
    assert_eq!(ask(&mut client, b"mg a v\r\n"), "VA 1 Z X\r\n1\r\n");
    pauser.run("CLIENT UNPAUSE");
    assert_eq!(ask(&mut client, b"mg a v\r\n"), "VA 1 X W\r\n1\r\n");
    assert_eq!(ask(&mut client, b"mg a v\r\n"), "VA 1 Z X\r\n1\r\n");
}

#[test]
fn a_row_with_columns_is_not_lost_by_what_keeps_items() {
    let started = start();
    let mut memcached = connect(&started);
    let mut client = started.client();
    client.run("HSET hash f 1");
    for line in ["md hash I\r\n", "md hash x\r\n", "md hash I T30\r\n"] {
        memcached.write_all(line.as_bytes()).unwrap();
        let mut reply = [0; 4];
        memcached.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"NF\r\n", "{line}");
        assert_eq!(client.run("HGET hash f"), bulk("1"), "{line}");
    }
    assert_eq!(ask(&mut memcached, b"delete hash\r\n"), "DELETED\r\n");
    assert_eq!(client.run("EXISTS hash"), Value::Integer(0));
}
