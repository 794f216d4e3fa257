//! What each tree tells the inspector of layouts to be written in its nodes, in its forms.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "bytes that are written are often one range"
)]

use std::collections::BTreeMap;
use std::ops::Range;

use hedgerow_bst::{
    BaselineCitrus, BaselineEdgeExtLf, BaselineEdgeExtLf2, BaselineEdgeIntLf, BaselineExtLf,
    BaselineIntLf, BaselineLogInt, BaselineTicket, BloatedLocks, Citrus, EdgeExtLf, EdgeExtLf2,
    EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl, OccAvl2, OccAvl2Ret, ScatteredFields, SearchTree,
    Ticket,
};

type Written = BTreeMap<&'static str, Vec<Range<usize>>>;

/// The written bytes of each kind of a tree's nodes.
fn written<T: SearchTree<u64>>() -> Written {
    let tree = T::segregated();
    for key in [50, 20, 80, 60, 90, 10] {
        tree.insert(key, key);
    }
    // Of two children: some trees leave other words behind.
    tree.remove(50);
    let mut kinds = Written::new();
    tree.visit_nodes(&mut |node| {
        let ranges: Vec<_> = node.written_fields.ranges().collect();
        let known = kinds.entry(node.kind).or_insert_with(|| ranges.clone());
        assert_eq!(*known, ranges, "nodes of one kind differ");
        assert!(ranges.iter().all(|range| range.end <= node.bytes));
    });
    kinds
}

/// Checks that a tree's nodes are of these kinds and written there.
fn check<T: SearchTree<u64>>(expected: &[(&'static str, &[Range<usize>])]) {
    let expected = expected
        .iter()
        .map(|&(kind, ranges)| (kind, ranges.to_vec()));
    assert_eq!(written::<T>(), expected.collect(), "{}", T::NAME);
}

type Scattered = ScatteredFields;

#[test]
fn occ_avl_writes_all_but_the_key() {
    let improved: &[_] = &[8..60];
    check::<OccAvl<u64>>(&[("node", improved)]);
    check::<OccAvl2<u64>>(&[("node", improved)]);
    check::<OccAvl2Ret<u64>>(&[("node", improved)]);
    // Parent and lock, of whose 40 bytes 4 are used; then the key.
    let baseline: &[_] = &[0..12, 56..96];
    check::<OccAvl<u64, BloatedLocks<Scattered>>>(&[("node", baseline)]);
}

#[test]
fn edge_int_lf_writes_links() {
    let improved: &[_] = &[8..24];
    check::<EdgeIntLf<u64>>(&[("edge-int-lf node", improved)]);
    check::<BaselineEdgeIntLf<u64>>(&[("edge-int-lf node", improved)]);
    let scattered: &[_] = &[16..32];
    check::<EdgeIntLf<u64, Scattered>>(&[("edge-int-lf node", scattered)]);
}

#[test]
fn log_int_writes_links_of_tree_and_list_and_locks() {
    check::<LogInt<u64>>(&[("node", &[8..32, 40..64])]);
    // Parent and first lock, second lock, children and successor, predecessor.
    check::<BaselineLogInt<u64>>(&[("node", &[0..12, 48..52, 96..120, 128..136])]);
}

#[test]
fn citrus_writes_links_state_and_lock() {
    check::<Citrus<u64>>(&[("node", &[8..24, 32..44])]);
    check::<BaselineCitrus<u64>>(&[("node", &[8..24, 32..44])]);
    check::<Citrus<u64, BloatedLocks<Scattered>>>(&[("node", &[0..12, 56..72])]);
}

#[test]
fn int_lf_writes_all_but_the_value_and_states_of_descriptors() {
    let (node, descriptor): (&[_], &[_]) = (&[0..40], &[0..8]);
    let kinds = [("int-lf node", node), ("int-lf descriptor", descriptor)];
    check::<IntLf<u64>>(&kinds);
    check::<BaselineIntLf<u64>>(&kinds);
    let scattered: &[_] = &[0..8, 16..48];
    check::<IntLf<u64, Scattered>>(&[("int-lf node", scattered), kinds[1]]);
}

#[test]
fn edge_ext_lf_writes_edges_and_no_leaf() {
    let improved: &[_] = &[8..24];
    let kinds = [("inner node", improved), ("leaf", &[])];
    check::<EdgeExtLf<u64>>(&kinds);
    check::<BaselineEdgeExtLf<u64>>(&kinds);
    check::<EdgeExtLf2<u64>>(&kinds);
    check::<BaselineEdgeExtLf2<u64>>(&kinds);
    let scattered: &[_] = &[16..32];
    check::<EdgeExtLf<u64, Scattered>>(&[("inner node", scattered), ("leaf", &[])]);
}

#[test]
fn ticket_writes_links_and_locks_and_no_leaf() {
    let improved: &[_] = &[8..32];
    let kinds = [("inner node", improved), ("leaf", &[])];
    check::<Ticket<u64>>(&kinds);
    check::<BaselineTicket<u64>>(&kinds);
    check::<Ticket<u64, Scattered>>(&[("inner node", &[0..8, 16..32]), ("leaf", &[])]);
}

#[test]
fn ext_lf_writes_edges_and_update_word_and_no_leaf() {
    let improved: &[_] = &[8..32];
    let kinds = [("inner node", improved), ("leaf", &[])];
    check::<ExtLf<u64>>(&kinds);
    check::<BaselineExtLf<u64>>(&kinds);
    check::<ExtLf<u64, Scattered>>(&[("inner node", &[0..8, 16..32]), ("leaf", &[])]);
}
