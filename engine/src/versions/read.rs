//! Reading at a snapshot: the index first, then the version store.
//!
//! The order matters. A writer keeps the row that it replaces before it changes the index. So a
//! reader that finds a younger row in the index, or none, finds in the store what it missed; a
//! reader that asked the store first could miss the row in both.

use hedgerow_index::ValuePart;

use crate::error::Result;
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::row::Row;
use crate::versions::live::LiveSnapshot;

impl LiveSnapshot {
    /// Whether a row had not expired at the snapshot's time.
    #[inline]
    pub(super) fn is_live(&self, row: Row<'_>) -> bool {
        !row.is_expired(|| match planted(PlantedBug::SnapshotExpiresLate) {
            true => self.now_ms + self.age().as_millis() as u64,
            false => self.now_ms,
        })
    }

    /// What the store has of a key, for a reader that has asked the index.
    fn read_retained<R>(
        &self,
        space: &Space,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Option<R> {
        if space.versions.is_empty() {
            return None;
        }
        let found = space.versions.row_at(key, self.moment, |bytes| {
            let row = Row::new(bytes);
            self.is_live(row).then(|| read(row))
        });
        found.flatten()
    }

    /// Runs `read` on the row that `key` had; `None` if there was none.
    ///
    /// # Errors
    /// The index cannot be read, or the snapshot was [ended](LiveSnapshot::check).
    #[inline]
    pub(crate) fn read<R>(
        &self,
        space: &Space,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut pending = Some(read);
        let found = space.index.get(key, ValuePart::Whole, |bytes| {
            let row = Row::new(bytes);
            if row.timestamp() > self.moment {
                return None;
            }
            let read = pending.take().filter(|_| self.is_live(row));
            Some(read.map(|read| read(row)))
        })?;
        let answer = match (found.flatten(), pending) {
            (Some(answer), _) => answer,
            (None, Some(read)) => self.read_retained(space, key, read),
            (None, None) => None,
        };
        self.check().map(|()| answer)
    }

    /// Calls `read(i, row)` once for each `keys[i]`, in no particular order; the lookups in the
    /// index overlap.
    pub(crate) fn get_many(
        &self,
        space: &Space,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        let mut others = Vec::new();
        space.index.get_many(keys, |i, bytes| {
            let row = bytes.map(Row::new);
            match row.filter(|row| row.timestamp() <= self.moment) {
                Some(row) => read(i, Some(row).filter(|row| self.is_live(*row))),
                None => others.push(i),
            }
        })?;
        for i in others {
            let mut was_read = false;
            self.read_retained(space, keys[i], |row| {
                was_read = true;
                read(i, Some(row));
            });
            if !was_read {
                read(i, None);
            }
        }
        self.check()
    }
}
