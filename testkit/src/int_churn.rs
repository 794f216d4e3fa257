//! Long churn on an index of integers, against an array: millions of operations a second, where a
//! model that is itself a tree would take most of the time.
//!
//! Keys are made of numbers from 0 to a bound, and an array says for each number what is stored.
//! Phases fill the index and empty it again, more and less thoroughly, down to nothing at the end;
//! in between stand stretches in key order, in which whole runs of neighbours come and go. Keys
//! are the numbers themselves, so that searches by order and scans can be checked too, or the
//! numbers scattered over all the key space.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, IntIndex};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub struct ChurnCampaign {
    /// Inserts, removals and lookups, before everything is removed.
    pub operations: u64,
    /// Different keys, at most 2^32.
    pub keys: u32,
    /// The invariants are verified after so many operations.
    pub verify_every: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChurnReport {
    /// Inserts of keys that were not there.
    pub inserts: u64,
    /// Removals of keys that were there.
    pub removals: u64,
    /// Lookups, searches by order, and pairs seen by scans.
    pub answers: u64,
    /// Times that the invariants were verified.
    pub verified: u64,
}

/// The index, the array, and how numbers become keys.
struct Churn<'a, I> {
    index: &'a mut I,
    /// The value of each number; 0 where the key is not stored.
    stored: Vec<u32>,
    live: usize,
    scattered: bool,
    report: ChurnReport,
}

/// Runs the campaign on an empty index, with keys scattered or dense.
///
/// # Errors
///
/// The first wrong answer, or violated invariant, in words.
pub fn churn<I: IntIndex<u64, Value = u64>>(
    index: &mut I,
    campaign: &ChurnCampaign,
    scattered: bool,
) -> Result<ChurnReport, String> {
    let mut rng = StdRng::seed_from_u64(campaign.seed);
    let mut churn = Churn {
        index,
        stored: vec![0; campaign.keys as usize],
        live: 0,
        scattered,
        report: ChurnReport::default(),
    };
    // Per cent of inserts among changes, phase by phase.
    let phases = [85, 15, 70, 45, 55, 10, 95, 50];
    let each = campaign.operations.div_ceil(phases.len() as u64).max(1);
    for number in 0..campaign.operations {
        let inserts = phases[(number / each) as usize % phases.len()];
        // Every fourth stretch of 4096 operations works upwards from one key.
        let in_order = number >> 12 & 3 == 3;
        let at = if in_order {
            let start = (number >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            (start as u32).wrapping_add(number as u32 & 0xfff) % campaign.keys
        } else {
            rng.random_range(0..campaign.keys)
        };
        if rng.random_range(0..100) < inserts {
            churn.insert(at, number as u32 | 1)?;
        } else {
            churn.remove(at)?;
        }
        churn.look_up(rng.random_range(0..campaign.keys))?;
        if number.is_multiple_of(campaign.verify_every.max(1)) {
            churn.verify()?;
        }
    }
    churn.verify()?;
    let mut left: Vec<u32> = (0..campaign.keys).collect();
    left.shuffle(&mut rng);
    for at in left {
        churn.remove(at)?;
    }
    churn.verify()?;
    Ok(churn.report)
}

impl<I: IntIndex<u64, Value = u64>> Churn<'_, I> {
    fn key(&self, number: u32) -> u64 {
        if self.scattered {
            u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        } else {
            u64::from(number)
        }
    }

    fn stored(&self, number: u32) -> Option<u64> {
        let value = self.stored[number as usize];
        (value != 0).then_some(u64::from(value))
    }

    fn insert(&mut self, number: u32, value: u32) -> Result<(), String> {
        let got = self.index.insert(self.key(number), u64::from(value));
        same("insert", number, got, self.stored(number))?;
        self.live += usize::from(got.is_none());
        self.report.inserts += u64::from(got.is_none());
        self.stored[number as usize] = value;
        Ok(())
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        let got = self.index.remove(self.key(number));
        same("remove", number, got, self.stored(number))?;
        self.live -= usize::from(got.is_some());
        self.report.removals += u64::from(got.is_some());
        self.stored[number as usize] = 0;
        Ok(())
    }

    /// Looks a number up, and every now and then what is next to it.
    fn look_up(&mut self, number: u32) -> Result<(), String> {
        let got = self.index.get(self.key(number));
        same("get", number, got, self.stored(number))?;
        self.report.answers += 1;
        if self.scattered || !number.is_multiple_of(16) || self.live * 64 < self.stored.len() {
            return Ok(());
        }
        let before = (0..=number).rev().find(|&at| self.stored(at).is_some());
        let after = (number..self.stored.len() as u32).find(|&at| self.stored(at).is_some());
        let pair = |at: u32| (u64::from(at), u64::from(self.stored[at as usize]));
        let found = self.index.predecessor(u64::from(number));
        same("predecessor", number, found, before.map(pair))?;
        let found = self.index.successor(u64::from(number));
        same("successor", number, found, after.map(pair))?;
        self.report.answers += 2;
        if number.is_multiple_of(1 << 12) {
            self.scan(number)?;
        }
        Ok(())
    }

    /// Compares the next hundred pairs.
    fn scan(&mut self, from: u32) -> Result<(), String> {
        let stored = (from..self.stored.len() as u32).filter_map(|at| {
            let value = self.stored(at)?;
            Some((u64::from(at), value))
        });
        let want: Vec<(u64, u64)> = stored.take(100).collect();
        let mut got = Vec::with_capacity(100);
        let from_key = Bound::Included(u64::from(from));
        self.index.scan(from_key, Direction::Forward, |key, value| {
            got.push((key, value));
            if got.len() == 100 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        self.report.answers += want.len() as u64;
        same("scan", from, got, want)
    }

    fn verify(&mut self) -> Result<(), String> {
        self.report.verified += 1;
        self.index.verify()?;
        same("len", 0, self.index.len(), self.live)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    number: u32,
    got: T,
    want: T,
) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!(
            "{what} of number {number}: got {got:?}, stored is {want:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SMALL: ChurnCampaign = ChurnCampaign {
        operations: 60_000,
        keys: 5_000,
        verify_every: 10_000,
        seed: 4,
    };

    #[test]
    fn the_standard_map_passes() {
        for scattered in [false, true] {
            let report = churn(&mut BTreeMap::new(), &SMALL, scattered).expect("a true map");
            assert_eq!(report.inserts, report.removals);
            assert!(report.inserts > 5_000, "{report:?}");
        }
    }

    /// A map that holds one key too many from the start.
    #[test]
    fn a_key_that_nobody_stored_is_found() {
        let mut map = BTreeMap::from([(77, 1)]);
        churn(&mut map, &SMALL, false).expect_err("a key from nowhere");
    }
}
