//! What a log promises. One program, so that each is linked once.

mod ahead;
mod commit;
mod directories;
mod faults;
mod formats;
mod power_cuts;
mod recover;
mod rot;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_log::{
    Log, LogOptions, Manifest, Operation, OperationKind, RecoveredLogs, Result, Timestamp,
};
use hedgerow_vfs::{MemoryVfs, Vfs};

/// Where the database is on the disks of the tests.
const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// A disk in memory with the database's directory.
fn memory() -> MemoryVfs {
    let vfs = MemoryVfs::new();
    vfs.create_dir_all(dir()).unwrap();
    vfs
}

/// Options of a log that makes nothing durable unasked.
fn options(shards: u16) -> LogOptions {
    LogOptions {
        shards,
        flush_interval: Duration::from_secs(3600),
        ..LogOptions::default()
    }
}

/// Options of a log that in addition reserves no space, and soon tries a full disk again.
fn options_without_reserve(shards: u16) -> LogOptions {
    LogOptions {
        full_disk_retry: Duration::from_millis(1),
        reserve_bytes: 0,
        ..options(shards)
    }
}

/// The first log of a database.
fn create(vfs: &Arc<dyn Vfs>, options: LogOptions) -> (Arc<Log>, Manifest) {
    let mut manifest = Manifest::new(7);
    let log = Log::create(Arc::clone(vfs), dir(), &mut manifest, options, 1).unwrap();
    (log, manifest)
}

/// Appends one commit that puts the same payload under each of some keys.
fn append(log: &Log, shard: usize, keys: &[&[u8]], payload: &[u8]) -> Result<Timestamp> {
    let put = |&key| Operation {
        keyspace: 3,
        kind: OperationKind::Put,
        key,
        payload,
    };
    let operations: Vec<_> = keys.iter().map(put).collect();
    let mut guard = log.shard(shard)?;
    let timestamp = guard.timestamp(Timestamp::ZERO);
    guard.append(timestamp, &operations);
    Ok(timestamp)
}

/// The numbers under which the commits of the logs put something, in the order of the commits.
fn numbers(logs: &RecoveredLogs) -> Result<Vec<u64>> {
    let (mut commits, mut numbers) = (logs.commits(), Vec::new());
    while let Some(commit) = commits.next()? {
        let keys = commit.operations().map(|operation| operation.key.to_vec());
        numbers.extend(keys.map(|key| u64::from_be_bytes(key.try_into().unwrap())));
    }
    Ok(numbers)
}
