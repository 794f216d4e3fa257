//! How nodes split (§2), and how a full leaf may become a dense one instead (§3.5).
//!
//! A node splits where records have been coming in, if they came in a row (`runs`). Else a leaf
//! splits near its median, at the place of the shortest separator among a sixteenth of
//! its keys; an inner node gives one of its keys to its parent. Before a leaf of slots splits,
//! it becomes dense if it can; if only its lower half or more could, that is cut off.
//!
//! **There is always room.** Let *k* be the longest key prefix, an eighth of what a page has
//! besides header, hints and 48 bytes. The key and value of a record have at most 2*k* bytes
//! (`chain`), and a fence has at most *k*. Lengths, slot and head add up to 14 bytes to a record,
//! in the form where that is most. So three records fit beside two fences, without any prefix:
//!
//! ```text
//! 3 × (2k + 14) + 2k < 8k + 48
//! ```
//!
//! (In pages of 256 bytes what a record must say of overflow pages may be longer than *k* = 14: up
//! to 24 bytes, beside lengths and slot of 6. There `3 × (14 + 24 + 6) + 2 × 14 = 8 × 14 + 48`.)
//!
//! Hence a slotted leaf that cannot take a record has three or more. Each half of it has one or
//! more, and fits: its separator is not longer than a key that the half loses, or the split saw
//! room for it. After a few splits the leaf of the record has two records or fewer. A dense leaf
//! whose records fit a comparison leaf with the new one becomes one, so a dense leaf that splits
//! has three records, too. An inner node splits when it has no room for one more separator: it has
//! six or more.
//!
//! Whoever plans a node sees to its room, and one that is made without it panics (`plan`,
//! `slotted`). Both halves of a split are made before anything refers to them: so a wrong plan
//! damages no record.

use hedgerow_pages::{Restart, View};

use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::key::shortest_between;
use crate::node::layout::{Kind, Layout, Payload, record_size};
use crate::node::leaf::FormOf;
use crate::node::page::PageNumber;
use crate::node::page::{Image, Tag, shared};
use crate::node::plan::{Content, Plan, Planned};
use crate::node::search::{Node, infallible};
use crate::node::slotted::Comparison;

/// Where a node splits: the first place of the right half (or the key that moves up), and the
/// key between. Halves without a plan are slotted as suits them.
pub(crate) struct SplitPoint {
    pub at: usize,
    pub separator: Vec<u8>,
    pub left: Option<Plan>,
    pub right: Option<Plan>,
}

