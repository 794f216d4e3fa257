//! The meta commands: two letters, a key, and flags that say what to do and what to return.
//!
//! | command | what | flags of its own |
//! |---|---|---|
//! | `mg key` | get | `c f s t v` return, `T(ttl)` touch, `N(ttl)` make an empty item if missing, `R(ttl)` make anew if less is left, `C(cas)` no value if that is its cas value |
//! | `ms key bytes` | set | `c s` return, `C(cas)`, `F(flags)`, `I` stale if older, `T(ttl)`, `M(mode)`, `N(ttl)` with append |
//! | `md key` | delete | `C(cas)`, `I` mark stale, `x` empty, `T(ttl)` and `F(flags)` with these |
//! | `ma key` | arithmetic | `c t v` return, `C(cas)`, `D(delta)`, `J(initial)`, `N(ttl)`, `T(ttl)`, `M(mode)` |
//! | `mn` | nothing | – |
//! | `me key` | describe | `b` |
//! | `mr start end` | ordered scan | see `scan` |
//!
//! All of the first four know `b k O q`, and `E(cas)`, which chooses the cas value of an item that
//! the command writes. A flag that means nothing to a command is ignored, as in memcached.
//!
//! A stale item is still served, with `X`. The first client that reads it gets `W`: it won, and
//! should make the item anew; all others get `Z`. The same holds for items that `N` made, or of
//! which `R` finds too little time left. Two marks of the row store this ([`items::STALE`],
//! [`items::CLAIMED`]); any new value clears them. `h` and `l` ask whether and when an item was
//! read before. Rows do not store that, so replies leave the two out. `u` asks that a read leave no
//! trace, and no read does.

use super::flags::{BAD_TOKEN, Flags, NOT_DECODED, OPAQUE_TOO_LONG, key};
use super::item_reply::{Shown, reply, reply_found, reply_item, show_key};
use super::items::{
    self, Count, Counted, Delete, Fetch, Fetched, Found, Item, Mode, StoreResult, Stored,
};
use super::outcome::{Done, Failure, Outcome};
use super::request::{Words, exptime};
use super::scan;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::shared::Shared;
use hedgerow::backend::Backend;

/// The error for a command without a key, as in memcached.
const ERROR: Failure = Failure::Line("ERROR");

/// Runs a meta command.
pub(super) fn run<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    out: &mut ReplyBuffer,
) -> Outcome {
    match words.get(0) {
        Some(b"mg" | b"md" | b"ma") if words.len() == 1 => Err(ERROR),
        Some(b"mg") => get(shared, words, out),
        Some(b"ms") => set(shared, words, out),
        Some(b"md") => delete(shared, words, out),
        Some(b"ma") => arithmetic(shared, words, out),
        Some(b"me") => describe(shared, words, out),
        Some(b"mr") => scan::run(shared, words, out),
        Some(b"mn") => {
            out.extend_from_slice(b"MN\r\n");
            Ok(Done::Nothing)
        }
        _ => Err(ERROR),
    }
}

/// Whether a request is a meta command that changes items, as `mg` does with some flags. An `mg`
/// that would only claim a stale item is none: see [`items::fetch`].
pub(super) fn writes(words: Words<'_>) -> bool {
    match words.get(0) {
        Some(b"ms" | b"md" | b"ma") => true,
        Some(b"mg") => words
            .from(2)
            .any(|flag| matches!(flag.first(), Some(b'N' | b'R' | b'T'))),
        _ => false,
    }
}

fn get<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse(&words, 2, b"cfkOst")?;
    let key = key(words.get(1), &flags)?;
    let recache = flags
        .argument(b'R')
        .map(|word| exptime(word).ok_or(BAD_TOKEN));
    let known = flags.number(b'C')?;
    let fetch = Fetch {
        expiry: flags.expiry_flags()?,
        recache_s: recache.transpose()?,
        version: flags.number(b'E')?,
    };
    let Fetched { found, was, commit } = items::fetch(shared, &key, fetch)?;
    match found {
        Some(found) => {
            let with_value = flags.has(b'v') && (known.is_none() || known != was);
            reply_found(&flags, &key, found, with_value, out);
        }
        None => reply(b"EN", true, &flags, &key, None, out),
    }
    Ok(Done::Wrote(commit))
}

fn client_flags(flags: &Flags<'_>) -> Result<u32, Failure> {
    let given = flags.number(b'F')?;
    given.map_or(Ok(0), u32::try_from).map_err(|_| BAD_TOKEN)
}

