//! The data that a command reads and changes. A command runs by itself, where each change is a
//! commit, or inside a transaction (`EXEC`, or a command of several keys), which stages changes and
//! makes them one commit. [`Data`] hides the difference, so a command is written once.

use std::cell::Cell;
use std::ops::ControlFlow;

use hedgerow::backend::{
    Backend, BackendKeyspace, ChangeRows, InteractiveTransaction, Put, ReadRows, SnapshotReads,
};
use hedgerow::{Action, Commit, Direction, Error, KeyRange, Row, RowBuilder, WriteOptions};

use crate::monitoring::metrics::LookUps;
use crate::resp::failure::{Failure, Outcome};
use crate::shared::now_ms;

/// Keys whose rows are brought into the cache together: their nodes still are when they are read.
pub(crate) const READ_TOGETHER: usize = 64;

/// What one `DELRANGE` or `FLUSHDB` inside `MULTI` can remove.
const STAGED_KEYS: usize = 1 << 20;
const STAGED_BYTES: usize = 64 << 20;

/// About what a staged removal takes besides its key, which it has three times: as a write, as a
/// read, and as what the command would undo.
const STAGED_REMOVAL_BYTES: usize = 320;

/// What a command reads, and where its changes are staged.
enum Source<'t, 'a, B: Backend> {
    /// The keyspace: each change is a commit.
    Direct,
    /// A transaction that locked its keys.
    Locking(&'t mut B::Transaction<'a>),
    /// A transaction that reads at a snapshot (`BEGIN`).
    Optimistic(&'t mut B::Interactive),
    /// A snapshot, for reading alone (`WITH`).
    Snapshot(&'t B::Snapshot),
}

/// The data that a command works on: a keyspace, directly, through a transaction, or at a snapshot.
pub(crate) struct Data<'t, 'a, B: Backend> {
    keyspace: &'t B::Keyspace,
    source: Source<'t, 'a, B>,
    options: WriteOptions,
    /// By how much the memory of the transaction may grow.
    room_bytes: usize,
    /// The last commit made directly.
    pub(crate) committed: Option<Commit>,
    looked_up: Cell<LookUps>,
}

impl<'t, 'a, B: Backend> Data<'t, 'a, B> {
    pub(crate) fn direct(keyspace: &'t B::Keyspace, options: WriteOptions) -> Data<'t, 'a, B> {
        Data {
            keyspace,
            source: Source::Direct,
            options,
            room_bytes: usize::MAX,
            committed: None,
            looked_up: Cell::default(),
        }
    }

    /// Inside a transaction that locked its keys. One command may make it take so much memory more.
    pub(crate) fn inside(
        keyspace: &'t B::Keyspace,
        transaction: &'t mut B::Transaction<'a>,
        most_bytes: usize,
    ) -> Data<'t, 'a, B> {
        let options = WriteOptions::default();
        Data {
            keyspace,
            source: Source::Locking(transaction),
            options,
            room_bytes: most_bytes,
            committed: None,
            looked_up: Cell::default(),
        }
    }

    /// Inside a transaction that reads at a snapshot, and may take so much memory.
    pub(crate) fn optimistic(
        keyspace: &'t B::Keyspace,
        transaction: &'t mut B::Interactive,
        most_bytes: usize,
    ) -> Data<'t, 'a, B> {
        Data {
            keyspace,
            room_bytes: most_bytes.saturating_sub(transaction.memory_bytes()),
            source: Source::Optimistic(transaction),
            options: WriteOptions::default(),
            committed: None,
            looked_up: Cell::default(),
        }
    }

    /// At a snapshot, which takes no changes.
    pub(crate) fn at(keyspace: &'t B::Keyspace, snapshot: &'t B::Snapshot) -> Data<'t, 'a, B> {
        Data {
            keyspace,
            source: Source::Snapshot(snapshot),
            options: WriteOptions::default(),
            room_bytes: usize::MAX,
            committed: None,
            looked_up: Cell::default(),
        }
    }

    /// The rows that were looked up by their keys so far.
    pub(crate) fn looked_up(&self) -> LookUps {
        self.looked_up.get()
    }

    fn count_look_up(&self, found: bool) {
        let mut looked_up = self.looked_up.get();
        looked_up.add(LookUps {
            hits: u64::from(found),
            misses: u64::from(!found),
        });
        self.looked_up.set(looked_up);
    }

    /// The time at which what is read is judged, in Unix milliseconds: the snapshot's or the
    /// transaction's own, else the present.
    pub(crate) fn time_ms(&self) -> u64 {
        match &self.source {
            Source::Snapshot(snapshot) => snapshot.time_ms(),
            Source::Optimistic(transaction) => transaction.time_ms(),
            Source::Direct | Source::Locking(_) => now_ms(),
        }
    }

    pub(crate) fn keyspace(&self) -> &'t B::Keyspace {
        self.keyspace
    }

    /// Goes on in another keyspace (`SELECT` in a transaction).
    pub(crate) fn select(&mut self, keyspace: &'t B::Keyspace) {
        self.keyspace = keyspace;
    }

    pub(crate) fn is_transaction(&self) -> bool {
        !matches!(self.source, Source::Direct)
    }

    pub(crate) fn read<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Outcome<Option<R>> {
        let found = match &self.source {
            Source::Locking(transaction) => transaction.read(self.keyspace, key, read)?,
            Source::Optimistic(transaction) => transaction.read(self.keyspace, key, read)?,
            Source::Snapshot(snapshot) => snapshot.read(self.keyspace, key, read)?,
            Source::Direct => self.keyspace.read(key, read)?,
        };
        self.count_look_up(found.is_some());
        Ok(found)
    }

    /// Keys in their order, of which so many at a time are brought into the cache before the first
    /// of them is read: so their cache misses overlap.
    pub(crate) fn prefetched<'k>(
        &self,
        keys: &'k [&'k [u8]],
    ) -> impl Iterator<Item = &'k [u8]> + use<'k, 't, 'a, B> {
        let keyspace = self.keyspace;
        keys.chunks(READ_TOGETHER).flat_map(move |some| {
            keyspace.prefetch_many(some);
            some.iter().copied()
        })
    }

    /// Reads a plain value; a row of columns is of the wrong type.
    pub(crate) fn value<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
        self.read(key, |row| row.value().map(read).ok_or(Failure::WrongType))?
            .transpose()
    }

    /// Reads a row of columns; a plain value is of the wrong type.
    pub(crate) fn hash<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Outcome<Option<R>> {
        self.read(key, |row| {
            if row.is_columns() {
                Ok(read(row))
            } else {
                Err(Failure::WrongType)
            }
        })?
        .transpose()
    }

    /// Changes a row as `decide` wants. A backend may ask it again: what it replied before is
    /// taken back by then, or begins with taking it back.
    pub(crate) fn update<R>(
        &mut self,
        key: &[u8],
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Outcome<R> {
        match &mut self.source {
            Source::Snapshot(_) => Err(read_only()),
            Source::Locking(tx) => Ok(tx.update(self.keyspace, key, decide)?),
            Source::Optimistic(tx) => Ok(tx.update(self.keyspace, key, decide)?),
            Source::Direct => {
                let (result, commit) = self.keyspace.update(key, &self.options, decide)?;
                self.committed = self.committed.max(commit);
                Ok(result)
            }
        }
    }

    /// [`Data::update`] whose closure can refuse.
    pub(crate) fn try_update<R>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Outcome<Action<R>>,
    ) -> Outcome<R> {
        self.update(key, |row, new| match decide(row, new) {
            Ok(Action::Keep(result)) => Action::Keep(Ok(result)),
            Ok(Action::Put(result)) => Action::Put(Ok(result)),
            Ok(Action::Remove(result)) => Action::Remove(Ok(result)),
            Err(failure) => Action::Keep(Err(failure)),
        })?
    }

    /// Stores a plain value, whatever was there.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Outcome {
        let options = WriteOptions {
            expiry_ms,
            ..self.options
        };
        match &mut self.source {
            Source::Snapshot(_) => return Err(read_only()),
            Source::Locking(tx) => tx.put_with(self.keyspace, key, value, &options)?,
            Source::Optimistic(tx) => tx.put_with(self.keyspace, key, value, &options)?,
            Source::Direct => {
                let commit = self.keyspace.put_with(key, value, &options)?;
                self.committed = self.committed.max(Some(commit));
            }
        }
        Ok(())
    }

    /// Stores plain values that do not expire, whatever was there, in their order.
    pub(crate) fn put_many<'k>(
        &mut self,
        puts: impl Iterator<Item = (&'k [u8], &'k [u8])>,
    ) -> Outcome {
        if !B::IS_REMOTE || self.is_transaction() {
            for (key, value) in puts {
                self.put(key, value, None)?;
            }
            return Ok(());
        }
        let puts: Vec<Put<'_>> = puts.map(|(key, value)| Put::plain(key, value)).collect();
        let (mut done, mut failed) = (0, None);
        let (keyspace, committed) = (self.keyspace, &mut self.committed);
        keyspace.put_many(&puts, &self.options, |_, outcome| match outcome {
            Ok(commit) => {
                done += 1;
                *committed = (*committed).max(Some(commit));
            }
            // What may have happened counts more than what did not.
            Err(error) if !matches!(failed, Some(Error::OutcomeUnknown(_))) => failed = Some(error),
            Err(_) => {}
        });
        match failed {
            Some(error) => Err(partly(done, puts.len(), error.into())),
            None => Ok(()),
        }
    }

    /// Whether rows are best read together: each call is a round trip, and they are not read in a
    /// transaction.
    pub(crate) fn reads_together(&self) -> bool {
        B::IS_REMOTE && !self.is_transaction()
    }

    /// Reads some rows in one call.
    pub(crate) fn read_together<R>(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(Row<'_>) -> R,
    ) -> Outcome<Vec<Option<R>>> {
        let mut found: Vec<Option<R>> = keys.iter().map(|_| None).collect();
        self.keyspace
            .get_many(keys, |i, row| found[i] = row.map(&mut read))?;
        found
            .iter()
            .for_each(|row| self.count_look_up(row.is_some()));
        Ok(found)
    }

    /// Removes a row; whether there was one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        self.update(key, |row, _| match row {
            Some(_) => Action::Remove(true),
            None => Action::Keep(false),
        })
    }

    /// Removes the rows of a range at once; how many.
    pub(crate) fn remove_range(&mut self, range: impl KeyRange) -> Outcome<u64> {
        if matches!(self.source, Source::Direct) {
            let (removed, commit) = self.keyspace.delete_range_with(range, &self.options)?;
            self.committed = self.committed.max(commit);
            return Ok(removed);
        }
        // A transaction names its keys: bounded, before anything is removed.
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let (mut left, mut room) = (STAGED_BYTES, self.room_bytes);
        let (mut full, mut is_large) = (false, false);
        self.scan_keys(range, Direction::Forward, |key| {
            full = keys.len() == STAGED_KEYS || left < key.len();
            let takes = STAGED_REMOVAL_BYTES + 3 * key.len();
            is_large = takes > room;
            if full || is_large {
                return ControlFlow::Break(());
            }
            left -= key.len();
            room -= takes;
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        if full {
            return Err(Failure::text(
                "ERR DELRANGE, FLUSHDB and FLUSHALL inside a transaction remove at most 1,048,576 \
                 keys of 64 MiB in all from a database; run the command outside",
            ));
        }
        if is_large {
            return Err(Failure::text(
                "ERR the command removes more keys than there is memory for in a transaction, \
                 half of `--client-memory`; run it outside, where it needs none",
            ));
        }
        for key in &keys {
            self.remove(key)?;
        }
        Ok(keys.len() as u64)
    }

    pub(crate) fn scan(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Outcome {
        match &self.source {
            Source::Locking(tx) => tx.scan(self.keyspace, range, direction, most, visit)?,
            Source::Optimistic(tx) => tx.scan(self.keyspace, range, direction, most, visit)?,
            Source::Snapshot(then) => then.scan(self.keyspace, range, direction, most, visit)?,
            Source::Direct => self.keyspace.scan_up_to(range, direction, most, visit)?,
        }
        Ok(())
    }

    /// [`Data::scan`] of keys alone, which costs less.
    pub(crate) fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Outcome {
        match &self.source {
            Source::Direct => self.keyspace.scan_keys(range, direction, visit)?,
            _ => self.scan(range, direction, usize::MAX, |key, _| visit(key))?,
        }
        Ok(())
    }
}

/// The failure of a command of several keys, each by itself, of which so many were changed before
/// it.
pub(crate) fn partly(done: usize, keys: usize, failure: Failure) -> Failure {
    partly_done(done, failure, format!("{keys} keys were changed"))
}

/// [`partly`], of a command on several databases.
pub(crate) fn partly_emptied(done: usize, databases: usize, failure: Failure) -> Failure {
    partly_done(done, failure, format!("{databases} databases were emptied"))
}

fn partly_done(done: usize, failure: Failure, of_all: String) -> Failure {
    if done == 0 {
        return failure;
    }
    let line = failure.line();
    let why = line.split_once(' ').map_or(line.as_str(), |(_, why)| why);
    Failure::text(format!("UNKNOWN {done} of {of_all}, then: {why}"))
}

fn read_only() -> Failure {
    Failure::text("ERR a snapshot is read only; run the command without WITH")
}
