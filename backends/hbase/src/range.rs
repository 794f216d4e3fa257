//! Ranges of keys as scans of HBase: a start row, which is part of the scan, and a stop row, which
//! is not. One page of a scan is one call; the next page begins behind the last key.

use std::ops::Bound;

use hedgerow::{Direction, KeyRange};

use crate::stored_row::MAX_ROW_KEY_BYTES;

/// What the first page asks for where nothing is known of the lengths of rows.
const FIRST_ROWS: usize = 32;
/// A page should have about so many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// How many rows pages ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRows {
    first: usize,
    most: usize,
}

impl PageRows {
    /// Of a range whose rows are about as long as others were: `0` if none were seen.
    pub(crate) fn of_length(row_bytes: usize, most: usize) -> PageRows {
        let first = match row_bytes {
            0 => FIRST_ROWS,
            bytes => PAGE_BYTES / bytes,
        };
        PageRows {
            first: first.clamp(1, most),
            most,
        }
    }
}

/// What is left of a range.
#[derive(Debug)]
pub(crate) struct Remaining {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    direction: Direction,
    /// How many rows the next page asks for, and any page at most.
    page_rows: usize,
    most_page_rows: usize,
}

/// The rows that a scan goes through: from `start`, and up to but without `stop`. Empty: from the
/// first row on, or to the last.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScanBounds {
    pub(crate) start: Vec<u8>,
    pub(crate) stop: Vec<u8>,
}

/// The lower bound of the same keys, of which none is longer than `longest`, and itself no longer:
/// HBase refuses longer ones. Keys are above what is longer if they are above its beginning.
fn short_lower(lower: Bound<&[u8]>, longest: usize) -> Bound<Vec<u8>> {
    match lower {
        Bound::Included(lower) | Bound::Excluded(lower) if lower.len() > longest => {
            Bound::Excluded(lower[..longest].to_vec())
        }
        lower => lower.map(<[u8]>::to_vec),
    }
}

/// The upper bound of the same keys; see [`short_lower`]. Keys are below what is longer if they are
/// its beginning, or below that.
fn short_upper(upper: Bound<&[u8]>, longest: usize) -> Bound<Vec<u8>> {
    match upper {
        Bound::Included(upper) | Bound::Excluded(upper) if upper.len() > longest => {
            Bound::Included(upper[..longest].to_vec())
        }
        upper => upper.map(<[u8]>::to_vec),
    }
}

/// The key right behind another one.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// A key before this one and behind nearly all others before it; empty if there is none before it.
fn shortly_before(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    match before.pop() {
        None | Some(0) => before,
        Some(last) => {
            before.push(last - 1);
            before.extend_from_slice(&[0xff; 8]);
            before
        }
    }
}

impl Remaining {
    pub(crate) fn of(
        range: &impl KeyRange,
        direction: Direction,
        most: usize,
        pages: PageRows,
    ) -> Remaining {
        Remaining {
            lower: short_lower(range.lower(), MAX_ROW_KEY_BYTES),
            upper: short_upper(range.upper(), MAX_ROW_KEY_BYTES),
            direction,
            page_rows: most.clamp(1, pages.first),
            most_page_rows: pages.most,
        }
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.direction == Direction::Reverse
    }

    /// How many rows the next page asks for: one more where it begins with a row that is left out.
    pub(crate) fn rows_to_ask(&self) -> usize {
        let begins_outside = matches!(
            (&self.upper, self.direction),
            (Bound::Excluded(upper), Direction::Reverse) if exactly_before(upper).is_none()
        );
        self.page_rows + usize::from(begins_outside)
    }

