//! A disk that is full while rows are removed: removals work, of ranges and of single keys, and
//! what they say goes. Insertions that it refuses, also those that would split a leaf, leave
//! nothing behind.

use std::cell::Cell;
use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_index::Direction;
use hedgerow_pages::{Options, Pages, Pool, Stop};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

const KEYS: u32 = 20_000;

fn rows(tree: &BTreeIndex) -> u64 {
    let mut rows = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        rows += 1;
        ControlFlow::Continue(())
    };
    tree.scan(Bound::Unbounded, Direction::Forward, &mut count)
        .unwrap();
    rows
}

/// A tree of which as much as may be is dirty, on a disk that takes no more writes.
fn tree_on_a_full_disk() -> (FaultyVfs, BTreeIndex) {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let options = Options::new((4 * 8 + 140) * 4096 + 64 * 1024);
    let pool = Arc::new(Pool::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex = BTreeIndex::create(pool).unwrap();
    for key in 0..KEYS {
        tree.insert(&key.to_be_bytes(), &[7; 60]).unwrap();
    }
    tree.pool().checkpoint(Vec::new).unwrap();
    // Nor are there free blocks within the file.
    faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    let mut refused = 0;
    for key in (0..KEYS).step_by(30) {
        refused += u32::from(tree.insert(&key.to_be_bytes(), &[8; 60]).is_err());
    }
    assert!(refused > 0, "all of it fits memory");
    assert_eq!(rows(&tree), u64::from(KEYS), "reads go on");
    (faulty, tree)
}

/// With space again nothing is lost, and no page either.
fn check_whole(faulty: &FaultyVfs, tree: &BTreeIndex, left: u64) {
    assert_eq!((rows(tree), tree.len()), (left, left));
    faulty.heal();
    assert_eq!((rows(tree), tree.len()), (left, left));
    let pages = tree.verified_pages().unwrap();
    assert_eq!(tree.pool().statistics().live as usize, pages);
    tree.pool().checkpoint(Vec::new).unwrap();
}

#[test]
fn a_range_is_removed_on_a_full_disk() {
    let (faulty, tree) = tree_on_a_full_disk();
    let mut said = 0;
    let mut all = |_: &[u8], _: &[u8]| {
        said += 1;
        ControlFlow::Continue(true)
    };
    // Leaves that are clean.
    let (from, to) = (KEYS - 5_000, KEYS - 1_000);
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    tree.remove_range(from, to, &mut all).unwrap();
    assert_eq!(said, 4_000);
    check_whole(&faulty, &tree, u64::from(KEYS) - 4_000);
}

#[test]
fn a_tree_is_emptied_on_a_full_disk() {
    let (faulty, tree) = tree_on_a_full_disk();
    let mut all = |_: &[u8], _: &[u8]| ControlFlow::Continue(true);
    tree.remove_range(Bound::Unbounded, Bound::Unbounded, &mut all)
        .unwrap();
    check_whole(&faulty, &tree, 0);
}

#[test]
fn keys_are_removed_one_by_one_on_a_full_disk() {
    let (faulty, tree) = tree_on_a_full_disk();
    for key in KEYS - 5_000..KEYS - 1_000 {
        assert!(tree.remove(&key.to_be_bytes()).unwrap(), "key {key}");
    }
    check_whole(&faulty, &tree, u64::from(KEYS) - 4_000);
}

/// Overwrites a row of each of up to so many leaves, on a disk that takes no more writes; of how
/// many the tree took that.
fn overwrite_leaves(tree: &BTreeIndex, most: usize) -> usize {
    let keys = (0..KEYS).step_by(70).take(most);
    keys.take_while(|key| tree.insert(&key.to_be_bytes(), &[8; 60]).is_ok())
        .count()
}

#[test]
fn splits_that_a_full_disk_refuses_leave_no_page_behind() {
    let (faulty, tree) = tree_on_a_full_disk();
    let fill = || {
        faulty.heal();
        tree.pool().checkpoint(Vec::new).unwrap();
        faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    };
    fill();
    let most = overwrite_leaves(&tree, usize::MAX);
    let (mut left, mut taken) = (u64::from(KEYS), Vec::new());
    // A split changes a leaf, its parent and a new page: with room for so many pages it gets to
    // another of them before the disk refuses one.
    for room in 0..6 {
        fill();
        assert_eq!(overwrite_leaves(&tree, most - room), most - room);
        let before = tree.statistics().get("splits");
        let key = KEYS - 1_000 - 200 * room as u32;
        let done = tree.insert(&[&key.to_be_bytes()[..], &[1]].concat(), &[9; 60]);
        left += u64::from(done.is_ok());
        taken.push(done.is_ok());
        let split = tree.statistics().get("splits") > before;
        assert_eq!(split, done.is_ok(), "the leaf of {key} is full");
        let pages = tree.verified_pages().unwrap();
        assert_eq!(
            tree.pool().statistics().live as usize,
            pages,
            "room for {room}"
        );
    }
    assert!(!taken[0] && !taken[1] && !taken[2] && taken[5], "{taken:?}");
    check_whole(&faulty, &tree, left);
}

/// Slots of shared overflow pages that a range removal frees are changes of those pages. What the
/// disk does not let it free stays for later, and readers keep the pages that they need.
#[test]
fn slots_that_a_range_removal_cannot_free_are_freed_later() {
    const KEYS: u64 = 6_000;
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let options = Options::new((4 * 8 + 140) * 4096 + 64 * 1024);
    let pool = Arc::new(Pool::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex = BTreeIndex::create(pool).unwrap();
    // Neighbours in time, whose values share pages, are not neighbours in the tree.
    let keys: Vec<[u8; 8]> = (0..KEYS)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
        .collect();
    for key in &keys {
        tree.insert(key, &[7; 1_300]).unwrap();
    }
    tree.pool().checkpoint(Vec::new).unwrap();
    faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    let to = (u64::MAX / 2).to_be_bytes();
    let removed = Cell::new(0);
    let mut all = |_: &[u8], _: &[u8]| {
        removed.set(removed.get() + 1);
        ControlFlow::Continue(true)
    };
    // It may end early, as it makes leaves dirty.
    let _ = tree.remove_range(Bound::Unbounded, Bound::Excluded(&to), &mut all);
    assert!(removed.get() > 0);
    let left = keys.iter().filter(|key| {
        let found = tree.get(&key[..], |value| value == [7; 1_300]);
        found.expect("reads go on").unwrap_or(false)
    });
    assert_eq!(left.count() as u64, tree.len());
    faulty.heal();
    tree.remove_range(Bound::Unbounded, Bound::Unbounded, &mut all)
        .unwrap();
    assert_eq!((removed.get(), tree.len()), (KEYS, 0));
    tree.verify().unwrap();
    tree.pool().checkpoint(Vec::new).unwrap();
    assert_eq!(tree.pool().statistics().live, 1, "the root");
}

/// Nodes of a tree that is given back are read first, for which memory has no room while it is full
/// of pages that the disk does not take: these nodes are left for another call.
#[test]
fn what_of_a_tree_finds_no_room_in_memory_is_given_back_later() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let options = Options::new((4 * 8 + 140) * 4096 + 64 * 1024);
    let pool: Arc<Pool<4096>> = Arc::new(Pool::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex = BTreeIndex::create(Arc::clone(&pool)).unwrap();
    for key in 0..KEYS {
        tree.insert(&key.to_be_bytes(), &[7; 60]).unwrap();
    }
    pool.checkpoint(Vec::new).unwrap();
    faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    let (mut pages, mut dirty) = (&*pool, Vec::new());
    let reserve_use = pool.allow_reserve_use();
    let full = loop {
        let operation = pages.begin();
        match pages.allocate(&operation) {
            Ok(latch) => dirty.push(pages.id(&latch)),
            Err(stop) => break stop,
        }
    };
    drop(reserve_use);
    assert!(matches!(full, Stop::Failed(error) if error.is_disk_full()));
    let mut open = vec![tree.root()];
    let failed = tree.release_from(&mut open).unwrap_err();
    assert!(failed.is_disk_full(), "{failed}");
    assert_eq!(open, [tree.root()]);
    faulty.heal();
    for page in dirty {
        let operation = pages.begin();
        pages.release_by_id(page, &operation).unwrap();
    }
    tree.release_from(&mut open).unwrap();
    assert!(open.is_empty());
    assert_eq!(pool.statistics().live, 0);
}
