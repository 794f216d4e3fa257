//! How dense leaves come and go: conversion in place, cuts between places, partitions, widening
//! (§3.5).
//!
//! A full leaf of slots becomes dense if its records allow it. A dense leaf that cannot take a
//! record becomes a comparison leaf again if all its records fit one; else it splits. A key
//! beside the places of a fully dense leaf needs a leaf of its own there, and nothing moves.
//!
//! **Widening** is ours. Where keys arrive in random order, leaves have been halved down to some
//! range before they become dense, and so use two thirds of their places in the mean. A leaf that
//! becomes dense therefore takes the records of its right neighbours, as far as its places reach;
//! what is left of a neighbour becomes dense as well and does the same, until a leaf is saved.

use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::dense::{Shape, number, number_from};
use crate::node::edit::Edit;
use crate::node::fully_dense::FullyDense;
use crate::node::key::shortest_between;
use crate::node::layout::{Kind, Payload, Record, mark_len};
use crate::node::leaf::FormOf;
use crate::node::page::Image;
use crate::node::plan::{Content, Plan, Planned};
use crate::node::slotted::Comparison;
use crate::node::split::SplitPoint;
use crate::variants::semi_dense::SemiDense;

/// Neighbours that a widening goes on to. Each is rebuilt, so this bounds the pause of one
/// insertion; one leaf in so many stays partly used.
pub(crate) const NEIGHBOURS: usize = 16;

impl<const PAGE: usize> Image<PAGE> {
    /// Splits a dense leaf for the sake of a record that it cannot take.
    pub(crate) fn cut_dense<C: Configuration>(
        &self,
        key: &[u8],
        payload: Payload<'_>,
    ) -> SplitPoint {
        if self.form::<C>() == FormOf::FullyDense {
            let (place, exact) = self.first_place(key);
            if place == self.places() {
                return self.cut_behind(key, payload);
            }
            if place == 0 && !exact {
                return self.cut_before(key, payload);
            }
        }
        if self.form::<C>() == FormOf::SemiDense
            && let Some(cut) = self.cut_by_options::<C>(key, payload)
        {
            return cut;
        }
        let middle = self.all_taken::<C>().nth(self.count().div_ceil(2));
        self.cut_between::<C>(middle.expect("two records or more"))
    }

