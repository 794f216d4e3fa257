//! The kinds of index that a keyspace can have, and their names on disk.

use hedgerow_bst::BstIndex;

/// The width of keys in an [`IndexKind::Bst`], in bytes: integers of 64 bits, big-endian.
pub const BST_KEY_BYTES: usize = BstIndex::KEY_BYTES;

/// Which tree a keyspace lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IndexKind {
    /// Masstree: a trie of B+-trees whose readers take no locks. All in memory.
    #[default]
    Masstree,
    /// Matryoshka: a trie of B+-trees of flat pages of cache lines, whose readers take no locks.
    /// All in memory.
    Matryoshka,
    /// The Bw-tree: delta records behind a mapping table, changed by compare-and-swap alone. All in
    /// memory.
    BwTree,
    /// A balanced binary search tree for keys of exactly [`BST_KEY_BYTES`], whose readers take no
    /// locks. All in memory. Storing a row under another key is an error.
    Bst,
    /// The B-tree of "B-Trees Are Back", in a file of pages of which as many are in memory as
    /// [`Builder::memory_limit`](crate::Builder::memory_limit) allows: for data larger than memory.
    BTree,
    /// A `BTreeMap` under one lock, for tests. With the feature `locked-map` only.
    #[cfg(feature = "locked-map")]
    LockedMap,
}

impl IndexKind {
    /// The name in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Masstree => "masstree",
            IndexKind::Matryoshka => "matryoshka",
            IndexKind::BwTree => "bwtree",
            IndexKind::Bst => "bst",
            IndexKind::BTree => "btree",
            #[cfg(feature = "locked-map")]
            IndexKind::LockedMap => "locked-map",
        }
    }

    /// The width in bytes of every key, if such an index stores keys of one width only.
    pub fn key_bytes(self) -> Option<usize> {
        (self == IndexKind::Bst).then_some(BST_KEY_BYTES)
    }

    /// Whether such an index lives in the page file, and not in memory.
    pub(crate) fn is_in_pages(self) -> bool {
        self == IndexKind::BTree
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<IndexKind> {
        let kinds = [
            IndexKind::Masstree,
            IndexKind::Matryoshka,
            IndexKind::BwTree,
            IndexKind::Bst,
            IndexKind::BTree,
            #[cfg(feature = "locked-map")]
            IndexKind::LockedMap,
        ];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}
