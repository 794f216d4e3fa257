//! Links between nodes: words that have a node's address, and marks in its low bits.
//!
//! Nodes are aligned to 8 bytes, so three bits are free. Both lock-free external trees keep in one
//! of them whether the node is a leaf: a search that follows a link knows what it gets.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

/// Mark: the node is a leaf.
pub(crate) const LEAF: u64 = 4;

/// All bits that are no part of the address.
const MARKS: u64 = 7;

/// The link to a node, without marks.
#[inline]
pub(crate) fn link_to<N>(node: NonNull<N>) -> u64 {
    node.as_ptr().expose_provenance() as u64
}

/// Whether the node is a leaf.
#[inline]
pub(crate) fn is_leaf(link: u64) -> bool {
    link & LEAF != 0
}

/// The node that a link leads to, or null.
#[inline]
pub(crate) fn pointer<N>(link: u64) -> *mut N {
    ptr::with_exposed_provenance_mut((link & !MARKS) as usize)
}

/// The node that a link leads to.
///
/// # Safety
///
/// The link was read under the guard from a field that was reachable under it, or the node is not
/// published yet; it leads to a node of type `N`.
#[inline]
pub(crate) unsafe fn node<N>(link: u64, _: &Guard) -> &N {
    // SAFETY: the caller promises a node of this type; whoever unlinks it retires it, so that it
    // stays as long as the guard.
    unsafe { &*pointer(link) }
}

/// Replaces `current` by `new`; what the word was if it was something else.
#[inline]
pub(crate) fn exchange<W: Word>(word: &W, current: u64, new: u64) -> Result<(), u64> {
    loop {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match word.compare_exchange_weak(current, new, success, failure) {
            Ok(_) => return Ok(()),
            Err(now) if now != current => return Err(now),
            // A failure without cause.
            Err(_) => {}
        }
    }
}
