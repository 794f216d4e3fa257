//! Taking whole RESP requests out of a connection's input buffer.
//!
//! A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or an inline command,
//! a line of words as a person types it into telnet. Parsing copies nothing of the former:
//! arguments are ranges of the input buffer. What is malformed gets Redis' own error text and
//! ends the connection, because nobody can say where the next request would begin.

use crate::protocol::request::Span;
use crate::protocol::web::is_http;

/// The most arguments that one request may have.
const MAX_ARGUMENTS: i64 = 1024 * 1024;
/// The longest inline command, and the longest length line.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// What clients that have not authenticated may send, as in Redis.
const STRANGER_ARGUMENTS: i64 = 10;
const STRANGER_BULK_BYTES: usize = 16 * 1024;
/// The longest bulk string whose length has two digits.
const MAX_SHORT_BYTES: usize = 99;
/// From so many arguments on, an incomplete request is continued rather than begun again.
const LONG: usize = 64;

/// What the front of a buffer holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// One request of this many bytes; its arguments were pushed. None at all means: ignore it.
    Whole(usize),
    /// A quoted inline command of this many bytes, and its words. The caller replaces it in the
    /// buffer with [`encode`]'s form of it and parses again, so that arguments are always ranges.
    Quoted(usize, Vec<Vec<u8>>),
    /// The request continues behind the buffer. It needs at least this many bytes.
    Partial(usize),
    /// No request can begin like this: the error line.
    Malformed(String),
}

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bulk_bytes: usize,
    pub(crate) authenticated: bool,
}

/// A long request of which a part has been parsed.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// Relative to the beginning of the request.
    spans: Vec<Span>,
    arguments_left: i64,
    parsed_bytes: usize,
}

impl Unfinished {
    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}

/// Parses one request at `input[from..]`, pushing its arguments as ranges of `input`.
///
/// A bulk longer than the limit is refused as soon as its length is known. `unfinished` carries
/// the progress on a long request from one call to the next, so that its many arguments are
/// looked at once, however it arrives.
#[inline]
pub(crate) fn parse(
    input: &[u8],
    from: usize,
    limits: Limits,
    unfinished: &mut Option<Box<Unfinished>>,
    spans: &mut Vec<Span>,
) -> Frame {
    if unfinished.is_some() {
        return resume(input, from, limits, unfinished, spans);
    }
    match input.get(from) {
        None => Frame::Partial(1),
        Some(b'*') => multi_bulk(input, from, limits, unfinished, spans),
        Some(_) => inline(input, from, spans),
    }
}

#[inline]
fn multi_bulk(
    input: &[u8],
    from: usize,
    limits: Limits,
    unfinished: &mut Option<Box<Unfinished>>,
    spans: &mut Vec<Span>,
) -> Frame {
    let (count, mut at) = match length_line(input, from + 1) {
        Line::Number(count, at) => (count, at),
        Line::Partial => return partial_line(input, from, "too big mbulk count string"),
        Line::Malformed => return malformed("invalid multibulk length"),
    };
    if count > MAX_ARGUMENTS {
        return malformed("invalid multibulk length");
    }
    if !limits.authenticated && count > STRANGER_ARGUMENTS {
        return malformed("unauthenticated multibulk length");
    }
    let first = spans.len();
    let admits_short = limits.bulk_bytes > MAX_SHORT_BYTES;
    for parsed in 0..count.max(0) {
        if let Some(span) = short_argument(input, at)
            && admits_short
        {
            spans.push(span);
            at = span.end as usize + 2;
            continue;
        }
        match argument(input, at, limits) {
            Argument::Whole(span) => {
                spans.push(span);
                at = span.end as usize + 2;
            }
            Argument::Other(frame) => {
                if spans.len() - first >= LONG && matches!(frame, Frame::Partial(_)) {
                    let relative = |span: &Span| {
                        Span::new(span.start as usize - from, span.end as usize - from)
                    };
                    *unfinished = Some(Box::new(Unfinished {
                        spans: spans[first..].iter().map(relative).collect(),
                        arguments_left: count - parsed,
                        parsed_bytes: at - from,
                    }));
                }
                spans.truncate(first);
                return relative_to(frame, from);
            }
        }
    }
    Frame::Whole(at - from)
}

