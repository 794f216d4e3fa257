//! A transaction of one row: HBase's atomicity ends there.

use std::ops::ControlFlow;
use std::time::Instant;

use hedgerow::backend::{
    BackendKeyspace, Capability, ChangeRows, LockingTransaction, OwnedRow, ReadRows, RowAttributes,
};
use hedgerow::{
    Action, Direction, Error, KeyRange, Result, Row, RowBuilder, Timestamp, WriteOptions,
};

use crate::capabilities;
use crate::keyspace::{Found, HbaseKeyspace, Replaced, Watched};

/// What a transaction has made of its row.
#[derive(Clone)]
enum Staged {
    /// It is as it was found.
    Nothing,
    Row(OwnedRow),
    Removed,
}

/// The row of a transaction.
struct OneRow<'a> {
    keyspace: &'a HbaseKeyspace,
    key: &'a [u8],
    found: Found,
}

/// A transaction of one row, or of none.
pub struct RowTransaction<'a> {
    row: Option<OneRow<'a>>,
    staged: Staged,
    is_rolled_back: bool,
    deadline: Instant,
}

fn several_rows() -> Error {
    capabilities::refusal(Capability::SeveralRows)
}

impl<'a> RowTransaction<'a> {
    /// Reads the row that it is about. All of the transaction has one deadline.
    pub(crate) fn begin(
        keys: &[(&'a HbaseKeyspace, &'a [u8])],
        deadline: Instant,
    ) -> Result<RowTransaction<'a>> {
        let row = match keys.split_first() {
            None => None,
            Some((&(keyspace, key), others)) => {
                let is_same = |(other, named): &(&HbaseKeyspace, &[u8])| {
                    *named == key && other.name() == keyspace.name()
                };
                if !others.iter().all(is_same) {
                    return Err(several_rows());
                }
                keyspace.check_key(key)?;
                let found = keyspace.find_until(key, deadline)?;
                Some(OneRow {
                    keyspace,
                    key,
                    found,
                })
            }
        };
        Ok(RowTransaction {
            row,
            staged: Staged::Nothing,
            is_rolled_back: false,
            deadline,
        })
    }

    /// Writes what was staged, if the row is still what was found. `None` if there is nothing to
    /// write.
    pub(crate) fn end(self, options: &WriteOptions) -> Result<Option<Replaced>> {
        let deadline = self.deadline;
        let (Some(row), false) = (self.row, self.is_rolled_back) else {
            return Ok(None);
        };
        let OneRow {
            keyspace,
            key,
            found,
        } = row;
        match self.staged {
            Staged::Nothing => Ok(None),
            Staged::Removed => match &found.stored {
                Some(stored) if found.live().is_some() => {
                    let removed = keyspace.remove(key, stored, options, deadline);
                    removed.map(Some)
                }
                _ => Ok(None),
            },
            Staged::Row(row) => {
                let new = RowBuilder::over(Some(row.row()));
                let replaced = keyspace.replace(key, &found, &new, options, deadline);
                replaced.map(Some)
            }
        }
    }

    fn its_row(&self, keyspace: &HbaseKeyspace, key: &[u8]) -> Result<&OneRow<'a>> {
        let row = self.row.as_ref();
        let is_it = |row: &&OneRow<'_>| row.key == key && row.keyspace.name() == keyspace.name();
        row.filter(is_it).ok_or_else(several_rows)
    }

    fn staged<'s>(staged: &'s Staged, row: &'s OneRow<'_>) -> Option<Row<'s>> {
        match staged {
            Staged::Nothing => row.found.live(),
            Staged::Row(row) => Some(row.row()),
            Staged::Removed => None,
        }
    }
}

impl ReadRows<HbaseKeyspace> for RowTransaction<'_> {
    fn read<R>(
        &self,
        keyspace: &HbaseKeyspace,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        let row = self.its_row(keyspace, key)?;
        Ok(RowTransaction::staged(&self.staged, row).map(read))
    }

    fn scan(
        &self,
        _: &HbaseKeyspace,
        _: impl KeyRange,
        _: Direction,
        _: usize,
        _: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        Err(several_rows())
    }
}

impl ChangeRows<HbaseKeyspace> for RowTransaction<'_> {
    fn put_with(
        &mut self,
        keyspace: &HbaseKeyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.its_row(keyspace, key)?;
        let attributes = RowAttributes {
            expiry_ms: options.expiry_ms,
            user_flags: options.user_flags,
            ..RowAttributes::default()
        };
        self.staged = Staged::Row(OwnedRow::plain(Timestamp::ZERO, &attributes, value));
        Ok(())
    }

    fn update<R>(
        &mut self,
        keyspace: &HbaseKeyspace,
        key: &[u8],
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R> {
        let row = self.its_row(keyspace, key)?;
        let now = RowTransaction::staged(&self.staged, row);
        let mut new = RowBuilder::over(now);
        let (result, staged) = match decide(now, &mut new) {
            Action::Keep(result) => return Ok(result),
            Action::Put(result) => {
                let built = OwnedRow::built(&new, Timestamp::ZERO);
                (result, Staged::Row(built))
            }
            Action::Remove(result) => (result, Staged::Removed),
        };
        self.staged = staged;
        Ok(result)
    }

    fn nested<R, E>(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let before = self.staged.clone();
        let done = work(self);
        if done.is_err() {
            self.staged = before;
        }
        done
    }
}

impl LockingTransaction<HbaseKeyspace> for RowTransaction<'_> {
    fn changed_since(&self, keyspace: &HbaseKeyspace, key: &[u8], watch: &Watched) -> Result<bool> {
        let found = &self.its_row(keyspace, key)?.found;
        Ok(watch.has_changed(&Watched::of(found)))
    }

    fn rollback(&mut self) {
        self.is_rolled_back = true;
    }
}
