//! Overwrites and removals of values in shared overflow pages that are not in memory: shared
//! overflow pages are not read one by one, no slot is lost, and files hardly grow.

use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_btree::BTreeIndex;
use hedgerow_index::{Decision, Direction, ValuePart};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

const VALUES: u64 = 4000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(vfs: &Arc<dyn Vfs>) -> Arc<Pool<4096>> {
    // All leaves fit, and a third of the shared overflow pages.
    let options = Options::new((4 * 16 + 480) * 4096 + 64 * 1024);
    Arc::new(Pool::open(vfs, Path::new("/pages"), &options).unwrap())
}

fn value(version: u64) -> Vec<u8> {
    let mut value = vec![version as u8; 1000];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn filled(vfs: &Arc<dyn Vfs>) -> BTreeIndex {
    let tree: BTreeIndex = BTreeIndex::create(open(vfs)).unwrap();
    for number in 0..VALUES {
        tree.insert(&key(number), &value(number)).unwrap();
    }
    assert!(tree.statistics().get("shared_overflow_pages").unwrap() as u64 >= VALUES / 4);
    tree
}

/// What a crash now would leave.
fn reopened(memory: &MemoryVfs) -> BTreeIndex {
    let vfs: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    let pool = open(&vfs);
    let (root, len) = (pool.owner()[..4].to_vec(), pool.owner()[4..].to_vec());
    let root = u32::from_le_bytes(root.try_into().unwrap());
    let len = u64::from_le_bytes(len.try_into().unwrap());
    BTreeIndex::open(pool, hedgerow_pages::PageId(root), len)
}

fn checkpoint(tree: &BTreeIndex) {
    tree.apply_pending_frees().unwrap();
    let owner = || [&tree.root().0.to_le_bytes()[..], &tree.len().to_le_bytes()].concat();
    tree.pool().checkpoint(owner).unwrap();
}

fn is_tight(tree: &BTreeIndex) {
    let pages = tree.verified_pages().unwrap() as u64;
    assert_eq!(pages, tree.pool().statistics().live);
    let (slot_pages, taken) = (
        tree.statistics().get("shared_overflow_pages").unwrap(),
        tree.statistics()
            .get("shared_overflow_taken_ratio")
            .unwrap(),
    );
    assert!(
        taken > 0.8,
        "{slot_pages} shared overflow pages, {taken} taken"
    );
}

#[test]
fn overwrites_read_no_shared_page_alone_and_leave_files_as_they_are() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let tree = filled(&vfs);
    let mut expected: Vec<u64> = (0..VALUES).collect();
    let (before, mut new) = (tree.pool().statistics(), Vec::new());
    let rounds = 20_000;
    for round in 0..rounds {
        let number = (round * 7919) % VALUES;
        let old = tree
            .update_part(&key(number), ValuePart::Head, &mut new, |old, new| {
                new.extend_from_slice(&value(round));
                Decision::Put(old.map(|old| u64::from_le_bytes(old[..8].try_into().unwrap())))
            })
            .unwrap();
        assert_eq!(old, Some(expected[number as usize]));
        expected[number as usize] = round;
    }
    let after = tree.pool().statistics();
    let (read, batches) = (
        after.reads - before.reads,
        after.read_batches - before.read_batches,
    );
    // Leaves are in memory, so nearly all that is read is shared overflow pages, in batches.
    assert!(batches > 100, "{batches} batches");
    // A batch of so small a pool is 17 pages.
    assert!(10 * batches < read, "{read} read in {batches} batches");
    assert!(read < rounds, "{read} read for {rounds} overwrites");
    let statistics = tree.statistics();
    assert!(statistics.get("deferred_slot_frees").unwrap() > rounds as f64 / 4.0);
    // Some are freed more than one slot at a time, or go unseen.
    assert!(statistics.get("freed_shared_pages") < statistics.get("deferred_slot_frees"));
    assert!(after.live < before.live * 115 / 100, "{before:?} {after:?}");
    is_tight(&tree);
    checkpoint(&tree);
    let later = reopened(&memory);
    is_tight(&later);
    for (number, &version) in expected.iter().enumerate() {
        for tree in [&tree, &later] {
            let same = tree.get(&key(number as u64), |found| *found == value(version));
            assert_eq!(same.unwrap(), Some(true));
        }
    }
}

#[test]
fn removals_of_all_values_give_all_shared_pages_back() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree = filled(&vfs);
    let mut new = Vec::new();
    for number in 0..VALUES {
        // Not in the order in which their slots are.
        let key = key((number * 7919) % VALUES);
        let part = ValuePart::Head;
        let found = tree.get_part(&key, part, |head| head.len() >= 24).unwrap();
        assert_eq!(found, Some(true));
        tree.update_part(&key, part, &mut new, |_, _| Decision::Remove(()))
            .unwrap();
    }
    tree.apply_pending_frees().unwrap();
    assert_eq!((tree.len(), tree.pool().statistics().live), (0, 1));
}

#[test]
fn a_tree_that_is_given_back_with_notes_leaves_nothing() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree = filled(&vfs);
    for round in 0..1000 {
        tree.insert(&key(round * 7919 % VALUES), &value(round))
            .unwrap();
    }
    let pool = Arc::clone(tree.pool());
    tree.release().unwrap();
    assert_eq!(pool.statistics().live, 0);
}

#[test]
fn on_a_full_disk_notes_stay_until_there_is_room() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let tree = filled(&vfs);
    let root = tree.root().0.to_le_bytes();
    tree.pool().checkpoint(|| root.to_vec()).unwrap();
    faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    let (mut stored, mut refused) = (0, 0);
    for round in 0..4 * VALUES {
        match tree.insert(&key(round * 7919 % VALUES), &value(round)) {
            Ok(_) => stored += 1,
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(stored > 0 && refused > 0, "{stored} {refused}");
    for _ in 0..3 {
        // Slots that stay taken are told of, so that no checkpoint publishes them.
        if let Err(error) = tree.apply_pending_frees() {
            assert!(error.is_disk_full(), "{error}");
        }
        // Whatever is noted, all of it can be read.
        let mut rows = 0;
        tree.scan(Bound::Unbounded, Direction::Forward, |_, value| {
            rows += u64::from(value.len() == 1000);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(rows, VALUES);
    }
    faulty.heal();
    is_tight(&tree);
}

#[test]
fn threads_that_overwrite_lose_no_slot_and_every_checkpoint_is_a_tree() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let tree = filled(&vfs);
    let _cleaner = tree.pool().start_cleaner().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tree, done) = (&tree, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                checkpoint(tree);
                let later = reopened(&memory);
                later.verify().unwrap();
                assert_eq!(later.len(), VALUES);
            }
        });
        let workers: Vec<_> = (0..3_u64)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..8000 {
                        let number = (round * 7919 + thread * 1301) % VALUES;
                        let key = key(number);
                        if round % 5 == 0 {
                            tree.get(&key, |found| assert_eq!(found.len(), 1000))
                                .unwrap();
                        }
                        tree.insert(&key, &value(round)).unwrap();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree.len(), VALUES);
    is_tight(&tree);
}