impl SplitPoint {
    pub(crate) fn new(at: usize, separator: Vec<u8>) -> Self {
        Self {
            at,
            separator,
            left: None,
            right: None,
        }
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// Chooses the cut of an ordered slotted leaf of two records or more.
    fn cut_leaf<C: Configuration>(&self) -> SplitPoint {
        let count = self.count();
        let width = (count / 16).max(1);
        let first = (count - 1 - width) / 2;
        let last = first + width;
        let (mut low, mut key) = (Vec::new(), Vec::new());
        self.node_key::<C>(first, &mut low);
        self.node_key::<C>(last, &mut key);
        let len = shared(&low, &key);
        for at in first + 1..=last {
            self.node_key::<C>(at, &mut key);
            if key.get(len) != low.get(len) {
                key.truncate(len + 1);
                return SplitPoint::new(at, key);
            }
        }
        unreachable!("the last key of the range differs from the first there")
    }

    /// The cut of an ordered leaf of two records or more just before a key, or near it.
    pub(crate) fn cut_near<C: Configuration>(&self, key: &[u8]) -> SplitPoint {
        if self.is_dense() {
            // Two places leave room for a fence that is as long as keys, where one may not.
            let place = self.lower_bound::<C>(key).0.max(2);
            let at = self.all_taken::<C>().skip(1).find(|&other| other >= place);
            let at = at.or_else(|| self.all_taken::<C>().last());
            return self.cut_between::<C>(at.expect("two records or more"));
        }
        let at = self.lower_bound::<C>(key).0.clamp(1, self.count() - 1);
        let (mut low, mut high) = (Vec::new(), Vec::new());
        self.node_key::<C>(at - 1, &mut low);
        self.node_key::<C>(at, &mut high);
        SplitPoint::new(at, shortest_between(&low, &high))
    }

    /// Chooses the key of an inner node that moves up for the sake of a separator near `key`:
    /// that where separators come in, or the shortest near the median.
    fn cut_inner<C: Configuration>(&self, key: &[u8]) -> SplitPoint {
        let count = self.count();
        let width = count / 16;
        let first = (count - width) / 2;
        let at = self.inner_key_at_run::<C>(key).unwrap_or_else(|| {
            (first..=(first + width).min(count - 1))
                .min_by_key(|&index| self.leaf_record::<C>(index).key_len)
                .expect("a full node has keys")
        });
        let mut separator = Vec::new();
        self.node_key::<C>(at, &mut separator);
        SplitPoint::new(at, separator)
    }

    /// Where to split so that a record gets room.
    pub(crate) fn cut_for<C: Configuration>(&self, key: &[u8], payload: Payload<'_>) -> SplitPoint {
        if self.is_inner() {
            return self.cut_inner::<C>(key);
        }
        match self.form::<C>() {
            FormOf::SemiDense | FormOf::FullyDense => self.cut_dense::<C>(key, payload),
            FormOf::Comparison | FormOf::Fingerprint => self
                .cut_partition::<C>()
                .or_else(|| self.cut_at_run::<C>(key))
                .unwrap_or_else(|| self.cut_leaf::<C>()),
        }
    }

    /// Whether an inner node has room for one more separator.
    pub(crate) fn takes_child<C: Configuration>(&self, separator: &[u8]) -> bool {
        infallible(takes_child::<C>(self, separator))
    }

    /// Puts a separator into an inner node, which has room: `left` is its child `index`, and
    /// `right` becomes the next.
    pub(crate) fn insert_child<C: Configuration>(
        &mut self,
        index: usize,
        left: PageNumber,
        separator: &[u8],
        right: PageNumber,
    ) {
        let payload = Payload {
            kind: Kind::Inline,
            bytes: &left.to_le_bytes(),
        };
        let suffix = &separator[self.prefix_len()..];
        let done = self.insert::<Comparison<C>>(index, suffix, payload);
        assert!(done, "the caller saw room");
        self.set_child::<Comparison<C>>(index + 1, right);
    }

    /// Makes a child another page.
    pub(crate) fn set_child<L: Layout>(&mut self, index: usize, child: u32) {
        if index == self.count() {
            self.set_upper_child(child as usize);
        } else {
            let at = self.record_at::<L>(index).value_at;
            self.put(at, &child.to_le_bytes());
        }
    }

    /// Makes a root with one child, to which its content has moved.
    pub(crate) fn become_root_above<C: Configuration>(&mut self, below: PageNumber) {
        self.reset(Tag::Inner, &[], &[], C::PREFIX);
        self.set_upper_child(below as usize);
    }

    /// Makes `into`, which is this node still, the left half of it.
    pub(crate) fn left_half<C: Configuration>(
        &self,
        cut: &SplitPoint,
        into: &mut Self,
        conversions: &mut Conversions,
    ) {
        if self.is_inner() {
            into.reset(Tag::Inner, self.lower(), &cut.separator, C::PREFIX);
            into.append::<Comparison<C>, Comparison<C>>(self, 0..cut.at);
            into.set_upper_child(self.child::<Comparison<C>>(cut.at) as usize);
            return;
        }
        let places = self.all_places::<C>();
        if self.is_dense() {
            conversions.overruns += u64::from(cut.at == 0 || cut.at == places);
            if cut.at == places {
                // Nothing moves.
                return into.set_upper(&cut.separator);
            }
        } else {
            let is_partition = cut.left.is_some_and(|plan| plan.form.is_dense());
            conversions.partitions += u64::from(is_partition);
        }
        let content = Content {
            lower: self.lower(),
            upper: &cut.separator,
            parts: &[(self, 0..cut.at)],
        };
        let plan = cut.left.unwrap_or_else(|| self.plan_of_half::<C>(content));
        if cut.at > 0 {
            conversions.by_keys(self.form::<C>(), plan.form.form());
        }
        content.build::<C>(plan, into);
    }

    /// Makes `into` the right half of this node.
    pub(crate) fn right_half<C: Configuration>(
        &self,
        cut: &SplitPoint,
        into: &mut Self,
        conversions: &mut Conversions,
    ) {
        if self.is_inner() {
            into.reset(Tag::Inner, &cut.separator, self.upper(), C::PREFIX);
            into.append::<Comparison<C>, Comparison<C>>(self, cut.at + 1..self.count());
            into.set_upper_child(self.upper_child());
            return;
        }
        let places = self.all_places::<C>();
        let content = Content {
            lower: &cut.separator,
            upper: self.upper(),
            parts: &[(self, cut.at..places)],
        };
        let plan = cut.right.unwrap_or_else(|| self.plan_of_half::<C>(content));
        if cut.at < places {
            conversions.by_keys(self.form::<C>(), plan.form.form());
        }
        content.build::<C>(plan, into);
    }

    /// The form of a half of this leaf. Where it is one of both slotted ones, halves fit it for
    /// sure.
    fn plan_of_half<C: Configuration>(&self, half: Content<'_, PAGE>) -> Plan {
        let form = if self.form::<C>() == FormOf::Fingerprint {
            Planned::Fingerprint
        } else {
            Planned::Comparison
        };
        let counter = self.counter();
        let plan = half.slotted::<C>(counter);
        if plan.form == form && !self.is_dense() {
            return plan;
        }
        half.fitting::<C>(plan).unwrap_or(Plan { form, counter })
    }
}

/// Whether an inner node, whose bytes may be changing, has room for one more separator.
pub(crate) fn takes_child<C: Configuration>(
    page: impl View,
    separator: &[u8],
) -> Result<bool, Restart> {
    let len = separator.len().checked_sub(page.prefix_bytes()?);
    let needed = child_bytes::<C>(len.ok_or(Restart)?);
    Ok(page.free_bytes::<Comparison<C>>()? >= needed)
}

/// Bytes that a separator takes in an inner node, with its child.
pub(crate) fn child_bytes<C: Configuration>(len: usize) -> usize {
    let payload = Payload {
        kind: Kind::Inline,
        bytes: &[0; 4],
    };
    record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2
}
