//! Our engine's transactions: those that lock nothing, at both isolation levels, and those that
//! name their keys first and lock them.

use std::path::Path;

use hedgerow::{
    Db, Durability, IndexKind, Isolation, Keyspace, KeyspaceSnapshot, Locks, OptimisticTransaction,
    Transaction, WriteOptions,
};
use hedgerow_lab_contender::{
    Promises, ReadTransaction, RunReads, RunWrites, SharedTransactionalStore, StoreError,
    StoreSettings, Sync, TransactionError, TransactionalEntry, TransactionalStore,
    WriteTransaction, committed_at_once, until_committed,
};

use crate::own;

/// How it keeps transactions apart.
#[derive(Clone, Copy)]
enum Form {
    Validating(Isolation),
    Locking,
}

/// One keyspace of a database.
struct Transactional {
    db: Db,
    keyspace: Keyspace,
    durability: Durability,
    form: Form,
}

/// The registry's lines: Masstree in each form, and the B-tree in the standard one.
#[must_use]
pub fn transactional() -> Vec<TransactionalEntry> {
    let promises = Promises {
        ordered: true,
        concurrent: true,
        durable: true,
        variable_keys: true,
        longest_key: None,
        keys_only: false,
    };
    let entry = |name, open| TransactionalEntry {
        entry: own(name, promises),
        open: Ok(open),
    };
    vec![
        entry("hedgerow serializable", |directory, settings| {
            let form = Form::Validating(Isolation::Serializable);
            open(directory, settings, IndexKind::Masstree, form)
        }),
        entry("hedgerow snapshot", |directory, settings| {
            let form = Form::Validating(Isolation::Snapshot);
            open(directory, settings, IndexKind::Masstree, form)
        }),
        entry("hedgerow locking", |directory, settings| {
            open(directory, settings, IndexKind::Masstree, Form::Locking)
        }),
        entry("hedgerow btree serializable", |directory, settings| {
            let form = Form::Validating(Isolation::Serializable);
            open(directory, settings, IndexKind::BTree, form)
        }),
    ]
}

fn open(
    directory: &Path,
    settings: &StoreSettings,
    index: IndexKind,
    form: Form,
) -> Result<SharedTransactionalStore, StoreError> {
    let durability = match settings.sync {
        Sync::EveryCommit => Durability::Sync,
        Sync::Periodic => Durability::Periodic,
        Sync::Never => Durability::None,
    };
    let limit_bytes = settings.process_bytes.map(usize::try_from).transpose();
    let builder = Db::builder()
        .durability(durability)
        .index(index)
        .memory_limit(limit_bytes.map_err(StoreError::from_display)?);
    let db = builder.open(directory).map_err(StoreError::from_display)?;
    let keyspace = db.keyspace("default").map_err(StoreError::from_display)?;
    Ok(Box::new(Transactional {
        db,
        keyspace,
        durability,
        form,
    }))
}

/// Tells a conflict from other errors.
fn refused(error: hedgerow::Error) -> TransactionError {
    match error.is_conflict() {
        true => TransactionError::Conflict,
        false => TransactionError::from_display(error),
    }
}

/// Copies a plain value.
fn copy(row: hedgerow::Row<'_>, value: &mut Vec<u8>) {
    value.extend_from_slice(row.value().unwrap_or_default());
}

/// A transaction that locks nothing.
struct Validating<'a>(OptimisticTransaction, &'a Keyspace);

impl ReadTransaction for Validating<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        value.clear();
        let found = self.0.read(self.1, key, |row| copy(row, value));
        Ok(found.map_err(refused)?.is_some())
    }
}

impl WriteTransaction for Validating<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        self.0.put(self.1, key, value).map_err(refused)
    }
}

/// A transaction that holds its keys.
struct Locking<'a, 'b>(&'a mut Transaction<'b>, &'a Keyspace);

impl ReadTransaction for Locking<'_, '_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        value.clear();
        let found = self.0.read(self.1, key, |row| copy(row, value));
        Ok(found.map_err(refused)?.is_some())
    }
}

impl WriteTransaction for Locking<'_, '_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), TransactionError> {
        self.0.put(self.1, key, value).map_err(refused)
    }
}

/// A snapshot as a transaction that only reads.
struct AtSnapshot(KeyspaceSnapshot);

impl ReadTransaction for AtSnapshot {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TransactionError> {
        value.clear();
        let found = self.0.read(key, |row| copy(row, value));
        Ok(found.map_err(refused)?.is_some())
    }
}

impl Transactional {
    fn lock_and_write(
        &self,
        keys: &[&[u8]],
        run: &mut RunWrites<'_>,
    ) -> Result<(), TransactionError> {
        let locks: Vec<_> = keys.iter().map(|&key| (&self.keyspace, key)).collect();
        let options = WriteOptions::from(self.durability);
        let mut inside = Ok(());
        let committed = self.db.transact(Locks::Keys(&locks), &options, |tx| {
            inside = run(&mut Locking(tx, &self.keyspace));
            if inside.is_err() {
                tx.rollback();
            }
            Ok(())
        });
        inside?;
        committed.map(drop).map_err(refused)
    }
}

impl TransactionalStore for Transactional {
    fn write(&self, keys: &[&[u8]], run: &mut RunWrites<'_>) -> Result<u64, StoreError> {
        match self.form {
            Form::Locking => committed_at_once(self.lock_and_write(keys, run)),
            Form::Validating(isolation) => until_committed(|| {
                let transaction = self.db.begin(isolation).map_err(refused)?;
                let mut transaction = Validating(transaction, &self.keyspace);
                run(&mut transaction)?;
                let committed = transaction.0.commit(self.durability);
                committed.map(drop).map_err(refused)
            }),
        }
    }

    fn read(&self, run: &mut RunReads<'_>) -> Result<(), StoreError> {
        let snapshot = self.db.snapshot().map_err(StoreError::from_display)?;
        let at = snapshot.at(&self.keyspace);
        let mut at = AtSnapshot(at.map_err(StoreError::from_display)?);
        committed_at_once(run(&mut at)).map(drop)
    }
}
