//! Slices of keys: eight bytes as an integer that compares as they do.

/// Bytes of a slice.
pub(crate) const SLICE_BYTES: usize = 8;

/// The slice of `key` at `offset`, padded with zeros behind the key's end.
#[inline(always)]
pub(crate) fn slice(key: &[u8], offset: usize) -> u64 {
    let rest = key.get(offset..).unwrap_or_default();
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; SLICE_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Bytes that two keys share at their beginning.
pub(crate) fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

/// The last offset of a slice at or below `bytes`.
pub(crate) fn slice_offset(bytes: usize) -> usize {
    bytes / SLICE_BYTES * SLICE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_compare_as_bytes_do() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0b", b"abcdefgh", b"abcdefghi"];
        for one in keys {
            for other in keys {
                if slice(one, 0) != slice(other, 0) {
                    assert_eq!(slice(one, 0) < slice(other, 0), one < other);
                }
            }
        }
        assert_eq!(slice(b"abcdefghi", 8), u64::from(b'i') << 56);
        assert_eq!(slice(b"abc", 8), 0);
        assert_eq!(shared_prefix(b"abcdefghi", b"abcdefghj"), 8);
        assert_eq!((slice_offset(15), slice_offset(16)), (8, 16));
    }
}
