//! How leaves of the adaptive tree choose between comparison and fingerprints (§5.1).
//!
//! Fingerprints suit keys whose heads say little, unless they are scanned. At splits and merges
//! the keys are looked at: with *good heads* a leaf compares, and its counter is disabled. Else
//! the counter, a byte of the leaf, decides. A scan that comes by raises it now and then, a point
//! operation lowers it more rarely; from 0 to 3 it says how common scans are. At either end the
//! leaf is converted at once, if it fits the page, so that a tree that is only read adapts, too.
//! The tree's nodes stay as they are then.

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::dense::Part;
use crate::fingerprint::Fingerprints;
use crate::leaf::FormOf;
use crate::page::Image;
use crate::pages::{PageNumber, Pages};
use crate::plan::{Content, Plan, Planned};
use crate::search::head_of;
use crate::slotted::Comparison;
use crate::tree::BTree;

/// The counter of a leaf whose heads are good, or that is dense.
pub(crate) const DISABLED: usize = 255;

/// The highest count: scans are common.
pub(crate) const SCANNED: usize = 3;

/// How probably a scan counts, of 2³².
pub(crate) const SCAN_COUNTS: u32 = (0.15 * 4_294_967_296.0) as u32;

/// How probably a point operation counts.
pub(crate) const POINT_COUNTS: u32 = (0.05 * 4_294_967_296.0) as u32;

/// Whether fewer than a sixteenth of the records have the head of the one before.
pub(crate) fn good_heads<C: Configuration, const PAGE: usize>(
    parts: &[Part<'_, PAGE>],
    prefix: usize,
) -> bool {
    let most: usize = parts.iter().map(|(_, places)| places.len()).sum();
    let (mut count, mut equal) = (0, 0);
    let (mut key, mut last) = (Vec::new(), None);
    for (image, places) in parts {
        for place in image.taken::<C>(places.clone()) {
            let head = Some(image.head_beyond::<C>(place, prefix, &mut key));
            equal += usize::from(last == head);
            if 16 * equal >= most {
                return false;
            }
            count += 1;
            last = head;
        }
    }
    16 * equal < count || count == 0
}

/// How often leaves took another form, and why.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    pub to_dense: u64,
    pub from_dense: u64,
    pub fingerprint_by_keys: u64,
    pub comparison_by_keys: u64,
    pub fingerprint_by_counter: u64,
    pub comparison_by_counter: u64,
    pub refused: u64,
    pub partitions: u64,
    pub overruns: u64,
    pub widened: u64,
}

impl Conversions {
    /// Counts what a split or merge made of a leaf.
    pub(crate) fn by_keys(&mut self, from: FormOf, to: FormOf) {
        match (from, to) {
            (FormOf::Comparison, FormOf::Fingerprint) => self.fingerprint_by_keys += 1,
            (FormOf::Fingerprint, FormOf::Comparison) => self.comparison_by_keys += 1,
            (FormOf::Comparison | FormOf::Fingerprint, FormOf::SemiDense | FormOf::FullyDense) => {
                self.to_dense += 1;
            }
            (FormOf::SemiDense | FormOf::FullyDense, FormOf::Comparison | FormOf::Fingerprint) => {
                self.from_dense += 1;
            }
            _ => {}
        }
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.to_dense += other.to_dense;
        self.from_dense += other.from_dense;
        self.fingerprint_by_keys += other.fingerprint_by_keys;
        self.comparison_by_keys += other.comparison_by_keys;
        self.fingerprint_by_counter += other.fingerprint_by_counter;
        self.comparison_by_counter += other.comparison_by_counter;
        self.refused += other.refused;
        self.partitions += other.partitions;
        self.overruns += other.overruns;
        self.widened += other.widened;
    }

