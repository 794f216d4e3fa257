//! The node; `edge_ext_lf` draws it.

use std::mem::offset_of;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;

use hedgerow_memory::WrittenFields;
use hedgerow_sync::word::Word;

use crate::form::{Fields, Form, Improved, Padded};

/// What searches read of every node.
#[repr(C)]
struct Route<K, W> {
    key: K,
    left: W,
    right: W,
}

/// A leaf or an inner node.
#[repr(C)]
pub(super) struct Node<K, F: Form, W> {
    fields: Fields<F::Order, Route<K, W>, u64>,
    line: F::Line,
}

const _: () = {
    assert!(size_of::<Node<u64, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Node<i64, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Node<u32, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Node<u64, Padded, AtomicU64>>() == 64);
    // The flag, the tag and the mark of leaves.
    assert!(align_of::<Node<u32, Improved, AtomicU64>>() >= 8);
};

impl<K: Copy + Ord, F: Form, W: Word> Node<K, F, W> {
    /// A leaf with an item.
    pub(super) fn leaf(key: K, word: u64) -> Self {
        Self::new(key, 0, 0, word)
    }

    /// An inner node: keys below `key` are on the left.
    pub(super) fn inner(key: K, left: u64, right: u64) -> Self {
        Self::new(key, left, right, 0)
    }

    fn new(key: K, left: u64, right: u64, word: u64) -> Self {
        let (left, right) = (W::new(left), W::new(right));
        Self {
            fields: Fields::new(Route { key, left, right }, word),
            line: F::Line::default(),
        }
    }

    /// A leaf's key, or what an inner node compares keys with.
    #[inline(always)]
    pub(super) fn key(&self) -> K {
        self.fields.search().key
    }

    /// A leaf's word.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        *self.fields.update()
    }

    /// An inner node's edge to smaller keys.
    #[inline(always)]
    pub(super) fn left(&self) -> &W {
        &self.fields.search().left
    }

    /// An inner node's edge to its own key and greater ones.
    #[inline(always)]
    pub(super) fn right(&self) -> &W {
        &self.fields.search().right
    }

    /// The edge on a key's path.
    #[inline(always)]
    pub(super) fn edge(&self, key: K) -> &W {
        if key < self.key() {
            self.left()
        } else {
            self.right()
        }
    }

    /// The edge beside this one.
    #[inline]
    pub(super) fn other(&self, edge: &W) -> &W {
        if ptr::eq(edge, self.left()) {
            self.right()
        } else {
            self.left()
        }
    }

    /// The bytes that searches read, from the node's start: key and edges, and of a leaf all.
    pub(super) const fn search_fields(leaf: bool) -> Range<usize> {
        let start = Fields::<F::Order, Route<K, W>, u64>::search_offset();
        match leaf {
            true => 0..size_of::<Fields<F::Order, Route<K, W>, u64>>(),
            false => start..start + size_of::<Route<K, W>>(),
        }
    }

    /// What updates write: links and marks of an inner node, nothing of a leaf.
    pub(super) const fn written_fields(leaf: bool) -> WrittenFields {
        let start = Fields::<F::Order, Route<K, W>, u64>::search_offset();
        match leaf {
            true => WrittenFields::NONE,
            false => WrittenFields::NONE
                .and_field::<W>(start + offset_of!(Route<K, W>, left))
                .and_field::<W>(start + offset_of!(Route<K, W>, right)),
        }
    }
}
