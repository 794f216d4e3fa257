//! Fully dense leaves: an array of values (§3.5).
//!
//! ```text
//! +--------+---------------------+----------------------------------+--------+
//! | header | a bit for each place| values: places × their length    | fences |
//! |        | in words of 64      |                                  |        |
//! +--------+---------------------+----------------------------------+--------+
//! ```
//!
//! All values have one length. There are as many places as fit, whatever the fences: where there
//! are more keys between them, a key past the last place gets a leaf of its own to its right, and
//! nothing is moved. Keys in ascending order so fill leaf after leaf.

use std::ops::{Range, RangeInclusive};

use hedgerow_pages::{Restart, View};

use crate::node::dense::{Shape, alike, number_from, place_of};
use crate::node::edit::Edit;
use crate::node::form::Form;
use crate::node::layout::{Kind, Payload, Record};
use crate::node::page::{HEADER, Image, PLACES_AT, Tag, VALUE_LEN_AT};

/// The form.
pub(crate) struct FullyDense;

/// Places of values without bytes could be far more than a page of them is worth.
const MOST_PLACES: usize = 1 << 14;

impl FullyDense {
    /// How many places there are beside such fences.
    pub(crate) fn room<const PAGE: usize>(
        lower: &[u8],
        upper: &[u8],
        key_len: usize,
        value_len: usize,
    ) -> usize {
        let fences = Image::<PAGE>::fence_bytes(lower.len(), upper.len(), key_len);
        let Some(bytes) = PAGE.checked_sub(HEADER + fences) else {
            return 0;
        };
        let mut places = (8 * bytes / (8 * value_len + 1)).min(MOST_PLACES);
        while places > 0 && Self::bitmap_bytes(places) + places * value_len > bytes {
            places -= 1;
        }
        places
    }

    /// The shape of a leaf for values of `value_len` bytes under keys of a range, if there is one.
    pub(crate) fn shape<const PAGE: usize>(
        lower: &[u8],
        upper: &[u8],
        keys: RangeInclusive<&[u8]>,
        value_len: usize,
    ) -> Option<Shape> {
        let (first, last) = keys.into_inner();
        let base = Shape {
            key_len: first.len(),
            value_len,
            reference: 0,
            places: 0,
        };
        let prefix = base.prefix_len();
        if first.is_empty() || !alike(first, last) || !lower.starts_with(&first[..prefix]) {
            return None;
        }
        let room = Self::room::<PAGE>(lower, upper, first.len(), value_len);
        let last = crate::node::dense::number(&last[prefix..]);
        let lowest = number_from(lower, first.len())?;
        // From the fence on, as the paper has it; or from the first key, if they do not fit so.
        [lowest, crate::node::dense::number(&first[prefix..])]
            .into_iter()
            .find(|reference| ((last - reference) as usize) < room)
            .map(|reference| base.starting_at(reference, room))
    }

    /// Makes an empty leaf.
    pub(crate) fn reset<const PAGE: usize>(
        page: &mut Image<PAGE>,
        lower: &[u8],
        upper: &[u8],
        shape: Shape,
    ) {
        page.reset_dense(Tag::FullyDense, lower, upper, shape);
        let bytes = Self::bitmap_bytes(shape.places);
        page.slice_mut(HEADER..HEADER + bytes).fill(0);
    }

    #[inline(always)]
    pub(crate) fn bitmap_bytes(places: usize) -> usize {
        places.div_ceil(64) * 8
    }

    /// The bits of 64 places, the lowest first.
    #[inline(always)]
    fn word<const PAGE: usize>(page: &Image<PAGE>, number: usize) -> u64 {
        u64::from_le_bytes(*page.array(HEADER + 8 * number))
    }

    #[inline(always)]
    fn taken<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> bool {
        page.u8_at(HEADER + place / 8) >> (place % 8) & 1 == 1
    }

    #[inline(always)]
    fn set_taken<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize, taken: bool) {
        let at = HEADER + place / 8;
        let bit = 1 << (place % 8);
        let byte = page.node().u8_at(at) as u8;
        page.put_u8(at, if taken { byte | bit } else { byte & !bit });
    }

    #[inline(always)]
    fn value_at<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> usize {
        HEADER + Self::bitmap_bytes(page.places()) + place * page.dense_value_len()
    }
}

