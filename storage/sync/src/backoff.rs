//! Waiting for another thread: spin briefly, then yield the processor, then sleep. Threads release
//! latches after tens of nanoseconds, so a waiter spins. But the thread with the latch may have
//! been descheduled; on a machine with few cores a waiter that only spins would then burn the very
//! time slice that the other needs. After 64 rounds it yields. A waiter for something that can take
//! as long as a write to disk uses [`Backoff`], which sleeps in the end.

use std::time::Duration;

/// Rounds of spinning before the first yield.
const SPIN_ROUNDS: u32 = 64;

/// Rounds of spinning and yielding before [`Backoff::wait`] sleeps.
const AWAKE_ROUNDS: u32 = 256;

const SLEEP: Duration = Duration::from_micros(50);

/// Waits one round for a latch: spins, later yields. `rounds` counts the rounds of this wait and
/// starts at 0.
#[cold]
pub(crate) fn pause(rounds: &mut u32) {
    *rounds = rounds.saturating_add(1);
    if *rounds < SPIN_ROUNDS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// One wait for something that is usually done within a microsecond, but may take as long as a
/// write to disk.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// A wait that has not begun.
    #[must_use]
    pub const fn new() -> Backoff {
        Backoff { rounds: 0 }
    }

    /// Rounds waited so far.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Waits one round: spins, from round 64 on yields, from round 256 on sleeps for 50 µs.
    pub fn wait(&mut self) {
        if self.rounds < AWAKE_ROUNDS - 1 {
            pause(&mut self.rounds);
        } else {
            self.rounds = self.rounds.saturating_add(1);
            std::thread::sleep(SLEEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_counted_also_those_that_sleep() {
        let mut backoff = Backoff::new();
        (0..AWAKE_ROUNDS + 2).for_each(|_| backoff.wait());
        assert_eq!(backoff.rounds(), AWAKE_ROUNDS + 2);
    }
}
