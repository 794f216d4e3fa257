//! The trees that can be inspected, each as a map of `u64` keys.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_bst::{
    BaselineExtLf, BaselineIntLf, BaselineTicket, Citrus, EdgeExtLf, EdgeExtLf2, EdgeIntLf, ExtLf,
    IntLf, LogInt, OccAvl, OccAvl2, OccAvl2Ret, SearchTree, Ticket,
};
use hedgerow_btree::BTree;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_bwtree::BwTree;
use hedgerow_index::{ConcurrentIntMap, Decision};
use hedgerow_masstree::{Bytes, Level, Masstree};
use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_memory::{PlacedNode, Placement, VisitNodes};

/// A tree of `u64` keys, whose value is the key.
pub trait LayoutSubject: VisitNodes + Sync {
    /// Inserts a key that is absent.
    fn insert(&self, key: u64);

    /// Removes a key; says whether it was there.
    fn remove(&self, key: u64) -> bool;

    /// Looks up all keys, one after the other; says how many are there.
    fn count_found(&self, keys: &[u64]) -> usize;
}

/// How to make a subject.
#[derive(Clone, Copy)]
pub struct LayoutEntry {
    /// Its name; of a binary search tree that of Table 1.
    pub name: &'static str,
    /// An empty tree whose nodes come from there.
    pub make: fn(Placement) -> Box<dyn LayoutSubject>,
}

/// All subjects.
#[must_use]
pub fn entries() -> Vec<LayoutEntry> {
    vec![
        search_tree::<OccAvl<u64>>(),
        search_tree::<OccAvl2<u64>>(),
        search_tree::<OccAvl2Ret<u64>>(),
        search_tree::<EdgeIntLf<u64>>(),
        search_tree::<LogInt<u64>>(),
        search_tree::<Citrus<u64>>(),
        search_tree::<IntLf<u64>>(),
        search_tree::<EdgeExtLf<u64>>(),
        search_tree::<EdgeExtLf2<u64>>(),
        search_tree::<Ticket<u64>>(),
        search_tree::<ExtLf<u64>>(),
        as_published::<BaselineIntLf<u64>>("int-lf as published"),
        as_published::<BaselineTicket<u64>>("ticket as published"),
        as_published::<BaselineExtLf<u64>>("ext-lf as published"),
        LayoutEntry {
            name: "masstree",
            make: |placement| Box::new(Masstree::<u64>::with_placement(Level::detect(), placement)),
        },
        LayoutEntry {
            name: "masstree bytes",
            make: |placement| {
                Box::new(Masstree::<Bytes>::with_placement(
                    Level::detect(),
                    placement,
                ))
            },
        },
        LayoutEntry {
            name: "btree",
            make: |placement| {
                let tree = BTree::with_placement(placement);
                Box::new(OwnedBTree(Mutex::new(tree)))
            },
        },
        LayoutEntry {
            name: "matryoshka",
            make: |placement| {
                Box::new(SharedMatryoshka::<u64>::with_placement(
                    Level::detect(),
                    placement,
                ))
            },
        },
        LayoutEntry {
            name: "bwtree",
            make: |placement| {
                let tree = BwTree::<hedgerow_bwtree::Standard>::with_placement(placement);
                Box::new(tree.expect("address space for a mapping table"))
            },
        },
    ]
}

/// A binary search tree, under its name in Table 1.
fn search_tree<T: SearchTree<u64> + 'static>() -> LayoutEntry {
    LayoutEntry {
        name: T::NAME,
        make: |placement| Box::new(Integers(T::with_placement(placement))),
    }
}

/// A binary search tree with the flaws of its first implementation.
fn as_published<T: SearchTree<u64> + 'static>(name: &'static str) -> LayoutEntry {
    LayoutEntry {
        name,
        ..search_tree::<T>()
    }
}

/// A map of integers for many threads.
struct Integers<T>(T);

impl<T: VisitNodes> VisitNodes for Integers<T> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.0.visit_nodes(visit);
    }
}

impl<T: ConcurrentIntMap<u64> + VisitNodes> LayoutSubject for Integers<T> {
    fn insert(&self, key: u64) {
        self.0.insert(key, key);
    }

    fn remove(&self, key: u64) -> bool {
        self.0.remove(key).is_some()
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let found = keys.iter().filter(|&&key| self.0.get(key).is_some());
        found.count()
    }
}

impl LayoutSubject for SharedMatryoshka<u64> {
    fn insert(&self, key: u64) {
        self.insert(key, key);
    }

