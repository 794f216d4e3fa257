//! Scans of a tree that does not fit the memory of its pool read leaves ahead, and short ones do
//! not.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_index::{Direction, ScanRange};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

type Tree = BTreeIndex<Adaptive, 4096>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn filled(records: u64, len: usize) -> (Tree, Model) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 300) * 4096 + 256 * 1024);
    let pool = Pool::open(&vfs, Path::new("/pages"), &options).unwrap();
    let tree = Tree::create(Arc::new(pool)).unwrap();
    let mut model = Model::new();
    for n in 0..records {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = vec![n as u8; len];
        tree.insert(&key, &value).unwrap();
        model.insert(key.to_vec(), value);
    }
    assert!(tree.pool().statistics().evictions > 300);
    (tree, model)
}

fn scan(tree: &Tree, from: &[u8], forward: bool, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let direction = if forward {
        Direction::Forward
    } else {
        Direction::Reverse
    };
    let mut found = Vec::new();
    tree.scan(Bound::Included(from), direction, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() == most {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    found
}

/// Pages read and batches of them while `run` ran.
fn read(tree: &Tree, run: impl FnOnce()) -> (u64, u64) {
    let before = tree.pool().statistics();
    run();
    let after = tree.pool().statistics();
    (
        after.reads - before.reads,
        after.read_batches - before.read_batches,
    )
}

#[test]
fn long_scans_read_leaves_together() {
    let (tree, model) = filled(30_000, 100);
    let leaves = tree.pool().statistics().live;
    assert!(leaves > 900, "{leaves}");
    for (forward, from) in [(true, [0; 8]), (false, [0xff; 8])] {
        let mut pairs = Vec::new();
        let (pages, batches) = read(&tree, || pairs = scan(&tree, &from, forward, usize::MAX));
        let expected = model.clone().into_iter();
        let same = if forward {
            expected.eq(pairs)
        } else {
            expected.rev().eq(pairs)
        };
        assert!(same, "forward {forward}");
        // Nothing is read twice, and about eight pages or more with each batch.
        assert!(pages < leaves + 50, "{pages} reads of {leaves}");
        assert!(
            batches > 20 && batches < leaves / 7,
            "{batches} of {leaves}"
        );
    }
}

#[test]
fn short_scans_read_nothing_ahead() {
    // Each leaf has more than 25.
    let (tree, model) = filled(30_000, 40);
    let mut pages = 0;
    for (n, key) in model.keys().enumerate().filter(|(n, _)| n % 300 == 107) {
        let mut found = Vec::new();
        let (some, batches) = read(&tree, || found = scan(&tree, key, n % 600 == 107, 25));
        assert_eq!((found.len(), batches), (25, 0), "{n}");
        pages += some;
    }
    assert!(pages <= 100 * 3, "{pages}");
}

#[test]
fn values_in_overflow_pages_are_read_together() {
    let (tree, model) = filled(4_000, 1500);
    let mut pairs = Vec::new();
    let (pages, batches) = read(&tree, || pairs = scan(&tree, &[0; 8], true, usize::MAX));
    assert!(model.into_iter().eq(pairs));
    assert!(pages > 3_000 && batches > 50, "{pages} {batches}");
    assert!(pages > 4 * batches, "{pages} {batches}");
}

#[test]
fn a_scan_that_says_how_much_it_wants_reads_so_many_values_together() {
    let (tree, model) = filled(4_000, 1030);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let (mut known, mut bounded, mut unknown) = ((0, 0), (0, 0), (0, 0));
    let add = |sum: &mut (u64, u64), (pages, batches)| {
        *sum = (sum.0 + pages, sum.1 + batches);
    };
    let rounds = 40;
    for round in 0..rounds {
        let forward = round % 2 == 0;
        let direction = [Direction::Reverse, Direction::Forward][usize::from(forward)];
        let first = 200 + 89 * round;
        let last = if forward { first + 49 } else { first - 49 };
        let from = Bound::Included(&keys[first][..]);
        let visit = |to: Bound<&[u8]>, limit: usize, expected: usize| {
            let mut found = 0;
            let range = ScanRange {
                to,
                limit,
                ..ScanRange::starting_at(from, direction)
            };
            tree.scan_range(&range, |key, value| {
                let place = if forward {
                    first + found
                } else {
                    first - found
                };
                assert_eq!((key, value), (&keys[place][..], &model[keys[place]][..]));
                found += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(found, expected);
        };
        let nowhere = Bound::Unbounded;
        add(&mut known, read(&tree, || visit(nowhere, 50, 50)));
        scan(&tree, &[0; 8], true, 1200);
        // Ten of fifty are before the end of the range.
        let tenth = keys[if forward { first + 9 } else { first - 9 }];
        let end = Bound::Included(&tenth[..]);
        add(&mut bounded, read(&tree, || visit(end, 50, 10)));
        scan(&tree, &[0; 8], true, 1200);
        let end = Bound::Included(&keys[last][..]);
        add(&mut unknown, read(&tree, || visit(end, usize::MAX, 50)));
        scan(&tree, &[0; 8], true, 1200);
    }
    let rounds = rounds as u64;
    // Fifty values and a few leaves. A batch of so small a pool is ten pages, and ends with a leaf.
    let (pages, batches) = known;
    assert!(pages <= 56 * rounds, "{known:?}");
    assert!(batches <= 7 * rounds && pages > 6 * batches, "{known:?}");
    assert!(bounded.0 <= 14 * rounds, "{bounded:?}");
    assert!(bounded.1 <= 3 * rounds, "{bounded:?}");
    assert!(unknown.0 <= 56 * rounds, "{unknown:?}");
    assert!(unknown.1 <= 10 * rounds, "{unknown:?}");
}

#[test]
fn many_lookups_read_the_pages_of_values_together() {
    let (tree, model) = filled(6_000, 1030);
    let keys: Vec<&[u8]> = model.keys().step_by(37).map(Vec::as_slice).collect();
    let mut right = 0;
    let (pages, batches) = read(&tree, || {
        tree.get_many(&keys, |index, value| {
            right += usize::from(value == model.get(keys[index]).map(Vec::as_slice));
        })
        .unwrap();
    });
    assert_eq!(right, keys.len());
    // A leaf each, and a page of values each.
    assert!(pages > 100 && 5 * batches < pages, "{pages} in {batches}");
}
