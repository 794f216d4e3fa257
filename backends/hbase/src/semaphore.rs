//! A counting semaphore whose waiters have deadlines.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A number of permits, each of which one caller has at a time.
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A permit. Dropped, it is free for the next caller.
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) fn new(permits: usize) -> Semaphore {
        Semaphore {
            free: Mutex::new(permits),
            freed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a permit. Waits for one until the deadline; `None` if there was none.
    pub(crate) fn acquire(&self, deadline: Instant) -> Option<Permit<'_>> {
        let mut free = self.lock();
        while *free == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.freed.wait_timeout(free, left);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_callers_than_permits_go_on_and_others_wait_for_one() {
        let semaphore = Semaphore::new(2);
        let past = Instant::now();
        let long = past + Duration::from_secs(60);
        let permits = [semaphore.acquire(past), semaphore.acquire(past)];
        assert!(permits.iter().all(Option::is_some));
        assert!(semaphore.acquire(past).is_none());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| semaphore.acquire(long).is_some());
            drop(permits);
            assert!(waiter.join().unwrap());
        });
        let permits = [past; 3].map(|deadline| semaphore.acquire(deadline));
        assert_eq!(permits.iter().flatten().count(), 2);
    }
}
