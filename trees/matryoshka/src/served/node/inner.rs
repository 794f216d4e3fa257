//! An inner node of the outer tree: up to 312 separators and 313 children. Of 64-bit keys:
//!
//! ```text
//! 0     version 8 │ children in use 8 │ whether they are pages 1 │ placement 1
//! 64    routing: five lines of samples, 39 lines of separators
//! 2880  addresses of children
//! ```

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::{Placement, SizedPools, WrittenFields, prefetch_line};
use hedgerow_sync::VersionWord;

use super::node_key::{Router, SharedNodeKey};

static INNER_NODES: SizedPools = SizedPools::new("matryoshka inner");

/// The most children of a node.
pub(crate) const MOST_CHILDREN: usize = 313;

/// An inner node.
#[repr(C, align(64))]
pub(crate) struct Inner<L: SharedNodeKey> {
    pub(crate) version: VersionWord,
    count: AtomicU64,
    /// Whether its children are pages.
    pub(crate) over_pages: bool,
    /// Where its memory comes from.
    pub(crate) placement: Placement,
    pub(crate) routing: L::InnerRouting,
    children: [AtomicU64; MOST_CHILDREN],
}

// The node as it is drawn above.
const _: () = {
    assert!(offset_of!(Inner<u64>, version) == 0 && offset_of!(Inner<u64>, count) == 8);
    assert!(offset_of!(Inner<u64>, routing) == 64 && offset_of!(Inner<u64>, children) == 2880);
};

impl<L: SharedNodeKey> Inner<L> {
    /// Bytes that a search may read before it takes a child.
    pub(crate) const ROUTING_BYTES: usize = offset_of!(Self, children);

    /// What updates write: all but what its children are, and the placement.
    pub(crate) const WRITTEN: WrittenFields = WrittenFields::NONE
        .and_field::<VersionWord>(offset_of!(Self, version))
        .and_field::<AtomicU64>(offset_of!(Self, count))
        .and_field::<L::InnerRouting>(offset_of!(Self, routing))
        .and_field::<[AtomicU64; MOST_CHILDREN]>(offset_of!(Self, children));

    /// The node at an address.
    ///
    /// # Safety
    ///
    /// `address` came from [`build`](Self::build), and the node is not released during `'g`.
    #[inline(always)]
    pub(crate) unsafe fn at<'g>(address: usize) -> &'g Self {
        // SAFETY: the node is alive, as the caller promises.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address) }
    }

    /// A new node of these separators and one child more, all pages or all inner nodes; its
    /// address.
    pub(crate) fn build(
        placement: Placement,
        separators: &[L],
        children: &[usize],
        over_pages: bool,
    ) -> usize {
        const { assert!(L::InnerRouting::ROOM >= MOST_CHILDREN - 1) };
        assert_eq!(
            separators.len() + 1,
            children.len(),
            "one child more than separators"
        );
        let child = |at: usize| children.get(at).map_or(0, |&child| child as u64);
        let node = Self {
            version: VersionWord::new(false, false),
            count: AtomicU64::new(children.len() as u64),
            over_pages,
            placement,
            routing: L::InnerRouting::new(separators.iter().copied()),
            children: std::array::from_fn(|at| AtomicU64::new(child(at))),
        };
        let block = INNER_NODES.allocate(placement, size_of::<Self>()).as_ptr();
        // SAFETY: the block is new, aligned to 64 (its size is a multiple), and has room.
        unsafe { block.cast::<Self>().write(node) };
        block.expose_provenance()
    }

    /// Prefetches what a search reads before the line of separators.
    #[inline(always)]
    pub(crate) fn prefetch(address: usize) {
        let node = std::ptr::with_exposed_provenance::<u8>(address);
        for line in 0..1 + L::InnerRouting::SAMPLE_LINES {
            prefetch_line(node.wrapping_add(64 * line));
        }
    }

    /// Gives a node's memory back.
    ///
    /// # Safety
    ///
    /// `address` came from [`build`](Self::build), and nobody uses the node any more.
    pub(crate) unsafe fn release(address: usize) {
        // SAFETY: the node is alive until the release below.
        let placement = unsafe { Self::at(address) }.placement;
        let block = std::ptr::with_exposed_provenance_mut::<u8>(address);
        if let Some(block) = NonNull::new(block) {
            // SAFETY: allocated by `build` with this size, and this is its last use.
            unsafe { INNER_NODES.release(placement, block, size_of::<Self>()) }
        }
    }

    /// Children in use.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(MOST_CHILDREN)
    }

    /// The address of a child. An index from a torn read may name none: then 0, and never
    /// followed, as the version has changed.
    #[inline(always)]
    pub(crate) fn child(&self, index: usize) -> usize {
        self.children[index].load(Ordering::Acquire) as usize
    }

    pub(crate) fn separators(&self) -> Vec<L> {
        (1..self.count())
            .map(|at| self.routing.get(at - 1))
            .collect()
    }

    pub(crate) fn children(&self) -> Vec<usize> {
        (0..self.count()).map(|at| self.child(at)).collect()
    }

    /// Puts another node in the place of a child. The caller holds the latch.
    pub(crate) fn replace_child(&self, index: usize, child: usize) {
        self.version.mark_inserting();
        self.children[index].store(child as u64, Ordering::Release);
    }

    /// Puts two nodes in the place of child `index`. The caller holds the latch, and there is room.
    pub(crate) fn split_child(&self, index: usize, separator: L, halves: [usize; 2]) {
        self.version.mark_inserting();
        let count = self.count();
        for from in (index + 1..count).rev() {
            self.children[from + 1].store(self.child(from) as u64, Ordering::Release);
        }
        self.routing.insert(count - 1, index, separator);
        self.count.store(count as u64 + 1, Ordering::Relaxed);
        self.replace_child(index, halves[0]);
        self.replace_child(index + 1, halves[1]);
    }

    /// Puts one node in the place of children `index` and `index + 1`. The caller holds the latch.
    pub(crate) fn merge_children(&self, index: usize, child: usize) {
        self.version.mark_inserting();
        let count = self.count();
        for to in index + 1..count - 1 {
            self.children[to].store(self.child(to + 1) as u64, Ordering::Release);
        }
        self.children[count - 1].store(0, Ordering::Release);
        self.routing.remove(count - 1, index);
        self.count.store(count as u64 - 1, Ordering::Relaxed);
        self.replace_child(index, child);
    }

    /// Puts two nodes in the place of children `index` and `index + 1`. The caller holds the latch.
    pub(crate) fn rebalance_children(&self, index: usize, separator: L, both: [usize; 2]) {
        self.version.mark_inserting();
        self.routing.set(index, separator);
        self.replace_child(index, both[0]);
        self.replace_child(index + 1, both[1]);
    }
}
