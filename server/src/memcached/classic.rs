//! The classic text commands.

use std::ops::RangeInclusive;

use super::flags::ExpiryFlags;
use super::items::{self, Count, Counted, Delete, Item, Mode, StoreResult, Stored};
use super::outcome::{Done, Failure, Outcome, put_number};
use super::request::{self, Words, expiry_ms, number};
use super::{frame, stats};
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::request::LARGE_REPLIES_BYTES;
use crate::shared::{Shared, now_ms};
use hedgerow::backend::Backend;

const BAD_FORMAT: Failure = Failure::Line("CLIENT_ERROR bad command line format");
const ERROR: Failure = Failure::Line("ERROR");
const INVALID_EXPTIME: Failure = Failure::Line("CLIENT_ERROR invalid exptime argument");

/// Appends `VALUE key flags bytes [cas]` and the line end; the data and a line end follow.
#[inline]
pub(super) fn value_head(
    key: &[u8],
    flags: u32,
    bytes: usize,
    cas: Option<u64>,
    out: &mut ReplyBuffer,
) {
    out.reserve(key.len() + 48);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    put_number(flags.into(), out);
    out.push(b' ');
    put_number(bytes as u64, out);
    if let Some(cas) = cas {
        out.push(b' ');
        put_number(cas, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Runs a request, of whose keys so many were answered already.
pub(super) fn run<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    answered_keys: usize,
    out: &mut ReplyBuffer,
) -> Outcome {
    let Some(command) = words.get(0) else {
        return Err(ERROR);
    };
    let data = usize::from(frame::stores(command));
    if word_counts(command).is_some_and(|counts| !counts.contains(&(words.len() - data))) {
        return Err(ERROR);
    }
    match command {
        b"get" | b"gets" => Err(ERROR),
        b"gat" | b"gats" => get_and_touch(shared, words, answered_keys, out),
        b"set" => store(shared, words, Mode::Set, out),
        b"add" => store(shared, words, Mode::Add, out),
        b"replace" => store(shared, words, Mode::Replace, out),
        b"append" => store(shared, words, Mode::Append, out),
        b"prepend" => store(shared, words, Mode::Prepend, out),
        b"cas" => store(shared, words, Mode::Set, out),
        b"incr" => count(shared, words, false, out),
        b"decr" => count(shared, words, true, out),
        b"touch" => touch(shared, words, out),
        b"delete" => delete(shared, words, out),
        b"flush_all" => flush_all(shared, words, out),
        b"version" if words.len() == 1 => line(
            format!("VERSION {}", env!("CARGO_PKG_VERSION")).as_bytes(),
            out,
        ),
        b"verbosity" => verbosity(words, out),
        b"stats" => stats::run(shared, words, out),
        b"quit" if words.len() == 1 => Ok(Done::Quit),
        b"shutdown" => Err(Failure::Line("ERROR: shutdown not enabled")),
        _ => Err(ERROR),
    }
}

fn line(text: &[u8], out: &mut ReplyBuffer) -> Outcome {
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
    Ok(Done::Nothing)
}

/// How many words a command that knows `noreply` takes, its name included. Of others nobody counts
/// them, as in memcached, or the command does so itself.
fn word_counts(command: &[u8]) -> Option<RangeInclusive<usize>> {
    match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" => Some(5..=6),
        b"cas" => Some(6..=7),
        b"incr" | b"decr" | b"touch" => Some(3..=4),
        b"delete" => Some(2..=4),
        b"flush_all" => Some(1..=3),
        b"verbosity" => Some(2..=3),
        _ => None,
    }
}

/// Whether the client wants no reply: the line of a command that knows `noreply` ends in it. With
/// too many or too few words it is no such line, and gets its error.
pub(super) fn is_quiet(line: Words<'_>) -> bool {
    let command = line.get(0).unwrap_or_default();
    let is_key = command == b"delete" && line.len() == 2;
    word_counts(command).is_some_and(|counts| counts.contains(&line.len()))
        && line.get(line.len() - 1) == Some(b"noreply")
        && !is_key
}

/// The error for a line that was not taken apart: words are missing, or a key is none.
pub(super) fn malformed(line: Words<'_>) -> Failure {
    match (line.get(0), line.len()) {
        (Some(b"get" | b"gets"), _) | (Some(b"ms"), 2..) => BAD_FORMAT,
        _ => ERROR,
    }
}

/// Whether a request is one of the commands that change items.
pub(super) fn writes(words: Words<'_>) -> bool {
    let Some(command) = words.get(0) else {
        return false;
    };
    let others: [&[u8]; 7] = [
        b"incr",
        b"decr",
        b"touch",
        b"gat",
        b"gats",
        b"delete",
        b"flush_all",
    ];
    frame::stores(command) || others.contains(&command)
}

/// Replies, unless the request ends in `noreply`.
fn quietly(words: Words<'_>, text: &[u8], out: &mut ReplyBuffer) -> Result<(), Failure> {
    if !is_quiet(words) {
        line(text, out)?;
    }
    Ok(())
}

fn key(words: Words<'_>, i: usize) -> Result<&[u8], Failure> {
    match words.get(i) {
        Some(key) if frame::valid_key(key) => Ok(key),
        _ => Err(BAD_FORMAT),
    }
}

fn exptime(word: Option<&[u8]>) -> Result<Option<u64>, Failure> {
    let exptime = word.and_then(request::exptime).ok_or(INVALID_EXPTIME)?;
    Ok(expiry_ms(exptime, now_ms()))
}

/// `gat exptime key…` and `gats`: some keys at a time, as the client fetches their values.
fn get_and_touch<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    answered_keys: usize,
    out: &mut ReplyBuffer,
) -> Outcome {
    if words.len() < 2 {
        return Err(ERROR);
    }
    let with_cas = words.get(0) == Some(b"gats");
    let expiry_ms = exptime(words.get(1))?;
    if answered_keys == 0 {
        // Nothing is touched if a key is none.
        (2..words.len()).try_for_each(|i| key(words, i).map(drop))?;
    }
    let (mut last, unsent) = (None, out.unsent());
    for i in 2 + answered_keys..words.len() {
        if out.unsent() - unsent >= LARGE_REPLIES_BYTES {
            return Ok(Done::Partly {
                commit: last,
                answered_keys: i - 2,
            });
        }
        let key = key(words, i)?;
        let (found, commit) = items::touch(shared, key, expiry_ms)?;
        if let Some(found) = found {
            let cas = with_cas.then_some(found.cas);
            value_head(key, found.user_flags, found.value.len(), cas, out);
            out.put_owned(found.value);
            out.extend_from_slice(b"\r\n");
        }
        last = last.max(commit);
    }
    line(b"END", out)?;
    Ok(Done::Wrote(last))
}

