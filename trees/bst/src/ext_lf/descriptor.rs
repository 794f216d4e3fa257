//! Update words, and what an update tells those that help it.

use std::ptr::NonNull;

/// State of an update word: no update is under way, the rest is a version.
const CLEAN: u64 = 0;
/// State: an insertion is about to replace a leaf below the node.
pub(super) const INSERTING: u64 = 1;
/// State: a removal is about to replace a child of the node.
pub(super) const REMOVING: u64 = 2;
/// State: a removal is about to unlink the node, or has; it stays so.
pub(super) const MARKED: u64 = 3;

/// What a word of an update is in the state in its low bits.
pub(super) fn state(update: u64) -> u64 {
    update & 3
}

/// Whether no update is under way.
pub(super) fn is_clean(update: u64) -> bool {
    state(update) == CLEAN
}

/// The update word of a new node.
pub(super) fn first_version() -> u64 {
    CLEAN
}

/// The clean update word after this one.
pub(super) fn next_version(clean: u64) -> u64 {
    clean + 4
}

/// The number of a version.
pub(super) fn version(clean: u64) -> u64 {
    clean >> 2
}

/// What an insertion does.
#[repr(C)]
pub(super) struct Insertion<W> {
    /// The parent's update word.
    pub(super) owner: NonNull<W>,
    /// The parent's edge to the leaf.
    pub(super) edge: NonNull<W>,
    /// The link to the leaf.
    pub(super) old: u64,
    /// The link to the inner node that replaces the leaf.
    pub(super) new: u64,
    /// The parent's update word afterwards.
    pub(super) clean: u64,
}

/// What a removal does.
#[repr(C)]
pub(super) struct Removal<W> {
    /// The grandparent's update word.
    pub(super) owner: NonNull<W>,
    /// The grandparent's edge to the parent.
    pub(super) edge: NonNull<W>,
    /// The link to the parent.
    pub(super) parent: u64,
    /// The parent's update word, clean, before the removal read its edge.
    pub(super) parent_seen: u64,
    /// The parent's edge to the leaf.
    pub(super) leaf_edge: NonNull<W>,
    /// The grandparent's update word afterwards.
    pub(super) clean: u64,
}

const _: () = assert!(size_of::<Insertion<u64>>() == 40 && size_of::<Removal<u64>>() == 48);
