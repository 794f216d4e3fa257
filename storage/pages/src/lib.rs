//! Pages by number: the memory of trees that can grow larger than memory.
//!
//! A tree that names its nodes by page number, and not by address, does not care whether all of
//! them are in memory. This crate gives it pages instead of pointers: [`Pages`], a trait with a
//! provider for each place where pages can be.
//!
//! * [`Resident`]: all pages in memory, for one thread at a time. It has no latches, no errors and
//!   no restarts; a tree compiled for it is what a tree over plain pointers would be.
//! * `&`[`Pool`]: a file of pages, of which as many as a memory budget allows are in memory, for
//!   any number of threads (vmcache).
//!
//! Readers of shared pages are *optimistic* (vmcache, and optimistic lock coupling): they take a
//! snapshot of a page's state word, read bytes that may be changing under them ([`Frame`]), and
//! then validate the snapshot. If it is not valid, they begin again: [`Restart`], a value like any
//! other. Nothing unwinds.
//!
//! Reading order: `state` and `parking` (one page's latch), [`View`] and [`Frame`] (one page's
//! bytes), [`Pages`] (what a tree sees); `pool` and `fault` (loading pages), `evict` (evicting
//! them), `install` (where the two meet), `table` and `checkpoint` (what is on disk after a crash).
//! `docs/pages.md` explains the whole.

mod backing;
mod block;
mod bookkeeping;
mod budget;
mod checkpoint;
mod compact;
mod copy;
mod error;
mod evict;
mod fault;
mod frame;
mod install;
#[cfg(test)]
mod interleavings;
mod open;
mod operations;
mod options;
mod overlay;
mod page_cleaner;
mod page_id;
mod paged;
mod parking;
mod pool;
mod prefetch_queue;
mod provider;
mod racing;
mod reservation;
mod reserve;
mod resident;
mod restart;
mod root;
mod space;
mod state;
mod statistics;
mod superpages;
mod table;
mod view;
mod write_batch;

pub use checkpoint::CheckpointInProgress;
pub use compact::BlockUse;
pub use copy::copy_file;
pub use error::Error;
pub use frame::{Frame, FrameMut};
pub use open::torn_roots;
pub use operations::Operation;
pub use options::Options;
pub use page_cleaner::PageCleaner;
pub use page_id::PageId;
pub use paged::{ExclusiveLatch, SharedLatch, VersionSnapshot};
pub use pool::Pool;
pub use provider::Pages;
pub use reservation::MemoryReservation;
pub use reserve::{BudgetExemption, ReserveUse};
pub use resident::{Resident, ResidentPage};
pub use restart::{Restart, Result, Stop};
pub use statistics::PoolStatistics;
pub use view::{Image, View, ViewMut};
