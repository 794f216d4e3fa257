//! The mapping table: from the id of a node to the newest record of its chain.
//!
//! Links between nodes are ids, so a compare-and-swap on one word of this table changes a node for
//! all who lead to it. The table reserves address space for as many nodes as there can ever be; the
//! kernel gives it memory page by page as ids are first used. So it grows without a stop and
//! without copying.
//!
//! ```text
//! used:  │ address of the newest record (even) │
//! retired:  │ address of the remove record │ 1 │ 0 │
//! free:  │ id of the next free entry     │ 1 │
//! head of the free list:  │ tag u32 │ id u32 │
//! ```
//!
//! **Recycling.** The id of a removed node joins the free list when its epoch has ended, so no
//! thread that read the id anywhere still uses it. The list is a stack whose links lie in the
//! entries themselves. Its head has a tag that every change increments, so that a pop which was
//! interrupted does not take a link from before.
//!
//! **The table does not shrink.** Free entries hold the links of the list, so the kernel cannot
//! have their pages back unless whole pages of ids leave the list, which takes a walk of all of it.
//! An entry takes 8 bytes beside a chunk of thousands, so a tree that grew to 2 million keys and
//! was emptied retains 150 KiB.
//!
//! **No ABA in entries.** A thread that compares an entry with an address is pinned since before it
//! loaded that address; so the record is not freed, and no other can have its address.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::Mapping;
use hedgerow_sync::word::Word;

use crate::chunk_word::ChunkWord;

/// The name of a logical node.
pub(crate) type NodeId = u32;

/// No node.
pub(crate) const NONE: NodeId = 0;

/// The bit of the word of an id that is retired: its remove record is freed when the epoch ends,
/// by whichever thread. Records are aligned to 8 bytes.
const RETIRED: u64 = 2;

/// The bit of the word of a place from which a node has moved: the rest is its new place.
const FORWARDED: u64 = 1;

/// Bits of an address in user space; a word has other things above them (module `record`).
pub(crate) const ADDRESS_BITS: u32 = 48;

/// The address in a word of the table.
#[inline(always)]
pub(crate) fn address_of(word: u64) -> usize {
    (word & ((1 << ADDRESS_BITS) - 1)) as usize
}

/// The root: its id stays while its level changes.
pub(crate) const ROOT: NodeId = 1;

/// The most nodes that a tree can have. Miri has no memory that is backed when it is touched.
pub const MOST_NODES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 28 };

/// Where the words of the table lie.
///
/// # Safety
///
/// Each id has a word of its own, which stays where it is. Words load what was stored last; their
/// compare-and-exchange compares and stores in one atomic step, or `Sharing` is not `Sync`.
pub unsafe trait Entries: Send + Sync + 'static {
    /// The word of an entry, and of a chunk's marker.
    type Word: ChunkWord + 'static;
    /// The word of the free list's head and of counters, which any thread changes.
    type Shared: Word + 'static;
    /// `()` if threads may share a tree, a type that is not `Sync` if they may not.
    type Sharing: Send + 'static;
    /// Whether a word also says how far the base node lies from the newest record.
    const DISTANCES: bool = true;
    /// Whether there is no table: an id is the place of a node's chunk (module `direct_pointers`).
    const DIRECT: bool = false;
    /// Room for all ids, zero.
    ///
    /// # Errors
    ///
    /// What the kernel says when it does not give so much address space.
    fn reserve() -> io::Result<Self>
    where
        Self: Sized;
    /// The word of an id.
    ///
    /// # Safety
    ///
    /// The id is below [`capacity`](Self::capacity) or, where ids are places, that of the root or
    /// of a chunk of this tree that is not released while the word is used.
    unsafe fn word(&self, id: u32) -> &Self::Word;
    /// How many ids there can be, with id 0, which is never used.
    fn capacity(&self) -> usize;
    /// Where ids are places: that of the chunk whose header has an address.
    fn place_of(&self, _header: u64) -> u32 {
        NONE
    }
}

/// Reserved address space, which the kernel backs when it is touched.
#[derive(Debug)]
pub struct ReservedEntries(Mapping);

impl ReservedEntries {
    fn new() -> io::Result<Self> {
        Mapping::reserve(MOST_NODES * size_of::<u64>()).map(Self)
    }

    /// # Safety
    ///
    /// The id is below [`MOST_NODES`].
    #[inline(always)]
    unsafe fn entry(&self, id: u32) -> &AtomicU64 {
        debug_assert!((id as usize) < MOST_NODES);
        // SAFETY: the mapping has a zeroed word for every id below `MOST_NODES`, as the caller's
        // is, and all accesses are atomic.
        unsafe { self.0.start().cast::<AtomicU64>().add(id as usize).as_ref() }
    }
}

