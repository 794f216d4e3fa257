//! Matryoshka for many threads: integer keys to `u64` words.
//!
//! The nest is the one of the rest of the crate, an outer tree of pages of cache lines, and so
//! are leaf lines and their searches. Two things differ, because readers race with writers:
//!
//! * Every word that changes is an atomic, and every node begins with a version word
//!   ([`hedgerow_sync::version`]). A reader notes the version, reads, and looks again; it writes
//!   nothing. A writer latches one page, or for a split or merge a parent and the children that
//!   it replaces, from above to below and from left to right.
//! * A page is *flat*: the separators of all its leaf lines stand in a few routing lines below its
//!   header, with one line of samples, so that header and routing arrive together and one leaf
//!   line follows: two misses one after the other, where a sub-tree has up to four, and nothing
//!   inside a page has to be split or merged above leaf lines.
//!
//! Pages begin small and grow by replacement, so that maps of few keys are small. A page that is
//! split, merged or grown is never changed in place: it is marked as deleted, its replacements are
//! linked, and its memory is released through the epoch.
//!
//! * `words`, `width`: lines of atomics, and what 32-bit and 64-bit keys make of them. `routing`:
//!   the search among separators.
//! * `page`, `leaf`, `inner`: the nodes. `tree`: the way down. `update`: one key.
//! * `grow`, `shrink`: splits and merges. `load`: many pairs at once. `scan`, `get_many`, `verify`.
//! * `map`: the map that users see, and the capacities of its nodes.

pub(crate) mod get_many;
mod grow;
mod inner;
mod leaf;
mod load;
mod map;
pub(crate) mod page;
mod routing;
pub(crate) mod scan;
mod shrink;
#[cfg(test)]
mod small;
pub(crate) mod tree;
pub(crate) mod update;
pub(crate) mod verify;
pub(crate) mod width;
mod words;

pub use load::LoadError;
pub use map::{Capacity, Full, SharedMatryoshka};
pub use update::Change;
pub use width::SharedLane;