    /// Splits a semi dense leaf behind its last slot, or behind its last record, if its options
    /// allow that and the key belongs there.
    fn cut_by_options<C: Configuration>(
        &self,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Option<SplitPoint> {
        let (place, exact) = self.first_place(key);
        let places = self.places();
        if place == places {
            return C::SEMI_DENSE
                .over_commits
                .then(|| self.cut_behind_slots(key, payload));
        }
        let last = self.next_place::<C, false>(&mut (0..places))?;
        let above = C::SEMI_DENSE.splits_at_end && exact && place > last;
        above.then(|| self.cut_between::<C>(place))
    }

    /// Begins a leaf behind the last slot: a semi dense one, if the key that needs it is near.
    fn cut_behind_slots(&self, key: &[u8], payload: Payload<'_>) -> SplitPoint {
        let shape = self.shape();
        let next = shape.reference as usize + shape.places;
        let mut separator = Vec::new();
        if self.has_shape(key, payload) {
            self.place_key(next as u32, &mut separator);
            let right = shape.starting_at(next as u32, shape.places);
            let near = (number(&key[shape.prefix_len()..]) as usize) < next + right.places;
            let exact = SemiDense::shape::<PAGE>(&separator, self.upper(), &separator);
            let right = exact.map_or(right, |all| Shape {
                places: right.places.min(all.places),
                ..right
            });
            let need = mark_len(payload) + payload.bytes.len();
            let room = SemiDense::room::<PAGE>(&separator, self.upper(), right);
            if near && room.is_some_and(|room| room >= need) {
                let mut cut = SplitPoint::new(shape.places, separator);
                cut.right = Some(Planned::SemiDense(right).into());
                return cut;
            }
        }
        self.place_key((next - 1) as u32, &mut separator);
        SplitPoint::new(shape.places, shortest_between(&separator, key))
    }

    /// Splits between the records below and from a place on.
    pub(crate) fn cut_between<C: Configuration>(&self, at: usize) -> SplitPoint {
        let shape = self.shape();
        let mut separator = Vec::new();
        self.place_key(shape.reference + at as u32, &mut separator);
        let (left, right) = if self.form::<C>() == FormOf::SemiDense {
            let key = separator.clone();
            let left = SemiDense::shape::<PAGE>(self.lower(), &separator, &key);
            let left = left.expect("a part of the range");
            // Of a leaf that over-commits the right part does so, too.
            let rest = Shape {
                reference: shape.reference + at as u32,
                places: shape.places - at,
                ..shape
            };
            let right = SemiDense::shape::<PAGE>(&separator, self.upper(), &key);
            let right = right.filter(|all| all.places <= rest.places);
            (
                Planned::SemiDense(left),
                self.behind::<C>(at, &separator, right.unwrap_or(rest)),
            )
        } else {
            (
                self.part_from(shape.reference, self.lower(), &separator),
                self.part_from(shape.reference + at as u32, &separator, self.upper()),
            )
        };
        let (left, right) = (Some(left.into()), Some(right.into()));
        SplitPoint {
            at,
            separator,
            left,
            right,
        }
    }

    /// A semi dense leaf of the records from a place on, if it has room for them beside its new
    /// lower fence. That may be longer than this leaf's, by as much as all numbers are, and so
    /// longer than what goes with a single place: then few records are left, or none, and slots of
    /// their own have room for them.
    fn behind<C: Configuration>(&self, at: usize, lower: &[u8], shape: Shape) -> Planned {
        let rest = Content {
            lower,
            upper: self.upper(),
            parts: &[(self, at..self.places())],
        };
        let (bytes, _) = rest.value_bytes::<C>();
        let room = SemiDense::room::<PAGE>(lower, self.upper(), shape);
        if room.is_some_and(|room| room >= bytes) {
            Planned::SemiDense(shape)
        } else {
            Planned::Comparison
        }
    }

    /// A fully dense leaf of the same keys from another number on, between other fences.
    fn part_from(&self, reference: u32, lower: &[u8], upper: &[u8]) -> Planned {
        let shape = self.shape();
        let room = FullyDense::room::<PAGE>(lower, upper, shape.key_len, shape.value_len);
        Planned::FullyDense(shape.starting_at(reference, room))
    }

    /// Begins a leaf behind the last place: a dense one, if the key that needs it is near.
    fn cut_behind(&self, key: &[u8], payload: Payload<'_>) -> SplitPoint {
        let shape = self.shape();
        let next = shape.reference as usize + shape.places;
        let mut separator = Vec::new();
        if self.has_shape(key, payload) {
            self.place_key(next as u32, &mut separator);
            let leaf = self.part_from(next as u32, &separator, self.upper());
            if let Planned::FullyDense(right) = leaf
                && (number(&key[shape.prefix_len()..]) as usize) < next + right.places
            {
                let mut cut = SplitPoint::new(shape.places, separator);
                cut.right = Some(leaf.into());
                return cut;
            }
        }
        self.place_key((next - 1) as u32, &mut separator);
        SplitPoint::new(shape.places, shortest_between(&separator, key))
    }

    /// Begins a leaf before the first place: a dense one, if the key that needs it is near.
    fn cut_before(&self, key: &[u8], payload: Payload<'_>) -> SplitPoint {
        let shape = self.shape();
        let mut separator = Vec::new();
        self.place_key(shape.reference, &mut separator);
        let mut left = None;
        if self.has_shape(key, payload)
            && let Some(lowest) = number_from(self.lower(), shape.key_len)
        {
            let lengths = (shape.key_len, shape.value_len);
            let room = FullyDense::room::<PAGE>(self.lower(), &separator, lengths.0, lengths.1);
            let first = lowest.max(shape.reference.saturating_sub(room as u32));
            if first <= number(&key[shape.prefix_len()..]) {
                left = Some(self.part_from(first, self.lower(), &separator).into());
            }
        }
        let right = self.part_from(shape.reference, &separator, self.upper());
        SplitPoint {
            at: 0,
            separator,
            left,
            right: Some(right.into()),
        }
    }

    /// Splits an ordered leaf of slots at the end of its dense keys, if they are at least half of
    /// it ("Partition Detection").
    pub(crate) fn cut_partition<C: Configuration>(&self) -> Option<SplitPoint> {
        let count = self.count();
        if !C::LEAVES.fully_dense() || count < 2 {
            return None;
        }
        let model = self.leaf_record::<C>(0);
        let is_like_first = |record: Record| {
            record.key_len == model.key_len
                && (record.kind, record.value_len) == (Kind::Inline, model.value_len)
        };
        // Most leaves need no key put together to be seen as nothing of the kind.
        if !is_like_first(self.leaf_record::<C>(count / 2 - 1)) {
            return None;
        }
        let (mut first, mut key) = (Vec::new(), Vec::new());
        self.node_key::<C>(0, &mut first);
        // The separator is at most a byte longer than the keys below it.
        let upper = vec![0; first.len() + 1];
        let mut last_fitting = |at: usize| {
            if !is_like_first(self.leaf_record::<C>(at)) {
                return false;
            }
            self.node_key::<C>(at, &mut key);
            FullyDense::shape::<PAGE>(self.lower(), &upper, &*first..=&*key, model.value_len)
                .is_some()
        };
        if !last_fitting(count / 2 - 1) {
            return None;
        }
        let mut at = 1;
        while at < count && last_fitting(at) {
            at += 1;
        }
        if at < count / 2 || at == count || model.kind != Kind::Inline {
            return None;
        }
        let mut low = Vec::new();
        self.node_key::<C>(at - 1, &mut low);
        self.node_key::<C>(at, &mut key);
        // Where the same numbers go on, it is no end: both halves will be dense later.
        let prefix = low.len().saturating_sub(4);
        let room = FullyDense::room::<PAGE>(self.lower(), &upper, low.len(), model.value_len);
        let goes_on = key.len() == low.len()
            && key[..prefix] == low[..prefix]
            && ((number(&key[prefix..]) - number(&low[prefix..])) as usize) < room;
        if goes_on {
            return None;
        }
        let mut cut = SplitPoint::new(at, shortest_between(&low, &key));
        let content = Content {
            lower: self.lower(),
            upper: &cut.separator,
            parts: &[(self, 0..at)],
        };
        cut.left = Some(content.dense::<C>()?);
        Some(cut)
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// The form that a leaf which cannot take a record should get instead of being split, if
    /// that may help.
    pub(crate) fn reformed<C: Configuration>(
        &self,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Option<Plan> {
        let content = Content {
            lower: self.lower(),
            upper: self.upper(),
            parts: &[(self, 0..self.all_places::<C>())],
        };
        match self.form::<C>() {
            FormOf::Comparison | FormOf::Fingerprint => content
                .dense::<C>()
                .filter(|plan| plan.suits(key, payload, self)),
            FormOf::SemiDense | FormOf::FullyDense => {
                let (place, exact) = self.first_place(key);
                let beside = match self.form::<C>() {
                    FormOf::FullyDense => place == self.places() || (place == 0 && !exact),
                    _ => C::SEMI_DENSE.over_commits && place == self.places(),
                };
                let room = content.room_in::<C>(FormOf::Comparison);
                let more = content.more::<C>(key, payload);
                // A leaf of its own beside this one costs a page: not for a handful of records.
                let spare = if beside { PAGE / 2 } else { 0 };
                room.filter(|room| *room >= more + spare)
                    .map(|_| Planned::Comparison.into())
            }
        }
    }

    /// Makes this leaf, of the content of `old`, another form.
    pub(crate) fn rebuild<C: Configuration>(
        &mut self,
        old: &Self,
        plan: Plan,
        conversions: &mut Conversions,
    ) {
        conversions.by_keys(old.form::<C>(), plan.form.form());
        let content = Content {
            lower: old.lower(),
            upper: old.upper(),
            parts: &[(old, 0..old.all_places::<C>())],
        };
        content.build::<C>(plan, self);
    }

    /// What this fully dense leaf takes of its right neighbour, as far as its places reach.
    pub(crate) fn taking_from<C: Configuration>(&self, right: &Self) -> Taken<PAGE> {
        let form = right.form::<C>();
        let other = form != FormOf::Comparison && form != FormOf::FullyDense;
        if other || right.count() == 0 {
            return Taken::Nothing;
        }
        let shape = self.shape();
        let mut fence = Vec::new();
        let next = shape.reference as usize + shape.places;
        let whole = right.all_places::<C>();
        let parts = [(self, 0..self.places()), (right, 0..whole)];
        let all = Content {
            lower: self.lower(),
            upper: right.upper(),
            parts: &parts,
        };
        let same = |plan: &Plan| {
            matches!(plan.form, Planned::FullyDense(new)
                if new.reference == shape.reference && new.places <= shape.places)
        };
        if let Some(plan) = all.dense::<C>().filter(same) {
            return Taken::All(all.built::<C>(plan));
        }
        // A dense neighbour that stays has places enough of its own.
        if form == FormOf::FullyDense || next > u32::MAX as usize {
            return Taken::Nothing;
        }
        self.place_key(next as u32, &mut fence);
        if *fence <= *right.lower() || (!right.upper().is_empty() && *fence >= *right.upper()) {
            return Taken::Nothing;
        }
        let (at, _) = right.lower_bound::<C>(&fence);
        let (mine, rest) = ([parts[0].clone(), (right, 0..at)], [(right, at..whole)]);
        let mine = Content {
            lower: self.lower(),
            upper: &fence,
            parts: &mine,
        };
        let rest = Content {
            lower: &fence,
            upper: right.upper(),
            parts: &rest,
        };
        let plans = mine.dense::<C>().filter(same).zip(rest.dense::<C>());
        let Some((left_plan, right_plan)) = plans else {
            return Taken::Nothing;
        };
        let left = mine.built::<C>(left_plan);
        let right = rest.built::<C>(right_plan);
        Taken::Part { left, right, fence }
    }

    /// Puts another key between the children `index` and `index + 1` of an inner node, if there
    /// is room for it.
    pub(crate) fn move_separator<C: Configuration>(&mut self, index: usize, key: &[u8]) -> bool {
        if !self.takes_child::<C>(key) {
            return false;
        }
        let child = self.child::<Comparison<C>>(index).to_le_bytes();
        self.remove::<Comparison<C>>(index);
        let payload = Payload {
            kind: Kind::Inline,
            bytes: &child,
        };
        let suffix = &key[self.prefix_len()..];
        let done = self.insert::<Comparison<C>>(index, suffix, payload);
        assert!(done, "there was room beside the old separator");
        true
    }
}

/// What a widening takes of a neighbour, and what both are then.
pub(crate) enum Taken<const PAGE: usize> {
    Nothing,
    Part {
        left: Image<PAGE>,
        right: Image<PAGE>,
        fence: Vec<u8>,
    },
    All(Image<PAGE>),
}

impl Plan {
    /// Whether a dense leaf could hold a record at all, though not here perhaps. `sample` has
    /// records of it.
    fn suits<const PAGE: usize>(
        &self,
        key: &[u8],
        payload: Payload<'_>,
        sample: &Image<PAGE>,
    ) -> bool {
        let (Planned::SemiDense(shape) | Planned::FullyDense(shape)) = self.form else {
            return false;
        };
        let prefix = sample.lower().get(..shape.prefix_len());
        let value = payload.kind == Kind::Inline && payload.bytes.len() == shape.value_len;
        key.len() == shape.key_len
            && prefix.is_some_and(|prefix| key.starts_with(prefix))
            && (value || matches!(self.form, Planned::SemiDense(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type C = crate::configuration::SemiDense;

    fn inline(bytes: &[u8]) -> Payload<'_> {
        Payload {
            kind: Kind::Inline,
            bytes,
        }
    }

    /// Splits a leaf near its second key, which is full of values of such lengths, and whose lower
    /// fence is shorter than its keys: the right half's is as long as these.
    fn split_near_the_second(places: u32, lengths: &[usize]) {
        let upper = places.to_be_bytes();
        let shape = SemiDense::shape::<1024>(&[], &upper, &[0; 4]).expect("few keys");
        let mut page = Image::<1024>::zeroed();
        page.begin::<C>(Planned::SemiDense(shape).into(), &[], &upper);
        let records: Vec<([u8; 4], Vec<u8>)> = (0..)
            .zip(lengths)
            .map(|(n, &len)| (u32::to_be_bytes(n), vec![n as u8; len]))
            .collect();
        for (key, value) in &records {
            let (place, _) = page.locate::<C>(key);
            assert!(page.add::<C>(place, key, inline(value)));
        }
        let unused = page.unused::<C>();
        assert_eq!(unused.start, unused.end, "a full leaf");
        let cut = page.cut_near::<C>(&records[1].0);
        let (mut left, mut right) = (page.clone(), Image::zeroed());
        let conversions = &mut Conversions::default();
        page.right_half::<C>(&cut, &mut right, conversions);
        page.left_half::<C>(&cut, &mut left, conversions);
        for (key, value) in &records {
            let half = if key[..] < cut.separator[..] {
                &left
            } else {
                &right
            };
            let found = half.find::<C>(key).map(|record| half.payload(record));
            assert_eq!(found, Some(inline(value)), "{key:?}");
        }
        left.verify_form::<C>().unwrap();
        right.verify_form::<C>().unwrap();
    }

    #[test]
    fn a_full_semi_dense_leaf_has_room_for_a_longer_fence_where_it_is_split() {
        split_near_the_second(100, &[0, 200, 200, 200, 182]);
        split_near_the_second(392, &[0, 201]);
    }
}
