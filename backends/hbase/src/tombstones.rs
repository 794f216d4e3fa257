//! Tombstones that wait for their time to be over. A process remembers those that it left, and
//! takes each away after an hour, if nobody wrote the row since. One that nobody remembers, as its
//! process ended, stays until its row is written again: it costs room, and nothing else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hedgerow::Timestamp;

use crate::table_name::TableName;

/// How many are remembered: beyond that the oldest stay.
const MOST: usize = 200_000;
/// How many are taken away in one step.
const STEP: usize = 64;

/// A tombstone.
pub(crate) struct Tombstone {
    pub(crate) table: Arc<TableName>,
    pub(crate) key: Vec<u8>,
    pub(crate) header: Vec<u8>,
    pub(crate) version: Timestamp,
    due: Instant,
}

/// Tombstones in the order in which their times end.
pub(crate) struct Tombstones {
    kept_for: Duration,
    waiting: Mutex<VecDeque<Tombstone>>,
}

impl Tombstones {
    pub(crate) fn new(kept_for: Duration) -> Tombstones {
        Tombstones {
            kept_for,
            waiting: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Tombstone>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Remembers one that was left just now.
    pub(crate) fn add(
        &self,
        table: &Arc<TableName>,
        key: &[u8],
        header: Vec<u8>,
        version: Timestamp,
    ) {
        let mut waiting = self.lock();
        if waiting.len() == MOST {
            waiting.pop_front();
        }
        waiting.push_back(Tombstone {
            table: Arc::clone(table),
            key: key.to_vec(),
            header,
            version,
            due: Instant::now() + self.kept_for,
        });
    }

    /// Some of those whose time is over.
    pub(crate) fn take_due(&self) -> Vec<Tombstone> {
        let mut waiting = self.lock();
        let now = Instant::now();
        let due = waiting
            .iter()
            .take(STEP)
            .take_while(|tombstone| tombstone.due <= now);
        let due = due.count();
        waiting.drain(..due).collect()
    }
}
