//! What the tree asks of a leaf, whatever its [`Form`].
//!
//! A configuration that has one form compiles to that form alone: the tests in `form` are of
//! constants then.

use std::ops::{ControlFlow, Range};

use crate::configuration::Configuration;
use crate::node::edit::Edit;
use crate::node::fingerprint::{self, Fingerprints};
use crate::node::form::Form;
use crate::node::fully_dense::FullyDense;
use crate::node::layout::{Kind, Payload, Record};
use crate::node::page::{Image, Tag};
use crate::node::search::{Node, infallible};
use crate::node::slotted::{Comparison, SLACK};
use crate::variants::semi_dense::SemiDenseLeaf;

/// The forms, as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormOf {
    Comparison,
    Fingerprint,
    SemiDense,
    FullyDense,
}

/// Calls a function of a page's form.
macro_rules! by_form {
    ($page:expr, $C:ty, $function:ident $(::<$($generic:tt),+>)? ($($argument:expr),*)) => {
        match $page.form::<$C>() {
            FormOf::Comparison => {
                <Comparison<$C> as Form>::$function $(::<$($generic),+>)? ($($argument),*)
            }
            FormOf::Fingerprint => {
                <Fingerprints as Form>::$function $(::<$($generic),+>)? ($($argument),*)
            }
            FormOf::SemiDense => {
                <SemiDenseLeaf<$C> as Form>::$function $(::<$($generic),+>)? ($($argument),*)
            }
            FormOf::FullyDense => {
                <FullyDense as Form>::$function $(::<$($generic),+>)? ($($argument),*)
            }
        }
    };
}

/// How a walk over a leaf's records came to an end.
pub(crate) enum End {
    /// All were visited.
    Visited,
    /// The visitor had enough.
    Stopped,
    /// At a record whose value is not in the leaf.
    NotInline {
        place: usize,
        /// Bytes of key that were put together.
        key_len: usize,
        record: Record,
    },
}

/// Adds a record for which a leaf [has a gap](Image::has_gap).
#[inline(always)]
pub(crate) fn put_in_gap<C: Configuration, const PAGE: usize>(
    page: &mut impl Edit<PAGE>,
    place: usize,
    key: &[u8],
    payload: Payload<'_>,
) {
    by_form!(page.node(), C, put(page, place, key, payload));
}

/// Removes the record at a place of a leaf.
#[inline(always)]
pub(crate) fn take_from<C: Configuration, const PAGE: usize>(
    page: &mut impl Edit<PAGE>,
    place: usize,
) {
    by_form!(page.node(), C, take(page, place));
}

impl<const PAGE: usize> Image<PAGE> {
    /// The form of this node. Inner nodes are as comparison leaves are.
    #[inline(always)]
    pub(crate) fn form<C: Configuration>(&self) -> FormOf {
        if C::LEAVES.fingerprint() && self.is(Tag::Fingerprint) {
            return FormOf::Fingerprint;
        }
        if C::LEAVES.semi_dense() && self.is(Tag::SemiDense) {
            return FormOf::SemiDense;
        }
        if C::LEAVES.fully_dense() && self.is(Tag::FullyDense) {
            return FormOf::FullyDense;
        }
        FormOf::Comparison
    }

    /// The record of `key`.
    #[inline(always)]
    pub(crate) fn find<C: Configuration>(&self, key: &[u8]) -> Option<Record> {
        by_form!(self, C, find(self, key))
    }

    /// The place of `key`.
    #[inline(always)]
    pub(crate) fn index_of<C: Configuration>(&self, key: &[u8]) -> Option<usize> {
        let (place, present) = self.locate::<C>(key);
        present.then_some(place)
    }

    /// The place of `key`, or where it would be put, and which of the two.
    #[inline(always)]
    pub(crate) fn locate<C: Configuration>(&self, key: &[u8]) -> (usize, bool) {
        by_form!(self, C, locate(self, key))
    }

    /// [`locate`](Self::locate), without a search if the place is the likely one.
    #[inline(always)]
    pub(crate) fn locate_likely<C: Configuration>(
        &self,
        key: &[u8],
        likely: Option<usize>,
    ) -> (usize, bool) {
        let confirmed = likely.and_then(|place| self.confirm::<C>(key, place));
        confirmed.unwrap_or_else(|| self.locate::<C>(key))
    }

