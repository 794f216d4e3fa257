//! Loads: keys in random order, and what an application allocates between their insertions.

use std::cell::RefCell;

use hedgerow_lab_data::random::mix64;
use hedgerow_memory::{PlacedNode, Placement, VisitNodes, WrittenFields};

use crate::entries::{LayoutEntry, LayoutSubject};

/// What is allocated between insertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Nothing: the microbenchmark (§3.1).
    Nothing,
    /// A block of a random size (§3.2.3, Table 4).
    Random,
    /// What YCSB allocates for a record (§4.3.3): a row, its data, its wrapper, its lock, its
    /// value. Locks are padded.
    Rows,
    /// The same with locks that are not padded (§4.3.2).
    RowsUnpadded,
}

/// A block that an application allocates.
#[derive(Clone, Copy)]
struct Block {
    kind: &'static str,
    bytes: usize,
    /// What of it the application writes later on: so many bytes from the first on.
    written_bytes: usize,
}

const fn block(kind: &'static str, bytes: usize, written_bytes: usize) -> Block {
    Block {
        kind,
        bytes,
        written_bytes,
    }
}

/// A row's lock: a POSIX mutex, with its padding or without.
const LOCK_BYTES: usize = 40;
const PADDED_LOCK_BYTES: usize = 192;

/// The blocks of a record in YCSB, in their order. Transactions write the data, and the lock in
/// front of its padding.
const fn record(lock_bytes: usize) -> [Block; 5] {
    [
        block("row", 64, 0),
        block("row data", 128, 128),
        block("row wrapper", 64, 0),
        block("row lock", lock_bytes, LOCK_BYTES),
        block("row value", 32, 0),
    ]
}

/// How a tree is filled.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many keys.
    pub keys: usize,
    /// Where nodes come from. What is allocated between them comes from the size classes, or from
    /// the system's allocator if nodes do.
    pub placement: Placement,
    /// What is allocated between insertions.
    pub between: Between,
    /// Whether a block of 32 bytes is allocated before the tree, so that nodes of that size pair
    /// differently on lines (§3.2.4). Only without segregation does that move nodes.
    pub shifted: bool,
}

impl Load {
    /// Makes a tree and fills it, in this thread. What is allocated beside the tree is never freed:
    /// a process measures one load.
    #[must_use]
    pub fn run(&self, entry: &LayoutEntry) -> Loaded {
        let blocks = Blocks::default();
        if self.shifted {
            blocks.allocate(block("shift", 32, 0), self.placement);
        }
        let tree = (entry.make)(self.placement);
        for nth in 0..self.keys as u64 {
            match self.between {
                Between::Nothing => {}
                Between::Random => {
                    let bytes = 8 + mix64(!nth) as usize % 505;
                    blocks.allocate(block("other", bytes, 0), self.placement);
                }
                Between::Rows => blocks.add_record(PADDED_LOCK_BYTES, self.placement),
                Between::RowsUnpadded => blocks.add_record(LOCK_BYTES, self.placement),
            }
            tree.insert(key(nth));
        }
        Loaded {
            tree,
            blocks,
            keys: self.keys,
        }
    }
}

/// A key of a load: all differ, in no order.
fn key(nth: u64) -> u64 {
    mix64(nth)
}

/// A tree that was filled, and what was allocated beside it.
pub struct Loaded {
    tree: Box<dyn LayoutSubject>,
    blocks: Blocks,
    keys: usize,
}

impl Loaded {
    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &dyn LayoutSubject {
        &*self.tree
    }

    /// So many keys at random from a space of which half is there (§3.1).
    #[must_use]
    pub fn drawn_keys(&self, count: usize) -> DrawnKeys {
        let (there, space) = (self.keys as u64, 2 * self.keys.max(1) as u64);
        let mut drawn = DrawnKeys {
            keys: Vec::with_capacity(count),
            present: 0,
        };
        for nth in 0..count as u64 {
            let any = mix64(nth ^ 0x5eed) % space;
            drawn.present += usize::from(any < there);
            drawn.keys.push(key(any));
        }
        drawn
    }

    /// How many of the keys are found: all.
    #[must_use]
    pub fn count_found(&self) -> usize {
        let keys: Vec<u64> = (0..self.keys as u64).map(key).collect();
        self.tree.count_found(&keys)
    }
}

