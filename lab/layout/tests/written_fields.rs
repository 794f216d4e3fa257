//! What trees of many keys a node tell the inspector to be written in their nodes.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "bytes that are written are often one range"
)]

use std::collections::BTreeMap;
use std::ops::Range;

use hedgerow_lab_layout::entries;
use hedgerow_masstree::{Bytes, Level, Masstree};
use hedgerow_memory::{PlacedNode, Placement, VisitNodes};

/// A node's written bytes.
fn ranges(node: &PlacedNode) -> Vec<Range<usize>> {
    node.written_fields.ranges().collect()
}

/// Visits the nodes of a tree of 5000 keys, some of them removed and inserted again.
fn nodes_of(name: &str, visit: &mut dyn FnMut(&PlacedNode)) {
    let entries = entries();
    let entry = entries.iter().find(|entry| entry.name == name);
    let tree = (entry.expect("an entry").make)(Placement::Merged);
    let key = |nth: u64| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..5000).for_each(|nth| tree.insert(key(nth)));
    for nth in (0..5000).step_by(7) {
        assert!(tree.remove(key(nth)));
        tree.insert(key(nth));
    }
    tree.visit_nodes(visit);
}

#[test]
fn masstree_writes_all_but_width_and_low_and_no_value() {
    let mut kinds = BTreeMap::new();
    nodes_of("masstree bytes", &mut |node| {
        let known = kinds.entry(node.kind).or_insert_with(|| ranges(node));
        assert_eq!(*known, ranges(node));
    });
    let border = vec![0..16, 17..184, 192..320];
    let interior = vec![0..16, 48..56, 64..184, 192..320];
    let expected = [
        ("border", border),
        ("interior", interior),
        ("value", vec![]),
    ];
    assert_eq!(kinds, expected.into());
}

#[test]
fn masstree_writes_bags_but_their_capacity() {
    let tree = Masstree::<Bytes>::with_placement(Level::detect(), Placement::Merged);
    for nth in 0..3000_u64 {
        let slice = (nth / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        // Some slices have one long key, some have two, and so a layer.
        let suffix: &[u8] = if nth % 2 == 0 { b"long" } else { b"longer" };
        if nth % 2 == 0 || nth % 5 == 0 {
            tree.put(&[&slice, suffix].concat(), b"value");
        }
    }
    let (mut kinds, mut with_bags) = (BTreeMap::new(), 0);
    tree.visit_nodes(&mut |node| {
        *kinds.entry(node.kind).or_insert(0) += 1;
        let (ranges, end) = (ranges(node), node.bytes);
        match node.kind {
            "border of 2" | "border of 6" => assert_eq!(ranges, [0..16, 17..end]),
            "suffixes" => assert_eq!(ranges, [2..end]),
            "border" if end > 320 => {
                assert_eq!(ranges, [0..16, 17..184, 192..320, 322..end]);
                with_bags += 1;
            }
            _ => {}
        }
    });
    for kind in ["border of 2", "border", "suffixes", "value"] {
        assert!(kinds.contains_key(kind), "{kinds:?}");
    }
    assert!(with_bags > 0, "{kinds:?}");
}

#[test]
fn the_writer_of_a_btree_writes_whole_pages() {
    nodes_of("btree", &mut |node| assert_eq!(ranges(node), [0..4096]));
}

#[test]
fn matryoshka_writes_all_but_capacity_and_placement() {
    let (mut pages, mut inner_nodes) = (0, 0);
    nodes_of("matryoshka", &mut |node| {
        if node.kind == "inner" {
            assert_eq!(ranges(node), [0..16, 64..2880 + 313 * 8]);
            inner_nodes += 1;
            return;
        }
        let ranges = ranges(node);
        assert_eq!(ranges[..2], [0..8, 16..32]);
        assert_eq!((ranges.len(), ranges[2].start), (3, 64));
        // A number of leaf lines of 128 bytes, as many as fit into the block.
        let end = ranges[2].end;
        assert!(
            (end - 704).is_multiple_of(128) && node.bytes - end < 128,
            "{node:?}"
        );
        pages += 1;
    });
    assert!(pages > 1 && inner_nodes == 1, "{pages} {inner_nodes}");
}

#[test]
fn the_bwtree_writes_room_for_deltas_and_its_marker() {
    let mut kinds = BTreeMap::new();
    nodes_of("bwtree", &mut |node| {
        *kinds.entry(node.kind).or_insert(0) += 1;
        // The sizes of chunk and base node lie between the marker and the base node.
        assert_eq!(ranges(node), [0..node.search_fields.start - 8]);
    });
    assert_eq!(kinds.into_keys().collect::<Vec<_>>(), ["inner", "leaf"]);
}
