//! `int-lf`, improved and as published.

use std::collections::HashSet;

use hedgerow_bst::{BaselineIntLf, HeavyLookups, IntLf, Placement, SearchTree};
use hedgerow_index::ConcurrentIntMap;
use hedgerow_memory::VisitNodes;

use crate::suite::suite;

suite!(improved, K, IntLf<K>);
suite!(baseline, K, BaselineIntLf<K>);
suite!(heavy, K, IntLf<K, HeavyLookups>);

/// A key with two children goes, and the next greater pair takes its place, again and again.
#[test]
fn a_relocated_pair_keeps_its_value() {
    let map: IntLf<u64> = IntLf::segregated();
    for key in [50, 20, 80, 60, 90, 55, 70] {
        assert_eq!(map.insert(key, key * 10), None);
    }
    for (removed, rest) in [(50, 55), (55, 60), (60, 70), (70, 80), (80, 90)] {
        assert_eq!(map.remove(removed), Some(removed * 10));
        assert_eq!(map.get(removed), None);
        assert_eq!(map.get(rest), Some(rest * 10));
        assert_eq!(map.get(20), Some(200));
        map.verify().expect("sound");
    }
    assert_eq!(map.statistics().get("keys"), Some(2.0));
}

/// What the inspector is told of nodes and descriptors.
#[test]
fn nodes_and_descriptors_are_visited_once() {
    let map: IntLf<u64> = IntLf::with_placement(Placement::Merged);
    for key in [50, 20, 80, 60, 90] {
        map.insert(key, key);
    }
    map.remove(50);
    let (mut nodes, mut descriptors) = (HashSet::new(), HashSet::new());
    map.visit_nodes(&mut |node| {
        let seen = match node.kind {
            "int-lf node" => {
                assert_eq!((node.bytes, node.search_fields.clone()), (48, 0..32));
                &mut nodes
            }
            _ => {
                assert_eq!(node.bytes, 64);
                &mut descriptors
            }
        };
        assert!(seen.insert(node.address), "{node:?} is visited twice");
        assert!(node.parent.is_none_or(|parent| parent != node.address));
    });
    // The root has no key.
    assert_eq!(nodes.len(), 4 + 1);
    let named = map.statistics().get("descriptors").expect("counted");
    let of_root = 1.0;
    assert_eq!(descriptors.len() as f64, named + of_root);
}
