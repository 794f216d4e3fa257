//! `edge-int-lf`, improved and as published.

use std::collections::HashSet;

use hedgerow_bst::{BaselineEdgeIntLf, EdgeIntLf, Padded, ScatteredFields, SearchTree};
use hedgerow_index::ConcurrentIntMap;
use hedgerow_memory::VisitNodes;

use crate::suite::suite;

suite!(improved, K, EdgeIntLf<K>);
suite!(baseline, K, BaselineEdgeIntLf<K>);
suite!(bloated, K, EdgeIntLf<K, Padded<ScatteredFields>>);

/// A key with two children goes, and the next greater pair takes its place, again and again: from
/// a child, from further down, and when that is all that is left.
#[test]
fn a_promoted_pair_keeps_its_value() {
    let map: EdgeIntLf<u64> = EdgeIntLf::segregated();
    for key in [50, 20, 80, 60, 90, 55, 70, 57] {
        assert_eq!(map.insert(key, key * 10), None);
    }
    for (removed, rest) in [(50, 55), (55, 57), (57, 60), (60, 70), (70, 80), (80, 90)] {
        assert_eq!(map.remove(removed), Some(removed * 10));
        assert_eq!(map.get(removed), None);
        assert_eq!(map.get(rest), Some(rest * 10));
        assert_eq!(map.get(20), Some(200));
        map.verify().expect("sound");
    }
    assert_eq!(map.statistics().get("keys"), Some(2.0));
}

/// What the inspector is told of nodes.
#[test]
fn nodes_are_visited_once() {
    let map: EdgeIntLf<u64, ScatteredFields> = EdgeIntLf::segregated();
    for key in [50, 20, 80, 60, 90] {
        map.insert(key, key);
    }
    map.remove(50);
    let mut nodes = HashSet::new();
    map.visit_nodes(&mut |node| {
        assert_eq!((node.bytes, node.search_fields.clone()), (32, 8..32));
        // Parents come first.
        assert!(node.parent.is_none_or(|parent| nodes.contains(&parent)));
        assert!(nodes.insert(node.address), "{node:?} is visited twice");
    });
    // The root has no key.
    assert_eq!(nodes.len(), 4 + 1);
}
