//! How leaves of the adaptive tree choose between comparison and fingerprints (§5.1).
//!
//! Fingerprints suit keys whose heads say little, unless they are scanned. At splits and merges,
//! and [in the background](crate::BTreeIndex::adapt_to_keys), the keys are looked at: with *good
//! heads* a leaf compares, and its counter is disabled. Else the counter, a byte of the leaf,
//! decides. A scan that comes by raises it now and then, a point operation lowers it more rarely;
//! from 0 to 3 it says how common scans are. At either end the leaf is converted at once, if it
//! fits the page, so that a tree that is only read adapts, too. The tree's nodes stay as they are
//! then.
//!
//! What scans pay for fingerprints is that records must be put in order, which an insertion undoes.
//! Where nothing is inserted between scans they pay nothing: so those that find their leaf in order
//! are not counted, and a conversion would not earn its own cost there.
//!
//! How many heads may be equal, how rarely operations count and how far are
//! [`Thresholds`](crate::configuration::Thresholds) of the configuration.

use hedgerow_index::Statistics;

use crate::configuration::Configuration;
use crate::node::leaf::FormOf;
use crate::node::page::Image;
use crate::node::plan::{Content, Plan, Planned};

/// Chooses operations at random, and costs most of them a subtraction: it draws how many
/// operations there are up to the next one that it chooses.
#[derive(Debug)]
pub(crate) struct Sampler {
    left: u32,
    random: u32,
}

impl Default for Sampler {
    fn default() -> Self {
        // Xorshift stays at zero if it ever is there.
        let random = 0x9e37_79b9;
        Self { left: 1, random }
    }
}

impl Sampler {
    /// True as often as `of_2_to_32` says.
    #[inline(always)]
    pub(crate) fn sample(&mut self, of_2_to_32: u32) -> bool {
        self.left -= 1;
        let is_due = self.left == 0;
        if is_due {
            self.draw(of_2_to_32);
        }
        is_due
    }

    /// Draws how many operations there are up to the next, from one up to twice the mean.
    #[cold]
    fn draw(&mut self, of_2_to_32: u32) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let most = 2 * (u64::from(u32::MAX) / u64::from(of_2_to_32));
        self.left = 1 + ((u64::from(self.random) * most) >> 32) as u32;
    }
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
            "Leaves that became dense, in place, at a split or in the background.",
        );
        push(
            "from_dense",
            self.from_dense,
            "Dense leaves that became leaves of slots.",
        );
        push(
            "to_fingerprint_by_keys",
            self.fingerprint_by_keys,
            "Comparison leaves that got fingerprints for their keys.",
        );
        push(
            "to_comparison_by_keys",
            self.comparison_by_keys,
            "Leaves that lost their fingerprints for their keys.",
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

impl<const PAGE: usize> Image<PAGE> {
    /// Counts a point operation in this leaf.
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

    /// Counts a scan in this leaf.
    pub(crate) fn raise_counter<C: Configuration>(&mut self, conversions: &mut Conversions) {
        let counter = self.counter();
        let most = C::THRESHOLDS.most;
        if counter < most {
            self.set_counter(counter + 1);
            if counter + 1 == most && self.form::<C>() == FormOf::Fingerprint {
                self.convert::<C>(Planned::Comparison, conversions);
            }
        }
    }

    /// Whether scans of this leaf are counted. Where records with fingerprints are in order, a
    /// scan costs no more than where they are compared, and finds its first record sooner than by
    /// bad heads.
    #[inline(always)]
    pub(crate) fn counts_scans<C: Configuration>(&self) -> bool {
        self.counter() < C::THRESHOLDS.most
            && (self.form::<C>() != FormOf::Fingerprint || self.sorted() < self.count())
    }

    /// The form that an adaptive tree's leaf of slots would get at a split or merge, where that is
    /// another than it has, or its counter is to be enabled or disabled.
    pub(crate) fn plan_by_keys<C: Configuration>(&self) -> Option<Plan> {
        if !C::LEAVES.adaptive() || !self.is_leaf() || self.is_dense() || self.count() < 2 {
            return None;
        }
        let mut ordered = self.clone();
        ordered.order::<C>();
        let content = Content {
            lower: ordered.lower(),
            upper: ordered.upper(),
            parts: &[(&ordered, 0..ordered.count())],
        };
        let plan = content
            .dense::<C>()
            .unwrap_or_else(|| content.slotted::<C>(ordered.counter()));
        let fits = plan.form.is_dense() || content.room_in::<C>(plan.form.form()).is_some();
        let same = plan.form.form() == self.form::<C>() && plan.counter == self.counter();
        (fits && !same).then_some(plan)
    }

    /// Gives a leaf the form that suits its keys now ("key-adaption as a background activity");
    /// whether it had another.
    pub(crate) fn adapt_to_keys<C: Configuration>(
        &mut self,
        conversions: &mut Conversions,
    ) -> bool {
        let Some(plan) = self.plan_by_keys::<C>() else {
            return false;
        };
        self.order::<C>();
        let old = self.clone();
        if plan.form.form() == old.form::<C>() {
            self.set_counter(plan.counter);
            return false;
        }
        self.rebuild::<C>(&old, plan, conversions);
        true
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
