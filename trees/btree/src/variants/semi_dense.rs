//! Semi dense leaves: a slot for every key that could be there (§3.5).
//!
//! ```text
//! +--------+--------------------+--------+-----------------------------------+
//! | header | slots: places × 2  |  free  | heap: | length or kind | value |…  |
//! +--------+--------------------+--------+-----------------------------------+
//! ```
//!
//! A slot is the offset of a value, or 0. There are as many as keys of the leaf's length between
//! its fences, so a leaf becomes one only where its upper fence has its keys' prefix, too.
//!
//! With the option to *over-commit* a leaf has as many slots as its values would leave room for, if
//! all of its keys were there, where the fences are further apart than that: as fully dense leaves
//! have. A key past the last slot gets a leaf of its own to the right, and nothing is moved.

use std::marker::PhantomData;
use std::ops::Range;

use hedgerow_simd::equal_bytes;

use crate::configuration::Configuration;
use crate::node::dense::{Shape, alike, number, number_from};
use crate::node::edit::Edit;
use crate::node::form::Form;
use crate::node::layout::{Payload, Record, mark_len};
use crate::node::page::{HEADER, Image, Tag};
use crate::node::search::{Node, infallible};

/// What concerns leaves with any options.
pub(crate) struct SemiDense;

/// The form, with the options of a configuration.
pub(crate) struct SemiDenseLeaf<C>(PhantomData<C>);

/// Slots that are looked at together.
const TOGETHER: usize = 8;

impl SemiDense {
    /// The shape of a leaf between two fences, whose keys are as long as `key`; none if they are
    /// too many.
    pub(crate) fn shape<const PAGE: usize>(
        lower: &[u8],
        upper: &[u8],
        key: &[u8],
    ) -> Option<Shape> {
        let mut shape = Shape {
            key_len: key.len(),
            value_len: 0,
            reference: 0,
            places: 0,
        };
        let prefix = &key[..shape.prefix_len()];
        if key.is_empty()
            || !lower.starts_with(prefix)
            || !upper.starts_with(prefix)
            || upper.is_empty()
        {
            return None;
        }
        shape.reference = number_from(lower, key.len())?;
        let places = number_from(upper, key.len())?.checked_sub(shape.reference)?;
        shape.places = places as usize;
        (places > 0 && shape.places < PAGE / 2).then_some(shape)
    }

    /// The shape of a leaf that may have fewer slots than there are keys between its fences, for
    /// keys from `first` to `last` whose values take so many bytes each; none if these keys are too
    /// far apart.
    pub(crate) fn over_committed<const PAGE: usize>(
        lower: &[u8],
        upper: &[u8],
        (first, last): (&[u8], &[u8]),
        value_bytes: usize,
    ) -> Option<Shape> {
        let base = Shape {
            key_len: first.len(),
            value_len: 0,
            reference: 0,
            places: 0,
        };
        let prefix = base.prefix_len();
        if first.is_empty() || !alike(first, last) || !lower.starts_with(&first[..prefix]) {
            return None;
        }
        let reference = number_from(lower, first.len())?;
        let room = Self::room::<PAGE>(lower, upper, base)? / (2 + value_bytes.max(1));
        let shape = base.starting_at(reference, room);
        let last = number(&last[prefix..]).checked_sub(reference)?;
        ((last as usize) < shape.places).then_some(shape)
    }

    /// Makes an empty leaf.
    pub(crate) fn reset<const PAGE: usize>(
        page: &mut Image<PAGE>,
        lower: &[u8],
        upper: &[u8],
        shape: Shape,
    ) {
        page.reset_dense(Tag::SemiDense, lower, upper, shape);
        page.slice_mut(HEADER..HEADER + 2 * shape.places).fill(0);
    }

    /// Free bytes of an empty leaf, if its slots and fences fit at all.
    pub(crate) fn room<const PAGE: usize>(
        lower: &[u8],
        upper: &[u8],
        shape: Shape,
    ) -> Option<usize> {
        let fences = lower.len() + upper.len().max(shape.key_len + 1);
        PAGE.checked_sub(HEADER + 2 * shape.places + fences)
    }

