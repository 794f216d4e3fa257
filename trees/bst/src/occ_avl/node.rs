//! The nodes of the relaxed AVL trees, and what of them is written under which lock.
//!
//! ```text
//!  Improved (64 bytes)                        BloatedLocks<ScatteredFields> (96 bytes)
//!   0        8       16       24                0        8                             48
//!  ┌────────┬────────┬────────┬────────┐       ┌────────┬──────────────────────────────┐
//!  │ key    │ left   │ right  │ version│       │ parent │ lock, in the 40 bytes of a   │
//!  ├────────┼────────┼────────┼────┬───┤       │        │ POSIX mutex                  │
//!  │ state  │ word   │ parent │lock│   │       ├────────┴─────────────┬────────┬───────┤
//!  └────────┴────────┴────────┴────┴───┘       │ key left right vers. │ state  │ word  │
//!   32       40       48       56  60           └──────────────────────┴────────┴───────┘
//!  version  63                                                 2          1         0
//!          ┌─────────────────────────────────────────────────┬───────────┬──────────┐
//!          │ times the node's range of keys has shrunk       │ shrinking │ unlinked │
//!          └─────────────────────────────────────────────────┴───────────┴──────────┘
//!  state    63                                       17          16          15    0
//!          ┌────────────────────────────────────────┬───────────────────────┬────────┐
//!          │ times a word has been removed          │ whether there is one  │ height │
//!          └────────────────────────────────────────┴───────────────────────┴────────┘
//! ```
//!
//! A descent reads the first half of an improved node, which never crosses a cache line. Who holds
//! a node's lock may write its links, version, state and word; a node's parent link is written
//! under the lock of the parent that it names until then.

use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::IntKey;
use hedgerow_memory::WrittenFields;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use crate::form::{BloatedLocks, Fields, Form, Improved, Padded, ScatteredFields};
use crate::lock::NodeLock;
use crate::planted::{PlantedBug, planted};

const UNLINKED: u64 = 1;
const SHRINKING: u64 = 1 << 1;
const SHRUNK_ONCE: u64 = 1 << 2;

const HEIGHT: u64 = 0xffff;
const PRESENT: u64 = 1 << 16;
const REMOVED_ONCE: u64 = 1 << 17;

/// The side of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    /// The other one.
    #[inline(always)]
    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// What searches read.
#[repr(C)]
pub(super) struct SearchFields<E, W> {
    key: E,
    links: [W; 2],
    version: W,
    state: W,
    word: W,
}

/// What only updates need.
#[repr(C)]
pub(super) struct UpdateFields<L, W> {
    parent: W,
    lock: L,
}

type NodeFields<K, F, W> = Fields<
    <F as Form>::Order,
    SearchFields<<K as IntKey>::Encoded, W>,
    UpdateFields<<F as Form>::Lock, W>,
>;

/// A node: an item, or the router that a removed item with two children left behind.
#[repr(C)]
pub(super) struct Node<K: IntKey, F: Form, W: Word> {
    fields: NodeFields<K, F, W>,
    line: F::Line,
}

const _: () = assert!(size_of::<Node<u64, Improved, AtomicU64>>() == 64);
const _: () = assert!(size_of::<Node<u32, Improved, AtomicU64>>() == 64);
const _: () = assert!(size_of::<Node<u64, Padded, AtomicU64>>() == 64);
const _: () = assert!(align_of::<Node<u64, Padded, AtomicU64>>() == 64);
const _: () = assert!(size_of::<Node<u64, BloatedLocks<ScatteredFields>, AtomicU64>>() == 96);

// SAFETY: a key, which may be sent and shared, atomics, and a lock that any thread may take.
unsafe impl<K: IntKey, F: Form, W: Word> Send for Node<K, F, W> {}
// SAFETY: as above.
unsafe impl<K: IntKey, F: Form, W: Word> Sync for Node<K, F, W> {}

