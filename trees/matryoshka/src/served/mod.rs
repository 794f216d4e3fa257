//! What the database runs: a tree of integers to words for many threads ([`SharedMatryoshka`]), and
//! a trie of such trees for byte keys ([`MatryoshkaIndex`]).
//!
//! As in the report's tree (`paper`), an outer tree leads to pages of cache lines, and leaf lines
//! are searched in the same way. Two things differ, because readers race with writers:
//!
//! * Every word that changes is an atomic, and every node begins with a version word
//!   ([`hedgerow_sync::version`]). A reader takes a snapshot of the version, reads, and validates
//!   it; it writes nothing. A writer latches one page, or for a split or merge a parent and the
//!   children that it replaces, from above to below and from left to right.
//! * A page is *flat*: the separators of all its leaf lines stand in a few routing lines below its
//!   header, with one line of samples, so that header and routing arrive together and one leaf
//!   line follows: two misses one after the other, where a sub-tree has up to four, and nothing
//!   inside a page has to be split or merged above leaf lines.
//!
//! Pages begin small and grow by replacement, so that maps of few keys are small. A page that is
//! split, merged or grown is never changed in place: it is marked as deleted, its replacements are
//! linked, and its memory is released through the epoch.
//!
//! * `node`: the page format. `words`, `width`: lines of atomics, and what 32-bit and 64-bit keys
//!   make of them. `routing`: the search among separators. `page`, `leaf`, `inner`: the nodes.
//! * `tree`: the descent, and one file a verb: `update`, `grow` (splits), `shrink` (merges),
//!   `scan`, `get_many`, `load` (many pairs at once), `verify`.
//! * `trie`: the index of byte keys, whose layers are such trees.
//! * `map`: such a tree as a map of integers; `placed_nodes`: where its nodes lie. `capacity`: how
//!   large nodes become.

mod capacity;
mod map;
mod node;
mod placed_nodes;
mod tree;
mod trie;

pub use capacity::{Capacity, Full};
pub use map::SharedMatryoshka;
pub use node::node_key::SharedNodeKey;
pub use tree::load::LoadError;
pub use tree::update::Change;
pub use trie::MatryoshkaIndex;
