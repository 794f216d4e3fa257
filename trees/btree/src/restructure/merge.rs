//! How nodes merge after a removal.
//!
//! None of it is needed for a right answer: an obstacle (another thread, a page that cannot be
//! read) may prevent it, and a later removal tries again.

use hedgerow_pages::{PageId, Pages, Result};

use super::{NodePath, NodeRef, Restructuring};
use crate::configuration::Configuration;
use crate::node::page::{Image, node};
use crate::node::search::Node;
use crate::node::slotted::Comparison;

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> Restructuring<'_, C, PAGE, P> {
    /// Merges nodes on a path, from its leaf upwards as long as there is reason to.
    pub(crate) fn merge_path(
        &mut self,
        path: &NodePath<P::Optimistic>,
        leaf: NodeRef<P::Optimistic>,
    ) -> Result<()> {
        let mut at = leaf;
        for (level, &(parent, index)) in path.iter().enumerate().rev() {
            let sparse = {
                let latch = self.pages.shared(at.id)?;
                self.pages.validate(&parent.snapshot)?;
                node(self.pages.shared_image(&latch)).sparse::<C>()
            };
            if !sparse || !self.merge_around(parent, index, level == 0)? {
                break;
            }
            at = parent;
        }
        Ok(())
    }

    /// Merges a child with its neighbours as long as they fit; says whether the node above is to
    /// be looked at, too. A root that has one child left takes its content.
    fn merge_around(
        &mut self,
        parent: NodeRef<P::Optimistic>,
        mut index: usize,
        is_root: bool,
    ) -> Result<bool> {
        if !self.may_merge_around(parent, index)? {
            return Ok(false);
        }
        let mut above = self.pages.upgrade(&parent.snapshot)?;
        let before = self.node(&above).count();
        // An empty leaf may have waited on either side for this one to shrink.
        loop {
            let count = self.node(&above).count();
            if index < count && self.merge(&mut above, index)? {
                continue;
            }
            if index == 0 || !self.merge(&mut above, index - 1)? {
                break;
            }
            index -= 1;
        }
        // The only child of a node has neighbours below that one's.
        let go_on = before == 0 || self.node(&above).count() < before;
        while is_root && self.node(&above).is_inner() && self.node(&above).count() == 0 {
            let only = PageId(self.node(&above).upper_child() as u32);
            let below = self.pages.exclusive(only)?;
            self.prepare(&mut above)?;
            let page = self.node(&below).clone();
            self.store(&mut above, &page);
            self.pages.release(below, self.operation)?;
        }
        Ok(go_on)
    }

    /// Whether a child that is [sparse](Image::sparse) has a neighbour to merge with, or may be the
    /// last below its parent. Removals come here often and seldom find one, so this latches no
    /// node exclusively.
    fn may_merge_around(&self, parent: NodeRef<P::Optimistic>, index: usize) -> Result<bool> {
        let above = self.pages.seen(&parent.snapshot);
        let count = above.records()?;
        if count == 0 {
            return Ok(true);
        }
        let child_is = |index: usize, is: fn(&Image<PAGE>) -> bool| -> Result<bool> {
            let child = PageId(above.child_at::<Comparison<C>>(index, count)?);
            self.pages.validate(&parent.snapshot)?;
            let latch = self.pages.shared(child)?;
            self.pages.validate(&parent.snapshot)?;
            Ok(is(node(self.pages.shared_image(&latch))))
        };
        Ok(
            child_is(index, |page| !page.is_inner() && page.count() == 0)?
                || index < count && child_is(index + 1, Image::sparse::<C>)?
                || index > 0 && child_is(index - 1, Image::sparse::<C>)?,
        )
    }

    /// Merges the children `index` and `index + 1` of a latched node, if they are empty enough
    /// and fit.
    fn merge(&mut self, above: &mut P::Exclusive, index: usize) -> Result<bool> {
        let child = |index| PageId(self.node(above).child::<Comparison<C>>(index));
        let mut left = self.pages.exclusive(child(index))?;
        let mut right = self.pages.exclusive(child(index + 1))?;
        if !self.node(&left).may_merge::<C>(self.node(&right)) {
            return Ok(false);
        }
        let mut pages = [self.node(&left).clone(), self.node(&right).clone()];
        pages.iter_mut().for_each(|page| page.order::<C>());
        let mut parent = self.node(above).clone();
        let merged = pages[0].merged::<C>(&parent, index, &pages[1], &mut self.conversions);
        let Some(merged) = merged else {
            return Ok(false);
        };
        self.prepare(above)?;
        self.prepare(&mut left)?;
        self.prepare(&mut right)?;
        parent.remove_child::<C>(index);
        self.store(&mut left, &merged);
        self.store(above, &parent);
        self.pages.release(right, self.operation)?;
        self.merges += 1;
        Ok(true)
    }
}
