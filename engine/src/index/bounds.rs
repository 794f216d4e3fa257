//! Ranges of keys, in the forms that Rust has for them.

use std::cmp::Ordering;
use std::ops::{
    Bound, Range as StdRange, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};

use hedgerow_index::Direction;

/// Both ends of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range of keys: any of Rust's range types over anything that is bytes, or a pair of
/// [`Bound`]s.
///
/// ```
/// use hedgerow::KeyRange;
/// use std::ops::Bound;
///
/// fn takes(_: impl KeyRange) {}
/// takes(..);
/// takes("a".."b");
/// takes(vec![1u8]..=vec![2u8]);
/// takes((Bound::Excluded(b"a"), Bound::Unbounded));
/// ```
pub trait KeyRange {
    /// Where the range starts.
    fn lower(&self) -> Bound<&[u8]>;
    /// Where it ends.
    fn upper(&self) -> Bound<&[u8]>;
}

impl KeyRange for RangeFull {
    fn lower(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn upper(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

macro_rules! key_range {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn lower(&self) -> Bound<&[u8]> {
                self.start_bound().map(K::as_ref)
            }

            fn upper(&self) -> Bound<&[u8]> {
                self.end_bound().map(K::as_ref)
            }
        }
    )*};
}

key_range!(
    StdRange<K>,
    RangeInclusive<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

/// Where a scan stops: the bound that it moves towards. Asked for every key, so the first eight
/// bytes of the bound are kept as a word, which decides for all keys but those that share them.
#[derive(Clone, Copy)]
pub(crate) struct Stop<'b> {
    bound: Bound<&'b [u8]>,
    word: u64,
    direction: Direction,
}

impl<'b> Stop<'b> {
    /// The end of a range for a scan forwards, its start for one in reverse.
    pub(crate) fn new(
        (start, end): (Bound<&'b [u8]>, Bound<&'b [u8]>),
        direction: Direction,
    ) -> Self {
        let bound = match direction {
            Direction::Forward => end,
            Direction::Reverse => start,
        };
        let word = match bound {
            Bound::Included(key) | Bound::Excluded(key) => leading_word(key),
            Bound::Unbounded => 0,
        };
        Self {
            bound,
            word,
            direction,
        }
    }

    /// Whether a key that the scan meets is beyond.
    #[inline]
    pub(crate) fn is_passed_by(&self, key: &[u8]) -> bool {
        let (bound, included) = match self.bound {
            Bound::Included(bound) => (bound, true),
            Bound::Excluded(bound) => (bound, false),
            Bound::Unbounded => return false,
        };
        let order = leading_word(key).cmp(&self.word);
        // Equal words say little: the shorter of two keys is padded with zeros.
        let order = order.then_with(|| key.cmp(bound));
        let beyond = match self.direction {
            Direction::Forward => Ordering::Greater,
            Direction::Reverse => Ordering::Less,
        };
        order == beyond || (!included && order == Ordering::Equal)
    }
}

/// The first eight bytes as an integer that compares as they do, zeros standing for those that a
/// shorter key lacks.
#[inline]
fn leading_word(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            key.iter()
                .fold(0, |word, &byte| word << 8 | u64::from(byte))
                << (8 * (7 - key.len()))
                << 8
        }
    }
}

/// Whether no key can lie between two bounds because they are in the wrong order.
pub(crate) fn is_inverted(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end))
        | (Bound::Included(start), Bound::Excluded(end)) => start > end,
    }
}

/// The smallest upper bound above every key that begins with `prefix`: excluded, or none.
pub fn prefix_end(prefix: &[u8]) -> Bound<Vec<u8>> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_right_behind_its_last_key() {
        assert_eq!(prefix_end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), Bound::Unbounded);
        assert_eq!(prefix_end(b""), Bound::Unbounded);
    }

    #[test]
    fn a_scan_stops_where_a_comparison_of_bytes_says() {
        let keys: Vec<Vec<u8>> = [
            "",
            "a",
            "b",
            "ab",
            "abcdefg",
            "abcdefgh",
            "abcdefghi",
            "b\0",
            "b\0\0",
        ]
        .iter()
        .map(|key| key.as_bytes().to_vec())
        .chain([
            vec![0],
            vec![0; 8],
            vec![0; 9],
            vec![255; 7],
            vec![255; 8],
            vec![255; 9],
        ])
        .collect();
        for bound in &keys {
            for key in &keys {
                let passed = |bound, direction| {
                    let bounds = match direction {
                        Direction::Forward => (Bound::Unbounded, bound),
                        Direction::Reverse => (bound, Bound::Unbounded),
                    };
                    Stop::new(bounds, direction).is_passed_by(key)
                };
                let (included, excluded) =
                    (Bound::Included(&bound[..]), Bound::Excluded(&bound[..]));
                assert_eq!(passed(included, Direction::Forward), key > bound);
                assert_eq!(passed(excluded, Direction::Forward), key >= bound);
                assert_eq!(passed(included, Direction::Reverse), key < bound);
                assert_eq!(passed(excluded, Direction::Reverse), key <= bound);
                assert!(!passed(Bound::Unbounded, Direction::Forward));
            }
        }
    }
}
