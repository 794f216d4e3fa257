//! Byte keys of one width as integers, and bounds of any width.

use std::ops::Bound;

/// The width of every key.
pub(super) const KEY_BYTES: usize = 8;

/// The integer of a key, which sorts as the key does; `None` for a key of another width.
#[inline(always)]
pub(super) fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// The bytes of an integer.
#[inline(always)]
pub(super) fn bytes(number: u64) -> [u8; KEY_BYTES] {
    number.to_be_bytes()
}

/// The first bytes of a bound, with zeros behind a shorter one.
fn cut(bound: &[u8]) -> u64 {
    let mut bytes = [0; KEY_BYTES];
    let length = bound.len().min(KEY_BYTES);
    bytes[..length].copy_from_slice(&bound[..length]);
    u64::from_be_bytes(bytes)
}

/// The bound of integers that has the same keys above it.
pub(super) fn lower(bound: Bound<&[u8]>) -> Bound<u64> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        // Every key that the bound begins, or that is above it, is at or above it with zeros.
        Bound::Included(from) | Bound::Excluded(from) if from.len() < KEY_BYTES => {
            Bound::Included(cut(from))
        }
        Bound::Included(from) if from.len() == KEY_BYTES => Bound::Included(cut(from)),
        // A key that begins a longer bound is below it.
        Bound::Included(from) | Bound::Excluded(from) => Bound::Excluded(cut(from)),
    }
}

/// The bound of integers that has the same keys below it.
pub(super) fn upper(bound: Bound<&[u8]>) -> Bound<u64> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(to) | Bound::Excluded(to) if to.len() < KEY_BYTES => {
            Bound::Excluded(cut(to))
        }
        Bound::Excluded(to) if to.len() == KEY_BYTES => Bound::Excluded(cut(to)),
        Bound::Included(to) | Bound::Excluded(to) => Bound::Included(cut(to)),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;

    #[test]
    fn bounds_of_any_width_have_the_same_keys() {
        let ends: [&[u8]; 9] = [
            b"",
            b"a",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefgi",
            b"abcdefgh-and-more",
            &[u8::MAX; 8],
            &[u8::MAX; 9],
        ];
        let near = |end: &[u8]| {
            let end = cut(end);
            (-2..=2).map(move |by| end.wrapping_add_signed(by))
        };
        let keys: Vec<u64> = ends.iter().flat_map(|end| near(end)).collect();
        for end in ends {
            for bound in [Bound::Included(end), Bound::Excluded(end)] {
                for &key in &keys {
                    let own = &bytes(key)[..];
                    let above: (Bound<&[u8]>, Bound<&[u8]>) = (bound, Bound::Unbounded);
                    let below: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, bound);
                    let numbers = (lower(bound), Bound::Unbounded);
                    assert_eq!(numbers.contains(&key), above.contains(own), "{bound:?}");
                    let numbers = (Bound::Unbounded, upper(bound));
                    assert_eq!(numbers.contains(&key), below.contains(own), "{bound:?}");
                }
            }
        }
    }
}
