//! Work that anyone deferred does not run while a tree has nodes latched. Alone in its process, so
//! that such work is due whenever a tree looks for it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow_masstree::{Masstree, pin};

type Tree = Masstree<u64>;

const ROUNDS: u64 = 2_000;
/// Keys of a round, of one border node for the most part.
const KEYS: u64 = 12;
/// Far more than the test takes on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// A key with a suffix that is the longer the greater `number`, so that bags of suffixes are
/// replaced often.
fn long(round: u64, number: u64) -> Vec<u8> {
    let slice = round << 8 | number;
    [
        &slice.to_be_bytes()[..],
        &vec![b'x'; 20 * (1 + number as usize)],
    ]
    .concat()
}

/// Two keys of a layer of its own: with one of them gone the layer is folded, and the other's
/// suffix stored above.
fn layered(round: u64, number: u64) -> [Vec<u8>; 2] {
    [b'a', b'b'].map(|end| [&long(round, number)[..], &[end; 40]].concat())
}

/// What is deferred changes the tree at the first key of the last round, which the thread changes
/// too: with the key's node latched it would wait for itself.
fn change_while_others_defer(tree: &Arc<Tree>, ran: &Arc<AtomicUsize>) {
    let last = Arc::new(AtomicU64::new(0));
    for round in 0..ROUNDS {
        last.store(round, Ordering::Relaxed);
        for number in 0..KEYS {
            let keys = match round % 2 == 0 {
                true => vec![long(round, number)],
                false => layered(round, number).to_vec(),
            };
            for key in &keys {
                assert_eq!(tree.put(key, round), None);
            }
            if let [first, _] = &keys[..] {
                assert_eq!(tree.remove(first), Some(round));
            }
            let (tree, ran, last) = (Arc::clone(tree), Arc::clone(ran), Arc::clone(&last));
            pin().defer(move || {
                ran.fetch_add(1, Ordering::Relaxed);
                tree.update(&long(last.load(Ordering::Relaxed), 0), |word| word);
            });
        }
    }
}

#[test]
fn what_others_deferred_runs_without_latches() {
    let (done, is_done) = mpsc::channel();
    let changes = thread::spawn(move || {
        let (tree, ran) = (Arc::new(Tree::new()), Arc::default());
        change_while_others_defer(&tree, &ran);
        tree.verify().expect("sound");
        assert!(ran.load(Ordering::Relaxed) > 0, "nothing ran");
        let _ = done.send(());
    });
    let waited = is_done.recv_timeout(LONG);
    assert_ne!(
        waited,
        Err(mpsc::RecvTimeoutError::Timeout),
        "the tree waits for itself"
    );
    changes.join().expect("the changes ended well");
}
