//! The files that import each other, with the reasons. The list is exact: it can only get shorter.

/// A set of files each of which reaches every other one by imports.
pub struct Ring {
    /// The crate's folder.
    pub folder: &'static str,
    /// Below its `src`, in order.
    pub files: &'static str,
    pub why: &'static str,
}

const ONE_VERB: &str = "one file per verb of a tree";
const DEFAULT_METHOD: &str = "what a trait does unless told otherwise";
const MUTUAL_BOUNDS: &str = "traits that name each other: `Strategy::Page` is a `PageForm`, and \
                             `PageForm` is for the capacities of a `Strategy`; `Strategy::Head` \
                             is of `OuterNode`s, whose searches ask the `Strategy` for its \
                             fan-out and its `Search`";

pub const RINGS: &[Ring] = &[
    Ring {
        folder: "storage/vfs",
        files: "lib.rs memory.rs",
        why: DEFAULT_METHOD,
    },
    Ring {
        folder: "trees/btree",
        files: "tree/contention.rs tree/descend.rs tree/mod.rs tree/pending_frees.rs \
                tree/read.rs",
        why: ONE_VERB,
    },
    Ring {
        folder: "trees/index",
        files: "lib.rs remove_range.rs",
        why: DEFAULT_METHOD,
    },
    Ring {
        folder: "trees/masstree",
        files: "collapse.rs descend.rs release.rs split.rs statistics.rs tree.rs widen.rs",
        why: ONE_VERB,
    },
    Ring {
        folder: "trees/matryoshka",
        files: "paper/node/form.rs paper/node/outer.rs paper/strategy.rs",
        why: MUTUAL_BOUNDS,
    },
    Ring {
        folder: "trees/matryoshka",
        files: "served/trie/find.rs served/trie/fold.rs served/trie/map.rs served/trie/scan.rs \
                served/trie/update.rs",
        why: ONE_VERB,
    },
];
