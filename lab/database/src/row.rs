//! Rows, and where they are.
//!
//! A row is four allocations, as in DBx1000 (§4.3.3): the row, its data, its wrapper, which the
//! concurrency control owns, and its lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hedgerow_memory::PlacedBox;

use crate::row_lock::{LockBox, RowLock};
use crate::settings::Settings;

/// Which row of a table, as indexes hold it: the row's number and its incarnation, as a row that
/// was removed is used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowAt(u64);

/// Bits of a row's number; the rest is the incarnation's.
const NUMBER_BITS: u32 = 40;

impl RowAt {
    /// The row that an index's value names.
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The value of an index that names the row.
    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// A row: 64 bytes, and what they lead to.
#[derive(Debug)]
pub struct Row {
    number: u64,
    /// Odd while a row is there, even while the place is free.
    incarnation: AtomicU32,
    words: PlacedBox<[AtomicU64]>,
    wrapper: PlacedBox<RowWrapper>,
    _rest: u64,
}

const _: () = assert!(size_of::<Row>() == 64);

/// What the concurrency control keeps of a row: 64 bytes, and the lock.
#[derive(Debug)]
struct RowWrapper {
    lock: LockBox,
    _rest: [u64; 5],
}

const _: () = assert!(size_of::<RowWrapper>() == 64);

impl Row {
    /// A place for rows of so many words.
    pub(crate) fn new(number: u64, words: usize, settings: Settings) -> Self {
        assert!(number >> NUMBER_BITS == 0, "at most 2^40 rows a table");
        let placement = settings.placement;
        let wrapper = RowWrapper {
            lock: LockBox::new(settings.padded_locks, placement),
            _rest: [0; 5],
        };
        Self {
            number,
            incarnation: AtomicU32::new(0),
            words: PlacedBox::from_fn(words, placement, |_| AtomicU64::new(0)),
            wrapper: PlacedBox::new(wrapper, placement),
            _rest: 0,
        }
    }

    /// A word of the row. It is stable while the row is locked.
    #[inline]
    #[must_use]
    pub fn word(&self, column: usize) -> u64 {
        self.words[column].load(Ordering::Relaxed)
    }

    /// Copies the row's words.
    pub fn copy_to(&self, words: &mut Vec<u64>) {
        words.clear();
        words.extend(self.words.iter().map(|word| word.load(Ordering::Relaxed)));
    }

    /// Where the row is, as it is now.
    #[must_use]
    pub fn at(&self) -> RowAt {
        let incarnation = u64::from(self.incarnation.load(Ordering::Acquire));
        RowAt(incarnation << NUMBER_BITS | self.number)
    }

    /// Whether a row is there.
    pub(crate) fn is_live(&self) -> bool {
        self.incarnation.load(Ordering::Acquire) % 2 == 1
    }

    /// Stores a word; the caller has the row exclusively.
    #[inline]
    pub(crate) fn store(&self, column: usize, word: u64) {
        self.words[column].store(word, Ordering::Relaxed);
    }

    /// Fills the row; the caller has it exclusively.
    pub(crate) fn fill(&self, words: &[u64]) {
        assert_eq!(words.len(), self.words.len(), "a row of this table");
        for (place, word) in self.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
    }

    /// Makes a free place a row, or a row a free place; the caller has it exclusively. Returns
    /// where it is from now on. Only so many incarnations are told apart as a [`RowAt`] has bits
    /// for: 2^24.
    pub(crate) fn change_incarnation(&self) -> RowAt {
        let next = self.incarnation.load(Ordering::Relaxed) + 1;
        let next = next % (1 << (u64::BITS - NUMBER_BITS));
        self.incarnation.store(next, Ordering::Release);
        self.at()
    }

    pub(crate) fn lock(&self) -> &RowLock {
        self.wrapper.lock.lock()
    }
}
