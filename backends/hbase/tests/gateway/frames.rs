//! Answers that are none: cut, too long, of another call, of another protocol, random.

use std::time::Duration;

use hedgerow_hbase::thrift2::TThriftServerType;
use hedgerow_hbase::{Check, Error, Options, Repeat, cells};
use thrift::ApplicationErrorKind;

use crate::fake::{Fake, HANDSHAKE, LONG, Reply, frame, gateways, options, row, rows};

/// Sends these bytes in place of the answer to `get`, and then ends the connection.
fn answering(bytes: Vec<u8>) -> Fake {
    Fake::start(move |_| Reply::ThenClose(Box::new(Reply::Bytes(bytes.clone()))))
}

/// The error of a `get` that is tried once.
fn error_of_get(fake: &Fake, options: Options) -> Error {
    let gateways = gateways(&[fake], options);
    let get = gateways.within(LONG).get(&rows(), &cells::get(b"r"));
    get.expect_err("no answer")
}

fn once() -> Options {
    Options {
        attempts: 1,
        ..options()
    }
}

#[test]
fn a_cut_answer_is_none() {
    let whole = Fake::start(|_| Reply::Row(row(b"r", b"v")));
    let open = gateways(&[&whole], options());
    let get = open.within(LONG).get(&rows(), &cells::get(b"r"));
    assert_eq!(get, Ok(row(b"r", b"v")));
    let bytes = frame(&whole.seen()[0], Reply::Row(row(b"r", b"v")));
    for end in [0, 1, 3, 4, 5, bytes.len() / 2, bytes.len() - 1] {
        let cut = answering(bytes[..end].to_vec());
        let error = error_of_get(&cut, once());
        assert!(matches!(error, Error::Unreachable { .. }), "{end}: {error}");
    }
    // The same message in a shorter frame.
    let mut shorter = bytes.clone();
    shorter[3] -= 1;
    let error = error_of_get(&answering(shorter), once());
    assert!(error.to_string().contains("ends within"), "{error}");
}

#[test]
fn an_answer_over_the_limit_is_not_read() {
    let mut options = options();
    options.reply_limit_bytes = 1000;
    let long = Fake::start(|_| Reply::Row(row(b"r", &[0; 1000])));
    let gateways = gateways(&[&long], options.clone());
    let calls = gateways.within(LONG);
    let error = calls.get(&rows(), &cells::get(b"r")).expect_err("too long");
    assert!(
        matches!(error, Error::ReplyTooLong { bytes: 1001.., .. }),
        "{error}"
    );
    assert_eq!(long.count("get"), 1, "the second try would be as long");
    assert!(gateways.statistics().gateways[0].is_healthy);
    // A length alone, of more memory than there is.
    let announced = answering(vec![0x7f, 0xff, 0xff, 0xff]);
    let error = error_of_get(&announced, options);
    assert!(matches!(error, Error::ReplyTooLong { .. }), "{error}");
}

#[test]
fn what_is_no_answer_says_why() {
    for (bytes, why) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "in HTTP"),
        (vec![0xff; 20], "a frame of -1 bytes"),
        (vec![0, 0, 0, 0], "ends within"),
        (vec![0, 0, 0, 4, 0x82, 0x21, 1, 0], "bad version"),
        (vec![0, 0, 0, 4, 0, 0, 0, 3], "bad version"),
    ] {
        let error = error_of_get(&answering(bytes), once());
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
}

#[test]
fn the_answer_to_another_call_is_none() {
    let wrong: [fn(&mut crate::fake::Seen); 2] = [
        |seen| seen.number += 1,
        |seen| seen.method = "exists".to_owned(),
    ];
    for change in wrong {
        let fake = Fake::start(move |seen| {
            let mut other = seen.clone();
            change(&mut other);
            Reply::Bytes(frame(&other, Reply::Row(row(b"r", b"v"))))
        });
        let error = error_of_get(&fake, once());
        assert!(error.to_string().contains("was expected"), "{error}");
    }
    let behind = Fake::start(|seen| {
        let mut bytes = frame(seen, Reply::Row(row(b"r", b"v")));
        bytes[3] += 1;
        Reply::Bytes([&bytes[..], b"x"].concat())
    });
    let error = error_of_get(&behind, once());
    assert!(error.to_string().contains("behind the end"), "{error}");
}

