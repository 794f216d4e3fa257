//! What waits for its release is bounded, however many retirements a pin has. Alone in its process:
//! threads of other tests would hold epochs back.

use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_sync::epoch;

static RELEASED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_thread_that_retires_much_under_each_pin_retains_little() {
    const PINS: usize = 500;
    const RETIREMENTS: usize = 1_000;
    for pin in 1..=PINS {
        let guard = epoch::pin();
        for _ in 0..RETIREMENTS {
            // SAFETY: nothing is freed.
            unsafe {
                epoch::retire(&guard, || {
                    RELEASED.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        drop(guard);
        let waiting = pin * RETIREMENTS - RELEASED.load(Ordering::Relaxed);
        assert!(
            waiting <= 8 * RETIREMENTS,
            "{waiting} wait after {pin} pins"
        );
    }
}
