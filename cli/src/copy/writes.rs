//! What a copy writes to its target.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hedgerow::backend::{Backend, BackendKeyspace, Put};
use hedgerow::{Action, Commit, Durability, WriteOptions};

use super::copied_row::CopiedRow;
use crate::error::Result;

/// Writes that are under way together, where each is a round trip.
const AT_ONCE: usize = 16;

/// Calls `write` for each of some keys, which differ; the last of the commits. Where calls are
/// round trips, several are under way together.
fn each<B: Backend, T: Sync>(
    items: &[T],
    write: impl Fn(&T) -> Result<Option<Commit>> + Sync,
) -> Result<Option<Commit>> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut last = None;
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let written = write(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed));
            last = last.max(written?);
        }
        Ok(last)
    };
    if !B::IS_REMOTE || items.len() < 2 {
        return some();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..AT_ONCE.min(items.len()))
            .map(|_| scope.spawn(some))
            .collect();
        let mut last = some();
        for other in others {
            let written = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            last = last.and_then(|last| Ok(last.max(written?)));
        }
        last
    })
}

/// How a copy writes that may have to say what survives a power cut. An embedded database is asked
/// for that ([`await_durable`]); one elsewhere must have synced what it acknowledges.
pub(super) fn options<B: Backend>(must_survive: bool) -> WriteOptions {
    match must_survive && B::IS_REMOTE {
        true => Durability::Sync.into(),
        false => WriteOptions::default(),
    }
}

/// Writes rows; the last of the commits.
pub(super) fn write_page<B: Backend>(
    keyspace: &B::Keyspace,
    rows: &[CopiedRow],
    options: &WriteOptions,
) -> Result<Option<Commit>> {
    let mut last = None;
    let puts: Vec<Put<'_>> = rows.iter().filter_map(CopiedRow::as_put).collect();
    let mut outcome = Ok(());
    keyspace.put_many(&puts, options, |_, done| {
        if outcome.is_ok() {
            outcome = done.map(|commit| last = last.max(Some(commit)));
        }
    });
    outcome?;
    let others: Vec<_> = rows.iter().filter(|row| row.as_put().is_none()).collect();
    let written = each::<B, _>(&others, |row| {
        let ((), commit) = keyspace.update(&row.key, options, |_, new| {
            row.write(new);
            Action::Put(())
        })?;
        Ok(commit)
    })?;
    Ok(last.max(written))
}

/// Writes rows, as the only writer of the keyspace; the last of the commits.
pub(super) fn load_page<B: Backend>(
    keyspace: &B::Keyspace,
    rows: &[CopiedRow],
    options: &WriteOptions,
) -> Result<Option<Commit>> {
    let keys: Vec<&[u8]> = rows.iter().map(|row| row.key.as_slice()).collect();
    Ok(keyspace.load(&keys, options, |i, new| rows[i].write(new))?)
}

/// Removes rows that may be there; the last of the commits.
pub(super) fn remove<B: Backend>(
    keyspace: &B::Keyspace,
    keys: &[Vec<u8>],
    options: &WriteOptions,
) -> Result<Option<Commit>> {
    each::<B, _>(keys, |key| {
        let ((), commit) = keyspace.update(key, options, |row, _| match row {
            Some(_) => Action::Remove(()),
            None => Action::Keep(()),
        })?;
        Ok(commit)
    })
}

/// Returns once a commit survives a power cut.
pub(super) fn await_durable<B: Backend>(db: &B, commit: Option<Commit>) -> Result<()> {
    let Some(commit) = commit else {
        return Ok(());
    };
    db.request_durable(&commit);
    while !db.poll_durable(&commit)? {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
