//! What a way to keep a leaf's records, a [`Form`], does: `leaf` asks the form that a leaf has.
//!
//! Records lie in *places*: the indices of sorted slots, or the numbers of keys.

use std::ops::Range;

use crate::node::edit::Edit;
use crate::node::layout::{Payload, Record};
use crate::node::page::Image;

/// A way to keep the records of a leaf.
pub(crate) trait Form {
    /// How many places there are, taken or not. Unless a form says otherwise, each record is one.
    #[inline(always)]
    fn places<const PAGE: usize>(page: &Image<PAGE>) -> usize {
        page.count()
    }
    /// Takes the first (or last) taken place off a range.
    #[inline(always)]
    fn next<const PAGE: usize, const FORWARD: bool>(
        _page: &Image<PAGE>,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        if FORWARD {
            left.next()
        } else {
            left.next_back()
        }
    }
    /// Where the arrays end, and with them what a leaf has before its heap or fences.
    fn arrays_end<const PAGE: usize>(page: &Image<PAGE>) -> usize;
    /// The record at a taken place.
    fn record<const PAGE: usize>(page: &Image<PAGE>, place: usize) -> Record;
    /// Writes a key without the page's prefix at the start of `to`, which has
    /// [`SLACK`](crate::node::slotted::SLACK) bytes more than the key, and returns its length.
    /// What lies beyond the key is garbage.
    fn write_suffix<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        record: Record,
        to: &mut [u8],
    ) -> usize;
    /// The place of a key of this leaf, or where it would be put, and which of the two.
    fn locate<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool);
    /// The record of a key of this leaf.
    #[inline(always)]
    fn find<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> Option<Record> {
        let (place, present) = Self::locate(page, key);
        present.then(|| Self::record(page, place))
    }
    /// The first place whose key is at or above `key`, which has the prefix, in an ordered leaf,
    /// and whether that key is there.
    fn lower_bound<const PAGE: usize>(page: &Image<PAGE>, key: &[u8]) -> (usize, bool);
    /// Whether a record whose key is absent and belongs at `place` can be [`put`](Self::put)
    /// there: nothing else of the heap need be moved.
    fn has_gap<const PAGE: usize>(
        page: &Image<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool;
    /// Makes room for such a record, if moving others is enough for that.
    fn make_gap<const PAGE: usize>(
        _page: &mut Image<PAGE>,
        _key: &[u8],
        _payload: Payload<'_>,
    ) -> bool {
        false
    }
    /// Adds a record for which there is a gap.
    fn put<const PAGE: usize>(
        page: &mut impl Edit<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    );
    /// Adds a record whose key is absent and belongs at `place`, or says that it does not fit.
    #[must_use]
    #[inline(always)]
    fn add<const PAGE: usize>(
        page: &mut Image<PAGE>,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let room = Self::has_gap(page, place, key, payload) || Self::make_gap(page, key, payload);
        if room {
            Self::put(page, place, key, payload);
        }
        room
    }
    /// Removes the record at a taken place.
    fn take<const PAGE: usize>(page: &mut impl Edit<PAGE>, place: usize);
    /// Unused bytes, and those of a page that has nothing but its header.
    fn free<const PAGE: usize>(page: &Image<PAGE>) -> (usize, usize);
    /// What is wrong with a leaf that only its form knows.
    fn verify<const PAGE: usize>(page: &Image<PAGE>) -> Result<(), String>;
}