fn set<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let (words, value) = words.split_data();
    let flags = Flags::parse(&words, 3, b"ckOs")?;
    let key = key(words.get(1), &flags)?;
    let user_flags = client_flags(&flags)?;
    // As in memcached, the first letter says it; unlike there, a small one does, too.
    let mode = match flags.argument(b'M') {
        None | Some([b'S' | b's', ..]) => Mode::Set,
        Some([b'E' | b'e', ..]) => Mode::Add,
        Some([b'A' | b'a', ..]) => Mode::Append,
        Some([b'P' | b'p', ..]) => Mode::Prepend,
        Some([b'R' | b'r', ..]) => Mode::Replace,
        Some(_) => return Err(Failure::Line("CLIENT_ERROR invalid mode for ms M token")),
    };
    let vivify = flags
        .expiry(b'N')?
        .filter(|_| matches!(mode, Mode::Append | Mode::Prepend));
    let item = Item {
        value,
        user_flags,
        // An item that is made because it is missing has the time of `N`, as in memcached.
        expiry_ms: vivify.or(flags.expiry(b'T')?).flatten(),
        compare: flags.number(b'C')?,
        create: vivify.is_some(),
        stale_if_older: flags.has(b'I'),
        version: flags.number(b'E')?,
    };
    let StoreResult {
        stored,
        length,
        commit,
    } = items::store(shared, &key, mode, item)?;
    let code: &[u8] = match stored {
        Stored::Done => b"HD",
        Stored::Refused => b"NS",
        Stored::Exists => b"EX",
        Stored::NotFound => b"NF",
    };
    let shown = Shown {
        bytes: length,
        user_flags,
        cas: items::new_cas(item.version, commit.as_ref()),
        expiry_ms: item.expiry_ms,
    };
    let is_usual = stored == Stored::Done;
    reply(code, is_usual, &flags, &key, Some(shown), out);
    Ok(Done::Wrote(commit))
}

fn delete<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse(&words, 2, b"kO")?;
    let key = key(words.get(1), &flags)?;
    let user_flags = client_flags(&flags)?;
    let delete = Delete {
        compare: flags.number(b'C')?,
        invalidate: flags.has(b'I'),
        empty: flags.has(b'x').then_some(user_flags),
        touch: flags.expiry(b'T')?,
        version: flags.number(b'E')?,
    };
    let (deleted, commit) = items::delete(shared, &key, delete)?;
    let code: &[u8] = match deleted {
        Stored::Done => b"HD",
        Stored::Exists | Stored::Refused => b"EX",
        Stored::NotFound => b"NF",
    };
    // q hides what was to be expected.
    reply(code, deleted == Stored::Done, &flags, &key, None, out);
    Ok(Done::Wrote(commit))
}

/// What `ma` says of its flags: as in memcached, not what is wrong with them.
fn of_arithmetic(failure: Failure) -> Failure {
    match failure {
        Failure::Line(OPAQUE_TOO_LONG) => failure,
        _ => Failure::Line("CLIENT_ERROR invalid or duplicate flag"),
    }
}

fn arithmetic<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse(&words, 2, b"ckOt").map_err(of_arithmetic)?;
    let key = key(words.get(1), &flags).map_err(|failure| match failure {
        // Flag `b` is wrong, then.
        Failure::Line(NOT_DECODED) => of_arithmetic(failure),
        _ => failure,
    })?;
    let down = match flags.argument(b'M') {
        None | Some([b'I' | b'i' | b'+', ..]) => false,
        Some([b'D' | b'd' | b'-', ..]) => true,
        Some(_) => return Err(Failure::Line("CLIENT_ERROR invalid mode for ma M token")),
    };
    let by = Count {
        down,
        delta: flags.number(b'D')?.unwrap_or(1),
        initial: flags.number(b'J')?.unwrap_or(0),
        expiry: flags.expiry_flags()?,
        compare: flags.number(b'C')?,
        version: flags.number(b'E')?,
    };
    let (counted, commit) = items::count(shared, &key, by)?;
    match counted {
        Counted::Now {
            value,
            cas,
            expiry_ms,
        } => {
            // q hides what was to be expected.
            if !flags.has(b'q') {
                let value = value.to_string().into_bytes();
                let found = Found {
                    value,
                    user_flags: 0,
                    cas,
                    expiry_ms,
                    marks: 0,
                    won: false,
                };
                reply_item(&flags, &key, found, out);
            }
        }
        Counted::NotFound => reply(b"NF", false, &flags, &key, None, out),
        Counted::Exists => reply(b"EX", false, &flags, &key, None, out),
        Counted::NotANumber => {
            return Err(Failure::Line(
                "CLIENT_ERROR cannot increment or decrement non-numeric value",
            ));
        }
    }
    Ok(Done::Wrote(commit))
}

/// `me key`: what is known of an item, for people.
fn describe<B: Backend>(shared: &Shared<B>, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse_known(&words, 2, b"b", b"")?;
    let key = key(words.get(1), &flags)?;
    match items::read(shared, &key)? {
        None => out.extend_from_slice(b"EN\r\n"),
        Some(found) => {
            out.extend_from_slice(b"ME ");
            show_key(&flags, &key, out);
            let ttl = found
                .expiry_ms
                .map_or(-1, |at_ms| items::seconds_left(at_ms) as i64);
            let rest = format!(
                " exp={ttl} cas={} size={}\r\n",
                found.cas,
                found.value.len()
            );
            out.extend_from_slice(rest.as_bytes());
        }
    }
    Ok(Done::Nothing)
}
