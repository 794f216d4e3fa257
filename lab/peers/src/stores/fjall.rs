//! `fjall`: a log-structured merge tree.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};

use super::recent_writes::recent_writes_bytes;
use super::ticker::{self, Ticker};

/// An open database.
struct Fjall {
    // Dropped first: it holds the database too.
    ticker: Option<Ticker>,
    pairs: Keyspace,
    database: Database,
    every_commit: bool,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    let database = Database::builder(directory)
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
        Ticker::start(move || persist(&database))
    });
    Ok(Box::new(Fjall {
        ticker,
        pairs,
        database,
        every_commit: settings.sync == Sync::EveryCommit,
    }))
}

fn persist(database: &Database) -> Result<(), StoreError> {
    database
        .persist(PersistMode::SyncAll)
        .map_err(StoreError::from_display)
}

impl Fjall {
    fn acknowledge(&self) -> Result<(), StoreError> {
        if self.every_commit {
            persist(&self.database)?;
        }
        Ok(())
    }
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.pairs
            .insert(key, value)
            .map_err(StoreError::from_display)?;
        self.acknowledge()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        let found = self.pairs.get(key).map_err(StoreError::from_display)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        self.pairs.remove(key).map_err(StoreError::from_display)?;
        self.acknowledge()
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let mut visited = 0;
        for pair in self.pairs.range(from..).take(count) {
            let (key, value) = pair.into_inner().map_err(StoreError::from_display)?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let mut batch = self.database.batch();
        for (key, value) in pairs {
            batch.insert(&self.pairs, *key, *value);
        }
        batch
            .durability(self.every_commit.then_some(PersistMode::SyncAll))
            .commit()
            .map_err(StoreError::from_display)
    }

    fn sync(&self) -> Result<(), StoreError> {
        ticker::check(self.ticker.as_ref())?;
        persist(&self.database)
    }
}
