//! Opening a database.

use std::path::Path;
use std::sync::Arc;

use hedgerow_vfs::MemoryVfs;

use crate::db::Db;
use crate::error::Result;
use crate::options::Builder;

impl Builder {
    /// Opens (or creates) the database in `dir`, recovering it if need be.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::NotADatabase`], [`Error::NewerFormat`], [`Error::Corrupt`],
    /// [`Error::HalfWritten`], [`Error::ReadOnlyDirectory`], [`Error::Missing`],
    /// [`Error::InvalidOption`], or a failing file system.
    ///
    /// [`Error::Locked`]: crate::Error::Locked
    /// [`Error::NotADatabase`]: crate::Error::NotADatabase
    /// [`Error::NewerFormat`]: crate::Error::NewerFormat
    /// [`Error::Corrupt`]: crate::Error::Corrupt
    /// [`Error::HalfWritten`]: crate::Error::HalfWritten
    /// [`Error::ReadOnlyDirectory`]: crate::Error::ReadOnlyDirectory
    /// [`Error::Missing`]: crate::Error::Missing
    /// [`Error::InvalidOption`]: crate::Error::InvalidOption
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        self.validate()?;
        Db::open_with(self, dir.as_ref())
    }

    /// Opens a new database that lives in memory alone, like a cache: nothing is logged, every
    /// [`Durability`](crate::Durability) promises as little as the next, [`Db::checkpoint`] and [`Db::backup`] fail,
    /// and when it is closed everything is gone. Everything else works as with files.
    ///
    /// ```
    /// let db = hedgerow::Db::builder().open_in_memory()?;
    /// let cache = db.keyspace("cache")?;
    /// cache.put(b"key", b"value")?;
    /// assert_eq!(cache.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn open_in_memory(self) -> Result<Db> {
        let options = Builder {
            vfs: Arc::new(MemoryVfs::default()),
            checkpoint_log_bytes: None,
            read_only: false,
            create: true,
            in_memory: true,
            ..self
        };
        options.validate()?;
        // Only its catalog is a file, in the file system made above.
        Db::open_with(options, Path::new("/in-memory"))
    }
}
