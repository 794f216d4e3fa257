//! Databases as tests open them.

use hedgerow::{Builder, Db, IndexKind};

/// About the least memory in which a pool of pages works.
pub const LITTLE_MEMORY: usize = 1 << 20;

/// All kinds of index whose keyspaces have keys of any width.
pub const ALL_KINDS: [IndexKind; 4] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::BTree,
];

/// Those of them whose rows live in memory.
pub const IN_MEMORY: [IndexKind; 3] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
];

/// Options of a database with this index (the default one, if `None`). B-trees get so little
/// memory that pages come and go.
pub fn builder_of(index: Option<IndexKind>) -> Builder {
    match index {
        None => Db::builder(),
        Some(IndexKind::BTree) => Db::builder()
            .index(IndexKind::BTree)
            .memory_limit(Some(LITTLE_MEMORY)),
        Some(index) => Db::builder().index(index),
    }
}

/// A key of this name that a keyspace with this index (the default one, if `None`) can have.
///
/// It is the name itself, unless the index has keys of one width: then the name is cut, or filled
/// up with zeros behind. So names keep their order, and stay different if their first bytes are.
pub fn key_of(index: Option<IndexKind>, name: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut key = name.into();
    if let Some(bytes) = index.and_then(IndexKind::key_bytes) {
        key.resize(bytes, 0);
    }
    key
}

/// Makes tests of functions of an [`IndexKind`]: each runs over the default index, over Matryoshka,
/// over the Bw-tree, over B-trees with [`LITTLE_MEMORY`], and over binary trees, in modules of
/// these names. [`key_of`](crate::databases::key_of) gives keys that each of them can have. Tests
/// that need keys of other widths stand behind `any width:`, and do not run over binary trees.
#[macro_export]
macro_rules! over_each_index {
    (any width: $($wide:ident),+ $(,)?) => {
        $crate::over_each_index!(@in masstree, Masstree: $($wide),+);
        $crate::over_each_index!(@in matryoshka, Matryoshka: $($wide),+);
        $crate::over_each_index!(@in bwtree, BwTree: $($wide),+);
        $crate::over_each_index!(@in btree, BTree: $($wide),+);
    };
    ($($test:ident),+; any width: $($wide:ident),+ $(,)?) => {
        $crate::over_each_index!(any width: $($test,)+ $($wide),+);
        $crate::over_each_index!(@in bst, Bst: $($test),+);
    };
    ($($test:ident),+ $(,)?) => {
        $crate::over_each_index!(any width: $($test),+);
        $crate::over_each_index!(@in bst, Bst: $($test),+);
    };
    (@in $module:ident, $index:ident: $($test:ident),+) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test(::hedgerow::IndexKind::$index);
                }
            )+
        }
    };
}
