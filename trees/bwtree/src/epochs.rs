//! When memory and ids may be used again: two schemes of epochs.
//!
//! Both keep what an operation retires until every operation has ended that was under way then. The
//! first Bw-tree had **one list** of garbage for all threads, and counters that all threads changed
//! with every operation; OpenBw-Tree gave **each thread a list** and an epoch of its own. The
//! second is the product, the first is here for the comparison.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_sync::epoch;

/// A scheme of epochs.
///
/// # Safety
///
/// What is retired is released only when every guard has been dropped that was alive then.
pub unsafe trait Epochs: Default + Send + Sync + 'static {
    /// Keeps what a running operation may read.
    type Guard;

    /// Begins an operation.
    fn pin(&self) -> Self::Guard;

    /// Runs `release`, which frees `bytes`, when every operation has ended that is under way now.
    ///
    /// # Safety
    ///
    /// What `release` frees is unreachable for operations that begin from now on, and `release` may
    /// run on any thread.
    unsafe fn retire<F: FnOnce() + Send + 'static>(guard: &Self::Guard, bytes: usize, release: F);

    /// As [`retire`](Self::retire), for an id of the mapping table.
    ///
    /// # Safety
    ///
    /// As for [`retire`](Self::retire).
    unsafe fn retire_id<F: FnOnce() + Send + 'static>(guard: &Self::Guard, release: F) {
        // SAFETY: the caller's promise.
        unsafe { Self::retire(guard, 0, release) }
    }
}

/// Each thread has its own list and its own epoch.
#[derive(Debug, Default)]
pub struct DecentralisedEpochs;

// SAFETY: crossbeam-epoch keeps what is retired until all threads that are pinned have unpinned.
unsafe impl Epochs for DecentralisedEpochs {
    type Guard = epoch::Guard;

    #[inline(always)]
    fn pin(&self) -> epoch::Guard {
        epoch::pin()
    }

    #[inline]
    unsafe fn retire<F: FnOnce() + Send + 'static>(guard: &epoch::Guard, bytes: usize, release: F) {
        // SAFETY: the caller's promise is what `epoch::retire_bytes` asks for.
        unsafe { epoch::retire_bytes(guard, bytes, release) }
    }
}

/// How many retirements make an epoch.
const RETIREMENTS_PER_EPOCH: usize = 64;
/// How many retired bytes do.
const RETIRED_BYTES_PER_EPOCH: usize = 1 << 20;

type Release = Box<dyn FnOnce() + Send>;

/// One list and one epoch for all threads, behind a mutex.
#[derive(Default)]
pub struct CentralisedEpochs(Arc<Mutex<Central>>);

#[derive(Default)]
struct Central {
    epoch: u64,
    /// How many operations are under way in each epoch.
    active: BTreeMap<u64, usize>,
    /// What was retired, with its epoch, oldest first.
    garbage: VecDeque<(u64, Release)>,
    /// Bytes retired in this epoch.
    bytes: usize,
}

/// An operation under [`CentralisedEpochs`].
pub struct CentralisedGuard {
    epochs: Arc<Mutex<Central>>,
    epoch: u64,
}

fn lock(epochs: &Mutex<Central>) -> MutexGuard<'_, Central> {
    // No code of others runs under the mutex.
    epochs.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: garbage has an epoch, and waits until no guard of that epoch or an earlier one is left.
unsafe impl Epochs for CentralisedEpochs {
    type Guard = CentralisedGuard;

    fn pin(&self) -> CentralisedGuard {
        let mut central = lock(&self.0);
        let epoch = central.epoch;
        *central.active.entry(epoch).or_default() += 1;
        CentralisedGuard {
            epochs: Arc::clone(&self.0),
            epoch,
        }
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(
        guard: &CentralisedGuard,
        bytes: usize,
        release: F,
    ) {
        let mut central = lock(&guard.epochs);
        let epoch = central.epoch;
        central.garbage.push_back((epoch, Box::new(release)));
        central.bytes = central.bytes.saturating_add(bytes);
        let is_many = central.garbage.len().is_multiple_of(RETIREMENTS_PER_EPOCH);
        if is_many || central.bytes >= RETIRED_BYTES_PER_EPOCH {
            central.epoch += 1;
            central.bytes = 0;
        }
    }
}

impl Central {
    /// What no operation that is under way can still see.
    fn take_unseen(&mut self) -> Vec<Release> {
        let oldest = self.active.keys().next().copied().unwrap_or(u64::MAX);
        let unseen = self.garbage.partition_point(|(epoch, _)| *epoch < oldest);
        self.garbage
            .drain(..unseen)
            .map(|(_, release)| release)
            .collect()
    }
}

impl Drop for CentralisedGuard {
    fn drop(&mut self) {
        let unseen = {
            let mut central = lock(&self.epochs);
            if let Some(count) = central.active.get_mut(&self.epoch) {
                *count -= 1;
                if *count == 0 {
                    central.active.remove(&self.epoch);
                }
            }
            central.take_unseen()
        };
        unseen.into_iter().for_each(|release| release());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_an_operation_may_see_waits_for_its_end() {
        let epochs = CentralisedEpochs::default();
        let released = Arc::new(AtomicUsize::new(0));
        let retire = |guard: &CentralisedGuard| {
            let released = Arc::clone(&released);
            let release = move || {
                released.fetch_add(1, Ordering::Relaxed);
            };
            // SAFETY: the counter is shared by reference count.
            unsafe { CentralisedEpochs::retire(guard, 0, release) };
        };
        let long = epochs.pin();
        for _ in 0..2 * RETIREMENTS_PER_EPOCH {
            retire(&epochs.pin());
        }
        assert_eq!(
            released.load(Ordering::Relaxed),
            0,
            "the first operation may see all"
        );
        let later = epochs.pin();
        drop(long);
        let seen = released.load(Ordering::Relaxed);
        assert_eq!(seen, 2 * RETIREMENTS_PER_EPOCH, "the later one sees none");
        retire(&later);
        assert_eq!(released.load(Ordering::Relaxed), seen);
        drop(later);
        assert_eq!(released.load(Ordering::Relaxed), seen + 1);
    }
}
