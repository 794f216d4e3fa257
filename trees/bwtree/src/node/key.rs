//! Comparing short byte strings without a call: by integers that are loaded from both their ends.

use std::cmp::Ordering;

/// The first eight bytes as an integer that compares as they do; missing ones count as 0.
#[inline(always)]
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    let count = bytes.len();
    if let Some(chunk) = bytes.first_chunk::<8>() {
        u64::from_be_bytes(*chunk)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The two overlap; where they do, they have the same bits.
        let last = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - count));
        u64::from(u32::from_be_bytes(*first)) << 32 | last
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        let last = u64::from(u16::from_be_bytes(*last)) << (8 * (8 - count));
        u64::from(u16::from_be_bytes(*first)) << 48 | last
    } else {
        bytes.first().map_or(0, |&byte| u64::from(byte) << 56)
    }
}

/// Compares as slices do. Most keys differ in their first eight bytes or have no more.
#[inline(always)]
pub(crate) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    match head_of(one).cmp(&head_of(other)) {
        Ordering::Equal if one.len() <= 8 && other.len() <= 8 => one.len().cmp(&other.len()),
        Ordering::Equal => one.cmp(other),
        unequal => unequal,
    }
}

/// Whether two byte strings are equal.
#[inline(always)]
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && head_of(one) == head_of(other)
        && (one.len() <= 8 || one[8..] == other[8..])
}

/// Copies a byte string over one of the same length; a short one without a call.
#[inline(always)]
pub(crate) fn copy_short(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    match from.len() {
        0..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => copy_ends::<4>(to, from),
        8..=16 => copy_ends::<8>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies at most `2 * N` bytes as their first and their last `N`, which may overlap.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// Two bits of 64 (or one), which a key has in the filters of the chains that it is in.
#[inline(always)]
pub(crate) fn filter_of(key: &[u8]) -> u64 {
    let first = head_of(key);
    let last = key
        .last_chunk::<8>()
        .map_or(first, |chunk| u64::from_be_bytes(*chunk));
    let mixed = (first ^ last.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 << (mixed >> 58) | 1 << (mixed >> 52 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_of_all_lengths_are_copied() {
        let from: Vec<u8> = (1..=40).collect();
        for count in 0..from.len() {
            let mut to = vec![0; count + 1];
            copy_short(&mut to[..count], &from[..count]);
            assert_eq!((&to[..count], to[count]), (&from[..count], 0));
        }
    }

    #[test]
    fn short_byte_strings_compare_as_slices() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for bytes in [
            &b"abcdefghijkl"[..],
            b"abcdefghijzz",
            b"abcdefgz",
            b"\0\0\0\0\0\0\0\0\0\0",
        ] {
            keys.extend((1..=bytes.len()).map(|count| bytes[..count].to_vec()));
            keys.extend((1..=bytes.len()).map(|count| [&bytes[..count - 1], &[0xff]].concat()));
        }
        for one in &keys {
            for other in &keys {
                assert_eq!(compare(one, other), one.cmp(other), "{one:?} and {other:?}");
                assert_eq!(equal(one, other), one == other, "{one:?} and {other:?}");
            }
        }
    }
}
