//! The map that a round measures, and the threads that work on it.
//!
//! A run is shared out among threads, each pinned to a core; they start together, and the
//! slowest one's time counts.

use std::ops::Range;
use std::sync::Barrier;

use hedgerow_lab_contender::{Map, MapEntry, NewMap, Tally};

use crate::counters;
use crate::machine::{pin_this_thread, timed};
use crate::{LabError, Result};

/// A share of a run, done by one thread.
pub type Body<'a> = &'a (dyn Fn(&dyn Map, Range<usize>) -> Tally + Sync);

/// A fresh map and the threads that work on it.
pub enum Subject {
    /// For one thread.
    Single(Box<dyn Map>),
    /// For so many.
    Shared(Box<dyn Map + Send + Sync>, usize),
}

impl Subject {
    /// An empty map for so many threads.
    ///
    /// # Errors
    ///
    /// A contender that cannot be had, or that has too few threads.
    pub fn new(entry: &MapEntry, threads: usize) -> Result<Self> {
        match (
            entry.build.as_ref().map_err(LabError::unavailable)?,
            threads,
        ) {
            (NewMap::Single(new), 0 | 1) => Ok(Self::Single(new())),
            (NewMap::Concurrent(new), threads) => Ok(Self::Shared(new(), threads.max(1))),
            (NewMap::Single(_), _) => Err(LabError::Usage(format!(
                "{} is for one thread",
                entry.entry.name
            ))),
        }
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> &dyn Map {
        match self {
            Self::Single(map) => &**map,
            Self::Shared(map, _) => &**map,
        }
    }

    /// Runs `body` over `operations`; the slowest thread's seconds and the sum of tallies.
    pub fn drive(&self, operations: usize, body: Body<'_>) -> (f64, Tally) {
        counters::during(|| match self {
            Self::Single(map) => timed(|| body(&**map, 0..operations)),
            Self::Shared(map, 1) => timed(|| body(&**map, 0..operations)),
            Self::Shared(map, threads) => {
                let runs = on_threads(*threads, operations, &|share| body(&**map, share));
                let runs = runs.into_iter();
                runs.fold((0.0, Tally::default()), |(slowest, tally), (s, other)| {
                    (f64::max(slowest, s), tally.and(other))
                })
            }
        })
    }
}

/// Runs `body` on so many threads, each bound to a processor and with its share of the operations;
/// each one's seconds and result.
pub fn on_threads<R: Send>(
    threads: usize,
    operations: usize,
    body: &(dyn Fn(Range<usize>) -> R + Sync),
) -> Vec<(f64, R)> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|nth| {
                let share = operations * nth / threads..operations * (nth + 1) / threads;
                let barrier = &barrier;
                scope.spawn(move || {
                    pin_this_thread(nth);
                    barrier.wait();
                    timed(|| body(share))
                })
            })
            .collect();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().expect("a timed run panicked"));
        results.collect()
    })
}
