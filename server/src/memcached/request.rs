//! What a request says: its words, and the numbers among them; and which number a value is.

use crate::protocol::request::Span;

/// The longest key, as in memcached.
pub(crate) const MAX_KEY_BYTES: usize = 250;

/// A request is one of these; the number travels through the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    Classic = 0,
    Meta = 1,
    /// A `set` that wants no answer.
    QuietSet = 2,
    /// A line that cannot be understood: its error is the reply.
    Wrong = 3,
    /// An item larger than the limit: refused after its data went by.
    TooLarge = 4,
    /// A `gets`.
    Versions = 5,
    /// An item whose data did not end where its line said. The words are those of the line.
    BadData = 6,
}

/// The words of a request.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(super) input: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Words<'a> {
    pub(crate) fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.spans.get(i).map(|span| span.of(self.input))
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// All words from the `i`th on.
    pub(crate) fn from(&self, i: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let input = self.input;
        self.spans
            .get(i..)
            .unwrap_or_default()
            .iter()
            .map(move |span| span.of(input))
    }

    /// The words without the last, which is the data block, and the data.
    pub(crate) fn split_data(&self) -> (Words<'a>, &'a [u8]) {
        match self.spans.split_last() {
            Some((data, spans)) => (
                Words {
                    input: self.input,
                    spans,
                },
                data.of(self.input),
            ),
            None => (*self, &[]),
        }
    }
}

/// An unsigned number, as memcached takes it: with or without a plus.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    digits(word.strip_prefix(b"+").unwrap_or(word))
}

/// The number that a stored value is. As in memcached, blanks and zeros before it do not count, and
/// it ends at the first blank or zero byte: memcached itself leaves blanks when it counts down.
pub(crate) fn stored_number(value: &[u8]) -> Option<u64> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = value.iter().take_while(|byte| is_blank(byte)).count();
    let rest = &value[start..];
    let end = rest.iter().position(|byte| is_blank(byte) || *byte == 0);
    let word = &rest[..end.unwrap_or(rest.len())];
    let word = word.strip_prefix(b"+").unwrap_or(word);
    let zeros = word.iter().take_while(|byte| **byte == b'0').count();
    // The last digit of a zero stays.
    digits(&word[zeros.min(word.len().saturating_sub(1))..])
}

/// What decimal digits say.
fn digits(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.len() <= 20 && word.iter().all(u8::is_ascii_digit);
    digits
        .then(|| std::str::from_utf8(word).ok()?.parse().ok())
        .flatten()
}

/// An exptime. As in memcached, it has 32 bits, signed or not.
pub(crate) fn exptime(word: &[u8]) -> Option<i64> {
    let exptime = match word.strip_prefix(b"-") {
        Some(word) => -i64::try_from(digits(word)?).ok()?,
        None => i64::try_from(number(word)?).ok()?,
    };
    let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
    range.contains(&exptime).then_some(exptime)
}

/// Exptimes up to this many seconds are relative to now; larger ones are Unix times.
const RELATIVE_LIMIT_S: i64 = 60 * 60 * 24 * 30;

/// When an item with this exptime expires, in Unix milliseconds: `None` for never, a moment in the
/// past for "at once".
pub(crate) fn expiry_ms(exptime: i64, now_ms: u64) -> Option<u64> {
    match exptime {
        0 => None,
        ..0 => Some(1),
        1..=RELATIVE_LIMIT_S => Some(now_ms + exptime as u64 * 1000),
        // No later than a signed number of milliseconds can say.
        _ => Some((exptime as u64).saturating_mul(1000).min(i64::MAX as u64)),
    }
}
