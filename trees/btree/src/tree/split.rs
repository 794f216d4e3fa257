//! How nodes split under latches: first the parent's, if its snapshot still holds, then the
//! child's.

use hedgerow_pages::{ExclusiveLatch, Operation, PageId, Pages, Pool, Result};

use super::descend::NodeRef;
use super::{BTreeIndex, SPLITS, image};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::densify::{NEIGHBOURS, Taken};
use crate::node::page::Image;
use crate::node::plan::Planned;
use crate::node::slotted::{Comparison, Payload};
use crate::node::split::SplitPoint;

/// An inner node that is latched, and the index of one of its children.
pub(super) struct Above<'p, const PAGE: usize> {
    pub latch: ExclusiveLatch<'p, PAGE>,
    pub index: usize,
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Makes room on the path to `key` from a root: gives its leaf another form, or splits
    /// the leaf or the lowest node above it whose parent has room. To be called, by whoever has no
    /// latch, until the leaf takes the record.
    #[cold]
    pub(super) fn make_room(&self, root: NodeRef, key: &[u8], payload: Payload<'_>) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        let operation = pool.begin();
        let mut node = leaf.at;
        for (level, &(parent, index)) in path.iter().enumerate().rev() {
            let latch = pool.upgrade(&parent.snapshot)?;
            let mut above = Above { latch, index };
            let is_leaf = level + 1 == path.len();
            let mut below = if is_leaf {
                // Whatever its records are now, it is the leaf.
                pool.exclusive(node.id)?
            } else {
                pool.upgrade(&node.snapshot)?
            };
            let mut page = image(&below).clone();
            if is_leaf {
                if self.has_room(&page, key, payload) {
                    return Ok(());
                }
                page.order::<C>();
                if self.reform(
                    &mut below,
                    Some(&mut above),
                    &page,
                    (key, payload),
                    &operation,
                )? {
                    return Ok(());
                }
            }
            let cut = page.cut_for::<C>(key, payload);
            if image(&above.latch).takes_child::<C>(&cut.separator) {
                return self.split_node(below, above, &page, &cut, &operation);
            }
            node = parent;
        }
        let mut latch = pool.upgrade(&node.snapshot)?;
        let page = image(&latch).clone();
        if path.is_empty() {
            if self.has_room(&page, key, payload) {
                return Ok(());
            }
            let mut page = page.clone();
            page.order::<C>();
            if self.reform(&mut latch, None, &page, (key, payload), &operation)? {
                return Ok(());
            }
        }
        self.raise_root(latch, page, &operation)
    }

    /// Puts a level between a root, of which `page` is a copy, and its content.
    pub(super) fn raise_root<'p>(
        &'p self,
        mut latch: ExclusiveLatch<'p, PAGE>,
        mut page: Image<PAGE>,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        self.prepare(&mut latch, operation)?;
        let mut below = pool.allocate(operation)?;
        self.store_node(&mut below, &page);
        page.become_root_above::<C>(pool.id(&below).0);
        self.store_node(&mut latch, &page);
        Ok(())
    }

    /// Whether a leaf takes a record after all: others may have made room meanwhile.
    fn has_room(&self, page: &Image<PAGE>, key: &[u8], payload: Payload<'_>) -> bool {
        let mut trial = page.clone();
        let (place, present) = trial.locate::<C>(key);
        if present {
            trial.take::<C>(place);
        }
        trial.add::<C>(place, key, payload)
    }

    /// Gives an ordered leaf that cannot take a record another form, if that may help.
    fn reform<'p>(
        &'p self,
        latch: &mut ExclusiveLatch<'p, PAGE>,
        above: Option<&mut Above<'p, PAGE>>,
        old: &Image<PAGE>,
        (key, payload): (&[u8], Payload<'_>),
        operation: &Operation<'p>,
    ) -> Result<bool> {
        if !C::LEAVES.dense() {
            return Ok(false);
        }
        let Some(plan) = old.reformed::<C>(key, payload) else {
            return Ok(false);
        };
        let mut conversions = Conversions::default();
        let mut page = old.clone();
        page.rebuild::<C>(old, plan, &mut conversions);
        self.prepare(latch, operation)?;
        self.store_node(latch, &page);
        if let (Planned::FullyDense(_), Some(above)) = (plan.form, above) {
            self.widen(above, latch, page, &mut conversions, operation)?;
        }
        self.conversions().absorb(&conversions);
        Ok(true)
    }

    /// Lets a leaf that became fully dense take records of its right neighbours.
    fn widen<'p>(
        &'p self,
        above: &mut Above<'p, PAGE>,
        first: &mut ExclusiveLatch<'p, PAGE>,
        mut page: Image<PAGE>,
        conversions: &mut Conversions,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        self.prepare(&mut above.latch, operation)?;
        let mut parent = image(&above.latch).clone();
        // The neighbour that went on to its own, after the first leaf.
        let mut later: Option<ExclusiveLatch<'p, PAGE>> = None;
        for _ in 0..NEIGHBOURS {
            if above.index == parent.count() {
                return Ok(());
            }
            let id = parent.child::<Comparison<C>>(above.index + 1);
            let mut neighbour = pool.exclusive(PageId(id))?;
            let taken = page.taking_from::<C>(image(&neighbour));
            let left = later.as_mut().unwrap_or(&mut *first);
            match taken {
                Taken::Nothing => return Ok(()),
                Taken::All(left_page) => {
                    self.prepare(&mut neighbour, operation)?;
                    page = left_page;
                    parent.remove_child::<C>(above.index);
                    self.store_node(left, &page);
                    self.store_node(&mut above.latch, &parent);
                    pool.release(neighbour, operation)?;
                    conversions.widened += 1;
                }
                Taken::Part {
                    left: left_page,
                    right,
                    fence,
                } => {
                    self.prepare(&mut neighbour, operation)?;
                    if !parent.move_separator::<C>(above.index, &fence) {
                        return Ok(());
                    }
                    self.store_node(left, &left_page);
                    self.store_node(&mut neighbour, &right);
                    self.store_node(&mut above.latch, &parent);
                    conversions.to_dense += 1;
                    above.index += 1;
                    page = right;
                    later = Some(neighbour);
                }
            }
        }
        Ok(())
    }

    /// Splits a node, of which `page` is an ordered copy. Its parent has room for the separator.
    pub(super) fn split_node<'p>(
        &'p self,
        mut latch: ExclusiveLatch<'p, PAGE>,
        mut above: Above<'p, PAGE>,
        page: &Image<PAGE>,
        cut: &SplitPoint,
        operation: &Operation<'p>,
    ) -> Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        self.prepare(&mut above.latch, operation)?;
        self.prepare(&mut latch, operation)?;
        let mut right = pool.allocate(operation)?;
        let mut conversions = Conversions::default();
        let mut half = Image::zeroed();
        page.right_half::<C>(cut, &mut half, &mut conversions);
        self.store_node(&mut right, &half);
        half.clone_from(page);
        page.left_half::<C>(cut, &mut half, &mut conversions);
        self.store_node(&mut latch, &half);
        let mut parent = image(&above.latch).clone();
        let (left, right) = (pool.id(&latch).0, pool.id(&right).0);
        parent.insert_child::<C>(above.index, left, &cut.separator, right);
        self.store_node(&mut above.latch, &parent);
        self.conversions().absorb(&conversions);
        self.events.count(SPLITS);
        Ok(())
    }
}
