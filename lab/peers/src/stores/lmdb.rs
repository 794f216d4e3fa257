//! LMDB through `heed`: a copy-on-write B+-tree in a memory-mapped file.
//!
//! The operating system's page cache is its cache: `cache_bytes` changes nothing.

use std::path::Path;

use hedgerow_lab_contender::{
    ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, Store, StoreError,
    StoreSettings, Sync, TransactionError, TransactionalStore, WriteTransaction, committed_at_once,
};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};

use super::ticker::{self, Ticker};

/// Addresses set aside for the file: no memory, and no disk until it is written.
const MAP_BYTES: usize = 256 << 30;

/// An open environment.
struct Lmdb {
    // Dropped first: it holds the environment too.
    ticker: Option<Ticker>,
    environment: Env<WithTls>,
    pairs: Database<Bytes, Bytes>,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    Ok(Box::new(open_one(directory, settings)?))
}

/// Opens one for transactions.
pub(super) fn open_transactional(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<SharedTransactionalStore, StoreError> {
    Ok(Box::new(open_one(directory, settings)?))
}

fn open_one(directory: &Path, settings: &StoreSettings) -> Result<Lmdb, StoreError> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    let mut flags = EnvFlags::empty();
    if settings.sync != Sync::EveryCommit {
        flags |= EnvFlags::NO_SYNC;
    }
    if settings.process_bytes.is_some() {
        // As its documentation advises where the data is larger than memory.
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    // SAFETY: NO_SYNC endangers the file when the machine fails, not this process; the other is
    // advice to the system.
    unsafe { options.flags(flags) };
    // SAFETY: the directory is the lab's own: no other process maps or cuts the file.
    let environment = unsafe { options.open(directory) }.map_err(StoreError::from_display)?;
    let mut transaction = environment.write_txn().map_err(StoreError::from_display)?;
    let pairs = environment
        .create_database(&mut transaction, None)
        .map_err(StoreError::from_display)?;
    transaction.commit().map_err(StoreError::from_display)?;
    let ticker = (settings.sync == Sync::Periodic).then(|| {
        let environment = environment.clone();
        Ticker::start(move || environment.force_sync().map_err(StoreError::from_display))
    });
    Ok(Lmdb {
        ticker,
        environment,
        pairs,
    })
}

impl Lmdb {
    fn write(
        &self,
        change: impl FnOnce(&mut heed::RwTxn<'_>) -> Result<(), heed::Error>,
    ) -> Result<(), StoreError> {
        let transaction = self.environment.write_txn();
        let mut transaction = transaction.map_err(StoreError::from_display)?;
        change(&mut transaction).map_err(StoreError::from_display)?;
        transaction.commit().map_err(StoreError::from_display)
    }
}

impl Store for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(|transaction| self.pairs.put(transaction, key, value))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        let transaction = self.environment.read_txn();
        let transaction = transaction.map_err(StoreError::from_display)?;
        let found = self.pairs.get(&transaction, key);
        let found = found.map_err(StoreError::from_display)?;
        if let Some(found) = found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        self.write(|transaction| self.pairs.delete(transaction, key).map(|_| ()))
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let transaction = self.environment.read_txn();
        let transaction = transaction.map_err(StoreError::from_display)?;
        let range = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let range = self.pairs.range(&transaction, &range);
        let mut visited = 0;
        for pair in range.map_err(StoreError::from_display)?.take(count) {
            let (key, value) = pair.map_err(StoreError::from_display)?;
            visit(key, value);
            visited += 1;
        }
        Ok(visited)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        self.write(|transaction| {
            pairs
                .iter()
                .try_for_each(|(key, value)| self.pairs.put(transaction, key, value))
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        ticker::check(self.ticker.as_ref())?;
        self.environment
            .force_sync()
            .map_err(StoreError::from_display)
    }
}

/// A transaction that writes: no other does meanwhile.
struct Writing<'a>(heed::RwTxn<'a>, Database<Bytes, Bytes>);

impl ReadTransaction for Writing<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(self.1.get(&self.0, key), value)
    }
}

impl WriteTransaction for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        let put = self.1.put(&mut self.0, key, value);
        put.map_err(TransactionError::from_display)
    }
}

/// A transaction that reads.
struct Reading<'a>(heed::RoTxn<'a, WithTls>, Database<Bytes, Bytes>);

impl ReadTransaction for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(self.1.get(&self.0, key), value)
    }
}

fn copy(found: heed::Result<Option<&[u8]>>, value: &mut Vec<u8>) -> Result<bool, TransactionError> {
    value.clear();
    let found = found.map_err(TransactionError::from_display)?;
    value.extend_from_slice(found.unwrap_or_default());
    Ok(found.is_some())
}

impl TransactionalStore for Lmdb {
    fn write(&self, _keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        let transaction = self.environment.write_txn();
        let transaction = transaction.map_err(StoreError::from_display)?;
        let mut writing = Writing(transaction, self.pairs);
        committed_at_once(run(&mut writing))?;
        writing.0.commit().map_err(StoreError::from_display)?;
        Ok(0)
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        let transaction = self.environment.read_txn();
        let transaction = transaction.map_err(StoreError::from_display)?;
        committed_at_once(run(&mut Reading(transaction, self.pairs))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_is_limited_the_system_does_not_read_ahead() {
        for process_bytes in [None, Some(64 << 20)] {
            let folder = tempfile::tempdir().expect("a directory");
            let settings = StoreSettings {
                cache_bytes: 8 << 20,
                process_bytes,
                sync: Sync::EveryCommit,
            };
            let store = open_one(folder.path(), &settings).expect("opened");
            let flags = store.environment.flags().expect("flags");
            let flags = flags.unwrap_or(EnvFlags::empty());
            let reads_ahead = !flags.contains(EnvFlags::NO_READ_AHEAD);
            assert_eq!(reads_ahead, process_bytes.is_none());
        }
    }
}
