//! Opening and closing snapshots of a database, and the memory that they take.

use std::sync::Arc;

use hedgerow_memory::reserved_bytes;

use crate::commit::worker;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::versions::live::{LiveSnapshot, Opening};

/// An open snapshot: closed when the last user drops it.
pub(crate) struct OpenSnapshot {
    pub(crate) engine: Arc<Engine>,
    pub(crate) live: Arc<LiveSnapshot>,
}

impl OpenSnapshot {
    /// Opens one.
    ///
    /// # Errors
    /// [`Error::Nested`], [`Error::Closed`].
    pub(crate) fn open(
        engine: &Arc<Engine>,
        name: Option<&str>,
        is_transaction: bool,
    ) -> Result<OpenSnapshot> {
        Ok(OpenSnapshot {
            engine: Arc::clone(engine),
            live: engine.open_snapshot(name, is_transaction)?,
        })
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.engine.snapshots.close(&self.live);
        self.engine.give_back_retired();
    }
}

impl Engine {
    fn open_snapshot(&self, name: Option<&str>, is_transaction: bool) -> Result<Arc<LiveSnapshot>> {
        // It waits for removals, which wait for batches of reads and for stripes.
        if worker::must_not_wait() {
            return Err(Error::Nested);
        }
        let _no_removals = self.removals.exclude();
        // Under that, so that a snapshot is opened before the end of all, or not at all.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let opening = Opening {
            name,
            is_transaction,
            now: &|| self.now_ms(),
        };
        let log = self.log.as_deref();
        Ok(self
            .snapshots
            .open(log, &opening, || Arc::clone(&self.catalog())))
    }

    /// Gives back what retired keyspaces have that nobody needs any more.
    pub(crate) fn give_back_retired(&self) {
        self.snapshots
            .give_back_retired(|space| self.give_back(space));
    }

    /// Gives back what only ended snapshots could see, where no writer comes to do it.
    pub(crate) fn give_back_ended(&self) {
        self.snapshots.lists.free_garbage(usize::MAX);
        self.give_back_retired();
    }

    /// Ends all snapshots, as the database closes.
    pub(crate) fn end_snapshots(&self) {
        let _no_removals = self.removals.exclude();
        self.snapshots.end_all();
        self.give_back_retired();
    }

    /// Before a write: sees to it that versions stay within their limit, and that pages leave them
    /// the memory. One load while no snapshot is open. The caller holds no log shard.
    #[inline]
    pub(crate) fn make_room_for_versions(&self) {
        if self.snapshots.lists.is_wanted() {
            self.make_room();
        }
    }

    #[cold]
    fn make_room(&self) {
        // Retired keyspaces are given back by those who close what saw them; where one was ended,
        // here.
        if self.snapshots.keep_limit() {
            self.give_back_retired();
        }
        if let (Some(limit_bytes), Some(pages)) = (self.options.memory_limit, self.pages())
            && reserved_bytes() > self.memory.taken(true)
        {
            self.memory.grow(limit_bytes, pages);
        }
    }
}

impl Engine {
    /// Gives back the memory of versions, and of keyspaces that are gone, which nobody can see any
    /// more.
    pub(crate) fn release_unseen(&self) -> Result<()> {
        self.snapshots.lists.free_all_garbage();
        self.give_back_retired();
        Ok(self.retired.release(|| self.is_closed())?)
    }
}
