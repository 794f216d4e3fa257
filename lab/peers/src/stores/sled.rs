//! `sled` 0.34: a B-link tree over a log of page deltas.

use std::path::Path;

use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};
use sled::{Batch, Db};

/// An open database.
struct Sled {
    database: Db,
    every_commit: bool,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    let mut config = sled::Config::new()
        .path(directory.join("pairs"))
        .cache_capacity(settings.cache_bytes);
    // Otherwise its default, every 500 ms.
    if settings.sync != Sync::Periodic {
        config = config.flush_every_ms(None);
    }
    Ok(Box::new(Sled {
        database: config.open().map_err(StoreError::from_display)?,
        every_commit: settings.sync == Sync::EveryCommit,
    }))
}

impl Sled {
    fn acknowledge(&self) -> Result<(), StoreError> {
        if self.every_commit {
            self.sync()?;
        }
        Ok(())
    }
}

impl Store for Sled {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.database
            .insert(key, value)
            .map_err(StoreError::from_display)?;
        self.acknowledge()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        let found = self.database.get(key).map_err(StoreError::from_display)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        self.database
            .remove(key)
            .map_err(StoreError::from_display)?;
        self.acknowledge()
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let mut visited = 0;
        for pair in self.database.range(from..).take(count) {
            let (key, value) = pair.map_err(StoreError::from_display)?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for (key, value) in pairs {
            batch.insert(*key, *value);
        }
        self.database
            .apply_batch(batch)
            .map_err(StoreError::from_display)?;
        self.acknowledge()
    }

    fn sync(&self) -> Result<(), StoreError> {
        let flushed = self.database.flush();
        flushed.map(|_| ()).map_err(StoreError::from_display)
    }
}
