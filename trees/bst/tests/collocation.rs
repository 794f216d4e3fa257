//! The inner node and the leaf that an insertion into `edge-ext-lf` allocates lie on one cache
//! line, and in the shifted tree on two (Arbel-Raviv et al., §3.2.4). A process of its own, since
//! other trees would take nodes from the same pools.

use std::collections::HashMap;

use hedgerow_bst::{EdgeExtLf, Placement, SearchTree};
use hedgerow_index::ConcurrentIntMap;
use hedgerow_memory::VisitNodes;

const KEYS: u64 = 4_000;
const LINE_BYTES: usize = 64;

/// Of the inner nodes with a leaf below them, the share that has one on its own line, and the share
/// that has one on the next line or the one before.
fn shares(tree: &EdgeExtLf<u64>) -> [f64; 2] {
    for number in 0..KEYS {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert_eq!(tree.insert(key, number), None);
    }
    let mut nearest: HashMap<usize, usize> = HashMap::new();
    tree.visit_nodes(&mut |node| {
        if let (Some(parent), "leaf") = (node.parent, node.kind) {
            let lines = (node.address / LINE_BYTES).abs_diff(parent / LINE_BYTES);
            let nearest = nearest.entry(parent).or_insert(lines);
            *nearest = lines.min(*nearest);
        }
    });
    let share = |lines| {
        let count = nearest
            .values()
            .filter(|&&nearest| nearest == lines)
            .count();
        count as f64 / nearest.len() as f64
    };
    [share(0), share(1)]
}

#[test]
fn pairs_share_a_line_unless_they_are_shifted() {
    let plain = shares(&EdgeExtLf::segregated());
    let shifted = shares(&EdgeExtLf::shifted(Placement::Segregated));
    if hedgerow_memory::reserved_bytes() == 0 {
        println!("skipped: nodes come from the system's allocator, which places them anywhere");
        return;
    }
    println!("on the parent's line, on the next: {plain:?}, shifted {shifted:?}");
    assert!(plain[0] > 0.6 && plain[1] < 0.2, "{plain:?}");
    assert!(shifted[0] < 0.2 && shifted[1] > 0.6, "{shifted:?}");
}
