//! RocksDB's transactions, of both kinds: validated when they commit (`OptimisticTransactionDB`),
//! and those that lock each key as they read it for update (`TransactionDB`).
//!
//! Both are serializable for points: each read of a transaction that writes is one for update. A
//! transaction that ended is begun again in place of a new one, as its documentation advises.

use std::ffi::{c_char, c_uchar};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use hedgerow_lab_contender::{
    ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, StoreError, StoreSettings,
    Sync, TransactionError, TransactionalStore, WriteTransaction, committed_at_once,
    until_committed,
};

use super::rocksdb::{
    Failure, Handle, checked, copy_pinned, options, path_of, rocksdb_flush_wal, rocksdb_get_pinned,
    rocksdb_options_destroy, rocksdb_readoptions_create, rocksdb_readoptions_destroy,
    rocksdb_writeoptions_destroy, writes_as,
};
use super::ticker::Ticker;

// Signatures as in rocksdb/c.h; every pointer type is opaque to us.
unsafe extern "C" {
    fn rocksdb_transactiondb_options_create() -> Handle;
    fn rocksdb_transactiondb_options_destroy(options: Handle);
    fn rocksdb_transactiondb_open(
        options: Handle,
        transactions: Handle,
        path: *const c_char,
        error: Failure,
    ) -> Handle;
    fn rocksdb_transactiondb_close(db: Handle);
    fn rocksdb_transactiondb_flush_wal(db: Handle, sync: c_uchar, error: Failure);
    fn rocksdb_transactiondb_create_snapshot(db: Handle) -> Handle;
    fn rocksdb_transactiondb_release_snapshot(db: Handle, snapshot: Handle);
    fn rocksdb_transactiondb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        error: Failure,
    ) -> Handle;
    fn rocksdb_transaction_options_create() -> Handle;
    fn rocksdb_transaction_options_destroy(options: Handle);
    fn rocksdb_transaction_begin(db: Handle, writes: Handle, how: Handle, old: Handle) -> Handle;
    fn rocksdb_optimistictransactiondb_open(
        options: Handle,
        path: *const c_char,
        error: Failure,
    ) -> Handle;
    fn rocksdb_optimistictransactiondb_close(db: Handle);
    fn rocksdb_optimistictransactiondb_get_base_db(db: Handle) -> Handle;
    fn rocksdb_optimistictransactiondb_close_base_db(base: Handle);
    fn rocksdb_optimistictransaction_options_create() -> Handle;
    fn rocksdb_optimistictransaction_options_destroy(options: Handle);
    fn rocksdb_optimistictransaction_begin(
        db: Handle,
        writes: Handle,
        how: Handle,
        old: Handle,
    ) -> Handle;
    fn rocksdb_create_snapshot(db: Handle) -> Handle;
    fn rocksdb_release_snapshot(db: Handle, snapshot: Handle);
    fn rocksdb_readoptions_set_snapshot(options: Handle, snapshot: Handle);
    fn rocksdb_transaction_get_pinned_for_update(
        transaction: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        exclusive: c_uchar,
        error: Failure,
    ) -> Handle;
    fn rocksdb_transaction_put(
        transaction: Handle,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: Failure,
    );
    fn rocksdb_transaction_commit(transaction: Handle, error: Failure);
    fn rocksdb_transaction_rollback(transaction: Handle, error: Failure);
    fn rocksdb_transaction_destroy(transaction: Handle);
}

/// Which of the two kinds, and what it takes.
#[derive(Clone, Copy)]
enum Kind {
    /// With the database below, for snapshots.
    Optimistic(Handle),
    Locking,
}

/// An open database.
struct Database {
    db: Handle,
    kind: Kind,
    reads: Handle,
    writes: Handle,
    /// Options of transactions.
    how: Handle,
    /// Transactions that ended, to be begun again.
    ended: Mutex<Vec<Handle>>,
}

