//! Which form a leaf gets, and how it is made: at splits and merges, and in place.
//!
//! Whoever changes the form of a leaf makes a [`Plan`] from its records and the fences it will
//! have, begins an empty leaf by it and fills it. Plans are where dense leaves come from (§3.5)
//! and where keys decide between comparison and fingerprints (§5.1, "Key-Adaption").

use std::ops::Range;

use crate::configuration::{Configuration, Leaves};
use crate::node::dense::{Part, Shape, alike};
use crate::node::fingerprint::Fingerprints;
use crate::node::fully_dense::FullyDense;
use crate::node::heads::good_heads;
use crate::node::layout::{Kind, Layout, Payload, mark_len, record_size};
use crate::node::leaf::FormOf;
use crate::node::page::{DISABLED_COUNTER, Image, Tag, shared};
use crate::node::slotted::Comparison;
use crate::variants::semi_dense::SemiDense;

/// A form, with what it must know before the first record, and the leaf's counter (§5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub form: Planned,
    pub counter: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planned {
    Comparison,
    Fingerprint,
    SemiDense(Shape),
    FullyDense(Shape),
}

impl Planned {
    pub(crate) fn form(self) -> FormOf {
        match self {
            Planned::Comparison => FormOf::Comparison,
            Planned::Fingerprint => FormOf::Fingerprint,
            Planned::SemiDense(_) => FormOf::SemiDense,
            Planned::FullyDense(_) => FormOf::FullyDense,
        }
    }

    pub(crate) fn is_dense(self) -> bool {
        matches!(self, Planned::SemiDense(_) | Planned::FullyDense(_))
    }
}

impl From<Planned> for Plan {
    fn from(form: Planned) -> Self {
        let counter = DISABLED_COUNTER;
        Self { form, counter }
    }
}

/// The leaf of an empty tree.
pub(crate) fn first_leaf<C: Configuration>() -> Plan {
    match C::LEAVES {
        Leaves::Fingerprint => Planned::Fingerprint.into(),
        _ => Planned::Comparison.into(),
    }
}

/// Ordered records, and the fences of the leaf that is to hold them.
#[derive(Clone, Copy)]
pub(crate) struct Content<'c, const PAGE: usize> {
    pub lower: &'c [u8],
    pub upper: &'c [u8],
    /// Leaves, and which of their places.
    pub parts: &'c [Part<'c, PAGE>],
}

impl<'c, const PAGE: usize> Content<'c, PAGE> {
    /// The prefix that a slotted leaf would leave out.
    fn prefix_len<C: Configuration>(self) -> usize {
        if C::PREFIX && !self.upper.is_empty() {
            shared(self.lower, self.upper)
        } else {
            0
        }
    }

    /// Bytes that are left in a slotted leaf of these records; none if they do not fit.
    pub(crate) fn room_in<C: Configuration>(self, form: FormOf) -> Option<usize> {
        let prefix = self.prefix_len::<C>();
        let body = if form == FormOf::Fingerprint {
            Fingerprints::BODY
        } else {
            Comparison::<C>::BODY
        };
        let mut room = PAGE.checked_sub(body + self.lower.len() + self.upper.len())?;
        for (image, places) in self.parts {
            for place in image.taken::<C>(places.clone()) {
                let record = image.leaf_record::<C>(place);
                let len = image.prefix_len() + record.key_len - prefix;
                room = room.checked_sub(slotted_bytes::<C>(form, len, image.payload(record)))?;
            }
        }
        Some(room)
    }

    /// Bytes that one record more would take there.
    pub(crate) fn more<C: Configuration>(self, key: &[u8], payload: Payload<'_>) -> usize {
        let len = key.len() - self.prefix_len::<C>();
        slotted_bytes::<C>(FormOf::Comparison, len, payload)
    }

