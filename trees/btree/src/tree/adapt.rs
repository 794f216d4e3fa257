//! Key adaption in the background (§5.1): leaves get the form that suits their keys now.
//!
//! Splits and merges look at the keys of their leaves. Where insertions and removals balance, all
//! keys of a leaf may be replaced without either, and its form suits those that are gone. So a
//! thread with time to spare walks over the leaves, some at a time. Records stay where they are,
//! so no page becomes dirty: one that leaves memory clean comes back in the form that the file has.
//! The walk leaves out what is not in memory when it comes by, so it reads next to nothing from the
//! file; but what it comes by counts as used.

use std::ops::ControlFlow;

use hedgerow_pages::{Error, Result, Stop};

use super::descend::SearchTarget;
use super::read::chance;
use super::{ADAPTED_LEAVES, BTreeIndex, REMOVALS};
use crate::configuration::Configuration;
use crate::node::page::node;
use crate::restructure::NodeRef;

/// One removal in so many is counted, as so many: counting costs a cache line.
const COUNTED: u32 = 64;

/// Attempts to have a leaf for oneself.
const ATTEMPTS: u32 = 50;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Gives up to so many leaves, from that of a key on, the form that suits their keys; the key
    /// at which to go on, or `None` behind the last leaf. Parts of the tree that are not in memory
    /// stay as they are, and each counts as one leaf. So do keys longer than an eighth of a page,
    /// which are in leaves of their own. A walk costs a descent and a copy of a page for each leaf,
    /// and copies those that change under their latch; a leaf that other threads have latched
    /// again and again stays as it is.
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
            let mut attempts = ATTEMPTS;
            match self.repeat(|| self.adapt_leaf(&next, &mut attempts))? {
                Some(upper) => next = upper,
                None => return Ok(None),
            }
        }
        Ok(Some(next))
    }

    /// About how many keys were removed one by one since the tree was opened: a sample of them is
    /// counted. Tells when it is time to [adapt](Self::adapt_to_keys).
    #[must_use]
    pub fn removals(&self) -> u64 {
        self.events.sum(REMOVALS)
    }

    /// Counts a removal, if it is in the sample.
    #[inline(always)]
    pub(super) fn sample_removal(&self) {
        if chance(u32::MAX / COUNTED) {
            self.events.add(REMOVALS, i64::from(COUNTED));
        }
    }

    /// Gives the leaf of a key prefix the form that suits its keys; its upper fence, if it has one.
    /// Restarts where another thread has the leaf, as long as there are attempts.
    fn adapt_leaf(&self, key_prefix: &[u8], attempts: &mut u32) -> Result<Option<Vec<u8>>> {
        let (root, target) = (self.snapshot_root()?, SearchTarget::Key(key_prefix));
        let descended = self.descend_by(root, target, |above, index, child| {
            if self.pool.is_resident(child) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break((above, index))
            }
        })?;
        let leaf = match descended {
            ControlFlow::Continue(leaf) => leaf,
            ControlFlow::Break((above, index)) => return self.upper_of_child(&above, index),
        };
        let latch = self.latch_shared(&leaf)?;
        let page = node(latch.image());
        let upper = (!page.upper().is_empty()).then(|| page.upper().to_vec());
        let changes = page.plan_by_keys::<C>().is_some();
        drop(latch);
        if !changes {
            return Ok(upper);
        }
        let had_leaf = self.change_form(&leaf, |page, conversions| {
            if page.adapt_to_keys::<C>(conversions) {
                self.events.count(ADAPTED_LEAVES);
            }
        });
        *attempts -= 1;
        if had_leaf || *attempts == 0 {
            Ok(upper)
        } else {
            Err(Stop::Restart)
        }
    }

    /// The upper fence of a child that need not be in memory, if it has one.
    fn upper_of_child(&self, above: &NodeRef, index: usize) -> Result<Option<Vec<u8>>> {
        let latch = self.latch_node(above)?;
        let upper = node(latch.image()).upper_of_child::<C>(index);
        Ok((!upper.is_empty()).then_some(upper))
    }
}
