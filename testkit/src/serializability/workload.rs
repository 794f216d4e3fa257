//! Random transactions as plans: which keys to read, write and remove, and which ranges to read.
//! A seed and a process determine its plans; what they read is the database's affair.
//!
//! Transactions choose among few active keys, so that they conflict. Lists would grow without end,
//! and reading them would cost the square of the history, so the active keys move on: now and then
//! the lowest one retires, and one that nobody has written becomes active. Range reads and some of
//! the others look a little ahead of the active keys, at keys that are still absent: inserts into
//! what was read there are phantoms.

use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::history::{Key, KeyRange};

/// What keys hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// All are lists. No removals.
    Lists,
    /// All are registers.
    Registers,
    /// Even numbers are lists, odd ones registers.
    Mixed,
    /// The same, but in the last keyspace, where all are registers.
    MixedThenRegisters,
}

/// How often each active key is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// All equally often.
    Uniform,
    /// By Zipf's law: the n-th as often as 1 / n to the power of the exponent.
    Zipf {
        /// The exponent; at 0 the choice is uniform.
        exponent: f64,
    },
}

/// How often an operation is of each kind: weights, not percentages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Reads of a key.
    pub read: u32,
    /// Writes to a register, appends to a list.
    pub write: u32,
    /// Removals of a register; of a list, appends.
    pub remove: u32,
    /// Reads of a range.
    pub range: u32,
}

/// A workload; [`Workload::default`] has many conflicts of all kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Clients, each of which runs one transaction after the other.
    pub processes: usize,
    /// Transactions of each process.
    pub transactions: usize,
    /// Operations of a transaction.
    pub operations: RangeInclusive<usize>,
    /// Keyspaces, numbered from 0.
    pub keyspaces: u32,
    /// Active keys of each keyspace.
    pub keys: u64,
    /// After so many transactions of a process another key becomes active; 0 is never.
    pub transactions_per_new_key: usize,
    /// What keys hold.
    pub kinds: Kinds,
    /// Which active keys are chosen.
    pub choice: Choice,
    /// What operations do.
    pub mix: Mix,
    /// The most keys that a range covers.
    pub range_keys: u64,
    /// Out of 100: how many reads are of keys that are not active yet, so absent.
    pub ahead_percent: u32,
    /// Out of 100: how many writes to a register read it first.
    pub update_percent: u32,
    /// Out of 100: how many transactions are rolled back instead of committed.
    pub rollback_percent: u32,
    /// Out of 100: how many transactions remove a range of registers of the last keyspace, and do
    /// nothing else. Only where that has no lists, and where transactions are serializable: under
    /// snapshot isolation a removal of what is absent does not conflict with a write.
    pub range_removal_percent: u32,
    /// Out of 100: how many transactions lock their keys, of those that read no range.
    pub locked_percent: u32,
    /// Seed of all choices.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            processes: 4,
            transactions: 100,
            operations: 1..=6,
            keyspaces: 2,
            keys: 12,
            transactions_per_new_key: 10,
            kinds: Kinds::Mixed,
            choice: Choice::Zipf { exponent: 0.6 },
            mix: Mix {
                read: 4,
                write: 4,
                remove: 1,
                range: 2,
            },
            range_keys: 8,
            ahead_percent: 10,
            update_percent: 50,
            rollback_percent: 3,
            range_removal_percent: 0,
            locked_percent: 0,
            seed: 0,
        }
    }
}

impl Workload {
    /// Whether a key holds a list.
    pub fn is_list(&self, key: Key) -> bool {
        match self.kinds {
            Kinds::Lists => true,
            Kinds::Registers => false,
            Kinds::Mixed => key.number.is_multiple_of(2),
            Kinds::MixedThenRegisters => {
                key.keyspace + 1 < self.keyspaces && key.number.is_multiple_of(2)
            }
        }
    }

    /// The plans of one process, one for each of its transactions.
    pub fn plans(&self, process: usize) -> Plans<'_> {
        Plans {
            workload: self,
            random: StdRng::seed_from_u64(self.seed ^ ((process as u64 + 1) << 40)),
            shares: shares(self.keys, self.choice),
            planned: 0,
        }
    }
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read a key.
    Read(Key),
    /// Write a new value to a register, or append a new element to a list.
    Write(Key),
    /// Remove a register.
    Remove(Key),
    /// Read all keys of a range.
    ReadRange(KeyRange),
    /// Remove all registers of a range: a transaction by itself.
    RemoveRange(KeyRange),
}

