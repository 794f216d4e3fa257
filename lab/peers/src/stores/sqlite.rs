//! SQLite through `rusqlite`: one table whose primary key is the key, without row numbers.
//!
//! Its journal is a write-ahead log, as its documentation advises for many readers. Each thread
//! has a connection with a cache of its own; writers take turns under a lock of ours, which
//! costs less than SQLite's waiting for its own.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hedgerow_lab_contender::{
    ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, Store, StoreError,
    StoreSettings, Sync, TransactionError, TransactionalStore, WriteTransaction, committed_at_once,
};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use thread_local::ThreadLocal;

const PUT: &str = "INSERT INTO pairs VALUES (?1, ?2) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// An open database.
struct Sqlite {
    file: PathBuf,
    settings: StoreSettings,
    connections: ThreadLocal<Connection>,
    writer: Mutex<()>,
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

fn open_one(directory: &Path, settings: &StoreSettings) -> Result<Sqlite, StoreError> {
    let store = Sqlite {
        file: directory.join("pairs.sqlite"),
        settings: *settings,
        connections: ThreadLocal::new(),
        writer: Mutex::new(()),
    };
    store
        .connection()?
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) \
             WITHOUT ROWID",
        )
        .map_err(StoreError::from_display)?;
    Ok(store)
}

fn synchronous(sync: Sync) -> &'static str {
    match sync {
        Sync::EveryCommit => "FULL",
        Sync::Periodic => "NORMAL",
        Sync::Never => "OFF",
    }
}

impl Sqlite {
    /// This thread's connection.
    fn connection(&self) -> Result<&Connection, StoreError> {
        let connect = || {
            let connection = Connection::open(&self.file)?;
            let kibibytes = i64::try_from(self.settings.cache_bytes >> 10).unwrap_or(i64::MAX);
            connection.pragma_update(None, "journal_mode", "WAL")?;
            let synchronous = synchronous(self.settings.sync);
            connection.pragma_update(None, "synchronous", synchronous)?;
            // Negative: in KiB rather than in pages.
            connection.pragma_update(None, "cache_size", -kibibytes)?;
            Ok(connection)
        };
        self.connections
            .get_or_try(connect)
            .map_err(|error: rusqlite::Error| StoreError::from_display(error))
    }

    fn write(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let connection = self.connection()?;
        let _turn = self.writer.lock().expect("no writer panics");
        change(connection).map_err(StoreError::from_display)
    }
}

fn find(connection: &Connection, key: &[u8], value: &mut Vec<u8>) -> rusqlite::Result<bool> {
    let query = "SELECT value FROM pairs WHERE key = ?1";
    let mut query = connection.prepare_cached(query)?;
    let copy = |row: &rusqlite::Row<'_>| {
        value.extend_from_slice(row.get_ref(0)?.as_blob()?);
        Ok(())
    };
    Ok(query.query_row((key,), copy).optional()?.is_some())
}

impl Store for Sqlite {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(|connection| {
            connection.prepare_cached(PUT)?.execute((key, value))?;
            Ok(())
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.clear();
        find(self.connection()?, key, value).map_err(StoreError::from_display)
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        self.write(|connection| {
            let query = "DELETE FROM pairs WHERE key = ?1";
            connection.prepare_cached(query)?.execute((key,))?;
            Ok(())
        })
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let mut walk = || {
            let query = "SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key LIMIT ?2";
            let mut query = self.connection()?.prepare_cached(query)?;
            let limit = i64::try_from(count).unwrap_or(i64::MAX);
            let mut rows = query.query((from, limit))?;
            let mut visited = 0;
            while let Some(row) = rows.next()? {
                visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                visited += 1;
            }
            Ok(visited)
        };
        walk().map_err(|error: Failure| error.0)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        self.write(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let mut put = transaction.prepare_cached(PUT)?;
            for (key, value) in pairs {
                put.execute((key, value))?;
            }
            drop(put);
            transaction.commit()
        })
    }

    /// A checkpoint with syncs on, whatever the settings say of commits.
    fn sync(&self) -> Result<(), StoreError> {
        let commits = synchronous(self.settings.sync);
        self.write(|connection| {
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.query_row("PRAGMA wal_checkpoint(FULL)", (), |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", commits)
        })
    }
}

/// Either kind of error, from one closure.
struct Failure(StoreError);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self(StoreError::from_display(error))
    }
}

impl From<rusqlite::types::FromSqlError> for Failure {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self(StoreError::from_display(error))
    }
}

/// A transaction on a connection: of the one writer, or of a reader.
struct Running<'a>(rusqlite::Transaction<'a>);

impl ReadTransaction for Running<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        value.clear();
        find(&self.0, key, value).map_err(TransactionError::from_display)
    }
}

impl WriteTransaction for Running<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        let put = self.0.prepare_cached(PUT);
        let put = put.and_then(|mut put| put.execute((key, value)));
        put.map(drop).map_err(TransactionError::from_display)
    }
}

impl Sqlite {
    /// Begins a transaction on this thread's connection.
    fn begin(&self, behavior: TransactionBehavior) -> Result<Running<'_>, StoreError> {
        let begun = rusqlite::Transaction::new_unchecked(self.connection()?, behavior);
        begun.map(Running).map_err(StoreError::from_display)
    }
}

impl TransactionalStore for Sqlite {
    fn write(&self, _keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        let _turn = self.writer.lock().expect("no writer panics");
        let mut running = self.begin(TransactionBehavior::Immediate)?;
        committed_at_once(run(&mut running))?;
        running.0.commit().map_err(StoreError::from_display)?;
        Ok(0)
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        let mut running = self.begin(TransactionBehavior::Deferred)?;
        committed_at_once(run(&mut running))?;
        running.0.commit().map_err(StoreError::from_display)
    }
}
