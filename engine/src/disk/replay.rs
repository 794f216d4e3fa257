//! Applies log records to trees. A record is applied only to an older row, so applying one twice,
//! or to a tree that already has later changes, does no harm.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use hedgerow_index::MAX_KEY_BYTES;
use hedgerow_log::{FilePlace, Manifest, Operation, OperationKind, Problem, Timestamp};
use hedgerow_sync::threads;
use hedgerow_vfs::Vfs;

use crate::commit::range_record;
use crate::disk::lost::LostRecords;
use crate::disk::page_file::PageFile;
use crate::disk::progress::{ProgressCallback, RecoveryPhase, RecoveryProgress};
use crate::error::{Error, Result};
use crate::index::expiry::Expiries;
use crate::index::space::Space;
use crate::memory_shares::MemoryShares;
use crate::planted::{PlantedBug, planted};
use crate::row::{ColumnChanges, Row};

pub(crate) const REPORT_EVERY_BYTES: u64 = 1 << 20;

/// Where recovery puts what it reads.
pub(crate) struct Recovery<'a> {
    pub(crate) vfs: &'a Arc<dyn Vfs>,
    pub(crate) dir: &'a Path,
    pub(crate) spaces: &'a HashMap<u32, Arc<Space>>,
    pub(crate) expiries: &'a Expiries,
    pub(crate) threads: usize,
    pub(crate) progress: Option<&'a ProgressCallback>,
    /// Of keyspaces in memory; `None` if there are none.
    pub(crate) memory_limit: Option<usize>,
    pub(crate) memory: &'a MemoryShares,
    /// The page file, if the database has one.
    pub(crate) pages: Option<&'a PageFile>,
    /// What could not be replayed.
    pub(crate) lost: &'a LostRecords,
    /// Keyspaces have ids below this one.
    pub(crate) next_keyspace_id: u32,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovered {
    /// Records read, of checkpoint and logs.
    pub(crate) records: u64,
    /// Batches in which the logs were applied to a page file.
    pub(crate) batches: u64,
    /// Records that were not applied, since a later one of their batch replaces them.
    pub(crate) overwritten: u64,
}

