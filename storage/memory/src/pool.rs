//! The pools: a magazine of free slots per thread and class, a central store per class.
//!
//! A magazine is an array of pointers, not a list through the free slots: taking a slot reads
//! nothing but the array, so an allocation waits for no cache miss. The thread that owns a
//! magazine is the only one to touch its slots; its length alone is read by others, for
//! reports.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::class;
use crate::class_report::ClassReport;
use crate::region::{self, Chunk, REGION_BYTES};
use crate::system;

/// The most slots that one magazine holds.
const MAGAZINE_SLOTS: usize = 64;

/// A class takes whole regions once it has carved this much in small chunks.
const WHOLE_REGIONS_FROM_BYTES: usize = 512 << 10;

/// Bytes that one magazine may hold back from other threads, where slots are large.
const MAGAZINE_BYTES: usize = 64 << 10;

/// Bytes of all chunks that classes own.
static CHUNK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A free slot.
#[derive(Clone, Copy)]
struct Slot(NonNull<u8>);

// SAFETY: a free slot is memory that nobody uses; it has no thread affinity.
unsafe impl Send for Slot {}

/// Slots of `class` that a magazine holds at most: fewer where slots are large.
const fn magazine_slots(class: usize) -> usize {
    let slots = MAGAZINE_BYTES / class::slot_bytes(class);
    if slots > MAGAZINE_SLOTS {
        MAGAZINE_SLOTS
    } else if slots < 4 {
        4
    } else {
        slots
    }
}

const CAPACITIES: [u8; class::COUNT] = {
    let mut capacities = [0; class::COUNT];
    let mut class = 0;
    while class < class::COUNT {
        capacities[class] = magazine_slots(class) as u8;
        class += 1;
    }
    capacities
};

/// One class: its free slots, and the chunk that fresh ones are cut from.
struct Central {
    free: Vec<Slot>,
    chunks: Vec<Chunk>,
    /// Bytes of the last chunk already cut into slots.
    cut_bytes: usize,
    chunk_bytes: usize,
    slots: usize,
}

static CENTRALS: [Mutex<Central>; class::COUNT] = [const {
    Mutex::new(Central {
        free: Vec::new(),
        chunks: Vec::new(),
        cut_bytes: 0,
        chunk_bytes: 0,
        slots: 0,
    })
}; class::COUNT];

fn central(class: usize) -> MutexGuard<'static, Central> {
    // Nothing unwinds while a central is inconsistent.
    CENTRALS[class]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Central {
    /// Hands up to `wanted` free or fresh slots to `give`, the one to be used first last.
    /// Returns how many; 0 means that the kernel has no more memory.
    fn take(&mut self, class: usize, wanted: usize, mut give: impl FnMut(Slot)) -> usize {
        let taken = wanted.min(self.free.len());
        if taken > 0 {
            let keep = self.free.len() - taken;
            self.free.drain(keep..).for_each(give);
            return taken;
        }
        let slot_bytes = class::slot_bytes(class);
        let Some(chunk) = self.chunk_with_room(slot_bytes) else {
            return 0;
        };
        let fresh = wanted.min((chunk.size_bytes - self.cut_bytes) / slot_bytes);
        for nth in (0..fresh).rev() {
            // SAFETY: `cut_bytes + fresh * slot_bytes` is within the chunk, by the division
            // above, so the slot's start is too.
            give(Slot(unsafe {
                chunk.start.add(self.cut_bytes + nth * slot_bytes)
            }));
        }
        self.cut_bytes += fresh * slot_bytes;
        self.slots += fresh;
        fresh
    }

    fn chunk_with_room(&mut self, slot_bytes: usize) -> Option<Chunk> {
        if let Some(&chunk) = self.chunks.last()
            && chunk.size_bytes - self.cut_bytes >= slot_bytes
        {
            return Some(chunk);
        }
        let chunk = region::chunk(self.chunk_bytes >= WHOLE_REGIONS_FROM_BYTES)?;
        self.chunks.push(chunk);
        self.cut_bytes = 0;
        self.chunk_bytes += chunk.size_bytes;
        CHUNK_BYTES.fetch_add(chunk.size_bytes, Relaxed);
        Some(chunk)
    }
}

/// A thread's free slots of one class.
struct Magazine {
    /// Written by the owning thread only; read by reports.
    len: AtomicU32,
    slots: UnsafeCell<[MaybeUninit<Slot>; MAGAZINE_SLOTS]>,
}

