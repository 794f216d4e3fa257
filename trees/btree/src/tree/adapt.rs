//! Key adaption in the background (§5.1): leaves get the form that suits their keys now.
//!
//! Splits and merges look at the keys of their leaves. Where insertions and removals balance, all
//! keys of a leaf may be replaced without either, and its form suits those that are gone. So a
//! thread with time to spare walks over the leaves, some at a time. Records stay where they are,
//! so no page becomes dirty.

use hedgerow_pages::{Error, Result};

use super::BTreeIndex;
use crate::configuration::Configuration;
use crate::node::page::node;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Gives up to so many leaves, from that of a key on, the form that suits their keys; the key
    /// at which to go on, or `None` behind the last leaf. Keys longer than an eighth of a page are
    /// in leaves of their own, which stay as they are. Reads the leaves, and copies those that
    /// change under their latch; a leaf that another thread changes meanwhile stays as it is.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read.
    pub fn adapt_to_keys(
        &self,
        from: &[u8],
        leaves: usize,
    ) -> std::result::Result<Option<Vec<u8>>, Error> {
        let mut next = Self::cut(from).key_prefix.to_vec();
        for _ in 0..leaves {
            match self.repeat(|| self.adapt_leaf(&next))? {
                Some(upper) => next = upper,
                None => return Ok(None),
            }
        }
        Ok(Some(next))
    }

    /// Gives the leaf of a key prefix the form that suits its keys; its upper fence, if it has one.
    fn adapt_leaf(&self, key_prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        let (_, leaf) = self.path(self.snapshot_root()?, key_prefix)?;
        let latch = self.latch_shared(&leaf)?;
        let page = node(latch.image());
        let upper = (!page.upper().is_empty()).then(|| page.upper().to_vec());
        let changes = page.plan_by_keys::<C>().is_some();
        drop(latch);
        if changes {
            self.change_form(&leaf, |page, conversions| {
                page.adapt_to_keys::<C>(conversions);
            });
        }
        Ok(upper)
    }
}
