//! Descents by version snapshots alone, and the latch of the leaf at their end.

use hedgerow_pages::{
    ExclusiveLatch, PageId, Pages, Pool, Restart, Result, SharedLatch, Stop, View,
};

use super::read::chance;
use super::root_digest::{self, RootDigest, Separators};
use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::key::CutKey;
use crate::node::page::{Tag, node};
use crate::node::search::{FIRST_BYTES, Node};
use crate::node::slotted::Comparison;
use crate::restructure::{NodePath, NodeRef};

/// More levels than a tree can have: beyond, pages name each other in a circle.
pub(super) const DEEPEST: usize = 64;

/// A leaf, and the node that named it; none if the leaf is the root of its layer.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub at: NodeRef,
    pub above: Option<NodeRef>,
}

/// Which leaf a descent searches for.
#[derive(Clone, Copy)]
pub(super) enum SearchTarget<'k> {
    /// To the leaf that covers a key.
    Key(&'k [u8]),
    /// To the leaf that covers what is right below a key.
    Below(&'k [u8]),
    /// To the last leaf.
    Last,
}

impl<'k> SearchTarget<'k> {
    /// The target within the layer of the descent, whose keys are cut after `key_prefix` bytes.
    pub(super) fn in_layer(self, key_prefix: usize) -> SearchTarget<'k> {
        match self {
            SearchTarget::Key(key) => SearchTarget::Key(CutKey::at(key, key_prefix).key_prefix),
            SearchTarget::Below(_) | SearchTarget::Last => self,
        }
    }

    /// The child that leads there and its index, or none of a leaf.
    ///
    /// A page that is pushed out of memory while it is read looks like one of zeros: neither an
    /// inner node nor a leaf. To take all that is no inner node for a leaf would be to take an
    /// inner node for one at that moment, and nothing that is validated later need tell: the node
    /// above it was not changed.
    #[inline(always)]
    pub(super) fn child<C: Configuration>(
        self,
        page: impl View,
    ) -> std::result::Result<Option<(PageId, usize)>, Restart> {
        if !page.has_tag(Tag::Inner)? {
            return if page.is_leaf()? {
                Ok(None)
            } else {
                Err(Restart)
            };
        }
        let (child, index) = match self {
            SearchTarget::Key(key) => page.child_over::<Comparison<C>>(key)?,
            SearchTarget::Below(key) => {
                let suffix = key.get(page.prefix_bytes()?..).unwrap_or(&[]);
                let (index, _) = page.find_slot::<Comparison<C>>(suffix)?;
                let child = page.child_at::<Comparison<C>>(index, page.records()?)?;
                (child, index)
            }
            SearchTarget::Last => {
                let count = page.records()?;
                (page.child_at::<Comparison<C>>(count, count)?, count)
            }
        };
        Ok(Some((PageId(child), index)))
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Takes a version snapshot of the root of the tree.
    #[inline(always)]
    pub(super) fn snapshot_root(&self) -> Result<NodeRef> {
        let pool: &Pool<PAGE> = &self.pool;
        let id = self.root;
        match pool.optimistic(id) {
            Ok(snapshot) => Ok(NodeRef { id, snapshot }),
            // It is never released while there is a tree.
            Err(Stop::Restart) => Err(self.damaged(id, "is to be a root, but is not in use")),
            Err(failed) => Err(failed),
        }
    }

    /// Takes a version snapshot of a child, and then validates that of its parent.
    #[inline(always)]
    pub(super) fn snapshot_child(&self, above: &NodeRef, id: PageId) -> Result<NodeRef> {
        let pool: &Pool<PAGE> = &self.pool;
        match pool.optimistic(id) {
            Ok(snapshot) => {
                pool.validate(&above.snapshot)?;
                Ok(NodeRef { id, snapshot })
            }
            Err(Stop::Restart) => {
                Err(self.restart_or_damage(above, "names a page that is not in use"))
            }
            Err(failed) => {
                pool.validate(&above.snapshot)?;
                Err(failed)
            }
        }
    }

    /// Why something read of a page makes no sense: it was changed meanwhile, or it is damaged.
    #[cold]
    pub(super) fn restart_or_damage(&self, at: &NodeRef, what: &str) -> Stop {
        let pool: &Pool<PAGE> = &self.pool;
        match pool.validate(&at.snapshot) {
            Ok(()) => self.damaged(at.id, what),
            Err(Restart) => Stop::Restart,
        }
    }

    #[cold]
    pub(super) fn damaged(&self, page: PageId, what: &str) -> Stop {
        self.pool.damaged(page, what).into()
    }

    /// The child of a node of which a version snapshot was taken that leads to a target, and its
    /// index, or none of a leaf.
    #[inline(always)]
    pub(super) fn child_below(
        &self,
        at: &NodeRef,
        target: SearchTarget<'_>,
    ) -> std::result::Result<Option<(PageId, usize)>, Restart> {
        let is_root = at.id == self.root;
        if is_root
            && let SearchTarget::Key(key) = target
            && let Some(digest) = self.root_digest.get()
            && let Some((child, index)) = digest.child(at.snapshot.version(), key)
        {
            return Ok(Some((PageId(child), index)));
        }
        let pool: &Pool<PAGE> = &self.pool;
        let found = target.child::<C>(pool.seen(&at.snapshot))?;
        if is_root && found.is_some() && chance(root_digest::WRITES) {
            self.write_root_digest(at);
        }
        Ok(found)
    }

    /// Writes the digest of the root as it is in a version snapshot, if that holds.
    #[cold]
    fn write_root_digest(&self, root: &NodeRef) {
        let (pool, version): (&Pool<PAGE>, _) = (&self.pool, root.snapshot.version());
        let digest = self.root_digest.get();
        if digest.is_some_and(|digest| digest.is_of(version)) {
            return;
        }
        // Bytes that make no sense are for the descent to tell of.
        if let Ok(Some(separators)) = Separators::of::<C>(pool.seen(&root.snapshot))
            && pool.validate(&root.snapshot).is_ok()
        {
            let digest = self.root_digest.get_or_init(RootDigest::new);
            digest.write(version, &separators);
        }
    }

    /// Descends from a root; `step` sees each inner node on the path and the index of the child
    /// taken there. That the page at the end is a leaf is true once its snapshot, or that of the
    /// node above, was validated afterwards.
    #[inline(always)]
    fn descend_by(
        &self,
        from: NodeRef,
        target: SearchTarget<'_>,
        mut step: impl FnMut(NodeRef, usize),
    ) -> Result<Leaf> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut above, mut at) = (None, from);
        for _ in 0..DEEPEST {
            let (child, index) = match self.child_below(&at, target) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(Leaf { at, above }),
                Err(Restart) => {
                    return Err(self
                        .restart_or_damage(&at, "is no node, or refers to bytes beyond its end"));
                }
            };
            pool.prefetch_lines(child, 0..FIRST_BYTES);
            let below = self.snapshot_child(&at, child)?;
            step(at, index);
            (above, at) = (Some(at), below);
        }
        Err(self.damaged(from.id, "begins a path that does not end"))
    }

    /// The leaf that a target leads to.
    #[inline(always)]
    pub(super) fn descend(&self, from: NodeRef, target: SearchTarget<'_>) -> Result<Leaf> {
        self.descend_by(from, target, |_, _| {})
    }

    /// The leaf that covers a key, and the path to it.
    pub(super) fn path(&self, from: NodeRef, key: &[u8]) -> Result<(NodePath, Leaf)> {
        let mut path = NodePath::new();
        let leaf = self.descend_by(from, SearchTarget::Key(key), |at, index| {
            path.push((at, index))
        })?;
        Ok((path, leaf))
    }

    /// Latches a leaf for reading, if it is still the one.
    #[inline(always)]
    pub(super) fn latch_shared(&self, leaf: &Leaf) -> Result<SharedLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = pool.shared(leaf.at.id)?;
        // Others may have changed the records of a leaf, but not what it covers.
        pool.validate(&leaf.above.unwrap_or(leaf.at).snapshot)?;
        if node(latch.image()).is_leaf() {
            return Ok(latch);
        }
        Err(self.damaged(leaf.at.id, "is neither an inner node nor a leaf"))
    }

    /// Latches a leaf for writing, if it is still the one.
    #[inline(always)]
    pub(super) fn latch_exclusive(&self, leaf: &Leaf) -> Result<ExclusiveLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = match leaf.above {
            Some(above) => {
                let latch = pool.exclusive(leaf.at.id)?;
                pool.validate(&above.snapshot)?;
                latch
            }
            None => self.latch_root(&leaf.at)?,
        };
        if image(&latch).is_leaf() {
            return Ok(latch);
        }
        if leaf.above.is_none() {
            return Err(Stop::Restart);
        }
        Err(self.damaged(leaf.at.id, "is neither an inner node nor a leaf"))
    }

    /// Latches a root that was a leaf. The root of the first layer is always its root;
    /// another's may have been released.
    fn latch_root(&self, at: &NodeRef) -> Result<ExclusiveLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        if at.id == self.root {
            return pool.exclusive(at.id);
        }
        let mut attempts = 0;
        loop {
            match pool.upgrade(&at.snapshot) {
                Ok(latch) => return Ok(latch),
                // Readers have it latched, but no writer has changed it.
                Err(Restart) => pool.validate(&at.snapshot)?,
            }
            self.pause(&mut attempts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Adaptive;
    use crate::node::page::Image;

    #[test]
    fn a_page_that_has_just_left_memory_is_no_leaf() {
        let mut page = Image::<1024>::zeroed();
        assert!(SearchTarget::Last.child::<Adaptive>(&page).is_err());
        page.set_tag(Tag::Overflow);
        assert!(SearchTarget::Last.child::<Adaptive>(&page).is_err());
        page.start::<Adaptive>();
        assert!(matches!(
            SearchTarget::Last.child::<Adaptive>(&page),
            Ok(None)
        ));
    }
}
