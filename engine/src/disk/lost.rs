//! What recovery could not replay, since a page of its tree cannot be read.
//!
//! A database with one damaged page opens, since its other rows can be read and written. But only
//! the logs have the latest changes of that page's rows. So checkpoints, which would remove the
//! logs, are refused until a recovery can replay them: with the page restored, or with its keyspace
//! dropped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow_index::{IndexError, IndexErrorKind};

use crate::error::{Error, Result};

/// Pages that the report names one by one.
const MOST_ERRORS: usize = 64;

/// What was lost, by any thread.
#[derive(Default)]
pub(crate) struct LostRecords(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    records: u64,
    errors: Vec<IndexError>,
}

impl LostRecords {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whole after each change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a record that could not be replayed for this reason.
    ///
    /// # Errors
    /// The reason itself, if the keys concerned are not known, or if it may pass.
    pub(crate) fn add(&self, error: IndexError) -> Result<()> {
        if error.kind() != IndexErrorKind::Damaged || error.keys().is_none() {
            return Err(error.into());
        }
        let mut lost = self.lock();
        lost.records += 1;
        let is_known = |known: &IndexError| known.keys() == error.keys();
        if lost.errors.len() < MOST_ERRORS && !lost.errors.iter().any(is_known) {
            lost.errors.push(error);
        }
        Ok(())
    }

    /// How many records could not be replayed.
    pub(crate) fn records(&self) -> u64 {
        self.lock().records
    }

    /// Why, once for each page, in words.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.lock().errors.iter().map(ToString::to_string).collect()
    }

    /// Refuses to end the logs while they have what is nowhere else.
    pub(crate) fn check_none(&self) -> Result<()> {
        let lost = self.lock();
        match lost.errors.first() {
            None => Ok(()),
            Some(first) => Err(Error::NotReplayed {
                records: lost.records,
                first: first.to_string(),
            }),
        }
    }
}
