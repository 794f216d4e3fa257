//! The log's record of a removal of a range of keys: the two ends of the range.
//!
//! ```text
//! key:      the lower end
//! payload:  u8 kind of the lower end · u8 kind of the upper end · the upper end
//! kinds:    0 open (no key) · 1 included · 2 excluded
//! ```
//!
//! Replay removes the rows of the range that are older than the record.

use std::ops::Bound;

use hedgerow_index::MAX_KEY_BYTES;

use crate::index::bounds::Bounds;

const OPEN: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

// The kinds as they are drawn above.
const _: () = assert!(OPEN == 0 && INCLUDED == 1 && EXCLUDED == 2);

/// A start with the same keys behind it, that is no longer than a key.
pub(crate) fn short_start(start: Bound<&[u8]>) -> Bound<&[u8]> {
    match start {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Excluded(&key[..MAX_KEY_BYTES])
        }
        start => start,
    }
}

/// An end with the same keys before it, that is no longer than a key.
pub(crate) fn short_end(end: Bound<&[u8]>) -> Bound<&[u8]> {
    match end {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > MAX_KEY_BYTES => {
            Bound::Included(&key[..MAX_KEY_BYTES])
        }
        end => end,
    }
}

fn parts(bound: Bound<&[u8]>) -> (u8, &[u8]) {
    match bound {
        Bound::Unbounded => (OPEN, &[]),
        Bound::Included(key) => (INCLUDED, key),
        Bound::Excluded(key) => (EXCLUDED, key),
    }
}

fn bound(kind: u8, key: &[u8]) -> Option<Bound<&[u8]>> {
    match kind {
        OPEN if key.is_empty() => Some(Bound::Unbounded),
        INCLUDED => Some(Bound::Included(key)),
        EXCLUDED => Some(Bound::Excluded(key)),
        _ => None,
    }
}

/// The record's key: that of the lower end.
pub(crate) fn key(start: Bound<&[u8]>) -> &[u8] {
    parts(start).1
}

/// The record's payload.
pub(crate) fn payload((start, end): Bounds<'_>) -> Vec<u8> {
    let (end_kind, end) = parts(end);
    [&[parts(start).0, end_kind], end].concat()
}

/// The ends that a record names; `None` if it makes no sense.
pub(crate) fn decode<'a>(key: &'a [u8], payload: &'a [u8]) -> Option<Bounds<'a>> {
    let (&[start_kind, end_kind], end) = payload.split_first_chunk()?;
    Some((bound(start_kind, key)?, bound(end_kind, end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_from_their_record_and_nonsense_does_not() {
        let all = [
            Bound::Unbounded,
            Bound::Included(&b"key"[..]),
            Bound::Excluded(b"key"),
            Bound::Included(b""),
        ];
        for start in all {
            for end in all {
                let payload = super::payload((start, end));
                assert_eq!(decode(super::key(start), &payload), Some((start, end)));
            }
        }
        for (key, payload) in [
            (&b""[..], &b""[..]),
            (b"", &[1]),
            (b"", &[1, 3]),
            (b"k", &[0, 0]),
        ] {
            assert_eq!(decode(key, payload), None);
        }
    }

    #[test]
    fn bounds_beyond_the_longest_key_hold_the_same_keys() {
        let longest = vec![b'k'; MAX_KEY_BYTES];
        let longer = [longest.as_slice(), b"x"].concat();
        assert_eq!(
            short_start(Bound::Included(&longer)),
            Bound::Excluded(&longest[..])
        );
        assert_eq!(
            short_end(Bound::Excluded(&longer)),
            Bound::Included(&longest[..])
        );
        assert_eq!(
            short_end(Bound::Excluded(&longest)),
            Bound::Excluded(&longest[..])
        );
    }
}
