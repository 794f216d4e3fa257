//! An open-coded hash table of 8-byte keys, a third full at most, as §6.4 compares with.
//!
//! Linear probing over entries of 16 bytes; the table doubles when a third is taken (the
//! paper's was 30 % full), and removal moves later entries up, so that nothing is left behind.

use std::cell::RefCell;

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;
use hedgerow_lab_data::random::mix64;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// 0 where there is no entry.
    key: u64,
    value: u64,
}

/// A hash table for one thread and keys of exactly 8 bytes.
#[derive(Default)]
pub struct HashTable(RefCell<Inner>);

struct Inner {
    entries: Vec<Entry>,
    taken: usize,
    /// The value of the key that means "no entry" among the others.
    of_zero: Option<u64>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            entries: vec![Entry::default(); 1 << 10],
            taken: 0,
            of_zero: None,
        }
    }
}

fn word(key: &[u8]) -> u64 {
    key.first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

impl Inner {
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    /// Where this key wants to be.
    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        mix64(key) as usize & self.mask()
    }

    /// The slot of this key, or the empty one where it would go.
    #[inline(always)]
    fn slot(&self, key: u64) -> usize {
        let mut slot = self.home(key);
        while self.entries[slot].key != 0 && self.entries[slot].key != key {
            slot = (slot + 1) & self.mask();
        }
        slot
    }

    fn put(&mut self, key: u64, value: u64) {
        let slot = self.slot(key);
        self.taken += usize::from(self.entries[slot].key == 0);
        self.entries[slot] = Entry { key, value };
    }

    fn grow(&mut self) {
        let larger = vec![Entry::default(); self.entries.len() * 2];
        let smaller = std::mem::replace(&mut self.entries, larger);
        self.taken = 0;
        for entry in smaller.iter().filter(|entry| entry.key != 0) {
            self.put(entry.key, entry.value);
        }
    }

    /// Empties a slot and moves up what was pushed behind it.
    fn remove(&mut self, mut hole: usize) {
        let mut slot = hole;
        loop {
            slot = (slot + 1) & self.mask();
            let entry = self.entries[slot];
            if entry.key == 0 {
                break;
            }
            let distance = |from: usize| slot.wrapping_sub(from) & self.mask();
            if distance(self.home(entry.key)) >= distance(hole) {
                self.entries[hole] = entry;
                hole = slot;
            }
        }
        self.entries[hole] = Entry::default();
        self.taken -= 1;
    }
}

impl Map for HashTable {
    fn put(&self, key: &[u8], value: u64) {
        let inner = &mut *self.0.borrow_mut();
        if inner.taken * 3 >= inner.entries.len() {
            inner.grow();
        }
        match word(key) {
            0 => inner.of_zero = Some(value),
            key => inner.put(key, value),
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let inner = &*self.0.borrow();
        let key = word(key);
        if key == 0 {
            return inner.of_zero;
        }
        let entry = inner.entries[inner.slot(key)];
        (entry.key != 0).then_some(entry.value)
    }

    fn remove(&self, key: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let key = word(key);
        if key == 0 {
            return inner.of_zero.take().is_some();
        }
        let slot = inner.slot(key);
        let was_there = inner.entries[slot].key != 0;
        if was_there {
            inner.remove(slot);
        }
        was_there
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
