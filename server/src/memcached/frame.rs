//! Taking memcached requests out of a connection's input.
//!
//! A request is a line of words; those that store something are followed by a data block whose
//! length the line tells. Words and data become spans of the input, nothing is copied.

use super::{Code, MAX_KEY_BYTES, expiry_ms, number, signed};
use crate::protocol::{Kind, Parsed, Span};
use crate::shared::now_ms;
use crate::web::is_http;

/// The longest line.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Parses one request at `input[at..]`.
pub(crate) fn parse(
    skip_bytes: &mut usize,
    max_value_bytes: usize,
    input: &[u8],
    at: usize,
    spans: &mut Vec<Span>,
) -> Parsed {
    let rest = &input[at..];
    if *skip_bytes > 0 {
        let skipped = rest.len().min(*skip_bytes);
        *skip_bytes -= skipped;
        return Parsed::Skip(skipped);
    }
    let Some(end) = memchr::memchr(b'\n', rest) else {
        if rest.len() > MAX_LINE_BYTES {
            return Parsed::Malformed(b"CLIENT_ERROR line too long\r\n".to_vec());
        }
        return Parsed::Partial(rest.len() + 1);
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    if is_http(line) {
        let error = "CLIENT_ERROR this is an HTTP request, and the port is one for memcached\r\n";
        return Parsed::Malformed(error.into());
    }
    let first = spans.len();
    split(line, at, spans);
    let words = &spans[first..];
    let line_bytes = end + 1;
    let Some(command) = words.first().map(|word| word.of(input)) else {
        return whole(line_bytes, Kind::Single { key: None }, Code::Classic);
    };
    match command {
        b"get" if words.len() > 1 => {
            if words[1..].iter().all(|word| valid_key(word.of(input))) {
                return whole(line_bytes, Kind::Read { first: 1 }, Code::Classic);
            }
            whole(line_bytes, Kind::Single { key: None }, Code::Wrong)
        }
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            let length = words.get(4).and_then(|word| number(word.of(input)));
            store(
                skip_bytes,
                max_value_bytes,
                input,
                at,
                line_bytes,
                length,
                first,
                spans,
                Code::Classic,
            )
        }
        b"ms" => {
            let length = words.get(2).and_then(|word| number(word.of(input)));
            store(
                skip_bytes,
                max_value_bytes,
                input,
                at,
                line_bytes,
                length,
                first,
                spans,
                Code::Meta,
            )
        }
        b"mg" | b"md" | b"ma" | b"mn" | b"me" | b"mr" => {
            whole(line_bytes, Kind::Single { key: None }, Code::Meta)
        }
        _ => whole(line_bytes, Kind::Single { key: None }, Code::Classic),
    }
}

fn whole(bytes: usize, kind: Kind, code: Code) -> Parsed {
    Parsed::Whole {
        bytes,
        kind,
        code: code as u32,
    }
}

/// Splits a line that begins at `at` of the input into words.
fn split(line: &[u8], at: usize, spans: &mut Vec<Span>) {
    let mut start = None;
    for (i, &byte) in line.iter().enumerate() {
        match (byte == b' ', start) {
            (false, None) => start = Some(i),
            (true, Some(from)) => {
                spans.push(Span::new(at + from, at + i));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        spans.push(Span::new(at + from, at + line.len()));
    }
}

/// Whether a word can be a key.
pub(super) fn valid_key(key: &[u8]) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len()) && key.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

/// A request with a data block of `length` bytes after its line.
#[expect(
    clippy::too_many_arguments,
    reason = "the state of one parse, passed on once"
)]
fn store(
    skip_bytes: &mut usize,
    max_value_bytes: usize,
    input: &[u8],
    at: usize,
    line_bytes: usize,
    length: Option<u64>,
    first: usize,
    spans: &mut Vec<Span>,
    code: Code,
) -> Parsed {
    let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
        // Without a length nobody knows where the data ends: answer the line, and what follows
        // will be taken for commands, as memcached does.
        return whole(line_bytes, Kind::Single { key: None }, Code::Wrong);
    };
    if length > max_value_bytes {
        *skip_bytes = length.saturating_add(2);
        return whole(line_bytes, Kind::Single { key: None }, Code::TooLarge);
    }
    let data = line_bytes + length;
    let rest = &input[at..];
    if rest.len() < data + 2 {
        // A line feed alone after the data is malformed, but that can be told only then.
        spans.truncate(first);
        return Parsed::Partial(data + 2);
    }
    if &rest[data..data + 2] != b"\r\n" {
        spans.truncate(first);
        // Pass over the rest of the line that the data runs into.
        let skipped = memchr::memchr(b'\n', &rest[data..]).map_or(rest.len(), |end| data + end + 1);
        spans.push(Span::new(at, at));
        return whole(skipped, Kind::Single { key: None }, Code::Classic);
    }
    let plain = if code == Code::Classic {
        plain_set(input, &spans[first..])
    } else {
        None
    };
    spans.push(Span::new(at + line_bytes, at + data));
    let bytes = data + 2;
    match plain {
        Some((kind, code)) => {
            // The batch finds the value right behind the key.
            let data = spans[spans.len() - 1];
            spans[first + 2] = data;
            whole(bytes, kind, code)
        }
        None => whole(bytes, Kind::Single { key: None }, code),
    }
}

/// Whether this is a `set` without conditions, which the worker can batch.
fn plain_set(input: &[u8], words: &[Span]) -> Option<(Kind, Code)> {
    let [command, key, flags, exptime, _, options @ ..] = words else {
        return None;
    };
    let quiet = match options {
        [] => false,
        [word] if word.of(input) == b"noreply" => true,
        _ => return None,
    };
    if command.of(input) != b"set" || !valid_key(key.of(input)) {
        return None;
    }
    let user_flags = u32::try_from(number(flags.of(input))?).ok()?;
    let exptime = signed(exptime.of(input))?;
    // A negative exptime removes: not a plain put.
    let expiry_ms = if exptime == 0 {
        None
    } else {
        expiry_ms(exptime, now_ms())
    };
    if exptime < 0 {
        return None;
    }
    let code = if quiet { Code::QuietSet } else { Code::Classic };
    Some((
        Kind::Put {
            first: 1,
            expiry_ms,
            user_flags,
        },
        code,
    ))
}
