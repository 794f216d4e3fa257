//! Redo in the order of keys: the logs of a database whose pages are not all in memory. Keyspaces
//! in memory beside them take their records from the same batches.
//!
//! In log order each record would touch another page, and in a small pool each would cost a read,
//! and the write of the page that it evicts. So recovery collects a batch of records that fills a
//! share of the pool's memory, sorts it, drops records that later ones replace, and applies the
//! rest from the lowest key to the highest. It reads the next leaves, and the pages of values to be
//! replaced, ahead and together. So each page is read and written once for each batch, however many
//! of its rows the batch has.
//!
//! ```text
//! log ──► batch (three quarters of the pool's memory) ──► sort, drop what is overwritten
//!                                                         └──► parts, one for each thread ──► tree
//! ```
//!
//! The result is the same: records of different keys do not depend on each other, those of one key
//! stay in order, a record is applied only to an older row, and a record that a later one replaces
//! as a whole leaves no trace. A removal of a range concerns many keys, so the batch before it is
//! applied first.

use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_log::{Operation, OperationKind, RecoveredLogs, Timestamp};

use crate::disk::ahead::{LEAVES_OF_A_THREAD, Window};
use crate::disk::page_file::PageFile;
use crate::disk::progress::RecoveryPhase;
use crate::disk::replay::{REPORT_EVERY_BYTES, Recovered, Recovery};
use crate::error::{Error, Result};

/// Memory of a batch at least, where the pool can spare none.
const LEAST_BATCH_BYTES: usize = 256 << 10;
/// Offsets within a batch have four bytes, and the last record of a batch may be long: no batch has
/// more than this and one record, however long a commit is.
const MOST_BATCH_BYTES: usize = 2 << 30;

/// Changes copied from the log, to be applied in the order of their keys.
struct RedoBatch {
    changes: Vec<RedoChange>,
    /// Keys and payloads, in the order of the log: where a change lies is its place in that order.
    bytes: Vec<u8>,
    most_bytes: usize,
}

/// A record of the log, its key and payload in the batch's bytes.
struct RedoChange {
    /// The first eight bytes of the key: most comparisons need no more.
    prefix: u64,
    timestamp: Timestamp,
    keyspace: u32,
    at: u32,
    key_bytes: u32,
    payload_bytes: u32,
    kind: OperationKind,
}

impl RedoChange {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at as usize..][..self.key_bytes as usize]
    }

    fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at as usize + self.key_bytes as usize..][..self.payload_bytes as usize]
    }

    fn has_key_of(&self, other: &RedoChange, bytes: &[u8]) -> bool {
        self.prefix == other.prefix
            && self.keyspace == other.keyspace
            && self.key(bytes) == other.key(bytes)
    }
}

/// The first eight bytes of a key, so that numbers compare as the keys do or are equal.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

impl RedoBatch {
    fn new(most_bytes: usize) -> RedoBatch {
        // What is not used of it takes no memory.
        RedoBatch {
            changes: Vec::with_capacity(most_bytes / (2 * size_of::<RedoChange>())),
            bytes: Vec::with_capacity(most_bytes),
            most_bytes,
        }
    }

