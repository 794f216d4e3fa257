//! The way down, by notes alone; and the latch of the leaf at its end.

use hedgerow_pages::{
    ExclusiveLatch, Noted, PageId, Pages, Pool, Restart, Result, SharedLatch, Stop, View,
};

use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::page::{Tag, node};
use crate::search::{FIRST_BYTES, Node};
use crate::slotted::Comparison;
use crate::tree::Cut;

/// More levels than a tree can have: beyond, pages name each other in a circle.
pub(super) const DEEPEST: usize = 64;

/// A page as it was noted.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub id: PageId,
    pub note: Noted,
}

/// A leaf, and the node that named it; none if the leaf is the root of its layer.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub at: At,
    pub above: Option<At>,
}

/// Inner nodes and the indices of children, from a root downwards.
pub(super) type NotedPath = Vec<(At, usize)>;

/// Where a way leads.
#[derive(Clone, Copy)]
pub(super) enum Aim<'k> {
    /// To the leaf that covers a key.
    Key(&'k [u8]),
    /// To the leaf that covers what is right below a key.
    Below(&'k [u8]),
    /// To the last leaf.
    Last,
}

impl<'k> Aim<'k> {
    /// The way within the layer that it begins in, whose keys are cut after `key_prefix` bytes.
    pub(super) fn in_layer(self, key_prefix: usize) -> Aim<'k> {
        match self {
            Aim::Key(key) => Aim::Key(Cut::at(key, key_prefix).key_prefix),
            Aim::Below(_) | Aim::Last => self,
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
            Aim::Key(key) => page.child_over::<Comparison<C>>(key)?,
            Aim::Below(key) => {
                let suffix = key.get(page.prefix_bytes()?..).unwrap_or(&[]);
                let (index, _) = page.find_slot::<Comparison<C>>(suffix)?;
                let child = page.child_at::<Comparison<C>>(index, page.records()?)?;
                (child, index)
            }
            Aim::Last => {
                let count = page.records()?;
                (page.child_at::<Comparison<C>>(count, count)?, count)
            }
        };
        Ok(Some((PageId(child), index)))
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Notes the root of the tree.
    #[inline(always)]
    pub(super) fn note_root(&self) -> Result<At> {
        let pool: &Pool<PAGE> = &self.pool;
        let id = self.root;
        match pool.optimistic(id) {
            Ok(note) => Ok(At { id, note }),
            // It is never released while there is a tree.
            Err(Stop::Restart) => Err(self.damaged(id, "is to be a root, but is not in use")),
            Err(failed) => Err(failed),
        }
    }

    /// Notes a page that a noted one names, and sees to it that it did so.
    #[inline(always)]
    pub(super) fn note_below(&self, above: &At, id: PageId) -> Result<At> {
        let pool: &Pool<PAGE> = &self.pool;
        match pool.optimistic(id) {
            Ok(note) => {
                pool.validate(&above.note)?;
                Ok(At { id, note })
            }
            Err(Stop::Restart) => Err(self.blame(above, "names a page that is not in use")),
            Err(failed) => {
                pool.validate(&above.note)?;
                Err(failed)
            }
        }
    }

    /// Why something read of a page makes no sense: it was changed meanwhile, or it is damaged.
    #[cold]
    pub(super) fn blame(&self, at: &At, what: &str) -> Stop {
        let pool: &Pool<PAGE> = &self.pool;
        match pool.validate(&at.note) {
            Ok(()) => self.damaged(at.id, what),
            Err(Restart) => Stop::Restart,
        }
    }

    #[cold]
    pub(super) fn damaged(&self, page: PageId, what: &str) -> Stop {
        self.pool.damaged(page, what).into()
    }

    /// Goes down from a noted root; `step` sees each inner node on the way and the index of the
    /// child taken there. That the page at the end is a leaf is true once its note, or that of
    /// the node above, was validated afterwards.
    #[inline(always)]
    fn descend_by(&self, from: At, aim: Aim<'_>, mut step: impl FnMut(At, usize)) -> Result<Leaf> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut above, mut at) = (None, from);
        for _ in 0..DEEPEST {
            let seen = pool.seen(&at.note);
            let (child, index) = match aim.child::<C>(seen) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(Leaf { at, above }),
                Err(Restart) => {
                    return Err(self.blame(&at, "is no node, or refers to bytes beyond its end"));
                }
            };
            pool.prefetch_lines(child, 0..FIRST_BYTES);
            let below = self.note_below(&at, child)?;
            step(at, index);
            (above, at) = (Some(at), below);
        }
        Err(self.damaged(from.id, "begins a way that does not end"))
    }

    /// The leaf that a way leads to.
    #[inline(always)]
    pub(super) fn descend(&self, from: At, aim: Aim<'_>) -> Result<Leaf> {
        self.descend_by(from, aim, |_, _| {})
    }

    /// The leaf that covers a key, and the way there.
    pub(super) fn path(&self, from: At, key: &[u8]) -> Result<(NotedPath, Leaf)> {
        let mut path = NotedPath::new();
        let leaf = self.descend_by(from, Aim::Key(key), |at, index| path.push((at, index)))?;
        Ok((path, leaf))
    }

    /// Latches a leaf for reading, if it is still the one.
    #[inline(always)]
    pub(super) fn share(&self, leaf: &Leaf) -> Result<SharedLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = pool.shared(leaf.at.id)?;
        // Others may have changed the records of a leaf, but not what it covers.
        pool.validate(&leaf.above.unwrap_or(leaf.at).note)?;
        if node(latch.image()).is_leaf() {
            return Ok(latch);
        }
        Err(self.damaged(leaf.at.id, "is neither an inner node nor a leaf"))
    }

    /// Latches a leaf for writing, if it is still the one.
    #[inline(always)]
    pub(super) fn own(&self, leaf: &Leaf) -> Result<ExclusiveLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = match leaf.above {
            Some(above) => {
                let latch = pool.exclusive(leaf.at.id)?;
                pool.validate(&above.note)?;
                latch
            }
            None => self.own_root(&leaf.at)?,
        };
        if image(&latch).is_leaf() {
            return Ok(latch);
        }
        if leaf.above.is_none() {
            return Err(Stop::Restart);
        }
        Err(self.damaged(leaf.at.id, "is neither an inner node nor a leaf"))
    }

    /// Latches a root that was a leaf. The first layer's stays the root, whatever becomes of it;
    /// another's may have been released.
    fn own_root(&self, at: &At) -> Result<ExclusiveLatch<'_, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        if at.id == self.root {
            return pool.exclusive(at.id);
        }
        let mut attempts = 0;
        loop {
            match pool.upgrade(&at.note) {
                Ok(latch) => return Ok(latch),
                // Readers are in the way, but nobody has changed it.
                Err(Restart) => pool.validate(&at.note)?,
            }
            self.pause(&mut attempts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Adaptive;
    use crate::page::Image;

    #[test]
    fn a_page_that_has_just_left_memory_is_no_leaf() {
        let mut page = Image::<1024>::zeroed();
        assert!(Aim::Last.child::<Adaptive>(&page).is_err());
        page.set_tag(Tag::Overflow);
        assert!(Aim::Last.child::<Adaptive>(&page).is_err());
        page.start::<Adaptive>();
        assert!(matches!(Aim::Last.child::<Adaptive>(&page), Ok(None)));
    }
}
