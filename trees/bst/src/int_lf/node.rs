//! The words of a node: links, the operation word, and what they name.
//!
//! ```text
//! improved, 48 bytes
//!  0        8        16        24        32       40
//! ┌────────┬────────┬─────────┬─────────┬────────┬────────┐
//! │ key    │ left   │ right   │ op      │ moved  │ value  │
//! └────────┴────────┴─────────┴─────────┴────────┴────────┘
//!  fields of searches ────────────────── updates, and hits
//! ```
//!
//! * `key`: the encoded key. A relocation replaces it by a greater one; it never becomes less.
//! * `left`, `right`: the address of a child, or a null: bit 0 is set, and the rest is a number
//!   that is greater than that of every null which this link had before ([`null`]).
//! * `op`: the address of the descriptor of the last operation on this node, or 0, and a [`Flag`].
//! * `value`: the value that was inserted with the node.
//! * `moved`: 0, or the address of the descriptor whose relocation brought the present key here;
//!   the value is in the descriptor then.
//!
//! The original has keys alone. A value cannot move as a key does: a helper that comes late swaps
//! no key, since keys only grow, but might find the same value again and swap it. Descriptors'
//! addresses do not come again while a helper may have them (the module's doc says why), so `moved`
//! changes where a late helper cannot do harm. A pair is read between two reads of `op` that are
//! the same and have no flag: key and `moved` change only while `op` has [`Flag::Relocate`].

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use hedgerow_memory::WrittenFields;
use hedgerow_sync::epoch::Guard;

use crate::form::{Fields, Form};
use crate::twin::{Step, TreeWord, leaves_out};

/// What a node's `op` word says beside its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Flag {
    /// The descriptor's operation is complete.
    None = 0,
    /// The node has no key any more; it is to be unlinked, and its links do not change.
    Mark = 1,
    /// The descriptor's change of a link of this node is under way.
    ChildCas = 2,
    /// The descriptor's relocation, to or from this node, is under way.
    Relocate = 3,
}

const FLAGS: u64 = 3;

/// The flag of an `op` word.
#[inline(always)]
pub(super) fn flag(op: u64) -> Flag {
    match op & FLAGS {
        0 => Flag::None,
        1 => Flag::Mark,
        2 => Flag::ChildCas,
        _ => Flag::Relocate,
    }
}

/// Whether an `op` word says that something is under way, or the node marked.
#[inline(always)]
pub(super) fn is_flagged(op: u64) -> bool {
    op & FLAGS != 0
}

/// An `op` word with another flag.
#[inline(always)]
pub(super) fn with_flag(op: u64, flag: Flag) -> u64 {
    op & !FLAGS | flag as u64
}

/// The address of the descriptor in an `op` word; 0 if there is none.
#[inline(always)]
pub(super) fn descriptor_of(op: u64) -> u64 {
    op & !FLAGS
}

/// The link of this number to no node.
#[inline(always)]
pub(super) fn null(number: u64) -> u64 {
    number << 1 | 1
}

/// Whether a link leads to no node.
#[inline(always)]
pub(super) fn is_null(link: u64) -> bool {
    link & 1 == 1
}

/// A null greater than these.
#[inline(always)]
pub(super) fn null_after(one: u64, other: u64) -> u64 {
    null((one.max(other) >> 1) + 1)
}

/// The fields that searches read.
#[repr(C)]
pub(super) struct Search<W> {
    pub(super) key: W,
    pub(super) left: W,
    pub(super) right: W,
    pub(super) op: W,
}

/// The fields that only updates and hits read.
#[repr(C)]
pub(super) struct Rest<W> {
    pub(super) moved: W,
    pub(super) value: u64,
}

/// A node of a tree of form `F`.
#[repr(C)]
pub(super) struct Node<F: Form, W> {
    fields: Fields<F::Order, Search<W>, Rest<W>>,
    line: F::Line,
}

const _: () = {
    use crate::form::{Improved, Padded, ScatteredFields};
    use std::sync::atomic::AtomicU64;
    assert!(size_of::<Node<Improved, AtomicU64>>() == 48);
    assert!(size_of::<Node<ScatteredFields, AtomicU64>>() == 48);
    assert!(size_of::<Node<Padded, AtomicU64>>() == 64);
    assert!(size_of::<Search<AtomicU64>>() == 32);
};

impl<F: Form, W: TreeWord> Node<F, W> {
    /// Where the fields of searches are, in bytes from a node's start.
    pub(super) const SEARCH_OFFSET: usize = Fields::<F::Order, Search<W>, Rest<W>>::search_offset();

    /// Where all other fields are.
    const REST_OFFSET: usize = Fields::<F::Order, Search<W>, Rest<W>>::update_offset();

    /// What updates write: all but the value, which stays; relocations write the key.
    pub(super) const WRITTEN: WrittenFields = WrittenFields::NONE
        .and_field::<W>(Self::SEARCH_OFFSET + offset_of!(Search<W>, key))
        .and_field::<W>(Self::SEARCH_OFFSET + offset_of!(Search<W>, left))
        .and_field::<W>(Self::SEARCH_OFFSET + offset_of!(Search<W>, right))
        .and_field::<W>(Self::SEARCH_OFFSET + offset_of!(Search<W>, op))
        .and_field::<W>(Self::REST_OFFSET + offset_of!(Rest<W>, moved));

    /// A leaf, which will stand where the link `replaced` is.
    pub(super) fn leaf(key: u64, value: u64, replaced: u64) -> Self {
        let null = match leaves_out::<W>(Step::NullsNumbered) {
            true => replaced,
            false => null_after(replaced, replaced),
        };
        let search = Search {
            key: W::new(key),
            left: W::new(null),
            right: W::new(null),
            op: W::new(0),
        };
        let rest = Rest {
            moved: W::new(0),
            value,
        };
        Self {
            fields: Fields::new(search, rest),
            line: F::Line::default(),
        }
    }

    /// The node at the address that a link holds.
    ///
    /// # Safety
    ///
    /// The link is no null, and was read from a node under the guard; or the node is the root.
    #[inline(always)]
    pub(super) unsafe fn at(link: u64, _: &Guard) -> &Self {
        debug_assert!(!is_null(link) && link != 0);
        // SAFETY: the caller read the link under the guard, so the node is not freed before that
        // ends (the module's doc says why).
        unsafe { &*(link as usize as *const Self) }
    }

    /// The address, as links hold it.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        std::ptr::from_ref(self) as usize as u64
    }

    #[inline(always)]
    pub(super) fn search(&self) -> &Search<W> {
        self.fields.search()
    }

    #[inline(always)]
    pub(super) fn rest(&self) -> &Rest<W> {
        self.fields.update()
    }

    #[inline(always)]
    pub(super) fn key(&self) -> u64 {
        self.search().key.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn left(&self) -> u64 {
        self.search().left.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn right(&self) -> u64 {
        self.search().right.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn op(&self) -> u64 {
        self.search().op.load(Ordering::Acquire)
    }
}
