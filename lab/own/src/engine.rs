//! Our engine as a library, in a directory of its own.

use std::ops::ControlFlow;
use std::path::Path;

use hedgerow::{Db, Direction, Durability, IndexKind, Keyspace};
use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};

/// Of the memory of a process, what is left for stacks, allocators, logs, and who measures.
const BESIDE_BYTES: u64 = 12 << 20;

/// An engine behind the lab's interface.
type OpenedStore = Box<dyn Store + Send + std::marker::Sync>;

/// One keyspace of a database.
pub struct Engine {
    db: Db,
    keyspace: Keyspace,
    durability: Durability,
}

impl Engine {
    /// Opens or creates a database with the standard index. All of it is in memory, whatever
    /// cache was asked for.
    ///
    /// # Errors
    ///
    /// The engine's own.
    pub fn open(directory: &Path, settings: &StoreSettings) -> Result<OpenedStore, StoreError> {
        Self::open_with(directory, settings, IndexKind::Masstree, None)
    }

    /// Opens or creates a database of B-trees in a page file, whose buffer pool is the cache.
    ///
    /// Its memory limit is one for all that the engine takes, and it reads past the system's page
    /// cache; so where the process is limited it gets that but for a few MiB, as the page cache has
    /// what others leave.
    ///
    /// # Errors
    ///
    /// The engine's own, such as a cache below the least.
    pub fn open_paged(
        directory: &Path,
        settings: &StoreSettings,
    ) -> Result<OpenedStore, StoreError> {
        let bytes = match settings.process_bytes {
            Some(bytes) => bytes.saturating_sub(BESIDE_BYTES).max(settings.cache_bytes),
            None => settings.cache_bytes,
        };
        let limit = usize::try_from(bytes).map_err(StoreError::from_display)?;
        Self::open_with(directory, settings, IndexKind::BTree, Some(limit))
    }

    fn open_with(
        directory: &Path,
        settings: &StoreSettings,
        index: IndexKind,
        memory_limit: Option<usize>,
    ) -> Result<OpenedStore, StoreError> {
        let durability = match settings.sync {
            Sync::EveryCommit => Durability::Sync,
            Sync::Periodic => Durability::Periodic,
            Sync::Never => Durability::None,
        };
        let builder = Db::builder()
            .durability(durability)
            .index(index)
            .memory_limit(memory_limit);
        let db = builder.open(directory).map_err(StoreError::from_display)?;
        let keyspace = db.keyspace("default").map_err(StoreError::from_display)?;
        Ok(Box::new(Self {
            db,
            keyspace,
            durability,
        }))
    }
}

impl Store for Engine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let put = self.keyspace.put(key, value);
        put.map(drop).map_err(StoreError::from_display)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        let read = self.keyspace.read(key, |row| {
            value.extend_from_slice(row.value().unwrap_or_default());
        });
        read.map(|found| found.is_some())
            .map_err(StoreError::from_display)
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        let removed = self.keyspace.remove(key);
        removed.map(drop).map_err(StoreError::from_display)
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let mut seen = 0;
        let from = from.to_vec()..;
        let visited = self
            .keyspace
            .scan_up_to(from, Direction::Forward, count, |key, row| {
                visit(key, row.value().unwrap_or_default());
                seen += 1;
                ControlFlow::Continue(())
            });
        visited.map_err(StoreError::from_display)?;
        Ok(seen)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let mut batch = self.db.batch();
        for (key, value) in pairs {
            batch.put(&self.keyspace, key, value);
        }
        let committed = batch.commit(self.durability);
        committed.map(drop).map_err(StoreError::from_display)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.db.sync().map_err(StoreError::from_display)
    }
}
