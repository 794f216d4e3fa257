//! The version word under shuttle: the shipping type, on shuttle's atomics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_modelled::Modelled;
use hedgerow_sync::version::VersionWord;
use shuttle::sync::atomic::AtomicU64;
use shuttle::thread;

struct Pair {
    version: VersionWord<Modelled>,
    left: AtomicU64,
    right: AtomicU64,
}

/// Two writers keep `left + right` constant under the latch; a validated reader never sees
/// anything else. `mark` is what protects the change from readers.
fn transfer(mark: fn(&VersionWord<Modelled>)) {
    let pair = Arc::new(Pair {
        version: VersionWord::new(true, true),
        left: AtomicU64::new(10),
        right: AtomicU64::new(0),
    });
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let pair = pair.clone();
            thread::spawn(move || {
                pair.version.lock();
                mark(&pair.version);
                let left = pair.left.load(Ordering::Relaxed);
                pair.left.store(left - 1, Ordering::Relaxed);
                let right = pair.right.load(Ordering::Relaxed);
                pair.right.store(right + 1, Ordering::Relaxed);
                pair.version.unlock();
            })
        })
        .collect();
    let version = pair.version.stable();
    let sum = pair.left.load(Ordering::Relaxed) + pair.right.load(Ordering::Relaxed);
    if pair.version.validate(version) {
        assert_eq!(sum, 10, "a validated read saw half a change");
    }
    for writer in writers {
        writer.join().expect("writer");
    }
    assert_eq!(
        pair.right.load(Ordering::Relaxed),
        2,
        "the latch lost an update"
    );
}

#[test]
fn validated_reads_never_see_half_a_change() {
    shuttle::check_random(|| transfer(VersionWord::mark_inserting), 2_000);
    shuttle::check_pct(|| transfer(VersionWord::mark_splitting), 2_000, 3);
}

#[test]
#[should_panic(expected = "a validated read saw half a change")]
fn a_change_without_its_mark_is_noticed() {
    shuttle::check_random(|| transfer(|_| ()), 2_000);
}
