//! A thread's free slots of one pool.
//!
//! A magazine is an array of pointers, not a list through the free slots: taking a slot reads
//! nothing but the array, so an allocation waits for no cache miss. The thread that owns a
//! magazine is the only one to touch its slots; its length alone is read by others, for
//! reports.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::central::{Central, Slot};

/// The most slots that one magazine holds.
const MAGAZINE_SLOTS: usize = 64;

/// Bytes that one magazine may hold back from other threads, where slots are large.
const MAGAZINE_BYTES: usize = 64 << 10;

/// Slots of a size that a magazine holds at most: fewer where they are large.
pub(crate) const fn capacity(slot_bytes: usize) -> u8 {
    let slots = MAGAZINE_BYTES / slot_bytes;
    if slots > MAGAZINE_SLOTS {
        MAGAZINE_SLOTS as u8
    } else if slots < 4 {
        4
    } else {
        slots as u8
    }
}

/// What a magazine is filled from and emptied to: a pool's central store, and its sizes.
#[derive(Clone, Copy)]
pub(crate) struct Depot {
    pub(crate) central: &'static Mutex<Central>,
    pub(crate) slot_bytes: usize,
    /// Of a magazine.
    pub(crate) capacity: u8,
}

impl Depot {
    pub(crate) fn central(self) -> MutexGuard<'static, Central> {
        // Nothing unwinds while a central is inconsistent.
        self.central.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block for a thread whose magazine is empty, which is filled by half; a thread that is
    /// ending has none, and takes one slot. `None` when the kernel has no more memory.
    pub(crate) fn refill(self, magazine: Option<&Magazine>) -> Option<NonNull<u8>> {
        let Some(magazine) = magazine else {
            let mut only = None;
            let give = |slot: Slot| only = Some(slot.0);
            self.central().take(self.slot_bytes, 1, give);
            return only;
        };
        let batch = usize::from(self.capacity).div_ceil(2);
        let push = |slot| magazine.push(slot);
        self.central().take(self.slot_bytes, batch, push);
        magazine.pop().map(|slot| slot.0)
    }

    /// Takes a slot of a thread whose magazine is full, and half of that; or of a thread that is
    /// ending, which has none.
    pub(crate) fn take_back(self, slot: Slot, magazine: Option<&Magazine>) {
        let Some(magazine) = magazine else {
            self.central().give_back(&[slot]);
            return;
        };
        if !magazine.has_room(self.capacity) {
            magazine.drain(self, usize::from(self.capacity) / 2);
        }
        magazine.push(slot);
    }
}

/// A thread's free slots of one pool.
pub(crate) struct Magazine {
    /// Written by the owning thread only; read by reports.
    len: AtomicU32,
    slots: UnsafeCell<[MaybeUninit<Slot>; MAGAZINE_SLOTS]>,
}

impl Magazine {
    pub(crate) const fn new() -> Self {
        Self {
            len: AtomicU32::new(0),
            slots: UnsafeCell::new([MaybeUninit::uninit(); MAGAZINE_SLOTS]),
        }
    }

    /// How many slots it holds; any thread may ask.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// Whether it holds fewer slots than its pool allows.
    #[inline]
    pub(crate) fn has_room(&self, capacity: u8) -> bool {
        self.len.load(Relaxed) < u32::from(capacity)
    }

    /// Takes the top slot.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Slot> {
        let len = self.len.load(Relaxed);
        if len == 0 {
            return None;
        }
        self.len.store(len - 1, Relaxed);
        // SAFETY: only the owning thread runs this, and slots below `len` were written by
        // `push`. `len` never exceeds the array.
        Some(unsafe {
            (*self.slots.get())
                .get_unchecked(len as usize - 1)
                .assume_init()
        })
    }

    /// Adds a slot; the caller has made sure that there is room.
    #[inline]
    pub(crate) fn push(&self, slot: Slot) {
        let len = self.len.load(Relaxed);
        debug_assert!((len as usize) < MAGAZINE_SLOTS);
        // SAFETY: only the owning thread runs this; callers push below the pool's capacity,
        // which is at most the length of the array.
        unsafe {
            (*self.slots.get())
                .get_unchecked_mut(len as usize)
                .write(slot)
        };
        self.len.store(len + 1, Relaxed);
    }

    /// Moves the oldest `count` slots to the central store.
    pub(crate) fn drain(&self, depot: Depot, count: usize) {
        let len = self.len();
        debug_assert!(count <= len);
        if count == 0 {
            return;
        }
        // SAFETY: only the owning thread runs this (or, at its exit, its destructor), and all
        // slots below `len` are initialised.
        let slots = unsafe {
            let slots = &mut *self.slots.get();
            std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast::<Slot>(), len)
        };
        depot.central().give_back(&slots[..count]);
        slots.copy_within(count.., 0);
        self.len.store((len - count) as u32, Relaxed);
    }
}
