//! Writing RESP replies.
//!
//! One writer serves both versions of the protocol: RESP3 has types of its own for null, maps,
//! doubles and booleans; RESP2 says them with what it has, as Redis does.
//!
//! Every piece of a reply asks the buffer's limit for room. Once one was left out, all further ones
//! are: an error will replace the reply, and [`Reply::is_full`] tells loops that they can stop.

use crate::connection::large_values::LARGE_BYTES;
use crate::connection::reply_buffer::ReplyBuffer;

/// The longest reply of commands that read without an end. A longer one is an error.
pub(crate) const LONGEST_REPLY_BYTES: usize = 512 << 20;

/// Appends replies to a connection's output.
pub(crate) struct Reply<'a> {
    out: &'a mut ReplyBuffer,
    resp3: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(out: &'a mut ReplyBuffer, resp3: bool) -> Reply<'a> {
        Reply { out, resp3 }
    }

    /// The same writer, for a callee.
    pub(crate) fn again(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            resp3: self.resp3,
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

    /// The end of what is written so far, for [`Reply::truncate`].
    pub(crate) fn position(&self) -> usize {
        self.out.position()
    }

    /// Takes back what was written after a position.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// The bytes that wait to be sent, of this reply and those before it.
    pub(crate) fn unsent(&self) -> usize {
        self.out.unsent()
    }

    /// Whether the reply is longer than it may be, so that nothing more is added to it.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.out.is_exceeded()
    }

    /// Whether so many bytes more find room. If not, the reply is full.
    pub(crate) fn admits(&mut self, bytes: usize) -> bool {
        self.out.admits(bytes)
    }

    /// Raw bytes, already encoded.
    #[inline]
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if self.out.admits(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if self.out.admits(text.len() + 3) {
            self.out.push(kind);
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        }
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
        if len > SHORT {
            self.long_bulk(bytes);
            return;
        }
        if !self.out.admits(len) {
            return;
        }
        if len <= 8 {
            return self.word_bulk(bytes);
        }
        let out = self.out.bytes();
        let end = out.len();
        out.extend_from_slice(&[0; LINE]);
        let Some(line) = out.last_chunk_mut::<LINE>() else {
            return;
        };
        line[0] = b'$';
        let digits = if len < 10 { 1 } else { 2 };
        line[1] = b'0' + (len / 10) as u8;
        line[digits] = b'0' + (len % 10) as u8;
        let start = digits + 3;
        line[digits + 1..start].copy_from_slice(b"\r\n");
        copy_short(&mut line[start..start + len], bytes);
        line[start + len..start + len + 2].copy_from_slice(b"\r\n");
        out.truncate(end + start + len + 2);
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
        let out = self.out.bytes();
        let start = out.len();
        out.extend_from_slice(&line.to_le_bytes());
        out.truncate(start + len + 6);
    }

    /// A byte string whose value, if it is large, is not copied where the output holds it already.
    /// Then its number, for [`Reply::repeat_bulk`].
    pub(crate) fn long_bulk(&mut self, bytes: &[u8]) -> Option<u64> {
        let is_large = bytes.len() >= LARGE_BYTES;
        // A large value asks for its own room.
        if !self.out.admits(if is_large { 0 } else { bytes.len() }) {
            return None;
        }
        self.bulk_head(bytes.len());
        let number = if is_large {
            self.out.put_value(bytes)
        } else {
            self.out.extend_from_slice(bytes);
            None
        };
        self.out.extend_from_slice(b"\r\n");
        number
    }

    /// The byte string that has this number, once more in the same reply.
    pub(crate) fn repeat_bulk(&mut self, number: u64, len: usize) {
        if self.out.admits(0) {
            self.bulk_head(len);
            self.out.repeat(number);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn bulk_head(&mut self, len: usize) {
        let mut buffer = itoa::Buffer::new();
        let length = buffer.format(len).as_bytes();
        // A large value takes no room here.
        let value = if len < LARGE_BYTES { len } else { 0 };
        self.out.reserve(value + length.len() + 5);
        self.out.push(b'$');
        self.out.extend_from_slice(length);
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

    /// A set of `len` members, whose order means nothing; an array in RESP2.
    pub(crate) fn set(&mut self, len: usize) {
        self.number(if self.resp3 { b'~' } else { b'*' }, len as i64);
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
        let start = self.out.position();
        self.array(expected.min(i64::MAX as usize));
        OpenArray {
            start,
            content: self.out.position(),
            unsent: self.out.unsent(),
            expected,
        }
    }

    /// Bytes of an open array's entries so far.
    pub(crate) fn since(&self, opened: &OpenArray) -> usize {
        self.out.unsent() - opened.unsent
    }

    /// Corrects the header of an array that has become `len` entries long. Moves the array if
    /// that was not expected.
    pub(crate) fn close_array(&mut self, opened: OpenArray, len: usize) {
        if len != opened.expected && !self.is_full() {
            let mut buffer = itoa::Buffer::new();
            let header = [b"*", buffer.format(len).as_bytes(), b"\r\n"].concat();
            self.out.replace(opened.start..opened.content, &header);
        }
    }
}

/// An array whose entries are being written.
pub(crate) struct OpenArray {
    /// Where its header stands.
    start: usize,
    /// Where its entries begin.
    content: usize,
    /// How much waited to be sent when it was opened.
    unsent: usize,
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

    /// What a client gets of it.
    fn sent(mut out: ReplyBuffer) -> Vec<u8> {
        let mut sink = Vec::new();
        let end = out.position();
        while out.unsent() > 0 {
            out.write(&mut sink, end, usize::MAX / 2).unwrap();
        }
        sink
    }

    #[test]
    fn bulks_of_every_length_are_framed() {
        for len in (0..200).chain([LARGE_BYTES - 1, LARGE_BYTES, 65_536]) {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut out = ReplyBuffer::reuse(Vec::new());
            out.extend_from_slice(b"+before\r\n");
            Reply::new(&mut out, false).bulk(&bytes);
            let mut expected = format!("+before\r\n${len}\r\n").into_bytes();
            expected.extend_from_slice(&bytes);
            expected.extend_from_slice(b"\r\n");
            assert!(sent(out) == expected, "{len}");
        }
    }

    /// Whatever its pieces are; and what takes its place is within no limit.
    #[test]
    fn a_full_reply_takes_nothing_more() {
        let pieces: [fn(&mut Reply<'_>); 12] = [
            |reply| reply.raw(b"+QUEUED\r\n"),
            |reply| reply.simple("PONG"),
            |reply| reply.error("ERR wrong"),
            |reply| reply.integer(-1),
            |reply| reply.array(3),
            |reply| reply.set(3),
            |reply| reply.map(3),
            |reply| reply.null(),
            |reply| reply.null_array(),
            |reply| reply.verbatim("text"),
            |reply| reply.bulk(b""),
            |reply| reply.bulk(&[b'x'; 100]),
        ];
        for (i, piece) in pieces.iter().enumerate() {
            for resp3 in [false, true] {
                let mut out = ReplyBuffer::default();
                out.limit(1000);
                let mut reply = Reply::new(&mut out, resp3);
                (0..1000).for_each(|_| piece(&mut reply));
                assert!(reply.is_full(), "piece {i}");
                let position = reply.position();
                assert!(position < 1100, "piece {i}: {position} bytes");
                pieces.iter().for_each(|piece| piece(&mut reply));
                assert_eq!(reply.position(), position, "piece {i}");
                assert!(out.end_limit());
                out.truncate(0);
                Reply::new(&mut out, resp3).error("ERR too much");
                assert_eq!(sent(out), b"-ERR too much\r\n");
            }
        }
    }

    #[test]
    fn arrays_say_their_length_expected_or_not() {
        let large = "x".repeat(LARGE_BYTES);
        for (expected, len) in [(3, 3), (0, 0), (100, 3), (0, 12), (usize::MAX, 1)] {
            for value in ["x", &large] {
                let mut out = ReplyBuffer::default();
                out.extend_from_slice(b"+before\r\n");
                let mut reply = Reply::new(&mut out, false);
                let opened = reply.open_array(expected);
                for _ in 0..len {
                    reply.bulk(value.as_bytes());
                }
                let entries = format!("${}\r\n{value}\r\n", value.len()).repeat(len);
                assert_eq!(reply.since(&opened), entries.len());
                reply.close_array(opened, len);
                let right = format!("+before\r\n*{len}\r\n{entries}");
                assert!(sent(out) == right.as_bytes(), "{expected} expected");
            }
        }
    }
}
