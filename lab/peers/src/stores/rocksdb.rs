//! RocksDB through its C interface, as Debian packages it: a log-structured merge tree.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};

use super::recent_writes::recent_writes_bytes;
use super::ticker::{self, Ticker};

/// An object of RocksDB.
pub(super) type Handle = *mut c_void;
/// Where a call puts its error: a string to be freed.
pub(super) type Failure = *mut *mut c_char;

// Signatures as in rocksdb/c.h; every pointer type is opaque to us.
unsafe extern "C" {
    fn peer_rocksdb_version() -> *const c_char;
    fn rocksdb_free(text: *mut c_void);
    fn rocksdb_options_create() -> Handle;
    pub(super) fn rocksdb_options_destroy(options: Handle);
    fn rocksdb_options_set_create_if_missing(options: Handle, yes: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_increase_parallelism(options: Handle, threads: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_destroy(table: Handle);
    fn rocksdb_block_based_options_set_block_cache(table: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> Handle;
    fn rocksdb_cache_create_lru(bytes: usize) -> Handle;
    fn rocksdb_cache_destroy(cache: Handle);
    fn rocksdb_open(options: Handle, path: *const c_char, error: Failure) -> Handle;
    pub(super) fn rocksdb_close(db: Handle);
    pub(super) fn rocksdb_flush_wal(db: Handle, sync: c_uchar, error: Failure);
    pub(super) fn rocksdb_writeoptions_create() -> Handle;
    pub(super) fn rocksdb_writeoptions_destroy(options: Handle);
    pub(super) fn rocksdb_writeoptions_set_sync(options: Handle, yes: c_uchar);
    pub(super) fn rocksdb_readoptions_create() -> Handle;
    pub(super) fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_put(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: Failure,
    );
    fn rocksdb_delete(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        error: Failure,
    );
    pub(super) fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        error: Failure,
    ) -> Handle;
    pub(super) fn rocksdb_pinnableslice_value(slice: Handle, bytes: *mut usize) -> *const u8;
    pub(super) fn rocksdb_pinnableslice_destroy(slice: Handle);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_writebatch_put(
        batch: Handle,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    );
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: Failure);
    fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_iter_seek(iterator: Handle, key: *const u8, key_bytes: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_value(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_get_error(iterator: Handle, error: Failure);
}

/// The version linked.
pub(super) fn version() -> String {
    crate::native::table::text(peer_rocksdb_version)
}

/// An open database with its options of reads and writes.
struct Database {
    db: Handle,
    reads: Handle,
    writes: Handle,
}

// SAFETY: RocksDB's calls on one database are safe from any number of threads, and the two kinds
// of options are only read after `open`.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: nobody uses these any more, and each is freed by what made it.
        unsafe {
            rocksdb_writeoptions_destroy(self.writes);
            rocksdb_readoptions_destroy(self.reads);
            rocksdb_close(self.db);
        }
    }
}

/// Makes a call that may leave an error.
pub(super) fn checked<T>(call: impl FnOnce(Failure) -> T) -> Result<T, StoreError> {
    let mut error = null_mut();
    let answer = call(&raw mut error);
    if error.is_null() {
        return Ok(answer);
    }
    // SAFETY: RocksDB left a string of its own that ends in a zero byte.
    let text = unsafe { CStr::from_ptr(error) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: it is ours to free, once.
    unsafe { rocksdb_free(error.cast()) };
    Err(StoreError(text))
}

/// Shows bytes of RocksDB's, while they stay put.
///
/// # Safety
///
/// `at` is valid for `bytes` bytes as long as the result is used.
pub(super) unsafe fn slice<'a>(at: *const u8, bytes: usize) -> &'a [u8] {
    match bytes {
        0 => &[],
        // SAFETY: the caller's.
        _ => unsafe { std::slice::from_raw_parts(at, bytes) },
    }
}

/// A folder's path as RocksDB takes it.
pub(super) fn path_of(directory: &Path) -> Result<CString, StoreError> {
    let path = directory.as_os_str().as_encoded_bytes();
    CString::new(path).map_err(StoreError::from_display)
}

/// The options of a database, for the caller to destroy.
pub(super) fn options(settings: &StoreSettings) -> Handle {
    let cache = usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX);
    let recent = recent_writes_bytes(settings) as usize;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    // SAFETY: each object is made before it is used and freed after; the options keep the table's
    // and the cache alive themselves, and own the filter policy.
    unsafe {
        let table = rocksdb_block_based_options_create();
        let cache = rocksdb_cache_create_lru(cache);
        rocksdb_block_based_options_set_block_cache(table, cache);
        let bloom = rocksdb_filterpolicy_create_bloom_full(10.0);
        rocksdb_block_based_options_set_filter_policy(table, bloom);
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_increase_parallelism(options, threads as c_int);
        rocksdb_options_set_write_buffer_size(options, recent);
        rocksdb_options_set_block_based_table_factory(options, table);
        rocksdb_block_based_options_destroy(table);
        rocksdb_cache_destroy(cache);
        options
    }
}

/// The options of writes, for the caller to destroy.
pub(super) fn writes_as(settings: &StoreSettings) -> Handle {
    // SAFETY: the options are made before they are used.
    unsafe {
        let writes = rocksdb_writeoptions_create();
        let sync = settings.sync == Sync::EveryCommit;
        rocksdb_writeoptions_set_sync(writes, c_uchar::from(sync));
        writes
    }
}

/// Copies what a lookup pinned, and lets go of it; whether there was anything.
///
/// # Safety
///
/// `found` is null, or a slice of RocksDB's that nobody else uses.
pub(super) unsafe fn copy_pinned(found: Handle, value: &mut Vec<u8>) -> bool {
    value.clear();
    if found.is_null() {
        return false;
    }
    let mut bytes = 0;
    // SAFETY: the slice is pinned until it is destroyed, once, here.
    unsafe {
        let at = rocksdb_pinnableslice_value(found, &raw mut bytes);
        value.extend_from_slice(slice(at, bytes));
        rocksdb_pinnableslice_destroy(found);
    }
    true
}

impl Database {
    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let path = path_of(directory)?;
        // SAFETY: each object is made before it is used and freed after.
        unsafe {
            let options = options(settings);
            let db = checked(|error| rocksdb_open(options, path.as_ptr(), error));
            rocksdb_options_destroy(options);
            Ok(Self {
                db: db?,
                reads: rocksdb_readoptions_create(),
                writes: writes_as(settings),
            })
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        // SAFETY: the database is open.
        checked(|error| unsafe { rocksdb_flush_wal(self.db, 1, error) })
    }
}

/// The contender.
struct RocksDb {
    // Dropped first: it holds the database too.
    ticker: Option<Ticker>,
    database: Arc<Database>,
}

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    let database = Arc::new(Database::open(directory, settings)?);
    let ticker = (settings.sync == Sync::Periodic).then(|| {
        let database = Arc::clone(&database);
        Ticker::start(move || database.sync())
    });
    Ok(Box::new(RocksDb { ticker, database }))
}

