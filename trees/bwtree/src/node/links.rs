//! Changing links between nodes in place, for the form without a mapping table (module
//! `direct_pointers`).
//!
//! Links are read and written through raw pointers, never through references that last.

use crate::mapping_table::NodeId;
use crate::node::base::Base;
use crate::node::record::{BODY_AT, CHILD_AT, Header, Kind, RecordRef};

impl RecordRef<'_> {
    /// The right neighbour of the node whose newest record this is.
    #[inline(always)]
    pub fn right(self) -> NodeId {
        // SAFETY: every record begins with its attributes.
        unsafe { (&raw const (*self.address().as_ptr().cast::<Header>()).right).read() }
    }

    /// Changes the right neighbour.
    ///
    /// # Safety
    ///
    /// Only the calling thread uses the tree.
    pub unsafe fn set_right(self, right: NodeId) {
        // SAFETY: as in `right`; the caller is alone, and nobody holds a reference to the field.
        unsafe { (&raw mut (*self.address().as_ptr().cast::<Header>()).right).write(right) };
    }

    /// Changes each link to a child in the chain of an inner node from one id to another. Returns
    /// how many there were. Reads the whole chain.
    ///
    /// # Safety
    ///
    /// Only the calling thread uses the tree.
    pub unsafe fn redirect_children(self, old: NodeId, new: NodeId) -> i64 {
        let mut record = self;
        let mut changed = 0;
        loop {
            let links: &[usize] = match record.kind() {
                Kind::Base => {
                    // SAFETY: the caller's promise.
                    return changed + unsafe { record.base().redirect_children(old, new) };
                }
                Kind::InsertSeparator | Kind::DeleteSeparator => &[CHILD_AT],
                Kind::Abort => &[BODY_AT, BODY_AT + 4],
                Kind::Merge => {
                    // SAFETY: the caller's promise.
                    changed += unsafe { record.chain().redirect_children(old, new) };
                    &[]
                }
                _ => &[],
            };
            for &at in links {
                // SAFETY: this kind of record has a link there; the caller is alone.
                changed += unsafe { record.redirect(at, old, new) };
            }
            record = record.next();
        }
    }

    /// Changes the link at an offset, if it is to the old id.
    ///
    /// # Safety
    ///
    /// The record has a link there. Only the calling thread uses the tree.
    pub(super) unsafe fn redirect(self, at: usize, old: NodeId, new: NodeId) -> i64 {
        // SAFETY: the caller's promise; links are 4-byte aligned.
        unsafe {
            let link = self.address().add(at).cast::<NodeId>();
            let is_old = link.read() == old;
            if is_old {
                link.write(new);
            }
            i64::from(is_old)
        }
    }
}

impl Base<'_> {
    /// Changes the children of an inner node from one id to another. Returns how many there were.
    ///
    /// # Safety
    ///
    /// Only the calling thread uses the tree.
    unsafe fn redirect_children(self, old: NodeId, new: NodeId) -> i64 {
        let children = self.behind_heads();
        let places = (0..self.size()).map(|index| children + 4 * index);
        places
            // SAFETY: an inner node has so many children there; the caller's promise.
            .map(|at| unsafe { self.record().redirect(at, old, new) })
            .sum()
    }
}