    fn push(&mut self, timestamp: Timestamp, operation: &Operation<'_>) {
        let Operation {
            keyspace,
            kind,
            key,
            payload,
        } = *operation;
        self.changes.push(RedoChange {
            prefix: prefix(key),
            timestamp,
            keyspace,
            at: self.bytes.len() as u32,
            key_bytes: key.len() as u32,
            payload_bytes: payload.len() as u32,
            kind,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        if key.is_empty() && payload.is_empty() {
            // Where a change is says when it came: no two have one place.
            self.bytes.push(0);
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.changes.len() * size_of::<RedoChange>() >= self.most_bytes
    }

    /// Sorts by keys, the newest of a key first, and drops what a newer one replaces as a whole;
    /// how many that were.
    fn arrange(&mut self) -> usize {
        let (changes, bytes) = (&mut self.changes, &self.bytes);
        changes.sort_unstable_by(|a, b| {
            let keyspaces = a.keyspace.cmp(&b.keyspace);
            keyspaces
                .then_with(|| a.prefix.cmp(&b.prefix))
                .then_with(|| a.key(bytes).cmp(b.key(bytes)))
                .then_with(|| b.at.cmp(&a.at))
        });
        let before = changes.len();
        // Whether what was kept of a key says all of its row.
        let mut is_whole = false;
        changes.dedup_by(|older, kept| {
            if !older.has_key_of(kept, bytes) {
                is_whole = false;
                return false;
            }
            is_whole |= kept.kind != OperationKind::PutColumns;
            is_whole
        });
        before - changes.len()
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.bytes.clear();
    }
}

/// The redo of a database's logs.
struct Redo<'a> {
    recovery: &'a Recovery<'a>,
    /// Threads that apply a batch, and pages that fit in memory beside it.
    threads: usize,
    room: usize,
    total_bytes: u64,
    /// Of the log, what is applied.
    done_bytes: u64,
    batch: RedoBatch,
    recovered: Recovered,
}

/// Applies what the logs have to trees in a page file.
pub(crate) fn redo(
    recovery: &Recovery<'_>,
    pages: &PageFile,
    logs: &RecoveredLogs,
) -> Result<Recovered> {
    let total_bytes = logs.total_bytes();
    // A record takes more room in a batch than in the log, but never thrice as much and a page.
    let useful = (total_bytes as usize)
        .saturating_mul(3)
        .saturating_add(4096);
    let _budget_exemption = pages.exceed_budget();
    let reservation = pages.reserve_memory(useful.min(MOST_BATCH_BYTES));
    let most_bytes = reservation.bytes().max(LEAST_BATCH_BYTES.min(useful));
    // Pages that were read ahead must not displace each other.
    let room = pages.room();
    let threads = recovery.threads.min(room / LEAVES_OF_A_THREAD).max(1);
    let mut redo = Redo {
        recovery,
        threads,
        room,
        total_bytes,
        done_bytes: 0,
        batch: RedoBatch::new(most_bytes),
        recovered: Recovered::default(),
    };
    redo.run(logs)?;
    Ok(redo.recovered)
}

impl Redo<'_> {
    fn run(&mut self, logs: &RecoveredLogs) -> Result<()> {
        let recovery = self.recovery;
        recovery.report(RecoveryPhase::Log, 0, self.total_bytes);
        let mut commits = logs.commits();
        loop {
            let bytes_read = commits.bytes_read();
            let Some(commit) = commits.next()? else { break };
            for operation in commit.operations() {
                self.recovered.records += 1;
                recovery.check_keyspace(operation.keyspace)?;
                if let Err(bad) = recovery.check(&operation) {
                    return Err(bad.at(commits.place()));
                }
                if operation.kind == OperationKind::RemoveRange {
                    // What came before is in the tree first.
                    self.apply(bytes_read)?;
                    recovery.replay_range(commit.timestamp(), &operation, |_| true)?;
                    continue;
                }
                self.batch.push(commit.timestamp(), &operation);
                // Nobody sees a part of a commit before all of the logs is applied.
                if self.batch.is_full() {
                    self.apply(bytes_read)?;
                }
            }
        }
        self.apply(self.total_bytes)?;
        recovery.report(RecoveryPhase::Log, self.total_bytes, self.total_bytes);
        Ok(())
    }

    /// Applies the batch, which ends where `bytes_read` of the log end.
    fn apply(&mut self, bytes_read: u64) -> Result<()> {
        if self.batch.changes.is_empty() {
            return Ok(());
        }
        self.recovered.batches += 1;
        self.recovered.overwritten += self.batch.arrange() as u64;
        let parts = self.parts();
        let applied = AtomicU64::new(0);
        let progress = |changes: usize| {
            let before = applied.fetch_add(changes as u64, Ordering::Relaxed);
            let bytes = bytes_read.saturating_sub(self.done_bytes);
            let all = self.batch.changes.len() as u64;
            let done = |applied: u64| self.done_bytes + bytes * applied / all;
            let (before, after) = (done(before), done(before + changes as u64));
            if before / REPORT_EVERY_BYTES != after / REPORT_EVERY_BYTES {
                let recovery = self.recovery;
                recovery.report(RecoveryPhase::Log, after, self.total_bytes);
            }
        };
        self.recovery.on_all_threads(parts.len(), |thread| {
            self.apply_part(parts[thread], &progress)
        })?;
        self.recovery.check_memory()?;
        self.done_bytes = bytes_read;
        self.batch.clear();
        Ok(())
    }

    /// The batch in parts of about equal length, the changes of a key in one.
    fn parts(&self) -> Vec<&[RedoChange]> {
        let bytes = &self.batch.bytes;
        let mut rest = self.batch.changes.as_slice();
        let length = rest.len().div_ceil(self.threads);
        let mut parts = Vec::with_capacity(self.threads);
        while !rest.is_empty() {
            let (part, others) = rest.split_at(end_of_key(rest, length.min(rest.len()), bytes));
            parts.push(part);
            rest = others;
        }
        parts
    }

    /// Applies changes in order; `progress` gets their number.
    fn apply_part(&self, part: &[RedoChange], progress: &impl Fn(usize)) -> Result<()> {
        let bytes = self.batch.bytes.as_slice();
        let mut row = Vec::new();
        for run in part.chunk_by(|a, b| a.keyspace == b.keyspace) {
            // Of a keyspace that was dropped, if it is missing.
            let Some(space) = self.recovery.spaces.get(&run[0].keyspace) else {
                continue;
            };
            let tree = space.index.tree();
            let mut window = tree.map(|tree| Window::new(tree, self.room, self.threads));
            let mut rest = run;
            while !rest.is_empty() {
                let keys = rest.iter().map(|change| change.key(bytes));
                let covered = match &mut window {
                    Some(window) => window.load(keys),
                    None => rest.len(),
                };
                let (now, later) = rest.split_at(end_of_key(rest, covered, bytes));
                for same_key in now.chunk_by(|a, b| a.has_key_of(b, bytes)) {
                    // The newest is the first.
                    for change in same_key.iter().rev() {
                        let operation = Operation {
                            keyspace: change.keyspace,
                            kind: change.kind,
                            key: change.key(bytes),
                            payload: change.payload(bytes),
                        };
                        let timestamp = change.timestamp;
                        match self.recovery.apply(space, timestamp, &operation, &mut row) {
                            Err(Error::Index(error)) => self.recovery.lost.add(error)?,
                            applied => applied?,
                        }
                    }
                }
                progress(now.len());
                rest = later;
            }
        }
        Ok(())
    }
}

/// Where the changes end that have the key of the one before `at`, or of one before that.
fn end_of_key(changes: &[RedoChange], at: usize, bytes: &[u8]) -> usize {
    let Some(last) = at.checked_sub(1).map(|last| &changes[last]) else {
        return 0;
    };
    let same = changes[at..].iter();
    at + same
        .take_while(|change| change.has_key_of(last, bytes))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(changes: &[(u32, &str, OperationKind)]) -> RedoBatch {
        let mut batch = RedoBatch::new(1 << 16);
        for (number, &(keyspace, key, kind)) in changes.iter().enumerate() {
            let operation = Operation {
                keyspace,
                kind,
                key: key.as_bytes(),
                payload: &[number as u8],
            };
            batch.push(Timestamp::new(1, number as u32), &operation);
        }
        batch
    }

    fn numbers(batch: &RedoBatch) -> Vec<u8> {
        let changes = batch.changes.iter();
        changes
            .map(|change| change.payload(&batch.bytes)[0])
            .collect()
    }

    #[test]
    fn a_batch_is_in_order_and_has_of_each_key_what_counts() {
        use OperationKind::{Put, PutColumns, Remove};
        let mut batch = batch(&[
            (1, "b", Put),
            (1, "long key 2", Put),
            (0, "z", PutColumns),
            (1, "long key 1", Put),
            (1, "b", PutColumns),
            (1, "b", Remove),
            (1, "b", PutColumns),
            (1, "long key", PutColumns),
            (1, "b", PutColumns),
            (1, "long key 1", Put),
            (0, "z", PutColumns),
            (1, "b\0", Put),
        ]);
        assert_eq!(batch.arrange(), 3);
        assert_eq!(numbers(&batch), [10, 2, 8, 6, 5, 11, 7, 9, 1]);
        let bytes = &batch.bytes;
        assert_eq!(end_of_key(&batch.changes, 1, bytes), 2);
        assert_eq!(end_of_key(&batch.changes, 3, bytes), 5);
        assert_eq!(end_of_key(&batch.changes, 9, bytes), 9);
    }

    #[test]
    fn a_change_without_a_byte_has_its_place_in_the_order() {
        use OperationKind::{Put, Remove};
        let mut batch = RedoBatch::new(1 << 16);
        // The empty key comes, goes and comes again, many times: sorting must not confuse them.
        for number in 0..100 {
            let (kind, payload) = match number % 2 {
                0 => (Remove, &[][..]),
                _ => (Put, &[number][..]),
            };
            let operation = Operation {
                keyspace: 1,
                kind,
                key: b"",
                payload,
            };
            batch.push(Timestamp::new(1, u32::from(number)), &operation);
            let last = batch.changes.last().expect("just pushed");
            assert_eq!(last.payload(&batch.bytes), payload);
        }
        assert_eq!(batch.arrange(), 99);
        let kept = &batch.changes[0];
        assert_eq!((kept.kind, kept.payload(&batch.bytes)), (Put, &[99][..]));
    }

    #[test]
    fn keys_compare_by_their_prefix_first() {
        let keys = ["", "a", "a\0", "abcdefgh", "abcdefgh\0", "abcdefgi", "b"];
        assert!(keys.is_sorted_by_key(|key| prefix(key.as_bytes())));
    }
}
