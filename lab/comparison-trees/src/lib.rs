//! Trees that exist only to be compared with: the steps of the Masstree paper's factor analysis
//! (§6.2, Fig. 8), a partial-key B-tree (§4.1), a hash table (§6.4), and a tree that does not
//! change (`static_tree`).
//!
//! The binary trees and the 4-tree are lock-free, the B-trees follow Masstree's own scheme
//! (§4.4–4.6), and only the growth of the hash table keeps threads waiting, so the fair neighbour
//! is our concurrent Masstree, on one thread and on many. The tree that does not change is for one
//! thread. None offers scans, and removal but from the B-trees of whole keys only marks a key:
//! neither is measured. Links are 4-byte positions in an arena of 2 MiB pieces, which stands in for
//! the paper's allocator "Flow"; only the first step takes its nodes from the system's allocator.
//! All memory of a tree goes back when it is dropped.

#![forbid(unsafe_code)]

mod arena;
mod binary;
mod btree;
mod four;
mod hash;
mod key;
mod partial;
mod static_tree;
#[cfg(test)]
mod tests;

use hedgerow_lab_contender::{Entry, MapEntry, NewMap, Promises};
use hedgerow_lab_own::{concurrent, own, single};

use binary::{Binary, BoxedBinary};
use btree::BTree;
use four::FourTree;
use hash::HashTable;
use key::{ByBytes, ByIntegers, Fixed, Slot};
use partial::PartialKeyTree;
use static_tree::StaticTree;

/// Keys in a B-tree of this crate: the first 16 bytes in the node.
type Inline = Slot<ByIntegers>;

/// A tree of this crate by its name in results.
#[must_use]
pub fn tree(name: &'static str) -> Option<MapEntry> {
    let mut fixed = None;
    let build = match name {
        BINARY => concurrent::<BoxedBinary>(),
        ARENA | SUPERPAGE => concurrent::<Binary<ByBytes>>(),
        INTEGERS => concurrent::<Binary<ByIntegers>>(),
        FOUR => concurrent::<FourTree>(),
        BTREE => concurrent::<BTree<Inline, false, false>>(),
        PREFETCH => concurrent::<BTree<Inline, true, false>>(),
        PERMUTER => concurrent::<BTree<Inline, true, true>>(),
        PARTIAL => concurrent::<PartialKeyTree>(),
        FIXED => {
            fixed = Some(8);
            concurrent::<BTree<Fixed, true, true>>()
        }
        HASH => {
            fixed = Some(8);
            concurrent::<HashTable>()
        }
        STATIC_U32 => {
            fixed = Some(4);
            single::<StaticTree<u32>>()
        }
        STATIC_U64 => {
            fixed = Some(8);
            single::<StaticTree<u64>>()
        }
        _ => return None,
    };
    let promises = Promises {
        concurrent: matches!(build, Ok(NewMap::Concurrent(_))),
        variable_keys: fixed.is_none(),
        longest_key: fixed,
        ..Promises::default()
    };
    Some(MapEntry {
        // Not Hedgerow's: a report must not take them for what its users get.
        entry: Entry {
            origin: "the lab, to compare with",
            ..own(name, promises)
        },
        build,
    })
}

/// A binary tree of nodes from the system's allocator.
pub const BINARY: &str = "binary tree";
/// The same with its nodes in an arena.
pub const ARENA: &str = "binary +arena";
/// The same with its arena in superpages.
pub const SUPERPAGE: &str = "binary +superpage";
/// The same with keys compared as integers.
pub const INTEGERS: &str = "binary +intcmp";
/// The tree of fanout 4.
pub const FOUR: &str = "4-tree";
/// The B+-tree of fanout 15.
pub const BTREE: &str = "B-tree";
/// The same, prefetching whole nodes.
pub const PREFETCH: &str = "B-tree +prefetch";
/// The same with permutations in its leaves.
pub const PERMUTER: &str = "B-tree +permuter";
/// The B+-tree of partial keys.
pub const PARTIAL: &str = "pkB-tree";
/// The B-tree with permutations, for keys of exactly 8 bytes.
pub const FIXED: &str = "B-tree, 8-byte keys";
/// The hash table.
pub const HASH: &str = "hash table";
/// The tree that does not change, of 4-byte keys.
pub const STATIC_U32: &str = "static S+-tree u32";
/// The same of 8-byte keys.
pub const STATIC_U64: &str = "static S+-tree u64";

/// All of them.
pub const NAMES: [&str; 13] = [
    BINARY, ARENA, SUPERPAGE, INTEGERS, FOUR, BTREE, PREFETCH, PERMUTER, PARTIAL, FIXED, HASH,
    STATIC_U32, STATIC_U64,
];
