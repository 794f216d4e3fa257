//! Memory reservations: parts of a pool's budget that its owner uses for something else.
//!
//! Recovery sorts a part of the log before it changes pages. The memory for that comes out of the
//! pool's budget, so the pool has fewer pages meanwhile.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use crate::budget::LEAST_RESIDENT;
use crate::pool::Pool;

/// Memory out of a pool's budget, until it is dropped. Made by [`Pool::reserve_memory`].
#[must_use = "the pool has it back when this is dropped"]
pub struct MemoryReservation<'p, const PAGE: usize> {
    pool: &'p Pool<PAGE>,
    pages: usize,
}

impl<const PAGE: usize> Pool<PAGE> {
    /// Reserves memory: as much of `bytes` as the pool can spare, which keeps a quarter of its
    /// pages, no fewer than it needs, and those that it cannot evict now. Evicts what no longer
    /// fits before it returns.
    pub fn reserve_memory(&self, bytes: usize) -> MemoryReservation<'_, PAGE> {
        let mut reservation = MemoryReservation {
            pool: self,
            pages: 0,
        };
        // Never fails: the closure always has an answer.
        let _ = self
            .reserved_pages
            .fetch_update(Relaxed, Relaxed, |reserved| {
                let limit = self.limit_beside(reserved);
                let spare = limit.saturating_sub((limit / 4).max(LEAST_RESIDENT as usize / 2));
                reservation.pages = spare.min(bytes.div_ceil(PAGE));
                Some(reserved + reservation.pages)
            });
        self.limit_superpages();
        self.evict_ahead(0);
        let over = self.resident.load(Relaxed).saturating_sub(self.limit());
        let back = over.min(reservation.pages);
        reservation.pages -= back;
        self.reserved_pages.fetch_sub(back, Relaxed);
        reservation
    }

    /// What is reserved now, in bytes. Costs a load.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved_pages.load(Relaxed) * PAGE
    }
}

impl<const PAGE: usize> MemoryReservation<'_, PAGE> {
    /// How many bytes are reserved, a whole number of pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages * PAGE
    }
}

impl<const PAGE: usize> Drop for MemoryReservation<'_, PAGE> {
    fn drop(&mut self) {
        self.pool.reserved_pages.fetch_sub(self.pages, Relaxed);
    }
}

impl<const PAGE: usize> fmt::Debug for MemoryReservation<'_, PAGE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReservation")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
