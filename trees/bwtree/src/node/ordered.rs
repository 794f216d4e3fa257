//! The items of a leaf in order, without a copy: its base node's, and between them those of its
//! deltas.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use hedgerow_memory::prefetch_line;

use crate::node::base::{Base, Rows};
use crate::node::item::{Item, KeyParts};
use crate::node::key::compare;
use crate::node::record::{IN_BASE, LINE_BYTES, MOST_LINES};
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
    /// The base node's items, if they have one size.
    rows: Option<Rows<'a>>,
    /// Items of the base node that stay.
    stay: usize,
    deltas: &'v [Newest<'a>],
}

/// Where a walk begins.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// Items of the base node before it.
    item: usize,
    /// Deltas before it.
    delta: usize,
}

impl<'a, 'v> Ordered<'a, 'v> {
    pub(super) fn new(base: Base<'a>, stay: usize, deltas: &'v [Newest<'a>]) -> Self {
        Self {
            base,
            rows: base.rows(),
            stay,
            deltas,
        }
    }

    /// How many items of the base node are below a key, or not above it.
    fn below(&self, key: &[u8], with_equal: bool) -> usize {
        let index = match self.base.search_level(key, 0) {
            Ok(index) => index + usize::from(with_equal),
            Err(index) => index,
        };
        index.min(self.stay)
    }

    /// Asks for the items that a walk reads which begins before item `next` and visits `count`.
    #[inline]
    fn prefetch(&self, next: usize, count: usize) {
        let first = self.base.item_address(next);
        let last = self
            .base
            .item_address(self.stay.min(next.saturating_add(count)));
        let lines = (last as usize - first as usize).div_ceil(LINE_BYTES);
        for line in 0..lines.min(MOST_LINES) {
            prefetch_line(first.wrapping_add(LINE_BYTES * line));
        }
    }

    /// Where a walk begins: at a key, or behind it if it is left out; at the first item without a
    /// key, and where the key is the lowest that belongs here.
    #[inline]
    pub fn start(&self, from: Option<(&[u8], bool)>) -> Start {
        let from = from.filter(|(key, left_out)| *left_out || *key != self.base.low());
        let Some((key, left_out)) = from else {
            return Start { item: 0, delta: 0 };
        };
        let below = |delta: &Newest<'_>| delta.key < key || (left_out && delta.key == key);
        Start {
            item: self.below(key, left_out),
            delta: self.deltas.partition_point(below),
        }
    }

    /// How many items a walk visits at the most.
    #[inline]
    pub fn count_from(&self, start: Start) -> usize {
        self.stay - start.item + self.deltas.len() - start.delta
    }

    /// Visits the items from a place on. The caller expects to visit up to `count` of them.
    #[inline]
    pub fn forward(
        &self,
        start: Start,
        count: usize,
        mut visit: impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.prefetch(start.item, count);
        let mut next = start.item;
        for delta in &self.deltas[start.delta..] {
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
            self.run_back(lower, end, &mut visit)?;
            end = place;
            self.visit_delta(delta, &mut visit)?;
        }
        self.run_back(0, end, &mut visit)
    }

    #[inline(always)]
    fn run(
        &self,
        from: usize,
        to: usize,
        visit: &mut impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.rows {
            Some(rows) => rows.between(from, to).try_for_each(visit),
            None => (from..to).try_for_each(|index| visit(self.base.item(index))),
        }
    }

    #[inline(always)]
    fn run_back(
        &self,
        from: usize,
        to: usize,
        visit: &mut impl FnMut(Item<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.rows {
            Some(rows) => rows.between(from, to).rev().try_for_each(visit),
            None => (from..to)
                .rev()
                .try_for_each(|index| visit(self.base.item(index))),
        }
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
