//! Taking memcached requests out of a connection's input.
//!
//! A request is a line of words; a data block follows the line of a request that stores something,
//! and the line has its length. Words and data become spans of the input; nothing is copied.

use super::request::{self, Code, MAX_KEY_BYTES, expiry_ms, number};
use crate::protocol::request::{Kind, Parsed, Span};
use crate::protocol::web::is_http;
use crate::shared::now_ms;

/// The longest line, its end included: a `get` of a thousand keys of the greatest length.
pub(crate) const MAX_LINE_BYTES: usize = 256 << 10;
/// Every request of the binary protocol begins with it, and no line does.
const BINARY_MAGIC: u8 = 0x80;
/// The longest data block that a line can announce, as in memcached. The data of an item that is
/// longer than the server takes is passed over.
const MAX_DATA_BYTES: u64 = i32::MAX as u64 - 2;

/// What is still to be passed over of an item that is too large.
#[derive(Clone, Copy, Default)]
pub(crate) struct RefusedItem {
    data_bytes: usize,
    /// The end of its data follows: a line end, or the rest of a line that the data runs into.
    end_follows: bool,
}

impl RefusedItem {
    /// Passes over what is there of the item; `None` if nothing of it is left.
    fn pass_over(&mut self, rest: &[u8]) -> Option<Parsed> {
        if self.data_bytes > 0 {
            let skipped = rest.len().min(self.data_bytes);
            self.data_bytes -= skipped;
            return Some(Parsed::Skip(skipped));
        }
        if !self.end_follows {
            return None;
        }
        Some(match bytes_through_line(rest, 0) {
            Ok(bytes) => {
                self.end_follows = false;
                Parsed::Skip(bytes)
            }
            Err(parsed) => parsed,
        })
    }
}

/// How many bytes there are up to the end of the line that data runs into which should have ended
/// at `data_end`. All of it is passed over: it would be taken for a command.
fn bytes_through_line(rest: &[u8], data_end: usize) -> Result<usize, Parsed> {
    match memchr::memchr(b'\n', &rest[data_end..]) {
        Some(end) => Ok(data_end + end + 1),
        None if rest.len() - data_end < MAX_LINE_BYTES => Err(Parsed::Partial(rest.len() + 1)),
        None => Err(malformed("line too long")),
    }
}

/// Parses one request at `input[at..]`.
pub(crate) fn parse(
    refused: &mut RefusedItem,
    max_value_bytes: usize,
    input: &[u8],
    at: usize,
    spans: &mut Vec<Span>,
) -> Parsed {
    let rest = &input[at..];
    if let Some(parsed) = refused.pass_over(rest) {
        return parsed;
    }
    let (line, bytes) = match first_line(rest) {
        Ok(line) => line,
        Err(parsed) => return parsed,
    };
    let first = spans.len();
    split(line, at, spans);
    let words = &spans[first..];
    let line = Line {
        input,
        at,
        bytes,
        first,
    };
    let Some(command) = words.first().map(|word| word.of(input)) else {
        return whole(bytes, Kind::Single { key: None }, Code::Classic);
    };
    match command {
        b"get" | b"gets" if words.len() > 1 => {
            if words[1..].iter().all(|word| valid_key(word.of(input))) {
                let code = match command {
                    b"gets" => Code::Versions,
                    _ => Code::Classic,
                };
                return whole(bytes, Kind::Read { first: 1 }, code);
            }
            whole(bytes, Kind::Single { key: None }, Code::Wrong)
        }
        command if stores(command) => {
            let length = words.get(4).map(|word| word.of(input));
            line.store(refused, max_value_bytes, length, spans, Code::Classic)
        }
        b"ms" => {
            let length = words.get(2).map(|word| word.of(input));
            line.store(refused, max_value_bytes, length, spans, Code::Meta)
        }
        b"mg" | b"md" | b"ma" | b"mn" | b"me" | b"mr" => {
            whole(bytes, Kind::Single { key: None }, Code::Meta)
        }
        _ => whole(bytes, Kind::Single { key: None }, Code::Classic),
    }
}