impl Store for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let Database { db, writes, .. } = *self.database;
        let (bytes, len) = (value.as_ptr(), value.len());
        // SAFETY: the database is open; key and value are read during the call only.
        checked(|error| unsafe {
            rocksdb_put(db, writes, key.as_ptr(), key.len(), bytes, len, error);
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let Database { db, reads, .. } = *self.database;
        // SAFETY: the database is open; the key is read during the call only.
        let found = checked(|error| unsafe {
            rocksdb_get_pinned(db, reads, key.as_ptr(), key.len(), error)
        })?;
        // SAFETY: it is ours alone.
        Ok(unsafe { copy_pinned(found, value) })
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        let Database { db, writes, .. } = *self.database;
        // SAFETY: the database is open; the key is read during the call only.
        checked(|error| unsafe { rocksdb_delete(db, writes, key.as_ptr(), key.len(), error) })
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let Database { db, reads, .. } = *self.database;
        let mut visited = 0;
        // SAFETY: the iterator is used between its making and its end; what it shows stays put
        // until it moves.
        let walked = unsafe {
            let iterator = rocksdb_create_iterator(db, reads);
            rocksdb_iter_seek(iterator, from.as_ptr(), from.len());
            while visited < count && rocksdb_iter_valid(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = rocksdb_iter_key(iterator, &raw mut key_bytes);
                let value = rocksdb_iter_value(iterator, &raw mut value_bytes);
                visit(slice(key, key_bytes), slice(value, value_bytes));
                visited += 1;
                rocksdb_iter_next(iterator);
            }
            let walked = checked(|error| rocksdb_iter_get_error(iterator, error));
            rocksdb_iter_destroy(iterator);
            walked
        };
        walked.map(|()| visited)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let Database { db, writes, .. } = *self.database;
        // SAFETY: the database is open; the batch copies the pairs and is freed once.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for (key, value) in pairs {
                let (bytes, len) = (value.as_ptr(), value.len());
                rocksdb_writebatch_put(batch, key.as_ptr(), key.len(), bytes, len);
            }
            let written = checked(|error| rocksdb_write(db, writes, batch, error));
            rocksdb_writebatch_destroy(batch);
            written
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        ticker::check(self.ticker.as_ref())?;
        self.database.sync()
    }
}