// SAFETY: RocksDB's calls on one database are safe from any number of threads, the options are
// only read after `open`, and a transaction that ended belongs to whoever takes it from the list.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        let ended = self.ended.get_mut().map(std::mem::take).unwrap_or_default();
        // SAFETY: nobody uses these any more, and each is freed by what made it.
        unsafe {
            for transaction in ended {
                rocksdb_transaction_destroy(transaction);
            }
            rocksdb_writeoptions_destroy(self.writes);
            rocksdb_readoptions_destroy(self.reads);
            match self.kind {
                Kind::Optimistic(base) => {
                    rocksdb_optimistictransaction_options_destroy(self.how);
                    rocksdb_optimistictransactiondb_close_base_db(base);
                    rocksdb_optimistictransactiondb_close(self.db);
                }
                Kind::Locking => {
                    rocksdb_transaction_options_destroy(self.how);
                    rocksdb_transactiondb_close(self.db);
                }
            }
        }
    }
}

impl Database {
    fn optimistic(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let (path, options) = (path_of(directory)?, options(settings));
        // SAFETY: each object is made before it is used and freed after.
        unsafe {
            let db = checked(|error| {
                rocksdb_optimistictransactiondb_open(options, path.as_ptr(), error)
            });
            rocksdb_options_destroy(options);
            let db = db?;
            let base = rocksdb_optimistictransactiondb_get_base_db(db);
            let how = rocksdb_optimistictransaction_options_create();
            Ok(Self::new(db, Kind::Optimistic(base), how, settings))
        }
    }

    fn locking(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let (path, options) = (path_of(directory)?, options(settings));
        // SAFETY: each object is made before it is used and freed after.
        unsafe {
            let transactions = rocksdb_transactiondb_options_create();
            let db = checked(|error| {
                rocksdb_transactiondb_open(options, transactions, path.as_ptr(), error)
            });
            rocksdb_transactiondb_options_destroy(transactions);
            rocksdb_options_destroy(options);
            let how = rocksdb_transaction_options_create();
            Ok(Self::new(db?, Kind::Locking, how, settings))
        }
    }

    fn new(db: Handle, kind: Kind, how: Handle, settings: &StoreSettings) -> Self {
        Self {
            db,
            kind,
            // SAFETY: it makes an object, which is freed in `drop`.
            reads: unsafe { rocksdb_readoptions_create() },
            writes: writes_as(settings),
            how,
            ended: Mutex::default(),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        // SAFETY: the database is open.
        checked(|error| unsafe {
            match self.kind {
                Kind::Optimistic(base) => rocksdb_flush_wal(base, 1, error),
                Kind::Locking => rocksdb_transactiondb_flush_wal(self.db, 1, error),
            }
        })
    }

    /// Begins a transaction, in place of one that ended if there is one.
    fn begin(&self) -> Handle {
        let ended = self.ended.lock().expect("nothing panics with it").pop();
        let ended = ended.unwrap_or(null_mut());
        // SAFETY: the database is open, and the transaction in our hands alone.
        unsafe {
            match self.kind {
                Kind::Optimistic(_) => {
                    rocksdb_optimistictransaction_begin(self.db, self.writes, self.how, ended)
                }
                Kind::Locking => rocksdb_transaction_begin(self.db, self.writes, self.how, ended),
            }
        }
    }

    fn attempt(&self, run: &mut RunWrites<'_>) -> Result<(), TransactionError> {
        let transaction = self.begin();
        let done = run(&mut Writing(self, transaction)).and_then(|()| {
            // SAFETY: the transaction is running, and ours.
            let committed =
                checked(|error| unsafe { rocksdb_transaction_commit(transaction, error) });
            committed.map_err(refused)
        });
        if done.is_err() {
            // SAFETY: as above. What it says of a transaction that failed is worth nothing.
            let _ = checked(|error| unsafe { rocksdb_transaction_rollback(transaction, error) });
        }
        let mut ended = self.ended.lock().expect("nothing panics with it");
        ended.push(transaction);
        done
    }
}

/// Tells a conflict from other errors: by how they begin, as the C interface has only texts.
fn refused(error: StoreError) -> TransactionError {
    let conflicts = [
        "Resource busy",
        "Operation timed out",
        "Operation aborted",
        "Operation failed. Try again.",
    ];
    match conflicts.iter().any(|text| error.0.starts_with(text)) {
        true => TransactionError::Conflict,
        false => TransactionError::Store(error),
    }
}

/// A running transaction.
struct Writing<'a>(&'a Database, Handle);

