//! Waiting for a latch: spin briefly, then give the processor away.
//!
//! Latches are held for tens of nanoseconds, so a waiter spins. But the holder may have been
//! descheduled; on a machine with few cores a waiter that only spins would then burn the very
//! time slice that the holder needs. After [`SPINS`] rounds it yields.

/// Rounds of spinning before the first yield.
pub const SPINS: u32 = 64;

/// Waits once more; `attempts` counts the rounds of this wait and starts at 0.
#[cold]
pub fn pause(attempts: &mut u32) {
    *attempts = attempts.saturating_add(1);
    if *attempts < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
