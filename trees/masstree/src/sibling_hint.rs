//! Which siblings a scan will come to: those that the parent of its node names.
//!
//! The parent is only a hint. What it says may be stale, and a prefetch of a wrong line costs
//! nothing but the line.

use std::sync::atomic::Ordering;

use hedgerow_index::Direction;
use hedgerow_simd::Kernel;

use crate::node::{Border, Interior, prefetch};

/// How many siblings beyond the next a scan prefetches at once when it begins in a node.
const SIBLINGS_AHEAD: usize = 3;

/// The parent of the node that a scan is in.
pub(crate) struct SiblingHint<'t> {
    parent: &'t Interior,
    /// The child to prefetch next.
    child: usize,
    /// How many layers down it is.
    depth: usize,
}

impl<'t> SiblingHint<'t> {
    /// The hint of a node that is `depth` layers down. Prefetches its siblings. A narrow node has
    /// neither parent nor siblings.
    #[inline(always)]
    pub(crate) fn of<K: Kernel>(
        node: &'t Border,
        depth: usize,
        direction: Direction,
    ) -> Option<Self> {
        if node.is_narrow() {
            return None;
        }
        // SAFETY: a parent of a pinned node is a pinned node; null at a root.
        let parent = unsafe { node.parent.load(Ordering::Acquire).as_ref() }?;
        let child = K::rank(&parent.slices, parent.count(), node.low());
        // The next sibling itself was prefetched with the snapshot.
        let mut hint = Some(Self {
            parent,
            child: advanced(child, direction),
            depth,
        });
        for _ in 0..SIBLINGS_AHEAD {
            Self::prefetch_next(&mut hint, depth, direction);
        }
        hint
    }

    /// Prefetches one more sibling for a scan that is `depth` layers down. Drops the hint when the
    /// parent has no more children.
    #[inline(always)]
    pub(crate) fn prefetch_next(hint: &mut Option<Self>, depth: usize, direction: Direction) {
        let Some(Self {
            parent,
            child,
            depth: own_depth,
        }) = hint
        else {
            return;
        };
        *child = advanced(*child, direction);
        if *own_depth != depth {
            return;
        }
        if *child <= parent.count() {
            prefetch(parent.child(*child));
        } else {
            *hint = None;
        }
    }
}

/// The child after another one. Wraps below zero, which is out of range.
#[inline(always)]
fn advanced(child: usize, direction: Direction) -> usize {
    match direction {
        Direction::Forward => child + 1,
        Direction::Reverse => child.wrapping_sub(1),
    }
}
