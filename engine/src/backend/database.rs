//! A database as a server sees it.

use std::path::{Path, PathBuf};

use hedgerow_log::Progress;

use crate::api::files_state::FilesState;
use crate::api::optimistic::Isolation;
use crate::api::statistics::Statistics;
use crate::api::transaction::Locks;
use crate::backend::capability::Capability;
use crate::backend::keyspace::BackendKeyspace;
use crate::backend::rows::{InteractiveTransaction, LockingTransaction, SnapshotReads};
use crate::commit::Commit;
use crate::commit::write_options::{Durability, WriteOptions};
use crate::disk::backup::BackupReport;
use crate::error::Result;
use crate::versions::registry::OldestSnapshot;

/// A database that a server serves. Every method may be called from any thread.
pub trait Backend: Send + Sync + Sized + 'static {
    /// One of its keyspaces.
    type Keyspace: BackendKeyspace;
    /// What the closure of [`Backend::transact`] works in.
    type Transaction<'a>: LockingTransaction<Self::Keyspace>;
    /// What [`Backend::begin`] opens.
    type Interactive: InteractiveTransaction<Self::Keyspace>;
    /// What [`Backend::snapshot_named`] opens.
    type Snapshot: SnapshotReads<Self::Keyspace>;

    /// Whether each call is a round trip and not a walk through memory, so that the requests of
    /// many clients are worth being joined: reads in [`get_many`](BackendKeyspace::get_many), puts
    /// in [`put_many`](BackendKeyspace::put_many).
    const IS_REMOTE: bool;

    /// Its name, in lower case, for people and statistics: `embedded`, `hbase`.
    fn name(&self) -> &'static str;

    /// What an acknowledged write is worth, in words.
    fn promise(&self, durability: Durability) -> String;

    /// Why it cannot do something; `None` if it can.
    fn lacks(&self, capability: Capability) -> Option<&'static str>;

    /// Opens a keyspace, and makes it if there is none of this name.
    ///
    /// # Errors
    /// It cannot be made, or the backend is out of reach.
    fn keyspace(&self, name: &str) -> Result<Self::Keyspace>;

    /// Opens a keyspace, and makes it if there is none of this name: with the index of this name,
    /// where a backend has several and one of them is called so.
    ///
    /// # Errors
    /// As for [`keyspace`](Backend::keyspace).
    fn keyspace_of_index(&self, name: &str, _index: &str) -> Result<Self::Keyspace> {
        self.keyspace(name)
    }

    /// Opens a keyspace, and makes it if there is none of this name: in parts that begin with these
    /// keys, which ascend, where a backend keeps parts of a keyspace on different machines.
    ///
    /// # Errors
    /// As for [`keyspace`](Backend::keyspace).
    fn split_keyspace(&self, name: &str, _keys: &[Vec<u8>]) -> Result<Self::Keyspace> {
        self.keyspace(name)
    }

    /// The names of all keyspaces, sorted.
    ///
    /// # Errors
    /// The backend is out of reach.
    fn keyspaces(&self) -> Result<Vec<String>>;

    /// The names of the keyspaces that this process knows, sorted: those that it opened, and those
    /// that it found before. Others may have made more since. Neither this nor opening one of them
    /// waits for a backend elsewhere.
    fn known_keyspaces(&self) -> Vec<String>;

    /// Removes all rows of a keyspace. A backend that is durable by then in any case ignores
    /// `options`.
    ///
    /// # Errors
    /// The backend refused, or is out of reach.
    fn clear_keyspace(&self, name: &str, options: &WriteOptions) -> Result<()>;

    /// Removes the rows of a keyspace that were written until a time, in milliseconds since the
    /// Unix epoch. A backend that removes all rows at once, or not at all, also removes those that
    /// were written since. Calls `emptied` as soon as all of them are gone: from then on no row
    /// goes, though it may take long to clean up. Not at all if they do not go.
    ///
    /// # Errors
    /// As for [`clear_keyspace`](Backend::clear_keyspace).
    fn clear_keyspace_until(
        &self,
        name: &str,
        _until_ms: u64,
        options: &WriteOptions,
        emptied: impl FnOnce(),
    ) -> Result<()> {
        self.clear_keyspace(name, options)?;
        emptied();
        Ok(())
    }

    /// The name of the index that new keyspaces get.
    fn default_index(&self) -> &'static str;

    /// The state of its files, for telling whether somebody has written since. `None` where there
    /// are none, or nobody can say.
    fn files_state(&self) -> Option<FilesState> {
        None
    }

    /// Runs `work` in a transaction that has locked its keys, and commits what it wrote at once, or
    /// nothing. It runs again when a row that it saw expired before the commit, and in a backend
    /// without locks when another writer came in between: so `work` undoes what it did outside of
    /// the transaction when it begins.
    ///
    /// # Errors
    /// What `work` returned, and then nothing is written; [`Capability::SeveralRows`]; the commit
    /// failed.
    fn transact<R>(
        &self,
        locks: Locks<'_, Self::Keyspace>,
        options: &WriteOptions,
        work: impl FnMut(&mut Self::Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)>;

    /// Opens a transaction whose commands answer one by one.
    ///
    /// # Errors
    /// [`Capability::InteractiveTransactions`].
    fn begin(&self, isolation: Isolation) -> Result<Self::Interactive>;

    /// Opens a snapshot of all keyspaces.
    ///
    /// # Errors
    /// [`Capability::Snapshots`].
    fn snapshot_named(&self, name: &str) -> Result<Self::Snapshot>;

    /// The snapshot or transaction that has been open for longest.
    fn oldest_snapshot(&self) -> Option<OldestSnapshot>;

    /// Whether its rows end with this process.
    fn is_volatile(&self) -> bool;

    /// Whether acknowledged writes wait in this process until
    /// [`Backend::write_out`] hands them on. If not, a write that returned has left the process.
    fn keeps_writes_back(&self) -> bool;

    /// Hands on what this process keeps of acknowledged writes, so that its death loses none.
    ///
    /// # Errors
    /// Some were not handed on.
    fn write_out(&self) -> Result<()>;

    /// Asks for a commit to become durable soon.
    fn request_durable(&self, commit: &Commit);

    /// The last epoch of which all commits are durable.
    fn durable_epoch(&self) -> u64;

    /// Whether a commit is durable.
    fn is_durable(&self, commit: &Commit) -> bool;

    /// Whether a commit is durable.
    ///
    /// # Errors
    /// It may never be.
    fn poll_durable(&self, commit: &Commit) -> Result<bool>;

    /// Calls `subscriber` whenever more is durable.
    fn subscribe_durable(&self, subscriber: Box<dyn Fn(Progress) + Send + Sync>);

    /// Writes everything to where it is found quickly after a restart.
    ///
    /// # Errors
    /// [`Capability::Checkpoints`]; it failed.
    fn checkpoint(&self) -> Result<()>;

    /// Copies the database, as it is at one moment of the call, into an empty or new directory.
    ///
    /// # Errors
    /// [`Capability::Backups`]; it failed, and then the directory is no backup.
    fn backup(&self, dir: &Path) -> Result<BackupReport>;

    /// Checks whether writes are accepted. It never waits for a backend elsewhere, but says what
    /// calls before it found.
    ///
    /// # Errors
    /// Why they are not: no space is left, a disk has failed, or the backend is out of reach.
    fn check_health(&self) -> Result<()>;

    /// Its figures, by name.
    fn statistics(&self) -> Statistics;

    /// The directories of its logs; none for a backend that has no files here.
    fn log_dirs(&self) -> Vec<PathBuf>;
}