// SAFETY: the words are atomic, one for each id, in a mapping that stays.
unsafe impl Entries for ReservedEntries {
    type Word = AtomicU64;
    type Shared = AtomicU64;
    type Sharing = ();

    fn reserve() -> io::Result<Self> {
        Self::new()
    }

    #[inline(always)]
    unsafe fn word(&self, id: u32) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { self.entry(id) }
    }

    fn capacity(&self) -> usize {
        MOST_NODES
    }
}

/// [`ReservedEntries`] that are compared and stored by two plain instructions.
#[derive(Debug)]
pub struct PlainEntries(ReservedEntries);

/// A word whose compare-and-exchange is a load and a store: right while one thread changes it.
#[derive(Debug)]
#[repr(transparent)]
pub struct PlainWord(AtomicU64);

// SAFETY: an atomic location whose exchange is two accesses, which is one exchange while one thread
// uses it. Entries of such words are not `Sync`, nor are their trees.
unsafe impl Word for PlainWord {
    const SHARED: bool = false;

    #[inline(always)]
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    fn load(&self, _: Ordering) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store(&self, value: u64, _: Ordering) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let found = self.0.load(Ordering::Relaxed);
        if found != current {
            return Err(found);
        }
        self.0.store(new, Ordering::Relaxed);
        Ok(found)
    }

    fn fence(_: Ordering) {}

    fn pause(rounds: &mut u32) {
        AtomicU64::pause(rounds);
    }
}

// SAFETY: the memory is that of `hedgerow_memory`.
unsafe impl ChunkWord for PlainWord {
    type Newest = ();
}

// SAFETY: as for `ReservedEntries`, but for the compare-and-exchange, so it is not shared.
unsafe impl Entries for PlainEntries {
    type Word = PlainWord;
    type Shared = AtomicU64;
    type Sharing = Cell<()>;

    fn reserve() -> io::Result<Self> {
        ReservedEntries::new().map(Self)
    }

    #[inline(always)]
    unsafe fn word(&self, id: u32) -> &PlainWord {
        // SAFETY: the caller's promise.
        let word: *const AtomicU64 = unsafe { self.0.entry(id) };
        // SAFETY: a plain word is an atomic one in memory, and all its accesses are atomic.
        unsafe { &*word.cast::<PlainWord>() }
    }

    fn capacity(&self) -> usize {
        MOST_NODES
    }
}

/// Entries that are addresses alone.
#[derive(Debug)]
pub struct AddressEntries<E>(E);

// SAFETY: the words are those of `E`.
unsafe impl<E: Entries> Entries for AddressEntries<E> {
    type Word = E::Word;
    type Shared = E::Shared;
    type Sharing = E::Sharing;
    const DISTANCES: bool = false;
    const DIRECT: bool = E::DIRECT;

    fn reserve() -> io::Result<Self> {
        E::reserve().map(Self)
    }

    #[inline(always)]
    fn place_of(&self, header: u64) -> u32 {
        self.0.place_of(header)
    }

