//! Databases as tests open them.

use hedgerow::{Builder, Db, IndexKind};

/// About the least memory in which a pool of pages works.
pub const LITTLE_MEMORY: usize = 1 << 20;

/// All kinds of index that a keyspace can have.
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

/// Makes tests of functions of an [`IndexKind`]: each runs over the default index, over Matryoshka,
/// over the Bw-tree, and over B-trees with [`LITTLE_MEMORY`], in modules of these names.
#[macro_export]
macro_rules! over_each_index {
    ($($test:ident),+ $(,)?) => {
        $crate::over_each_index!(@in masstree, Masstree: $($test),+);
        $crate::over_each_index!(@in matryoshka, Matryoshka: $($test),+);
        $crate::over_each_index!(@in bwtree, BwTree: $($test),+);
        $crate::over_each_index!(@in btree, BTree: $($test),+);
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