impl Step {
    /// The only key that it is about, if there is one.
    pub fn key(self) -> Option<Key> {
        match self {
            Step::Read(key) | Step::Write(key) | Step::Remove(key) => Some(key),
            Step::ReadRange(_) | Step::RemoveRange(_) => None,
        }
    }
}

/// The most keys of a removed range.
const MOST_REMOVED: u64 = 4;

/// What a transaction is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Whether it is rolled back at the end.
    pub is_rolled_back: bool,
    /// Whether it locks its keys. It reads no range then, and is not rolled back.
    pub is_locked: bool,
}

impl Plan {
    /// Whether it writes nothing.
    pub fn only_reads(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.all(|step| matches!(step, Step::Read(_) | Step::ReadRange(_)))
    }
}

/// The plans of a process.
#[derive(Debug)]
pub struct Plans<'w> {
    workload: &'w Workload,
    random: StdRng,
    /// The share of choices that fall on each active key or on one before it; the last is 1.
    shares: Vec<f64>,
    planned: usize,
}

fn shares(keys: u64, choice: Choice) -> Vec<f64> {
    let exponent = match choice {
        Choice::Uniform => 0.0,
        Choice::Zipf { exponent } => exponent,
    };
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    sums.into_iter().map(|up_to| up_to / sum).collect()
}

impl Iterator for Plans<'_> {
    type Item = Plan;

    fn next(&mut self) -> Option<Plan> {
        if self.planned == self.workload.transactions {
            return None;
        }
        let percent = self.workload.range_removal_percent;
        if percent > 0 && self.random.random_ratio(percent, 100) {
            let steps = vec![Step::RemoveRange(self.removed_range())];
            self.planned += 1;
            return Some(Plan {
                steps,
                is_rolled_back: false,
                is_locked: false,
            });
        }
        let operations = self.random.random_range(self.workload.operations.clone());
        let mut steps = Vec::with_capacity(operations);
        for _ in 0..operations {
            self.add_step(&mut steps);
        }
        let percent = self.workload.rollback_percent;
        let is_rolled_back = self.random.random_ratio(percent, 100);
        let percent = self.workload.locked_percent;
        let is_locked = percent > 0
            && self.random.random_ratio(percent, 100)
            && !is_rolled_back
            && steps.iter().all(|step| step.key().is_some());
        self.planned += 1;
        Some(Plan {
            steps,
            is_rolled_back,
            is_locked,
        })
    }
}

impl Plans<'_> {
    fn add_step(&mut self, steps: &mut Vec<Step>) {
        let Mix {
            read,
            write,
            remove,
            range,
        } = self.workload.mix;
        let chosen = self.random.random_range(0..read + write + remove + range);
        if chosen < read {
            steps.push(Step::Read(self.read_key()));
        } else if chosen < read + range {
            let start = self.read_key();
            let keys = self.random.random_range(1..=self.workload.range_keys);
            steps.push(Step::ReadRange(KeyRange {
                keyspace: start.keyspace,
                start: start.number,
                end: start.number + keys,
            }));
        } else {
            let key = self.active_key();
            let is_list = self.workload.is_list(key);
            let percent = self.workload.update_percent;
            if !is_list && self.random.random_ratio(percent, 100) {
                steps.push(Step::Read(key));
            }
            steps.push(match chosen < read + range + remove && !is_list {
                true => Step::Remove(key),
                false => Step::Write(key),
            });
        }
    }

    fn first_active(&self) -> u64 {
        match self.workload.transactions_per_new_key {
            0 => 0,
            per_key => (self.planned / per_key) as u64,
        }
    }

    fn active_key(&mut self) -> Key {
        let keyspace = self.random.random_range(0..self.workload.keyspaces);
        let share: f64 = self.random.random();
        let rank = self.shares.partition_point(|up_to| *up_to <= share) as u64;
        // Each key keeps its rank while it is active: popular ones do not stand side by side.
        let number = self.first_active();
        let keys = self.workload.keys;
        let place = (rank * 7 + keys - number % keys) % keys;
        Key::new(keyspace, number + place)
    }

    fn removed_range(&mut self) -> KeyRange {
        let start = self.active_key().number;
        KeyRange {
            keyspace: self.workload.keyspaces - 1,
            start,
            end: start + self.random.random_range(1..=MOST_REMOVED),
        }
    }

    fn read_key(&mut self) -> Key {
        let mut key = self.active_key();
        if self.random.random_ratio(self.workload.ahead_percent, 100) {
            let ahead = self.random.random_range(0..self.workload.range_keys.max(1));
            key.number = self.first_active() + self.workload.keys + ahead;
        }
        key
    }
}
