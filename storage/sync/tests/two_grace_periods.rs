//! What helpers may still have is not freed, though it was retired before they pinned. Alone in its
//! process: pins of other tests' threads would hold epochs back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use hedgerow_sync::epoch::{self, Guard};

static FREED: AtomicBool = AtomicBool::new(false);

/// More than any release waits for.
const ATTEMPTS: usize = 1_000;
/// Pins end epochs now and then, by their number, so rounds differ.
const ROUNDS: usize = 5;

fn collect() {
    for _ in 0..ATTEMPTS {
        epoch::pin().flush();
    }
}

/// Retires something under the pin of another thread, the beginner, lets a third, the helper, pin
/// afterwards, and unpins the beginner. Returns whether it was freed while the helper is pinned.
fn freed_under_helper(retire: fn(&Guard)) -> bool {
    FREED.store(false, Ordering::SeqCst);
    thread::scope(|scope| {
        let pinned = || {
            let (is_pinned, pinned) = channel();
            let (unpin, unpinned) = channel::<()>();
            let thread = scope.spawn(move || {
                // A thread's first pin may end an epoch, which would protect more than it must.
                drop(epoch::pin());
                let _guard = epoch::pin();
                is_pinned.send(()).expect("the test waits");
                unpinned.recv().expect("the test says when");
            });
            pinned.recv().expect("the thread pins");
            move || {
                unpin.send(()).expect("the thread waits");
                thread.join().expect("the thread ends well");
            }
        };
        let unpin_beginner = pinned();
        retire(&epoch::pin());
        collect();
        assert!(!FREED.load(Ordering::SeqCst), "freed under the beginner");
        let unpin_helper = pinned();
        unpin_beginner();
        collect();
        let freed = FREED.load(Ordering::SeqCst);
        unpin_helper();
        collect();
        assert!(FREED.load(Ordering::SeqCst), "never freed");
        freed
    })
}

#[test]
fn a_helper_outlasts_the_second_grace_period() {
    fn free() {
        FREED.store(true, Ordering::SeqCst);
    }
    // SAFETY: nothing is freed.
    let once = |guard: &Guard| unsafe { epoch::retire(guard, free) };
    // SAFETY: as above.
    let after_two_grace_periods =
        |guard: &Guard| unsafe { epoch::retire_after_two_grace_periods(guard, free) };
    assert!(
        (0..ROUNDS).any(|_| freed_under_helper(once)),
        "one grace period protects helpers"
    );
    assert!((0..ROUNDS).all(|_| !freed_under_helper(after_two_grace_periods)));
}
