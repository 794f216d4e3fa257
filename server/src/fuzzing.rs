//! The request parsers as functions of bytes, for the fuzz targets in the testkit.

use crate::memcached;
use crate::protocol::request::{Parsed, Span};
use crate::resp::frame::{self, Frame, Limits};

fn check(input: &[u8], spans: &[Span]) {
    for span in spans {
        assert!(span.start <= span.end && span.end as usize <= input.len());
    }
}

/// Takes Redis requests out of `input` until it ends or is refused; how many there were.
pub fn resp(input: &[u8], authenticated: bool) -> usize {
    let limits = Limits {
        bulk_bytes: 1 << 20,
        authenticated,
    };
    let (mut at, mut requests, mut unfinished) = (0, 0, None);
    while at < input.len() {
        let mut spans = Vec::new();
        match frame::parse(input, at, limits, &mut unfinished, &mut spans) {
            Frame::Whole(bytes) => {
                assert!(bytes > 0 && at + bytes <= input.len());
                check(input, &spans);
                at += bytes;
            }
            Frame::Quoted(bytes, words) => {
                assert!(bytes > 0 && at + bytes <= input.len());
                let again = frame::encode(&words);
                let parsed = frame::parse(&again, 0, limits, &mut None, &mut spans);
                assert!(!matches!(parsed, Frame::Partial(_)));
                at += bytes;
            }
            Frame::Partial(wanted) => {
                assert!(wanted > input.len() - at, "asks for what is there");
                return requests;
            }
            Frame::Malformed(_) => return requests,
        }
        requests += 1;
    }
    requests
}

/// Takes memcached requests out of `input` until it ends or is refused; how many there were.
pub fn memcached(input: &[u8]) -> usize {
    let (mut at, mut requests) = (0, 0);
    let mut refused = memcached::RefusedItem::default();
    while at < input.len() {
        let mut spans = Vec::new();
        match memcached::parse_request(&mut refused, 1 << 20, input, at, &mut spans) {
            Parsed::Whole { bytes, .. } => {
                assert!(bytes > 0 && at + bytes <= input.len());
                check(input, &spans);
                at += bytes;
            }
            Parsed::Skip(bytes) => {
                assert!(bytes > 0 && at + bytes <= input.len());
                at += bytes;
            }
            Parsed::Partial(wanted) => {
                assert!(wanted > input.len() - at, "asks for what is there");
                return requests;
            }
            Parsed::Malformed(_) => return requests,
        }
        requests += 1;
    }
    requests
}
