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
//! A stale item is still served, with `X`. Of those who read it the first gets `W`: it won, and is
//! to make the item anew; all others get `Z`. The same goes for items that `N` made, or of which
//! `R` finds too little time left. Two marks of the row keep this ([`items::STALE`],
//! [`items::CLAIMED`]); any new value clears them.
//!
//! `h` and `l` ask whether and when an item was read before, which rows do not keep: these two are
//! left out of the reply. `u` asks that a read leave no trace, and none does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::items::{
    self, CLAIMED, Count, Counted, Delete, Fetch, Fetched, Found, Item, Mode, STALE, Stored,
};
use super::{Done, Failure, Outcome, Words, expiry_ms, frame, number, put_number, scan, signed};
use crate::connection::reply_buffer::ReplyBuffer;
use crate::shared::{Shared, now_ms};

const BAD_FORMAT: Failure = Failure::Line("CLIENT_ERROR bad command line format");
const BAD_TOKEN: Failure = Failure::Line("CLIENT_ERROR bad token in command line format");
const INVALID_FLAG: Failure = Failure::Line("CLIENT_ERROR invalid flag");

/// The flags that meta commands know, each what concerns it.
const KNOWN: &[u8] = b"bcfhklOqstuvxCDEFIJLMNPRT";
/// The longest opaque token, its letter included, as in memcached.
const MAX_OPAQUE_BYTES: usize = 32;

pub(super) fn run(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    match words.get(0) {
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
        _ => Err(Failure::Line("ERROR")),
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

/// The flags of a request. Each stands once; its argument follows its letter.
pub(super) struct Flags<'a> {
    words: Vec<&'a [u8]>,
    /// The letters of those that the reply can return.
    returned: &'static [u8],
}

impl<'a> Flags<'a> {
    /// Takes the flags of one of memcached's commands from word `first` on.
    fn parse(
        words: &Words<'a>,
        first: usize,
        returned: &'static [u8],
    ) -> Result<Flags<'a>, Failure> {
        Flags::parse_known(words, first, KNOWN, returned)
    }

    /// Takes the flags from word `first` on; `known` are the letters that the command knows.
    pub(super) fn parse_known(
        words: &Words<'a>,
        first: usize,
        known: &[u8],
        returned: &'static [u8],
    ) -> Result<Flags<'a>, Failure> {
        let words: Vec<&[u8]> = words.from(first).collect();
        let mut seen = 0u128;
        for word in &words {
            let letter = word[0];
            if !known.contains(&letter) {
                return Err(INVALID_FLAG);
            }
            let bit = 1u128 << (letter & 127);
            if seen & bit != 0 {
                return Err(Failure::Line("CLIENT_ERROR duplicate flag"));
            }
            seen |= bit;
            if letter == b'O' && word.len() > MAX_OPAQUE_BYTES {
                return Err(Failure::Line("CLIENT_ERROR opaque token too long"));
            }
        }
        Ok(Flags { words, returned })
    }

    pub(super) fn argument(&self, letter: u8) -> Option<&'a [u8]> {
        self.words
            .iter()
            .find(|word| word[0] == letter)
            .map(|word| &word[1..])
    }

    /// Returns the key whether asked or not.
    pub(super) fn imply_key(&mut self) {
        if !self.has(b'k') {
            self.words.insert(0, b"k");
        }
    }

    /// Whether both flags are there, in this order.
    fn is_before(&self, first: u8, second: u8) -> bool {
        let place = |letter| self.words.iter().position(|word| word[0] == letter);
        place(first).is_some() && place(first) < place(second)
    }

    pub(super) fn has(&self, letter: u8) -> bool {
        self.argument(letter).is_some()
    }

    pub(super) fn number(&self, letter: u8) -> Result<Option<u64>, Failure> {
        self.argument(letter)
            .map(|word| number(word).ok_or(BAD_TOKEN))
            .transpose()
    }

    /// A time to live, as the moment of expiry; `None` without the flag.
    fn expiry(&self, letter: u8) -> Result<Option<Option<u64>>, Failure> {
        let ttl = self
            .argument(letter)
            .map(|word| signed(word).ok_or(BAD_TOKEN))
            .transpose()?;
        Ok(ttl.map(|ttl| expiry_ms(ttl, now_ms())))
    }
}

/// The key of a request, decoded.
pub(super) fn key<'a>(
    word: Option<&'a [u8]>,
    flags: &Flags<'_>,
) -> Result<std::borrow::Cow<'a, [u8]>, Failure> {
    let word = word
        .filter(|word| frame::valid_key(word))
        .ok_or(BAD_FORMAT)?;
    if !flags.has(b'b') {
        return Ok(word.into());
    }
    STANDARD
        .decode(word)
        .map(Into::into)
        .map_err(|_| Failure::Line("CLIENT_ERROR error decoding key"))
}

/// What the flags of a reply tell of an item.
#[derive(Clone, Copy)]
struct Shown {
    bytes: usize,
    user_flags: u32,
    cas: u64,
    expiry_ms: Option<u64>,
}

impl Shown {
    fn of(found: &Found) -> Shown {
        Shown {
            bytes: found.value.len(),
            user_flags: found.user_flags,
            cas: found.cas,
            expiry_ms: found.expiry_ms,
        }
    }
}

