//! How nodes split, and what leaves do instead: take another form, and widen.

use hedgerow_pages::{PageId, Pages, Result};

use super::{Above, NodePath, NodeRef, Restructuring};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::densify::{NEIGHBOURS, Taken};
use crate::node::layout::Payload;
use crate::node::page::Image;
use crate::node::plan::Planned;
use crate::node::slotted::Comparison;
use crate::node::split::SplitPoint;

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> Restructuring<'_, C, PAGE, P> {
    /// Makes room for a record of a leaf: gives the leaf another form, or splits it or the lowest
    /// node above it whose parent has room. To be called, by a thread that has no latch, until the
    /// leaf takes the record.
    pub(crate) fn make_room(
        &mut self,
        path: &NodePath<P::Optimistic>,
        leaf: NodeRef<P::Optimistic>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<()> {
        let mut node = leaf;
        for (level, &(parent, index)) in path.iter().enumerate().rev() {
            let latch = self.pages.upgrade(&parent.snapshot)?;
            let mut above = Above { latch, index };
            let is_leaf = level + 1 == path.len();
            let mut below = if is_leaf {
                // Whatever its records are now, it is the leaf.
                self.pages.exclusive(node.id)?
            } else {
                self.pages.upgrade(&node.snapshot)?
            };
            let mut page = self.node(&below).clone();
            if is_leaf
                && self.make_room_in(&mut below, Some(&mut above), &mut page, key, payload)?
            {
                return Ok(());
            }
            let cut = page.cut_for::<C>(key, payload);
            if self.node(&above.latch).takes_child::<C>(&cut.separator) {
                return self.split_node(below, above, &page, &cut);
            }
            node = parent;
        }
        let mut latch = self.pages.upgrade(&node.snapshot)?;
        let page = self.node(&latch).clone();
        if path.is_empty()
            && self.make_room_in(&mut latch, None, &mut page.clone(), key, payload)?
        {
            return Ok(());
        }
        self.raise_root(latch, page)
    }

    /// Whether a leaf, of which `page` is a copy, takes a record after all, or takes another form
    /// that may help; else the copy is in order.
    fn make_room_in(
        &mut self,
        latch: &mut P::Exclusive,
        above: Option<&mut Above<P::Exclusive>>,
        page: &mut Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<bool> {
        // Another thread may have made room since this one saw none.
        if P::IS_SHARED && page.has_room::<C>(key, payload) {
            return Ok(true);
        }
        page.order::<C>();
        self.reform(latch, above, page, key, payload)
    }

    /// Puts a level between a root, of which `page` is a copy, and its content.
    pub(crate) fn raise_root(
        &mut self,
        mut latch: P::Exclusive,
        mut page: Image<PAGE>,
    ) -> Result<()> {
        self.prepare(&mut latch)?;
        let mut below = self.pages.allocate(self.operation)?;
        self.store(&mut below, &page);
        page.become_root_above::<C>(self.pages.id(&below).0);
        self.store(&mut latch, &page);
        Ok(())
    }

    /// Gives an ordered leaf that cannot take a record another form, if that may help.
    fn reform(
        &mut self,
        latch: &mut P::Exclusive,
        above: Option<&mut Above<P::Exclusive>>,
        old: &Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<bool> {
        if !C::LEAVES.dense() {
            return Ok(false);
        }
        let Some(plan) = old.reformed::<C>(key, payload) else {
            return Ok(false);
        };
        let mut page = old.clone();
        page.rebuild::<C>(old, plan, &mut self.conversions);
        self.prepare(latch)?;
        self.store(latch, &page);
        if let (Planned::FullyDense(_), Some(above)) = (plan.form, above) {
            self.widen(above, latch, page)?;
        }
        Ok(true)
    }

    /// Lets a leaf that became fully dense take records of its right neighbours.
    fn widen(
        &mut self,
        above: &mut Above<P::Exclusive>,
        first: &mut P::Exclusive,
        mut page: Image<PAGE>,
    ) -> Result<()> {
        self.prepare(&mut above.latch)?;
        let mut parent = self.node(&above.latch).clone();
        // The neighbour that went on to its own, after the first leaf.
        let mut later: Option<P::Exclusive> = None;
        for _ in 0..NEIGHBOURS {
            if above.index == parent.count() {
                return Ok(());
            }
            let id = parent.child::<Comparison<C>>(above.index + 1);
            let mut neighbour = self.pages.exclusive(PageId(id))?;
            let taken = page.taking_from::<C>(self.node(&neighbour));
            let left = later.as_mut().unwrap_or(&mut *first);
            match taken {
                Taken::Nothing => return Ok(()),
                Taken::All(left_page) => {
                    self.prepare(&mut neighbour)?;
                    page = left_page;
                    parent.remove_child::<C>(above.index);
                    self.store(left, &page);
                    self.store(&mut above.latch, &parent);
                    self.pages.release(neighbour, self.operation)?;
                    self.conversions.widened += 1;
                }
                Taken::Part {
                    left: left_page,
                    right,
                    fence,
                } => {
                    self.prepare(&mut neighbour)?;
                    if !parent.move_separator::<C>(above.index, &fence) {
                        return Ok(());
                    }
                    self.store(left, &left_page);
                    self.store(&mut neighbour, &right);
                    self.store(&mut above.latch, &parent);
                    self.conversions.to_dense += 1;
                    above.index += 1;
                    page = right;
                    later = Some(neighbour);
                }
            }
        }
        Ok(())
    }

    /// Splits a node, of which `page` is an ordered copy. Its parent has room for the separator.
    pub(crate) fn split_node(
        &mut self,
        mut latch: P::Exclusive,
        mut above: Above<P::Exclusive>,
        page: &Image<PAGE>,
        cut: &SplitPoint,
    ) -> Result<()> {
        self.prepare(&mut above.latch)?;
        self.prepare(&mut latch)?;
        let mut right = self.pages.allocate(self.operation)?;
        let mut conversions = Conversions::default();
        self.change(&mut latch, |half| {
            page.left_half::<C>(cut, half, &mut conversions);
        });
        self.change(&mut right, |half| {
            page.right_half::<C>(cut, half, &mut conversions);
        });
        self.conversions.absorb(&conversions);
        let (left, right) = (self.pages.id(&latch).0, self.pages.id(&right).0);
        self.change(&mut above.latch, |parent| {
            parent.insert_child::<C>(above.index, left, &cut.separator, right);
        });
        self.splits += 1;
        Ok(())
    }

    /// Splits the child of a latched node just before a key, or near it, if the node has room and
    /// the child has two records or more.
    pub(crate) fn split_near(
        &mut self,
        above: Above<P::Exclusive>,
        below: P::Exclusive,
        key: &[u8],
    ) -> Result<()> {
        let mut page = self.node(&below).clone();
        if page.count() < 2 {
            return Ok(());
        }
        page.order::<C>();
        let cut = page.cut_near::<C>(key);
        if self.node(&above.latch).takes_child::<C>(&cut.separator) {
            self.split_node(below, above, &page, &cut)?;
        }
        Ok(())
    }
}
