//! The inspector's figures, on layouts made by hand.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "bytes that are written are often one range"
)]

use std::ops::Range;

use hedgerow_memory::layout::{Cache, Inspector, Layout, Nearness, PageRun};
use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};

/// A made-up structure.
#[derive(Default)]
struct Made {
    nodes: Vec<PlacedNode>,
}

impl VisitNodes for Made {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.nodes.iter().for_each(visit);
    }
}

impl Made {
    /// Adds a node of which searches read the first bytes, and that is never written.
    fn add(&mut self, kind: &'static str, address: usize, bytes: usize, read: usize) {
        self.nodes.push(PlacedNode {
            kind,
            address,
            bytes,
            search_fields: 0..read,
            written_fields: WrittenFields::NONE,
            parent: None,
        });
    }

    /// Adds a node that searches read and of which updates write some bytes.
    fn add_written(
        &mut self,
        kind: &'static str,
        address: usize,
        bytes: usize,
        written: &[Range<usize>],
    ) {
        self.add(kind, address, bytes, bytes);
        let last = self.nodes.last_mut().expect("just added");
        let written = written.iter().cloned();
        last.written_fields = written.fold(WrittenFields::NONE, WrittenFields::and);
    }

    /// Adds a child of 32 bytes to a node at an address.
    fn add_child(&mut self, kind: &'static str, address: usize, parent: usize) {
        self.add(kind, address, 32, 24);
        let last = self.nodes.last_mut().expect("just added");
        last.parent = Some(parent);
    }
}

/// Where made-up nodes begin: at a boundary of 2 MiB.
const HOME: usize = 0x4000_0000;

/// Two levels of 8 and 64 sets.
fn caches() -> Vec<Cache> {
    vec![Cache::new(1, 8, 4, 64), Cache::new(2, 64, 8, 64)]
}

/// The layout, by virtual addresses.
fn layout(made: &Made) -> Layout {
    Inspector::new(caches(), Err("made up".to_owned())).layout_of(made)
}

#[test]
fn one_in_four_nodes_of_48_bytes_crosses_a_line_with_24_bytes_of_search_fields() {
    // §3.2.2: they begin at 0, 48, 32 and 16 within a line; at 48 the last 8 bytes are beyond.
    let mut made = Made::default();
    (0..400).for_each(|nth| made.add("node", HOME + nth * 48, 48, 24));
    let found = layout(&made);
    let node = found.kind("node").expect("nodes");
    assert_eq!((node.nodes, node.crossing), (400, 100));
    assert!((node.crossing_share() - 0.25).abs() < 1e-9);
    assert_eq!(
        (node.bytes, node.least_bytes, node.most_bytes),
        (19200, 48, 48)
    );
    // Search fields of two lines touch two; a third only where they do not begin with one.
    let mut wide = Made::default();
    wide.add("wide", HOME, 320, 128);
    wide.add("wide", HOME + 320, 320, 128);
    wide.add("wide", HOME + 648, 320, 128);
    assert_eq!(
        layout(&wide).kind("wide").map(|wide| wide.crossing),
        Some(1)
    );
}

#[test]
fn search_fields_behind_others_are_where_the_lines_are_counted() {
    let mut made = Made::default();
    made.add("late", HOME, 96, 24);
    made.nodes[0].search_fields = 56..80;
    let found = layout(&made);
    assert_eq!(found.kind("late").map(|late| late.crossing), Some(1));
}

