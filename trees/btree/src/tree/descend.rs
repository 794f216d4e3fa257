//! Descents by version snapshots alone, and the latch of the leaf at their end.

use std::convert::Infallible;
use std::ops::ControlFlow;

use hedgerow_pages::{
    ExclusiveLatch, PageId, Pages, Pool, Restart, Result, SharedLatch, Stop, View,
};
use hedgerow_simd::{Kernel, Scalar};

use super::read::chance;
use super::root_digest::{self, RootDigest, Separators};
use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::key::CutKey;
use crate::node::layout::Layout;
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
    pub(super) fn child<L: Layout>(
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
            SearchTarget::Key(key) => page.child_over::<L>(key)?,
            SearchTarget::Below(key) => {
                let (index, _) = page.find_slot::<L>(key)?;
                let child = page.child_at::<L>(index, page.records()?)?;
                (child, index)
            }
            SearchTarget::Last => {
                let count = page.records()?;
                (page.child_at::<L>(count, count)?, count)
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
    pub(super) fn child_below<K: Kernel>(
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
        let found = target.child::<Comparison<C, K>>(pool.seen(&at.snapshot))?;
        if is_root && found.is_some() && chance(root_digest::WRITES) {
            self.write_root_digest(at);
        }
        Ok(found)
    }

    /// Writes the digest of the root as it is in a version snapshot, if that holds.
    #[cold]
    fn write_root_digest(&self, root: &NodeRef) {
        let (pool, version): (&Pool<PAGE>, _) = (&self.pool, root.snapshot.version());
        let digest = self.root_digest.get_or_init(RootDigest::new);
        digest.write(version, || {
            // Bytes that make no sense are for the descent to tell of.
            let separators = Separators::of::<C>(pool.seen(&root.snapshot)).ok()??;
            pool.validate(&root.snapshot).ok()?;
            Some(separators)
        });
    }

    /// Descends from a root; before each child that is taken, `step` sees the node above, the
    /// child's index there and the child, and may end the descent. Up to the leaf, what it sees is
    /// true once the snapshot of the node was validated afterwards. That the page at the end is a
    /// leaf is true once its snapshot, or that of the node above, was.
    #[inline(always)]
    pub(super) fn descend_by<B>(
        &self,
        from: NodeRef,
        target: SearchTarget<'_>,
        mut step: impl FnMut(NodeRef, usize, PageId) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, Leaf>> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut above, mut at) = (None, from);
        for _ in 0..DEEPEST {
            let (child, index) = match self.child_below::<Scalar>(&at, target) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(ControlFlow::Continue(Leaf { at, above })),
                Err(Restart) => {
                    return Err(self
                        .restart_or_damage(&at, "is no node, or refers to bytes beyond its end"));
                }
            };
            if let ControlFlow::Break(end) = step(at, index, child) {
                return Ok(ControlFlow::Break(end));
            }
            pool.prefetch_lines(child, 0..FIRST_BYTES);
            let below = self.snapshot_child(&at, child)?;
            (above, at) = (Some(at), below);
        }
        Err(self.damaged(from.id, "begins a path that does not end"))
    }

    /// The leaf that a target leads to.
    #[inline(always)]
    pub(super) fn descend(&self, from: NodeRef, target: SearchTarget<'_>) -> Result<Leaf> {
        let step = |_, _, _| ControlFlow::<Infallible>::Continue(());
        let ControlFlow::Continue(leaf) = self.descend_by(from, target, step)?;
        Ok(leaf)
    }

    /// The leaf that covers a key, and the path to it.
    pub(super) fn path(&self, from: NodeRef, key: &[u8]) -> Result<(NodePath, Leaf)> {
        let mut path = NodePath::new();
        let target = SearchTarget::Key(key);
        let ControlFlow::Continue(leaf) = self.descend_by(from, target, |at, index, _| {
            path.push((at, index));
            ControlFlow::<Infallible>::Continue(())
        })?;
        Ok((path, leaf))
    }

    /// Latches a node for reading, if a snapshot holds afterwards: its own, or that of the node
    /// above. Else its page may be another's by now, and why that cannot be read is not for this
    /// caller to tell.
    #[inline(always)]
    fn latch_page(&self, id: PageId, valid: &NodeRef) -> Result<SharedLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = pool.shared(id);
        pool.validate(&valid.snapshot)?;
        latch
    }

    /// Latches a node for reading, if it was not changed since.
    pub(super) fn latch_node(&self, at: &NodeRef) -> Result<SharedLatch<'_, PAGE>> {
        self.latch_page(at.id, at)
    }

    /// Latches a leaf for reading, if it is still the one.
    #[inline(always)]
    pub(super) fn latch_shared(&self, leaf: &Leaf) -> Result<SharedLatch<'_, PAGE>> {
        // Others may have changed the records of a leaf, but not what it covers.
        let latch = self.latch_page(leaf.at.id, &leaf.above.unwrap_or(leaf.at))?;
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
                let latch = pool.exclusive(leaf.at.id);
                pool.validate(&above.snapshot)?;
                latch?
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
        pool.validate(&at.snapshot)?;
        match pool.exclusive(at.id) {
            Ok(latch) if pool.is_unchanged(&latch, &at.snapshot) => Ok(latch),
            Ok(_) => Err(Stop::Restart),
            // Of a page that may be another's by now, if it was changed.
            Err(failed) => {
                pool.validate(&at.snapshot)?;
                Err(failed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::Arc;

    use hedgerow_pages::Options;
    use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

    use super::*;
    use crate::configuration::Adaptive;
    use crate::node::page::Image;

    #[test]
    fn a_page_that_has_just_left_memory_is_no_leaf() {
        let mut page = Image::<1024>::zeroed();
        assert!(
            SearchTarget::Last
                .child::<Comparison<Adaptive>>(&page)
                .is_err()
        );
        page.set_tag(Tag::Overflow);
        assert!(
            SearchTarget::Last
                .child::<Comparison<Adaptive>>(&page)
                .is_err()
        );
        page.start::<Adaptive>();
        assert!(matches!(
            SearchTarget::Last.child::<Comparison<Adaptive>>(&page),
            Ok(None)
        ));
    }

    /// Between descent and latch the leaf may have gone, and its page become another's.
    #[test]
    fn a_page_that_another_node_has_by_now_and_that_cannot_be_read_is_no_failure() {
        let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let open = || {
            let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20));
            Arc::new(pool.unwrap())
        };
        let leaf_of = |tree: &BTreeIndex<Adaptive, 1024>, n: u32| {
            let target = SearchTarget::Key(&n.to_be_bytes());
            tree.descend(tree.snapshot_root().unwrap(), target).unwrap()
        };
        let tree = BTreeIndex::<Adaptive, 1024>::create(open()).unwrap();
        for n in 0..2000_u32 {
            tree.insert(&n.to_be_bytes(), &[7; 20]).unwrap();
        }
        let another = leaf_of(&tree, 1_999).at.id;
        tree.pool().checkpoint(Vec::new).unwrap();
        let (root, keys) = (tree.root(), tree.len());
        drop(tree);

        let tree = BTreeIndex::<Adaptive, 1024>::open(open(), root, keys);
        let mut leaf = leaf_of(&tree, 0);
        for n in 0..200_u32 {
            let key = [[0; 4], n.to_be_bytes()].concat();
            tree.insert(&key, &[7; 20]).unwrap();
        }
        faulty.fail_from(CallKind::Read, 0, Fault::Error(ErrorKind::Other));
        leaf.at.id = another;
        assert!(matches!(tree.latch_shared(&leaf), Err(Stop::Restart)));
        assert!(matches!(tree.latch_exclusive(&leaf), Err(Stop::Restart)));
        let node = NodeRef {
            id: another,
            ..leaf.above.unwrap()
        };
        assert!(matches!(tree.latch_node(&node), Err(Stop::Restart)));
        // While the node above names it, it is.
        let mut leaf = leaf_of(&tree, 0);
        leaf.at.id = another;
        assert!(matches!(tree.latch_shared(&leaf), Err(Stop::Failed(_))));
        assert!(matches!(tree.latch_exclusive(&leaf), Err(Stop::Failed(_))));
    }
}