/// Keys to look up.
pub struct DrawnKeys {
    /// In the order in which they were drawn.
    pub keys: Vec<u64>,
    /// How many of them are in the tree.
    pub present: usize,
}

/// The nodes of the tree, and the blocks beside it by their kinds.
impl VisitNodes for Loaded {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.tree.visit_nodes(visit);
        for &(address, block) in self.blocks.0.borrow().iter() {
            visit(&PlacedNode {
                kind: block.kind,
                address,
                bytes: block.bytes,
                search_fields: 0..block.bytes,
                written_fields: WrittenFields::NONE.and(0..block.written_bytes),
                parent: None,
            });
        }
    }
}

/// Blocks that an application has, by their addresses.
#[derive(Default)]
struct Blocks(RefCell<Vec<(usize, Block)>>);

impl Blocks {
    fn add_record(&self, lock_bytes: usize, placement: Placement) {
        for block in record(lock_bytes) {
            self.allocate(block, placement);
        }
    }

    fn allocate(&self, block: Block, placement: Placement) {
        let place = match placement {
            Placement::System => Placement::System,
            _ => Placement::Merged,
        };
        let address = place.allocate(block.bytes).addr().get();
        self.0.borrow_mut().push((address, block));
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_memory::layout::{Cache, Inspector};

    use super::*;
    use crate::entries::entries;

    fn inspector() -> Inspector {
        Inspector::new(vec![Cache::new(1, 64, 8, 64)], Err("made up".to_owned()))
    }

    #[test]
    fn half_of_the_keys_that_are_drawn_are_there() {
        for entry in entries() {
            let load = Load {
                keys: 1000,
                placement: Placement::Merged,
                between: Between::Nothing,
                shifted: false,
            };
            let loaded = load.run(&entry);
            let drawn = loaded.drawn_keys(4000);
            assert_eq!(drawn.keys.len(), 4000);
            assert!((1800..2200).contains(&drawn.present), "{}", drawn.present);
            let found = loaded.tree().count_found(&drawn.keys);
            assert_eq!(found, drawn.present, "{}", entry.name);
        }
    }

    #[test]
    fn rows_are_reported_beside_nodes_and_scatter_them_unless_these_are_segregated() {
        let wanted = entries();
        let tree = wanted.iter().find(|entry| entry.name == "occ-avl-2");
        let tree = tree.expect("a tree whose nodes have 64 bytes");
        let beside = |placement| {
            let load = Load {
                keys: 4000,
                placement,
                between: Between::Rows,
                shifted: false,
            };
            let layout = inspector().layout_of(&load.run(tree));
            let rows = layout.kind("row").map(|rows| rows.nodes);
            assert_eq!(rows, Some(4000));
            let node = layout.kinds[0].kind;
            let with_rows = layout.neighbours.share(node, "row");
            let with_wrappers = layout.neighbours.share(node, "row wrapper");
            (with_rows + with_wrappers, layout.kinds[0].pages.density())
        };
        let (apart, dense) = beside(Placement::Segregated);
        assert!(apart < 0.01, "{apart} of the lines beside nodes hold rows");
        let (among, scattered) = beside(Placement::Merged);
        assert!(among > 0.5, "{among} of the lines beside nodes hold rows");
        assert!(dense > 0.9 && scattered < 0.5, "{dense} and {scattered}");
    }

    /// Two threads that lock two rows then write one line, which is what padding is for.
    #[test]
    fn locks_share_lines_unless_they_are_padded() {
        let wanted = entries();
        let tree = wanted.iter().find(|entry| entry.name == "edge-ext-lf");
        let shared = |between| {
            let load = Load {
                keys: 4000,
                placement: Placement::Segregated,
                between,
                shifted: false,
            };
            let layout = inspector().layout_of(&load.run(tree.expect("a tree")));
            let locks = layout.kind("row lock").expect("a lock a row");
            assert_eq!(locks.nodes, 4000);
            locks.written.shared_share()
        };
        assert_eq!(shared(Between::Rows), 0.0);
        let unpadded = shared(Between::RowsUnpadded);
        assert!(
            unpadded > 0.5,
            "{unpadded} of the lines of locks have several"
        );
    }
}
