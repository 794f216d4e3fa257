//! Nodes of one size in superpages, named by numbers.
//!
//! A number is half as long as a pointer, leaves room for a tag, and is checked at each use, so
//! that all of the tree but this file is safe code. The price is one load from a short table
//! that stays in the first-level cache.
//!
//! A superpage begins with a *head*, of no size for most trees. Where superpages are nodes of the
//! tree themselves, the head is the node that routes to the superpage's pages, and nodes are
//! allocated in the superpage of their siblings.

use std::marker::PhantomData;
use std::ptr::NonNull;

use hedgerow_memory::{SUPERPAGE_BYTES, Superpage};

/// An owner of nodes, and of a head for each superpage. Neither has a destructor.
#[derive(Debug)]
pub(crate) struct Arena<T: Copy, H: Copy = ()> {
    shelves: Vec<Shelf>,
    /// Nodes given back, by superpage; one list for all where nodes go anywhere.
    free: Vec<Vec<u32>>,
    /// Superpages given back.
    closed: Vec<u32>,
    live: usize,
    nodes: PhantomData<(T, H)>,
}

#[derive(Debug)]
struct Shelf {
    superpage: Superpage,
    /// Nodes from the first to before this one are initialised.
    made: u32,
}

impl<T: Copy, H: Copy + Default> Arena<T, H> {
    /// Where the first node of a superpage begins.
    const FROM: usize = size_of::<H>().next_multiple_of(align_of::<T>());

    /// Nodes in a superpage.
    pub(crate) const EACH: u32 = ((SUPERPAGE_BYTES - Self::FROM) / size_of::<T>()) as u32;

    /// Bits of a number that say which node of a superpage it is. Numbers from `EACH` on in them
    /// name nothing: so a number is taken apart without a division.
    const BITS: u32 = Self::EACH.next_power_of_two().ilog2();

    pub(crate) fn new() -> Self {
        Self {
            shelves: Vec::new(),
            free: vec![Vec::new()],
            closed: Vec::new(),
            live: 0,
            nodes: PhantomData,
        }
    }

    /// Stores a node anywhere; returns its number.
    pub(crate) fn allocate(&mut self, node: &T) -> u32 {
        if let Some(id) = self.free[0].pop() {
            self.live += 1;
            *self.get_mut(id) = *node;
            return id;
        }
        if self
            .shelves
            .last()
            .is_none_or(|shelf| shelf.made == Self::EACH)
        {
            self.add_shelf();
        }
        self.make(self.shelves.len() as u32 - 1, node)
    }

    /// A superpage for nodes of its own; returns its number.
    pub(crate) fn open(&mut self) -> u32 {
        if let Some(shelf) = self.closed.pop() {
            return shelf;
        }
        self.add_shelf();
        self.shelves.len() as u32 - 1
    }

    /// Makes a superpage without nodes free for others.
    pub(crate) fn close(&mut self, shelf: u32) {
        self.closed.push(shelf);
    }

    /// Stores a node in this superpage, which has room; returns its number.
    pub(crate) fn allocate_in(&mut self, shelf: u32, node: &T) -> u32 {
        if let Some(id) = self.free[shelf as usize].pop() {
            self.live += 1;
            *self.get_mut(id) = *node;
            return id;
        }
        self.make(shelf, node)
    }

    /// The superpage of a node.
    pub(crate) fn shelf_of(id: u32) -> u32 {
        id >> Self::BITS
    }

    fn add_shelf(&mut self) {
        let superpage = Superpage::new();
        // SAFETY: a superpage is large and aligned enough for a head, and nobody knows it yet.
        unsafe { superpage.start().cast::<H>().write(H::default()) };
        self.shelves.push(Shelf { superpage, made: 0 });
        self.free.push(Vec::new());
    }

    fn make(&mut self, shelf: u32, node: &T) -> u32 {
        let entry = &mut self.shelves[shelf as usize];
        let within = entry.made;
        assert!(within < Self::EACH, "a superpage is full");
        entry.made += 1;
        self.live += 1;
        let id = shelf << Self::BITS | within;
        // SAFETY: the place is within the superpage, aligned, and new: nobody else knows it.
        unsafe { self.place(id).write(*node) };
        id
    }

    /// Makes the number free for a node anywhere.
    pub(crate) fn release(&mut self, id: u32) {
        self.live -= 1;
        self.free[0].push(id);
    }

    /// Makes the number free for a node of the same superpage.
    pub(crate) fn release_in(&mut self, id: u32) {
        self.live -= 1;
        self.free[Self::shelf_of(id) as usize].push(id);
    }

    /// Nodes in use of this superpage, whose nodes are allocated in it.
    pub(crate) fn nodes_in(&self, shelf: u32) -> usize {
        self.shelves[shelf as usize].made as usize - self.free[shelf as usize].len()
    }

    /// Superpages that are not closed.
    pub(crate) fn opened(&self) -> usize {
        self.shelves.len() - self.closed.len()
    }

    /// Nodes in use.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Bytes taken from the kernel.
    pub(crate) fn bytes(&self) -> usize {
        self.shelves.len() * SUPERPAGE_BYTES
    }

    /// Where a node is. Panics for a number that names none.
    #[inline(always)]
    fn place(&self, id: u32) -> NonNull<T> {
        let shelf = &self.shelves[(id >> Self::BITS) as usize];
        let within = id & ((1 << Self::BITS) - 1);
        assert!(within < shelf.made, "a node that was never made");
        // SAFETY: a superpage holds `EACH` nodes behind its head, and `made` is at most that.
        unsafe {
            let first = shelf.superpage.start().byte_add(Self::FROM).cast::<T>();
            first.add(within as usize)
        }
    }

    /// The node of this number.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &T {
        // SAFETY: numbers that `place` accepts name nodes that `make` initialised; they stay
        // valid as `T` is `Copy`, and `&self` keeps writers away.
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
    pub(crate) fn head(&self, shelf: u32) -> &H {
        let start = self.shelves[shelf as usize].superpage.start();
        // SAFETY: `add_shelf` initialised the head; no node overlaps it; `&self` keeps writers away.
        unsafe { start.cast::<H>().as_ref() }
    }

    /// The head of this superpage, to be changed.
    #[inline(always)]
    pub(crate) fn head_mut(&mut self, shelf: u32) -> &mut H {
        let start = self.shelves[shelf as usize].superpage.start();
        // SAFETY: as in `head`; `&mut self` keeps everyone else away.
        unsafe { start.cast::<H>().as_mut() }
    }
}
