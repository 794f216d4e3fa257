//! `mr`: an ordered scan in the manner of the meta commands.
//!
//! ```text
//! mr <start> <end> [flags]
//!     start, end   keys, of any length; `-` as start is the first of all, `-` as end is beyond the
//!                  last. The range includes start and excludes end.
//!     l(n)         at most n items (100 without it, 10,000 at most)
//!     r            from the last to the first
//!     p            start is a prefix, and end must be `-`: the keys that begin so
//!     b            keys are base64, both ways
//!     v s f t c O  as in mg; k is implied
//!
//! HD k<key> …            an item, or
//! VA <size> k<key> …     an item with its data on the next line
//! EN                     the end
//! ```
//!
//! A key that no line can hold (Redis clients may write any bytes) is base64 without flag `b`, too,
//! and a `b` behind it says so.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Direction, prefix_end};

use super::flags::{BAD_FORMAT, Flags, decode};
use super::item_reply::reply_item;
use super::items::{self, Found};
use super::outcome::{Done, Failure, Outcome};
use super::request::Words;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::shared::Shared;

const DEFAULT_ITEMS: u64 = 100;
const MAX_ITEMS: u64 = 10_000;

/// An end of the range, `None` if it is open. It may be longer than the keys of other commands, for
/// there are longer keys to go on behind.
fn bound<'a>(word: Option<&'a [u8]>, flags: &Flags<'_>) -> Result<Option<Cow<'a, [u8]>>, Failure> {
    match word.ok_or(BAD_FORMAT)? {
        b"-" => Ok(None),
        word => decode(word, flags).map(Some),
    }
}

/// Runs a scan.
pub(super) fn run<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    out: &mut ReplyBuffer,
) -> Outcome {
    let mut flags = Flags::parse_known(&words, 3, b"bcflkOprstv", b"cfkOst")?;
    let limit = flags.number(b'l')?.unwrap_or(DEFAULT_ITEMS).min(MAX_ITEMS);
    let start = bound(words.get(1), &flags)?;
    let end = bound(words.get(2), &flags)?;
    let range = match (flags.has(b'p'), start, end) {
        (true, Some(prefix), None) => (Bound::Included(prefix.to_vec()), prefix_end(&prefix)),
        (true, ..) => {
            return Err(Failure::Line("CLIENT_ERROR p takes a prefix and - as end"));
        }
        (false, start, end) => (
            start.map_or(Bound::Unbounded, |key| Bound::Included(key.into_owned())),
            end.map_or(Bound::Unbounded, |key| Bound::Excluded(key.into_owned())),
        ),
    };
    let direction = if flags.has(b'r') {
        Direction::Reverse
    } else {
        Direction::Forward
    };
    flags.imply_key();
    let mut left = limit;
    if left > 0 {
        items::keyspace(shared)?.scan_up_to(range, direction, usize::MAX, |key, row| {
            if let Some(found) = Found::of(&row) {
                reply_item(&flags, key, found, out);
                left -= 1;
            }
            let full = out.unsent() > shared.options.output_limit_bytes;
            if left == 0 || full || out.is_exceeded() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    out.extend_from_slice(b"EN\r\n");
    Ok(Done::Nothing)
}