/// A thread's magazines. Only the owning thread touches the slots.
struct Magazines([Magazine; class::COUNT]);

/// A pointer to a thread's magazines in the registry of all threads'.
struct Registered(NonNull<Magazines>);

// SAFETY: other threads reach the magazines only through the registry's mutex and read only
// their atomic lengths; the owner unregisters under that mutex before it frees them.
unsafe impl Send for Registered {}

static THREADS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn threads() -> MutexGuard<'static, Vec<Registered>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// This thread's magazines, or null before its first block and after its exit began.
    static MAGAZINES: Cell<*const Magazines> = const { Cell::new(ptr::null()) };
    /// Frees the magazines when the thread ends. Apart from the pointer, so that the fast
    /// path needs no check whether a destructor ran.
    static OWNER: Owner = const { Owner };
}

struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(magazines) = NonNull::new(MAGAZINES.replace(ptr::null()).cast_mut()) else {
            return;
        };
        threads().retain(|registered| registered.0 != magazines);
        // SAFETY: made by `Box` in `register` for this thread; its thread-local pointer was
        // just cleared and its registration removed, so this is the only one left.
        let magazines = unsafe { Box::from_raw(magazines.as_ptr()) };
        for class in 0..class::COUNT {
            let magazine = &magazines.0[class];
            magazine.drain(class, magazine.len.load(Relaxed) as usize);
        }
    }
}

impl Magazine {
    /// Takes the top slot.
    #[inline]
    fn pop(&self) -> Option<Slot> {
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
    fn push(&self, slot: Slot) {
        let len = self.len.load(Relaxed);
        debug_assert!((len as usize) < MAGAZINE_SLOTS);
        // SAFETY: only the owning thread runs this; callers push below the class's capacity,
        // which is at most the length of the array.
        unsafe {
            (*self.slots.get())
                .get_unchecked_mut(len as usize)
                .write(slot)
        };
        self.len.store(len + 1, Relaxed);
    }

    /// Moves the oldest `count` slots to the central store.
    fn drain(&self, class: usize, count: usize) {
        let len = self.len.load(Relaxed) as usize;
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
        central(class).free.extend_from_slice(&slots[..count]);
        slots.copy_within(count.., 0);
        self.len.store((len - count) as u32, Relaxed);
    }
}

/// A block from a pool, or from the standard allocator when it is large.
#[inline]
pub(crate) fn allocate(size_bytes: usize) -> Option<NonNull<u8>> {
    if size_bytes > class::LARGEST_BYTES {
        return system::allocate(size_bytes);
    }
    let class = class::of(size_bytes);
    let magazines = MAGAZINES.get();
    if !magazines.is_null() {
        // SAFETY: non-null means registered by this thread and not yet freed by its `Owner`.
        let magazine = unsafe { &(*magazines).0[class] };
        if let Some(slot) = magazine.pop() {
            return Some(slot.0);
        }
    }
    refill(class)
}

/// Gives a block of [`allocate`] back.
///
/// # Safety
///
/// As for [`crate::release`].
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>, size_bytes: usize) {
    if size_bytes > class::LARGEST_BYTES {
        // SAFETY: `allocate` sent this size to the same allocator; the rest is the caller's
        // promise.
        return unsafe { system::release(block, size_bytes) };
    }
    let class = class::of(size_bytes);
    #[cfg(debug_assertions)]
    {
        debug_assert_eq!(
            block.as_ptr() as usize % 8,
            0,
            "released pointer is no block"
        );
        // SAFETY: the block is this class's slot size long and nobody uses it any more; the
        // pattern makes a use after release show itself in debug builds.
        unsafe { block.as_ptr().write_bytes(0xDD, class::slot_bytes(class)) };
    }
    let magazines = MAGAZINES.get();
    if !magazines.is_null() {
        // SAFETY: non-null means registered by this thread and not yet freed by its `Owner`.
        let magazine = unsafe { &(*magazines).0[class] };
        if magazine.len.load(Relaxed) < u32::from(CAPACITIES[class]) {
            return magazine.push(Slot(block));
        }
    }
    release_slowly(Slot(block), class);
}

