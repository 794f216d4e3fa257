//! Logs, group commit, checkpoints, the manifest and recovery.
//!
//! This is §5 of the Masstree paper made precise: every worker has its own log and buffer, an
//! append is a copy into memory, a thread in the background writes and syncs, and recovery replays
//! all logs up to the last point that is whole in every one of them. Only the engine knows what a
//! record's payload means.
//!
//! | module | what |
//! |---|---|
//! | `timestamp`, `record` | a commit, and how it is written |
//! | `block`, `segment`, `generation` | what a log file consists of, appending to one, and the files of all shards |
//! | `new_log` | the files of a log before it begins |
//! | `options`, `shard`, `log` | the interface of writers, and of threads that wait for durability |
//! | `log_state`, `requests`, `shared` | what these share with the flusher |
//! | `flusher`, `output`, `syncers`, `health` | the thread behind them: group commit, full disks, failures |
//! | `checkpoint` | writing and reading checkpoint files |
//! | `scan`, `recovery`, `commits` | which part of the logs counts after a crash, and reading it |
//! | `prefix_checksums`, `read_buffer` | what readers of files block by block need |
//! | `stale` | recognises a manifest that is older than the logs beside it |
//! | `check`, `files` | verifying a closed database; which files it consists of |
//! | `manifest`, `entries` | the file that says what the database consists of; what it lists |
//! | `retained` | older checkpoints, for the case that the newest is damaged |
//! | `directories` | directories besides the data folder, and the file that says whose each is |
//! | `planted` | bugs on purpose, for the tests of the tests |
//!
//! Each layout is drawn in the module that writes it. `docs/file-formats.md` says which files there
//! are and how they are recovered, `docs/durability.md` what is promised.

#![forbid(unsafe_code)]

mod block;
mod check;
mod checkpoint;
mod commits;
mod directories;
mod entries;
mod error;
mod files;
mod flusher;
mod generation;
mod health;
mod log;
mod log_state;
mod manifest;
mod new_log;
mod options;
mod output;
mod planted;
mod prefix_checksums;
mod read_buffer;
mod record;
mod recovery;
mod requests;
mod retained;
mod scan;
mod segment;
mod shard;
mod shared;
mod stale;
mod statistics;
mod syncers;
mod timestamp;

pub use check::{Checked, check, check_newest};
pub use checkpoint::{CheckpointReader, CheckpointRecord, CheckpointWriter};
pub use commits::Commits;
pub use directories::{Folders, OWNER_FILE, Owner, round_robin};
pub use entries::{
    CheckpointEntry, DATA_FOLDER, DirectoryEntry, IncarnationEnd, IncarnationEntry, KeyspaceEntry,
    PartEntry,
};
pub use error::{Error, FilePlace, Problem, Result};
pub use files::{RequiredFile, remove_obsolete, required_files};
pub use health::{Health, Progress};
pub use log::{Log, ReleasedReserve};
pub use manifest::{
    DIRECTORIES_FORMAT_VERSION, FORMAT_VERSION, MANIFEST_FILE, MIXED_FORMAT_VERSION, Manifest,
    PLAIN_FORMAT_VERSION,
};
pub use new_log::NewLog;
pub use options::LogOptions;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use record::{Commit, Operation, OperationKind, Operations};
pub use recovery::RecoveredLogs;
pub use requests::RotationPoint;
pub use shard::ShardGuard;
pub use statistics::Statistics;
pub use timestamp::Timestamp;