#[test]
fn nodes_that_alternate_with_descriptors_use_half_of_the_sets() {
    // §3.2.3: 64-byte nodes and 64-byte descriptors, one of each an insertion.
    let mut made = Made::default();
    for nth in 0..512 {
        made.add("node", HOME + nth * 128, 64, 24);
        made.add("descriptor", HOME + nth * 128 + 64, 64, 8);
    }
    let found = layout(&made);
    let node = found.kind("node").expect("nodes");
    let sets: Vec<_> = node
        .sets
        .iter()
        .map(|s| (s.level, s.sets, s.used))
        .collect();
    assert_eq!(sets, [(1, 8, 4), (2, 64, 32)]);
    assert!((node.sets[1].unused_share() - 0.5).abs() < 1e-9);
    assert!((node.sets[1].crowding() - 2.0).abs() < 1e-9);
    assert_eq!(node.strides.common, [(128, 511)]);
    // Both neighbours and the line fetched along hold descriptors; the last has none behind it.
    assert!((found.pairs.share("node", "descriptor") - 1.0).abs() < 1e-9);
    assert!((found.pairs.share("node", "node")).abs() < 1e-9);
    assert_eq!(found.neighbours.all, [1024, 1024]);
    assert_eq!(found.neighbours.counts, [[0, 1023], [1023, 0]]);
    assert_eq!(found.neighbours.nothing, [1, 1]);
    // Segregated, they use all of them.
    let mut made = Made::default();
    for nth in 0..512 {
        made.add("node", HOME + nth * 64, 64, 24);
        made.add("descriptor", HOME + (1 << 20) + nth * 64, 64, 8);
    }
    let found = layout(&made);
    let node = found.kind("node").expect("nodes");
    assert_eq!(
        node.sets.iter().map(|sets| sets.used).sum::<usize>(),
        8 + 64
    );
    assert!((found.pairs.share("node", "node") - 1.0).abs() < 1e-9);
}

#[test]
fn sets_by_physical_addresses_follow_the_frames() {
    // Pages of 64 lines fill all sets; here every page but the first is gone from memory, and the
    // frame of the first begins 32 lines into the second level's sets if those are 128.
    let mut made = Made::default();
    for nth in 0..64 {
        made.add("node", HOME + nth * 64, 64, 24);
        made.add("node", HOME + 4096 + nth * 64, 64, 24);
    }
    let caches = vec![Cache::new(2, 128, 8, 64)];
    let translate = |address: usize| {
        assert_eq!(address % 4096, 0);
        (address == HOME).then_some(7 * 4096)
    };
    let found = Inspector::new(caches, Ok(Box::new(translate))).layout_of(&made);
    let sets = &found.kind("node").expect("nodes").sets;
    assert_eq!(
        (sets[0].physical, sets[0].used, sets[0].lines),
        (false, 128, 128)
    );
    assert_eq!(
        (sets[1].physical, sets[1].used, sets[1].lines),
        (true, 64, 64)
    );
    assert_eq!(found.no_physical, None);
    assert_eq!(layout(&made).no_physical.as_deref(), Some("made up"));
}

#[test]
fn three_kinds_in_turn_have_a_stride_of_three() {
    // §4.3.1: a row, its wrapper, a node, each of 64 bytes.
    let mut made = Made::default();
    for nth in 0..96 {
        for (place, kind) in ["row", "wrapper", "node"].into_iter().enumerate() {
            made.add(kind, HOME + (3 * nth + place) * 64, 64, 24);
        }
    }
    let modulo_three = vec![Cache::new(3, 96, 8, 64)];
    let inspector = Inspector::new(modulo_three, Err("made up".to_owned()));
    for kind in inspector.layout_of(&made).kinds {
        assert_eq!(kind.strides.common, [(192, 95)]);
        assert_eq!(kind.sets[0].used, 32, "a third of the sets");
    }
}

#[test]
fn strides_beyond_the_commonest_are_counted_together() {
    let mut made = Made::default();
    let mut address = HOME;
    for nth in 0..20 {
        made.add("node", address, 64, 24);
        address += 64 * (nth + 1);
    }
    made.add("node", address, 64, 24);
    made.add("node", address + 64, 64, 24);
    let found = layout(&made);
    let strides = &found.kind("node").expect("nodes").strides;
    assert_eq!(strides.common[0], (64, 2));
    assert_eq!(strides.common.len(), 16);
    assert_eq!(strides.others, 4);
}

#[test]
fn children_are_told_apart_by_how_near_they_are() {
    let mut made = Made::default();
    // Each parent on a page of its own, with one leaf: on its line, on the pair's other line, on
    // the next line of another pair, on its page, on another page.
    let places = [
        (0, 32),
        (0, 64),
        (64, 128),
        (0, 640),
        (0, 1 << 20),
        (0, 1 << 21),
    ];
    for (nth, (parent, child)) in places.into_iter().enumerate() {
        let page = HOME + nth * 4096;
        made.add("inner", page + parent, 32, 24);
        made.add_child("leaf", page + child, page + parent);
    }
    // Another leaf of the first, far away: the nearest counts. And an inner child.
    made.add_child("leaf", HOME + (3 << 20), HOME);
    made.add_child("inner", HOME + (4 << 20), HOME);
    // A parent that nobody visited.
    made.add_child("leaf", HOME + (5 << 20), HOME + (6 << 20));
    let found = layout(&made);
    assert_eq!(found.children.len(), 2);
    let leaves = found.children.iter().find(|found| found.child == "leaf");
    let leaves = leaves.expect("leaves have parents");
    assert_eq!(leaves.parents, [1, 1, 1, 1, 1, 1]);
    assert_eq!(leaves.children, [1, 1, 1, 1, 1, 2]);
    assert_eq!(leaves.odd_parents, 1);
    assert!((leaves.share_of_parents(Nearness::SameLine) - 1.0 / 6.0).abs() < 1e-9);
    assert!((leaves.share_of_children(Nearness::Apart) - 2.0 / 7.0).abs() < 1e-9);
}

