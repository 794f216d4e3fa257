//! Inner nodes and leaves; `ext_lf` draws them.

use std::mem::offset_of;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;

use hedgerow_memory::WrittenFields;
use hedgerow_sync::word::Word;

use super::descriptor::first_version;
use crate::form::{Fields, Form, Improved, Padded};

/// What searches read of an inner node.
#[repr(C)]
struct Route<K, W> {
    key: K,
    left: W,
    right: W,
}

/// An inner node.
#[repr(C)]
pub(super) struct Inner<K, F: Form, W> {
    /// With the update word.
    fields: Fields<F::Order, Route<K, W>, W>,
    line: F::Line,
}

/// An item.
#[repr(C)]
pub(super) struct Leaf<K, F: Form> {
    pub(super) key: K,
    pub(super) word: u64,
    pub(super) line: F::Line,
}

const _: () = {
    assert!(size_of::<Inner<u64, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Inner<u32, Improved, AtomicU64>>() == 32);
    assert!(size_of::<Leaf<u64, Improved>>() == 16);
    assert!(size_of::<Leaf<u32, Improved>>() == 16);
    assert!(size_of::<Inner<u64, Padded, AtomicU64>>() == 64);
    assert!(size_of::<Leaf<u64, Padded>>() == 64);
    // The mark of leaves.
    assert!(align_of::<Leaf<u32, Improved>>() >= 8);
};

impl<K: Copy + Ord, F: Form, W: Word> Inner<K, F, W> {
    /// A clean inner node: keys below `key` are on the left.
    pub(super) fn new(key: K, left: u64, right: u64) -> Self {
        let (left, right) = (W::new(left), W::new(right));
        let update = W::new(first_version());
        Self {
            fields: Fields::new(Route { key, left, right }, update),
            line: F::Line::default(),
        }
    }

    /// What it compares keys with.
    #[inline(always)]
    pub(super) fn key(&self) -> K {
        self.fields.search().key
    }

    /// Who changes it.
    #[inline(always)]
    pub(super) fn update(&self) -> &W {
        self.fields.update()
    }

    /// The edge to smaller keys.
    #[inline(always)]
    pub(super) fn left(&self) -> &W {
        &self.fields.search().left
    }

    /// The edge to its own key and greater ones.
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

    /// The bytes that lookups read, from the node's start.
    pub(super) const fn search_fields() -> Range<usize> {
        let start = Fields::<F::Order, Route<K, W>, W>::search_offset();
        start..start + size_of::<Route<K, W>>()
    }

    /// What updates write: links and update word.
    pub(super) const WRITTEN: WrittenFields = {
        let start = Fields::<F::Order, Route<K, W>, W>::search_offset();
        WrittenFields::NONE
            .and_field::<W>(start + offset_of!(Route<K, W>, left))
            .and_field::<W>(start + offset_of!(Route<K, W>, right))
            .and_field::<W>(Fields::<F::Order, Route<K, W>, W>::update_offset())
    };
}

impl<K, F: Form> Leaf<K, F> {
    /// The bytes that lookups read, from the leaf's start.
    pub(super) const fn search_fields() -> Range<usize> {
        0..offset_of!(Self, word) + size_of::<u64>()
    }
}
