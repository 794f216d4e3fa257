//! Transactional stores: engines that take several reads and writes as one.

use std::path::Path;

use crate::{Entry, StoreError, StoreSettings, Unavailable};

/// Why a transaction did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Somebody else was in its way: it may be run again.
    #[error("a conflict with another transaction")]
    Conflict,
    /// The engine's own.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl TransactionError {
    /// Wraps any error of an engine that is no conflict.
    pub fn from_display(error: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::from_display(error))
    }
}

/// What a running transaction reads with.
pub trait ReadTransaction {
    /// Looks up into `value`, which is cleared first; whether the key was there.
    ///
    /// # Errors
    ///
    /// A conflict, or the engine's own.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError>;
}

/// What a running transaction reads and writes with.
pub trait WriteTransaction: ReadTransaction {
    /// Inserts or replaces, once it commits.
    ///
    /// # Errors
    ///
    /// A conflict, or the engine's own.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError>;
}

/// What is done inside a transaction that writes; it may run several times.
pub type RunWrites<'a> = dyn FnMut(&mut dyn WriteTransaction) -> Result<(), TransactionError> + 'a;

/// What is done inside a transaction that only reads.
pub type RunReads<'a> = dyn FnMut(&mut dyn ReadTransaction) -> Result<(), TransactionError> + 'a;

/// A durable ordered map whose users read and write in transactions. Dropping it closes it.
pub trait TransactionalStore {
    /// Runs a transaction and commits it, anew after each conflict; how many conflicts there were.
    /// It touches these keys and no others, which only those engines look at that must know them
    /// beforehand.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn write(&self, keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError>;

    /// Runs a transaction that reads at one moment.
    ///
    /// # Errors
    ///
    /// The engine's own.
    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError>;
}

/// A transactional store that threads share.
pub type SharedTransactionalStore = Box<dyn TransactionalStore + Send + Sync>;

/// Opens one in a directory, which it may create.
pub type OpenTransactional =
    fn(&Path, &StoreSettings) -> Result<SharedTransactionalStore, StoreError>;

/// A transactional store in the registry.
#[derive(Clone)]
pub struct TransactionalEntry {
    /// Who it is.
    pub entry: Entry,
    /// How to open one, or why it cannot be had here.
    pub open: Result<OpenTransactional, Unavailable>,
}

/// Makes attempts until one is in nobody's way; how many were in somebody's. The next attempt
/// follows at once, from the third on after other threads had their turn.
///
/// # Errors
///
/// That of an attempt which is no conflict.
pub fn until_committed(
    mut attempt: impl FnMut() -> Result<(), TransactionError>,
) -> Result<u64, StoreError> {
    let mut conflicts = 0;
    loop {
        match attempt() {
            Ok(()) => return Ok(conflicts),
            Err(TransactionError::Store(error)) => return Err(error),
            Err(TransactionError::Conflict) => conflicts += 1,
        }
        if conflicts > 2 {
            std::thread::yield_now();
        }
    }
}

/// What a transaction without conflicts says, as a count of them.
///
/// # Errors
///
/// As the attempt.
pub fn committed_at_once(outcome: Result<(), TransactionError>) -> Result<u64, StoreError> {
    match outcome {
        Ok(()) => Ok(0),
        Err(TransactionError::Store(error)) => Err(error),
        Err(conflict) => Err(StoreError::from_display(conflict)),
    }
}
