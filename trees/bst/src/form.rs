//! The forms of a tree: which of the flaws of "Getting to the Root of Concurrent Binary Search Tree
//! Performance" (§3.1, Table 3) its nodes and lookups have.
//!
//! A tree is generic over a [`Form`]. [`Improved`] has no flaw; a wrapper adds one each, so that
//! `Padded<BloatedLocks<Improved>>` is a form, and the measurement of a flaw is a list of types.
//!
//! | wrapper | flaw of Table 3 | what it changes |
//! |---|---|---|
//! | [`BloatedLocks`] | bloated nodes | a node's lock takes the 40 bytes of a POSIX mutex, not 4 |
//! | [`Padded`] | bloated nodes | nodes are padded to whole cache lines |
//! | [`ScatteredFields`] | scattered fields | fields that only updates need come before the key and the links |
//! | [`HeavyLookups`] | heavy traversals | lookups track the path that only updates need |

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::offset_of;

use crate::lock::{MutexSizedLock, NodeLock, SpinLock};

/// What distinguishes the forms of a tree.
pub trait Form: Send + Sync + 'static {
    /// The lock of a node.
    type Lock: NodeLock;
    /// A field without bytes, whose alignment is that of a node.
    type Line: Copy + Default + Debug + Send + Sync;
    /// In which order a node has its fields.
    type Order: FieldOrder;
    /// Whether lookups have a traversal of their own, which keeps nothing but the current node.
    const LIGHT_LOOKUPS: bool;
}

/// No flaw: locks of 4 bytes, no padding, the fields of searches first, light lookups (§3.1).
#[derive(Debug, Clone, Copy)]
pub struct Improved;

impl Form for Improved {
    type Lock = SpinLock;
    type Line = Unpadded;
    type Order = SearchFieldsFirst;
    const LIGHT_LOOKUPS: bool = true;
}

/// A form whose locks have the size of a POSIX mutex.
#[derive(Debug, Clone, Copy)]
pub struct BloatedLocks<F = Improved>(PhantomData<F>);

impl<F: Form> Form for BloatedLocks<F> {
    type Lock = MutexSizedLock;
    type Line = F::Line;
    type Order = F::Order;
    const LIGHT_LOOKUPS: bool = F::LIGHT_LOOKUPS;
}

/// A form whose nodes are padded to whole cache lines.
#[derive(Debug, Clone, Copy)]
pub struct Padded<F = Improved>(PhantomData<F>);

impl<F: Form> Form for Padded<F> {
    type Lock = F::Lock;
    type Line = CacheLine;
    type Order = F::Order;
    const LIGHT_LOOKUPS: bool = F::LIGHT_LOOKUPS;
}

/// A form whose search fields come last.
#[derive(Debug, Clone, Copy)]
pub struct ScatteredFields<F = Improved>(PhantomData<F>);

impl<F: Form> Form for ScatteredFields<F> {
    type Lock = F::Lock;
    type Line = F::Line;
    type Order = SearchFieldsLast;
    const LIGHT_LOOKUPS: bool = F::LIGHT_LOOKUPS;
}

/// A form whose lookups take the traversal of updates.
#[derive(Debug, Clone, Copy)]
pub struct HeavyLookups<F = Improved>(PhantomData<F>);

impl<F: Form> Form for HeavyLookups<F> {
    type Lock = F::Lock;
    type Line = F::Line;
    type Order = F::Order;
    const LIGHT_LOOKUPS: bool = false;
}

/// No padding.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpadded;

/// Pads a node that has it as a field to whole cache lines.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub struct CacheLine;

mod sealed {
    /// The trees share nodes between threads whatever type an order makes of their fields, so only
    /// the two orders of this crate are orders.
    pub trait Sealed {}
}

/// In which order a node has its fields; see [`Fields`]. Nobody else implements it.
pub trait FieldOrder: sealed::Sealed + Send + Sync + 'static {
    /// What comes first.
    type First<S, U>;
    /// What comes second.
    type Second<S, U>;
    /// Whether the fields of searches come first.
    const SEARCH_FIRST: bool;

    /// Puts the fields in order.
    fn arrange<S, U>(search: S, update: U) -> (Self::First<S, U>, Self::Second<S, U>);
    /// The fields that searches read.
    fn search<S, U>(fields: &Fields<Self, S, U>) -> &S
    where
        Self: Sized;
    /// The fields that only updates need.
    fn update<S, U>(fields: &Fields<Self, S, U>) -> &U
    where
        Self: Sized;
}

/// The fields of searches before those of updates.
#[derive(Debug, Clone, Copy)]
pub struct SearchFieldsFirst;

/// The fields of updates before those of searches.
#[derive(Debug, Clone, Copy)]
pub struct SearchFieldsLast;

/// The fields of a node, in the order of its form.
#[repr(C)]
pub struct Fields<O: FieldOrder, S, U> {
    first: O::First<S, U>,
    second: O::Second<S, U>,
}

impl<O: FieldOrder, S, U> Fields<O, S, U> {
    /// Puts the fields in order.
    #[inline(always)]
    pub(crate) fn new(search: S, update: U) -> Self {
        let (first, second) = O::arrange(search, update);
        Self { first, second }
    }

    /// The fields that searches read.
    #[inline(always)]
    pub(crate) fn search(&self) -> &S {
        O::search(self)
    }

    /// The fields that only updates need.
    #[inline(always)]
    pub(crate) fn update(&self) -> &U {
        O::update(self)
    }

    /// The first byte of the fields that searches read, from the start of all.
    pub(crate) const fn search_offset() -> usize {
        match O::SEARCH_FIRST {
            true => offset_of!(Self, first),
            false => offset_of!(Self, second),
        }
    }

    /// The first byte of the fields that only updates need, from the start of all.
    pub(crate) const fn update_offset() -> usize {
        match O::SEARCH_FIRST {
            true => offset_of!(Self, second),
            false => offset_of!(Self, first),
        }
    }
}

impl sealed::Sealed for SearchFieldsFirst {}
impl sealed::Sealed for SearchFieldsLast {}

impl FieldOrder for SearchFieldsFirst {
    type First<S, U> = S;
    type Second<S, U> = U;
    const SEARCH_FIRST: bool = true;

    #[inline(always)]
    fn arrange<S, U>(search: S, update: U) -> (S, U) {
        (search, update)
    }

    #[inline(always)]
    fn search<S, U>(fields: &Fields<Self, S, U>) -> &S {
        &fields.first
    }

    #[inline(always)]
    fn update<S, U>(fields: &Fields<Self, S, U>) -> &U {
        &fields.second
    }
}

impl FieldOrder for SearchFieldsLast {
    type First<S, U> = U;
    type Second<S, U> = S;
    const SEARCH_FIRST: bool = false;

    #[inline(always)]
    fn arrange<S, U>(search: S, update: U) -> (U, S) {
        (update, search)
    }

    #[inline(always)]
    fn search<S, U>(fields: &Fields<Self, S, U>) -> &S {
        &fields.second
    }

    #[inline(always)]
    fn update<S, U>(fields: &Fields<Self, S, U>) -> &U {
        &fields.first
    }
}