    /// Whether no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            // No row of HBase has an empty key, and an empty start row means something else.
            (_, Bound::Included(upper) | Bound::Excluded(upper)) if upper.is_empty() => true,
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
            _ => false,
        }
    }

    /// Whether a key is in it. A scan may go a little beyond the lower end when it is reversed.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= lower.as_slice(),
            Bound::Excluded(lower) => key > lower.as_slice(),
        };
        above
            && match &self.upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => key <= upper.as_slice(),
                Bound::Excluded(upper) => key < upper.as_slice(),
            }
    }

    /// The scan for what is left.
    pub(crate) fn bounds(&self) -> ScanBounds {
        if self.is_reverse() {
            let start = match &self.upper {
                Bound::Unbounded => Vec::new(),
                Bound::Included(upper) => upper.clone(),
                Bound::Excluded(upper) => {
                    exactly_before(upper).map_or_else(|| upper.clone(), <[u8]>::to_vec)
                }
            };
            let stop = match &self.lower {
                Bound::Unbounded => Vec::new(),
                // HBase leaves the stop row out.
                Bound::Excluded(lower) => lower.clone(),
                Bound::Included(lower) => shortly_before(lower),
            };
            return ScanBounds { start, stop };
        }
        let start = match &self.lower {
            Bound::Unbounded => Vec::new(),
            Bound::Included(lower) => lower.clone(),
            Bound::Excluded(lower) => behind(lower),
        };
        let stop = match &self.upper {
            Bound::Unbounded => Vec::new(),
            Bound::Excluded(upper) => upper.clone(),
            Bound::Included(upper) => behind(upper),
        };
        ScanBounds { start, stop }
    }

    /// Goes on behind a key. The page that ended there had so many bytes: the next one asks for as
    /// many rows as make a page of a good size, and no more than are `left` to be found.
    pub(crate) fn go_on_behind(&mut self, key: Vec<u8>, page_bytes: usize, left: usize) {
        let grown = match page_bytes {
            0..PAGE_BYTES => self.page_rows * 2,
            _ => self.page_rows / 2,
        };
        self.page_rows = grown.clamp(1, self.most_page_rows).min(left.max(1));
        match self.direction {
            Direction::Forward => self.lower = Bound::Excluded(key),
            Direction::Reverse => self.upper = Bound::Excluded(key),
        }
    }
}

