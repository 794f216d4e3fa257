//! Nodes of one type: where their memory comes from, and how it goes back.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use hedgerow_memory::{BlockPool, Placement};
use hedgerow_sync::epoch::{self, Guard};

/// Makes and frees nodes of type `N`.
pub(crate) struct NodePool<N> {
    pool: BlockPool,
    nodes: PhantomData<fn() -> N>,
}

impl<N: 'static> NodePool<N> {
    /// A pool whose nodes are called `kind` in reports, such as `ticket leaf`.
    pub(crate) fn new(kind: &'static str, placement: Placement) -> Self {
        const {
            // What `BlockPool` promises.
            assert!(align_of::<N>() <= 8 || size_of::<N>().is_multiple_of(64));
            assert!(align_of::<N>() <= 64);
        }
        Self {
            pool: BlockPool::new(kind, size_of::<N>(), placement),
            nodes: PhantomData,
        }
    }

    /// Memory for a node, with nothing in it.
    ///
    /// Its provenance is exposed: links are addresses, and what a link leads to may be read through
    /// a reference, but is freed as what was allocated ([`whole`]).
    #[inline]
    pub(crate) fn allocate(&self) -> NonNull<N> {
        let memory = self.pool.allocate().cast::<N>();
        memory.as_ptr().expose_provenance();
        memory
    }

    /// Gives memory back that has nothing in it.
    ///
    /// # Safety
    ///
    /// It came from [`allocate`](Self::allocate) of a pool of this kind and placement, and nobody
    /// else has it.
    #[inline]
    pub(crate) unsafe fn release(&self, memory: NonNull<N>) {
        // SAFETY: the caller gives the only pointer to a block of this pool back.
        unsafe { self.pool.release(memory.cast()) };
    }

    /// Puts a node into memory of its own.
    #[inline]
    pub(crate) fn place(&self, node: N) -> NonNull<N> {
        let place = self.allocate();
        // SAFETY: the block is fresh, has the node's size and its alignment (asserted in `new`).
        unsafe { place.write(node) };
        place
    }

    /// Frees a node at once.
    ///
    /// # Safety
    ///
    /// The node came from [`place`](Self::place) of a pool of this kind and placement, and nobody
    /// can reach it any more.
    #[inline]
    pub(crate) unsafe fn free(&self, node: NonNull<N>) {
        let node = whole(node);
        // SAFETY: the caller gives the only pointer to a node in a block of this pool back.
        unsafe {
            node.drop_in_place();
            self.pool.release(node.cast());
        }
    }

    /// Frees a node once every thread that is pinned now has unpinned.
    ///
    /// # Safety
    ///
    /// The node came from [`place`](Self::place) of a pool of this kind and placement, it is
    /// unreachable for threads that pin from now on, and it is retired once.
    #[inline]
    pub(crate) unsafe fn retire(&self, guard: &Guard, node: NonNull<N>) {
        let (pool, node) = (self.pool, whole(node));
        // SAFETY: the caller promises that the node is unreachable for new pins, and that this is
        // its only release; pools may be used by any thread.
        unsafe {
            epoch::retire(guard, move || {
                node.drop_in_place();
                pool.release(node.cast());
            });
        }
    }

    /// Frees a node once every thread that is pinned now has unpinned, and then every thread that
    /// was pinned together with one of those: for nodes that descriptions of operations name, which
    /// helpers follow ([`epoch::retire_after_two_grace_periods`]).
    ///
    /// # Safety
    ///
    /// As [`retire`](Self::retire), and threads that pin after all of today's pins have ended find
    /// no description that names the node.
    #[inline]
    pub(crate) unsafe fn retire_after_two_grace_periods(&self, guard: &Guard, node: NonNull<N>) {
        let (pool, node) = (self.pool, whole(node));
        // SAFETY: as in `retire`.
        unsafe {
            epoch::retire_after_two_grace_periods(guard, move || pool.release(node.cast()));
        }
    }
}

/// The pointer to a whole node that was allocated, from one that may come from a shared reference:
/// through such a one a node must not be freed.
#[inline]
fn whole<N>(node: NonNull<N>) -> NonNull<N> {
    // A pointer that is not null has an address that is not.
    NonNull::new(ptr::with_exposed_provenance_mut(node.addr().get())).unwrap_or(node)
}
