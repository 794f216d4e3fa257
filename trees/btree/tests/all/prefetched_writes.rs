//! Writes of keys that were prefetched begin at the leaves that the prefetch found: whatever
//! becomes of those leaves in between, they write where the keys belong.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::{Direction, Index};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

const PAGE: usize = 1024;

type Tree = BTreeIndex<Adaptive, PAGE>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn empty() -> Tree {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new(16 << 20);
    Tree::create(Arc::new(
        Pool::open(&vfs, Path::new("/pages"), &options).unwrap(),
    ))
    .unwrap()
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn filled(numbers: impl Iterator<Item = u64>) -> (Tree, Model) {
    let (tree, mut model) = (empty(), Model::new());
    for number in numbers {
        let (key, value) = (key(number), number.to_le_bytes());
        tree.insert(&key, &value).unwrap();
        model.insert(key, value.to_vec());
    }
    (tree, model)
}

fn prefetch(tree: &Tree, numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let keys: Vec<Vec<u8>> = numbers.map(key).collect();
    let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    Index::prefetch_many(tree, &slices);
    keys
}

/// Runs on another thread, which remembers nothing of this one's.
fn elsewhere(act: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap());
}

fn restarts(tree: &Tree) -> u64 {
    tree.statistics().get("restarts").unwrap() as u64
}

fn check(tree: &Tree, model: &Model) {
    tree.verify().unwrap();
    let mut found = Model::new();
    tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(found == *model, "{} keys, not {}", found.len(), model.len());
}

fn put_all(tree: &Tree, model: &mut Model, keys: Vec<Vec<u8>>) {
    for key in keys {
        let is_new = tree.insert(&key, b"putlater").unwrap();
        assert_eq!(is_new, model.insert(key, b"putlater".to_vec()).is_none());
    }
}

/// Where nothing changed, every write finds its leaf: no attempt starts anew.
#[test]
fn a_batch_of_overwrites_starts_at_its_leaves() {
    let (tree, mut model) = filled(0..4000);
    let keys = prefetch(&tree, (0..64).map(|number| number * 61));
    let before = restarts(&tree);
    put_all(&tree, &mut model, keys);
    assert_eq!(restarts(&tree), before);
    check(&tree, &model);
}

/// Every leaf is split: what was the leaf of many keys is that of others now.
#[test]
fn leaves_that_are_split_after_they_were_prefetched_take_no_keys_of_others() {
    let (tree, mut model) = filled((0..4000).map(|number| number * 10));
    let keys = prefetch(&tree, (0..64).map(|number| number * 610 + 5));
    let more: Vec<u64> = (0..4000).flat_map(|n| [n * 10 + 2, n * 10 + 7]).collect();
    elsewhere(|| {
        for number in &more {
            tree.insert(&key(*number), b"between").unwrap();
        }
    });
    model.extend(
        more.into_iter()
            .map(|number| (key(number), b"between".to_vec())),
    );
    let before = restarts(&tree);
    put_all(&tree, &mut model, keys);
    // That they were tried at all.
    assert!(restarts(&tree) >= before + 32);
    check(&tree, &model);
}

/// Neighbours come and go in the leaves: the record of a key, or its gap, is at another index.
#[test]
fn records_that_moved_within_their_leaves_are_found() {
    let (tree, mut model) = filled((0..4000).map(|number| number * 10));
    for (batch, removed, added) in [(0_u64, 1, 3), (1, 2, 4), (2, 0, 6)] {
        // Half of them are there, half are new.
        let numbers = (0..64).map(|number| (number * 61 + batch) * 10 + number % 2 * 5);
        let keys = prefetch(&tree, numbers);
        let mut between = Vec::new();
        for number in (0..4000).step_by(16) {
            between.push((key((number + removed) * 10), None));
            between.push((
                key((number + removed) * 10 + added),
                Some(b"between".to_vec()),
            ));
        }
        elsewhere(|| {
            for (key, value) in &between {
                match value {
                    Some(value) => drop(tree.insert(key, value).unwrap()),
                    None => drop(tree.remove(key).unwrap()),
                }
            }
        });
        for (key, value) in between {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
        put_all(&tree, &mut model, keys);
        check(&tree, &model);
    }
}

/// The leaves are merged away, and their pages given to other leaves.
#[test]
fn leaves_that_are_gone_take_no_keys() {
    let (tree, mut model) = filled(0..4000);
    let keys = prefetch(&tree, (0..64).map(|number| number * 61));
    elsewhere(|| {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Index::remove_range(&tree, all.0, all.1, &mut |_, _| ControlFlow::Continue(true)).unwrap();
        for number in 10_000..13_000 {
            tree.insert(&key(number), b"other").unwrap();
        }
    });
    model.clear();
    model.extend((10_000..13_000).map(|number| (key(number), b"other".to_vec())));
    put_all(&tree, &mut model, keys);
    check(&tree, &model);
}

/// A tree of one leaf has no node above it that could be validated.
#[test]
fn a_root_that_is_no_leaf_any_more_takes_no_keys() {
    let (tree, mut model) = filled(0..4);
    let keys = prefetch(&tree, 0..64);
    elsewhere(|| {
        for number in 100..3000 {
            tree.insert(&key(number), b"between").unwrap();
        }
    });
    model.extend((100..3000).map(|number| (key(number), b"between".to_vec())));
    put_all(&tree, &mut model, keys);
    check(&tree, &model);
}

/// What was prefetched in one tree means nothing in another, also of the same keys.
#[test]
fn another_tree_has_other_leaves() {
    let (tree, mut model) = filled(0..4000);
    let (other, mut others) = filled((0..2000).map(|number| number * 2));
    let keys = prefetch(&tree, (0..64).map(|number| number * 61));
    put_all(&other, &mut others, keys.clone());
    put_all(&tree, &mut model, keys);
    check(&tree, &model);
    check(&other, &others);
}

/// Writes of keys that were not prefetched, in other orders, and of one key twice.
#[test]
fn other_writes_in_between_change_nothing() {
    let (tree, mut model) = filled((0..4000).map(|number| number * 2));
    for round in 0..50 {
        let mut keys = prefetch(
            &tree,
            (0..64).map(|number| (number * 61 + round * 7) % 8000),
        );
        for other in 0..round % 7 {
            keys.insert(other as usize * 9, key(round * 100 + other));
        }
        if round % 3 == 0 {
            keys.reverse();
        }
        let again = keys[round as usize % 60].clone();
        keys.push(again);
        put_all(&tree, &mut model, keys);
    }
    check(&tree, &model);
}
