//! The items of a leaf in order, without a copy: its base node's, and between them those of its
//! deltas.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::node::base::Base;
use crate::node::item::{Item, KeyParts};
use crate::node::key::compare;
use crate::node::record::IN_BASE;
use crate::value::Stored;

/// The newest delta of a key.
#[derive(Clone, Copy)]
pub(super) struct Newest<'a> {
    pub offset: u32,
    pub key: &'a [u8],
    pub value: Option<Stored<'a>>,
}

impl Newest<'_> {
    /// The index in the base node of the key, or of the first item above it.
    #[inline(always)]
    pub fn place(&self) -> u32 {
        self.offset & !IN_BASE
    }

    /// Whether the base node has the key.
    #[inline(always)]
    pub fn is_in_base(&self) -> bool {
        self.offset & IN_BASE != 0
    }

    pub fn order(&self, other: &Self) -> Ordering {
        let places = self.place().cmp(&other.place());
        places.then_with(|| compare(self.key, other.key))
    }
}

/// A chain whose deltas are in order.
pub(crate) struct Ordered<'a, 'v> {
    base: Base<'a>,
    /// Items of the base node that stay.
    stay: usize,
    deltas: &'v [Newest<'a>],
}

impl<'a, 'v> Ordered<'a, 'v> {
    pub(super) fn new(base: Base<'a>, stay: usize, deltas: &'v [Newest<'a>]) -> Self {
        Self { base, stay, deltas }
    }

    /// How many items of the base node are below a key, or not above it.
    fn below(&self, key: &[u8], with_equal: bool) -> usize {
        let index = match self.base.search_level(key, 0) {
            Ok(index) => index + usize::from(with_equal),
            Err(index) => index,
        };
        index.min(self.stay)
    }

    /// Visits the items from a key on, or behind it if it is left out; all without a key.
    #[inline]
    pub fn forward(
        &self,
        from: Option<(&[u8], bool)>,
        mut visit: impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut next = from.map_or(0, |(key, left_out)| self.below(key, left_out));
        let below = |delta: &Newest<'_>| match from {
            Some((key, left_out)) => delta.key < key || (left_out && delta.key == key),
            None => false,
        };
        let first = self.deltas.partition_point(below);
        for delta in &self.deltas[first..] {
            let place = delta.place() as usize;
            self.run(next, place, &mut visit)?;
            next = place + usize::from(delta.is_in_base());
            self.visit_delta(delta, &mut visit)?;
        }
        self.run(next, self.stay, &mut visit)
    }

    /// Visits the items down from a key, or below it if it is left out; all without a key.
    #[inline]
    pub fn reverse(
        &self,
        from: Option<(&[u8], bool)>,
        mut visit: impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut end = from.map_or(self.stay, |(key, left_out)| self.below(key, !left_out));
        let not_above = |delta: &Newest<'_>| match from {
            Some((key, left_out)) => delta.key < key || (!left_out && delta.key == key),
            None => true,
        };
        let deltas = self.deltas.partition_point(not_above);
        for delta in self.deltas[..deltas].iter().rev() {
            let place = delta.place() as usize;
            let lower = place + usize::from(delta.is_in_base());
            (lower..end)
                .rev()
                .try_for_each(|index| visit(self.base.item(index)))?;
            end = place;
            self.visit_delta(delta, &mut visit)?;
        }
        (0..end)
            .rev()
            .try_for_each(|index| visit(self.base.item(index)))
    }

    #[inline(always)]
    fn run(
        &self,
        from: usize,
        to: usize,
        visit: &mut impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        (from..to).try_for_each(|index| visit(self.base.item(index)))
    }

    #[inline(always)]
    fn visit_delta(
        &self,
        delta: &Newest<'a>,
        visit: &mut impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(value) = delta.value else {
            return ControlFlow::Continue(());
        };
        let key = KeyParts::whole(delta.key);
        visit(Item { key, value })
    }
}