impl Recovery<'_> {
    pub(crate) fn report(&self, phase: RecoveryPhase, done_bytes: u64, total_bytes: u64) {
        if let Some(progress) = self.progress {
            progress(RecoveryProgress {
                phase,
                done_bytes,
                total_bytes,
            });
        }
    }

    /// Runs `work` once on each of so many threads; the first error wins.
    pub(crate) fn on_all_threads(
        &self,
        count: usize,
        work: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<()> {
        threads::run(count, work).into_iter().collect()
    }

    /// Removes the older rows of a range, those whose keys `is_own` says are this thread's. The
    /// operation was [checked](Self::check).
    pub(crate) fn replay_range(
        &self,
        timestamp: Timestamp,
        operation: &Operation<'_>,
        is_own: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let Operation {
            keyspace,
            key,
            payload,
            ..
        } = *operation;
        // Of a keyspace that was dropped, if it is missing.
        let Some(space) = self.spaces.get(&keyspace) else {
            return Ok(());
        };
        let Some(bounds) = range_record::decode(key, payload) else {
            return Ok(());
        };
        if planted(PlantedBug::RangeForgotten) {
            return Ok(());
        }
        let mut start = bounds.0.map(<[u8]>::to_vec);
        loop {
            let bounds = (start.as_ref().map(Vec::as_slice), bounds.1);
            let expiries = self.expiries;
            let removed = space.replay_remove_range(expiries, bounds, timestamp, &is_own);
            let Err(error) = removed else { return Ok(()) };
            // The rows behind a page that cannot be read are removed all the same.
            let next = error.keys().and_then(|keys| keys.to.clone());
            if matches!((&start, &next), (Bound::Included(at), Some(next)) if at >= next) {
                return Err(error.into());
            }
            self.lost.add(error)?;
            let Some(next) = next else { return Ok(()) };
            start = Bound::Included(next);
        }
    }

    /// Refuses a keyspace that the manifest has never heard of. (Of one that was dropped it has:
    /// ids are not used twice.)
    pub(crate) fn check_keyspace(&self, id: u32) -> Result<()> {
        if id < self.next_keyspace_id {
            return Ok(());
        }
        Err(Error::Corrupt(Box::new(Problem {
            file: Manifest::path(self.dir),
            offset: 0,
            what: format!(
                "it is older than the logs: they have commits of keyspace number {id}, and it \
                 knows of none from {} on",
                self.next_keyspace_id
            ),
            affected: "all keyspaces that were made after this MANIFEST was stored".to_owned(),
            remedy: "put the newest MANIFEST back, or restore a backup".to_owned(),
        })))
    }

    /// Whether a change of a keyspace that is there makes sense.
    pub(crate) fn check(&self, operation: &Operation<'_>) -> std::result::Result<(), BadRecord> {
        let Operation { key, payload, .. } = *operation;
        // Of a keyspace that was dropped, if it is missing.
        let Some(space) = self.spaces.get(&operation.keyspace) else {
            return Ok(());
        };
        let is_key = key.len() <= MAX_KEY_BYTES;
        let is_good = match operation.kind {
            OperationKind::Remove => is_key,
            OperationKind::Put => is_key && Row::check_body(payload),
            OperationKind::PutColumns => is_key && ColumnChanges::decode(payload).is_some(),
            OperationKind::RemoveRange => range_record::decode(key, payload).is_some(),
        };
        match operation.kind {
            _ if !is_good => Err(BadRecord::undecodable(space, key)),
            // What removes keys that cannot be there is no error, so logs may have it.
            OperationKind::Remove | OperationKind::RemoveRange => Ok(()),
            OperationKind::Put | OperationKind::PutColumns => BadRecord::check_width(space, key),
        }
    }

    /// Applies one change, which was [checked](Self::check).
    pub(crate) fn apply(
        &self,
        space: &Space,
        timestamp: Timestamp,
        operation: &Operation<'_>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        let Operation { key, payload, .. } = *operation;
        match operation.kind {
            OperationKind::Remove => space.replay_remove(self.expiries, key, timestamp, row)?,
            OperationKind::PutColumns => {
                space.replay_columns(self.expiries, key, timestamp, payload, row)?;
            }
            _ if planted(PlantedBug::ExpiryIgnored) && payload[0] & crate::row::EXPIRY != 0 => {
                let mut body = vec![payload[0] & !crate::row::EXPIRY];
                body.extend_from_slice(&payload[9..]);
                space.replay_put(self.expiries, key, timestamp, &body, row)?;
            }
            _ => space.replay_put(self.expiries, key, timestamp, payload, row)?,
        }
        Ok(())
    }
}

/// A record whose bytes are as they were written (their block's checksum says so), but that no
/// engine wrote for the keyspaces that the manifest names.
#[derive(Debug)]
pub(crate) struct BadRecord {
    what: String,
    affected: String,
    remedy: &'static str,
}

impl BadRecord {
    pub(crate) fn undecodable(space: &Space, key: &[u8]) -> BadRecord {
        BadRecord {
            what: "a record holds a row that this program cannot decode".to_owned(),
            affected: Self::key_of(space, key),
            remedy: "open it with the program that wrote it, or restore a backup",
        }
    }

    /// Refuses a row under a key that the keyspace's index cannot have.
    pub(crate) fn check_width(space: &Space, key: &[u8]) -> std::result::Result<(), BadRecord> {
        match space.kind.key_bytes() {
            Some(wanted) if key.len() != wanted => Err(BadRecord {
                what: format!(
                    "a record stores a key of {} bytes, and the index {} stores keys of {wanted} \
                     bytes only",
                    key.len(),
                    space.kind.name()
                ),
                affected: Self::key_of(space, key),
                remedy: "this file and MANIFEST are of different databases, or one is damaged: \
                         restore a backup",
            }),
            _ => Ok(()),
        }
    }

    fn key_of(space: &Space, key: &[u8]) -> String {
        format!("key {} of keyspace {:?}", key.escape_ascii(), space.name)
    }

    /// The error of such a record in this place.
    pub(crate) fn at(self, FilePlace { file, offset }: FilePlace) -> Error {
        Error::Corrupt(Box::new(Problem {
            file,
            offset,
            what: self.what,
            affected: self.affected,
            remedy: self.remedy.to_owned(),
        }))
    }
}
