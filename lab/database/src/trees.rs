//! The trees that indexes can be made over, by name.

use std::path::Path;
use std::sync::Arc;

use hedgerow_bst::{
    BaselineCitrus, BaselineEdgeExtLf, BaselineEdgeExtLf2, BaselineEdgeIntLf, BaselineExtLf,
    BaselineIntLf, BaselineLogInt, BaselineTicket, BloatedLocks, Citrus, EdgeExtLf, EdgeExtLf2,
    EdgeIntLf, ExtLf, IntLf, LogInt, OccAvl, OccAvl2, OccAvl2Ret, ScatteredFields, SearchTree,
    Ticket,
};
use hedgerow_btree::BTreeIndex;
use hedgerow_bwtree::{BwTree, Standard};
use hedgerow_masstree::{Bytes, Level, Masstree};
use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_memory::Placement;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

use crate::bwtree_multimap::NewestFirst;
use crate::index_form::NewIndex;
use crate::key_map::{ByteKeys, KeyMap};

/// More memory than the pages of an index take.
const POOL_BYTES: u64 = 1 << 34;

/// A tree by name.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// The name, that of Table 1 for the paper's trees.
    pub name: &'static str,
    /// Without the flaws of Table 3.
    pub improved: NewIndex,
    /// As published; none for trees that are not the paper's.
    pub baseline: Option<NewIndex>,
}

impl Tree {
    /// Whether the tree is a map. Otherwise it serves as an index alone.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self.improved, NewIndex::Map(_))
    }
}

/// All trees: the paper's, each as improved and as published, and others of ours.
#[must_use]
pub fn trees() -> Vec<Tree> {
    vec![
        paper::<OccAvl<u64>, OccAvl<u64, BloatedLocks<ScatteredFields>>>(),
        paper::<OccAvl2<u64>, OccAvl2<u64>>(),
        paper::<OccAvl2Ret<u64>, OccAvl2Ret<u64>>(),
        paper::<EdgeIntLf<u64>, BaselineEdgeIntLf<u64>>(),
        paper::<LogInt<u64>, BaselineLogInt<u64>>(),
        paper::<Citrus<u64>, BaselineCitrus<u64>>(),
        paper::<IntLf<u64>, BaselineIntLf<u64>>(),
        paper::<EdgeExtLf<u64>, BaselineEdgeExtLf<u64>>(),
        paper::<EdgeExtLf2<u64>, BaselineEdgeExtLf2<u64>>(),
        paper::<Ticket<u64>, BaselineTicket<u64>>(),
        paper::<ExtLf<u64>, BaselineExtLf<u64>>(),
        ours("masstree", |placement| {
            let tree = Masstree::<Bytes>::with_placement(Level::detect(), placement);
            Box::new(ByteKeys(tree))
        }),
        ours("matryoshka", |placement| {
            let tree = SharedMatryoshka::<u64>::with_placement(Level::detect(), placement);
            Box::new(tree)
        }),
        ours("bwtree", |placement| {
            let tree = BwTree::<Standard>::with_placement(placement);
            Box::new(ByteKeys(tree.expect("address space for a mapping table")))
        }),
        Tree {
            name: "bwtree-multimap",
            improved: NewIndex::Multimap(|placement| {
                Box::new(NewestFirst::with_placement(placement))
            }),
            baseline: None,
        },
        ours("btree", |_| Box::new(ByteKeys(btree()))),
    ]
}

/// A B-tree on a buffer pool that evicts nothing. Its pages lie in the pool, wherever nodes should.
fn btree() -> BTreeIndex {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(POOL_BYTES));
    let pool = pool.expect("address space for a pool");
    BTreeIndex::create(Arc::new(pool)).expect("all pages are in memory")
}

fn paper<T, B>() -> Tree
where
    T: SearchTree<u64> + 'static,
    B: SearchTree<u64> + 'static,
{
    Tree {
        name: T::NAME,
        improved: NewIndex::Map(|placement| Box::new(T::with_placement(placement))),
        baseline: Some(NewIndex::Map(|placement| {
            Box::new(B::with_placement(placement))
        })),
    }
}

fn ours(name: &'static str, new: fn(Placement) -> Box<dyn KeyMap>) -> Tree {
    Tree {
        name,
        improved: NewIndex::Map(new),
        baseline: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Harness, Settings, ycsb::Ycsb};

    #[test]
    fn each_tree_of_table_1_is_there_once() {
        let names: Vec<&str> = trees().iter().map(|tree| tree.name).collect();
        let table_1 = [
            "occ-avl",
            "occ-avl-2",
            "edge-int-lf",
            "log-int",
            "citrus",
            "int-lf",
            "edge-ext-lf",
            "edge-ext-lf-2",
            "ticket",
            "ext-lf",
        ];
        for name in table_1 {
            assert_eq!(
                names.iter().filter(|other| **other == name).count(),
                1,
                "{name}"
            );
        }
    }

    #[test]
    fn every_tree_serves_as_an_index_wherever_its_nodes_lie() {
        for tree in trees() {
            for placement in Placement::ALL {
                for new in [Some(tree.improved), tree.baseline].into_iter().flatten() {
                    let map = new.map(placement);
                    assert_eq!(map.is_some(), tree.is_map());
                    if let Some(map) = map {
                        assert_eq!(map.get(5), None);
                        assert_eq!(map.insert(5, 50), None);
                        assert_eq!(map.insert(5, 51), Some(50));
                        assert_eq!((map.remove(5), map.remove(5)), (Some(50), None));
                    }
                    let ycsb = Ycsb::new(300, 2, 30);
                    let form = new.form(placement);
                    let ran = ycsb.run(form, Settings::default(), Harness::default());
                    ran.unwrap_or_else(|error| panic!("{}, {placement:?}: {error}", tree.name));
                }
            }
        }
    }
}