/// What comes after an answer would be taken for the next one's.
#[test]
fn a_connection_with_bytes_that_nobody_asked_for_is_not_used_again() {
    let fake = Fake::start(|seen| {
        let bytes = frame(seen, Reply::Row(row(b"r", b"v")));
        Reply::Bytes([&bytes[..], b"more"].concat())
    });
    let gateways = gateways(&[&fake], options());
    let calls = gateways.within(LONG);
    for _ in 0..3 {
        let get = calls.get(&rows(), &cells::get(b"r"));
        assert_eq!(get, Ok(row(b"r", b"v")));
    }
    let connections: Vec<usize> = fake.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 1, 2]);
}

#[test]
fn a_first_answer_of_no_gateway_says_what_is_wrong() {
    type First = fn() -> Reply;
    let firsts: [(First, &str); 5] = [
        (|| Reply::Integer(TThriftServerType::ONE.0), "Thrift 1"),
        (
            || Reply::Application(ApplicationErrorKind::UnknownMethod, "Invalid method name"),
            "HBase 2.1",
        ),
        (
            || Reply::Bytes(b"HTTP/1.1 400 Bad Request".to_vec()),
            "HTTP",
        ),
        (|| Reply::Close, "closed the connection"),
        (|| Reply::Silence, "without --framed"),
    ];
    for (first, why) in firsts {
        let fake = Fake::raw(move |_| first());
        let mut options = options();
        options.connect_timeout = Duration::from_millis(200);
        let gateways = gateways(&[&fake], options);
        let calls = gateways.within(Duration::from_millis(500));
        let increment = cells::increment(b"r", b"f", b"q", 1);
        let error = calls.increment(&rows(), &increment).expect_err("none");
        assert!(!error.is_unknown(), "nothing was sent: {error}");
        assert!(error.to_string().contains(why), "{why}: {error}");
        assert_eq!((fake.count("increment"), fake.seen().len()), (0, 0));
        assert!(fake.count(HANDSHAKE) > 0);
    }
}

/// A generator of the same numbers each time (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = self.below(most);
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Right answers with a few bytes changed, and random ones: errors or results, never a panic, a
/// wait or a heap of memory.
#[test]
fn random_answers_do_no_harm() {
    for seed in 1..=60 {
        let fake = Fake::start(move |seen| {
            let mut random = Random(seed * 0x9e37_79b9 + seen.nth as u64);
            let mut bytes = match random.below(3) {
                0 => {
                    let message = random.bytes(200);
                    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
                }
                1 => frame(seen, Reply::Rows(vec![row(b"r", &random.bytes(100)); 3])),
                _ => frame(seen, Reply::IoError("refused", Some(true))),
            };
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            Reply::ThenClose(Box::new(Reply::Bytes(bytes)))
        });
        let mut options = once();
        options.reply_limit_bytes = 1 << 20;
        let gateways = gateways(&[&fake], options);
        let calls = gateways.within(LONG);
        let table = rows();
        let row = cells::row_mutations(b"r", vec![], vec![cells::delete_row(b"r")]);
        let check = Check::absent(b"r", b"f", b"q");
        for _ in 0..3 {
            let _ = calls.get(&table, &cells::get(b"r"));
            let _ = calls.get_multiple(&table, &[cells::get(b"r"), cells::get(b"s")]);
            let _ = calls.scan_page(&table, &cells::scan(None, None), 10);
            let _ = calls.region_locations(&table);
            let _ = calls.check_and_mutate(&table, &check, &row, Repeat::Freely);
            let _ = calls.namespaces();
        }
        // A connection may end before a call on it arrives.
        let seen = fake.seen().len();
        assert!((1..=18).contains(&seen), "{seen} of 18 calls, seed {seed}");
    }
}
