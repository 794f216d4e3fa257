//! An open-coded hash table of 8-byte keys for any number of threads, a third full at most, as
//! §6.4 compares with.
//!
//! Linear probing over entries of 16 bytes. A key comes into an empty entry by one
//! compare-and-swap and stays there; its value follows by a store, and a key that has none is not
//! there yet, or is removed. The table doubles when a third is taken (the paper's was 30 % full
//! and did not grow). Who doubles it must be alone: each thread reads under a lock of its stripe,
//! held over up to a thousand operations of a run as Masstree's pins are, and who doubles takes
//! the locks of all stripes.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use hedgerow_lab_contender::{Map, Tally, value_of};
use hedgerow_lab_data::KeyRange;
use hedgerow_lab_data::random::mix64;
use hedgerow_sync::{CachePadded, threads};

use hedgerow_lab_own::OPERATIONS_PER_PIN;

const STRIPES: usize = 16;

/// Keys that a stripe takes between two looks at how full the table is.
const KEYS_BETWEEN_LOOKS: usize = 16;

/// The value of a key that is not there.
const ABSENT: u64 = 0;

/// Where the value would mean one of these two, it is among the rare ones.
const ELSEWHERE: u64 = 1;

#[derive(Default)]
struct Entry {
    /// 0 where there is no entry.
    key: AtomicU64,
    value: AtomicU64,
}

struct Table(Box<[Entry]>);

impl Table {
    fn new(entries: usize) -> Self {
        Self((0..entries).map(|_| Entry::default()).collect())
    }

    /// The entries from where this key wants to be, around.
    #[inline(always)]
    fn entries(&self, key: u64) -> impl Iterator<Item = &Entry> {
        let mask = self.0.len() - 1;
        (mix64(key) as usize & mask..).map(move |nth| &self.0[nth & mask])
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<&Entry> {
        for entry in self.entries(key) {
            match entry.key.load(Relaxed) {
                0 => return None,
                held if held == key => return Some(entry),
                _ => {}
            }
        }
        None
    }

    /// Puts a value; whether the key is new.
    #[inline(always)]
    fn put(&self, key: u64, value: u64) -> bool {
        for entry in self.entries(key) {
            let mut held = entry.key.load(Relaxed);
            if held == 0 {
                match entry.key.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => {
                        entry.value.store(value, Relaxed);
                        return true;
                    }
                    Err(now) => held = now,
                }
            }
            if held == key {
                entry.value.store(value, Relaxed);
                return false;
            }
        }
        false
    }
}

struct Stripe {
    /// All stripes have the same.
    table: RwLock<Arc<Table>>,
    /// Keys that came in through this stripe.
    taken: AtomicUsize,
}

impl Stripe {
    fn table(&self) -> RwLockReadGuard<'_, Arc<Table>> {
        self.table.read().expect("nobody panics with the table")
    }
}

/// A hash table for keys of exactly 8 bytes.
pub struct HashTable {
    stripes: Box<[CachePadded<Stripe>]>,
    /// The value of the key that means "no entry" among the others, and values that mean
    /// something else among the others.
    rare: Mutex<HashMap<u64, u64>>,
}

impl Default for HashTable {
    fn default() -> Self {
        let table = Arc::new(Table::new(1 << 10));
        let stripe = |_| {
            CachePadded::new(Stripe {
                table: RwLock::new(Arc::clone(&table)),
                taken: AtomicUsize::new(0),
            })
        };
        Self {
            stripes: (0..STRIPES).map(stripe).collect(),
            rare: Mutex::default(),
        }
    }
}

#[inline(always)]
fn word(key: &[u8]) -> u64 {
    key.first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

impl HashTable {
    fn stripe(&self) -> &Stripe {
        &self.stripes[threads::number() % STRIPES]
    }

    fn rare(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.rare.lock().expect("nobody panics with rare values")
    }

    #[inline(always)]
    fn get_from(&self, table: &Table, key: &[u8]) -> Option<u64> {
        let key = word(key);
        let value = match key {
            0 => ELSEWHERE,
            key => table.find(key)?.value.load(Relaxed),
        };
        match value {
            ABSENT => None,
            ELSEWHERE => self.rare().get(&key).copied(),
            value => Some(value),
        }
    }

    /// Puts a pair; whether the table has too many by now.
    #[inline(always)]
    fn put_into(&self, table: &Table, stripe: &Stripe, key: u64, mut value: u64) -> bool {
        if key == 0 || value <= ELSEWHERE {
            self.rare().insert(key, value);
            value = ELSEWHERE;
        }
        if key == 0 || !table.put(key, value) {
            return false;
        }
        let taken = stripe.taken.fetch_add(1, Relaxed) + 1;
        taken.is_multiple_of(KEYS_BETWEEN_LOOKS) && self.taken() * 3 >= table.0.len()
    }

    fn put_all<'a>(&self, pairs: impl Iterator<Item = (&'a [u8], u64)>) {
        let stripe = self.stripe();
        let mut table = stripe.table();
        for (key, value) in pairs {
            if self.put_into(&table, stripe, word(key), value) {
                let entries = table.0.len();
                drop(table);
                self.grow(entries);
                table = stripe.table();
            }
        }
    }

    fn taken(&self) -> usize {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| stripe.taken.load(Relaxed)).sum()
    }

    /// Doubles the table, unless another thread has.
    #[cold]
    fn grow(&self, entries: usize) {
        let stripes = self.stripes.iter();
        let mut locked: Vec<_> = stripes
            .map(|stripe| stripe.table.write().expect("nobody panics with the table"))
            .collect();
        if locked[0].0.len() > entries {
            return;
        }
        let larger = Table::new(entries * 2);
        let mut taken = 0;
        for entry in &locked[0].0 {
            let (key, value) = (entry.key.load(Relaxed), entry.value.load(Relaxed));
            if key != 0 && value != ABSENT {
                larger.put(key, value);
                taken += 1;
            }
        }
        let larger = Arc::new(larger);
        for (stripe, table) in self.stripes.iter().zip(&mut locked) {
            stripe.taken.store(std::mem::take(&mut taken), Relaxed);
            **table = Arc::clone(&larger);
        }
    }
}

impl Map for HashTable {
    fn put(&self, key: &[u8], value: u64) {
        self.put_all(std::iter::once((key, value)));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get_from(&self.stripe().table(), key)
    }

    fn remove(&self, key: &[u8]) -> bool {
        match word(key) {
            0 => self.rare().remove(&0).is_some(),
            key => {
                let table = self.stripe().table();
                let entry = table.find(key);
                entry.is_some_and(|entry| entry.value.swap(ABSENT, Relaxed) != ABSENT)
            }
        }
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let pairs = some.iter();
            self.put_all(pairs.map(|key| (key, value_of(key).wrapping_add(add))));
        }
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        let mut tally = Tally::default();
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let table = self.stripe().table();
            for key in some.iter() {
                tally.count(self.get_from(&table, key));
            }
        }
        tally
    }

    fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
        let zero = black_box(0_u64);
        let mut tally = Tally::default();
        let mut last = 0;
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let table = self.stripe().table();
            for index in 0..some.len() as u64 {
                let key = some.get((index + (last & zero)) as usize);
                let value = self.get_from(&table, key);
                last = value.unwrap_or(0);
                tally.count(value);
            }
        }
        tally
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