    fn slots_end<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        HEADER + 2 * page.places()
    }

    fn slot<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> usize {
        page.u16_at(HEADER + 2 * place)
    }

    fn compact<const PAGE: usize>(page: &mut Image<PAGE>) {
        let old = page.clone();
        Self::reset(page, old.lower(), old.upper(), old.shape());
        for place in 0..old.places() {
            if Self::slot(&old, place) == 0 {
                continue;
            }
            let record = record(&old, place);
            let bytes = old.slice(record.at..record.at + record.size());
            let at = page.push_bytes(bytes);
            page.put(HEADER + 2 * place, &(at as u16).to_le_bytes());
        }
        page.set_count(old.count());
        page.set_counter(old.counter());
    }

    /// The values of eight slots from one on that are there, two bits for each, the lower one set;
    /// beyond the last slot bits are meaningless. None where the page ends before.
    #[inline(always)]
    fn taken_of_eight<const PAGE: usize>(page: &Image<PAGE>, at: usize) -> Option<u32> {
        if at + 2 * TOGETHER > PAGE {
            return None;
        }
        let zeros = equal_bytes(page.array(at), 0);
        Some(!(zeros & zeros >> 1) & 0x5555)
    }

    /// The first taken place of a range, by eight slots at a time.
    #[inline(always)]
    fn next_together<const PAGE: usize>(
        page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        while left.start < left.end {
            let Some(taken) = Self::taken_of_eight(page, HEADER + 2 * left.start) else {
                return left.find(|&place| Self::slot(page, place) != 0);
            };
            let place = left.start + taken.trailing_zeros() as usize / 2;
            if taken != 0 && place < left.end {
                left.start = place + 1;
                return Some(place);
            }
            left.start = (left.start + TOGETHER).min(left.end);
        }
        None
    }

    /// The last taken place of a range, by eight slots at a time. Before the first slot there is
    /// a header longer than that.
    #[inline(always)]
    fn last_together<const PAGE: usize>(
        page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        const { assert!(HEADER >= 2 * TOGETHER) };
        while left.start < left.end {
            let at = HEADER + 2 * left.end - 2 * TOGETHER;
            let taken = Self::taken_of_eight(page, at).unwrap_or(0);
            let beyond = (taken << 16).leading_zeros() as usize / 2;
            if taken != 0 && beyond < left.len() {
                left.end -= beyond + 1;
                return Some(left.end);
            }
            left.end = left.end.saturating_sub(TOGETHER).max(left.start);
        }
        None
    }
}

#[inline(always)]
fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record {
    let at = SemiDense::slot(page, place);
    let mark = infallible(page.value_mark(at));
    Record {
        at,
        key_len: page.key_len() - page.prefix_len(),
        tail_at: mark.end,
        value_at: mark.end,
        value_len: mark.len,
        kind: mark.kind,
    }
}

impl<C: Configuration> Form for SemiDenseLeaf<C> {
    fn places<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        page.places()
    }

    #[inline(always)]
    fn next<const PAGE: usize, const FORWARD: bool>(
        page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        match (FORWARD, C::SEMI_DENSE.scans_by_vectors) {
            (true, true) => SemiDense::next_together(page, left),
            (false, true) => SemiDense::last_together(page, left),
            (true, false) => left.find(|&place| SemiDense::slot(page, place) != 0),
            (false, false) => left.rfind(|&place| SemiDense::slot(page, place) != 0),
        }
    }

    fn arrays_end<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        SemiDense::slots_end(page)
    }

    #[inline(always)]
    fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record {
        record(page, place)
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
            Some(place) => (place, SemiDense::slot(page, place) != 0),
            None => (page.places(), false),
        }
    }

    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        let (place, equal) = page.first_place(key);
        (place, equal && SemiDense::slot(page, place) != 0)
    }

    fn has_gap<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        debug_assert!(place == page.places() || page.place_of(key) == Some(place));
        let size = mark_len(payload) + payload.bytes.len();
        place < page.places() && page.heap_start() >= SemiDense::slots_end(page) + size
    }

    fn make_gap<const PAGE: usize>(
        page: &mut Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let size = mark_len(payload) + payload.bytes.len();
        let room = page.place_of(key).is_some()
            && PAGE - SemiDense::slots_end(page) - page.heap_used() >= size;
        if room {
            SemiDense::compact(page);
        }
        room
    }

    fn put<const PAGE: usize>(
        page: &mut impl Edit<PAGE>,
        place: usize,
        _key: &[u8],
        payload: Payload<'_>,
    ) {
        let size = mark_len(payload) + payload.bytes.len();
        let at = page.take_heap(size);
        let value_at = page.write_mark(at, payload);
        page.put_value(value_at, payload.bytes);
        page.put_u16(HEADER + 2 * place, at as u16);
        let count = page.node().count();
        page.put_count(count + 1);
    }

    fn take<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize) {
        let size = record(page.node(), place).size();
        let (count, used) = (page.node().count(), page.node().heap_used());
        page.put_heap_used(used - size);
        page.put_u16(HEADER + 2 * place, 0);
        page.put_count(count - 1);
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        // Slots without values are unused, too, as far as a merge is concerned.
        let vacant = page.places() - page.count();
        let free = PAGE - SemiDense::slots_end(page) - page.heap_used() + 2 * vacant;
        (free, PAGE - HEADER)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_dense()?;
        let taken = (0..page.places()).filter(|&place| SemiDense::slot(page, place) != 0);
        if taken.count() != page.count() {
            return Err(format!("not {} slots are taken", page.count()));
        }
        let mut key = Vec::new();
        page.place_key(page.reference() as u32, &mut key);
        let shape = SemiDense::shape::<PAGE>(page.lower(), page.upper(), &key);
        if shape == Some(page.shape()) {
            return Ok(());
        }
        let begins = number_from(page.lower(), key.len()) == Some(page.reference() as u32);
        let fewer = shape.is_none_or(|all| page.places() < all.places);
        if C::SEMI_DENSE.over_commits && begins && fewer && page.places() < PAGE / 2 {
            return Ok(());
        }
        Err(format!("{:?} instead of {shape:?}", page.shape()))
    }
}
