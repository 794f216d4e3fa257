//! How nodes merge, and empty layers go, after a removal.
//!
//! None of it is needed for a right answer: an obstacle (another thread, a page that cannot
//! be read) may prevent it, and a later removal tries again.

use hedgerow_pages::{ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::descend::{NodeRef, SearchTarget};
use super::{BTreeIndex, MERGES, image};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::key::{CutKey, layer_root};
use crate::node::page::node;
use crate::node::slotted::{Comparison, Kind};

/// Attempts after which the rest is left to a later removal.
const ATTEMPTS: u32 = 40;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Merges nodes on the path to a key that was removed, and takes out layers that lost their
    /// last key, as far as there is reason to.
    #[cold]
    pub(super) fn tidy(&self, key: &[u8]) {
        let mut restarts = 0;
        while let Err(Stop::Restart) = self.try_tidy(key) {
            if restarts == ATTEMPTS {
                return;
            }
            self.pause(&mut restarts);
        }
    }

    fn try_tidy(&self, key: &[u8]) -> Result<()> {
        let mut layers = self.layers_of(key)?;
        while let Some((root, cut)) = layers.pop() {
            self.merge_towards(root, cut.key_prefix)?;
            let Some(&(upper, cut)) = layers.last() else {
                break;
            };
            if !self.drop_layer(upper, cut.key_prefix, root.id)? {
                break;
            }
        }
        Ok(())
    }

    /// The roots of the layers that a key leads through, each with the part of the key from
    /// there on.
    pub(super) fn layers_of<'k>(&self, key: &'k [u8]) -> Result<Vec<(NodeRef, CutKey<'k>)>> {
        let (mut root, mut cut) = (self.snapshot_root()?, Self::cut(key));
        let mut layers = Vec::new();
        loop {
            layers.push((root, cut));
            let leaf = self.descend(root, SearchTarget::Key(cut.key_prefix))?;
            let latch = self.share(&leaf)?;
            let page = node(latch.image());
            match page.find::<C>(cut.key_prefix) {
                Some(record) if record.kind == Kind::Layer => {
                    root = self.snapshot_layer_root(layer_root(page.payload(record)))?;
                    cut = Self::cut(cut.rest.unwrap_or(&[]));
                }
                _ => return Ok(layers),
            }
        }
    }

    /// Merges nodes of one layer on the path to a key, from its leaf upwards.
    fn merge_towards(&self, root: NodeRef, key: &[u8]) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        let mut at = leaf.at;
        for (level, &(parent, index)) in path.iter().enumerate().rev() {
            let sparse = {
                let latch = pool.shared(at.id)?;
                pool.validate(&parent.snapshot)?;
                node(latch.image()).sparse::<C>()
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
    fn merge_around(&self, parent: NodeRef, mut index: usize, is_root: bool) -> Result<bool> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let operation = pool.begin();
        let mut above = pool.upgrade(&parent.snapshot)?;
        let before = image(&above).count();
        // An empty leaf may have waited on either side for this one to shrink.
        loop {
            let count = image(&above).count();
            if index < count && self.merge(&mut above, index, &operation)? {
                continue;
            }
            if index == 0 || !self.merge(&mut above, index - 1, &operation)? {
                break;
            }
            index -= 1;
        }
        // The only child of a node has neighbours below that one's.
        let go_on = before == 0 || image(&above).count() < before;
        while is_root && image(&above).is_inner() && image(&above).count() == 0 {
            let only = PageId(image(&above).upper_child() as u32);
            let below = pool.exclusive(only)?;
            self.prepare(&mut above, &operation)?;
            self.store_node(&mut above, image(&below));
            pool.release(below, &operation)?;
        }
        Ok(go_on)
    }

    /// Merges the children `index` and `index + 1` of a latched node, if they are empty enough
    /// and fit.
    fn merge<'p>(
        &'p self,
        above: &mut ExclusiveLatch<'p, PAGE>,
        index: usize,
        operation: &Operation<'p>,
    ) -> Result<bool> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let child = |index| PageId(image(above).child::<Comparison<C>>(index));
        let mut left = pool.exclusive(child(index))?;
        let mut right = pool.exclusive(child(index + 1))?;
        if !image(&left).may_merge::<C>(image(&right)) {
            return Ok(false);
        }
        let (mut left_page, mut right_page) = (image(&left).clone(), image(&right).clone());
        left_page.order::<C>();
        right_page.order::<C>();
        let mut parent = image(above).clone();
        let mut conversions = Conversions::default();
        let merged = left_page.merged::<C>(&parent, index, &right_page, &mut conversions);
        let Some(merged) = merged else {
            return Ok(false);
        };
        self.prepare(above, operation)?;
        self.prepare(&mut left, operation)?;
        self.prepare(&mut right, operation)?;
        parent.remove_child::<C>(index);
        self.store_node(&mut left, &merged);
        self.store_node(above, &parent);
        pool.release(right, operation)?;
        self.conversions().absorb(&conversions);
        self.events.count(MERGES);
        Ok(true)
    }

    /// Takes out the layer with this root, if the leaf of its key prefix still names it and it
    /// has no key.
    fn drop_layer(&self, upper: NodeRef, key_prefix: &[u8], root: PageId) -> Result<bool> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let leaf = self.descend(upper, SearchTarget::Key(key_prefix))?;
        let operation = pool.begin();
        let mut latch = self.own(&leaf)?;
        let mut page = image(&latch).clone();
        let Some(place) = page.index_of::<C>(key_prefix) else {
            return Ok(false);
        };
        let record = page.leaf_record::<C>(place);
        if record.kind != Kind::Layer || layer_root(page.payload(record)) != root.0 {
            return Ok(false);
        }
        let below = pool.exclusive(root)?;
        if !image(&below).is_leaf() || image(&below).count() > 0 {
            return Ok(false);
        }
        page.take::<C>(place);
        self.prepare(&mut latch, &operation)?;
        self.store_node(&mut latch, &page);
        pool.release(below, &operation)?;
        Ok(true)
    }
}
