//! The database that the transactions run in.

use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Db, IndexKind};

use super::super::size::Size;
use super::spaces::Spaces;
use crate::error::Result;

/// A TPC-C database in Hedgerow's engine.
pub struct EngineDatabase {
    pub(super) db: Db,
    pub(super) spaces: Spaces,
    pub(super) size: Size,
    /// The key of the next row of HISTORY, which has none of its own.
    next_payment: AtomicU64,
}

impl EngineDatabase {
    /// Loads the first rows into keyspaces with such an index.
    ///
    /// # Errors
    ///
    /// A size without meaning; those of the engine.
    pub fn load(db: Db, index: IndexKind, size: Size, seed: u64) -> Result<Self> {
        size.check()?;
        let spaces = Spaces::create(&db, index)?;
        let payments = spaces.load(&db, &size, seed)?;
        Ok(Self {
            db,
            spaces,
            size,
            next_payment: AtomicU64::new(payments),
        })
    }

    /// One that was loaded before.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub fn open(db: Db, size: Size) -> Result<Self> {
        let spaces = Spaces::open(&db)?;
        let next_payment = AtomicU64::new(spaces.next_payment()?);
        Ok(Self {
            db,
            spaces,
            size,
            next_payment,
        })
    }

    /// The engine's database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// A key for the next row of HISTORY.
    pub(super) fn next_payment(&self) -> u64 {
        self.next_payment.fetch_add(1, Ordering::Relaxed)
    }
}

/// How a try of a predicted transaction ended.
pub(super) enum Try<T> {
    Done(T),
    /// It was predicted wrongly, and did nothing.
    Again,
}
