//! The engine itself as a backend: each method is the one of its own types.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow_index::Direction;
use hedgerow_log::{Health, Progress};

use crate::api::db::Db;
use crate::api::files_state::FilesState;
use crate::api::keyspace::Keyspace;
use crate::api::keyspace_options::KeyspaceOptions;
use crate::api::optimistic::{Isolation, OptimisticTransaction};
use crate::api::snapshot::Snapshot;
use crate::api::statistics::Statistics;
use crate::api::transaction::{Locks, Transaction};
use crate::api::watch::Watch;
use crate::backend::capability::Capability;
use crate::backend::database::Backend;
use crate::backend::keyspace::BackendKeyspace;
use crate::backend::rows::{
    ChangeRows, InteractiveTransaction, LockingTransaction, ReadRows, SnapshotReads,
};
use crate::commit::write_options::{Durability, WriteOptions};
use crate::commit::{Action, Commit};
use crate::disk::backup::BackupReport;
use crate::error::{Error, Result};
use crate::index::bounds::KeyRange;
use crate::index::kind::IndexKind;
use crate::row::Row;
use crate::row::builder::RowBuilder;
use crate::versions::registry::OldestSnapshot;

impl Backend for Db {
    type Keyspace = Keyspace;
    type Transaction<'a> = Transaction<'a>;
    type Interactive = OptimisticTransaction;
    type Snapshot = Snapshot;

    const IS_REMOTE: bool = false;

    fn name(&self) -> &'static str {
        "embedded"
    }

    fn promise(&self, durability: Durability) -> String {
        match durability {
            _ if self.is_in_memory() => "none: everything is gone when this process ends".into(),
            Durability::Sync => "every acknowledged write survives a power cut".into(),
            Durability::Periodic => format!(
                "acknowledged writes survive a kill at once, a power cut after at most {} ms",
                self.engine().options.flush_interval.as_millis()
            ),
            Durability::None => "acknowledged writes may be lost in a crash".into(),
        }
    }

    #[inline]
    fn lacks(&self, _: Capability) -> Option<&'static str> {
        None
    }

    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        Db::keyspace(self, name)
    }

    fn keyspace_of_index(&self, name: &str, index: &str) -> Result<Keyspace> {
        match Db::open_keyspace(self, name) {
            Err(Error::KeyspaceMissing(_)) => {
                let index = IndexKind::from_name(index);
                Db::keyspace_with(self, name, KeyspaceOptions { index })
            }
            opened => opened,
        }
    }

    fn keyspaces(&self) -> Result<Vec<String>> {
        Ok(Db::keyspaces(self))
    }

    fn known_keyspaces(&self) -> Vec<String> {
        Db::keyspaces(self)
    }

    fn clear_keyspace(&self, name: &str, _: &WriteOptions) -> Result<()> {
        Db::clear_keyspace(self, name)
    }

    fn clear_keyspace_until(
        &self,
        name: &str,
        _: u64,
        _: &WriteOptions,
        emptied: impl FnOnce(),
    ) -> Result<()> {
        self.engine().clear_keyspace(name, emptied)
    }

    fn default_index(&self) -> &'static str {
        Db::default_index(self).name()
    }

    fn files_state(&self) -> Option<FilesState> {
        Db::files_state(self)
    }

    fn transact<R>(
        &self,
        locks: Locks<'_>,
        options: &WriteOptions,
        work: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        self.engine().transact_again(locks, options, work)
    }

    fn begin(&self, isolation: Isolation) -> Result<OptimisticTransaction> {
        Db::begin(self, isolation)
    }

    fn snapshot_named(&self, name: &str) -> Result<Snapshot> {
        Db::snapshot_named(self, name)
    }

    fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        Db::oldest_snapshot(self)
    }

    fn is_volatile(&self) -> bool {
        self.is_in_memory()
    }

    #[inline]
    fn keeps_writes_back(&self) -> bool {
        !self.is_in_memory()
    }

    fn write_out(&self) -> Result<()> {
        Db::write_out(self)
    }

    fn request_durable(&self, commit: &Commit) {
        Db::request_durable(self, commit);
    }

    fn durable_epoch(&self) -> u64 {
        Db::durable_epoch(self)
    }

    fn is_durable(&self, commit: &Commit) -> bool {
        Db::is_durable(self, commit)
    }

    fn poll_durable(&self, commit: &Commit) -> Result<bool> {
        Db::poll_durable(self, commit)
    }

    fn subscribe_durable(&self, subscriber: Box<dyn Fn(Progress) + Send + Sync>) {
        Db::subscribe_durable(self, subscriber);
    }

    fn checkpoint(&self) -> Result<()> {
        Db::checkpoint(self).map(drop)
    }

    fn backup(&self, dir: &Path) -> Result<BackupReport> {
        Db::backup(self, dir)
    }

    fn check_health(&self) -> Result<()> {
        match Db::health(self) {
            Health::Healthy => Ok(()),
            Health::DiskFull => Err(Error::DiskFull),
            Health::Poisoned(reason) => Err(Error::Poisoned(reason)),
        }
    }

    fn statistics(&self) -> Statistics {
        Db::statistics(self)
    }

    fn log_dirs(&self) -> Vec<PathBuf> {
        Db::log_dirs(self)
    }
}

