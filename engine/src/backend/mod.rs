//! What a server asks of the database beneath it, as traits: so that the same server, with the same
//! protocols, can keep its rows elsewhere than in this engine.
//!
//! ```text
//!                       ┌─ Db                 rows in a directory or in memory, on this machine
//! server<B: Backend> ───┤
//!                       └─ hedgerow-hbase     rows in the tables of an HBase cluster
//! ```
//!
//! [`Backend`] is a database, [`BackendKeyspace`] one of its keyspaces. The server is compiled once
//! for each backend that a program has, so that calls into the engine stay what they were: direct,
//! and inlined where they were.
//!
//! A backend may be unable to do something: HBase's atomicity ends at a row, and it has no
//! snapshots. Then [`Backend::lacks`] says so of a [`Capability`], with the reason, and every call
//! that needs it fails with [`Error::Unsupported`](crate::Error::Unsupported) before it does
//! anything; only without [`Capability::AtomicRanges`] and [`Capability::Counts`] calls do what
//! their descriptions say instead. [`Absent`] stands for the transactions and snapshots that such a
//! backend never makes.

mod absent;
pub(crate) mod capability;
mod database;
mod embedded;
mod keyspace;
mod rows;

pub use crate::row::owned::{OwnedRow, RowAttributes};
pub use absent::Absent;
pub use capability::{Capability, Unsupported};
pub use database::Backend;
pub use keyspace::{BackendKeyspace, Put};
pub use rows::{ChangeRows, InteractiveTransaction, LockingTransaction, ReadRows, SnapshotReads};
