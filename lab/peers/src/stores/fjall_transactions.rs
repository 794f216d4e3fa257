//! Transactions of `fjall` that are validated when they commit.

use std::path::Path;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace};
use fjall::{OptimisticWriteTx, PersistMode, Readable, Snapshot};
use hedgerow_lab_contender::{
    ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, StoreError, StoreSettings,
    Sync, TransactionError, TransactionalStore, WriteTransaction, committed_at_once,
    until_committed,
};

use super::recent_writes::recent_writes_bytes;
use super::ticker::Ticker;

/// An open database.
struct FjallTransactions {
    // Dropped first: it holds the database too.
    _ticker: Option<Ticker>,
    pairs: OptimisticTxKeyspace,
    database: OptimisticTxDatabase,
    every_commit: bool,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<SharedTransactionalStore, StoreError> {
    let database = OptimisticTxDatabase::builder(directory)
        .cache_size(settings.cache_bytes)
        .open()
        .map_err(StoreError::from_display)?;
    let recent_bytes = recent_writes_bytes(settings);
    let options = || KeyspaceCreateOptions::default().max_memtable_size(recent_bytes);
    let pairs = database
        .keyspace("pairs", options)
        .map_err(StoreError::from_display)?;
    let ticker = (settings.sync == Sync::Periodic).then(|| {
        let database = database.clone();
        Ticker::start(move || {
            let persisted = database.persist(PersistMode::SyncAll);
            persisted.map_err(StoreError::from_display)
        })
    });
    Ok(Box::new(FjallTransactions {
        _ticker: ticker,
        pairs,
        database,
        every_commit: settings.sync == Sync::EveryCommit,
    }))
}

/// A transaction that writes.
struct Writing<'a>(OptimisticWriteTx, &'a OptimisticTxKeyspace);

impl ReadTransaction for Writing<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(self.0.get(self.1, key), value)
    }
}

impl WriteTransaction for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        self.0.insert(self.1, key, value);
        Ok(())
    }
}

/// A transaction that reads.
struct Reading<'a>(Snapshot, &'a OptimisticTxKeyspace);

impl ReadTransaction for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(self.0.get(self.1, key), value)
    }
}

fn copy(
    found: fjall::Result<Option<impl AsRef<[u8]>>>,
    value: &mut Vec<u8>,
) -> Result<bool, TransactionError> {
    value.clear();
    let found = found.map_err(TransactionError::from_display)?;
    if let Some(found) = &found {
        value.extend_from_slice(found.as_ref());
    }
    Ok(found.is_some())
}

impl TransactionalStore for FjallTransactions {
    fn write(&self, _keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        until_committed(|| {
            let begun = self.database.write_tx();
            let mut transaction = begun.map_err(TransactionError::from_display)?;
            if self.every_commit {
                transaction = transaction.durability(Some(PersistMode::SyncAll));
            }
            let mut writing = Writing(transaction, &self.pairs);
            run(&mut writing)?;
            let committed = writing.0.commit();
            let committed = committed.map_err(TransactionError::from_display)?;
            committed.map_err(|_| TransactionError::Conflict)
        })
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        let mut reading = Reading(self.database.read_tx(), &self.pairs);
        committed_at_once(run(&mut reading)).map(drop)
    }
}