#[test]
fn pages_are_counted_once_and_runs_end_at_gaps() {
    let mut made = Made::default();
    // Two nodes on one page, one across two pages, then a gap, then two pages.
    made.add("node", HOME, 64, 24);
    made.add("node", HOME + 64, 64, 24);
    made.add("node", HOME + 4096 - 32, 64, 24);
    made.add("page", HOME + 4 * 4096, 8192, 24);
    // Beyond the next boundary of 2 MiB.
    made.add("node", HOME + (2 << 20), 64, 24);
    let found = layout(&made);
    let node = &found.kind("node").expect("nodes").pages;
    let first = HOME / 4096;
    let run = |at: usize, pages: usize| PageRun {
        first: first + at,
        pages,
    };
    assert_eq!(node.runs, [run(0, 2), run(512, 1)]);
    assert_eq!((node.pages, node.superpages, node.node_bytes), (3, 2, 256));
    assert_eq!((node.least_pages(), node.longest_run()), (1, 2));
    assert!((node.mean_run() - 1.5).abs() < 1e-9);
    assert_eq!(found.whole.runs, [run(0, 2), run(4, 2), run(512, 1)]);
    assert!((found.whole.density() - 8448.0 / (5.0 * 4096.0)).abs() < 1e-9);
}

#[test]
fn runs_of_different_kinds_that_touch_are_one_run_of_all() {
    let mut made = Made::default();
    for page in 0..6 {
        let kind = if page % 2 == 0 { "even" } else { "odd" };
        made.add(kind, HOME + page * 4096, 4096, 24);
    }
    let found = layout(&made);
    assert_eq!(
        found.kind("even").map(|even| even.pages.runs.len()),
        Some(3)
    );
    assert_eq!(found.whole.runs.len(), 1);
}

/// The figures of a kind's written lines: lines, shared and mixed ones, nodes that share.
fn written(found: &Layout, kind: &str) -> [usize; 4] {
    let written = &found.kind(kind).expect("such nodes").written;
    [
        written.lines,
        written.shared_lines,
        written.mixed_lines,
        written.sharing_nodes,
    ]
}

/// Those of its pairs of lines: pairs, and shared ones.
fn written_pairs(found: &Layout, kind: &str) -> [usize; 2] {
    let written = &found.kind(kind).expect("such nodes").written;
    [written.pairs, written.shared_pairs]
}

#[test]
fn locks_side_by_side_share_lines() {
    // §4.3.2: locks of 48 bytes, one after the other.
    let mut made = Made::default();
    (0..4).for_each(|nth| made.add_written("lock", HOME + nth * 48, 48, &[0..48]));
    let found = layout(&made);
    assert_eq!(written(&found, "lock"), [3, 3, 0, 4]);
    assert_eq!(written_pairs(&found, "lock"), [2, 2]);
    assert!((found.kinds[0].written.shared_share() - 1.0).abs() < 1e-9);
    // Padded to lines they share none, but still pairs of lines.
    made.nodes.clear();
    (0..4).for_each(|nth| made.add_written("lock", HOME + nth * 64, 64, &[0..48]));
    let found = layout(&made);
    assert_eq!(written(&found, "lock"), [4, 0, 0, 0]);
    assert_eq!(written_pairs(&found, "lock"), [2, 2]);
    assert_eq!(found.written_lines.counts, [[0]]);
    assert_eq!(
        (found.written_lines.alone, found.written_lines.all),
        (vec![4], vec![4])
    );
}

