//! The index of a keyspace: one of the trees. For the default index a call is one well-predicted
//! branch, and the callbacks are compiled into the tree, so each caller compiles whole descents
//! anew. That costs code and minutes of compiling. So the other trees are called through [`dyn
//! Index`](Index), at one indirect call for each callback (a few instructions beside the hundreds
//! of a descent), and so are all trees where speed does not matter. Of the B-tree, updates and
//! batches of lookups are compiled in: they are what a server does all day.

use std::io;
use std::ops::ControlFlow;

use hedgerow_bst::BstIndex;
use hedgerow_btree::BTreeIndex;
use hedgerow_bwtree::BwTree;
#[cfg(feature = "locked-map")]
use hedgerow_index::LockedMap;
use hedgerow_index::{Decision, Index, IndexError, IndexExt, ScanRange, ValuePart};
use hedgerow_masstree::{Bytes, Masstree};
use hedgerow_matryoshka::MatryoshkaIndex;

use crate::index::kind::IndexKind;

// One per keyspace: boxing the tree would cost every operation a load to save nothing.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AnyIndex {
    Masstree(Masstree<Bytes>),
    Matryoshka(MatryoshkaIndex),
    BwTree(BwTree),
    Bst(BstIndex),
    #[cfg(feature = "locked-map")]
    LockedMap(LockedMap),
    BTree(BTreeIndex),
}

impl AnyIndex {
    /// An empty index of a kind that lives in memory; `None` for one that needs a page file. Fails
    /// where the kernel does not give the address space that an index reserves.
    pub(crate) fn in_memory(kind: IndexKind) -> io::Result<Option<AnyIndex>> {
        Ok(match kind {
            IndexKind::Masstree => Some(AnyIndex::Masstree(Masstree::new())),
            IndexKind::Matryoshka => Some(AnyIndex::Matryoshka(MatryoshkaIndex::new())),
            IndexKind::BwTree => Some(AnyIndex::BwTree(BwTree::try_new()?)),
            IndexKind::Bst => Some(AnyIndex::Bst(BstIndex::new())),
            #[cfg(feature = "locked-map")]
            IndexKind::LockedMap => Some(AnyIndex::LockedMap(LockedMap::default())),
            IndexKind::BTree => None,
        })
    }

    /// The index with its type forgotten.
    #[inline]
    pub(crate) fn as_dyn(&self) -> &dyn Index {
        match self {
            AnyIndex::Masstree(index) => index,
            AnyIndex::Matryoshka(index) => index,
            AnyIndex::BwTree(index) => index,
            AnyIndex::Bst(index) => index,
            #[cfg(feature = "locked-map")]
            AnyIndex::LockedMap(index) => index,
            AnyIndex::BTree(index) => index,
        }
    }

    /// Which of them it is.
    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            AnyIndex::Masstree(_) => IndexKind::Masstree,
            AnyIndex::Matryoshka(_) => IndexKind::Matryoshka,
            AnyIndex::BwTree(_) => IndexKind::BwTree,
            AnyIndex::Bst(_) => IndexKind::Bst,
            #[cfg(feature = "locked-map")]
            AnyIndex::LockedMap(_) => IndexKind::LockedMap,
            AnyIndex::BTree(_) => IndexKind::BTree,
        }
    }

    /// The tree in a page file, if it is one: then a call can fail.
    #[inline]
    pub(crate) fn tree(&self) -> Option<&BTreeIndex> {
        match self {
            AnyIndex::BTree(tree) => Some(tree),
            _ => None,
        }
    }
}

/// The operations whose callbacks are compiled into the default index.
impl AnyIndex {
    /// [`IndexExt::read`].
    #[inline]
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        match self {
            AnyIndex::Masstree(tree) => Ok(tree.get_with(key, read)),
            other => other.as_dyn().read(key, part, read),
        }
    }

    /// [`Index::get_many`].
    #[inline]
    pub(crate) fn get_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        match self {
            AnyIndex::Masstree(tree) => tree.get_many(keys, read),
            AnyIndex::BTree(tree) => get_many_of_btree(tree, keys, read)?,
            other => other.as_dyn().get_many(keys, &mut read)?,
        }
        Ok(())
    }

    /// [`IndexExt::modify`].
    #[inline]
    pub(crate) fn update<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        match self {
            AnyIndex::Masstree(tree) => Ok(tree.update_with(key, new, decide)),
            AnyIndex::BTree(tree) => update_of_btree(tree, key, part, new, decide),
            other => other.as_dyn().modify(key, part, new, decide),
        }
    }

    /// [`Index::scan`].
    #[inline]
    pub(crate) fn scan(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        match self {
            AnyIndex::Masstree(tree) => tree.scan_range(range, visit),
            other => other.as_dyn().scan(range, &mut visit)?,
        }
        Ok(())
    }
}

// Not compiled into their callers: there, they would take registers from the default index.

#[inline(never)]
fn get_many_of_btree(
    tree: &BTreeIndex,
    keys: &[&[u8]],
    read: impl FnMut(usize, Option<&[u8]>),
) -> Result<(), IndexError> {
    tree.get_many(keys, read)
        .map_err(|error| tree.keys_error(&error, keys))
}

#[inline(never)]
fn update_of_btree<R>(
    tree: &BTreeIndex,
    key: &[u8],
    part: ValuePart,
    new: &mut Vec<u8>,
    decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
) -> Result<R, IndexError> {
    tree.update_part(key, part, new, decide)
        .map_err(|error| tree.key_error(&error, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes of the binary search tree: in a pool of their own, apart from rows and from what
    /// else keyspaces have.
    #[test]
    fn nodes_of_the_bst_are_segregated() {
        const KEYS: u64 = 30_000;
        let made = AnyIndex::in_memory(IndexKind::Bst).expect("there is address space");
        let index = made.expect("it needs no file");
        for key in 0..KEYS {
            let put = |_: Option<&[u8]>, new: &mut Vec<u8>| {
                new.push(7);
                Decision::Put(())
            };
            let key = key.to_be_bytes();
            let stored = index.update(&key, ValuePart::Head, &mut Vec::new(), put);
            stored.expect("a key of its width");
        }
        if hedgerow_memory::reserved_bytes() == 0 {
            println!("skipped: nodes come from the system's allocator");
            return;
        }
        let classes = hedgerow_memory::inspect().classes;
        let nodes = classes
            .iter()
            .find(|class| class.kind == Some("occ-avl node"));
        let live = nodes.map_or(0, |nodes| nodes.live as u64);
        // Other tests may have such trees, too, but far smaller ones.
        assert!(
            (KEYS..2 * KEYS).contains(&live),
            "{live} nodes in their pool"
        );
    }
}