#[cold]
fn resume(
    input: &[u8],
    from: usize,
    limits: Limits,
    unfinished: &mut Option<Box<Unfinished>>,
    spans: &mut Vec<Span>,
) -> Frame {
    let Some(state) = unfinished else {
        return Frame::Partial(1);
    };
    while state.arguments_left > 0 {
        match argument(&input[from..], state.parsed_bytes, limits) {
            Argument::Whole(span) => {
                state.spans.push(span);
                state.parsed_bytes = span.end as usize + 2;
                state.arguments_left -= 1;
            }
            Argument::Other(frame) => return frame,
        }
    }
    let shift = |span: &Span| Span::new(span.start as usize + from, span.end as usize + from);
    spans.extend(state.spans.iter().map(shift));
    let bytes = state.parsed_bytes;
    *unfinished = None;
    Frame::Whole(bytes)
}

fn relative_to(frame: Frame, from: usize) -> Frame {
    match frame {
        Frame::Partial(until) => Frame::Partial(until - from),
        other => other,
    }
}

enum Argument {
    Whole(Span),
    /// `Partial` counts from the beginning of `input`.
    Other(Frame),
}

/// A bulk string of at most [`MAX_SHORT_BYTES`] at `input[at..]`, as nearly all arguments are; what
/// else is there is for [`argument`] to tell.
#[inline]
fn short_argument(input: &[u8], at: usize) -> Option<Span> {
    let &[b'$', a @ b'0'..=b'9', b, c, d] = input.get(at..)?.first_chunk()? else {
        return None;
    };
    let first = usize::from(a - b'0');
    let (length, start) = match (b, c, d) {
        (b'\r', b'\n', _) => (first, at + 4),
        (b'0'..=b'9', b'\r', b'\n') if first != 0 => (10 * first + usize::from(b - b'0'), at + 5),
        _ => return None,
    };
    let end = start + length;
    (input.get(end..end + 2)? == b"\r\n").then(|| Span::new(start, end))
}

