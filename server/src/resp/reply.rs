//! Writing RESP replies.
//!
//! One writer serves both versions of the protocol: RESP3 has types of its own for null, maps,
//! doubles and booleans; RESP2 says them with what it has, as Redis does.

use std::cell::Cell;

/// How long the output may become by one reply.
#[derive(Debug)]
pub(crate) struct ReplyLimit {
    bytes: usize,
    exceeded: Cell<bool>,
}

impl ReplyLimit {
    pub(crate) fn new(bytes: usize) -> ReplyLimit {
        ReplyLimit {
            bytes,
            exceeded: Cell::new(false),
        }
    }

    /// Whether something was left out of the reply.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.get()
    }
}

/// A longer byte string is appended to a buffer that grows by little more than it needs.
const LARGE_BYTES: usize = 64 << 10;

/// Appends replies to a connection's output.
pub(crate) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    resp3: bool,
    limit: Option<&'a ReplyLimit>,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, resp3: bool) -> Reply<'a> {
        let limit = None;
        Reply { out, resp3, limit }
    }

    /// A reply that leaves out what exceeds a limit, and lets the limit tell.
    pub(crate) fn limited(out: &'a mut Vec<u8>, resp3: bool, limit: &'a ReplyLimit) -> Reply<'a> {
        let limit = Some(limit);
        Reply { out, resp3, limit }
    }

    /// Whether so many bytes more are within the limit.
    #[inline]
    fn admits(&self, bytes: usize) -> bool {
        self.limit.is_none_or(|limit| {
            let admits = self.out.len() + bytes <= limit.bytes;
            if !admits {
                limit.exceeded.set(true);
            }
            admits
        })
    }

    /// The same writer, lent to a callee.
    pub(crate) fn again(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            resp3: self.resp3,
            limit: self.limit,
        }
    }

    /// Changes the version of the protocol from here on.
    pub(crate) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Whether replies are of version 3 of the protocol.
    pub(crate) fn is_resp3(&self) -> bool {
        self.resp3
    }

    /// Bytes written so far, for [`Reply::truncate`].
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written after `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Raw bytes, already encoded.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: i64) {
        let mut buffer = itoa::Buffer::new();
        self.line(kind, buffer.format(number).as_bytes());
    }

    pub(crate) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; line breaks in it become blanks, as a reply line must be one line.
    pub(crate) fn error(&mut self, text: &str) {
        let text = text.replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(crate) fn count(&mut self, number: usize) {
        self.number(b':', number as i64);
    }

    /// A byte string. A short one, as most are, is put together in place: appending six pieces
    /// with their checks costs several times the copying, and so does putting them together
    /// aside (the wide load that copies the line would wait for the narrow stores before it).
    #[inline]
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        const SHORT: usize = 56;
        const LINE: usize = SHORT + 8;
        let len = bytes.len();
        if !self.admits(len) {
            return;
        }
        if len <= 8 {
            return self.word_bulk(bytes);
        }
        let end = self.out.len();
        self.out.extend_from_slice(&[0; LINE]);
        let Some(line) = self.out.last_chunk_mut::<LINE>().filter(|_| len <= SHORT) else {
            self.out.truncate(end);
            return self.long_bulk(bytes);
        };
        line[0] = b'$';
        let digits = if len < 10 { 1 } else { 2 };
        line[1] = b'0' + (len / 10) as u8;
        line[digits] = b'0' + (len % 10) as u8;
        let start = digits + 3;
        line[digits + 1..start].copy_from_slice(b"\r\n");
        copy_short(&mut line[start..start + len], bytes);
        line[start + len..start + len + 2].copy_from_slice(b"\r\n");
        self.out.truncate(end + start + len + 2);
    }

    /// A byte string of up to 8 bytes (integers, counters, the keys of many a scan), framed in
    /// registers and stored at once: less than half of the instructions of the general case.
    #[inline]
    fn word_bulk(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        let head = u32::from_le_bytes(*b"$0\r\n") + ((len as u32) << 8);
        let end = u16::from_le_bytes(*b"\r\n");
        let line = u128::from(head)
            | u128::from(short_word(bytes)) << 32
            | u128::from(end) << (32 + 8 * len);
        let start = self.out.len();
        self.out.extend_from_slice(&line.to_le_bytes());
        self.out.truncate(start + len + 6);
    }

    fn long_bulk(&mut self, bytes: &[u8]) {
        let mut buffer = itoa::Buffer::new();
        let length = buffer.format(bytes.len()).as_bytes();
        let more = bytes.len() + length.len() + 5;
        if more > LARGE_BYTES && self.out.capacity() - self.out.len() < more {
            // Doubling would waste as much again.
            self.out.reserve_exact(more.max(self.out.capacity() / 8));
        } else {
            self.out.reserve(more);
        }
        self.out.push(b'$');
        self.out.extend_from_slice(length);
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The null of an aborted `EXEC`.
    pub(crate) fn null_array(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// A map of `pairs` pairs; a flat array in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 {
            self.number(b'%', pairs as i64);
        } else {
            self.number(b'*', 2 * pairs as i64);
        }
    }

    /// Long text for people: verbatim in RESP3.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.number(b'=', text.len() as i64 + 4);
            self.raw(b"txt:");
            self.raw(text.as_bytes());
            self.raw(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Opens an array whose length is not known yet but probably `expected`: see
    /// [`Reply::close_array`].
    pub(crate) fn open_array(&mut self, expected: usize) -> OpenArray {
        let start = self.out.len();
        self.array(expected.min(i64::MAX as usize));
        OpenArray {
            start,
            content: self.out.len(),
            expected,
        }
    }

    /// Bytes of an open array's entries so far.
    pub(crate) fn since(&self, opened: &OpenArray) -> usize {
        self.out.len() - opened.content
    }

    /// Corrects the header of an array that has become `len` entries long. Moves the array if
    /// that was not expected.
    pub(crate) fn close_array(&mut self, opened: OpenArray, len: usize) {
        if len != opened.expected {
            let mut buffer = itoa::Buffer::new();
            let header = [b"*", buffer.format(len).as_bytes(), b"\r\n"].concat();
            self.out.splice(opened.start..opened.content, header);
        }
    }
}

/// An array whose entries are being written.
pub(crate) struct OpenArray {
    /// Where its header stands.
    start: usize,
    /// Where its entries begin.
    content: usize,
    expected: usize,
}

/// Up to 8 bytes as a little-endian word with zeros behind them.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The two halves may overlap; where they do, they are equal.
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        return u64::from(head) | u64::from(tail) << (8 * (bytes.len() - 4));
    }
    let bytes = bytes.iter().rev();
    bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Copies few bytes between slices of one length: with moves of constant length that overlap,
/// which takes a fraction of the time of a call to copy memory.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    macro_rules! both_ends {
        ($size:literal) => {
            if let (Some(head), Some(tail)) = (from.first_chunk::<$size>(), from.last_chunk()) {
                if let Some(place) = to.first_chunk_mut::<$size>() {
                    *place = *head;
                }
                if let Some(place) = to.last_chunk_mut::<$size>() {
                    *place = *tail;
                }
                return;
            }
        };
    }
    if from.len() > 32 {
        both_ends!(32);
    }
    if from.len() > 16 {
        both_ends!(16);
    }
    both_ends!(8);
    both_ends!(4);
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_of_every_length_are_framed() {
        for len in (0..200).chain([65_536]) {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut out = b"+before\r\n".to_vec();
            Reply::new(&mut out, false).bulk(&bytes);
            let mut expected = format!("+before\r\n${len}\r\n").into_bytes();
            expected.extend_from_slice(&bytes);
            expected.extend_from_slice(b"\r\n");
            assert_eq!(out, expected, "{len}");
        }
    }

    #[test]
    fn arrays_say_their_length_expected_or_not() {
        for (expected, len) in [(3, 3), (0, 0), (100, 3), (0, 12), (usize::MAX, 1)] {
            let mut out = b"+before\r\n".to_vec();
            let mut reply = Reply::new(&mut out, false);
            let opened = reply.open_array(expected);
            for _ in 0..len {
                reply.bulk(b"x");
            }
            assert_eq!(reply.since(&opened), len * 7);
            reply.close_array(opened, len);
            let right = format!("+before\r\n*{len}\r\n{}", "$1\r\nx\r\n".repeat(len));
            assert_eq!(out, right.as_bytes(), "{expected} expected");
        }
    }
}