impl<K: IntKey, F: Form, W: Word + 'static> Node<K, F, W> {
    /// A leaf.
    pub(super) fn leaf(key: K::Encoded, word: u64, parent: &Self) -> Self {
        Self::new(key, PRESENT | 1, word, parent.address())
    }

    /// The node whose right child is the root. Its key is never looked at.
    pub(super) fn holder() -> Self {
        Self::new(K::Encoded::default(), 0, 0, 0)
    }

    fn new(key: K::Encoded, state: u64, word: u64, parent: u64) -> Self {
        let search = SearchFields {
            key,
            links: [W::new(0), W::new(0)],
            version: W::new(0),
            state: W::new(state),
            word: W::new(word),
        };
        let update = UpdateFields {
            parent: W::new(parent),
            lock: F::Lock::new(),
        };
        Self {
            fields: Fields::new(search, update),
            line: F::Line::default(),
        }
    }

    #[inline(always)]
    fn search(&self) -> &SearchFields<K::Encoded, W> {
        self.fields.search()
    }

    #[inline(always)]
    fn update(&self) -> &UpdateFields<F::Lock, W> {
        self.fields.update()
    }

    /// The key.
    #[inline(always)]
    pub(super) fn key(&self) -> K::Encoded {
        self.search().key
    }

    /// What links to this node hold.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    /// A node that a link names.
    ///
    /// The link was read under `guard`, of a node that was reached under it; see the module's
    /// documentation for why the node is still there.
    #[inline(always)]
    fn at(address: u64, _: &Guard) -> Option<&Self> {
        let node = ptr::with_exposed_provenance::<Self>(address as usize);
        // SAFETY: links are null or name nodes that were placed; what a thread reaches under a
        // guard is freed after the guard's end. Everything that changes in a node is atomic.
        unsafe { node.as_ref() }
    }

    /// The child on that side.
    #[inline(always)]
    pub(super) fn child<'g>(&self, side: Side, guard: &'g Guard) -> Option<&'g Self> {
        Self::at(self.link(side), guard)
    }

    /// The address of the child on that side, or 0.
    #[inline(always)]
    pub(super) fn link(&self, side: Side) -> u64 {
        self.search().links[side as usize].load(Ordering::Acquire)
    }

    /// Replaces a child. The caller holds this node's lock.
    #[inline]
    pub(super) fn set_link(&self, side: Side, child: u64) {
        self.search().links[side as usize].store(child, Ordering::Release);
    }

    /// On which side of this node its child is.
    pub(super) fn side_of(&self, child: &Self) -> Side {
        match self.link(Side::Left) == child.address() {
            true => Side::Left,
            false => Side::Right,
        }
    }

    /// The parent; only the holder has none. An unlinked node keeps its last one.
    #[inline]
    pub(super) fn parent<'g>(&self, guard: &'g Guard) -> Option<&'g Self> {
        Self::at(self.update().parent.load(Ordering::Acquire), guard)
    }

    /// Whether this node's parent link names that node.
    pub(super) fn has_parent(&self, parent: &Self) -> bool {
        self.update().parent.load(Ordering::Acquire) == parent.address()
    }

    /// Makes this node the parent of its new child. The caller holds the lock of the child's parent
    /// until then, and this node's.
    pub(super) fn adopt(&self, side: Side, child: Option<&Self>) {
        if let Some(child) = child {
            child
                .update()
                .parent
                .store(self.address(), Ordering::Release);
        }
        self.set_link(side, child.map_or(0, Self::address));
    }
}

/// Versions.
impl<K: IntKey, F: Form, W: Word + 'static> Node<K, F, W> {
    /// The version.
    #[inline(always)]
    pub(super) fn version(&self) -> u64 {
        self.search().version.load(Ordering::Acquire)
    }

    /// Whether a node of that version is in the tree and not about to shrink.
    #[inline(always)]
    pub(super) fn is_stable(version: u64) -> bool {
        version & (SHRINKING | UNLINKED) == 0
    }

    /// Whether the node is in the tree with at least the range of keys that it had at `version`,
    /// which was stable: then what was read of it since belongs to that range.
    #[inline(always)]
    pub(super) fn is_at(&self, version: u64) -> bool {
        W::fence(Ordering::Acquire);
        self.search().version.load(Ordering::Relaxed) == version
    }

    /// Whether the node has left the tree.
    #[inline]
    pub(super) fn is_unlinked(&self) -> bool {
        self.version() & UNLINKED != 0
    }

    /// Marks that the node is leaving the tree, before links change. The caller holds its lock.
    pub(super) fn mark_unlinked(&self) {
        self.search().version.store(UNLINKED, Ordering::Relaxed);
        W::fence(Ordering::Release);
    }

    /// Marks that the node's range of keys shrinks, before links change. The caller holds its lock.
    pub(super) fn begin_shrinking(&self) {
        if planted(PlantedBug::OccAvlShrinkingNotMarked) {
            return;
        }
        let version = self.search().version.load(Ordering::Relaxed);
        self.search()
            .version
            .store(version | SHRINKING, Ordering::Relaxed);
        W::fence(Ordering::Release);
    }

    /// Ends [`begin_shrinking`](Self::begin_shrinking), once links and heights are right.
    pub(super) fn end_shrinking(&self) {
        let version = self.search().version.load(Ordering::Relaxed);
        if version & SHRINKING != 0 {
            let shrunk = (version & !SHRINKING).wrapping_add(SHRUNK_ONCE);
            self.search().version.store(shrunk, Ordering::Release);
        }
    }
}

