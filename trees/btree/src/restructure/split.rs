//! How nodes split, and what leaves do instead: take another form, and widen.

use hedgerow_pages::{PageId, Pages, Result, Stop};

use super::{Above, NodePath, NodeRef, PathStep, Restructuring};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::densify::{NEIGHBOURS, Taken};
use crate::node::layout::Payload;
use crate::node::page::Image;
use crate::node::plan::Planned;
use crate::node::search::Node;
use crate::node::slotted::Comparison;
use crate::node::split::{SplitPoint, takes_child};

/// Both halves of a node, before anything refers to them.
struct Halves<'h, L, const PAGE: usize> {
    /// The left half, which the node becomes.
    left: &'h Image<PAGE>,
    /// The page that has the right half.
    right: L,
    conversions: Conversions,
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> Restructuring<'_, C, PAGE, P> {
    /// Makes room for a record of a leaf: gives the leaf another form, or splits it or the lowest
    /// node above it whose parent has room. To be called, by a thread that has no latch, until the
    /// leaf takes the record.
    ///
    /// A split latches the node first and its parent last: both halves are made by then, the right
    /// one in its page, so descents and other splits find the parent latched only while it is made
    /// ready for a change and gets a separator. The node becomes its left half once the parent's
    /// latch is gone.
    pub(crate) fn make_room(
        &mut self,
        path: &NodePath<P::Optimistic>,
        leaf: NodeRef<P::Optimistic>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<()> {
        let mut node = leaf;
        for (level, step) in path.iter().enumerate().rev() {
            let is_leaf = level + 1 == path.len();
            let mut below = if is_leaf {
                // Whatever its records are now, it is the leaf.
                self.leaf_below(step, node.id)?
            } else {
                self.pages.upgrade(&node.snapshot)?
            };
            let mut page = self.node(&below).clone();
            if is_leaf && self.make_room_in(&mut below, Some(step), &mut page, key, payload)? {
                return Ok(());
            }
            let cut = page.cut_for::<C>(key, payload);
            if self.may_take_child(step, &cut) && self.split_below(step, key, below, &page, &cut)? {
                return Ok(());
            }
            node = step.0;
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

    /// Latches the leaf that a path led to, if it is still the one: others may have split it since,
    /// and its page may be another's by now.
    fn leaf_below(&mut self, step: &PathStep<P::Optimistic>, leaf: PageId) -> Result<P::Exclusive> {
        let latch = self.pages.exclusive(leaf);
        // Why another's page cannot be read is not ours to say.
        self.pages.validate(&step.0.snapshot)?;
        latch
    }

    /// Whether the node above has room for the separator of a split, or was changed since the
    /// descent, so that only its latch could tell.
    fn may_take_child(&self, step: &PathStep<P::Optimistic>, cut: &SplitPoint) -> bool {
        let above = self.pages.seen(&step.0.snapshot);
        let takes = takes_child::<C>(above, &cut.separator);
        self.pages.validate(&step.0.snapshot).is_err() || takes.unwrap_or(true)
    }

    /// Latches the node above a latched one, `below`, which covers `key`, and was the child of the
    /// node of this step when it was latched. Does not wait: who has the node above may be waiting
    /// for the one below.
    fn above(
        &mut self,
        &(parent, index): &PathStep<P::Optimistic>,
        key: &[u8],
        below: PageId,
    ) -> Result<Above<P::Exclusive>> {
        if let Ok(latch) = self.pages.upgrade(&parent.snapshot) {
            return Ok(Above { latch, index });
        }
        // A neighbour was split since, or is being split. Nobody moves the node below while it is
        // latched, so whatever names it is the node above. A page that cannot be read is for the
        // next descent to tell of: it may be another's by now.
        let Ok(Some(latch)) = self.pages.try_exclusive(parent.id) else {
            return Err(Stop::Restart);
        };
        let node = self.node(&latch);
        if node.is_inner() {
            let (child, index) = Node::child_over::<Comparison<C>>(node, key)?;
            if child == below.0 {
                return Ok(Above { latch, index });
            }
        }
        Err(Stop::Restart)
    }

    /// Whether a leaf, of which `page` is a copy, takes a record after all, or takes another form
    /// that may help; else the copy is in order.
    fn make_room_in(
        &mut self,
        latch: &mut P::Exclusive,
        step: Option<&PathStep<P::Optimistic>>,
        page: &mut Image<PAGE>,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<bool> {
        // Another thread may have made room since this one saw none.
        if P::IS_SHARED && page.has_room::<C>(key, payload) {
            return Ok(true);
        }
        page.order::<C>();
        self.reform(latch, step, page, key, payload)
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
        step: Option<&PathStep<P::Optimistic>>,
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
        if let (Planned::FullyDense(_), Some(step)) = (plan.form, step) {
            let leaf = self.pages.id(latch);
            // Nobody needs that the leaf is widened: whatever is in the way prevents it.
            if let Ok(mut above) = self.above(step, key, leaf) {
                let _ = self.widen(&mut above, latch, page);
            }
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

    /// Splits a latched node, of which `page` is an ordered copy, if the node above has room for
    /// the separator; says whether it had.
    fn split_below(
        &mut self,
        step: &PathStep<P::Optimistic>,
        key: &[u8],
        mut latch: P::Exclusive,
        page: &Image<PAGE>,
        cut: &SplitPoint,
    ) -> Result<bool> {
        self.prepare(&mut latch)?;
        let left = &mut page.clone();
        let halves = self.halves(page, cut, left)?;
        let refused = match self.above(step, key, self.pages.id(&latch)) {
            Ok(above) if self.node(&above.latch).takes_child::<C>(&cut.separator) => {
                self.insert_right(latch, above, cut, halves)?;
                return Ok(true);
            }
            Ok(_) => Ok(false),
            Err(stop) => Err(stop),
        };
        self.pages.release(halves.right, self.operation)?;
        refused
    }

    /// Splits a node, of which `page` is an ordered copy. Its parent has room for the separator.
    pub(crate) fn split_node(
        &mut self,
        mut latch: P::Exclusive,
        above: Above<P::Exclusive>,
        page: &Image<PAGE>,
        cut: &SplitPoint,
    ) -> Result<()> {
        self.prepare(&mut latch)?;
        let left = &mut page.clone();
        let halves = self.halves(page, cut, left)?;
        self.insert_right(latch, above, cut, halves)
    }

    /// Makes the right half of a node in a new page, which nothing refers to yet, and the left half
    /// of `left`, a copy of the node. A half that had no room for its records would panic here,
    /// where no node is changed yet.
    fn halves<'h>(
        &mut self,
        page: &Image<PAGE>,
        cut: &SplitPoint,
        left: &'h mut Image<PAGE>,
    ) -> Result<Halves<'h, P::Exclusive, PAGE>> {
        let mut right = self.pages.allocate(self.operation)?;
        let mut conversions = Conversions::default();
        self.change(&mut right, |half| {
            page.right_half::<C>(cut, half, &mut conversions);
        });
        page.left_half::<C>(cut, left, &mut conversions);
        Ok(Halves {
            left,
            right,
            conversions,
        })
    }

    /// Completes the split of a node, which is [prepared](Self::prepare): the parent, which has
    /// room, gets the separator and the right half, and the node becomes the left half.
    fn insert_right(
        &mut self,
        mut latch: P::Exclusive,
        mut above: Above<P::Exclusive>,
        cut: &SplitPoint,
        halves: Halves<'_, P::Exclusive, PAGE>,
    ) -> Result<()> {
        let Halves {
            left,
            right,
            conversions,
        } = halves;
        if let Err(stop) = self.prepare(&mut above.latch) {
            drop(above);
            self.pages.release(right, self.operation)?;
            return Err(stop);
        }
        let children = (self.pages.id(&latch).0, self.pages.id(&right).0);
        self.change(&mut above.latch, |parent| {
            parent.insert_child::<C>(above.index, children.0, &cut.separator, children.1);
        });
        // Who is led to the node from now on finds it latched until it is the left half.
        drop(above);
        drop(right);
        self.store(&mut latch, left);
        self.conversions.absorb(&conversions);
        self.splits += 1;
        Ok(())
    }

    /// Splits the leaf that a path led to just before a key, or near it, if the leaf has two
    /// records or more and the node above has room.
    pub(crate) fn split_near(
        &mut self,
        step: &PathStep<P::Optimistic>,
        leaf: PageId,
        key: &[u8],
    ) -> Result<()> {
        let latch = self.leaf_below(step, leaf)?;
        let mut page = self.node(&latch).clone();
        if page.count() < 2 {
            return Ok(());
        }
        page.order::<C>();
        let cut = page.cut_near::<C>(key);
        if self.may_take_child(step, &cut) {
            self.split_below(step, key, latch, &page, &cut)?;
        }
        Ok(())
    }
}
