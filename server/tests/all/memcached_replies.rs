//! Replies of the memcached protocol where requests are wrong, or ask for something rare: those of
//! memcached 1.6, and lines that a client can always take apart.

use std::io::{Read, Write};

use crate::memcached::{ask, connect, start};
use crate::support::{Started, Value, bulk};
use crate::tested::KEY_BYTES;
use hedgerow_server::ServerOptions;

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
        let is_refused = matches!(client.call(&[b"SET", key, b"v"]), Value::Error(_));
        assert_eq!(is_refused, !KEY_BYTES.contains(&key.len()));
    }
    let empty = match KEY_BYTES.contains(&0) {
        true => "HD k b s1 Oq\r\n",
        false => "",
    };
    let scan = ask(&mut connect(&server), b"mr - - s Oq\r\n");
    assert_eq!(
        scan.strip_prefix(empty).unwrap(),
        "HD kYQ0KRU4= b s1 Oq\r\nHD kYSBi b s1 Oq\r\nHD ka-b s1 Oq\r\n\
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

#[test]
fn a_scan_goes_on_behind_keys_of_any_length() {
    let server = start();
    let mut client = server.client();
    let long = |first: u8, length: usize| {
        let mut key = vec![first];
        key.resize(length, b'x');
        String::from_utf8(key).unwrap()
    };
    let keys = [
        long(b'a', 190),
        long(b'b', 251),
        long(b'c', *KEY_BYTES.end()),
    ];
    for key in &keys {
        client.call(&[b"SET", key.as_bytes(), b"v"]);
    }
    let mut stream = connect(&server);
    for pair in keys.windows(2) {
        // The key and one byte more is right behind it.
        let page = ask(&mut stream, format!("mr {}! - l1\r\n", pair[0]).as_bytes());
        assert_eq!(page, format!("HD k{}\r\nEN\r\n", pair[1]));
        let before = ask(&mut stream, format!("mr - {} r l1\r\n", pair[1]).as_bytes());
        assert_eq!(before, format!("HD k{}\r\nEN\r\n", pair[0]));
    }
    let encoded = ask(&mut stream, b"mr - - b\r\n");
    for line in encoded.lines().filter(|line| line.starts_with("HD k")) {
        let word = line.split(' ').nth(1).unwrap();
        let again = format!("mr {} - b l1\r\n", &word[1..]);
        assert_eq!(
            ask(&mut stream, again.as_bytes()),
            format!("{line}\r\nEN\r\n")
        );
    }
    assert_eq!(encoded.lines().count(), 4);
    // Bounds are any words; what is no base64 is refused.
    compare(
        &server,
        &[
            ("mr a\x01 - l0\r\n", "EN\r\n"),
            ("mr a! - b\r\n", "CLIENT_ERROR error decoding key\r\n"),
            ("mr a\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ],
    );
    // Beyond the longest key of the engine.
    let beyond = format!("mr {}! - l1\r\nmr - {}! r l1\r\n", keys[2], keys[2]);
    assert_eq!(
        ask(&mut stream, beyond.as_bytes()),
        format!("EN\r\nHD k{}\r\nEN\r\n", keys[2])
    );
}

#[test]
fn a_bad_data_chunk_is_answered_unless_noreply_is_wanted() {
    compare(
        &start(),
        &[
            (
                "set k 0 0 3\r\nabcd\r\nget k\r\n",
                "CLIENT_ERROR bad data chunk\r\nEND\r\n",
            ),
            ("set k 0 0 3 noreply\r\nabcd\r\nget k\r\n", "END\r\n"),
            ("cas k 0 0 3 1 noreply\r\nabcd\r\nget k\r\n", "END\r\n"),
            (
                "ms k 3 q\r\nabcd\r\nms noreply 1\r\nab\r\nmg k\r\n",
                "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad data chunk\r\nEN\r\n",
            ),
        ],
    );
}

#[test]
fn flags_of_expiry_take_effect_in_their_order() {
    compare(
        &start(),
        &[
            (
                "ma c N0 T50 t v\r\nma c t T60\r\nmg c t\r\nma c T70 t\r\n",
                "VA 1 t50\r\n0\r\nHD t50\r\nHD t60\r\nHD t70\r\n",
            ),
            ("ma d T50 N0 t\r\nmg d t\r\n", "HD t-1\r\nHD t-1\r\n"),
            ("ma e t N30\r\nmg e t\r\n", "HD t-1\r\nHD t30\r\n"),
            ("mg f N30 T50 t\r\nmg f t\r\n", "HD t50 W\r\nHD t50 Z\r\n"),
            ("mg g N0 T50 t\r\nmg g t\r\n", "HD t50 W\r\nHD t50 Z\r\n"),
            ("mg h T50 N0 t\r\nmg h t\r\n", "HD t-1 W\r\nHD t-1 Z\r\n"),
            ("mg i t N30\r\nmg i t\r\n", "HD t-1 W\r\nHD t30 Z\r\n"),
            (
                "ms w 1 T10\r\nx\r\nmg w t T30\r\nmg w T40 t\r\nmg w t\r\n",
                "HD\r\nHD t10\r\nHD t40\r\nHD t40\r\n",
            ),
            // An item that is there is not made: N leaves its expiry.
            ("mg w T30 N50 t\r\nmg w t\r\n", "HD t30\r\nHD t30\r\n"),
            (
                "ms x 1 T10\r\nx\r\nmg x R30 T60 t\r\nms x 1 T10\r\nx\r\nmg x t T60 R30\r\n",
                "HD\r\nHD t60 W\r\nHD\r\nHD t10\r\n",
            ),
            ("mg j N30 T-1\r\nmg j\r\n", "HD W\r\nEN\r\n"),
            ("ma k N30 T-1 v\r\nmg k\r\n", "VA 1\r\n0\r\nEN\r\n"),
            (
                "ms l 1\r\n5\r\nma l T-1 v\r\nmg l\r\n",
                "HD\r\nVA 1\r\n6\r\nEN\r\n",
            ),
        ],
    );
}

#[test]
fn a_quiet_get_tells_of_an_item_that_it_made_and_quiet_arithmetic_does_not() {
    compare(
        &start(),
        &[
            ("ma n N0 q\r\nma n q v\r\nma n v\r\n", "VA 1\r\n2\r\n"),
            ("mg v N30 q k\r\nmg v q\r\n", "HD kv W\r\nHD Z\r\n"),
        ],
    );
}

const ERROR: &str = "ERROR\r\n";
const USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";

#[test]
fn seconds_that_have_begun_are_left() {
    compare(
        &start(),
        &[
            (
                "ms r 1 T30 E9\r\nx\r\nmg r R30 t\r\nme r\r\n",
                "HD\r\nHD t30\r\nME r exp=30 cas=9 size=1\r\n",
            ),
            ("mg r R31\r\nmg r R31\r\n", "HD W\r\nHD Z\r\n"),
        ],
    );
}

#[test]
fn blanks_around_a_stored_number_and_zeros_before_it_do_not_count() {
    const NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    let padded = format!("{}7", "0".repeat(29));
    let zero = "0".repeat(25);
    compare(
        &start(),
        &[
            ("set n 0 0 3\r\n  5\r\nincr n 1\r\n", "STORED\r\n6\r\n"),
            ("set n 0 0 6\r\n\t\n +8 \r\ndecr n 1\r\n", "STORED\r\n7\r\n"),
            (
                &format!("set n 0 0 30\r\n{padded}\r\nincr n 1\r\nma n v\r\n"),
                "STORED\r\n8\r\nVA 1\r\n9\r\n",
            ),
            (
                &format!("set n 0 0 25\r\n{zero}\r\nma n v\r\n"),
                "STORED\r\nVA 1\r\n1\r\n",
            ),
            // What is behind the blank or zero byte that ends it counts as little.
            (
                "set n 0 0 4\r\n 5 x\r\nincr n 1\r\nset n 0 0 3\r\n5\x0b1\r\nincr n 1\r\n",
                "STORED\r\n6\r\nSTORED\r\n6\r\n",
            ),
            (
                "set n 0 0 5\r\n5\x00abc\r\nincr n 1\r\nset n 0 0 3\r\n\x0b 5\r\nma n v\r\n",
                "STORED\r\n6\r\nSTORED\r\nVA 1\r\n6\r\n",
            ),
            // Other values are no numbers still.
            (
                "set n 0 0 2\r\n  \r\nincr n 1\r\nset n 0 0 2\r\n0x\r\nincr n 1\r\n",
                &format!("STORED\r\n{NUMBER}STORED\r\n{NUMBER}"),
            ),
            (
                "set n 0 0 21\r\n100000000000000000000\r\nincr n 1\r\n",
                &format!("STORED\r\n{NUMBER}"),
            ),
            (
                &format!("incr n {padded}\r\n"),
                "CLIENT_ERROR invalid numeric delta argument\r\n",
            ),
        ],
    );
}

#[test]
fn a_cas_value_of_zero_compares_nothing_where_memcached_takes_it_for_none() {
    compare(
        &start(),
        &[
            (
                "ms k 1 E7\r\nb\r\nms k 1 MA C0\r\nc\r\nms k 1 MP C0\r\na\r\nmg k v\r\n",
                "HD\r\nHD\r\nHD\r\nVA 3\r\nabc\r\n",
            ),
            ("ms k 1 MA C1\r\nx\r\nms k 1 MP C1\r\nx\r\n", "EX\r\nEX\r\n"),
            (
                "ms k 1 C0 I\r\nx\r\nms k 1 MR C0 I\r\nx\r\nms k 1 C0\r\nx\r\nmg k v\r\n",
                "EX\r\nEX\r\nEX\r\nVA 3\r\nabc\r\n",
            ),
            (
                "ms n 1\r\n5\r\nma n C0 v\r\nma n C1\r\n",
                "HD\r\nVA 1\r\n6\r\nEX\r\n",
            ),
            ("cas n 0 0 1 0\r\nx\r\nmd n C0\r\n", "EXISTS\r\nEX\r\n"),
            (
                "ms zz 1 MA C0\r\nx\r\nms zz 1 C0\r\nx\r\nma zz C0\r\n",
                "NS\r\nNF\r\nNF\r\n",
            ),
        ],
    );
}

#[test]
fn a_value_that_is_stored_as_stale_keeps_the_time_of_the_item_before_it() {
    compare(
        &start(),
        &[
            (
                "ms s 2 E9\r\nab\r\nms s 1 C5 I T-1\r\nx\r\nmg s v t\r\n",
                "HD\r\nHD\r\nVA 1 t-1 X W\r\nx\r\n",
            ),
            (
                "ms s 2 T60 E9\r\nab\r\nms s 1 C5 I T-1\r\ny\r\nmg s v t\r\n",
                "HD\r\nHD\r\nVA 1 t60 X W\r\ny\r\n",
            ),
            // One that is not older goes at once.
            (
                "ms s 2 E9\r\nab\r\nms s 1 C9 I T-1\r\nx\r\nmg s v\r\n",
                "HD\r\nHD\r\nEN\r\n",
            ),
        ],
    );
}

#[test]
fn exptimes_have_32_bits() {
    let token = "CLIENT_ERROR bad token in command line format\r\n";
    let format = "CLIENT_ERROR bad command line format\r\n";
    compare(
        &start(),
        &[
            (
                "touch k 4294967296\r\ntouch k -2147483649\r\ngat 4294967296 k\r\n\
                 gats -9999999999 k\r\nflush_all 4294967296\r\n",
                &EXPTIME.repeat(5),
            ),
            (
                "ms k 1 T4294967296\r\nx\r\nmg k T-2147483649\r\nmg k N4294967296\r\n\
                 md k I T4294967296\r\nmg k R4294967296\r\n",
                &token.repeat(5),
            ),
            (
                "ma k N4294967296\r\n",
                "CLIENT_ERROR invalid or duplicate flag\r\n",
            ),
            // The data are no commands.
            (
                "set k 0 4294967296 4\r\nmn\r\n\r\nadd k 0 -2147483649 1\r\nx\r\n\
                 cas k 0 4294967296 1 5\r\nx\r\nget k\r\n",
                &format!("{}END\r\n", format.repeat(3)),
            ),
            ("set k 0 4294967296 1 noreply\r\nx\r\nget k\r\n", "END\r\n"),
            (
                "set k 0 4294967295 1\r\nx\r\ntouch k 4294967295\r\nget k\r\n",
                "STORED\r\nTOUCHED\r\nVALUE k 0 1\r\nx\r\nEND\r\n",
            ),
            (
                "set k 0 -2147483648 1\r\nx\r\nget k\r\n",
                "STORED\r\nEND\r\n",
            ),
        ],
    );
}

#[test]
fn arguments_of_flags_are_checked_whether_the_command_knows_them_or_not() {
    const TOKEN: &str = "CLIENT_ERROR bad token in command line format\r\n";
    const FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
    const DELTA: &str = "CLIENT_ERROR invalid numeric delta value\r\n";
    const INITIAL: &str = "CLIENT_ERROR invalid numeric initial value\r\n";
    const FLAG: &str = "CLIENT_ERROR invalid or duplicate flag\r\n";
    let long = format!("O{}", "1".repeat(32));
    compare(
        &start(),
        &[
            ("ms k 1\r\nx\r\n", "HD\r\n"),
            ("mg k Dx v\r\nms k 1 Dx\r\ny\r\n", &DELTA.repeat(2)),
            ("mg k Jx v\r\nms k 1 Jx\r\ny\r\n", &INITIAL.repeat(2)),
            (
                "mg k Fx\r\nms k 1 Fx\r\ny\r\nmd k F4294967296\r\n",
                &FORMAT.repeat(3),
            ),
            ("md k R\r\nms k 1 Rx\r\ny\r\nmd k Nx\r\n", &TOKEN.repeat(3)),
            // The last is told, unless a letter is none or stands twice.
            ("mg k Dx Tx\r\nmg k Tx Fx\r\n", &TOKEN.repeat(2)),
            ("mg k Tx Dx\r\nmg k Fx Dx\r\n", &DELTA.repeat(2)),
            (
                "mg k Tx y\r\nmg k Tx q q\r\n",
                "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR duplicate flag\r\n",
            ),
            (
                "ma k Dx\r\nma k Cx\r\nma k Rx\r\nma k q q\r\nma k y\r\nma !!! b\r\n",
                &FLAG.repeat(6),
            ),
            // Of an opaque token only if all else is right.
            (
                &format!("mg k {long} Tx\r\nmg k Tx {long}\r\n"),
                &TOKEN.repeat(2),
            ),
            (
                &format!("mg k {long} Fx\r\nmg k {long} y\r\nma k {long} Dx\r\n"),
                &format!("{FORMAT}CLIENT_ERROR invalid flag\r\n{FLAG}"),
            ),
            (
                &format!("mg k {long} v\r\nma k {long}\r\n"),
                &"CLIENT_ERROR opaque token too long\r\n".repeat(2),
            ),
            ("mg k v\r\n", "VA 1\r\nx\r\n"),
        ],
    );
}

/// Small letters are ours: memcached refuses them.
#[test]
fn the_first_letter_of_a_mode_says_it() {
    compare(
        &start(),
        &[
            (
                "ms k 1 MSet\r\n5\r\nma k Minc v\r\nma k MDec v\r\nms k 1 MAppend\r\n0\r\nmg k \
                 v\r\n",
                "HD\r\nVA 1\r\n6\r\nVA 1\r\n5\r\nHD\r\nVA 2\r\n50\r\n",
            ),
            (
                "ms k 1 M\r\nx\r\nms k 1 MX\r\nx\r\nma k M\r\nmg k v\r\n",
                "CLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR invalid mode for ms M \
                 token\r\nCLIENT_ERROR invalid mode for ma M token\r\nVA 2\r\n50\r\n",
            ),
        ],
    );
}

/// Requests of too many or too few words, and their replies.
const MISCOUNTED: &[(&str, &str)] = &[
    ("\r\n", ERROR),
    ("get\r\n", ERROR),
    ("gets\r\n", ERROR),
    ("gat\r\n", ERROR),
    ("gat 0\r\n", "END\r\n"),
    ("gats x\r\n", EXPTIME),
    ("incr n\r\n", ERROR),
    ("incr n 1 0 noreply\r\n", ERROR),
    ("decr n 1 noreply x\r\n", ERROR),
    ("touch n\r\n", ERROR),
    ("touch n 9 0 0\r\n", ERROR),
    ("touch n 9 0 noreply\r\n", ERROR),
    ("delete\r\n", ERROR),
    ("delete n 0 noreply x\r\n", ERROR),
    ("delete n noreply x\r\n", USAGE),
    ("delete n 0 0\r\n", USAGE),
    ("delete n noreply noreply\r\n", ""),
    // With two words, the second is the key.
    ("delete noreply\r\n", "NOT_FOUND\r\n"),
    ("flush_all 0 noreply x\r\n", ERROR),
    ("flush_all 0 0 0 noreply\r\n", ERROR),
    ("flush_all noreply x\r\n", EXPTIME),
    ("flush_all noreply noreply\r\n", ""),
    ("verbosity\r\n", ERROR),
    ("verbosity 1 0 0\r\n", ERROR),
    ("verbosity 1 x\r\n", "OK\r\n"),
    ("verbosity noreply\r\n", ""),
    ("verbosity x noreply\r\n", ""),
    ("set\r\n", ERROR),
    ("set n\r\n", ERROR),
    ("set n 0 0\r\n", ERROR),
    ("set n noreply\r\n", ERROR),
    ("cas n 0 0\r\n", ERROR),
    ("set n 0 0 1 x y\r\n5\r\n", ERROR),
    ("set n 0 0 1 x noreply\r\n5\r\n", ERROR),
    ("append n 0 0 1 noreply x\r\n5\r\n", ERROR),
    ("cas n 0 0 1\r\n5\r\n", ERROR),
    ("cas n 0 0 1 noreply\r\n5\r\n", ""),
    (
        "cas n 0 0 1 x\r\n5\r\n",
        "CLIENT_ERROR bad command line format\r\n",
    ),
    ("cas n 0 0 1 5 noreply x\r\n5\r\n", ERROR),
    ("ms\r\n", ERROR),
    ("ms n\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("mg\r\n", ERROR),
    ("md\r\n", ERROR),
    ("ma\r\n", ERROR),
    ("me\r\n", "CLIENT_ERROR bad command line format\r\n"),
];

#[test]
fn requests_of_too_many_or_too_few_words_change_nothing() {
    let server = start();
    let mut stream = connect(&server);
    let unchanged = "VA 1 t-1 c9\r\n1\r\n";
    assert_eq!(ask(&mut stream, b"ms n 1 E9\r\n1\r\n"), "HD\r\n");
    let mut wrong = Vec::new();
    for &(request, expected) in MISCOUNTED {
        let answer = ask(&mut stream, request.as_bytes());
        let left = ask(&mut stream, b"mg n v t c\r\n");
        if answer != expected || left != unchanged {
            wrong.push(format!("{request:?}: {answer:?}, left {left:?}"));
            ask(&mut stream, b"ms n 1 E9\r\n1\r\n");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A word too many where memcached looks at none.
    compare(
        &server,
        &[
            ("incr n 1 x\r\ndecr n 1 0\r\n", "2\r\n1\r\n"),
            ("touch n 0 x\r\n", "TOUCHED\r\n"),
            ("set n 0 0 1 x\r\n5\r\n", "STORED\r\n"),
            ("flush_all 0 x\r\nget n\r\n", "OK\r\nEND\r\n"),
        ],
    );
}

#[test]
fn numbers_may_have_a_plus() {
    compare(
        &start(),
        &[
            (
                "set p +5 +7 +2\r\nab\r\nget p\r\nmg p t\r\n",
                "STORED\r\nVALUE p 5 2\r\nab\r\nEND\r\nHD t7\r\n",
            ),
            (
                "set n 0 0 2\r\n+5\r\nincr n +5\r\ndecr n +1\r\ntouch n +5\r\ngat +0 n\r\n",
                "STORED\r\n10\r\n9\r\nTOUCHED\r\nVALUE n 0 1\r\n9\r\nEND\r\n",
            ),
            (
                "ms m +2 T+5 F+7\r\nab\r\nmg m T+6 t f\r\ncas m 0 0 1 +5\r\na\r\n",
                "HD\r\nHD t6 f7\r\nEXISTS\r\n",
            ),
            (
                "incr n ++1\r\nincr n +\r\ntouch n -+1\r\n",
                "CLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid numeric delta \
                 argument\r\nCLIENT_ERROR invalid exptime argument\r\n",
            ),
        ],
    );
}

#[test]
fn data_beyond_the_limit_runs_into_no_command() {
    let server = Started::new(ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        max_bulk_bytes: 10,
        workers: 1,
        ..ServerOptions::default()
    });
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let value = "VALUE k 0 1\r\n1\r\nEND\r\n";
    compare(
        &server,
        &[
            ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
            (
                "set k 0 0 12\r\n0123456789ab--delete k\r\nget k\r\n",
                &format!("{too_large}{value}"),
            ),
            (
                "ms k 12\r\n0123456789ab\nget k\r\n",
                &format!("{too_large}{value}"),
            ),
            ("set k 0 0 12 noreply\r\n0123456789ab\r\nget k\r\n", value),
        ],
    );
}

#[test]
fn what_would_grow_beyond_the_limit_is_not_stored() {
    let server = Started::new(ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        max_bulk_bytes: 10,
        workers: 1,
        ..ServerOptions::default()
    });
    compare(
        &server,
        &[
            (
                "set g 0 0 6\r\nabcdef\r\nappend g 0 0 6\r\nabcdef\r\nms g 6 MP q\r\nabcdef\r\n",
                "STORED\r\nNOT_STORED\r\nNS\r\n",
            ),
            (
                "append g 0 0 6 noreply\r\nabcdef\r\nmg g s\r\n",
                "HD s6\r\n",
            ),
            (
                "set g 0 0 11 noreply\r\n0123456789a\r\nms g 11 q\r\n0123456789a\r\nmg g s\r\n",
                "SERVER_ERROR object too large for cache\r\nHD s6\r\n",
            ),
        ],
    );
}

/// Who reads items misses a row with columns; who stores or counts learns that a row is there.
#[test]
fn a_row_with_columns_is_there_for_who_stores_or_counts() {
    let server = start();
    let mut client = server.client();
    client.run("HSET h f 1");
    let number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    compare(
        &server,
        &[
            ("get h\r\ngets h\r\ngat 5 h\r\n", "END\r\nEND\r\nEND\r\n"),
            ("touch h 5\r\n", "NOT_FOUND\r\n"),
            ("mg h\r\nmg h N30 T5\r\nme h\r\n", "EN\r\nEN\r\nEN\r\n"),
            ("incr h 1\r\n", number),
            ("decr h 1\r\n", number),
            ("ma h N0 J5\r\n", number),
            (
                "cas h 0 0 1 5\r\na\r\nms h 1 C5\r\na\r\n",
                "EXISTS\r\nEX\r\n",
            ),
            ("ma h C5\r\nmd h C5\r\n", "EX\r\nEX\r\n"),
            (
                "add h 0 0 1\r\na\r\nms h 1 ME\r\na\r\n",
                "NOT_STORED\r\nNS\r\n",
            ),
            (
                "append h 0 0 1\r\na\r\nms h 1 MP N0\r\na\r\n",
                "NOT_STORED\r\nNS\r\n",
            ),
        ],
    );
    assert_eq!(client.run("HGET h f"), bulk("1"));
    assert_eq!(client.run("TTL h"), Value::Integer(-1));
    compare(
        &server,
        &[(
            "replace h 0 0 1\r\na\r\nget h\r\n",
            "STORED\r\nVALUE h 0 1\r\na\r\nEND\r\n",
        )],
    );
}

#[test]
fn errors_do_not_make_pipelined_requests_lose_their_replies() {
    let server = start();
    let mut stream = connect(&server);
    let pipeline = b"set k 0 0 1\r\n1\r\nset k 0 0 1 x y\r\nget k\r\n\r\nms k 2 Zz\r\nab\r\n\
        cas k 0 0 1\r\n7\r\nset k x 0 1\r\n8\r\nget k\r\nmn\r\n";
    stream.write_all(pipeline).unwrap();
    let expected = "STORED\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\nCLIENT_ERROR invalid \
        flag\r\nERROR\r\nCLIENT_ERROR bad command line format\r\nVALUE k 0 1\r\n1\r\nEND\r\nMN\r\n";
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

/// The data of a `set` give the password, and no word of its line does.
#[test]
fn a_stranger_whose_data_are_missing_has_said_no_password() {
    let server = Started::new(ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        password: Some("sesame".into()),
        workers: 1,
        ..ServerOptions::default()
    });
    let long = format!("set a 0 0 3000 noreply\r\n{}\r\n", "x".repeat(3000));
    let requests = [
        (long.as_str(), "CLIENT_ERROR unauthenticated\r\n"),
        (
            "set a 0 0 1 noreply\r\nxyz\r\n",
            "CLIENT_ERROR unauthenticated\r\n",
        ),
        (
            "set a 0 0 3\r\nx y\r\n",
            "CLIENT_ERROR authentication failure\r\n",
        ),
        ("set a 0 0 14\r\ndefault sesame\r\n", "STORED\r\n"),
        ("get a\r\n", "END\r\n"),
    ];
    let mut stream = connect(&server);
    for (request, expected) in requests {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }
}