    /// What [`locate`](Self::locate) says, if that is this place and a look at it tells so.
    #[inline(always)]
    fn confirm<C: Configuration>(&self, key: &[u8], place: usize) -> Option<(usize, bool)> {
        match self.form::<C>() {
            FormOf::Comparison => infallible(self.confirm_slot::<Comparison<C>>(place, key)),
            FormOf::Fingerprint => {
                let suffix = infallible(self.suffix_of(key));
                infallible(fingerprint::is_at(self, place, suffix)).then_some((place, true))
            }
            FormOf::SemiDense | FormOf::FullyDense => None,
        }
    }

    /// The first place at or above `key`; the leaf is in order.
    pub(crate) fn lower_bound<C: Configuration>(&self, key: &[u8]) -> (usize, bool) {
        if !self.is_dense() {
            let prefix = self.prefix();
            if !key.starts_with(prefix) {
                return (if key < prefix { 0 } else { self.count() }, false);
            }
        }
        by_form!(self, C, lower_bound(self, key))
    }

    /// The record at a place.
    #[inline(always)]
    pub(crate) fn leaf_record<C: Configuration>(&self, place: usize) -> Record {
        by_form!(self, C, record(self, place))
    }

    /// How many places a leaf has.
    #[inline(always)]
    pub(crate) fn all_places<C: Configuration>(&self) -> usize {
        by_form!(self, C, places(self))
    }

    /// The first (or last) taken place of a range, taken off it.
    #[inline(always)]
    pub(crate) fn next_place<C: Configuration, const FORWARD: bool>(
        &self,
        left: &mut Range<usize>,
    ) -> Option<usize> {
        by_form!(self, C, next::<PAGE, FORWARD>(self, left))
    }

