//! The operations of a workload, one after the other.

use super::kind::{Kind, Operation};
use super::plan::Plan;
use super::{Mix, ScanLength, Workload};
use crate::random::{Permutation, Random};
use crate::{Distribution, Sampler};

impl Workload {
    /// The timed operations of one thread of a plan, the same for the same `seed`.
    ///
    /// # Panics
    ///
    /// If the plan does not have this thread.
    #[must_use]
    pub fn operations(&self, plan: &Plan, thread: u64, seed: u64) -> Operations {
        assert!(thread < plan.threads, "thread {thread} of {}", plan.threads);
        Operations::new(self, plan, thread, seed)
    }

    /// The churn of a plan, for one thread: it happens before the clock starts.
    #[must_use]
    pub fn churn(&self, plan: &Plan, seed: u64) -> Operations {
        let churn = Self {
            mix: Mix {
                insert: 0.5,
                remove: 0.5,
                ..Mix::default()
            },
            alternating: true,
            anywhere: false,
            ..self.clone()
        };
        let plan = Plan {
            known: plan.loaded,
            operations: plan.churn,
            threads: 1,
            ..*plan
        };
        Operations::new(&churn, &plan, 0, !seed)
    }
}

/// The operations of one thread.
///
/// Threads need not wait for each other to be right: new records are dealt out in turn, and
/// each thread reads what was there at the start and what it inserted itself, so that a lookup
/// finds its record (unless it was removed) however the threads interleave. An iterator ends
/// early where new records, or records to remove, run out.
#[derive(Debug, Clone)]
pub struct Operations {
    random: Random,
    left: u64,
    kinds: Kinds,
    sampler: Sampler,
    scan_length: ScanLength,
    anywhere: bool,
    /// Whether the sampler is sized for the records at the end, and those not yet inserted
    /// are drawn again: growing would move the popular records each time.
    final_size: bool,
    /// Records inserted before the start.
    known: u64,
    keys: u64,
    thread: u64,
    threads: u64,
    inserted: u64,
    removed: u64,
    /// None where removals go in order, too.
    removal_order: Option<Permutation>,
}

impl Operations {
    fn new(workload: &Workload, plan: &Plan, thread: u64, seed: u64) -> Self {
        let final_size = matches!(workload.distribution, Distribution::ScrambledZipf { .. });
        let known = plan.known;
        let most_own = known
            + (plan.keys - known)
                .saturating_sub(thread)
                .div_ceil(plan.threads);
        let drawn_from = match () {
            () if workload.anywhere => plan.keys,
            () if final_size => most_own,
            () => known,
        };
        let start = (u128::from(drawn_from) * u128::from(thread) / u128::from(plan.threads)) as u64;
        Self {
            random: Random::for_thread(seed, thread),
            left: plan.operations_of(thread),
            kinds: Kinds::new(workload),
            // Resized before it is drawn from, where there is nothing yet.
            sampler: Sampler::new(workload.distribution, drawn_from.max(1)).starting_at(start),
            scan_length: workload.scan_length,
            anywhere: workload.anywhere,
            final_size,
            known,
            keys: plan.keys,
            thread,
            threads: plan.threads,
            inserted: 0,
            removed: 0,
            removal_order: (known > 0 && workload.distribution != Distribution::Sequential)
                .then(|| Permutation::new(known, seed)),
        }
    }

    /// The record of a new insertion.
    fn fresh(&mut self) -> Option<u64> {
        let record = self.own(self.known + self.inserted);
        if record >= self.keys {
            return None;
        }
        self.inserted += 1;
        Some(record)
    }

    /// The record at a position of this thread's view: what was there, then its own inserts.
    fn own(&self, position: u64) -> u64 {
        match position.checked_sub(self.known) {
            None => position,
            Some(insert) => self.known + self.thread + insert * self.threads,
        }
    }

    /// The next record to remove, each once.
    fn doomed(&mut self) -> Option<u64> {
        let turn = self.thread + self.removed * self.threads;
        if turn >= self.known {
            return None;
        }
        self.removed += 1;
        Some(
            self.removal_order
                .as_ref()
                .map_or(turn, |order| order.at(turn)),
        )
    }

    /// A record chosen by the distribution; `None` where there is none yet.
    fn chosen(&mut self) -> Option<u64> {
        if self.anywhere {
            return Some(self.sampler.draw(&mut self.random));
        }
        let there = self.known + self.inserted;
        if there == 0 {
            return None;
        }
        if !self.final_size {
            self.sampler.resize(there);
            let position = self.sampler.draw(&mut self.random);
            return Some(self.own(position));
        }
        let mut position = self.sampler.draw(&mut self.random);
        // Few of the records are missing in the mixes that this is for; where many are, the
        // search is cut short.
        for _ in 0..64 {
            if position < there {
                break;
            }
            position = self.sampler.draw(&mut self.random);
        }
        Some(self.own(position % there))
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let mut kind = self.kinds.next(&mut self.random)?;
        let record = match kind {
            _ if self.anywhere => self.chosen()?,
            kind if kind.inserts() => self.fresh()?,
            Kind::Remove => self.doomed()?,
            _ => match self.chosen() {
                Some(record) => record,
                // Nothing is there yet: the first operation has to put something there.
                None => {
                    kind = Kind::Insert;
                    self.fresh()?
                }
            },
        };
        let scan_length = match kind {
            Kind::Scan => self.scan_length.draw(&mut self.random),
            _ => 0,
        };
        Some(Operation {
            kind,
            record,
            scan_length,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// Chooses kinds by their shares: drawn, or in rotation.
#[derive(Debug, Clone)]
struct Kinds {
    shares: Vec<(Kind, f64)>,
    /// What each kind is owed, when they rotate.
    owed: Option<Vec<f64>>,
}

impl Kinds {
    fn new(workload: &Workload) -> Self {
        let mut shares = workload.mix.shares().to_vec();
        shares.retain(|(_, share)| *share > 0.0);
        let owed = workload.alternating.then(|| vec![0.0; shares.len()]);
        Self { shares, owed }
    }

    fn next(&mut self, random: &mut Random) -> Option<Kind> {
        let (last, _) = *self.shares.last()?;
        if let Some(owed) = &mut self.owed {
            for (debt, (_, share)) in owed.iter_mut().zip(&self.shares) {
                *debt += share;
            }
            // The largest debt, the first of equals.
            let mut next = 0;
            for kind in 1..owed.len() {
                if owed[kind] > owed[next] + 1e-9 {
                    next = kind;
                }
            }
            owed[next] -= 1.0;
            return Some(self.shares[next].0);
        }
        let mut rest = random.unit();
        for (kind, share) in &self.shares {
            if rest < *share {
                return Some(*kind);
            }
            rest -= share;
        }
        Some(last)
    }
}
