//! Nodes of one size in superpages, named by numbers.
//!
//! A number is half as long as a pointer, leaves room for a tag, and is checked at each use, so
//! that all of the tree but this file is safe code. The price is one load from a short table
//! that stays in the first-level cache.

use std::marker::PhantomData;
use std::ptr::NonNull;

use hedgerow_memory::{SUPERPAGE_BYTES, Superpage};

/// An owner of nodes. `T` has no destructor.
#[derive(Debug)]
pub(crate) struct Arena<T: Copy> {
    superpages: Vec<Superpage>,
    /// Numbers below this one name initialised nodes.
    next: u32,
    free: Vec<u32>,
    nodes: PhantomData<T>,
}

impl<T: Copy> Arena<T> {
    /// Nodes in a superpage: a power of two, so that numbers have no gaps.
    const EACH: u32 = 1 << (SUPERPAGE_BYTES / size_of::<T>()).ilog2();

    pub(crate) fn new() -> Self {
        Self {
            superpages: Vec::new(),
            next: 0,
            free: Vec::new(),
            nodes: PhantomData,
        }
    }

    /// Stores a node; returns its number.
    pub(crate) fn allocate(&mut self, node: &T) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            if self.next.is_multiple_of(Self::EACH) {
                self.superpages.push(Superpage::new());
            }
            let id = self.next;
            // SAFETY: the number's superpage exists (it was made when its first number was), and
            // holds `EACH` nodes; 2 MiB alignment serves any node. Nobody else knows the place.
            unsafe { self.place(id).write(*node) };
            self.next += 1;
            id
        });
        *self.get_mut(id) = *node;
        id
    }

    /// Makes the number free for another node.
    pub(crate) fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Nodes in use.
    pub(crate) fn live(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// Bytes taken from the kernel.
    pub(crate) fn bytes(&self) -> usize {
        self.superpages.len() * SUPERPAGE_BYTES
    }

    #[inline(always)]
    fn place(&self, id: u32) -> NonNull<T> {
        let start = self.superpages[(id / Self::EACH) as usize].start();
        // SAFETY: a superpage holds `EACH` nodes, and the remainder is less.
        unsafe { start.cast::<T>().add((id % Self::EACH) as usize) }
    }

    /// The node of this number.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &T {
        assert!(id < self.next, "a node that was never made");
        // SAFETY: numbers below `next` name nodes that `allocate` initialised; they stay valid
        // as `T` is `Copy`, and `&self` keeps writers away.
        unsafe { self.place(id).as_ref() }
    }

    /// The node of this number, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        assert!(id < self.next, "a node that was never made");
        // SAFETY: as in `get`; `&mut self` keeps everyone else away.
        unsafe { self.place(id).as_mut() }
    }
}