    /// The taken places of a range.
    pub(crate) fn taken<C: Configuration>(
        &self,
        mut range: Range<usize>,
    ) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || self.next_place::<C, true>(&mut range))
    }

    /// All taken places.
    pub(crate) fn all_taken<C: Configuration>(&self) -> impl Iterator<Item = usize> {
        self.taken::<C>(0..self.all_places::<C>())
    }

    /// Adds a record whose key is absent and belongs at `place`, or says that it does not fit.
    #[must_use]
    #[inline(always)]
    pub(crate) fn add<C: Configuration>(
        &mut self,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        by_form!(self, C, add(self, place, key, payload))
    }

    /// Whether a record whose key is absent can be put at `place` without moving others.
    #[inline(always)]
    pub(crate) fn has_gap<C: Configuration>(
        &self,
        place: usize,
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        by_form!(self, C, has_gap(self, place, key, payload))
    }

    /// Whether a leaf takes a record, after others were moved within it if need be.
    pub(crate) fn has_room<C: Configuration>(&self, key: &[u8], payload: Payload<'_>) -> bool {
        let mut trial = self.clone();
        let (place, present) = trial.locate::<C>(key);
        if present {
            trial.take::<C>(place);
        }
        trial.add::<C>(place, key, payload)
    }

    /// Bytes from the start of a leaf on that its records need, and where its heap or its fences
    /// begin: what is between them is unused.
    #[inline(always)]
    pub(crate) fn unused<C: Configuration>(&self) -> Range<usize> {
        by_form!(self, C, arrays_end(self))..self.heap_start()
    }

    /// Makes this leaf another, but for the bytes that are unused there.
    #[inline(always)]
    pub(crate) fn copy_used<C: Configuration>(&mut self, from: &Self) {
        // Of a damaged page the header may say anything.
        let unused = from.unused::<C>();
        let start = unused.start.min(PAGE);
        self.copy_range(from, 0..start);
        self.copy_range(from, unused.end.clamp(start, PAGE)..PAGE);
    }

    /// Removes a record.
    pub(crate) fn take<C: Configuration>(&mut self, place: usize) {
        take_from::<C, PAGE>(self, place);
    }

    /// Whether records are in key order.
    pub(crate) fn is_ordered<C: Configuration>(&self) -> bool {
        self.form::<C>() != FormOf::Fingerprint || self.sorted() == self.count()
    }

    /// Puts records in key order, as scans and splits want them.
    #[inline(always)]
    pub(crate) fn order<C: Configuration>(&mut self) {
        if self.form::<C>() == FormOf::Fingerprint {
            self.sort_fingerprints();
        }
    }

    /// The whole key of a node's record, in place of what `key` held.
    pub(crate) fn node_key<C: Configuration>(&self, place: usize, key: &mut Vec<u8>) {
        let record = self.leaf_record::<C>(place);
        let prefix = self.prefix_len();
        key.resize(prefix + record.key_len + SLACK, 0);
        key[..prefix].copy_from_slice(self.prefix());
        let to = &mut key[prefix..];
        let len = by_form!(self, C, write_suffix(self, place, record, to));
        key.truncate(prefix + len);
    }

    /// The upper fence of a child of this inner node; empty for none.
    pub(crate) fn upper_of_child<C: Configuration>(&self, index: usize) -> Vec<u8> {
        if index == self.count() {
            return self.upper().to_vec();
        }
        let mut upper = Vec::new();
        self.node_key::<C>(index, &mut upper);
        upper
    }

    /// Unused bytes, and those of a page that has nothing but its header.
    pub(crate) fn node_free<C: Configuration>(&self) -> (usize, usize) {
        by_form!(self, C, free(self))
    }

    /// What is wrong with this leaf that only its form knows.
    pub(crate) fn verify_form<C: Configuration>(&self) -> Result<(), String> {
        by_form!(self, C, verify(self))
    }

    /// Visits records of an ordered leaf until one's value is elsewhere; their keys are put
    /// together in `key`, where `base` bytes are already.
    #[inline(always)]
    pub(crate) fn walk<C: Configuration, const FORWARD: bool, V>(
        &self,
        left: Range<usize>,
        key: &mut [u8],
        base: usize,
        visit: &mut V,
    ) -> End
    where
        V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        match self.form::<C>() {
            FormOf::Comparison => self.walk_in::<Comparison<C>, FORWARD, V>(left, key, base, visit),
            FormOf::Fingerprint => self.walk_in::<Fingerprints, FORWARD, V>(left, key, base, visit),
            FormOf::SemiDense => {
                self.walk_in::<SemiDenseLeaf<C>, FORWARD, V>(left, key, base, visit)
            }
            FormOf::FullyDense => self.walk_in::<FullyDense, FORWARD, V>(left, key, base, visit),
        }
    }

    #[inline]
    fn walk_in<F: Form, const FORWARD: bool, V>(
        &self,
        mut left: Range<usize>,
        key: &mut [u8],
        base: usize,
        visit: &mut V,
    ) -> End
    where
        V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let start = base + self.prefix_len();
        key[base..start].copy_from_slice(self.prefix());
        while let Some(place) = F::next::<PAGE, FORWARD>(self, &mut left) {
            let record = F::record(self, place);
            let len = start + F::write_suffix(self, place, record, &mut key[start..]);
            if record.kind != Kind::Inline {
                return End::NotInline {
                    place,
                    key_len: len,
                    record,
                };
            }
            if visit(&key[..len], self.payload(record).bytes).is_break() {
                return End::Stopped;
            }
        }
        End::Visited
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use hedgerow_pages::Frame;
    use proptest::prelude::*;

    use super::*;
    use crate::configuration::{Baseline, Fingerprint, Heads, Hints, WideHints};
    use crate::node::plan::first_leaf;

    /// An empty leaf of keys that begin alike, which leaves that out if its configuration does.
    fn leaf_of<C: Configuration, const PAGE: usize>(start: &str) -> Image<PAGE> {
        let mut page = Image::zeroed();
        let upper = if start.is_empty() {
            String::new()
        } else {
            format!("{start}~")
        };
        page.begin::<C>(first_leaf::<C>(), start.as_bytes(), upper.as_bytes());
        let left_out = if C::PREFIX { start.len() } else { 0 };
        assert_eq!(page.prefix_len(), left_out);
        page
    }

    /// Whatever place somebody believes in, it is confirmed only if a search says the same; and
    /// the place of a key that is there is confirmed.
    fn confirms_what_a_search_says<C: Configuration>(
        start: &str,
        keys: &[String],
        others: &[String],
    ) {
        let mut page = leaf_of::<C, 1024>(start);
        for key in keys {
            let (place, present) = page.locate::<C>(key.as_bytes());
            let payload = Payload {
                kind: Kind::Inline,
                bytes: b"value",
            };
            // A page that is full takes no more.
            let _ = present || page.add::<C>(place, key.as_bytes(), payload);
        }
        for key in keys.iter().chain(others) {
            let found = page.locate::<C>(key.as_bytes());
            for place in 0..page.count() + 3 {
                let confirmed = page.confirm::<C>(key.as_bytes(), place);
                assert!(
                    confirmed.is_none_or(|confirmed| confirmed == found),
                    "{key}"
                );
                let likely = page.locate_likely::<C>(key.as_bytes(), Some(place));
                assert_eq!(likely, found, "{key} at {place}");
            }
        }
    }

    /// Most keys have a head of their own, so no search is needed where a prefetch was.
    #[test]
    fn a_key_alone_with_its_head_is_confirmed_where_it_is() {
        let mut page = Image::<1024>::zeroed();
        page.start::<Hints>();
        for key in 0..30_u32 {
            let key = (key * 1000).to_be_bytes();
            let (place, _) = page.locate::<Hints>(&key);
            let payload = Payload {
                kind: Kind::Inline,
                bytes: b"value",
            };
            assert!(page.add::<Hints>(place, &key, payload));
        }
        for key in 0..30_u32 {
            let place = key as usize;
            let here = (key * 1000).to_be_bytes();
            assert_eq!(page.confirm::<Hints>(&here, place), Some((place, true)));
            let behind = (key * 1000 + 1).to_be_bytes();
            let next = (place + 1, false);
            assert_eq!(page.confirm::<Hints>(&behind, place + 1), Some(next));
            assert_eq!(page.confirm::<Hints>(&behind, place), None);
        }
    }

    /// Where a search of a page says that keys are or would be is where the order of keys says so,
    /// of plain bytes and by the words that a reader beside a writer loads.
    fn finds_what_order_says<C: Configuration>(start: &str, keys: &[String], others: &[String]) {
        const PAGE: usize = 4096;
        let mut page = leaf_of::<C, PAGE>(start);
        let mut sorted: Vec<&str> = Vec::new();
        for key in keys {
            let place = sorted.binary_search(&key.as_str());
            let payload = Payload {
                kind: Kind::Inline,
                bytes: b"value",
            };
            if let Err(place) = place
                && page.add::<C>(place, key.as_bytes(), payload)
            {
                sorted.insert(place, key);
            }
        }
        let words = page.bytes().as_chunks().0.iter();
        let words = words.map(|word| AtomicU64::new(u64::from_le_bytes(*word)));
        let words: Vec<AtomicU64> = words.collect();
        let frame = Frame::<PAGE>::new(&words);
        for key in keys.iter().chain(others) {
            let (expected, bytes) = (sorted.binary_search(&key.as_str()), key.as_bytes());
            let expected = (expected.unwrap_or_else(|place| place), expected.is_ok());
            assert_eq!(page.search::<Comparison<C>>(bytes), expected, "{key}");
            let found = frame.find_slot::<Comparison<C>>(bytes);
            assert_eq!(found, Ok(expected), "{key}");
            for index in 0..=sorted.len() {
                let record = frame.record_if_of::<Comparison<C>>(index, bytes);
                let is_it = C::HEAD > 0 && expected == (index, true);
                let record = record.expect("nobody changes the page");
                assert_eq!(record.is_some(), is_it, "{key} at {index}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_search_finds_what_order_says(
            start in prop::sample::select(vec!["", "k", "key:", "user:0000"]),
            fenced in any::<bool>(),
            keys in prop::collection::vec("[ab\\x00]{0,9}|[ab]{5,24}", 1..120),
            others in prop::collection::vec("[ab\\x00]{0,9}|[ab]{5,24}", 20),
        ) {
            let whole = |rest: &String| format!("{start}{rest}");
            let keys: Vec<String> = keys.iter().map(whole).collect();
            let others: Vec<String> = others.iter().map(whole).collect();
            let left_out = if fenced { start } else { "" };
            finds_what_order_says::<Baseline>(left_out, &keys, &others);
            finds_what_order_says::<Heads>(left_out, &keys, &others);
            finds_what_order_says::<Hints>(left_out, &keys, &others);
            finds_what_order_says::<WideHints>(left_out, &keys, &others);
        }

        #[test]
        fn a_place_is_confirmed_only_if_a_search_says_the_same(
            start in prop::sample::select(vec!["", "k", "key:", "user:0000"]),
            keys in prop::collection::vec("[ab\\x00]{0,9}", 1..60),
            others in prop::collection::vec("[ab\\x00]{0,9}", 20),
        ) {
            let whole = |rest: &String| format!("{start}{rest}");
            let keys: Vec<String> = keys.iter().map(whole).collect();
            let others: Vec<String> = others.iter().map(whole).collect();
            confirms_what_a_search_says::<Baseline>(start, &keys, &others);
            confirms_what_a_search_says::<Heads>(start, &keys, &others);
            confirms_what_a_search_says::<Hints>(start, &keys, &others);
            confirms_what_a_search_says::<WideHints>(start, &keys, &others);
            confirms_what_a_search_says::<Fingerprint>(start, &keys, &others);
        }
    }
}