#[test]
fn only_what_is_said_to_be_written_makes_a_line_shared() {
    // Nodes of 32 bytes, two a line, with links on bytes 8 to 24; every second is a leaf.
    let mut made = Made::default();
    for nth in 0..8 {
        made.add_written("inner", HOME + nth * 64, 32, &[8..24]);
        made.add("leaf", HOME + nth * 64 + 32, 32, 32);
    }
    let found = layout(&made);
    assert_eq!(written(&found, "inner"), [8, 0, 0, 0]);
    assert_eq!(written(&found, "leaf"), [0; 4]);
    // A node of 96 bytes is written at its ends: at its second line's first half too.
    let mut made = Made::default();
    made.add_written("wide", HOME, 96, &[0..12, 64..70]);
    made.add_written("wide", HOME + 96, 96, &[0..12, 88..96]);
    let found = layout(&made);
    assert_eq!(written(&found, "wide"), [3, 1, 0, 2]);
    // The first line of the second pair is written by nobody but the second node.
    assert_eq!(written_pairs(&found, "wide"), [2, 1]);
    // Two ranges of one node on one line are one node.
    let mut made = Made::default();
    made.add_written("node", HOME, 64, &[0..8, 56..64]);
    assert_eq!(written(&layout(&made), "node"), [1, 0, 0, 0]);
    // Eight bytes on either side of a boundary are on both lines.
    let mut made = Made::default();
    made.add_written("node", HOME + 48, 48, &[8..24]);
    made.add_written("node", HOME + 96, 48, &[8..24]);
    assert_eq!(written(&layout(&made), "node"), [2, 1, 0, 2]);
}

#[test]
fn a_lock_on_a_line_with_another_kinds_node_is_seen() {
    // §4.3.2: a row's lock of 40 bytes on a line with the key and links of a node.
    let mut made = Made::default();
    made.add("row", HOME, 64, 64);
    made.add_written("lock", HOME + 64, 40, &[0..40]);
    made.add_written("node", HOME + 104, 24, &[8..24]);
    // A lock beside a node that is never written; a lock alone.
    made.add_written("lock", HOME + 128, 40, &[0..40]);
    made.add("leaf", HOME + 168, 16, 16);
    made.add_written("lock", HOME + 192, 40, &[0..40]);
    // A node whose links are on the next line: the lock is beside bytes that are only read.
    made.add_written("lock", HOME + 256, 40, &[0..40]);
    made.add_written("node", HOME + 304, 48, &[16..32]);
    let found = layout(&made);
    assert_eq!(written(&found, "lock"), [4, 0, 1, 1]);
    assert_eq!(written(&found, "node"), [2, 0, 1, 1]);
    let lines = &found.written_lines;
    assert_eq!(lines.kinds, ["row", "lock", "node", "leaf"]);
    assert_eq!(lines.all, [0, 4, 2, 0]);
    assert_eq!(lines.alone, [0, 1, 1, 0]);
    let (of_locks, of_nodes) = ([0, 0, 2, 1], [0, 1, 0, 0]);
    assert_eq!(lines.counts, [[0; 4], of_locks, of_nodes, [0; 4]]);
    assert!((lines.share("lock", "node") - 0.5).abs() < 1e-9);
    assert!((lines.share("lock", "leaf") - 0.25).abs() < 1e-9);
    assert!(lines.share("leaf", "lock").abs() < 1e-9);
    // Three nodes of two kinds on one line: each counts for what is beside it.
    let mut made = Made::default();
    made.add_written("lock", HOME, 16, &[0..4]);
    made.add_written("lock", HOME + 16, 16, &[0..4]);
    made.add_written("node", HOME + 32, 32, &[8..24]);
    let found = layout(&made);
    assert_eq!(written(&found, "lock"), [1, 1, 1, 2]);
    assert_eq!(written(&found, "node"), [1, 0, 1, 1]);
    assert_eq!(found.written_lines.counts, [[1, 1], [1, 0]]);
    assert_eq!(found.written_lines.alone, [0, 0]);
}

#[test]
fn nothing_has_no_kinds_and_this_machine_finds_the_same_ones() {
    let mut made = Made::default();
    made.add("inner", HOME, 32, 24);
    made.add_child("leaf", HOME + 32, HOME);
    let nothing = layout(&Made::default());
    assert!(nothing.kinds.is_empty() && nothing.whole.runs.is_empty());
    let here = Inspector::of_this_machine().layout_of(&made);
    assert_eq!(here.kinds.len(), 2);
}
