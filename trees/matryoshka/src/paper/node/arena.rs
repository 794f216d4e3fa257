//! Nodes of one size in superpages, named by numbers.
//!
//! A number is half as long as a pointer, leaves room for a tag, and is checked at each use, so
//! that all of the tree but this file is safe code. All superpages of an arena lie side by side:
//! a node's place is its number times its size, without a table that says where superpages are.
//!
//! Where superpages are nodes of the tree themselves, each begins with a *head*, the node that
//! routes to the superpage's pages; nodes are allocated in the superpage of their siblings; and a
//! number consists of the superpage's and of the node's in it.

use std::marker::PhantomData;
use std::ptr::NonNull;

use hedgerow_memory::{SUPERPAGE_BYTES, Superpages};

/// Bits of a number; users put a few of their own beside them.
const NUMBER_BITS: u32 = 26;

/// An owner of nodes, and of a head for each superpage. Neither has a destructor.
#[derive(Debug)]
pub(crate) struct Arena<T: Copy, H: Copy = ()> {
    memory: Superpages,
    /// Where superpages have no heads: how many nodes were ever initialised.
    initialised: u32,
    /// As `initialised`, of each superpage that has a head.
    initialised_in: Vec<u32>,
    /// Nodes given back, by superpage; one list for all where nodes go anywhere.
    free: Vec<Vec<u32>>,
    /// Superpages without nodes, for reuse.
    free_superpages: Vec<u32>,
    live: usize,
    nodes: PhantomData<(T, H)>,
}

impl<T: Copy, H: Copy + Default> Arena<T, H> {
    /// Whether superpages have heads, and nodes of their own.
    const HEADS: bool = size_of::<H>() > 0;

    /// Where the first node of a superpage with a head begins.
    const FROM: usize = size_of::<H>().next_multiple_of(align_of::<T>());

    /// Nodes in a superpage with a head.
    pub(crate) const EACH: u32 = ((SUPERPAGE_BYTES - Self::FROM) / size_of::<T>()) as u32;

    /// Bits of a number that say which node of a superpage with a head it is. Numbers from `EACH`
    /// on in them name nothing: so a number is taken apart without a division.
    const BITS: u32 = Self::EACH.next_power_of_two().ilog2();

    pub(crate) fn new() -> Self {
        // Superpages are aligned to their size, nodes to no more.
        const { assert!(align_of::<T>() <= SUPERPAGE_BYTES && align_of::<H>() <= SUPERPAGE_BYTES) }
        Self {
            memory: Superpages::new(),
            initialised: 0,
            initialised_in: Vec::new(),
            free: vec![Vec::new()],
            free_superpages: Vec::new(),
            live: 0,
            nodes: PhantomData,
        }
    }

    /// Stores a node anywhere; returns its number.
    pub(crate) fn allocate(&mut self, node: &T) -> u32 {
        debug_assert!(!Self::HEADS, "nodes of superpages have their places");
        self.live += 1;
        if let Some(id) = self.free[0].pop() {
            *self.get_mut(id) = *node;
            return id;
        }
        let id = self.initialised;
        assert!(id < 1 << NUMBER_BITS, "an arena has no number left");
        self.memory.extend((id as usize + 1) * size_of::<T>());
        self.initialised += 1;
        // SAFETY: the place is within what the run was just extended to, aligned, and new:
        // nobody else knows it.
        unsafe { self.place(id).write(*node) };
        id
    }

    /// Allocates a superpage for nodes of its own; returns its number.
    pub(crate) fn allocate_superpage(&mut self) -> u32 {
        if let Some(superpage) = self.free_superpages.pop() {
            return superpage;
        }
        let superpage = self.initialised_in.len();
        assert!(
            superpage < 1 << (NUMBER_BITS - Self::BITS),
            "an arena has no number left"
        );
        self.memory.reserve(superpage + 1);
        self.initialised_in.push(0);
        self.free.resize_with(superpage + 1, Vec::new);
        let superpage = superpage as u32;
        // SAFETY: a superpage is large and aligned enough for a head, and nobody knows it yet.
        unsafe { self.superpage(superpage).cast::<H>().write(H::default()) };
        superpage
    }

    /// Makes a superpage without nodes free for reuse.
    pub(crate) fn release_superpage(&mut self, superpage: u32) {
        self.free_superpages.push(superpage);
    }

    /// Stores a node in this superpage, which has room; returns its number.
    pub(crate) fn allocate_in(&mut self, superpage: u32, node: &T) -> u32 {
        self.live += 1;
        if let Some(id) = self.free[superpage as usize].pop() {
            *self.get_mut(id) = *node;
            return id;
        }
        let initialised = &mut self.initialised_in[superpage as usize];
        let within = *initialised;
        assert!(within < Self::EACH, "a superpage is full");
        *initialised += 1;
        let id = superpage << Self::BITS | within;
        // SAFETY: the place is within the superpage, aligned, and new: nobody else knows it.
        unsafe { self.place(id).write(*node) };
        id
    }

    /// The superpage of a node.
    pub(crate) fn superpage_of(id: u32) -> u32 {
        id >> Self::BITS
    }

    /// Makes the number free for a node anywhere.
    pub(crate) fn release(&mut self, id: u32) {
        self.live -= 1;
        self.free[0].push(id);
    }

    /// Makes the number free for a node of the same superpage.
    pub(crate) fn release_in(&mut self, id: u32) {
        self.live -= 1;
        self.free[Self::superpage_of(id) as usize].push(id);
    }

