//! Work that anyone deferred does not run while a tree has nodes latched. Alone in its process, so
//! that such work is due whenever a tree looks for it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow_index::{Decision, Index};
use hedgerow_matryoshka::{Change, MatryoshkaIndex, SharedMatryoshka};
use hedgerow_sync::epoch;

/// Far more than a test takes on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// Runs `changes` in a thread of its own. What they defer changes the tree at the key that they
/// changed last: with the key's page latched, the thread would wait for itself.
fn check(changes: fn(ran: &Arc<AtomicUsize>)) {
    let (done, is_done) = mpsc::channel();
    let changes = thread::spawn(move || {
        let ran = Arc::default();
        changes(&ran);
        assert!(ran.load(Ordering::Relaxed) > 0, "nothing ran");
        let _ = done.send(());
    });
    let waited = is_done.recv_timeout(LONG);
    let timeout = Err(mpsc::RecvTimeoutError::Timeout);
    assert_ne!(waited, timeout, "the tree waits for itself");
    changes.join().expect("the changes ended well");
}

/// Pages grow, are cut in two and merged, and inner nodes with them.
fn pages_come_and_go(ran: &Arc<AtomicUsize>) {
    const KEYS: u64 = 20_000;
    let tree = Arc::new(SharedMatryoshka::<u64>::new());
    let last = Arc::new(AtomicU64::new(0));
    let defer = |key| {
        last.store(key, Ordering::Relaxed);
        let (tree, ran, last) = (Arc::clone(&tree), Arc::clone(ran), Arc::clone(&last));
        epoch::pin().defer(move || {
            ran.fetch_add(1, Ordering::Relaxed);
            tree.update(last.load(Ordering::Relaxed), |_| Change::Keep(()));
        });
    };
    for _ in 0..4 {
        for key in 0..KEYS {
            defer(key);
            assert_eq!(tree.insert(key, key), None);
        }
        for key in 0..KEYS {
            defer(key);
            assert_eq!(tree.remove(key), Some(key));
        }
    }
    tree.verify().expect("sound");
}

/// Layers come, and are folded.
fn layers_come_and_go(ran: &Arc<AtomicUsize>) {
    let index: Arc<MatryoshkaIndex> = Arc::default();
    let last = Arc::new(AtomicU64::new(0));
    let key = |number: u64| [b"all keys", &number.to_be_bytes()[..], b"end"].concat();
    let defer = |number| {
        last.store(number, Ordering::Relaxed);
        let (index, ran, last) = (Arc::clone(&index), Arc::clone(ran), Arc::clone(&last));
        epoch::pin().defer(move || {
            ran.fetch_add(1, Ordering::Relaxed);
            let key = key(last.load(Ordering::Relaxed));
            index.update_with(&key, &mut Vec::new(), |_, _| Decision::Keep(()));
        });
    };
    for round in 0..2_000 {
        let numbers = || (0..40).map(|number| round << 32 | number);
        for number in numbers() {
            defer(number);
            index.update_with(&key(number), &mut Vec::new(), |_, _| Decision::Put(()));
        }
        for number in numbers() {
            defer(number);
            index.update_with(&key(number), &mut Vec::new(), |_, _| Decision::Remove(()));
        }
    }
    index.verify().expect("sound");
}

/// One test, not one for pages and one for layers: two at once would run what the other deferred,
/// which latches a page while the other verifies its tree at rest.
#[test]
fn what_others_deferred_runs_without_latches() {
    check(pages_come_and_go);
    check(layers_come_and_go);
}