impl BackendKeyspace for Keyspace {
    type Watch = Watch;

    fn name(&self) -> &str {
        Keyspace::name(self)
    }

    fn row_count(&self) -> u64 {
        Keyspace::len(self)
    }

    fn expiring(&self) -> u64 {
        Keyspace::expiring(self)
    }

    fn index_name(&self) -> Result<&'static str> {
        Ok(self.index_kind()?.name())
    }

    fn index_counters(&self) -> Result<Statistics> {
        Keyspace::index_counters(self)
    }

    fn index_shape(&self) -> Result<Option<Statistics>> {
        self.index_statistics_in_memory()
    }

    #[inline]
    fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        Keyspace::read(self, key, read)
    }

    #[inline]
    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()> {
        Keyspace::get_many(self, keys, read)
    }

    #[inline]
    fn prefetch_many(&self, keys: &[&[u8]]) {
        Keyspace::prefetch_many(self, keys);
    }

    #[inline]
    fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<Commit> {
        Keyspace::put_with(self, key, value, options)
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.update_again(key, options, decide)
    }

    fn delete_range_with(
        &self,
        range: impl KeyRange,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        Keyspace::delete_range_with(self, range, options)
    }

    #[inline]
    fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        Keyspace::scan_up_to(self, range, direction, most, visit)
    }

    #[inline]
    fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        Keyspace::scan_keys(self, range, direction, visit)
    }

    fn count(&self, range: impl KeyRange) -> Result<u64> {
        Keyspace::count(self, range)
    }

    fn random_key(&self, below: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>> {
        Keyspace::random_key(self, below)
    }

    fn watch(&self, key: &[u8]) -> Result<Watch> {
        Keyspace::watch(self, key)
    }
}

/// Reading and changing in a transaction, of either kind: both have the same methods.
macro_rules! rows_of_transaction {
    ($transaction:ty) => {
        impl ReadRows<Keyspace> for $transaction {
            #[inline]
            fn read<R>(
                &self,
                keyspace: &Keyspace,
                key: &[u8],
                read: impl FnOnce(Row<'_>) -> R,
            ) -> Result<Option<R>> {
                <$transaction>::read(self, keyspace, key, read)
            }

            #[inline]
            fn scan(
                &self,
                keyspace: &Keyspace,
                range: impl KeyRange,
                direction: Direction,
                _: usize,
                visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
            ) -> Result<()> {
                <$transaction>::scan(self, keyspace, range, direction, visit)
            }
        }

        impl ChangeRows<Keyspace> for $transaction {
            #[inline]
            fn put_with(
                &mut self,
                keyspace: &Keyspace,
                key: &[u8],
                value: &[u8],
                options: &WriteOptions,
            ) -> Result<()> {
                <$transaction>::put_with(self, keyspace, key, value, options)
            }

            #[inline]
            fn update<R>(
                &mut self,
                keyspace: &Keyspace,
                key: &[u8],
                decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
            ) -> Result<R> {
                <$transaction>::update(self, keyspace, key, decide)
            }

            #[inline]
            fn nested<R, E>(
                &mut self,
                work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
            ) -> std::result::Result<R, E> {
                <$transaction>::nested(self, work)
            }
        }
    };
}

rows_of_transaction!(Transaction<'_>);
rows_of_transaction!(OptimisticTransaction);

impl LockingTransaction<Keyspace> for Transaction<'_> {
    fn changed_since(&self, keyspace: &Keyspace, key: &[u8], watch: &Watch) -> Result<bool> {
        Transaction::changed_since(self, keyspace, key, watch)
    }

    fn rollback(&mut self) {
        Transaction::rollback(self);
    }
}

impl InteractiveTransaction<Keyspace> for OptimisticTransaction {
    fn memory_bytes(&self) -> usize {
        OptimisticTransaction::memory_bytes(self)
    }

    fn time_ms(&self) -> u64 {
        OptimisticTransaction::time_ms(self)
    }

    fn commit_with(self, options: &WriteOptions) -> Result<Commit> {
        OptimisticTransaction::commit_with(self, options)
    }
}

impl ReadRows<Keyspace> for Snapshot {
    fn read<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        match self.at(keyspace) {
            Ok(then) => then.read(key, read),
            // There was none yet.
            Err(Error::KeyspaceMissing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn scan(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.at(keyspace) {
            Ok(then) => then.scan_up_to(range, direction, most, visit),
            Err(Error::KeyspaceMissing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl SnapshotReads<Keyspace> for Snapshot {
    fn time_ms(&self) -> u64 {
        Snapshot::time_ms(self)
    }

    fn age(&self) -> Duration {
        Snapshot::age(self)
    }
}