    /// The first and the last record, if there is any: their leaves and places.
    fn ends<C: Configuration>(self) -> Option<[(&'c Image<PAGE>, usize); 2]> {
        let mut parts = self.parts.iter();
        let first = parts.find_map(|(image, places)| {
            Some((*image, image.next_place::<C, true>(&mut places.clone())?))
        })?;
        let mut parts = self.parts.iter().rev();
        let last = parts.find_map(|(image, places)| {
            Some((*image, image.next_place::<C, false>(&mut places.clone())?))
        })?;
        Some([first, last])
    }

    /// The dense leaf of these records, if they can have one (§3.5).
    pub(crate) fn dense<C: Configuration>(self) -> Option<Plan> {
        if !C::LEAVES.dense() {
            return None;
        }
        let ends = self.ends::<C>()?;
        let [record, other] = ends.map(|(image, place)| image.leaf_record::<C>(place));
        // Where the ends have too little in common, no other record need be looked at.
        if ends[0].0.prefix_len() + record.key_len != ends[1].0.prefix_len() + other.key_len {
            return None;
        }
        let (mut first, mut last) = (Vec::new(), Vec::new());
        ends[0].0.node_key::<C>(ends[0].1, &mut first);
        ends[1].0.node_key::<C>(ends[1].1, &mut last);
        if !alike(&first, &last) {
            return None;
        }
        // All records are looked at only where their keys are close enough.
        if C::LEAVES.fully_dense() {
            let (keys, value_len) = (&*first..=&*last, record.value_len);
            let shape = FullyDense::shape::<PAGE>(self.lower, self.upper, keys, value_len)?;
            let is_uniform = self.value_len::<C>(first.len())? == Some(value_len);
            return is_uniform.then(|| Planned::FullyDense(shape).into());
        }
        self.semi_dense::<C>(&first, &last)
    }

    /// The semi dense leaf of these records, from one key to another.
    fn semi_dense<C: Configuration>(self, first: &[u8], last: &[u8]) -> Option<Plan> {
        let exact = SemiDense::shape::<PAGE>(self.lower, self.upper, first);
        if !C::SEMI_DENSE.over_commits {
            exact?;
        }
        self.value_len::<C>(first.len())?;
        let (bytes, count) = self.value_bytes::<C>();
        let fits = |shape: &Shape| {
            let room = SemiDense::room::<PAGE>(self.lower, self.upper, *shape);
            room.is_some_and(|room| room >= bytes)
        };
        let over_committed = || {
            let mean = bytes / count.max(1);
            let keys = (first, last);
            SemiDense::over_committed::<PAGE>(self.lower, self.upper, keys, mean)
        };
        let mut shape = exact.filter(fits);
        if C::SEMI_DENSE.over_commits {
            let is_part = |shape: &Shape| exact.is_none_or(|all| shape.places < all.places);
            shape = shape.or_else(|| over_committed().filter(is_part).filter(fits));
        }
        Some(Planned::SemiDense(shape?).into())
    }

    /// Bytes of all values in a semi dense leaf, beside its slots, and how many values there are.
    pub(crate) fn value_bytes<C: Configuration>(self) -> (usize, usize) {
        let (mut bytes, mut count) = (0, 0);
        for (image, places) in self.parts {
            for place in image.taken::<C>(places.clone()) {
                let payload = image.payload(image.leaf_record::<C>(place));
                bytes += mark_len(payload) + payload.bytes.len();
                count += 1;
            }
        }
        (bytes, count)
    }

    /// The length of all values, if it is one; `None` if not all keys are `key_len` long.
    fn value_len<C: Configuration>(self, key_len: usize) -> Option<Option<usize>> {
        let mut value_len = None;
        let mut uniform = true;
        for (image, places) in self.parts {
            for place in image.taken::<C>(places.clone()) {
                let record = image.leaf_record::<C>(place);
                if image.prefix_len() + record.key_len != key_len {
                    return None;
                }
                uniform &= record.kind == Kind::Inline
                    && *value_len.get_or_insert(record.value_len) == record.value_len;
            }
        }
        Some(value_len.filter(|_| uniform))
    }

    /// The slotted leaf that suits these records; `counter` is that of the leaf they come from.
    pub(crate) fn slotted<C: Configuration>(self, counter: usize) -> Plan {
        match C::LEAVES {
            Leaves::Fingerprint => return Planned::Fingerprint.into(),
            Leaves::Adaptive => {}
            _ => return Planned::Comparison.into(),
        }
        if good_heads::<C, PAGE>(self.parts, self.prefix_len::<C>()) {
            return Planned::Comparison.into();
        }
        // Where scans have not been counted, they count as rare.
        let counter = if counter == DISABLED_COUNTER {
            1
        } else {
            counter
        };
        let form = if C::THRESHOLDS.is_rare(counter) {
            Planned::Fingerprint
        } else {
            Planned::Comparison
        };
        Plan { form, counter }
    }

    /// [`slotted`](Self::slotted), or the other slotted form if only that has room.
    pub(crate) fn slotted_that_fits<C: Configuration>(self, counter: usize) -> Option<Plan> {
        self.fitting::<C>(self.slotted::<C>(counter))
    }

    /// A slotted plan, or that of the other slotted form if only that has room.
    pub(crate) fn fitting<C: Configuration>(self, plan: Plan) -> Option<Plan> {
        if self.room_in::<C>(plan.form.form()).is_some() {
            return Some(plan);
        }
        let form = match plan.form {
            Planned::Fingerprint => Planned::Comparison,
            _ => Planned::Fingerprint,
        };
        let other = C::LEAVES.adaptive() && self.room_in::<C>(form.form()).is_some();
        other.then_some(Plan { form, ..plan })
    }

    /// A leaf of these records.
    pub(crate) fn built<C: Configuration>(self, plan: Plan) -> Image<PAGE> {
        let mut image = Image::zeroed();
        self.build::<C>(plan, &mut image);
        image
    }

    /// Makes a leaf of these records.
    ///
    /// # Panics
    ///
    /// If they have no room in the form that was planned: rather than damage some.
    pub(crate) fn build<C: Configuration>(self, plan: Plan, page: &mut Image<PAGE>) {
        page.begin::<C>(plan, self.lower, self.upper);
        for (image, places) in self.parts {
            page.fill::<C>(image, places.clone());
        }
        let unused = page.unused::<C>();
        assert!(
            unused.start <= unused.end,
            "{plan:?} has no room: its arrays end at {}, its heap begins at {}",
            unused.start,
            unused.end,
        );
    }
}

/// Bytes of a record in a slotted leaf, its slot included.
fn slotted_bytes<C: Configuration>(form: FormOf, len: usize, payload: Payload<'_>) -> usize {
    if form == FormOf::Fingerprint {
        record_size::<Fingerprints>(len, payload) + Fingerprints::SIDE + 2
    } else {
        record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// The first leaf of a tree or layer.
    pub(crate) fn start<C: Configuration>(&mut self) {
        self.begin::<C>(first_leaf::<C>(), &[], &[]);
    }

    /// Makes an empty leaf.
    pub(crate) fn begin<C: Configuration>(&mut self, plan: Plan, lower: &[u8], upper: &[u8]) {
        match plan.form {
            Planned::Comparison => self.reset(Tag::Comparison, lower, upper, C::PREFIX),
            Planned::Fingerprint => self.reset(Tag::Fingerprint, lower, upper, C::PREFIX),
            Planned::SemiDense(shape) => SemiDense::reset(self, lower, upper, shape),
            Planned::FullyDense(shape) => FullyDense::reset(self, lower, upper, shape),
        }
        self.set_counter(plan.counter);
    }

    /// Adds ordered records of another leaf, all of them above those here. They fit.
    pub(crate) fn fill<C: Configuration>(&mut self, from: &Self, places: Range<usize>) {
        let (to, form) = (self.form::<C>(), from.form::<C>());
        match (to, form) {
            (FormOf::Comparison, FormOf::Comparison) => {
                self.append::<Comparison<C>, Comparison<C>>(from, places);
            }
            (FormOf::Comparison, FormOf::Fingerprint) => {
                self.append::<Comparison<C>, Fingerprints>(from, places);
            }
            (FormOf::Fingerprint, FormOf::Comparison) => {
                self.append::<Fingerprints, Comparison<C>>(from, places);
            }
            (FormOf::Fingerprint, FormOf::Fingerprint) => {
                self.append::<Fingerprints, Fingerprints>(from, places);
            }
            _ => self.fill_one_by_one::<C>(from, places),
        }
        if to == FormOf::Fingerprint {
            self.set_sorted(self.count());
        }
        if !self.is_dense() {
            self.end_build();
        }
    }

    /// Adds records of a leaf of another kind, or to one.
    fn fill_one_by_one<C: Configuration>(&mut self, from: &Self, places: Range<usize>) {
        let mut key = Vec::new();
        for place in from.taken::<C>(places) {
            from.node_key::<C>(place, &mut key);
            let payload = from.payload(from.leaf_record::<C>(place));
            let to = self.place_of_next::<C>(&key);
            let done = self.add::<C>(to, &key, payload);
            assert!(done, "a leaf has no room for a record of its plan");
        }
    }

    /// The place of a key above all others.
    fn place_of_next<C: Configuration>(&self, key: &[u8]) -> usize {
        if self.is_dense() {
            return self.locate::<C>(key).0;
        }
        self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{
        Adaptive, FullyDense as FullyDenseTree, SemiDense as SemiDenseTree,
    };

    /// A leaf of records with such keys, as many as fit.
    fn filled<C: Configuration>(
        form: Planned,
        keys: impl Iterator<Item = Vec<u8>>,
        value: &[u8],
    ) -> Image<1024> {
        let mut page = Image::zeroed();
        page.begin::<C>(form.into(), &[], &[]);
        for key in keys {
            let (place, _) = page.locate::<C>(&key);
            let payload = Payload {
                kind: Kind::Inline,
                bytes: value,
            };
            if !page.add::<C>(place, &key, payload) {
                break;
            }
        }
        page.order::<C>();
        page
    }

    fn all_of<'c>(parts: &'c [Part<'c, 1024>], upper: &'c [u8]) -> Content<'c, 1024> {
        Content {
            lower: &[],
            upper,
            parts,
        }
    }

    #[test]
    #[should_panic(expected = "has no room")]
    fn a_leaf_of_slots_without_room_is_not_made() {
        let keys = (0..=u8::MAX).map(|n| vec![n; 3]);
        let page = filled::<Adaptive>(Planned::Fingerprint, keys, &[]);
        let parts = [(&page, 0..page.count())];
        let content = all_of(&parts, &[]);
        assert!(content.room_in::<Adaptive>(FormOf::Fingerprint).is_some());
        content.built::<Adaptive>(Planned::Comparison.into());
    }

    fn numbers() -> impl Iterator<Item = Vec<u8>> {
        (0..4_u32).map(|n| n.to_be_bytes().to_vec())
    }

    #[test]
    #[should_panic(expected = "has no room")]
    fn an_array_of_values_without_room_is_not_made() {
        let page = filled::<FullyDenseTree>(Planned::Comparison, numbers(), &[7; 8]);
        let parts = [(&page, 0..page.count())];
        let plan = Planned::FullyDense(Shape {
            key_len: 4,
            value_len: 8,
            reference: 0,
            places: 200,
        });
        all_of(&parts, &[]).built::<FullyDenseTree>(plan.into());
    }

    #[test]
    #[should_panic(expected = "has no room")]
    fn a_semi_dense_leaf_without_room_is_not_made() {
        let page = filled::<SemiDenseTree>(Planned::Comparison, numbers(), &[7; 200]);
        let parts = [(&page, 0..page.count())];
        let upper = 400_u32.to_be_bytes();
        let shape = SemiDense::shape::<1024>(&[], &upper, &[0; 4]).expect("few places");
        let plan = Planned::SemiDense(shape);
        all_of(&parts, &upper).built::<SemiDenseTree>(plan.into());
    }
}
