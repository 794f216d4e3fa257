//! Which places of a leaf a scan visits, and whether its range ends there.

use std::cmp::Ordering;
use std::ops::Range;

use hedgerow_index::KeyBound;

use crate::configuration::Configuration;
use crate::node::key::CutKey;
use crate::node::page::Image;

impl<const PAGE: usize> Image<PAGE> {
    /// The places of an ordered leaf from a start on, and the one whose key prefix (of
    /// `key_prefix` bytes) the start cuts through, with the start below it.
    pub(crate) fn range_from<'k, C: Configuration, const FORWARD: bool>(
        &self,
        start: Option<KeyBound<'k>>,
        key_prefix: usize,
    ) -> (Range<usize>, Option<(usize, KeyBound<'k>)>) {
        let all = 0..self.all_places::<C>();
        let Some(KeyBound { key, inclusive }) = start else {
            return (all, None);
        };
        let key = CutKey::at(key, key_prefix);
        let (index, equal) = self.lower_bound::<C>(key.key_prefix);
        let keep = equal && (key.rest.is_some() || inclusive);
        let split = index + usize::from(equal && (keep != FORWARD));
        let left = if FORWARD { split..all.end } else { 0..split };
        let rest = key.rest.filter(|_| keep);
        (left, rest.map(|key| (index, KeyBound { key, inclusive })))
    }

    /// The places of an ordered leaf up to an end of the scan, and the one whose key prefix the end
    /// cuts through, with the end below it.
    pub(crate) fn range_to<'k, C: Configuration, const FORWARD: bool>(
        &self,
        end: KeyBound<'k>,
        key_prefix: usize,
    ) -> (Range<usize>, Option<(usize, KeyBound<'k>)>) {
        // Before a bound in one direction is behind it in the other.
        if FORWARD {
            self.range_from::<C, false>(Some(end), key_prefix)
        } else {
            self.range_from::<C, true>(Some(end), key_prefix)
        }
    }

    /// Whether a scan that ends there meets no key behind this leaf, as its fence tells.
    pub(crate) fn is_last_before<const FORWARD: bool>(
        &self,
        end: KeyBound<'_>,
        key_prefix: usize,
    ) -> bool {
        let KeyBound { key, inclusive } = end;
        let CutKey { key_prefix, rest } = CutKey::at(key, key_prefix);
        let fence = if FORWARD { self.upper() } else { self.lower() };
        if fence.is_empty() {
            return true;
        }
        // The upper fence is the first key that belongs to the next leaf, the lower one to this.
        match fence.cmp(key_prefix) {
            Ordering::Less => !FORWARD,
            Ordering::Equal => !FORWARD || (rest.is_none() && !inclusive),
            Ordering::Greater => FORWARD,
        }
    }
}
