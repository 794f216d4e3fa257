//! Splits, merges, conversions and widenings, written once over a provider of pages.
//!
//! A restructuring changes several pages of one layer within one operation: a parent, and children
//! of it. With a buffer pool a split latches the child and then, as late as it can, the parent,
//! without waiting for that; a merge latches the parent, if its version snapshot still holds, and
//! then the children concerned from left to right. A split or merge that restarts or fails has
//! changed nothing. With pages that one writer has for itself, latches are page numbers and nothing
//! restarts.
//!
//! A root never changes its number: its content moves to or from the page below.
//!
//! Where optimistic readers may read a page meanwhile, its new content is computed in a copy, of
//! which the lines that differ are then stored. Pages of one writer change in place.

mod merge;
mod split;

use std::marker::PhantomData;

use hedgerow_pages::{PageId, Pages, Result, VersionSnapshot, ViewMut};

use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::page::{Image, node, node_mut};

/// A reference to a node: its page, and the version snapshot under which it was reached, or what a
/// provider has instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeRef<S = VersionSnapshot> {
    pub id: PageId,
    pub snapshot: S,
}

/// An inner node, and the index of the child where a path goes on.
pub(crate) type PathStep<S = VersionSnapshot> = (NodeRef<S>, usize);

/// Inner nodes and the indices of children, from a root downwards.
pub(crate) type NodePath<S = VersionSnapshot> = Vec<PathStep<S>>;

/// An inner node that is latched, and the index of one of its children.
pub(crate) struct Above<L> {
    pub latch: L,
    pub index: usize,
}

/// The pages of a tree within one operation, and what happened to them.
pub(crate) struct Restructuring<'r, C, const PAGE: usize, P: Pages<PAGE>> {
    pages: &'r mut P,
    operation: &'r P::Operation,
    /// What became of leaves.
    pub conversions: Conversions,
    /// Nodes that were split.
    pub splits: u64,
    /// Nodes that merged into a neighbour.
    pub merges: u64,
    configuration: PhantomData<fn() -> C>,
}

impl<'r, C: Configuration, const PAGE: usize, P: Pages<PAGE>> Restructuring<'r, C, PAGE, P> {
    /// Begins within an operation, which the caller began before it took any latch.
    pub(crate) fn new(pages: &'r mut P, operation: &'r P::Operation) -> Self {
        Self {
            pages,
            operation,
            conversions: Conversions::default(),
            splits: 0,
            merges: 0,
            configuration: PhantomData,
        }
    }

    /// The node in a latched page.
    fn node<'a>(&'a self, latch: &'a P::Exclusive) -> &'a Image<PAGE> {
        node(self.pages.image(latch))
    }

    /// Says that a latched page will be changed. Afterwards [`store`](Self::store) cannot fail.
    fn prepare(&mut self, latch: &mut P::Exclusive) -> Result<()> {
        self.pages.change(latch, self.operation).map(|_| ())
    }

    /// Changes the node in a latched page, for which it was [prepared](Self::prepare): in place, or
    /// in a copy that is then stored.
    fn change(&mut self, latch: &mut P::Exclusive, change: impl FnOnce(&mut Image<PAGE>)) {
        if let Some(image) = self.pages.image_mut(latch) {
            return change(node_mut(image));
        }
        let mut copy = self.node(latch).clone();
        change(&mut copy);
        self.store(latch, &copy);
    }

    /// Makes a latched page another node, but for the bytes that are unused there.
    fn store(&mut self, latch: &mut P::Exclusive, image: &Image<PAGE>) {
        let (mut page, unused) = (self.pages.touch(latch), image.unused::<C>());
        page.take_lines(0..unused.start, image.image());
        page.take_lines(unused.end..PAGE, image.image());
    }
}
