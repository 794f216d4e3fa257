//! Slots of shared overflow pages that become vacant in the course of a removal.
//!
//! The records of a range name slots of many shared overflow pages, and of a shared overflow page
//! often all slots, though from leaves that are far apart. To vacate each slot with its record
//! would read and write a shared overflow page as often as it has slots. So the slots are noted.
//! When all of a shared overflow page are, nobody else has or gets one, and the shared overflow
//! page is given back unseen; what is noted in the end is vacated in the order of pages, the
//! shared overflow pages read together.
//!
//! Notes take memory, which the pool lends: some at a time, a quarter of its own at most. When
//! there is no more, what is noted is vacated.
//!
//! Until then a slot stays taken that nobody names. That loses nothing but room, and that only if
//! a checkpoint falls into the removal and a crash follows before the next one.

use std::collections::HashMap;

use hedgerow_pages::{Loan, Operation, PageId, Pages, Pool};

use super::BTreeIndex;
use crate::chain::Chain;
use crate::configuration::Configuration;
use crate::pages::PageNumber;
use crate::shared_overflow::all_bits;

/// Shared overflow pages that are noted without a loan.
const FREELY: usize = 1 << 12;

/// Bytes that the note of a shared overflow page takes, or a little less.
const NOTE_BYTES: usize = 20;

/// Shared overflow pages that are read together.
const TOGETHER: usize = 64;

/// Slots that are to be vacated, by shared overflow pages: the class, and the bits.
pub(super) struct Vacancies<'p, const PAGE: usize> {
    noted: HashMap<PageNumber, (u8, u16)>,
    most: usize,
    loans: Vec<Loan<'p, PAGE>>,
}

impl<const PAGE: usize> Default for Vacancies<'_, PAGE> {
    fn default() -> Self {
        Self {
            noted: HashMap::new(),
            most: FREELY,
            loans: Vec::new(),
        }
    }
}

impl<'p, const PAGE: usize> Vacancies<'p, PAGE> {
    /// Notes a slot. If all of the shared overflow page are noted now, the shared overflow page's
    /// class: it is noted no more.
    fn note(&mut self, chain: &Chain) -> Option<usize> {
        let noted = self.noted.entry(chain.slot_page);
        let (class, bits) = noted.or_insert((chain.class as u8, 0));
        *bits |= chain.slot_bit();
        let class = usize::from(*class);
        (*bits == all_bits(class)).then(|| {
            self.noted.remove(&chain.slot_page);
            class
        })
    }

    /// Whether there is room for another note; if need be, the pool lends some.
    fn has_room(&mut self, pool: &'p Pool<PAGE>) -> bool {
        if self.noted.len() < self.most {
            return true;
        }
        // Of this removal and others.
        let lent = pool.lent_bytes();
        let budget = pool.limit() * PAGE + lent;
        let wanted = (self.most * NOTE_BYTES).min((budget / 4).saturating_sub(lent));
        if wanted < FREELY * NOTE_BYTES {
            return false;
        }
        let loan = pool.lend(wanted);
        self.most += loan.bytes() / NOTE_BYTES;
        self.loans.push(loan);
        self.noted.len() < self.most
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Gives back what a record named that is gone; its slot of a shared overflow page maybe
    /// later. What cannot be read of it stays in use: the change is made.
    pub(super) fn release_by_and_by<'p>(
        &'p self,
        chain: &Chain,
        vacancies: &mut Vacancies<'p, PAGE>,
        operation: &Operation<'p>,
    ) {
        let _ = self.release_pages(chain, operation);
        if chain.class > 0
            && let Some(class) = vacancies.note(chain)
        {
            let _ = self.release_slot_page(class, chain.slot_page, operation);
        }
    }

    /// Vacates what is noted if there is no room for more.
    pub(super) fn vacate_if_full<'p>(&'p self, vacancies: &mut Vacancies<'p, PAGE>) {
        if !vacancies.has_room(&self.pool) {
            self.vacate_noted(vacancies);
        }
    }

    /// Vacates what is noted.
    pub(super) fn vacate_noted<'p>(&'p self, vacancies: &mut Vacancies<'p, PAGE>) {
        let pool: &'p Pool<PAGE> = &self.pool;
        let mut noted: Vec<_> = vacancies.noted.drain().collect();
        noted.sort_unstable();
        for group in noted.chunks(TOGETHER) {
            let slot_pages: Vec<PageId> = group
                .iter()
                .map(|&(slot_page, _)| PageId(slot_page))
                .collect();
            pool.load_many(&slot_pages);
            for &(slot_page, (class, bits)) in group {
                let operation = pool.begin();
                let _ = self.vacate(usize::from(class), (slot_page, bits), &operation);
            }
        }
    }
}
