//! Pending frees of a range removal: slots of shared overflow pages that its records named.
//!
//! The records of a range often name all slots of a shared overflow page, but from leaves that are
//! far apart. Freeing each slot with its record would read and write the page once for each slot.
//! So the removal collects the slots. When all slots of a page are collected, no record names the
//! page any more, and the removal releases it without reading it. At its end the removal frees
//! the other slots in the order of pages, and reads those pages together.
//!
//! The collection takes memory that the removal reserves of the pool in steps, a quarter of the
//! pool's own at most. When it gets no more, it frees what it has collected.
//!
//! Until a slot is freed it stays taken, though no record names it. If a checkpoint falls into the
//! removal and a crash follows before the next checkpoint, that slot's room is lost, and nothing
//! else.

use std::collections::HashMap;

use hedgerow_pages::{MemoryReservation, Operation, Pool};

use super::BTreeIndex;
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::page::PageNumber;
use crate::node::shared_overflow::SlotSet;

/// Pages that are collected before memory is reserved.
const FREELY: usize = 1 << 12;

/// Bytes that an entry of the collection takes, or a little less.
const FREE_BYTES: usize = 20;

/// Slots that are to be freed, by shared overflow pages.
pub(super) struct RangeFrees<'p, const PAGE: usize> {
    by_page: HashMap<PageNumber, SlotSet>,
    most: usize,
    reservations: Vec<MemoryReservation<'p, PAGE>>,
}

impl<const PAGE: usize> Default for RangeFrees<'_, PAGE> {
    fn default() -> Self {
        Self {
            by_page: HashMap::new(),
            most: FREELY,
            reservations: Vec::new(),
        }
    }
}

impl<'p, const PAGE: usize> RangeFrees<'p, PAGE> {
    /// Adds a slot. If all slots of its page are collected now, removes the page from the
    /// collection and returns its class.
    fn add(&mut self, chain: &Chain) -> Option<usize> {
        let entry = self.by_page.entry(chain.slot_page);
        let slots = entry.or_insert(SlotSet::empty(chain.class));
        slots.bits |= chain.slot_bit();
        let slots = *slots;
        slots.is_whole().then(|| {
            self.by_page.remove(&chain.slot_page);
            usize::from(slots.class)
        })
    }

    /// Whether there is room for another page, after reserving memory if need be.
    fn has_room(&mut self, pool: &'p Pool<PAGE>) -> bool {
        if self.by_page.len() < self.most {
            return true;
        }
        // Of this removal and others.
        let reserved = pool.reserved_bytes();
        let budget = pool.limit() * PAGE + reserved;
        let wanted = (self.most * FREE_BYTES).min((budget / 4).saturating_sub(reserved));
        if wanted < FREELY * FREE_BYTES {
            return false;
        }
        let reservation = pool.reserve_memory(wanted);
        self.most += reservation.bytes() / FREE_BYTES;
        self.reservations.push(reservation);
        self.by_page.len() < self.most
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Releases the pages that a removed record named, and collects its slot. Pages that cannot be
    /// read stay in use: the record is gone.
    pub(super) fn release_with_range<'p>(
        &'p self,
        chain: &Chain,
        frees: &mut RangeFrees<'p, PAGE>,
        operation: &Operation<'p>,
    ) {
        let _ = self.release_pages(chain, operation);
        if chain.class > 0
            && let Some(class) = frees.add(chain)
        {
            let _ = self.release_slot_page(class, chain.slot_page, operation);
        }
    }

    /// Frees the collected slots if there is no room for more.
    pub(super) fn apply_range_frees_if_full<'p>(&'p self, frees: &mut RangeFrees<'p, PAGE>) {
        if !frees.has_room(&self.pool) {
            self.apply_range_frees(frees);
        }
    }

    /// Frees the collected slots. The caller has no latch, and is in no operation.
    pub(super) fn apply_range_frees<'p>(&'p self, frees: &mut RangeFrees<'p, PAGE>) {
        let mut by_page: Vec<_> = frees.by_page.drain().collect();
        by_page.sort_unstable();
        // What cannot be freed now, as on a full disk, is pending.
        let _ = self.apply_collected_frees(by_page);
    }
}
