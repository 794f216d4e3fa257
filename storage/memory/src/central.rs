//! The central store of one pool: its free slots, and the chunks that fresh ones are cut from.
//!
//! Slots lie side by side, but those of 2 to 8 KiB whose size is an even number of cache lines: a
//! line is left out behind each. Else the first lines of all slots, which searches of nodes read,
//! would share a few sets of each cache (of slots of 8 KiB one set of the first level's, and a
//! hundredth of the second level's); an odd distance uses all sets.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::class_report::ClassReport;
use crate::region::{self, Chunk, REGION_BYTES};

/// A pool takes whole regions once it has carved this much in small chunks.
const WHOLE_REGIONS_FROM_BYTES: usize = 512 << 10;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Bytes from one slot of a chunk to the next.
pub(crate) const fn stride_bytes(slot_bytes: usize) -> usize {
    let coloured = slot_bytes >= 2 << 10 && slot_bytes <= 8 << 10;
    if coloured && slot_bytes.is_multiple_of(2 * LINE_BYTES) {
        slot_bytes + LINE_BYTES
    } else {
        slot_bytes
    }
}

/// Bytes of all chunks that pools own.
static CHUNK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all chunks that pools own.
pub(crate) fn reserved_bytes() -> usize {
    CHUNK_BYTES.load(Relaxed)
}

/// A free slot.
#[derive(Clone, Copy)]
pub(crate) struct Slot(pub(crate) NonNull<u8>);

// SAFETY: a free slot is memory that nobody uses; it has no thread affinity.
unsafe impl Send for Slot {}

/// The slots of one pool that no magazine holds.
pub(crate) struct Central {
    free: Vec<Slot>,
    chunks: Vec<Chunk>,
    /// Bytes of the last chunk already cut into slots.
    cut_bytes: usize,
    chunk_bytes: usize,
    slots: usize,
}

impl Central {
    pub(crate) const EMPTY: Self = Self {
        free: Vec::new(),
        chunks: Vec::new(),
        cut_bytes: 0,
        chunk_bytes: 0,
        slots: 0,
    };

    /// Hands up to `wanted` free or fresh slots to `give`, the one to be used first last.
    /// Returns how many; 0 means that the kernel has no more memory.
    pub(crate) fn take(
        &mut self,
        slot_bytes: usize,
        wanted: usize,
        mut give: impl FnMut(Slot),
    ) -> usize {
        let taken = wanted.min(self.free.len());
        if taken > 0 {
            let keep = self.free.len() - taken;
            self.free.drain(keep..).for_each(give);
            return taken;
        }
        let Some(chunk) = self.chunk_with_room(slot_bytes) else {
            return 0;
        };
        let stride_bytes = stride_bytes(slot_bytes);
        let fresh = wanted.min((chunk.size_bytes - self.cut_bytes) / stride_bytes);
        for nth in (0..fresh).rev() {
            // SAFETY: `cut_bytes + fresh * stride_bytes` is within the chunk, by the division
            // above, so the slot is too.
            give(Slot(unsafe {
                chunk.start.add(self.cut_bytes + nth * stride_bytes)
            }));
        }
        self.cut_bytes += fresh * stride_bytes;
        self.slots += fresh;
        fresh
    }

    /// Takes slots back.
    pub(crate) fn give_back(&mut self, slots: &[Slot]) {
        self.free.extend_from_slice(slots);
    }

    fn chunk_with_room(&mut self, slot_bytes: usize) -> Option<Chunk> {
        if let Some(&chunk) = self.chunks.last()
            && chunk.size_bytes - self.cut_bytes >= stride_bytes(slot_bytes)
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

    /// How many slots are handed out, if `cached` free ones are in magazines. Visits none.
    pub(crate) fn live(&self, cached: usize) -> usize {
        self.slots.saturating_sub(self.free.len() + cached)
    }

    /// What the pool holds, of which `cached` free slots are in magazines; `None` if it was never
    /// used. Visits all free slots.
    pub(crate) fn report(
        &self,
        kind: Option<&'static str>,
        slot_bytes: usize,
        cached: usize,
    ) -> Option<ClassReport> {
        if self.slots == 0 {
            return None;
        }
        let chunks = self.uses();
        let slots_of = |chunk: &ChunkUse| (chunk.size_bytes / stride_bytes(slot_bytes)) as f64;
        let fill = |chunk: &ChunkUse| 1.0 - chunk.free as f64 / slots_of(chunk);
        Some(ClassReport {
            kind,
            slot_bytes,
            slots: self.slots,
            live: self.live(cached),
            free_central: self.free.len(),
            free_cached: cached,
            regions: self
                .chunks
                .iter()
                .filter(|chunk| chunk.size_bytes == REGION_BYTES)
                .count(),
            chunks: chunks
                .iter()
                .map(|chunk| chunk.start..chunk.start + chunk.size_bytes)
                .collect(),
            reserved_bytes: self.chunk_bytes,
            least_fill: chunks.iter().map(fill).fold(1.0, f64::min),
        })
    }

    /// Its chunks by address, with their free slots.
    fn uses(&self) -> Vec<ChunkUse> {
        let unused = |chunk: &Chunk| ChunkUse {
            start: chunk.start.as_ptr() as usize,
            size_bytes: chunk.size_bytes,
            free: 0,
        };
        let mut chunks: Vec<ChunkUse> = self.chunks.iter().map(unused).collect();
        chunks.sort_unstable_by_key(|chunk| chunk.start);
        for slot in &self.free {
            let address = slot.0.as_ptr() as usize;
            let chunk = chunks.partition_point(|chunk| chunk.start <= address) - 1;
            chunks[chunk].free += 1;
        }
        chunks
    }
}

/// How many slots of a chunk are free.
struct ChunkUse {
    /// Its address.
    start: usize,
    size_bytes: usize,
    /// Free slots, without those in magazines.
    free: usize,
}