/// The last key before another one, if there is one: HBase has no start row that is left out, so a
/// reversed scan from any other key on finds that key, too.
fn exactly_before(key: &[u8]) -> Option<&[u8]> {
    match key.split_last() {
        Some((0, before)) if !before.is_empty() => Some(before),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// What HBase's scan would return of these rows.
    fn scan(rows: &BTreeSet<Vec<u8>>, left: &Remaining) -> Vec<Vec<u8>> {
        let ScanBounds { start, stop } = left.bounds();
        let is_within = |key: &&Vec<u8>| match left.is_reverse() {
            false => **key >= start && (stop.is_empty() || **key < stop),
            true => (start.is_empty() || **key <= start) && (stop.is_empty() || **key > stop),
        };
        let mut found: Vec<_> = rows.iter().filter(is_within).cloned().collect();
        if left.is_reverse() {
            found.reverse();
        }
        found.truncate(left.rows_to_ask());
        found
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(1), Just(0xfe), Just(0xff)];
        prop::collection::vec(byte, 1..4)
    }

    /// Bounds of which many are longer than keys.
    fn long_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        let byte = prop_oneof![Just(0), Just(1), Just(0xfe), Just(0xff)];
        let bytes = prop::collection::vec(byte, 0..7);
        (bytes, any::<bool>()).prop_map(|(bytes, is_included)| match is_included {
            true => Bound::Included(bytes),
            false => Bound::Excluded(bytes),
        })
    }

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            Just(Bound::Unbounded),
            prop::collection::vec(any::<u8>(), 0..3).prop_map(Bound::Included),
            key().prop_map(Bound::Included),
            key().prop_map(Bound::Excluded),
        ]
    }

    #[test]
    fn the_first_page_asks_for_no_more_than_is_wanted_and_is_no_larger_than_others() {
        let asked = |most, row_bytes| {
            let pages = PageRows::of_length(row_bytes, 64);
            Remaining::of(&(..), Direction::Forward, most, pages).rows_to_ask()
        };
        assert_eq!(asked(usize::MAX, 0), FIRST_ROWS);
        assert_eq!(asked(usize::MAX, 1000), 64);
        assert_eq!(asked(50, 1000), 50);
        assert_eq!(asked(50, PAGE_BYTES / 4), 4);
        assert_eq!(asked(50, 2 * PAGE_BYTES), 1);
    }

    #[test]
    fn a_page_asks_for_no_more_than_is_left() {
        let pages = PageRows::of_length(1000, 64);
        let mut left = Remaining::of(&(..), Direction::Forward, 100, pages);
        assert_eq!(left.rows_to_ask(), 64);
        left.go_on_behind(b"k".to_vec(), 64_000, 36);
        assert_eq!(left.rows_to_ask(), 36);
    }

    #[test]
    fn no_scan_begins_or_ends_at_more_bytes_than_hbase_takes() {
        let long = || vec![b'k'; 40_000];
        let ranges = [
            (Bound::Included(long()), Bound::Unbounded),
            (Bound::Excluded(long()), Bound::Unbounded),
            (Bound::Unbounded, Bound::Included(long())),
            (Bound::Unbounded, Bound::Excluded(long())),
        ];
        for range in &ranges {
            for direction in [Direction::Forward, Direction::Reverse] {
                let left = Remaining::of(range, direction, 3, PageRows::of_length(0, 64));
                let ScanBounds { start, stop } = left.bounds();
                let bytes = start.len().max(stop.len());
                assert!((1..=32_767).contains(&bytes), "{direction:?}: {bytes}");
            }
        }
    }

    proptest! {
        #[test]
        fn short_bounds_have_the_same_keys(
            row in key(),
            lower in long_bound(),
            upper in long_bound(),
        ) {
            const LONGEST: usize = 3;
            let left = |lower, upper| Remaining {
                lower,
                upper,
                direction: Direction::Forward,
                page_rows: 1,
                most_page_rows: 1,
            };
            let short = left(
                short_lower(lower.as_ref().map(Vec::as_slice), LONGEST),
                short_upper(upper.as_ref().map(Vec::as_slice), LONGEST),
            );
            let long = left(lower, upper);
            prop_assert!(row.len() <= LONGEST);
            prop_assert_eq!(short.contains(&row), long.contains(&row));
            prop_assert!(!(short.is_empty() && long.contains(&row)));
            let is_short = |bound: &Bound<Vec<u8>>| match bound {
                Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.len() <= LONGEST,
                Bound::Unbounded => true,
            };
            prop_assert!(is_short(&short.lower) && is_short(&short.upper));
        }

        #[test]
        fn pages_of_scans_find_what_is_in_the_range(
            rows in prop::collection::btree_set(key(), 0..60),
            lower in bound(),
            upper in bound(),
            is_reverse in any::<bool>(),
            page_bytes in prop_oneof![Just(0_usize), Just(PAGE_BYTES)],
        ) {
            let direction = if is_reverse { Direction::Reverse } else { Direction::Forward };
            let range = (lower, upper);
            let mut left = Remaining::of(&range, direction, 3, PageRows::of_length(0, 64));
            let whole = Remaining::of(&range, direction, 3, PageRows::of_length(0, 64));
            let mut expected: Vec<_> = rows.iter().filter(|key| whole.contains(key)).collect();
            if whole.is_empty() {
                prop_assert!(expected.is_empty());
            }
            if is_reverse {
                expected.reverse();
            }
            let mut found = Vec::new();
            for _ in 0..200 {
                if left.is_empty() {
                    break;
                }
                let page = scan(&rows, &left);
                let is_last = page.len() < left.rows_to_ask();
                let last = page.last().cloned();
                found.extend(page.into_iter().filter(|key| left.contains(key)));
                match last {
                    Some(last) if !is_last => left.go_on_behind(last, page_bytes, usize::MAX),
                    _ => break,
                }
            }
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }
}
