//! Batches: a caller collects writes first, and then commits them at once, as one transaction.

use std::sync::Arc;

use crate::api::keyspace::Keyspace;
use crate::api::transaction::{Locks, Transaction};
use crate::commit::Commit;
use crate::commit::staged::ROW_BYTES_IN_LOG;
use crate::commit::write_options::WriteOptions;
use crate::engine::Engine;
use crate::error::Result;

/// Several writes that happen at once, or not at all. Made by [`Db::batch`](crate::Db::batch).
///
/// Operations on one key apply in their order. Nothing happens before [`Batch::commit`]. A batch
/// that grows beyond [`Builder::max_commit_bytes`](crate::Builder::max_commit_bytes) drops its
/// operations, to free their memory, and cannot be committed.
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    engine: Arc<Engine>,
    /// None any more once they are more than a commit may have.
    operations: Vec<BatchOperation>,
    /// How many there were, and what they take.
    len: usize,
    bytes: usize,
}

struct BatchOperation {
    keyspace: Keyspace,
    key: Vec<u8>,
    action: BatchAction,
}

enum BatchAction {
    Put {
        value: Vec<u8>,
        expiry_ms: Option<u64>,
        user_flags: u32,
    },
    PutColumns(Vec<(Vec<u8>, Vec<u8>)>),
    Remove,
}

impl Batch {
    pub(crate) fn new(engine: Arc<Engine>) -> Batch {
        Batch {
            engine,
            operations: Vec::new(),
            len: 0,
            bytes: 0,
        }
    }

    /// Stores a plain value.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> &mut Self {
        self.put_with(keyspace, key, value, &WriteOptions::default())
    }

    /// Stores a plain value with expiry and user flags; the durability is the batch's.
    pub fn put_with(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> &mut Self {
        let WriteOptions {
            expiry_ms,
            user_flags,
            ..
        } = *options;
        self.push(
            keyspace,
            key,
            BatchAction::Put {
                value: value.to_vec(),
                expiry_ms,
                user_flags,
            },
        )
    }

    /// Sets some columns; see [`Keyspace::put_columns`].
    pub fn put_columns(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        columns: &[(&[u8], &[u8])],
    ) -> &mut Self {
        let columns = columns
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()));
        self.push(keyspace, key, BatchAction::PutColumns(columns.collect()))
    }

    /// Removes a row.
    pub fn remove(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut Self {
        self.push(keyspace, key, BatchAction::Remove)
    }

    fn push(&mut self, keyspace: &Keyspace, key: &[u8], action: BatchAction) -> &mut Self {
        self.len += 1;
        self.bytes += ROW_BYTES_IN_LOG + key.len() + action.bytes();
        if self.check_size().is_err() {
            // It cannot be committed: its memory is of no use.
            self.operations = Vec::new();
            return self;
        }
        let keyspace = keyspace.clone();
        self.operations.push(BatchOperation {
            keyspace,
            key: key.to_vec(),
            action,
        });
        self
    }

    fn check_size(&self) -> Result<()> {
        self.engine.check_commit_size(self.bytes, self.len > 1)
    }

    /// How many operations the batch has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Applies all operations as one commit: one log record.
    ///
    /// # Errors
    /// As for [`Keyspace::put_with`], [`Error::CommitTooLarge`](crate::Error::CommitTooLarge), and
    /// [`Error::OtherDatabase`](crate::Error::OtherDatabase); nothing was written then.
    pub fn commit(self, options: impl Into<WriteOptions>) -> Result<Commit> {
        self.check_size()?;
        let keys: Vec<(&Keyspace, &[u8])> = self
            .operations
            .iter()
            .map(|op| (&op.keyspace, op.key.as_slice()))
            .collect();
        let locks = Locks::Keys(&keys);
        let ((), commit) = self.engine.transact_again(locks, &options.into(), |tx| {
            self.operations.iter().try_for_each(|op| op.stage(tx))
        })?;
        Ok(commit)
    }
}

impl BatchAction {
    /// Bytes of values and columns.
    fn bytes(&self) -> usize {
        match self {
            BatchAction::Put { value, .. } => value.len(),
            BatchAction::PutColumns(columns) => {
                let columns = columns.iter();
                columns.map(|(name, value)| name.len() + value.len()).sum()
            }
            BatchAction::Remove => 0,
        }
    }
}

impl BatchOperation {
    fn stage(&self, tx: &mut Transaction<'_>) -> Result<()> {
        let BatchOperation {
            keyspace,
            key,
            action,
        } = self;
        match action {
            BatchAction::Remove => tx.remove(keyspace, key).map(drop),
            BatchAction::PutColumns(columns) => {
                let columns = columns.iter().map(|(name, value)| (&name[..], &value[..]));
                tx.put_columns(keyspace, key, &columns.collect::<Vec<_>>())
            }
            BatchAction::Put {
                value,
                expiry_ms,
                user_flags,
            } => {
                let options = WriteOptions {
                    expiry_ms: *expiry_ms,
                    user_flags: *user_flags,
                    ..WriteOptions::default()
                };
                tx.put_with(keyspace, key, value, &options)
            }
        }
    }
}