/// The first line of `rest` without its end, and its length with it; what was found otherwise.
fn first_line(rest: &[u8]) -> Result<(&[u8], usize), Parsed> {
    if rest.first() == Some(&BINARY_MAGIC) {
        return Err(malformed("the binary protocol is not spoken here"));
    }
    let searched = &rest[..rest.len().min(MAX_LINE_BYTES)];
    let Some(end) = memchr::memchr(b'\n', searched) else {
        if rest.len() >= MAX_LINE_BYTES {
            return Err(malformed("line too long"));
        }
        return Err(Parsed::Partial(rest.len() + 1));
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    if is_http(line) {
        let error = "CLIENT_ERROR this is an HTTP request, and the port is one for memcached\r\n";
        return Err(Parsed::Malformed(error.into()));
    }
    Ok((line, end + 1))
}

/// A request behind which the next one cannot be found: the connection ends.
fn malformed(why: &str) -> Parsed {
    Parsed::Malformed(format!("CLIENT_ERROR {why}\r\n").into_bytes())
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

/// Whether a classic command of this name has a data block.
pub(super) fn stores(command: &[u8]) -> bool {
    let names = [
        &b"set"[..],
        b"add",
        b"replace",
        b"append",
        b"prepend",
        b"cas",
    ];
    names.contains(&command)
}

/// Whether a word can be a key.
pub(super) fn valid_key(key: &[u8]) -> bool {
    key.len() <= MAX_KEY_BYTES && is_word(key)
}

/// Whether these bytes are one word of a line: some, and no blanks or control characters.
pub(super) fn is_word(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

/// The line of a request: its place in the input, and its words.
struct Line<'a> {
    input: &'a [u8],
    at: usize,
    /// Its length, its end included.
    bytes: usize,
    /// Its words are the spans from this one on.
    first: usize,
}

impl Line<'_> {
    /// A request with a data block of `length` bytes after its line.
    fn store(
        &self,
        refused: &mut RefusedItem,
        max_value_bytes: usize,
        length: Option<&[u8]>,
        spans: &mut Vec<Span>,
        code: Code,
    ) -> Parsed {
        let Line {
            input,
            at,
            bytes: line_bytes,
            first,
        } = *self;
        let Some(length) = length else {
            // A line without a length announces no data.
            return whole(line_bytes, Kind::Single { key: None }, Code::Wrong);
        };
        // With a length that cannot be, nobody knows where the data ends, and data must never be
        // taken for commands.
        let Some(length) = number(length).filter(|length| *length <= MAX_DATA_BYTES) else {
            return malformed("bad command line format");
        };
        let length = length as usize;
        if length > max_value_bytes {
            *refused = RefusedItem {
                data_bytes: length,
                end_follows: true,
            };
            return whole(line_bytes, Kind::Single { key: None }, Code::TooLarge);
        }
        let data = line_bytes + length;
        let rest = &input[at..];
        if rest.len() < data + 2 {
            // A line feed alone after the data is malformed, but that shows only when the data is
            // there.
            spans.truncate(first);
            return Parsed::Partial(data + 2);
        }
        if &rest[data..data + 2] != b"\r\n" {
            return match bytes_through_line(rest, data) {
                Ok(bytes) => whole(bytes, Kind::Single { key: None }, Code::BadData),
                Err(parsed) => {
                    spans.truncate(first);
                    parsed
                }
            };
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
    // A wrong exptime is an error, and a negative one removes: not a plain put.
    let exptime = request::exptime(exptime.of(input))?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of a request, and how it is to be run.
    type Taken = (Vec<Vec<u8>>, u32);

    /// Takes everything out of an input that arrives in two pieces: what was taken each time (its
    /// words, and whether it was refused), and whether the connection ends.
    fn requests(pieces: [&[u8]; 2]) -> (Vec<Taken>, bool) {
        let (mut input, mut found) = (Vec::new(), Vec::new());
        let mut refused = RefusedItem::default();
        for piece in pieces {
            input.extend_from_slice(piece);
            while !input.is_empty() {
                let mut spans = Vec::new();
                match parse(&mut refused, 100, &input, 0, &mut spans) {
                    Parsed::Whole { bytes, code, .. } => {
                        let words = spans.iter().map(|span| span.of(&input).to_vec());
                        found.push((words.collect(), code));
                        input.drain(..bytes);
                    }
                    Parsed::Skip(bytes) => {
                        assert!(bytes > 0);
                        input.drain(..bytes);
                    }
                    Parsed::Partial(wanted) => {
                        assert!(wanted > input.len(), "asks for more than there is");
                        break;
                    }
                    Parsed::Malformed(_) => return (found, true),
                }
                assert!(refused.data_bytes as u64 <= MAX_DATA_BYTES);
            }
        }
        (found, false)
    }

    fn command() -> impl Strategy<Value = Vec<u8>> {
        let name = prop_oneof![
            Just("set"),
            Just("cas"),
            Just("ms"),
            Just("get"),
            Just("delete")
        ];
        let length = prop_oneof![
            (0..40u64).prop_map(|length| length.to_string()),
            Just("-1".to_owned()),
            Just("101".to_owned()),
            Just("2147483646".to_owned()),
            Just("18446744073709551616".to_owned()),
        ];
        let data = prop::collection::vec(any::<u8>(), 0..120);
        (name, length, data).prop_map(|(name, length, data)| {
            let line = match name {
                "set" => format!("set k 0 0 {length}\r\n"),
                "cas" => format!("cas k 0 0 {length} 7\r\n"),
                "ms" => format!("ms k {length} T0\r\n"),
                name => format!("{name} k\r\n"),
            };
            let stores = matches!(name, "set" | "cas" | "ms");
            // As much data as the line says, if that is not too much to send.
            let said = length.parse::<usize>().ok().filter(|said| *said <= 101);
            let mut bytes = line.into_bytes();
            if let (true, Some(said)) = (stores, said) {
                let mut data = data;
                data.resize(said, b'\n');
                bytes.extend_from_slice(&data);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn requests_split_anywhere_are_the_same(
            commands in prop::collection::vec(command(), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = commands.concat();
            let cut = cut.index(bytes.len() + 1);
            prop_assert_eq!(requests([&bytes[..cut], &bytes[cut..]]), requests([&bytes, b""]));
        }

        #[test]
        fn data_is_never_taken_for_commands(
            length in prop_oneof![Just("-1"), Just("2147483646"), Just("9999999999999999999999")],
            storing in prop_oneof![Just("set k 0 0 "), Just("ms k ")],
        ) {
            let bytes = [storing, length, "\r\ndelete k\r\n"].concat();
            prop_assert_eq!(requests([bytes.as_bytes(), b""]), (Vec::new(), true));
        }

        #[test]
        fn no_bytes_make_the_parser_panic_or_run_away(
            bytes in prop::collection::vec(
                prop_oneof![Just(b' '), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'-'),
                    Just(b's'), Just(b'm'), any::<u8>()], 0..300),
        ) {
            requests([&bytes, b""]);
        }
    }

    #[test]
    fn the_line_that_data_runs_into_is_passed_over_wherever_it_is_cut() {
        // The second is longer than an item may be.
        for length in [3, 101] {
            let data = "x".repeat(length);
            let text = format!("set k 0 0 {length}\r\n{data}12flush_all\r\nget k\r\n");
            let bytes = text.as_bytes();
            let whole = requests([bytes, b""]);
            assert_eq!(whole.0.len(), 2);
            for cut in 0..bytes.len() {
                assert_eq!(
                    requests([&bytes[..cut], &bytes[cut..]]),
                    whole,
                    "cut at {cut}"
                );
            }
        }
        let endless = [&b"set k 0 0 3\r\n"[..], &vec![b'x'; MAX_LINE_BYTES + 3]].concat();
        assert_eq!(requests([&endless, b""]), (Vec::new(), true));
    }

    #[test]
    fn the_binary_protocol_is_refused_at_its_first_byte() {
        let (found, ends) = requests([&[0x80, 0], b"\x01"]);
        assert_eq!((found.len(), ends), (0, true));
    }
}