/// States, words and heights.
impl<K: IntKey, F: Form, W: Word + 'static> Node<K, F, W> {
    /// The word; `None` of a router.
    #[inline]
    pub(super) fn word(&self) -> Option<u64> {
        let fields = self.search();
        loop {
            let state = fields.state.load(Ordering::Acquire);
            if state & PRESENT == 0 {
                return None;
            }
            let word = fields.word.load(Ordering::Acquire);
            // Unless this word was removed meanwhile, it may be that of a later insert, which is
            // not there before it is marked so.
            if (fields.state.load(Ordering::Relaxed) ^ state) & !HEIGHT == 0 {
                return Some(word);
            }
        }
    }

    /// Whether there is a word.
    #[inline]
    pub(super) fn is_present(&self) -> bool {
        self.search().state.load(Ordering::Acquire) & PRESENT != 0
    }

    /// Gives a router a word, or takes the word of an item away. The caller holds the lock.
    pub(super) fn set_word(&self, word: Option<u64>) {
        let fields = self.search();
        let state = fields.state.load(Ordering::Relaxed);
        let state = match word {
            Some(word) => {
                fields.word.store(word, Ordering::Release);
                state | PRESENT
            }
            None => (state & !PRESENT).wrapping_add(REMOVED_ONCE),
        };
        fields.state.store(state, Ordering::Release);
    }

    /// Replaces the word of an item. The caller holds the lock.
    pub(super) fn replace_word(&self, word: u64) {
        self.search().word.store(word, Ordering::Release);
    }

    /// The height of the subtree, as far as it is known here; a leaf's is 1.
    #[inline]
    pub(super) fn height(&self) -> u64 {
        self.search().state.load(Ordering::Acquire) & HEIGHT
    }

    /// The height on that side; 0 if there is nothing.
    #[inline]
    pub(super) fn height_of(&self, side: Side, guard: &Guard) -> u64 {
        self.child(side, guard).map_or(0, Self::height)
    }

    /// The caller holds the lock.
    pub(super) fn set_height(&self, height: u64) {
        debug_assert!(height <= HEIGHT);
        let state = self.search().state.load(Ordering::Relaxed);
        self.search()
            .state
            .store(state & !HEIGHT | height, Ordering::Release);
    }
}

/// Locks.
impl<K: IntKey, F: Form, W: Word + 'static> Node<K, F, W> {
    /// Waits for the node's lock. A thread that holds one takes only locks of its node's children.
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, F::Lock> {
        let lock = &self.update().lock;
        lock.lock();
        Locked(lock)
    }

    /// For the pool.
    pub(super) fn pointer(&self) -> NonNull<Self> {
        NonNull::from(self)
    }

    /// The bytes that descents read, from the node's start.
    pub(super) fn search_bytes(&self) -> std::ops::Range<usize> {
        let start = ptr::from_ref(self.search()).addr() - ptr::from_ref(self).addr();
        start..start + offset_of!(SearchFields<K::Encoded, W>, state)
    }

    /// What the holders of locks write: all but the key.
    pub(super) const WRITTEN: WrittenFields = {
        let search = NodeFields::<K, F, W>::search_offset();
        let update = NodeFields::<K, F, W>::update_offset();
        let lock = update + offset_of!(UpdateFields<F::Lock, W>, lock);
        WrittenFields::NONE
            .and_field::<[W; 2]>(search + offset_of!(SearchFields<K::Encoded, W>, links))
            .and_field::<W>(search + offset_of!(SearchFields<K::Encoded, W>, version))
            .and_field::<W>(search + offset_of!(SearchFields<K::Encoded, W>, state))
            .and_field::<W>(search + offset_of!(SearchFields<K::Encoded, W>, word))
            .and_field::<W>(update + offset_of!(UpdateFields<F::Lock, W>, parent))
            .and(lock..lock + F::Lock::WRITTEN_BYTES)
    };
}

/// Gives a lock back when dropped.
pub(super) struct Locked<'n, L: NodeLock>(&'n L);

impl<L: NodeLock> Drop for Locked<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