/// `set key flags exptime bytes [noreply]`, with a cas value before `noreply` for `cas`.
fn store<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    mode: Mode,
    out: &mut ReplyBuffer,
) -> Outcome {
    let (words, value) = words.split_data();
    let is_cas = words.get(0) == Some(b"cas");
    let key = key(words, 1)?;
    let user_flags = words
        .get(2)
        .and_then(number)
        .and_then(|flags| u32::try_from(flags).ok())
        .ok_or(BAD_FORMAT)?;
    let exptime = words.get(3).and_then(request::exptime).ok_or(BAD_FORMAT)?;
    let compare = match is_cas {
        true => Some(words.get(5).and_then(number).ok_or(BAD_FORMAT)?),
        false => None,
    };
    let expiry_ms = expiry_ms(exptime, now_ms());
    let item = Item {
        value,
        user_flags,
        expiry_ms,
        compare,
        create: false,
        stale_if_older: false,
        version: None,
    };
    let StoreResult { stored, commit, .. } = items::store(shared, key, mode, item)?;
    let text: &[u8] = match stored {
        Stored::Done => b"STORED",
        Stored::Refused => b"NOT_STORED",
        Stored::Exists => b"EXISTS",
        Stored::NotFound => b"NOT_FOUND",
    };
    quietly(words, text, out)?;
    Ok(Done::Wrote(commit))
}

fn count<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    down: bool,
    out: &mut ReplyBuffer,
) -> Outcome {
    let key = key(words, 1)?;
    let delta = words
        .get(2)
        .and_then(number)
        .ok_or(Failure::Line("CLIENT_ERROR invalid numeric delta argument"))?;
    let by = Count {
        down,
        delta,
        initial: 0,
        expiry: ExpiryFlags::default(),
        compare: None,
        version: None,
    };
    let (counted, commit) = items::count(shared, key, by)?;
    match counted {
        Counted::Now { value, .. } => {
            quietly(words, itoa::Buffer::new().format(value).as_bytes(), out)?
        }
        Counted::NotFound | Counted::Exists => quietly(words, b"NOT_FOUND", out)?,
        Counted::NotANumber => {
            return Err(Failure::Line(
                "CLIENT_ERROR cannot increment or decrement non-numeric value",
            ));
        }
    }
    Ok(Done::Wrote(commit))
}

fn touch<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let key = key(words, 1)?;
    let (found, commit) = items::touch(shared, key, exptime(words.get(2))?)?;
    quietly(
        words,
        if found.is_some() {
            b"TOUCHED"
        } else {
            b"NOT_FOUND"
        },
        out,
    )?;
    Ok(Done::Wrote(commit))
}

/// `delete key [0] [noreply]`: a time of 0 is a relic that clients still send.
fn delete<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let key = key(words, 1)?;
    let rest: Vec<_> = words.from(2).collect();
    if !matches!(
        rest.as_slice(),
        [] | [b"0"] | [b"noreply"] | [b"0", b"noreply"]
    ) {
        return Err(Failure::Line(
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        ));
    }
    let (deleted, commit) = items::delete(shared, key, Delete::default())?;
    quietly(
        words,
        if deleted == Stored::Done {
            b"DELETED"
        } else {
            b"NOT_FOUND"
        },
        out,
    )?;
    Ok(Done::Wrote(commit))
}

/// `flush_all [delay] [noreply]`: with a delay, in seconds or as a Unix time, it removes everything
/// that exists when it is due. The last delay counts, and a restart forgets it.
fn flush_all<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let delay = match words.len() {
        2 if is_quiet(words) => None,
        _ => words.get(1),
    };
    let at_ms = match delay.map(request::exptime) {
        Some(None) => return Err(INVALID_EXPTIME),
        None | Some(Some(..=0)) => None,
        Some(Some(delay)) => expiry_ms(delay, now_ms()).filter(|at_ms| *at_ms > now_ms()),
    };
    match at_ms {
        Some(at_ms) => shared.flush_later(at_ms),
        None => shared.flush_now()?,
    }
    quietly(words, b"OK", out)?;
    Ok(Done::Nothing)
}

/// `verbosity [level] [noreply]`: taken and ignored, there is nothing to be verbose about.
fn verbosity(words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    words.get(1).and_then(number).ok_or(BAD_FORMAT)?;
    quietly(words, b"OK", out)?;
    Ok(Done::Nothing)
}
