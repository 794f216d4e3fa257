//! What meta commands reply of an item: its flags, and its value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::flags::Flags;
use super::frame;
use super::items::{CLAIMED, Found, STALE, seconds_left};
use super::outcome::put_number;
use crate::connection::reply_buffer::ReplyBuffer;

/// What the flags of a reply tell of an item.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    pub(super) bytes: usize,
    pub(super) user_flags: u32,
    pub(super) cas: u64,
    pub(super) expiry_ms: Option<u64>,
}

impl Shown {
    pub(super) fn of(found: &Found) -> Shown {
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
            (b'k', _) => return_key(flags, key, out),
            (b'c', Some(found)) => put_number(found.cas, out),
            (b'f', Some(found)) => put_number(found.user_flags.into(), out),
            (b's', Some(found)) => put_number(found.bytes as u64, out),
            (b't', Some(found)) => match found.expiry_ms {
                None => out.extend_from_slice(b"-1"),
                Some(at_ms) => put_number(seconds_left(at_ms), out),
            },
            _ => out.truncate(from),
        }
    }
}

/// Appends the key that flag `k` returns: in base64, and then with `b` behind it, if the client
/// asks for that, or if the key is none that a line can hold. Redis clients write such keys, and
/// scans meet them.
fn return_key(flags: &Flags<'_>, key: &[u8], out: &mut ReplyBuffer) {
    if flags.has(b'b') || !frame::is_word(key) {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}

/// Appends a key as the request named it: in base64 if it has flag `b`.
pub(super) fn show_key(flags: &Flags<'_>, key: &[u8], out: &mut ReplyBuffer) {
    if flags.has(b'b') {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
    } else {
        out.extend_from_slice(key);
    }
}

/// Replies `code` with the returned flags, or nothing if the client wants to hear of other ends
/// only.
pub(super) fn reply(
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

pub(super) fn reply_found(
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
