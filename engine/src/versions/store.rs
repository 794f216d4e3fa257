//! The version store of one keyspace: the versions of its rows that some snapshot may read, in
//! order of keys. It is a Masstree whose values are [chains](super::chain), made when the first
//! version is kept.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hedgerow_index::{Decision, ScanRange};
use hedgerow_log::Timestamp;
use hedgerow_masstree::{Bytes, Masstree};

use crate::versions::chain::{self, AtMoment, Version};

/// See the module.
#[derive(Default)]
pub(crate) struct VersionStore {
    tree: OnceLock<Masstree<Bytes>>,
    /// How many lists have versions of it.
    users: AtomicUsize,
}

/// A store that may have versions. A list has one from before its first version is stored, and so
/// from before the index changes: who sees that change sees the store in use.
pub(crate) struct InUse(Arc<VersionStore>);

impl InUse {
    pub(crate) fn new(store: &Arc<VersionStore>) -> InUse {
        store.users.fetch_add(1, Ordering::AcqRel);
        InUse(Arc::clone(store))
    }

    pub(crate) fn store(&self) -> &Arc<VersionStore> {
        &self.0
    }

    /// Keeps a version, unless it is there: an index may decide several times about one update.
    /// Whether it was not.
    pub(crate) fn keep(&self, key: &[u8], version: Version<'_>, buffer: &mut Vec<u8>) -> bool {
        let tree = self.0.tree.get_or_init(Masstree::new);
        tree.update_with(key, buffer, |old, new| {
            let old = old.unwrap_or_default();
            if chain::versions(old).any(|kept| kept.end == version.end) {
                return Decision::Keep(false);
            }
            new.extend_from_slice(old);
            chain::push(new, version);
            Decision::Put(true)
        })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl VersionStore {
    /// Whether surely no version is kept: one load. Ask after the index was read.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }

    fn tree(&self) -> Option<&Masstree<Bytes>> {
        match self.is_empty() {
            true => None,
            false => self.tree.get(),
        }
    }

    /// Frees the version that ends then.
    pub(crate) fn free(&self, key: &[u8], end: Timestamp, buffer: &mut Vec<u8>) {
        let Some(tree) = self.tree() else { return };
        tree.update_with(key, buffer, |old, new| {
            let left = chain::versions(old.unwrap_or_default()).filter(|kept| kept.end != end);
            left.for_each(|kept| chain::push(new, kept));
            match new.is_empty() {
                true => Decision::Remove(()),
                false => Decision::Put(()),
            }
        });
    }

    /// What `key` had at a moment.
    pub(crate) fn at<R>(
        &self,
        key: &[u8],
        moment: Timestamp,
        read: impl FnOnce(AtMoment<'_>) -> R,
    ) -> R {
        let mut pending = Some(read);
        let found = self.tree().and_then(|tree| {
            tree.get_with(key, |chain| {
                pending.take().map(|read| read(chain::at(chain, moment)))
            })
        });
        match (found.flatten(), pending) {
            (Some(answer), _) => answer,
            (None, Some(read)) => read(AtMoment::Unknown),
            (None, None) => unreachable!("a tree that ran the closure returns its answer"),
        }
    }

    /// Whether `key` was written after a moment whose versions are kept.
    pub(crate) fn has_changed(&self, key: &[u8], moment: Timestamp) -> bool {
        self.tree().is_some_and(|tree| {
            tree.get_with(key, |chain| chain::changed_since(chain, moment)) == Some(true)
        })
    }

    /// A key of a range that was written after a moment whose versions are kept, if there is one.
    pub(crate) fn changed_within(
        &self,
        range: &ScanRange<'_>,
        moment: Timestamp,
    ) -> Option<Vec<u8>> {
        let mut changed = None;
        self.tree()?.scan_range(range, |key, chain| {
            if chain::changed_since(chain, moment) {
                changed = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        changed
    }

    /// Visits the rows of a range that were there at a moment and were replaced or removed since.
    pub(crate) fn scan(
        &self,
        range: &ScanRange<'_>,
        moment: Timestamp,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let Some(tree) = self.tree() else { return };
        tree.scan_range(range, |key, chain| match chain::at(chain, moment) {
            AtMoment::Row(row) => visit(key, row),
            AtMoment::Absent | AtMoment::Unknown => ControlFlow::Continue(()),
        });
    }
}
