//! Every tree takes its nodes from where it is told, and gives them back there. In a process of its
//! own, so that it can count blocks.

use hedgerow_lab_data::random::mix64;
use hedgerow_lab_layout::{LayoutEntry, entries};
use hedgerow_memory::{Placement, inspect};

const KEYS: u64 = 30_000;

/// Blocks in use, by where they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blocks {
    of_kinds: usize,
    of_size_classes: usize,
    of_system: usize,
}

impl Blocks {
    fn in_use() -> Self {
        let report = inspect();
        let live = |is_kind| {
            let pools = report.classes.iter();
            let wanted = pools.filter(|pool| pool.kind.is_some() == is_kind);
            wanted.map(|pool| pool.live).sum()
        };
        Self {
            of_kinds: live(true),
            of_size_classes: live(false),
            of_system: report.large_blocks,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            of_kinds: self.of_kinds - before.of_kinds,
            of_size_classes: self.of_size_classes - before.of_size_classes,
            of_system: self.of_system - before.of_system,
        }
    }
}

/// Fills a tree and looks at where its nodes are; then empties and drops it.
fn check(entry: &LayoutEntry, placement: Placement) {
    let name = entry.name;
    let before = Blocks::in_use();
    let tree = (entry.make)(placement);
    let keys: Vec<u64> = (0..KEYS).map(mix64).collect();
    keys.iter().for_each(|&key| tree.insert(key));
    assert_eq!(tree.count_found(&keys), keys.len(), "{name}");
    let (mut nodes, mut unplaced) = (0, 0);
    tree.visit_nodes(&mut |node| match node.kind {
        // Masstree's, of many sizes, which stay in size classes.
        "suffixes" | "value" => unplaced += 1,
        _ => nodes += 1,
    });
    let taken = Blocks::in_use().since(before);
    let what = format!("{name}, {placement:?}: {nodes} nodes, {unplaced} others, {taken:?}");
    assert!(nodes > 50, "{what}");
    match placement {
        // Pages of the B-tree lie in superpages of its own.
        Placement::Segregated if name == "btree" => {
            assert_eq!((taken.of_kinds, taken.of_size_classes), (0, 0), "{what}");
        }
        Placement::Segregated => assert!(taken.of_kinds >= nodes, "{what}"),
        Placement::Merged => {
            assert!(taken.of_size_classes >= nodes, "{what}");
            assert_eq!((taken.of_kinds, taken.of_system), (0, 0), "{what}");
        }
        Placement::System => {
            assert!(taken.of_system >= nodes, "{what}");
            assert_eq!(taken.of_kinds, 0, "{what}");
        }
    }
    assert!(keys.iter().all(|&key| tree.remove(key)), "{name}");
    drop(tree);
    // What this thread retired last is in a bag of its own until that is full or flushed.
    let freed = (0..1000).any(|_| {
        hedgerow_bwtree::pin().flush();
        Blocks::in_use() == before
    });
    let left = Blocks::in_use();
    assert!(freed, "{name}, {placement:?}: {left:?}, {before:?} before");
}

#[test]
fn nodes_of_every_tree_and_placement_go_back_where_they_came_from() {
    for entry in entries() {
        for placement in Placement::ALL {
            check(&entry, placement);
        }
    }
}
