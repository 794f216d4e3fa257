//! A key on its way down: which 8-byte slice is next, and what follows it.
//!
//! Slices are big-endian, so that integers compare as the bytes do; short ones are padded
//! with zeros, and the *class* (how many bytes remain, 9 standing for "more than 8") tells
//! `"ab"` from `"ab\0"`.

/// Class of a key that goes on beyond its slice.
pub(crate) const LONG: u8 = 9;

/// A key and how many of its bytes upper layers have consumed.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    bytes: &'a [u8],
    offset: usize,
    slice: u64,
}

/// The slice that `rest` begins with.
#[inline(always)]
pub(crate) fn slice_of(rest: &[u8]) -> u64 {
    if let Some(head) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let count = rest.len();
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        let tail = u64::from(u32::from_be_bytes(*tail)) << (64 - 8 * count);
        return head | tail;
    }
    if count == 0 {
        return 0;
    }
    let byte = |index: usize| u64::from(rest[index]) << (56 - 8 * index);
    byte(0) | byte(count / 2) | byte(count - 1)
}

/// The length class of a key of which `remaining` bytes remain.
#[inline(always)]
pub(crate) fn class_of(remaining: usize) -> u8 {
    remaining.min(usize::from(LONG)) as u8
}

/// The shortest key bytes whose slice is `slice`: without the trailing zeros.
pub(crate) fn shortest_bytes(slice: u64) -> ([u8; 8], usize) {
    (slice.to_be_bytes(), 8 - slice.trailing_zeros() as usize / 8)
}

impl<'a> Key<'a> {
    /// A key at layer 0.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// A key of which `offset` bytes are consumed.
    #[inline(always)]
    pub(crate) fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self {
            bytes,
            offset,
            slice: slice_of(&bytes[offset..]),
        }
    }

    /// The slice at this layer.
    #[inline(always)]
    pub(crate) fn slice(&self) -> u64 {
        self.slice
    }

    /// The length class at this layer.
    #[inline(always)]
    pub(crate) fn class(&self) -> u8 {
        class_of(self.bytes.len() - self.offset)
    }

    /// Bytes that upper layers consumed.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// What upper layers consumed: all keys of this layer begin with it.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        &self.bytes[..self.offset]
    }

    /// What follows the slice; only for class [`LONG`].
    #[inline(always)]
    pub(crate) fn suffix(&self) -> &'a [u8] {
        &self.bytes[self.offset + 8..]
    }

    /// The key one layer down; only for class [`LONG`].
    #[inline(always)]
    pub(crate) fn descend(&self) -> Self {
        Self::at(self.bytes, self.offset + 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_order_as_bytes_do() {
        for count in 0..=9 {
            let bytes: Vec<u8> = (0..count).map(|i| 0xa1 + 3 * i as u8).collect();
            let mut padded = [0_u8; 8];
            let kept = bytes.len().min(8);
            padded[..kept].copy_from_slice(&bytes[..kept]);
            assert_eq!(
                slice_of(&bytes),
                u64::from_be_bytes(padded),
                "{count} bytes"
            );
        }
        assert_eq!(shortest_bytes(slice_of(b"ab\0c")), (*b"ab\0c\0\0\0\0", 4));
        assert_eq!(shortest_bytes(0).1, 0);
    }
}