/// One bulk string at `input[at..]`.
#[inline]
fn argument(input: &[u8], at: usize, limits: Limits) -> Argument {
    match input.get(at) {
        Some(b'$') => {}
        None => return Argument::Other(Frame::Partial(at + 1)),
        Some(&other) => {
            let shown = char::from(other).escape_default();
            return Argument::Other(malformed(&format!("expected '$', got '{shown}'")));
        }
    }
    let (length, start) = match length_line(input, at + 1) {
        Line::Number(length, start) => (length, start),
        Line::Partial if input.len() - at > MAX_LINE_BYTES => {
            return Argument::Other(malformed("too big bulk count string"));
        }
        Line::Partial => return Argument::Other(Frame::Partial(input.len() + 1)),
        Line::Malformed => return Argument::Other(malformed("invalid bulk length")),
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > limits.bulk_bytes {
        return Argument::Other(malformed("invalid bulk length"));
    }
    if !limits.authenticated && length > STRANGER_BULK_BYTES {
        return Argument::Other(malformed("unauthenticated bulk length"));
    }
    let end = start + length;
    match input.get(end..end + 2) {
        Some(b"\r\n") => Argument::Whole(Span::new(start, end)),
        Some(_) => Argument::Other(malformed("expected CRLF after bulk string")),
        None => Argument::Other(Frame::Partial(end + 2)),
    }
}

enum Line {
    /// A number, and where the line after it begins.
    Number(i64, usize),
    Partial,
    Malformed,
}

/// A decimal number without leading zeros up to CRLF.
#[inline]
fn length_line(input: &[u8], from: usize) -> Line {
    // Nearly all lengths have one or two digits.
    if let Some(&[a @ b'0'..=b'9', b, c, d]) = input.get(from..from + 4) {
        let first = i64::from(a - b'0');
        match (b, c, d) {
            (b'\r', b'\n', _) => return Line::Number(first, from + 3),
            (b'0'..=b'9', b'\r', b'\n') if first != 0 => {
                return Line::Number(first * 10 + i64::from(b - b'0'), from + 4);
            }
            _ => {}
        }
    }
    let mut value = 0i64;
    let mut at = from;
    let negative = input.get(at) == Some(&b'-');
    at += usize::from(negative);
    let digits = at;
    loop {
        match input.get(at) {
            Some(&digit @ b'0'..=b'9') if at - digits < 18 => {
                value = value * 10 + i64::from(digit - b'0');
                at += 1;
            }
            Some(b'\r') if at > digits => break,
            Some(_) => return Line::Malformed,
            None => return Line::Partial,
        }
    }
    if input[digits] == b'0' && (negative || at - digits > 1) {
        return Line::Malformed;
    }
    match input.get(at + 1) {
        Some(b'\n') => Line::Number(if negative { -value } else { value }, at + 2),
        Some(_) => Line::Malformed,
        None => Line::Partial,
    }
}

fn partial_line(input: &[u8], from: usize, too_long: &str) -> Frame {
    if input.len() - from > MAX_LINE_BYTES {
        return malformed(too_long);
    }
    Frame::Partial(input.len() - from + 1)
}

fn malformed(what: &str) -> Frame {
    Frame::Malformed(format!("ERR Protocol error: {what}"))
}

/// Writes words as an array of bulk strings.
pub(crate) fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn inline(input: &[u8], from: usize, spans: &mut Vec<Span>) -> Frame {
    let rest = &input[from..];
    let Some(end) = memchr::memchr(b'\n', rest) else {
        return partial_line(input, from, "too big inline request");
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    if is_http(line) {
        return malformed("this is an HTTP request, and the port is one for Redis clients");
    }
    if !line.contains(&b'"') && !line.contains(&b'\'') {
        let mut rest = skip_blanks(line);
        while !rest.is_empty() {
            let length = rest.iter().position(ends_word).unwrap_or(rest.len());
            let at = from + line.len() - rest.len();
            spans.push(Span::new(at, at + length));
            rest = skip_blanks(&rest[length..]);
        }
        return Frame::Whole(end + 1);
    }
    match split_words(line) {
        Some(words) => Frame::Quoted(end + 1, words),
        None => malformed("unbalanced quotes in request"),
    }
}

/// Whether a byte is a blank to C's `isspace`: what may stand between words.
fn is_blank(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

/// Whether a byte ends a word that has begun; vertical tabs and form feeds do not.
fn ends_word(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// What is behind the blanks at the beginning of a line.
fn skip_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_blank(byte)).count();
    &line[blanks..]
}

/// Splits a line into words: blanks separate; `"…"` knows the escapes `\xHH \n \r \t \b \a`,
/// `'…'` only `\'`. A quoted part may begin within a word, and ends the word with itself. `None` if
/// quotes do not balance.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = skip_blanks(line);
    while !rest.is_empty() {
        let mut word = Vec::new();
        let ends = |byte: &u8| ends_word(byte) || matches!(byte, b'"' | b'\'');
        let plain = rest.iter().position(ends).unwrap_or(rest.len());
        word.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        if let Some((quote @ (b'"' | b'\''), behind)) = rest.split_first() {
            rest = quoted(behind, *quote, &mut word)?;
            if rest.first().is_some_and(|next| !is_blank(next)) {
                return None;
            }
        }
        words.push(word);
        rest = skip_blanks(rest);
    }
    Some(words)
}

fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [first, tail @ ..] if *first == quote => return Some(tail),
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..] if quote == b'"' && hex(*high, *low).is_some() => {
                word.extend(hex(*high, *low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
            [] => return None,
        }
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        bulk_bytes: 1 << 20,
        authenticated: true,
    };

    /// Parses everything, fed in the given pieces; the words of each request.
    fn words(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, Option<Frame>) {
        let (mut input, mut unfinished, mut found) = (Vec::new(), None, Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                let mut spans = Vec::new();
                match parse(&input, 0, LIMITS, &mut unfinished, &mut spans) {
                    Frame::Whole(bytes) => {
                        found.push(spans.iter().map(|span| span.of(&input).to_vec()).collect());
                        input.drain(..bytes);
                    }
                    Frame::Quoted(bytes, words) => {
                        input.splice(..bytes, encode(&words));
                    }
                    Frame::Partial(wanted) => {
                        assert!(wanted > input.len(), "asks for more than there is");
                        break;
                    }
                    malformed => return (found, Some(malformed)),
                }
            }
        }
        (found, None)
    }

    fn error_of(input: &[u8]) -> String {
        match words(&[input]) {
            (_, Some(Frame::Malformed(text))) => text,
            other => panic!("{other:?} for {}", input.escape_ascii()),
        }
    }

    #[test]
    fn inline_commands_are_split_as_a_shell_would() {
        let (found, malformed) = words(&[b"SET  key \"a b\\x41\\n\"\r\n\r\nGET 'it\\'s'\n"]);
        assert_eq!(malformed, None);
        let expected: Vec<Vec<&[u8]>> = vec![
            vec![b"SET", b"key", b"a bA\n"],
            vec![],
            vec![b"GET", b"it's"],
        ];
        assert_eq!(found, expected);
        assert_eq!(
            error_of(b"GET \"a\r\n"),
            "ERR Protocol error: unbalanced quotes in request"
        );
        assert_eq!(
            error_of(b"GET 'a'b\r\n"),
            "ERR Protocol error: unbalanced quotes in request"
        );
        assert_eq!(
            error_of(&[b'x'; 70_000]),
            "ERR Protocol error: too big inline request"
        );
    }

    #[test]
    fn malformed_requests_get_the_error_texts_of_redis() {
        for (input, text) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$x\r\n", "invalid bulk length"),
            (b"*1\r\n$1048577\r\n", "invalid bulk length"),
            (b"*01\r\n", "invalid multibulk length"),
            (b"*001\r\n", "invalid multibulk length"),
            (b"*+1\r\n", "invalid multibulk length"),
            (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
            (b"*1\r\n$-0\r\n\r\n", "invalid bulk length"),
            (b"*1\r\n$1\r\nxyz", "expected CRLF after bulk string"),
        ] {
            assert_eq!(error_of(input), format!("ERR Protocol error: {text}"));
        }
    }

    #[test]
    fn short_arguments_are_those_of_the_general_parser() {
        let limits = Limits {
            bulk_bytes: 1 << 20,
            authenticated: true,
        };
        for length in 0..=120 {
            let mut whole = format!("${length}\r\n").into_bytes();
            whole.resize(whole.len() + length, b'\n');
            whole.extend_from_slice(b"\r\n");
            for end in 0..=whole.len() {
                for (at, byte) in [(0, b'*'), (1, b'0'), (2, b'\r'), (3, b'\r'), (end, b'1')] {
                    let mut input = whole[..end].to_vec();
                    if let Some(input_byte) = input.get_mut(at) {
                        *input_byte = byte;
                    }
                    let general = match argument(&input, 0, limits) {
                        Argument::Whole(span) => Some((span.start, span.end)),
                        Argument::Other(_) => None,
                    };
                    let short = short_argument(&input, 0).map(|span| (span.start, span.end));
                    let is_short =
                        |(start, end): &(u32, u32)| (end - start) as usize <= MAX_SHORT_BYTES;
                    assert_eq!(
                        short,
                        general.filter(is_short),
                        "{:?}",
                        input.escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn a_limit_below_that_of_short_arguments_holds() {
        let limits = Limits {
            bulk_bytes: 10,
            authenticated: true,
        };
        let input = b"*1\r\n$11\r\nabcdefghijk\r\n";
        let frame = parse(input, 0, limits, &mut None, &mut Vec::new());
        assert!(matches!(frame, Frame::Malformed(_)), "{frame:?}");
    }

    #[test]
    fn strangers_may_send_little() {
        let limits = Limits {
            authenticated: false,
            ..LIMITS
        };
        for (input, text) in [
            (&b"*11\r\n"[..], "unauthenticated multibulk length"),
            (b"*2\r\n$16385\r\n", "unauthenticated bulk length"),
        ] {
            let frame = parse(input, 0, limits, &mut None, &mut Vec::new());
            assert_eq!(
                frame,
                Frame::Malformed(format!("ERR Protocol error: {text}"))
            );
        }
    }

    proptest! {
        #[test]
        fn requests_split_anywhere_are_the_same(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..100), 1..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(words(&pieces), (requests, None));
        }

        #[test]
        fn no_bytes_make_the_parser_panic_or_run_away(
            bytes in prop::collection::vec(
                prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'),
                    Just(b'-'), Just(b'"'), Just(b'\''), Just(b'\\'), any::<u8>()], 0..300),
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(bytes.len() + 1);
            let whole = words(&[&bytes]);
            prop_assert_eq!(words(&[&bytes[..cut], &bytes[cut..]]), whole);
        }
    }
}