    /// Nodes in use of this superpage, whose nodes are allocated in it.
    pub(crate) fn nodes_in(&self, superpage: u32) -> usize {
        self.initialised_in[superpage as usize] as usize - self.free[superpage as usize].len()
    }

    /// Superpages with heads that are not free.
    pub(crate) fn superpages_in_use(&self) -> usize {
        self.initialised_in.len() - self.free_superpages.len()
    }

    /// Nodes in use.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Bytes taken from the kernel, or about to be.
    pub(crate) fn bytes(&self) -> usize {
        if Self::HEADS {
            return self.initialised_in.len() * SUPERPAGE_BYTES;
        }
        self.memory.extent()
    }

    /// Where a superpage begins. Panics if it was never allocated.
    #[inline(always)]
    fn superpage(&self, superpage: u32) -> NonNull<u8> {
        assert!(
            (superpage as usize) < self.initialised_in.len(),
            "no such superpage"
        );
        // SAFETY: so many superpages are reserved, as `allocate_superpage` did for each.
        unsafe {
            self.memory
                .start()
                .add(superpage as usize * SUPERPAGE_BYTES)
        }
    }

    /// Where a node is. Panics for a number that names none.
    #[inline(always)]
    fn place(&self, id: u32) -> NonNull<T> {
        if Self::HEADS {
            let superpage = id >> Self::BITS;
            let within = id & ((1 << Self::BITS) - 1);
            assert!(
                within < self.initialised_in[superpage as usize],
                "a node that was never initialised"
            );
            // SAFETY: a superpage holds `EACH` nodes behind its head, and as many as were
            // initialised are at most that.
            unsafe {
                let first = self.superpage(superpage).byte_add(Self::FROM).cast::<T>();
                first.add(within as usize)
            }
        } else {
            assert!(id < self.initialised, "a node that was never initialised");
            // SAFETY: there is room for as many nodes as were initialised, as `allocate` reserved
            // it.
            unsafe { self.memory.start().cast::<T>().add(id as usize) }
        }
    }

    /// The node of this number.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &T {
        // SAFETY: numbers that `place` accepts name nodes that were written when they were
        // initialised; they stay valid as `T` is `Copy`, and `&self` keeps writers, and those who
        // would move the superpages, away.
        unsafe { self.place(id).as_ref() }
    }

    /// The node of this number, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        // SAFETY: as in `get`; `&mut self` keeps everyone else away.
        unsafe { self.place(id).as_mut() }
    }

    /// The head of this superpage.
    #[inline(always)]
    pub(crate) fn head(&self, superpage: u32) -> &H {
        // SAFETY: `allocate_superpage` initialised the head; no node overlaps it; `&self` keeps
        // writers away.
        unsafe { self.superpage(superpage).cast::<H>().as_ref() }
    }

    /// The head of this superpage, to be changed.
    #[inline(always)]
    pub(crate) fn head_mut(&mut self, superpage: u32) -> &mut H {
        // SAFETY: as in `head`; `&mut self` keeps everyone else away.
        unsafe { self.superpage(superpage).cast::<H>().as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So large that a few of them fill a superpage.
    type Node = [u32; 1 << 16];

    fn node(n: u32) -> Node {
        let mut node = [0; 1 << 16];
        (node[0], node[(1 << 16) - 1]) = (n, !n);
        node
    }

    fn is(found: &Node, n: u32) -> bool {
        (found[0], found[1], found[(1 << 16) - 1]) == (n, 0, !n)
    }

    #[test]
    fn nodes_stay_what_they_are_when_all_superpages_move() {
        let mut arena: Arena<Node> = Arena::new();
        for n in 0..40 {
            assert_eq!(arena.allocate(&node(n)), n);
            assert!((0..=n).all(|id| is(arena.get(id), id)));
        }
        assert_eq!((arena.live(), arena.bytes()), (40, 5 * SUPERPAGE_BYTES));
        arena.release(7);
        assert_eq!(arena.allocate(&node(70)), 7);
        *arena.get_mut(8) = node(80);
        assert_eq!(arena.allocate(&node(40)), 40);
        let found = [6, 7, 8, 9, 40].map(|id| arena.get(id)[0]);
        assert_eq!(found, [6, 70, 80, 9, 40]);
    }

    #[test]
    fn superpages_with_heads_move_with_their_nodes() {
        let mut arena: Arena<Node, [u32; 4]> = Arena::new();
        let each = Arena::<Node, [u32; 4]>::EACH;
        assert_eq!(each, 7, "the head takes the room of the eighth");
        let mut ids = Vec::new();
        for superpage in 0..5 {
            assert_eq!(arena.allocate_superpage(), superpage);
            *arena.head_mut(superpage) = [superpage; 4];
            for n in 0..each {
                ids.push(arena.allocate_in(superpage, &node(superpage * 10 + n)));
            }
        }
        for (at, &id) in (0..).zip(&ids) {
            let superpage = Arena::<Node, [u32; 4]>::superpage_of(id);
            assert_eq!(superpage, at / each);
            assert!(is(arena.get(id), superpage * 10 + at % each));
            assert_eq!(arena.head(superpage), &[superpage; 4]);
        }
        for &id in &ids[..7] {
            arena.release_in(id);
        }
        assert_eq!((arena.nodes_in(0), arena.superpages_in_use()), (0, 5));
        arena.release_superpage(0);
        assert_eq!(
            (arena.allocate_superpage(), arena.superpages_in_use()),
            (0, 5)
        );
    }
}