    pub(crate) fn push(&self, all: &mut Statistics) {
        let mut push = |name, value: u64, help| all.push(name, value as f64, help);
        push(
            "to_dense",
            self.to_dense,
            "Leaves that became dense, in place or at a split.",
        );
        push(
            "from_dense",
            self.from_dense,
            "Dense leaves that became leaves of slots.",
        );
        push(
            "to_fingerprint_by_keys",
            self.fingerprint_by_keys,
            "Comparison leaves that got fingerprints at a split or merge.",
        );
        push(
            "to_comparison_by_keys",
            self.comparison_by_keys,
            "Leaves that lost their fingerprints at a split or merge.",
        );
        push(
            "to_fingerprint_by_counter",
            self.fingerprint_by_counter,
            "Comparison leaves that got fingerprints as scans became rare.",
        );
        push(
            "to_comparison_by_counter",
            self.comparison_by_counter,
            "Leaves that lost their fingerprints as scans became common.",
        );
        push(
            "conversions_refused",
            self.refused,
            "Conversions by counter that the page had no room for.",
        );
        push(
            "partition_splits",
            self.partitions,
            "Splits where dense keys end.",
        );
        push(
            "overrun_splits",
            self.overruns,
            "Splits of dense leaves beside their places, which move nothing.",
        );
        push(
            "widened_leaves",
            self.widened,
            "Leaves whose records and range a dense neighbour took.",
        );
    }
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Counts a lookup, insertion or removal in a leaf.
    #[inline(always)]
    pub(crate) fn count_point(&mut self, page: PageNumber) {
        if C::LEAVES.adaptive() && self.chance(POINT_COUNTS) {
            self.lower_counter(page);
        }
    }

    /// Counts a scan that visits a leaf.
    #[inline(always)]
    pub(crate) fn count_scan(&mut self, page: PageNumber) {
        if C::LEAVES.adaptive() && self.chance(SCAN_COUNTS) {
            self.raise_counter(page);
        }
    }

    /// True as often as `of_2_to_32` says (xorshift; not zero at first, so never).
    #[inline(always)]
    fn chance(&mut self, of_2_to_32: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random < of_2_to_32
    }

    #[cold]
    fn lower_counter(&mut self, page: PageNumber) {
        let image = self.pages.page_mut(page);
        image.lower_counter::<C>(&mut self.conversions);
    }

    #[cold]
    fn raise_counter(&mut self, page: PageNumber) {
        let image = self.pages.page_mut(page);
        image.raise_counter::<C>(&mut self.conversions);
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// The head that a record's key would have if `prefix` bytes of it were left out. The whole
    /// key is put together in `key` only if need be.
    #[inline(always)]
    fn head_beyond<C: Configuration>(&self, place: usize, prefix: usize, key: &mut Vec<u8>) -> u64 {
        let more = prefix.checked_sub(self.prefix_len());
        match (self.form::<C>(), more) {
            (FormOf::Comparison, Some(0)) if C::HEAD > 0 => self.head_at::<Comparison<C>>(place),
            (FormOf::Fingerprint, Some(more)) => {
                let record = self.record_at::<Fingerprints>(place);
                let suffix = self.slice(record.tail_at..record.value_at);
                head_of::<Comparison<C>>(&suffix[more..])
            }
            _ => {
                self.node_key::<C>(place, key);
                head_of::<Comparison<C>>(&key[prefix..])
            }
        }
    }

    /// Notes that a point operation was counted in this leaf.
    pub(crate) fn lower_counter<C: Configuration>(&mut self, conversions: &mut Conversions) {
        let counter = self.counter();
        // As a signed byte, a disabled counter is negative.
        if (counter as u8).cast_signed() > 0 {
            self.set_counter(counter - 1);
            if counter == 1 && self.form::<C>() == FormOf::Comparison {
                self.convert::<C>(Planned::Fingerprint, conversions);
            }
        }
    }

    /// Notes that a scan was counted in this leaf.
    pub(crate) fn raise_counter<C: Configuration>(&mut self, conversions: &mut Conversions) {
        let counter = self.counter();
        if counter < SCANNED {
            self.set_counter(counter + 1);
            if counter + 1 == SCANNED && self.form::<C>() == FormOf::Fingerprint {
                self.convert::<C>(Planned::Comparison, conversions);
            }
        }
    }

    /// Gives a leaf another slotted form, if its records fit so.
    fn convert<C: Configuration>(&mut self, form: Planned, conversions: &mut Conversions) {
        self.order::<C>();
        let old = self.clone();
        let content = Content {
            lower: old.lower(),
            upper: old.upper(),
            parts: &[(&old, 0..old.count())],
        };
        if content.room_in::<C>(form.form()).is_none() {
            conversions.refused += 1;
            return;
        }
        let counter = old.counter();
        content.build::<C>(Plan { form, counter }, self);
        match form {
            Planned::Fingerprint => conversions.fingerprint_by_counter += 1,
            _ => conversions.comparison_by_counter += 1,
        }
    }
}