/// Appends the flags that a reply returns, in the order in which they were asked for.
fn return_flags(flags: &Flags<'_>, key: &[u8], found: Option<Shown>, out: &mut ReplyBuffer) {
    for word in &flags.words {
        if !flags.returned.contains(&word[0]) {
            continue;
        }
        let from = out.position();
        out.extend_from_slice(&[b' ', word[0]]);
        match (word[0], found) {
            (b'O', _) => out.extend_from_slice(&word[1..]),
            (b'k', _) => {
                show_key(flags, key, out);
                if flags.has(b'b') {
                    out.extend_from_slice(b" b");
                }
            }
            (b'c', Some(found)) => put_number(found.cas, out),
            (b'f', Some(found)) => put_number(found.user_flags.into(), out),
            (b's', Some(found)) => put_number(found.bytes as u64, out),
            (b't', Some(found)) => match found.expiry_ms {
                None => out.extend_from_slice(b"-1"),
                Some(at_ms) => put_number(at_ms.saturating_sub(now_ms()).div_ceil(1000), out),
            },
            _ => out.truncate(from),
        }
    }
}

pub(super) fn show_key(flags: &Flags<'_>, key: &[u8], out: &mut ReplyBuffer) {
    if flags.has(b'b') {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
    } else {
        out.extend_from_slice(key);
    }
}

/// Replies `code` with the returned flags, or nothing if the client wants to hear of other ends
/// only.
fn reply(
    code: &[u8],
    quiet: bool,
    flags: &Flags<'_>,
    key: &[u8],
    found: Option<Shown>,
    out: &mut ReplyBuffer,
) {
    if quiet && flags.has(b'q') {
        return;
    }
    out.extend_from_slice(code);
    return_flags(flags, key, found, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends what the reader of a stale item, or of one that others make anew, must know.
fn stale_flags(found: &Found, out: &mut ReplyBuffer) {
    for (shown, flag) in [
        (found.marks & CLAIMED != 0, b" Z"),
        (found.marks & STALE != 0, b" X"),
        (found.won, b" W"),
    ] {
        if shown {
            out.extend_from_slice(flag);
        }
    }
}

/// `HD flags`, or `VA size flags` and the data if the value is wanted.
pub(super) fn reply_item(flags: &Flags<'_>, key: &[u8], found: Found, out: &mut ReplyBuffer) {
    reply_found(flags, key, found, flags.has(b'v'), out);
}

fn reply_found(
    flags: &Flags<'_>,
    key: &[u8],
    found: Found,
    with_value: bool,
    out: &mut ReplyBuffer,
) {
    if with_value {
        out.extend_from_slice(b"VA ");
        put_number(found.value.len() as u64, out);
    } else {
        out.extend_from_slice(b"HD");
    }
    return_flags(flags, key, Some(Shown::of(&found)), out);
    stale_flags(&found, out);
    out.extend_from_slice(b"\r\n");
    if with_value {
        out.put_owned(found.value);
        out.extend_from_slice(b"\r\n");
    }
}

fn get(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse(&words, 2, b"cfkOst")?;
    let key = key(words.get(1), &flags)?;
    let recache = flags
        .argument(b'R')
        .map(|word| signed(word).ok_or(BAD_TOKEN));
    let known = flags.number(b'C')?;
    let fetch = Fetch {
        touch: flags.expiry(b'T')?,
        vivify: flags.expiry(b'N')?,
        recache_s: recache.transpose()?,
        touch_first: flags.is_before(b'T', b'R'),
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

fn set(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let (words, value) = words.split_data();
    let flags = Flags::parse(&words, 3, b"ckOs")?;
    let key = key(words.get(1), &flags)?;
    let user_flags = client_flags(&flags)?;
    let mode = match flags.argument(b'M') {
        None | Some(b"S" | b"s") => Mode::Set,
        Some(b"E" | b"e") => Mode::Add,
        Some(b"A" | b"a") => Mode::Append,
        Some(b"P" | b"p") => Mode::Prepend,
        Some(b"R" | b"r") => Mode::Replace,
        Some(_) => return Err(Failure::Line("CLIENT_ERROR invalid mode for ms M token")),
    };
    let vivify = flags
        .expiry(b'N')?
        .filter(|_| matches!(mode, Mode::Append | Mode::Prepend));
    let item = Item {
        value,
        user_flags,
        expiry_ms: flags.expiry(b'T')?.or(vivify).flatten(),
        compare: flags.number(b'C')?,
        create: vivify.is_some(),
        stale_if_older: flags.has(b'I'),
        version: flags.number(b'E')?,
    };
    let (stored, length, commit) = items::store(shared, &key, mode, item)?;
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

fn delete(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
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

fn arithmetic(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse(&words, 2, b"ckOt")?;
    let key = key(words.get(1), &flags)?;
    let down = match flags.argument(b'M') {
        None | Some(b"I" | b"i" | b"+") => false,
        Some(b"D" | b"d" | b"-") => true,
        Some(_) => return Err(Failure::Line("CLIENT_ERROR invalid mode for ma M token")),
    };
    let initial = flags.number(b'J')?.unwrap_or(0);
    let by = Count {
        down,
        delta: flags.number(b'D')?.unwrap_or(1),
        initial: flags.expiry(b'N')?.map(|expiry_ms| (initial, expiry_ms)),
        touch: flags.expiry(b'T')?,
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
fn describe(shared: &Shared, words: Words<'_>, out: &mut ReplyBuffer) -> Outcome {
    let flags = Flags::parse_known(&words, 2, b"b", b"")?;
    let key = key(words.get(1), &flags)?;
    match items::read(shared, &key)? {
        None => out.extend_from_slice(b"EN\r\n"),
        Some(found) => {
            out.extend_from_slice(b"ME ");
            show_key(&flags, &key, out);
            let ttl = found
                .expiry_ms
                .map_or(-1, |at| (at.saturating_sub(now_ms()) / 1000) as i64);
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