    fn remove(&self, key: u64) -> bool {
        self.remove(key).is_some()
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let found = keys.iter().filter(|&&key| self.get(key).is_some());
        found.count()
    }
}

impl LayoutSubject for Masstree<u64> {
    fn insert(&self, key: u64) {
        self.put(&key.to_be_bytes(), key);
    }

    fn remove(&self, key: u64) -> bool {
        self.remove(&key.to_be_bytes()).is_some()
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let there = |key: &&u64| self.get(&key.to_be_bytes()).is_some();
        keys.iter().filter(there).count()
    }
}

impl LayoutSubject for Masstree<Bytes> {
    fn insert(&self, key: u64) {
        self.put(&key.to_be_bytes(), &key.to_be_bytes());
    }

    fn remove(&self, key: u64) -> bool {
        self.remove(&key.to_be_bytes())
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let there = |key: &&u64| self.get_with(&key.to_be_bytes(), |_| ()).is_some();
        keys.iter().filter(there).count()
    }
}

impl LayoutSubject for BwTree {
    fn insert(&self, key: u64) {
        let bytes = key.to_be_bytes();
        self.update_with(&bytes, &mut Vec::new(), |_, new| {
            new.extend_from_slice(&bytes);
            Decision::Put(())
        });
    }

    fn remove(&self, key: u64) -> bool {
        self.remove(&key.to_be_bytes())
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let there = |key: &&u64| self.get_with(&key.to_be_bytes(), |_| ()).is_some();
        keys.iter().filter(there).count()
    }
}

/// The B-tree of one writer: one thread after the other uses it.
struct OwnedBTree(Mutex<BTree<Adaptive>>);

impl OwnedBTree {
    fn tree(&self) -> MutexGuard<'_, BTree<Adaptive>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VisitNodes for OwnedBTree {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.tree().visit_nodes(visit);
    }
}

impl LayoutSubject for OwnedBTree {
    fn insert(&self, key: u64) {
        let bytes = key.to_be_bytes();
        self.tree().insert(&bytes, &bytes);
    }

    fn remove(&self, key: u64) -> bool {
        self.tree().remove(&key.to_be_bytes())
    }

    fn count_found(&self, keys: &[u64]) -> usize {
        let mut tree = self.tree();
        let there = |key: &&u64| tree.get(&key.to_be_bytes(), |_| ()).is_some();
        keys.iter().filter(there).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::load::{Between, Load};

    #[test]
    fn every_tree_reports_nodes_that_lie_apart_below_one_root() {
        for entry in entries() {
            let load = Load {
                keys: 3000,
                placement: Placement::Segregated,
                between: Between::Nothing,
                shifted: false,
            };
            let loaded = load.run(&entry);
            assert_eq!(loaded.count_found(), 3000, "{}", entry.name);
            let mut nodes: Vec<PlacedNode> = Vec::new();
            loaded.visit_nodes(&mut |node| nodes.push(node.clone()));
            nodes.sort_by_key(|node| node.address);
            for pair in nodes.windows(2) {
                let end = pair[0].address + pair[0].bytes;
                assert!(end <= pair[1].address, "{}: {pair:?}", entry.name);
            }
            let known: HashSet<usize> = nodes.iter().map(|node| node.address).collect();
            for node in &nodes {
                let fields = &node.search_fields;
                assert!(fields.start <= fields.end && fields.end <= node.bytes);
                let mut written = node.written_fields.ranges();
                assert!(written.all(|range| range.end <= node.bytes), "{node:?}");
                assert!(node.parent.is_none_or(|parent| known.contains(&parent)));
            }
            let roots = nodes.iter().filter(|node| node.parent.is_none());
            assert_eq!(roots.count(), 1, "{}", entry.name);
            assert!(nodes.len() > 3, "{}", entry.name);
        }
    }

    #[test]
    fn removals_take_nodes_away() {
        for entry in entries() {
            let tree = (entry.make)(Placement::Merged);
            let keys: Vec<u64> = (0..2000).map(|key| key * 977).collect();
            keys.iter().for_each(|&key| tree.insert(key));
            let count = || {
                let mut count = 0;
                tree.visit_nodes(&mut |_| count += 1);
                count
            };
            let full = count();
            assert!(keys.iter().all(|&key| tree.remove(key)), "{}", entry.name);
            assert!(!tree.remove(977), "{}", entry.name);
            assert!(count() < full, "{}", entry.name);
        }
    }
}
