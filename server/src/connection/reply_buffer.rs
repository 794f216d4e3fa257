//! Encoded replies: bytes in one buffer, and large values beside it.
//!
//! ```text
//! bytes   [ $3\r\nabc\r\n*2\r\n$8388608\r\n | \r\n$8388608\r\n | \r\n+OK\r\n ]
//!                                         ^at              ^at
//! large                                   value            the same value
//! ```
//!
//! A value of at least [`LARGE_BYTES`] is a segment of its own, which vectored writes send from
//! where it lies. Segments with the same content share one reference-counted block, in this buffer
//! and in all others ([`large_values`]): an `MGET` that names a key a hundred times has its value
//! in memory once, and so have a hundred clients that ask for it. Small replies are bytes in the
//! buffer.
//!
//! A position is a length of `bytes`. In all protocols bytes precede and follow a value within its
//! reply, so no segment lies at a reply's beginning or end, and positions tell replies apart.

use std::io::{self, IoSlice, Write};
use std::ops::Range;

use crate::connection::large_values::{self, LARGE_BYTES, LargeValue, Segments, sample};

/// A buffer longer than this grows by an eighth instead of doubling.
const EXACT_BYTES: usize = 1 << 20;
/// Pieces that one write hands over.
const PIECES: usize = 16;

/// Replies that were encoded and not sent yet.
pub(crate) struct ReplyBuffer {
    bytes: Vec<u8>,
    /// The position up to which everything is sent.
    sent: usize,
    /// There is none while there are no large values.
    large: Option<Box<Segments>>,
    /// How long `bytes` may become: see [`ReplyBuffer::limit`].
    limit: usize,
    is_exceeded: bool,
}

impl Default for ReplyBuffer {
    fn default() -> ReplyBuffer {
        ReplyBuffer {
            bytes: Vec::new(),
            sent: 0,
            large: None,
            limit: usize::MAX,
            is_exceeded: false,
        }
    }
}

impl ReplyBuffer {
    /// A buffer that uses an empty vector's memory.
    pub(crate) fn reuse(bytes: Vec<u8>) -> ReplyBuffer {
        debug_assert!(bytes.is_empty(), "nothing of others is sent");
        ReplyBuffer {
            bytes,
            ..ReplyBuffer::default()
        }
    }

