//! `redb`: a copy-on-write B-tree in one file.

use std::path::Path;
use std::sync::Arc;

use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

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
    Ok(Box::new(Redb {
        ticker,
        database,
        durability: match settings.sync {
            Sync::EveryCommit => Durability::Immediate,
            Sync::Periodic | Sync::Never => Durability::None,
        },
    }))
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
