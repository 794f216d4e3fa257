//! Hedgerow: a durable, ordered key-value engine.
//!
//! A [`Db`] is a directory with named [`Keyspace`]s, each an ordered map from keys (any bytes, up
//! to 64 KiB) to [`Row`]s: one plain value, or named columns. Rows are in a concurrent tree, which
//! is in memory as a whole and rebuilt from log and checkpoints, or in a file of pages of which a part
//! is in memory ([`IndexKind`]).
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
//! assert_eq!(birds.get_columns(b"robin", &[b"song"])?.unwrap()[0].as_deref(), Some(&b"all year"[..]));
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
//! | several keys at once | [`Batch`], [`Transaction`] |
//! | what an acknowledged write promises | [`Durability`], [`WriteOptions`] |
//! | what can go wrong | [`enum@Error`] |
//!
//! Inside, [a write's way](Keyspace::put_with) is: lock the key's *stripe*, lock a log *shard*,
//! take a timestamp, change the index, append to the log. `commit.rs` tells why that order,
//! `stripes.rs` what stripes are good for, `recovery.rs` how it all comes back.

#![forbid(unsafe_code)]

mod ahead;
mod any_index;
mod background;
mod backup;
mod batch;
mod bounds;
mod catalog;
mod checkpoint;
mod closed_ranges;
mod commit;
mod cursors;
mod db;
mod directory;
mod engine;
mod erased;
mod error;
mod expiry;
mod index_kind;
mod iterate;
mod key_hash;
mod keyspace;
mod lookup;
mod lost;
#[cfg(test)]
mod nested_calls;
mod open;
mod options;
mod page_file;
mod planted;
mod progress;
mod random_key;
mod range_record;
mod recovery;
mod redo;
mod removals;
mod remove_range;
mod replay;
mod restore;
mod row;
mod row_builder;
mod schedule;
mod space;
mod statistics;
mod stripes;
mod transaction;
mod undo;
mod wakeup;
mod watch;
mod watches;
mod worker;
mod write;
mod write_options;

pub use backup::{BackupReport, CheckReport};
pub use batch::Batch;
pub use bounds::{KeyRange, prefix_end};
pub use checkpoint::CheckpointReport;
pub use commit::{Action, Commit};
pub use db::Db;
pub use error::{Error, Result};
pub use hedgerow_index::{Direction, IndexError, IndexErrorKind, KeySpan, MAX_KEY_BYTES};
pub use hedgerow_log::{Health, Problem, Progress, Timestamp};
pub use hedgerow_memory::return_large_blocks;
pub use index_kind::IndexKind;
pub use iterate::{Entry, Range};
pub use keyspace::Keyspace;
pub use options::Builder;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use progress::{RecoveryPhase, RecoveryProgress};
pub use row::{Columns, Row};
pub use row_builder::RowBuilder;
pub use statistics::{Statistic, Statistics};
pub use transaction::{Locks, Transaction};
pub use watch::Watch;
pub use write_options::{Durability, WriteOptions};
