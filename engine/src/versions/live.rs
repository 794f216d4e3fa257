//! A snapshot while it is open: its moment, the keyspaces that it sees, and whether it was ended.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hedgerow_log::Timestamp;

use crate::error::{Error, Result};
use crate::index::catalog::Catalog;
use crate::index::space::Space;

/// What somebody wants to open.
pub(crate) struct Opening<'a> {
    /// Of a user's choice.
    pub(crate) name: Option<&'a str>,
    pub(crate) is_transaction: bool,
    /// Tells the time in Unix milliseconds.
    pub(crate) now: &'a dyn Fn() -> u64,
}

/// What a snapshot sees, all of it taken while no commit could begin.
pub(crate) struct Cut {
    pub(crate) moment: Timestamp,
    pub(crate) catalog: Arc<Catalog>,
    /// In Unix milliseconds. Who saw a row expire later than that commits behind the moment.
    pub(crate) now_ms: u64,
}

/// Shared by the registry and those who read.
pub(crate) struct LiveSnapshot {
    /// Given by the user, or made of the number when somebody asks.
    name: OnceLock<String>,
    /// How many had been opened when it was.
    number: u64,
    /// It sees commits up to this one.
    pub(crate) moment: Timestamp,
    /// The time at which it judges what has expired, in Unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) opened: Instant,
    pub(crate) is_transaction: bool,
    pub(crate) catalog: Arc<Catalog>,
    /// One of the following.
    state: AtomicU8,
    /// The limit of memory for versions, for messages.
    limit_bytes: usize,
}

const OPEN: u8 = 0;
/// Its versions took too much memory.
const OUT_OF_MEMORY: u8 = 1;
/// The database was closed.
const CLOSED: u8 = 2;
/// A transaction that is validated: it reads no more, and is not ended before it has committed.
const INSTALLING: u8 = 3;

impl LiveSnapshot {
    /// The `number`th, which sees what a cut took.
    pub(super) fn new(
        opening: &Opening<'_>,
        number: u64,
        cut: Cut,
        limit_bytes: usize,
    ) -> LiveSnapshot {
        LiveSnapshot {
            name: opening
                .name
                .map_or_else(OnceLock::new, |name| name.to_owned().into()),
            number,
            moment: cut.moment,
            now_ms: cut.now_ms,
            opened: Instant::now(),
            is_transaction: opening.is_transaction,
            catalog: cut.catalog,
            state: AtomicU8::new(OPEN),
            limit_bytes,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.get_or_init(|| match self.is_transaction {
            true => format!("transaction-{}", self.number),
            false => format!("snapshot-{}", self.number),
        })
    }

    pub(crate) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Ends it, so that its versions can go: what was read before is right, and nothing more can
    /// be. Whether it is ended now: a transaction that is installing its writes is not.
    pub(super) fn end_for_memory(&self) -> bool {
        self.leave_open(OUT_OF_MEMORY)
    }

    /// As [`LiveSnapshot::end_for_memory`], because the database closes.
    pub(super) fn end_with_database(&self) -> bool {
        self.leave_open(CLOSED)
    }

    fn leave_open(&self, state: u8) -> bool {
        let from_open =
            self.state
                .compare_exchange(OPEN, state, Ordering::SeqCst, Ordering::SeqCst);
        from_open.is_ok()
    }

    /// Keeps a transaction from being ended from now on, as its writes are about to be installed.
    /// Until it is closed it counts as one of those that are open.
    ///
    /// # Errors
    /// As for [`LiveSnapshot::check`]: it was ended before.
    pub(crate) fn begin_install(&self) -> Result<()> {
        match self.leave_open(INSTALLING) {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// Whether versions are still kept for it. What was read before the answer was yes is right.
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`], [`Error::TransactionTooOld`], [`Error::Closed`].
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN | INSTALLING => Ok(()),
            state => Err(self.why_ended(state)),
        }
    }

    #[cold]
    fn why_ended(&self, state: u8) -> Error {
        let (name, age_s) = (self.name().to_owned(), self.age().as_secs());
        let limit_bytes = self.limit_bytes;
        match (state, self.is_transaction) {
            (CLOSED, _) => Error::Closed,
            (_, true) => Error::TransactionTooOld {
                name,
                age_s,
                limit_bytes,
            },
            (_, false) => Error::SnapshotEnded {
                name,
                age_s,
                limit_bytes,
            },
        }
    }

    /// The contents that a keyspace's handle meant at the moment.
    ///
    /// # Errors
    /// [`Error::KeyspaceMissing`]: there was none of this name.
    #[inline]
    pub(crate) fn space(&self, handle: &Arc<Space>) -> Result<&Arc<Space>> {
        match self.catalog.by_id.get(&handle.id) {
            Some(space) => Ok(space),
            None => self.space_named(&handle.name),
        }
    }

    pub(crate) fn space_named(&self, name: &str) -> Result<&Arc<Space>> {
        let found = self.catalog.by_name.get(name);
        found.ok_or_else(|| Error::KeyspaceMissing(name.to_owned()))
    }
}
