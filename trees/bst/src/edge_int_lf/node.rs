//! Nodes and their links.
//!
//! ```text
//! improved, 32 bytes                        a link
//!  0        8        16        24           63                 3   2    1    0
//! ┌────────┬────────┬─────────┬────────┐   ┌────────────────────┬─────────┬──────┐
//! │ key    │ left   │ right   │ value  │   │ address, or number │ Flag    │ null │
//! └────────┴────────┴─────────┴────────┘   └────────────────────┴─────────┴──────┘
//!  fields of searches ──────── hits
//! ```
//!
//! Key and value never change. A null link is a number, greater than that of every null which this
//! link had before, so that a compare-and-swap for one null never takes a later one for it: a new
//! leaf's nulls are greater than the null that it replaces, and the null that replaces a leaf is
//! greater than the leaf's.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use hedgerow_memory::WrittenFields;
use hedgerow_sync::epoch::Guard;

use crate::form::{Fields, Form};
use crate::twin::{Step, TreeWord, leaves_out};

/// What a link says beside where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Flag {
    /// Nothing: the link may change.
    Clean = 0,
    /// The child is to be unlinked, and nothing else happens to this link until then.
    Intent = 1,
    /// The node that has this link is to be unlinked; the link never changes again.
    Delete = 2,
    /// Of a left link, which is null: the node's pair takes the place of the pair whose next
    /// greater it is; the link never changes again. Of a right link: this node has such a pair, and
    /// the least node below the link, which had it before, is to be unlinked; until then nothing
    /// happens to this link.
    Promote = 3,
}

const NULL: u64 = 1;
const FLAG_SHIFT: u32 = 1;
const FLAGS: u64 = 3 << FLAG_SHIFT;
const NUMBER_SHIFT: u32 = 3;

/// The flag of a link.
#[inline(always)]
pub(super) fn flag(link: u64) -> Flag {
    match (link & FLAGS) >> FLAG_SHIFT {
        0 => Flag::Clean,
        1 => Flag::Intent,
        2 => Flag::Delete,
        _ => Flag::Promote,
    }
}

/// Whether a link has a flag.
#[inline(always)]
pub(super) fn is_flagged(link: u64) -> bool {
    link & FLAGS != 0
}

/// A link with another flag.
#[inline(always)]
pub(super) fn with_flag(link: u64, flag: Flag) -> u64 {
    link & !FLAGS | (flag as u64) << FLAG_SHIFT
}

/// A link without flag.
#[inline(always)]
pub(super) fn clean(link: u64) -> u64 {
    link & !FLAGS
}

/// The link of this number to no node.
pub(super) const fn null(number: u64) -> u64 {
    number << NUMBER_SHIFT | NULL
}

/// Whether a link leads to no node.
#[inline(always)]
pub(super) fn is_null(link: u64) -> bool {
    link & NULL != 0
}

/// A null greater than these.
#[inline(always)]
pub(super) fn null_after(one: u64, other: u64) -> u64 {
    null((one.max(other) >> NUMBER_SHIFT) + 1)
}

/// Which of a node's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The fields that searches read.
#[repr(C)]
pub(super) struct Search<W> {
    key: u64,
    left: W,
    right: W,
}

/// A node of a tree of form `F`.
#[repr(C)]
pub(super) struct Node<F: Form, W> {
    fields: Fields<F::Order, Search<W>, u64>,
    line: F::Line,
}

const _: () = {
    use crate::form::{Improved, Padded, ScatteredFields};
    use std::sync::atomic::AtomicU64;
    assert!(size_of::<Node<Improved, AtomicU64>>() == 32);
    assert!(size_of::<Node<ScatteredFields, AtomicU64>>() == 32);
    assert!(size_of::<Node<Padded, AtomicU64>>() == 64);
    assert!(size_of::<Search<AtomicU64>>() == 24);
};

impl<F: Form, W: TreeWord> Node<F, W> {
    /// A node with these links.
    pub(super) fn new((key, value): (u64, u64), left: u64, right: u64) -> Self {
        let search = Search {
            key,
            left: W::new(left),
            right: W::new(right),
        };
        Self {
            fields: Fields::new(search, value),
            line: F::Line::default(),
        }
    }

    /// A leaf, which will stand where the link `replaced` is.
    pub(super) fn leaf(pair: (u64, u64), replaced: u64) -> Self {
        let null = match leaves_out::<W>(Step::NullsNumbered) {
            true => clean(replaced),
            false => null_after(replaced, replaced),
        };
        Self::new(pair, null, null)
    }

    /// The node that a link leads to.
    ///
    /// # Safety
    ///
    /// The link is no null, and was read from a node under the guard; or the node is the root.
    #[inline(always)]
    pub(super) unsafe fn at(link: u64, _: &Guard) -> &Self {
        debug_assert!(!is_null(link) && clean(link) != 0);
        // SAFETY: the caller read the link under the guard, so the node is not freed before that
        // ends (the module's doc says why).
        unsafe { &*(clean(link) as usize as *const Self) }
    }

    /// The address, which is the link to this node.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        std::ptr::from_ref(self) as usize as u64
    }

    /// Where the fields of searches lie, in bytes from the start.
    pub(super) fn search_fields(&self) -> std::ops::Range<usize> {
        let search = self.fields.search();
        let start = std::ptr::from_ref(search) as usize - self.address() as usize;
        start..start + size_of_val(search)
    }

    /// What updates write: links. Key and value stay.
    pub(super) const WRITTEN: WrittenFields = {
        let start = Fields::<F::Order, Search<W>, u64>::search_offset();
        WrittenFields::NONE
            .and_field::<W>(start + offset_of!(Search<W>, left))
            .and_field::<W>(start + offset_of!(Search<W>, right))
    };

    #[inline(always)]
    pub(super) fn key(&self) -> u64 {
        self.fields.search().key
    }

    #[inline(always)]
    pub(super) fn value(&self) -> u64 {
        *self.fields.update()
    }

    #[inline(always)]
    pub(super) fn word(&self, side: Side) -> &W {
        match side {
            Side::Left => &self.fields.search().left,
            Side::Right => &self.fields.search().right,
        }
    }

    #[inline(always)]
    pub(super) fn link(&self, side: Side) -> u64 {
        self.word(side).load(Ordering::Acquire)
    }
}
