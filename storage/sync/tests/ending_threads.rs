//! A thread that ends releases what is due without a pin of its own, however much that is. Alone in
//! its process: pins of other tests' threads would hold epochs back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use hedgerow_sync::epoch;

/// As many bags of crossbeam-epoch's as overflow a thread's stack if each takes a few frames.
const BAGS: usize = 2_000;
const CLOSURES_PER_BAG: usize = 64;
/// crossbeam-epoch releases what is due at every so many pins of a thread.
const PINS_PER_RELEASE: usize = 128;

static RUNS: [AtomicU32; BAGS * CLOSURES_PER_BAG] =
    [const { AtomicU32::new(0) }; BAGS * CLOSURES_PER_BAG];

fn total() -> u64 {
    let runs = RUNS.iter().map(|runs| runs.load(Ordering::Relaxed));
    runs.map(u64::from).sum()
}

/// Retires all closures while another thread is pinned, so that none is released.
fn retire_all() {
    thread::scope(|scope| {
        let (is_pinned, pinned) = channel();
        let (unpin, unpinned) = channel::<()>();
        scope.spawn(move || {
            let _guard = epoch::pin();
            is_pinned.send(()).expect("the test waits");
            unpinned.recv().expect("the test says when");
        });
        pinned.recv().expect("the thread pins");
        for runs in &RUNS {
            // SAFETY: nothing is freed.
            unsafe {
                epoch::retire_after_two_grace_periods(&epoch::pin(), || {
                    runs.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        assert_eq!(total(), 0, "released under a pin");
        unpin.send(()).expect("the thread waits");
    });
}

#[test]
fn threads_that_end_release_what_is_due() {
    retire_all();
    // The thread's own releases come at its pins; those of its end where a pin more would release.
    for releases in [0, 1, 2, 3].repeat(2) {
        let ends = thread::spawn(move || {
            for _ in 0..releases * PINS_PER_RELEASE {
                drop(epoch::pin());
            }
        });
        ends.join().expect("the thread ends well");
    }
    while total() < RUNS.len() as u64 {
        epoch::pin().flush();
        thread::yield_now();
    }
    let once = RUNS.iter().all(|runs| runs.load(Ordering::Relaxed) == 1);
    assert!(once, "a closure ran twice");
}
