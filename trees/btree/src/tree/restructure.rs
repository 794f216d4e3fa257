//! Splits and merges under latches: [restructurings](crate::restructure) of the pool's pages.

use hedgerow_pages::{Operation, Pages, Pool, Result};

use super::{BTreeIndex, MERGES, SPLITS};
use crate::configuration::Configuration;
use crate::node::layout::Payload;
use crate::restructure::NodeRef;
use crate::restructure::Restructuring;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Restructures within an operation, and counts what came of it.
    pub(super) fn restructure<'p, R>(
        &'p self,
        operation: &Operation<'p>,
        what: impl FnOnce(&mut Restructuring<'_, C, PAGE, &'p Pool<PAGE>>) -> Result<R>,
    ) -> Result<R> {
        let mut pool: &'p Pool<PAGE> = &self.pool;
        let mut restructuring = Restructuring::new(&mut pool, operation);
        let result = what(&mut restructuring);
        let Restructuring { splits, merges, .. } = restructuring;
        self.conversions().absorb(&restructuring.conversions);
        (0..splits).for_each(|_| self.events.count(SPLITS));
        (0..merges).for_each(|_| self.events.count(MERGES));
        result
    }

    /// Makes room on the path to `key` from a root. To be called, by a thread that has no latch,
    /// until the leaf takes the record.
    #[cold]
    pub(super) fn make_room(&self, root: NodeRef, key: &[u8], payload: Payload<'_>) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        self.restructure(&pool.begin(), |nodes| {
            nodes.make_room(&path, leaf.at, key, payload)
        })
    }

    /// Merges nodes of one layer on the path to a key, from its leaf upwards.
    pub(super) fn merge_towards(&self, root: NodeRef, key: &[u8]) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        self.restructure(&pool.begin(), |nodes| nodes.merge_path(&path, leaf.at))
    }
}
