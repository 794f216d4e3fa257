//! `redb`: a copy-on-write B-tree in one file.

use std::path::Path;
use std::sync::Arc;

use hedgerow_lab_contender::{
    ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, Store, StoreError,
    StoreSettings, Sync, TransactionError, TransactionalStore, WriteTransaction, committed_at_once,
};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::ticker::{self, Ticker};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

/// An open database.
struct Redb {
    // Dropped first: it holds the database too.
    ticker: Option<Ticker>,
    database: Arc<Database>,
    durability: Durability,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    Ok(Box::new(Redb::open(directory, settings)?))
}

/// Opens one for transactions.
pub(super) fn open_transactional(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<SharedTransactionalStore, StoreError> {
    Ok(Box::new(Redb::open(directory, settings)?))
}

type Pairs<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

fn write(
    database: &Database,
    durability: Durability,
    change: impl FnOnce(&mut Pairs<'_>) -> Result<(), redb::StorageError>,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().map_err(StoreError::from_display)?;
    transaction
        .set_durability(durability)
        .map_err(StoreError::from_display)?;
    {
        let mut pairs = transaction
            .open_table(PAIRS)
            .map_err(StoreError::from_display)?;
        change(&mut pairs).map_err(StoreError::from_display)?;
    }
    transaction.commit().map_err(StoreError::from_display)
}

impl Redb {
    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX));
        let file = directory.join("pairs.redb");
        let database = Arc::new(builder.create(file).map_err(StoreError::from_display)?);
        // Reads of a table that was never written would fail.
        write(&database, Durability::Immediate, |_| Ok(()))?;
        let ticker = (settings.sync == Sync::Periodic).then(|| {
            let database = Arc::clone(&database);
            Ticker::start(move || write(&database, Durability::Immediate, |_| Ok(())))
        });
        Ok(Self {
            ticker,
            database,
            durability: match settings.sync {
                Sync::EveryCommit => Durability::Immediate,
                Sync::Periodic | Sync::Never => Durability::None,
            },
        })
    }

    fn read(&self) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>, StoreError> {
        let transaction = self.database.begin_read();
        let transaction = transaction.map_err(StoreError::from_display)?;
        transaction
            .open_table(PAIRS)
            .map_err(StoreError::from_display)
    }
}

impl Store for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        write(&self.database, self.durability, |pairs| {
            pairs.insert(key, value).map(|_| ())
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        let found = self.read()?.get(key).map_err(StoreError::from_display)?;
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        write(&self.database, self.durability, |pairs| {
            pairs.remove(key).map(|_| ())
        })
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let pairs = self.read()?;
        let range = pairs.range(from..).map_err(StoreError::from_display)?;
        let mut visited = 0;
        for pair in range.take(count) {
            let (key, value) = pair.map_err(StoreError::from_display)?;
            visit(key.value(), value.value());
            visited += 1;
        }
        Ok(visited)
    }

    fn put_all(&self, new: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        write(&self.database, self.durability, |pairs| {
            new.iter()
                .try_for_each(|(key, value)| pairs.insert(*key, *value).map(|_| ()))
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        ticker::check(self.ticker.as_ref())?;
        write(&self.database, Durability::Immediate, |_| Ok(()))
    }
}

/// A transaction that writes: no other does meanwhile.
struct Writing<'a>(Pairs<'a>);

impl ReadTransaction for Writing<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(&self.0, key, value)
    }
}

impl WriteTransaction for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        let put = self.0.insert(key, value);
        put.map(drop).map_err(TransactionError::from_display)
    }
}

/// A transaction that reads.
struct Reading(redb::ReadOnlyTable<&'static [u8], &'static [u8]>);

impl ReadTransaction for Reading {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        copy(&self.0, key, value)
    }
}

fn copy(
    pairs: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<bool, TransactionError> {
    value.clear();
    let found = pairs.get(key).map_err(TransactionError::from_display)?;
    if let Some(found) = &found {
        value.extend_from_slice(found.value());
    }
    Ok(found.is_some())
}

impl TransactionalStore for Redb {
    fn write(&self, _keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        let begun = self.database.begin_write();
        let mut transaction = begun.map_err(StoreError::from_display)?;
        transaction
            .set_durability(self.durability)
            .map_err(StoreError::from_display)?;
        let pairs = transaction.open_table(PAIRS);
        let mut writing = Writing(pairs.map_err(StoreError::from_display)?);
        committed_at_once(run(&mut writing))?;
        drop(writing);
        transaction.commit().map_err(StoreError::from_display)?;
        Ok(0)
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        let mut reading = Reading(Redb::read(self)?);
        committed_at_once(run(&mut reading)).map(drop)
    }
}
