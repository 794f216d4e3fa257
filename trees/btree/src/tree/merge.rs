//! How nodes merge, and empty layers go, after a removal.
//!
//! None of it is needed for a right answer: an obstacle (another thread, a page that cannot
//! be read) may prevent it, and a later removal tries again.

use hedgerow_pages::{PageId, Pages, Pool, Result, Stop};

use super::descend::SearchTarget;
use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::key::{CutKey, layer_root};
use crate::node::layout::Kind;
use crate::node::page::node;
use crate::restructure::NodeRef;

/// Attempts after which the rest is left to a later removal.
const ATTEMPTS: u32 = 40;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Merges nodes on the path to a key that was removed, and takes out layers that lost their
    /// last key, as far as there is reason to.
    #[cold]
    pub(super) fn merge_around(&self, key: &[u8]) {
        let mut restarts = 0;
        while let Err(Stop::Restart) = self.try_merge_around(key) {
            if restarts == ATTEMPTS {
                return;
            }
            self.pause(&mut restarts);
        }
    }

    fn try_merge_around(&self, key: &[u8]) -> Result<()> {
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
            let latch = self.latch_shared(&leaf)?;
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

    /// Takes out the layer with this root, if the leaf of its key prefix still names it and it
    /// has no key.
    fn drop_layer(&self, upper: NodeRef, key_prefix: &[u8], root: PageId) -> Result<bool> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let leaf = self.descend(upper, SearchTarget::Key(key_prefix))?;
        let operation = pool.begin();
        let mut latch = self.latch_exclusive(&leaf)?;
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