/// Where the value of a key is, and its length, if the key is there.
#[inline(always)]
pub(crate) fn find_value(page: impl View, key: &[u8]) -> Result<Option<(usize, usize)>, Restart> {
    let Some(place) = place_of(page, key)? else {
        return Ok(None);
    };
    if page.u8(HEADER + place / 8)? >> (place % 8) & 1 == 0 {
        return Ok(None);
    }
    value_at(page, place).map(Some)
}

/// Where the value of a place is, if there is one, and its length.
#[inline(always)]
fn value_at(page: impl View, place: usize) -> Result<(usize, usize), Restart> {
    let places = usize::from(page.u16(PLACES_AT)?);
    let len = usize::from(page.u16(VALUE_LEN_AT)?);
    let start = HEADER + FullyDense::bitmap_bytes(places);
    Ok((start + place * len, len))
}

/// Asks for the lines where the value of a key is, if there is one.
#[inline(always)]
pub(crate) fn prefetch_value(page: impl View, key: &[u8]) -> Result<(), Restart> {
    if let Some(place) = place_of(page, key)? {
        page.prefetch(HEADER + place / 8);
        page.prefetch(value_at(page, place)?.0);
    }
    Ok(())
}

impl Form for FullyDense {
    fn places<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        page.places()
    }

    #[inline(always)]
    fn next<const PAGE: usize, const FORWARD: bool>(
        page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        while left.start < left.end {
            if FORWARD {
                let start = left.start;
                let word = Self::word(page, start / 64) >> (start % 64);
                if word & 1 == 1 {
                    left.start += 1;
                    return Some(start);
                }
                left.start = if word == 0 {
                    (start / 64 + 1) * 64
                } else {
                    start + word.trailing_zeros() as usize
                };
            } else {
                let last = left.end - 1;
                let word = Self::word(page, last / 64) << (63 - last % 64);
                if word >> 63 == 1 {
                    left.end = last;
                    return Some(last);
                }
                left.end = if word == 0 {
                    last / 64 * 64
                } else {
                    left.end - word.leading_zeros() as usize
                };
            }
        }
        None
    }

    fn arrays_end<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        Self::value_at(page, page.places())
    }

    #[inline(always)]
    fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record {
        let value_at = Self::value_at(page, place);
        Record {
            at: value_at,
            key_len: page.key_len() - page.prefix_len(),
            tail_at: value_at,
            value_at,
            value_len: page.dense_value_len(),
            kind: Kind::Inline,
        }
    }

    #[inline(always)]
    fn write_suffix<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        _record: Record,
        to: &mut [u8],
    ) -> usize {
        page.write_number(place, to)
    }

    #[inline(always)]
    fn locate<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        match page.place_of(key) {
            Some(place) => (place, Self::taken(page, place)),
            None => (page.places(), false),
        }
    }

    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        let (place, equal) = page.first_place(key);
        (place, equal && Self::taken(page, place))
    }

    #[inline(always)]
    fn has_gap<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        debug_assert!(place == page.places() || page.place_of(key) == Some(place));
        let fits = payload.kind == Kind::Inline && payload.bytes.len() == page.dense_value_len();
        place < page.places() && fits
    }

    #[inline(always)]
    fn put<const PAGE: usize>(
        page: &mut impl Edit<PAGE>,
        place: usize,
        _key: &[u8],
        payload: Payload<'_>,
    ) {
        let at = Self::value_at(page.node(), place);
        page.put_value(at, payload.bytes);
        Self::set_taken(page, place, true);
        let count = page.node().count();
        page.put_count(count + 1);
    }

    fn take<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize) {
        Self::set_taken(page, place, false);
        let count = page.node().count();
        page.put_count(count - 1);
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        let values = page.places() * page.dense_value_len();
        let taken = page.count() * page.dense_value_len();
        // Values without bytes take a bit.
        let bits = (page.places() - page.count()) / 8;
        (values - taken + bits, PAGE - HEADER)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_dense()?;
        let taken = (0..page.places()).filter(|&place| Self::taken(page, place));
        if taken.count() != page.count() {
            return Err(format!("not {} places are taken", page.count()));
        }
        let room = page.shape();
        let end = Self::value_at(page, room.places);
        if end > page.heap_start() {
            return Err(format!("{room:?} end at {end}, beyond the fences"));
        }
        Ok(())
    }
}
