//! The index workloads are checked: the model passes them, and wrappers that add one bug each
//! are caught by the named driver.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_index::{
    Decide, Decision, Index, IndexError, IndexExt, LockedMap, ScanRange, Statistics,
    StatisticsKind, ValuePart, Visit,
};
use hedgerow_testkit::index_workload::{ConcurrentRun, check_concurrent, check_sequential};
use hedgerow_testkit::keys::KeyShape;
use rand::SeedableRng;
use rand::rngs::StdRng;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// Every 64th removal answers but does not happen.
    LostRemove,
    /// An update drops the latch between reading and writing.
    SplitUpdate,
    /// Every 32nd scan leaves out its second key.
    ScanSkips,
    /// Every 32nd scan visits its first key twice.
    ScanRepeats,
    /// Every 32nd scan goes on behind the end of its range.
    ScanPassesEnd,
    /// Every 32nd scan visits a pair more than its limit.
    ScanPassesLimit,
    /// `get_many` answers with what it saw a while ago.
    StaleGetMany,
}

/// The model with one bug.
struct Broken {
    model: LockedMap,
    bug: Option<Bug>,
    calls: AtomicU64,
    old: LockedMap,
}

impl Broken {
    fn new(bug: Option<Bug>) -> Self {
        let (model, old) = (LockedMap::new(), LockedMap::new());
        Broken {
            model,
            bug,
            calls: AtomicU64::new(0),
            old,
        }
    }

    fn strikes(&self, bug: Bug, every: u64) -> bool {
        self.bug == Some(bug) && self.calls.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }
}

impl Index for Broken {
    fn get(
        &self,
        key: &[u8],
        part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        self.model.get(key, part, read)
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        if self.bug != Some(Bug::StaleGetMany) {
            return self.model.get_many(keys, read);
        }
        for (i, key) in keys.iter().enumerate() {
            let fresh = self.model.read(key, ValuePart::Whole, <[u8]>::to_vec)?;
            let stale = self.old.read(key, ValuePart::Whole, <[u8]>::to_vec)?;
            read(i, stale.or(fresh.clone()).as_deref());
            if let Some(fresh) = fresh {
                let part = ValuePart::Whole;
                self.old.update(key, part, &mut Vec::new(), &mut |_, new| {
                    new.extend_from_slice(&fresh);
                    Decision::Put(())
                })?;
            }
        }
        Ok(())
    }

    fn update(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        if self.bug == Some(Bug::SplitUpdate) {
            let old = self.model.read(key, part, <[u8]>::to_vec)?;
            new.clear();
            let decision = decide(old.as_deref(), new);
            let bytes = new.clone();
            std::thread::yield_now();
            return self.model.update(key, part, new, &mut |_, new| {
                new.extend_from_slice(&bytes);
                decision
            });
        }
        let decide = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| match decide(old, new) {
            Decision::Remove(()) if self.strikes(Bug::LostRemove, 64) => Decision::Keep(()),
            decision => decision,
        };
        self.model.update(key, part, new, decide)
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        let (skips, repeats) = (
            self.strikes(Bug::ScanSkips, 32),
            self.strikes(Bug::ScanRepeats, 32),
        );
        let mut range = *range;
        if self.strikes(Bug::ScanPassesEnd, 32) {
            range.to = Bound::Unbounded;
        }
        if self.strikes(Bug::ScanPassesLimit, 32) {
            range.limit = range.limit.saturating_add(1);
        }
        let mut number = 0;
        self.model.scan(&range, &mut |key, value| {
            number += 1;
            if skips && number == 2 {
                return ControlFlow::Continue(());
            }
            if repeats && number == 1 {
                visit(key, value)?;
            }
            visit(key, value)
        })
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        self.model.partition(parts)
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        self.model.statistics(kind)
    }

    fn verify(&self) -> Result<(), String> {
        self.model.verify()
    }
}

fn concurrent(bug: Option<Bug>, seed: u64) -> Result<(), String> {
    let keys = KeyShape::Layers.distinct(6, &mut StdRng::seed_from_u64(seed));
    let run = ConcurrentRun {
        keys,
        threads: 3,
        operations: 3000,
        remove_percent: 25,
        seed,
    };
    check_concurrent(&Broken::new(bug), &run).map_err(|violation| violation.to_string())
}

fn sequential(bug: Option<Bug>) -> Result<(), String> {
    let keys = KeyShape::Email.distinct(100, &mut StdRng::seed_from_u64(3));
    check_sequential(&Broken::new(bug), &keys, 10_000, 3).map_err(|violation| violation.to_string())
}

#[test]
fn the_model_passes() {
    concurrent(None, 1).unwrap();
    sequential(None).unwrap();
}

#[test]
fn concurrent_histories_catch_each_bug() {
    for bug in [
        Bug::LostRemove,
        Bug::SplitUpdate,
        Bug::ScanSkips,
        Bug::ScanRepeats,
        Bug::StaleGetMany,
    ] {
        // A race needs the scheduler's help; each round is a fresh chance.
        let caught = (0..20).any(|seed| concurrent(Some(bug), seed).is_err());
        assert!(caught, "{bug:?} went unnoticed in 20 recorded runs");
    }
}

#[test]
fn the_model_comparison_catches_each_sequential_bug() {
    for bug in [
        Bug::LostRemove,
        Bug::ScanSkips,
        Bug::ScanRepeats,
        Bug::ScanPassesEnd,
        Bug::ScanPassesLimit,
    ] {
        assert!(sequential(Some(bug)).is_err(), "{bug:?} went unnoticed");
    }
}
