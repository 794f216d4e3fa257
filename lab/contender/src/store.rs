//! Durable engines: key-value stores that live in a directory.

use std::path::Path;

use crate::{Entry, Unavailable};

/// When an engine forces what it acknowledged to storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Before each acknowledgement.
    EveryCommit,
    /// In the background, at the engine's own pace.
    Periodic,
    /// Never, where the engine can be told so.
    Never,
}

/// How to open an engine.
#[derive(Debug, Clone, Copy)]
pub struct StoreSettings {
    /// Memory for cached data, in bytes.
    pub cache_bytes: u64,
    /// Memory for all that the process takes besides what it had, the system's page cache of the
    /// engine's files included, where that is limited. Larger than `cache_bytes`, and less than
    /// the data.
    pub process_bytes: Option<u64>,
    /// When writes reach storage.
    pub sync: Sync,
}

/// An engine's refusal, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl StoreError {
    /// Wraps any error of an engine.
    pub fn from_display(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A durable ordered map from byte keys to byte values. Dropping it closes it.
pub trait Store {
    /// Inserts or replaces, acknowledged as the settings say.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Looks up into `value`, which is cleared first; whether the key was there.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError>;

    /// Removes a key, present or not.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn remove(&self, key: &[u8]) -> Result<(), StoreError>;

    /// Visits up to `count` pairs in order from `from` on; how many there were.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError>;

    /// Writes all pairs as one atomic commit.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError>;

    /// Forces everything acknowledged so far to storage.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn sync(&self) -> Result<(), StoreError>;
}

/// Opens an engine in a directory, which it may create.
pub type OpenStore =
    fn(&Path, &StoreSettings) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError>;

/// An engine in the registry.
#[derive(Clone)]
pub struct StoreEntry {
    /// Who it is.
    pub entry: Entry,
    /// How to open one, or why it cannot be had here.
    pub open: Result<OpenStore, Unavailable>,
}
