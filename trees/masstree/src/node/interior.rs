//! Interior nodes: up to 15 separators and 16 children; and [`Node`], what a child begins with
//! whichever kind it is.
//!
//! ```text
//! line 0   │ version 0 │ count 8 │ unused 16..48 │ parent 48 │ unused 56 │
//! line 1   │ slices[0..8]                                                │
//! line 2   │ slices[8..15]                                     │ unused  │
//! line 3   │ children[0..8]                                              │
//! line 4   │ children[8..16]                                             │
//! ```
//!
//! `children[i]` is responsible for slices in `[slices[i-1], slices[i])`. A search reads lines
//! 0 to 2 and one of 3 and 4; all are prefetched together. Lines are not packed tighter (256
//! bytes would hold all but 8 of them) since interior nodes are a tenth of the tree and one
//! size for both kinds keeps one pool.
//!
//! Readers race with writers under the version protocol. One promise goes beyond it, because
//! readers follow a child pointer *before* they validate: `children[i]` for `i` up to the
//! `count` that a reader loaded is always a node that was in the tree at or after that load.
//! Writers keep it by storing a grown count last (release), so an unlinked node's stale
//! pointer beyond the count is overwritten before it could be counted again.

use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use hedgerow_memory::WrittenFields;
use hedgerow_simd::Slots;
use hedgerow_sync::VersionWord;

use super::sizes::NODE_BYTES;
use super::{NodeBlocks, WIDTH};

/// What a border and an interior node have in common.
#[repr(C)]
pub(crate) struct Node {
    /// Latch, dirty bits, counters, kind.
    pub version: VersionWord,
    other: [AtomicU64; 5],
    /// The interior node above, protected by that node's latch; null for a root.
    pub parent: AtomicPtr<Interior>,
}

/// An interior node.
#[repr(C, align(64))]
pub(crate) struct Interior {
    /// Latch, dirty bits, counters, kind.
    pub version: VersionWord,
    /// Separators in use; children are one more.
    pub count: AtomicU64,
    unused: [AtomicU64; 4],
    /// The interior node above, protected by that node's latch; null for a root.
    pub parent: AtomicPtr<Interior>,
    unused_too: AtomicU64,
    /// Separators, ascending.
    pub slices: Slots,
    /// Children.
    pub children: [AtomicPtr<Node>; WIDTH + 1],
}

// The node as it is drawn above, and what it has in common with border nodes.
const _: () = {
    assert!(offset_of!(Interior, version) == 0 && offset_of!(Interior, count) == 8);
    assert!(offset_of!(Interior, parent) == 48 && offset_of!(Interior, slices) == 64);
    assert!(offset_of!(Interior, children) == 192 && size_of::<Interior>() == NODE_BYTES);
    assert!(offset_of!(Node, version) == offset_of!(Interior, version));
    assert!(offset_of!(Node, parent) == offset_of!(Interior, parent));
};

/// Prefetches every line of the node at `node`.
#[inline(always)]
pub(crate) fn prefetch(node: *const Node) {
    hedgerow_memory::prefetch_lines::<{ NODE_BYTES / 64 }, _>(node);
}

impl Interior {
    /// A new node with no separators; the caller fills it before anyone sees it.
    pub(crate) fn allocate(blocks: &NodeBlocks, version: VersionWord) -> *mut Interior {
        let node = blocks.interior().allocate().as_ptr().cast::<Interior>();
        // SAFETY: the block is new, of this size and 64-byte aligned.
        unsafe {
            node.write(Interior {
                version,
                count: AtomicU64::new(0),
                unused: std::array::from_fn(|_| AtomicU64::new(0)),
                parent: AtomicPtr::default(),
                unused_too: AtomicU64::new(0),
                slices: std::array::from_fn(|_| AtomicU64::new(0)),
                children: std::array::from_fn(|_| AtomicPtr::default()),
            });
        }
        node
    }

    /// What updates write.
    pub(crate) const WRITTEN: WrittenFields = WrittenFields::NONE
        .and_field::<VersionWord>(offset_of!(Self, version))
        .and_field::<AtomicU64>(offset_of!(Self, count))
        .and_field::<AtomicPtr<Self>>(offset_of!(Self, parent))
        .and_field::<[AtomicU64; WIDTH]>(offset_of!(Self, slices))
        .and_field::<[AtomicPtr<Node>; WIDTH + 1]>(offset_of!(Self, children));

    /// Separators in use. Acquire: see the module's promise.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize & 15
    }

    /// Child `index`.
    #[inline(always)]
    pub(crate) fn child(&self, index: usize) -> *mut Node {
        self.children[index].load(Ordering::Acquire)
    }

    /// Separator `index`.
    #[inline(always)]
    pub(crate) fn slice(&self, index: usize) -> u64 {
        self.slices[index].load(Ordering::Relaxed)
    }

    /// Which child `child` is. The caller holds the latch; `child` is one.
    pub(crate) fn index_of(&self, child: *const Node) -> usize {
        let index = (0..=self.count()).find(|&i| std::ptr::eq(self.child(i), child));
        index.expect("a node's parent has it as a child while the parent is latched")
    }

    /// Puts `right` after child `index`, with `separator` between. The caller holds the latch,
    /// marked the node, and saw room.
    pub(crate) fn insert_child(&self, index: usize, separator: u64, right: *mut Node) {
        let count = self.count();
        debug_assert!(count < WIDTH && index <= count);
        for i in (index..count).rev() {
            self.children[i + 2].store(self.child(i + 1), Ordering::Release);
            self.slices[i + 1].store(self.slice(i), Ordering::Relaxed);
        }
        self.children[index + 1].store(right, Ordering::Release);
        self.slices[index].store(separator, Ordering::Relaxed);
        self.count.store(count as u64 + 1, Ordering::Release);
    }

    /// Takes child `index` out together with the separator to its left, or to its right for
    /// child 0. The caller holds the latch, marked the node, and there are two children.
    pub(crate) fn remove_child(&self, index: usize) {
        let count = self.count();
        debug_assert!(count > 0 && index <= count);
        for i in index..count {
            self.children[i].store(self.child(i + 1), Ordering::Release);
        }
        for i in index.saturating_sub(1)..count - 1 {
            self.slices[i].store(self.slice(i + 1), Ordering::Relaxed);
        }
        self.count.store(count as u64 - 1, Ordering::Release);
    }
}
