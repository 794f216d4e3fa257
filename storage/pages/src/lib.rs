//! Pages by number: the memory of trees that can grow larger than memory.
//!
//! A tree that names its nodes by page number, and not by address, does not care whether all of
//! them are in memory. This crate is what it stands on instead of pointers: [`Pages`], a trait
//! with a provider for each way to keep pages.
//!
//! * [`Resident`]: all pages in memory, for one thread at a time. It has no latches, no errors and
//!   no restarts; a tree compiled for it is what a tree over plain pointers would be.
//!
//! Readers of shared pages are *optimistic* (vmcache, and optimistic lock coupling): they note a
//! page's [state word](state), read bytes that may be changing under them ([`Frame`]), and then
//! look whether the note still holds. If not, they begin again: [`Restart`], a value like any
//! other. Nothing unwinds.
//!
//! Reading order: [`state`] and `parking` (one page's latch), [`View`] and [`Frame`] (one page's
//! bytes), [`Pages`] (what a tree sees). Layouts and protocols are in `docs/pages.md`.

mod frame;
mod parking;
mod provider;
mod resident;
mod restart;
pub mod state;
mod view;

pub use frame::{Frame, FrameMut};
pub use parking::{Lots, Parking};
pub use provider::{PageId, Pages};
pub use resident::Resident;
pub use restart::{Error, Restart, Result, Stop};
pub use view::{Image, View, ViewMut};
