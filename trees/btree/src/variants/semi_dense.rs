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

use std::ops::Range;

use crate::node::dense::{Shape, number_from};
use crate::node::edit::Edit;
use crate::node::form::Form;
use crate::node::layout::{Payload, Record, mark_len};
use crate::node::page::{HEADER, Image, Tag};
use crate::node::search::{Node, infallible};

/// The form.
pub(crate) struct SemiDense;

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
            let record = Self::record(&old, place);
            let bytes = old.slice(record.at..record.at + record.size());
            let at = page.push_bytes(bytes);
            page.put(HEADER + 2 * place, &(at as u16).to_le_bytes());
        }
        page.set_count(old.count());
        page.set_counter(old.counter());
    }
}

impl Form for SemiDense {
    fn places<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        page.places()
    }

    #[inline(always)]
    fn next<const PAGE: usize, const FORWARD: bool>(
        page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        if FORWARD {
            left.find(|&place| Self::slot(page, place) != 0)
        } else {
            left.rfind(|&place| Self::slot(page, place) != 0)
        }
    }

    fn arrays_end<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        Self::slots_end(page)
    }

    #[inline(always)]
    fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record {
        let at = Self::slot(page, place);
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
            Some(place) => (place, Self::slot(page, place) != 0),
            None => (page.places(), false),
        }
    }

    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool) {
        let (place, equal) = page.first_place(key);
        (place, equal && Self::slot(page, place) != 0)
    }

    fn has_gap<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        debug_assert!(place == page.places() || page.place_of(key) == Some(place));
        let size = mark_len(payload) + payload.bytes.len();
        place < page.places() && page.heap_start() >= Self::slots_end(page) + size
    }

    fn make_gap<const PAGE: usize>(
        page: &mut Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let size = mark_len(payload) + payload.bytes.len();
        let room =
            page.place_of(key).is_some() && PAGE - Self::slots_end(page) - page.heap_used() >= size;
        if room {
            Self::compact(page);
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
        let size = Self::record(page.node(), place).size();
        let (count, used) = (page.node().count(), page.node().heap_used());
        page.put_heap_used(used - size);
        page.put_u16(HEADER + 2 * place, 0);
        page.put_count(count - 1);
    }

    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize) {
        // Slots without values are unused, too, as far as a merge is concerned.
        let vacant = page.places() - page.count();
        let free = PAGE - Self::slots_end(page) - page.heap_used() + 2 * vacant;
        (free, PAGE - HEADER)
    }

    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String> {
        page.verify_dense()?;
        let taken = (0..page.places()).filter(|&place| Self::slot(page, place) != 0);
        if taken.count() != page.count() {
            return Err(format!("not {} slots are taken", page.count()));
        }
        let shape = Self::shape::<PAGE>(page.lower(), page.upper(), &{
            let mut key = Vec::new();
            page.place_key(page.reference() as u32, &mut key);
            key
        });
        if shape != Some(page.shape()) {
            return Err(format!("{:?} instead of {shape:?}", page.shape()));
        }
        Ok(())
    }
}
