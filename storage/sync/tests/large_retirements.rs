//! What waits for its release is bounded in bytes as well, however few retirements they are. Alone
//! in its process: threads of other tests would hold epochs back.

use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_sync::epoch;

static RELEASED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_thread_that_retires_large_blocks_retains_few() {
    const BYTES: usize = 100 << 20;
    let retire = |bytes| {
        let guard = epoch::pin();
        // SAFETY: nothing is freed.
        unsafe {
            epoch::retire_bytes(&guard, bytes, || {
                RELEASED.fetch_add(1, Ordering::Relaxed);
            });
        }
    };
    for retired in 1..=1_000 {
        retire(BYTES);
        let waiting = retired - RELEASED.load(Ordering::Relaxed);
        assert!(waiting <= 4, "{waiting} wait after {retired}");
    }
    // Of small ones as many wait as take a mebibyte.
    let before = RELEASED.load(Ordering::Relaxed);
    for _ in 0..4 {
        retire(1);
    }
    assert!(RELEASED.load(Ordering::Relaxed) < before + 4);
    epoch::release_due();
    assert_eq!(RELEASED.load(Ordering::Relaxed), 1_004, "nobody is pinned");
}
