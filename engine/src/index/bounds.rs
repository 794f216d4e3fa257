//! Ranges of keys, in the forms that Rust has for them.

use std::ops::{
    Bound, Range as StdRange, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};

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
}
