//! Hedgerow: a durable, ordered key-value engine.
//!
//! A [`Db`] is a directory with named [`Keyspace`]s, each an ordered map from keys (any bytes, up
//! to 64 KiB) to [`Row`]s: one plain value, or named columns. Rows are in a concurrent tree, which
//! is in memory as a whole and rebuilt from log and checkpoints, or in a file of pages of which a
//! part is in memory ([`IndexKind`]).
//!
//! ```
//! use hedgerow::{Db, Durability};
//!
//! # let dir = tempfile::tempdir()?;
//! let db = Db::open(dir.path().join("data"))?;
//! let birds = db.keyspace("birds")?;
//! birds.put(b"wren", b"Troglodytes troglodytes")?;
//! birds.put_columns(b"robin", &[(b"family", b"Muscicapidae"), (b"song", b"all year")])?;
//!
//! for entry in birds.range("r"..)?.rev() {
//!     let entry = entry?;
//!     println!("{} {:?}", entry.key().escape_ascii(), entry.row());
//! }
//! let columns = birds.get_columns(b"robin", &[b"song"])?.unwrap();
//! assert_eq!(columns[0].as_deref(), Some(&b"all year"[..]));
//!
//! let mut batch = db.batch();
//! batch.put(&birds, b"dunnock", b"Prunella modularis").remove(&birds, b"wren");
//! batch.commit(Durability::Sync)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | opening, keyspaces, transactions, checkpoints, backups | [`Db`], [`Builder`] |
//! | reading and writing rows | [`Keyspace`], [`Row`], [`RowBuilder`] |
//! | ranges | [`Keyspace::range`], [`Keyspace::scan`], [`KeyRange`] |
//! | several keys at once | [`Batch`], [`Transaction`], [`OptimisticTransaction`] |
//! | the database as it was at one moment | [`Snapshot`] |
//! | what an acknowledged write promises | [`Durability`], [`WriteOptions`] |
//! | what can go wrong | [`enum@Error`] |
//! | what a server asks of a database, to keep rows elsewhere | [`backend`] |
//!
//! Inside, [a write's way](Keyspace::put_with) is: lock the key's *stripe*, lock a log *shard*,
//! take a timestamp, change the index, append to the log. `commit/mod.rs` tells why that order,
//! `commit/stripes.rs` what stripes are good for, `disk/recovery.rs` how it all comes back.

#![forbid(unsafe_code)]

mod api;
pub mod backend;
mod background;
mod commit;
mod disk;
mod engine;
mod error;
mod index;
mod machine_memory;
mod memory_shares;
mod options;
mod planted;
mod row;
mod schedule;
mod versions;
mod wakeup;

pub use api::batch::Batch;
pub use api::db::Db;
pub use api::files_state::FilesState;
pub use api::iterate::{Entry, Range};
pub use api::keyspace::Keyspace;
pub use api::keyspace_options::KeyspaceOptions;
pub use api::optimistic::{Isolation, OptimisticTransaction};
pub use api::snapshot::{KeyspaceSnapshot, Snapshot};
pub use api::statistics::{Statistic, Statistics};
pub use api::transaction::{Locks, Transaction};
pub use api::watch::Watch;
pub use commit::write_options::{Durability, WriteOptions};
pub use commit::{Action, Commit};
pub use disk::backup::{BackupReport, CheckReport};
pub use disk::checkpoint::CheckpointReport;
pub use disk::progress::{RecoveryPhase, RecoveryProgress};
pub use error::{Error, Result};
pub use hedgerow_index::{Direction, IndexError, IndexErrorKind, KeySpan, MAX_KEY_BYTES};
pub use hedgerow_log::{Health, Problem, Progress, Timestamp};
pub use hedgerow_memory::{drop_startup_code_pages, fix_mmap_threshold};
pub use index::bounds::{KeyRange, prefix_end};
pub use index::kind::{BST_KEY_BYTES, IndexKind};
pub use options::{Builder, MOST_VALUE_BYTES};
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use row::builder::RowBuilder;
pub use row::{Columns, Row};
pub use versions::registry::OldestSnapshot;

/// The examples of the document, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/transactions.md")]
struct DocumentOfTransactions;

/// The file layer that [`Builder::vfs`] takes: what a database asks of its files, the operating
/// system's files, and files in memory.
pub mod vfs {
    pub use hedgerow_vfs::{
        FileLock, MemoryVfs, OpenMode, ReadAt, SystemVfs, Vfs, VfsFile, WriteAt,
    };
}
