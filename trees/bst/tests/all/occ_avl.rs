//! The relaxed AVL trees, in every form.

use std::ops::{Bound, ControlFlow};

use hedgerow_bst::{
    BloatedLocks, FromRoot, FrozenOccAvl, HeavyLookups, Improved, OccAvl, OccAvl2, OccAvl2Ret,
    Padded, Recursive, ScatteredFields, SearchTree,
};
use hedgerow_index::{ConcurrentIntMap, Direction, OrderedIntMap};
use hedgerow_memory::PlacedNode;

use crate::suite::{ordered_suite, suite};

type Baseline<K> = OccAvl<K, BloatedLocks<ScatteredFields>>;

suite!(baseline, K, Baseline<K>);
suite!(improved, K, OccAvl<K>);
suite!(padded_recursive, K, OccAvl2<K>);
suite!(padded_from_root, K, OccAvl2Ret<K>);
ordered_suite!(scans_of_baseline, K, Baseline<K>);
ordered_suite!(scans_of_padded_from_root, K, OccAvl2Ret<K>);

#[test]
fn forms_have_the_names_of_the_paper() {
    assert_eq!(<OccAvl<u64> as SearchTree<u64>>::NAME, "occ-avl");
    assert_eq!(<Baseline<u64> as SearchTree<u64>>::NAME, "occ-avl");
    assert_eq!(<OccAvl2<u64> as SearchTree<u64>>::NAME, "occ-avl-2");
    assert_eq!(<OccAvl2Ret<u64> as SearchTree<u64>>::NAME, "occ-avl-2-ret");
    let name = FrozenOccAvl::<&OccAvl<u64, Improved, Recursive>>::NAME;
    assert_eq!(name, "occ-avl-2-unsafe");
}

/// The scattered form of every tree must answer; one with heavy lookups has nothing to keep.
#[test]
fn heavy_lookups_answer_as_light_ones_do() {
    crate::suite::answers_like_a_model::<u64, OccAvl<u64, HeavyLookups<Padded>, FromRoot>>();
}

/// Ascending keys would make an unbalanced tree a list.
#[test]
fn ascending_keys_make_a_balanced_tree() {
    let tree = OccAvl2Ret::<u32>::segregated();
    for key in 0..1023 {
        assert_eq!(tree.insert(key, 1), None);
        tree.verify().expect("balanced");
    }
    let statistics = tree.statistics();
    assert_eq!(statistics.get("height"), Some(10.0));
    assert_eq!(statistics.get("routing_nodes"), Some(0.0));
    assert!(statistics.get("rotations") > Some(900.0));
}

#[test]
fn a_removed_item_with_two_children_stays_as_a_router() {
    let tree = OccAvl::<u64>::segregated();
    for key in [20, 10, 30] {
        tree.insert(key, key);
    }
    assert_eq!(tree.remove(20), Some(20));
    assert_eq!((tree.get(20), tree.remove(20)), (None, None));
    assert_eq!(tree.statistics().get("routing_nodes"), Some(1.0));
    assert_eq!(tree.insert(20, 21), None);
    assert_eq!(tree.get(20), Some(21));
    assert_eq!(tree.remove(20), Some(21));
    // A router with one child is unlinked.
    assert_eq!(tree.remove(10), Some(10));
    let statistics = tree.statistics();
    assert_eq!(statistics.get("nodes"), Some(1.0));
    assert_eq!(statistics.get("unlinked_nodes"), Some(2.0));
    tree.verify().expect("sound");
}

#[test]
fn a_frozen_tree_answers_without_versions() {
    let mut tree = OccAvl2Ret::<u64>::segregated();
    for key in 0..1000 {
        tree.insert(key * 3, key);
    }
    tree.remove(300);
    let frozen = tree.freeze();
    let expected = |key: u64| (key.is_multiple_of(3) && key != 300).then_some(key / 3);
    let keys: Vec<u64> = (0..3000).collect();
    let mut answers = vec![None; keys.len()];
    frozen.get_many(&keys, |at, word| answers[at] = Some(word));
    for key in keys {
        assert_eq!(frozen.get(key), expected(key));
        assert_eq!(answers[key as usize], Some(expected(key)));
    }
}

/// Longer than it stays in an epoch.
#[test]
fn long_scans_show_everything_both_ways() {
    let tree = OccAvl2Ret::<u32>::segregated();
    for key in 0..3000 {
        tree.insert(key, u64::from(key));
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut shown = Vec::new();
        tree.scan(Bound::Unbounded, direction, |key, _| {
            shown.push(key);
            // The tree may be used from within a scan.
            tree.remove(key);
            tree.insert(key, 1);
            ControlFlow::Continue(())
        });
        if direction == Direction::Reverse {
            shown.reverse();
        }
        assert!(shown.into_iter().eq(0..3000), "{direction:?}");
    }
}

fn placed<T: SearchTree<u64>>() -> Vec<PlacedNode> {
    let tree = T::segregated();
    for key in [20, 10, 30] {
        tree.insert(key, key);
    }
    let mut nodes = Vec::new();
    tree.visit_nodes(&mut |node| nodes.push(node.clone()));
    nodes
}

#[test]
fn nodes_are_where_they_say() {
    let nodes = placed::<Baseline<u64>>();
    let root = nodes[1].address;
    let parents: Vec<_> = nodes.iter().map(|node| node.parent).collect();
    assert_eq!(parents, [Some(root), None, Some(root)]);
    for node in &nodes {
        // A parent link and a lock of 40 bytes before the key, two links and the version.
        assert_eq!((node.bytes, node.search_fields.clone()), (96, 48..80));
    }
    for node in placed::<OccAvl2<u64>>() {
        assert_eq!((node.bytes, node.search_fields), (64, 0..32));
        assert_eq!(node.address % 64, 0);
    }
}