    #[inline(always)]
    unsafe fn word(&self, id: u32) -> &E::Word {
        // SAFETY: the caller's promise.
        unsafe { self.0.word(id) }
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// Ids and what they name.
pub(crate) struct MappingTable<E: Entries> {
    entries: E,
    /// The first id that was never used.
    unused: E::Shared,
    /// The head of the free list.
    free: E::Shared,
    /// How often an id was used again.
    recycled: E::Shared,
}

impl<E: Entries> MappingTable<E> {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            entries: E::reserve()?,
            unused: E::Shared::new(u64::from(ROOT)),
            free: E::Shared::new(0),
            recycled: E::Shared::new(0),
        })
    }

    /// What an entry has of the word of a record.
    #[inline(always)]
    fn stored(word: u64) -> u64 {
        if E::DISTANCES {
            word
        } else {
            address_of(word) as u64
        }
    }

    /// Whether a node's newest record is still one with this word.
    pub fn is(&self, id: NodeId, word: u64) -> bool {
        self.load(id) == Self::stored(word)
    }

    /// The word of an id.
    #[inline(always)]
    fn word(&self, id: NodeId) -> &E::Word {
        // SAFETY: ids are the root's, those that `allocate` gave out, which are below the capacity,
        // or the places of chunks, which operations use while an epoch keeps the chunk.
        unsafe { self.entries.word(id) }
    }

    /// The word of a node: the address of its newest record.
    #[inline(always)]
    pub fn load(&self, id: NodeId) -> u64 {
        self.word(id).load(Ordering::Acquire)
    }

    /// The address of a node's newest record, if the id is in use or retired, and the node's id,
    /// which is another one if the id is the place of a chunk that was replaced.
    #[inline(always)]
    pub fn resolve(&self, mut id: NodeId) -> (NodeId, u64) {
        loop {
            let word = self.load(id);
            if !E::DIRECT || word & FORWARDED == 0 {
                return (id, word & !RETIRED);
            }
            id = (word >> 1) as NodeId;
        }
    }

    /// Gives a node an id that nobody knows yet, by its first record and, where ids are places,
    /// its chunk's header.
    pub fn add(&self, header: u64, word: u64) -> NodeId {
        let id = match E::DIRECT {
            true => self.entries.place_of(header),
            false => self.allocate(),
        };
        self.install(id, word);
        id
    }

    /// Where ids are places: says that a node lies in another chunk now. Fails if its newest record
    /// is another one.
    pub fn forward(&self, id: NodeId, old: u64, new: NodeId) -> bool {
        let new = u64::from(new) << 1 | FORWARDED;
        exchange(self.word(id), Self::stored(old), new).is_ok()
    }

    /// Says of a node whose newest record is a remove record that its id is retired.
    pub fn mark_retired(&self, id: NodeId, word: u64) {
        if !E::DIRECT {
            self.install(id, word | RETIRED);
        }
    }

    /// The addresses of the newest records of ids that are in use, not retired.
    pub fn in_use(&self) -> impl Iterator<Item = u64> {
        let ids = ROOT..ROOT + self.ever_used() as NodeId;
        ids.map(|id| self.load(id))
            .filter(|word| *word != 0 && word & (1 | RETIRED) == 0)
    }

    /// The address of a node's word, to prefetch it.
    #[inline(always)]
    pub fn address(&self, id: NodeId) -> *const E::Word {
        self.word(id)
    }

    /// Publishes the first record of a node that nobody else knows.
    pub fn install(&self, id: NodeId, word: u64) {
        let word = Self::stored(word);
        self.word(id).store(word, Ordering::Release);
    }

    /// Replaces a node's newest record; fails if another thread did.
    #[inline]
    pub fn replace(&self, id: NodeId, old: u64, new: u64) -> bool {
        let (old, new) = (Self::stored(old), Self::stored(new));
        exchange(self.word(id), old, new).is_ok()
    }

    /// An id for a new node: one that was used before if there is any.
    pub fn allocate(&self) -> NodeId {
        self.pop().unwrap_or_else(|| self.extend())
    }

    fn extend(&self) -> NodeId {
        loop {
            let unused = self.unused.load(Ordering::Relaxed);
            assert!(
                (unused as usize) < self.entries.capacity(),
                "a Bw-tree has at most {} nodes",
                self.entries.capacity() - 1
            );
            if exchange(&self.unused, unused, unused + 1).is_ok() {
                return unused as NodeId;
            }
        }
    }

    fn pop(&self) -> Option<NodeId> {
        loop {
            let head = self.free.load(Ordering::Acquire);
            let id = head as NodeId;
            if id == NONE {
                return None;
            }
            let link = self.load(id);
            // An even word is no link: another thread has taken the id since.
            if link & 1 == 1 && exchange(&self.free, head, next_head(head, link >> 1)).is_ok() {
                self.count_recycled();
                return Some(id);
            }
        }
    }

    fn count_recycled(&self) {
        loop {
            let recycled = self.recycled.load(Ordering::Relaxed);
            if exchange(&self.recycled, recycled, recycled + 1).is_ok() {
                return;
            }
        }
    }

    /// Puts an id on the free list that no thread can still use; a place is given back with its
    /// chunk.
    pub fn recycle(&self, id: NodeId) {
        if E::DIRECT {
            return;
        }
        loop {
            let head = self.free.load(Ordering::Acquire);
            self.install(id, (head as u32 as u64) << 1 | 1);
            if exchange(&self.free, head, next_head(head, u64::from(id))).is_ok() {
                return;
            }
        }
    }

    /// Ids that were ever used: what the table takes memory for.
    pub fn ever_used(&self) -> usize {
        (self.unused.load(Ordering::Relaxed) - u64::from(ROOT)) as usize
    }

    /// How often an id was used again.
    pub fn recycled(&self) -> u64 {
        self.recycled.load(Ordering::Relaxed)
    }
}

/// A head of the free list that names `id`, with the next tag.
fn next_head(head: u64, id: u64) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | id
}

/// Compare-and-exchange that does not fail spuriously.
#[inline]
pub(crate) fn exchange<W: Word>(word: &W, old: u64, new: u64) -> Result<(), u64> {
    loop {
        match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(found) if found != old => return Err(found),
            Err(_) => {}
        }
    }
}
