//! A table: rows of so many words, and the places of those that were removed.

use std::sync::{Mutex, PoisonError};

use crate::row::{Row, RowAt};
use crate::row_lock::Request;
use crate::settings::Settings;
use crate::slots::Slots;

pub(crate) struct Table {
    name: &'static str,
    words: usize,
    settings: Settings,
    slots: Slots,
    free: Mutex<Vec<u64>>,
}

impl Table {
    pub(crate) fn new(name: &'static str, words: usize, settings: Settings) -> Self {
        Self {
            name,
            words,
            settings,
            slots: Slots::new(),
            free: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn row(&self, at: RowAt) -> &Row {
        self.slots.row(at.number())
    }

    /// A free place, locked as `exclusive` says and filled with `words`; a row only once its
    /// incarnation changes.
    pub(crate) fn place(&self, exclusive: Request, words: &[u64]) -> &Row {
        let free = self.free().pop().map(|number| self.slots.row(number));
        // Somebody may have read in an index of the row that was removed, and lock the place until
        // he finds out: then it stays free.
        let locked = free.filter(|row| {
            let is_locked = row.lock().acquire(exclusive, || 0).is_ok();
            if !is_locked {
                self.free().push(row.at().number());
            }
            is_locked
        });
        let row = locked.unwrap_or_else(|| {
            let new = |number| Row::new(number, self.words, self.settings);
            let row = self.slots.add(new, self.settings.placement);
            let locked = row.lock().acquire(exclusive, || 0);
            locked.expect("nobody knows a new row");
            row
        });
        row.fill(words);
        row
    }

    /// Lets a place that is no row be used again. The caller has unlocked it.
    pub(crate) fn free_place(&self, row: &Row) {
        debug_assert!(!row.is_live());
        self.free().push(row.at().number());
    }

    /// Visits all rows; for quiet moments.
    pub(crate) fn for_each(&self, visit: impl FnMut(&Row)) {
        let rows = (0..self.slots.len()).map(|number| self.slots.row(number));
        rows.filter(|row| row.is_live()).for_each(visit);
    }

    /// Makes room for so many rows more.
    pub(crate) fn reserve(&self, rows: u64) {
        self.slots.reserve(rows);
    }

    /// How many places for rows there is room for, made or not.
    #[cfg(test)]
    pub(crate) fn room(&self) -> u64 {
        self.slots.room()
    }

    /// How many places for rows there are, used or free.
    pub(crate) fn places(&self) -> u64 {
        self.slots.len()
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