#[cold]
#[inline(never)]
fn refill(class: usize) -> Option<NonNull<u8>> {
    let Some(magazines) = this_thread() else {
        // The thread is ending: one slot straight from the central store.
        let mut only = None;
        central(class).take(class, 1, |slot| only = Some(slot.0));
        return only;
    };
    let magazine = &magazines.0[class];
    let batch = usize::from(CAPACITIES[class]).div_ceil(2);
    central(class).take(class, batch, |slot| magazine.push(slot));
    magazine.pop().map(|slot| slot.0)
}

#[cold]
#[inline(never)]
fn release_slowly(slot: Slot, class: usize) {
    let Some(magazines) = this_thread() else {
        central(class).free.push(slot);
        return;
    };
    let magazine = &magazines.0[class];
    let capacity = usize::from(CAPACITIES[class]);
    if magazine.len.load(Relaxed) as usize >= capacity {
        magazine.drain(class, capacity / 2);
    }
    magazine.push(slot);
}

/// This thread's magazines, made on first use; `None` once the thread's exit has begun.
fn this_thread() -> Option<&'static Magazines> {
    let mut magazines = MAGAZINES.get();
    if magazines.is_null() {
        OWNER.try_with(|_| ()).ok()?;
        let empty = Box::new(Magazines(
            [const {
                Magazine {
                    len: AtomicU32::new(0),
                    slots: UnsafeCell::new([MaybeUninit::uninit(); MAGAZINE_SLOTS]),
                }
            }; class::COUNT],
        ));
        let leaked = NonNull::from(Box::leak(empty));
        threads().push(Registered(leaked));
        magazines = leaked.as_ptr();
        MAGAZINES.set(magazines);
    }
    // SAFETY: the magazines live until this thread's `Owner` is dropped, and callers, all in
    // this module, let go of the reference before they return to code that could end the
    // thread.
    Some(unsafe { &*magazines })
}

/// Bytes of chunks that classes own, plus live large blocks.
pub(crate) fn reserved_bytes() -> usize {
    CHUNK_BYTES.load(Relaxed) + system::live_bytes()
}

/// What each used class holds, and the address space mapped.
pub(crate) fn classes() -> (Vec<ClassReport>, usize) {
    let cached = cached_slots();
    let classes = (0..class::COUNT).filter_map(|class| class_report(class, cached[class]));
    (classes.collect(), region::mapped_bytes())
}

/// Free slots in all threads' magazines, by class.
fn cached_slots() -> [usize; class::COUNT] {
    let mut cached = [0; class::COUNT];
    for registered in threads().iter() {
        // SAFETY: registered magazines are freed only after they left the registry, whose
        // mutex is held; only their atomic lengths are read.
        let magazines = unsafe { registered.0.as_ref() };
        for (sum, magazine) in cached.iter_mut().zip(&magazines.0) {
            *sum += magazine.len.load(Relaxed) as usize;
        }
    }
    cached
}

/// How many slots of a chunk are free.
struct ChunkUse {
    /// Its address.
    start: usize,
    size_bytes: usize,
    /// Free slots, without those in magazines.
    free: usize,
}

fn class_report(class: usize, cached: usize) -> Option<ClassReport> {
    let central = central(class);
    if central.slots == 0 {
        return None;
    }
    let slot_bytes = class::slot_bytes(class);
    let mut chunks: Vec<ChunkUse> = central
        .chunks
        .iter()
        .map(|chunk| ChunkUse {
            start: chunk.start.as_ptr() as usize,
            size_bytes: chunk.size_bytes,
            free: 0,
        })
        .collect();
    chunks.sort_unstable_by_key(|chunk| chunk.start);
    for slot in &central.free {
        let address = slot.0.as_ptr() as usize;
        let chunk = chunks.partition_point(|chunk| chunk.start <= address) - 1;
        chunks[chunk].free += 1;
    }
    let fill = |chunk: &ChunkUse| 1.0 - chunk.free as f64 / (chunk.size_bytes / slot_bytes) as f64;
    Some(ClassReport {
        slot_bytes,
        slots: central.slots,
        live: central.slots.saturating_sub(central.free.len() + cached),
        free_central: central.free.len(),
        free_cached: cached,
        regions: central
            .chunks
            .iter()
            .filter(|chunk| chunk.size_bytes == REGION_BYTES)
            .count(),
        chunks: chunks
            .iter()
            .map(|chunk| chunk.start..chunk.start + chunk.size_bytes)
            .collect(),
        reserved_bytes: central.chunk_bytes,
        least_fill: chunks.iter().map(fill).fold(1.0, f64::min),
    })
}