    /// The vector of a buffer that is needed no more.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Where small replies are appended. Nothing before may be changed.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Makes room for so many bytes more. A long buffer does not double: that would waste as much
    /// again.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        let capacity = self.bytes.capacity();
        if capacity > EXACT_BYTES && capacity - self.bytes.len() < more {
            self.bytes.reserve_exact(more.max(capacity / 8));
        } else {
            self.bytes.reserve(more);
        }
    }

    /// The position where the next reply begins.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.bytes.len()
    }

    /// What was appended after a position, large values left out.
    pub(crate) fn since(&self, position: usize) -> &[u8] {
        &self.bytes[position..]
    }

    /// The bytes that are left to send.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        let large = self.large.as_ref().map_or(0, |large| large.unsent_bytes);
        self.bytes.len() - self.sent + large
    }

    /// The position up to which everything is sent, but for a large value that lies there.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// The memory that is taken up.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        let large = self.large.as_ref();
        self.bytes.capacity() + large.map_or(0, |large| large.capacity())
    }

    /// From here on replies take at most so many bytes of memory. What is more is left out, and
    /// [`ReplyBuffer::end_limit`] tells.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = self.bytes.len().saturating_add(bytes);
        self.is_exceeded = false;
    }

    /// Whether something was left out since the limit was set: whoever replies piece by piece can
    /// stop.
    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Ends the limit; whether something was left out.
    pub(crate) fn end_limit(&mut self) -> bool {
        self.limit = usize::MAX;
        std::mem::take(&mut self.is_exceeded)
    }

    /// Whether so many bytes more are within the limit.
    #[inline]
    pub(crate) fn admits(&mut self, bytes: usize) -> bool {
        let admits = self.bytes.len() + bytes <= self.limit;
        if !admits {
            self.exceed();
        }
        admits
    }

    /// Something does not fit: the reply will be an error, so nothing more is added to it.
    #[cold]
    fn exceed(&mut self) {
        self.is_exceeded = true;
        self.limit = 0;
    }

    /// Appends a value, which is copied once. Of a large one, the number for
    /// [`ReplyBuffer::repeat`].
    #[inline]
    pub(crate) fn put_value(&mut self, value: &[u8]) -> Option<u64> {
        if value.len() >= LARGE_BYTES {
            return self.put_large(value, <[u8]>::to_vec);
        }
        if self.admits(value.len()) {
            self.reserve(value.len());
            self.bytes.extend_from_slice(value);
        }
        None
    }

    /// Appends a value that was copied already: a large one is not copied again.
    pub(crate) fn put_owned(&mut self, value: Vec<u8>) {
        if value.len() >= LARGE_BYTES {
            self.put_large(value, |value| value);
        } else {
            self.put_value(&value);
        }
    }

    /// Appends a large value: that of a reply which has its content, or a copy that `copy` makes.
    fn put_large<V: AsRef<[u8]>>(
        &mut self,
        value: V,
        copy: impl FnOnce(V) -> Vec<u8>,
    ) -> Option<u64> {
        if !self.admits(0) {
            return None;
        }
        let sample = sample(value.as_ref());
        let large = self.large.get_or_insert_default();
        if let Some(found) = large.find(&sample, value.as_ref()) {
            return Some(large.push(self.bytes.len(), sample, found));
        }
        let bytes = value.as_ref().len();
        if self.bytes.len() + bytes > self.limit {
            self.exceed();
            return None;
        }
        large.value_bytes += bytes;
        if self.limit != usize::MAX {
            self.limit -= bytes;
        }
        let value = large_values::shared(&sample, value, copy);
        Some(large.push(self.bytes.len(), sample, LargeValue::new(value)))
    }

    /// Appends a segment of another buffer.
    fn put_segment(&mut self, value: &LargeValue) {
        let sample = sample(value.bytes());
        let large = self.large.get_or_insert_default();
        let found = large.find(&sample, value.bytes()).unwrap_or_else(|| {
            large.value_bytes += value.bytes().len();
            value.in_another_buffer()
        });
        large.push(self.bytes.len(), sample, found);
    }

    /// Appends the value of an earlier segment of the same reply.
    pub(crate) fn repeat(&mut self, number: u64) {
        let Some(large) = &mut self.large else {
            return;
        };
        let index = number
            .checked_sub(large.first_number)
            .map(|index| index as usize);
        let segment = index.and_then(|index| large.segments.get(index));
        debug_assert!(
            segment.is_some(),
            "a segment of the reply that is being encoded"
        );
        if let Some(segment) = segment {
            let value = segment.value.clone();
            large.push(self.bytes.len(), sample(value.bytes()), value);
        }
    }

    /// Appends a range of another buffer, between positions where replies begin.
    pub(crate) fn append(&mut self, other: &ReplyBuffer, range: Range<usize>) {
        let mut copied = range.start;
        if let Some(large) = &other.large {
            let first = large
                .segments
                .partition_point(|segment| segment.at < range.start);
            let segments = large.segments.range(first..);
            for segment in segments.take_while(|segment| segment.at < range.end) {
                self.extend_from_slice(&other.bytes[copied..segment.at]);
                self.put_segment(&segment.value);
                copied = segment.at;
            }
        }
        self.extend_from_slice(&other.bytes[copied..range.end]);
    }

    /// Whether something of the replies at the beginning was sent already, of this copy of another
    /// buffer.
    pub(crate) fn resume(&mut self, other: &ReplyBuffer) {
        self.sent = other.sent;
        if let (Some(large), Some(other)) = (&mut self.large, &other.large) {
            large.sent_of_first = other.sent_of_first;
            large.unsent_bytes -= other.sent_of_first;
        }
    }

    /// Takes back what was appended after a position.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.bytes.truncate(position);
        if let Some(large) = &mut self.large {
            while large
                .segments
                .back()
                .is_some_and(|last| last.at >= position)
            {
                if let Some(last) = large.segments.pop_back() {
                    large.unsent_bytes -= last.value.bytes().len();
                    large.forget(&last);
                }
            }
            if large.segments.is_empty() {
                self.large = None;
            }
        }
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to(self.bytes.len());
    }

    /// Puts other bytes in the place of some that no large value is among.
    pub(crate) fn replace(&mut self, range: Range<usize>, bytes: &[u8]) {
        let segments = self.large.iter_mut().flat_map(|large| &mut large.segments);
        for segment in segments.filter(|segment| segment.at >= range.end) {
            segment.at = segment.at - range.len() + bytes.len();
        }
        self.bytes.splice(range, bytes.iter().copied());
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.large = None;
    }

    /// Forgets what is sent; by how much positions are smaller now.
    pub(crate) fn drop_sent(&mut self) -> usize {
        let sent = std::mem::take(&mut self.sent);
        self.bytes.drain(..sent);
        for segment in self.large.iter_mut().flat_map(|large| &mut large.segments) {
            segment.at -= sent;
        }
        sent
    }

    /// The bytes that [`write`](ReplyBuffer::write) would write next; `None` if large values are
    /// among them.
    #[inline]
    pub(crate) fn next(&self, end: usize, most: usize) -> Option<&[u8]> {
        let end = end.min(self.sent.saturating_add(most));
        self.large.is_none().then(|| &self.bytes[self.sent..end])
    }

    /// Writes once, up to a position and so many bytes; how many were written.
    pub(crate) fn write(
        &mut self,
        sink: &mut impl Write,
        end: usize,
        most: usize,
    ) -> io::Result<usize> {
        if let Some(bytes) = self.next(end, most) {
            let written = sink.write(bytes)?;
            self.sent += written;
            return Ok(written);
        }
        let (pieces, count) = self.pieces(end, most);
        let written = sink.write_vectored(&pieces[..count])?;
        self.advance(written);
        Ok(written)
    }

    /// What is to be sent next, up to a position and so many bytes, as far as there is room for it.
    fn pieces(&self, end: usize, most: usize) -> ([IoSlice<'_>; PIECES], usize) {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut left, mut at) = (0, most, self.sent);
        let segments = self.large.iter().flat_map(|large| &large.segments);
        let mut skipped = self.large.as_ref().map_or(0, |large| large.sent_of_first);
        let inline_and_value =
            segments
                .take_while(|segment| segment.at < end)
                .flat_map(|segment| {
                    let before = &self.bytes[at..segment.at];
                    at = segment.at;
                    [
                        before,
                        &segment.value.bytes()[std::mem::take(&mut skipped)..],
                    ]
                });
        for piece in inline_and_value.filter(|piece| !piece.is_empty()) {
            if count == PIECES || left == 0 {
                return (pieces, count);
            }
            let piece = &piece[..piece.len().min(left)];
            pieces[count] = IoSlice::new(piece);
            (count, left) = (count + 1, left - piece.len());
        }
        if count < PIECES && left > 0 && at < end {
            pieces[count] = IoSlice::new(&self.bytes[at..end.min(at.saturating_add(left))]);
            count += 1;
        }
        (pieces, count)
    }

    /// So many bytes more are sent.
    fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let first = self.large.as_ref().and_then(|large| {
                let first = large.segments.front()?;
                Some((
                    first.at - self.sent,
                    first.value.bytes().len() - large.sent_of_first,
                ))
            });
            let (before, value) = first.unwrap_or((n, 0));
            let bytes = before.min(n);
            self.sent += bytes;
            n -= bytes;
            let of_value = value.min(n);
            if let Some(large) = self.large.as_mut().filter(|_| of_value > 0) {
                large.advance(of_value);
                n -= of_value;
                if large.segments.is_empty() {
                    self.large = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that repeats a letter.
    fn large(letter: u8) -> Vec<u8> {
        vec![letter; LARGE_BYTES + usize::from(letter)]
    }

    fn put(buffer: &mut ReplyBuffer, values: &[&[u8]]) -> Vec<u8> {
        let mut expected = Vec::new();
        for value in values {
            let head = format!("${}\r\n", value.len());
            buffer.extend_from_slice(head.as_bytes());
            buffer.put_value(value);
            buffer.extend_from_slice(b"\r\n");
            expected.extend([head.as_bytes(), value, b"\r\n"].concat());
        }
        expected
    }

    /// Everything that is left, written in steps of some bytes.
    fn written(buffer: &mut ReplyBuffer, step: usize) -> Vec<u8> {
        let mut sink = Vec::new();
        let end = buffer.position();
        while buffer.unsent() > 0 {
            let before = buffer.unsent();
            let n = buffer.write(&mut sink, end, step).unwrap();
            assert!(n > 0 && n <= step && buffer.unsent() == before - n);
        }
        assert_eq!(buffer.sent(), end);
        sink
    }

    #[test]
    fn equal_values_are_one_piece_of_memory() {
        let (a, b) = (large(b'a'), large(b'b'));
        let mut buffer = ReplyBuffer::default();
        let mut expected = Vec::new();
        for _ in 0..100 {
            expected.extend(put(&mut buffer, &[&a, b"small", &b, b""]));
        }
        assert_eq!(buffer.unsent(), expected.len());
        let held = a.len() + b.len();
        assert!(
            buffer.capacity() < held + 32_000,
            "{} bytes",
            buffer.capacity()
        );
        assert!(written(&mut buffer, 10_000) == expected);
        assert!(buffer.capacity() < 16_000, "what is sent is given back");
    }

    #[test]
    fn values_that_look_alike_are_told_apart() {
        let mut values = vec![large(b'a'); 20];
        for (i, value) in values.iter_mut().enumerate() {
            value[100 + i] = b'b';
        }
        let mut buffer = ReplyBuffer::default();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let expected = [put(&mut buffer, &values), put(&mut buffer, &values)].concat();
        for step in [usize::MAX, 70_001, 1_000] {
            let mut again = ReplyBuffer::default();
            again.append(&buffer, 0..buffer.position());
            assert!(written(&mut again, step) == expected, "{step}");
        }
    }

    #[test]
    fn what_is_taken_back_or_replaced_leaves_the_rest() {
        let (a, b) = (large(b'a'), large(b'b'));
        let mut buffer = ReplyBuffer::default();
        let mut expected = put(&mut buffer, &[b"x", &a]);
        let position = buffer.position();
        put(&mut buffer, &[&b, &a, b"y"]);
        buffer.truncate(position);
        assert_eq!(buffer.unsent(), expected.len());
        assert!(
            buffer.capacity() < a.len() + 5_000,
            "the other value is gone"
        );
        let array = buffer.position();
        buffer.extend_from_slice(b"*1000\r\n");
        let content = buffer.position();
        let values = put(&mut buffer, &[&b, &a]);
        buffer.replace(array..content, b"*2\r\n");
        expected.extend(b"*2\r\n");
        expected.extend(values);
        assert!(written(&mut buffer, 4_096) == expected);
    }

    #[test]
    fn a_half_sent_buffer_can_be_compacted_and_copied() {
        let (a, b) = (large(b'a'), large(b'b'));
        let mut buffer = ReplyBuffer::default();
        let expected = put(&mut buffer, &[&a, b"x", &b, &a]);
        let mut sink = Vec::new();
        let end = buffer.position();
        // Into the second large value.
        let most = a.len() + 50;
        while sink.len() < most {
            let left = most - sink.len();
            buffer.write(&mut sink, end, left).unwrap();
        }
        let mut copy = ReplyBuffer::default();
        copy.append(&buffer, 0..end);
        copy.resume(&buffer);
        assert_eq!(copy.unsent(), expected.len() - most);
        let mut of_copy = sink.clone();
        of_copy.extend(written(&mut copy, 100_000));
        assert!(of_copy == expected);
        assert_eq!(buffer.drop_sent(), end - buffer.position());
        sink.extend(written(&mut buffer, 100_000));
        assert!(sink == expected);
    }

    #[test]
    fn a_limit_counts_what_is_held() {
        let (a, b) = (large(b'a'), large(b'b'));
        let mut buffer = ReplyBuffer::default();
        buffer.limit(a.len() + 2_000);
        let expected = put(&mut buffer, &[&a, &a, &a, &a]);
        assert!(!buffer.end_limit());
        let position = buffer.position();
        buffer.limit(b.len() - 1);
        put(&mut buffer, &[&a, &b]);
        assert!(buffer.is_exceeded());
        let unsent = buffer.unsent();
        assert_eq!(buffer.put_value(&a), None);
        assert_eq!(
            buffer.unsent(),
            unsent,
            "nothing more, not even what is held"
        );
        assert!(buffer.end_limit());
        buffer.truncate(position);
        assert!(written(&mut buffer, usize::MAX) == expected);
    }
}
