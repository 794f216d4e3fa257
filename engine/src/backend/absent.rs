//! Stands for the transactions and snapshots that a backend never makes.

use std::ops::ControlFlow;
use std::time::Duration;

use hedgerow_index::Direction;

use crate::backend::keyspace::BackendKeyspace;
use crate::backend::rows::{
    ChangeRows, InteractiveTransaction, LockingTransaction, ReadRows, SnapshotReads,
};
use crate::commit::write_options::WriteOptions;
use crate::commit::{Action, Commit};
use crate::error::Result;
use crate::index::bounds::KeyRange;
use crate::row::Row;
use crate::row::builder::RowBuilder;

/// A type without values. A backend that lacks transactions or snapshots names it as their type: so
/// the compiler knows that none is ever open, and code for them takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {}

impl<K: BackendKeyspace> ReadRows<K> for Absent {
    fn read<R>(&self, _: &K, _: &[u8], _: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        match *self {}
    }

    fn scan(
        &self,
        _: &K,
        _: impl KeyRange,
        _: Direction,
        _: usize,
        _: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match *self {}
    }
}

impl<K: BackendKeyspace> ChangeRows<K> for Absent {
    fn put_with(&mut self, _: &K, _: &[u8], _: &[u8], _: &WriteOptions) -> Result<()> {
        match *self {}
    }

    fn update<R>(
        &mut self,
        _: &K,
        _: &[u8],
        _: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R> {
        match *self {}
    }

    fn nested<R, E>(
        &mut self,
        _: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        match *self {}
    }
}

impl<K: BackendKeyspace> LockingTransaction<K> for Absent {
    fn changed_since(&self, _: &K, _: &[u8], _: &K::Watch) -> Result<bool> {
        match *self {}
    }

    fn rollback(&mut self) {
        match *self {}
    }
}

impl<K: BackendKeyspace> InteractiveTransaction<K> for Absent {
    fn memory_bytes(&self) -> usize {
        match *self {}
    }

    fn time_ms(&self) -> u64 {
        match *self {}
    }

    fn commit_with(self, _: &WriteOptions) -> Result<Commit> {
        match self {}
    }
}

impl<K: BackendKeyspace> SnapshotReads<K> for Absent {
    fn time_ms(&self) -> u64 {
        match *self {}
    }

    fn age(&self) -> Duration {
        match *self {}
    }
}