impl ReadTransaction for Writing<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        let (reads, bytes) = (self.0.reads, key.len());
        // SAFETY: the transaction is running; the key is read during the call only.
        let found = checked(|error| unsafe {
            let key = key.as_ptr();
            rocksdb_transaction_get_pinned_for_update(self.1, reads, key, bytes, 1, error)
        });
        let found = found.map_err(refused)?;
        // SAFETY: it is ours alone.
        Ok(unsafe { copy_pinned(found, value) })
    }
}

impl WriteTransaction for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        let (bytes, len) = (value.as_ptr(), value.len());
        // SAFETY: the transaction is running; key and value are read during the call only.
        let put = checked(|error| unsafe {
            rocksdb_transaction_put(self.1, key.as_ptr(), key.len(), bytes, len, error);
        });
        put.map_err(refused)
    }
}

/// A snapshot with the options that read at it.
struct Reading<'a> {
    database: &'a Database,
    reads: Handle,
    snapshot: Handle,
}

impl<'a> Reading<'a> {
    fn new(database: &'a Database) -> Self {
        // SAFETY: the database is open; what is made here is freed in `drop`.
        unsafe {
            let snapshot = match database.kind {
                Kind::Optimistic(base) => rocksdb_create_snapshot(base),
                Kind::Locking => rocksdb_transactiondb_create_snapshot(database.db),
            };
            let reads = rocksdb_readoptions_create();
            rocksdb_readoptions_set_snapshot(reads, snapshot);
            Self {
                database,
                reads,
                snapshot,
            }
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody uses these any more, and each is freed once.
        unsafe {
            rocksdb_readoptions_destroy(self.reads);
            match self.database.kind {
                Kind::Optimistic(base) => rocksdb_release_snapshot(base, self.snapshot),
                Kind::Locking => {
                    rocksdb_transactiondb_release_snapshot(self.database.db, self.snapshot);
                }
            }
        }
    }
}

impl ReadTransaction for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        let Database { db, kind, .. } = *self.database;
        let (reads, at, bytes) = (self.reads, key.as_ptr(), key.len());
        // SAFETY: the database is open; the key is read during the call only.
        let found = checked(|error| unsafe {
            match kind {
                Kind::Optimistic(base) => rocksdb_get_pinned(base, reads, at, bytes, error),
                Kind::Locking => rocksdb_transactiondb_get_pinned(db, reads, at, bytes, error),
            }
        })?;
        // SAFETY: it is ours alone.
        Ok(unsafe { copy_pinned(found, value) })
    }
}

/// The contender.
struct RocksDbTransactions {
    // Dropped first: it holds the database too.
    _ticker: Option<Ticker>,
    database: Arc<Database>,
}

fn with_ticker(database: Database, settings: &StoreSettings) -> SharedTransactionalStore {
    let database = Arc::new(database);
    let ticker = (settings.sync == Sync::Periodic).then(|| {
        let database = Arc::clone(&database);
        Ticker::start(move || database.sync())
    });
    Box::new(RocksDbTransactions {
        _ticker: ticker,
        database,
    })
}

/// Opens one whose transactions are validated when they commit.
pub(super) fn open_optimistic(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<SharedTransactionalStore, StoreError> {
    Ok(with_ticker(
        Database::optimistic(directory, settings)?,
        settings,
    ))
}

/// Opens one whose transactions lock.
pub(super) fn open_locking(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<SharedTransactionalStore, StoreError> {
    Ok(with_ticker(
        Database::locking(directory, settings)?,
        settings,
    ))
}

impl TransactionalStore for RocksDbTransactions {
    fn write(&self, _keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        until_committed(|| self.database.attempt(run))
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        committed_at_once(run(&mut Reading::new(&self.database))).map(drop)
    }
}
