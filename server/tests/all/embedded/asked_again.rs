//! A backend in the manner of HBase: each call is a round trip, so that puts and reads are joined;
//! nothing is locked, so that closures are asked again when another writer was quicker; and a
//! commit has one row. It keeps its rows in a database of the engine, and asks every closure twice,
//! the first time for nothing: a command that keeps what its closure replied the first time, or
//! changed outside of it, shows that.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use hedgerow::backend::{
    Absent, Backend, BackendKeyspace, Capability, ChangeRows, LockingTransaction, ReadRows,
    Unsupported,
};
use hedgerow::{
    Action, BackupReport, Commit, Db, Direction, Durability, Error, Isolation, KeyRange, Keyspace,
    Locks, OldestSnapshot, Progress, Result, Row, RowBuilder, Statistics, Transaction, Watch,
    WriteOptions,
};

/// See the module.
pub struct AskedAgain(pub Db);

/// A keyspace of it.
#[derive(Clone, Debug)]
pub struct AskedAgainKeyspace(Keyspace);

/// While there is this keyspace, nobody can say which there are.
pub const HIDES_ALL: &str = "db9";

/// This keyspace cannot be emptied.
pub const STAYS_FULL: &str = "db8";

/// While there is this keyspace, `LISTED` counts how often somebody asks which there are.
pub const LISTS_COUNTED: &str = "db7";

/// See `LISTS_COUNTED`.
pub static LISTED: AtomicU32 = AtomicU32::new(0);

/// While there is this keyspace, the backend is out of reach, as far as it says.
pub const UNREACHABLE: &str = "db6";

/// A keyspace with a row of this key is emptied only by those who want that to be durable.
pub const SYNCED: &[u8] = b"synced";

/// Until which time rows of such a keyspace were to be removed, in Unix milliseconds, at the
/// latest: 0 before somebody said so.
pub static CLEARED_UNTIL_MS: AtomicU64 = AtomicU64::new(0);

/// The row of this key cannot be read.
pub const UNREADABLE: &[u8] = b"unreadable";

/// Updates of the row `door` come here first.
pub static AT_DOOR: Meeting = Meeting::new();

/// Updates of the row `door` wait until somebody has come here.
pub static DOOR: Meeting = Meeting::new();

/// Updates of the row `gate` come here first.
pub static ENTERED: Meeting = Meeting::new();

/// Updates of the row `gate` wait until somebody has come here.
pub static GATE: Meeting = Meeting::new();

/// Updates of the row `meeting` come here, and wait until there are two.
static MEETING: Meeting = Meeting::new();

/// Where threads wait for each other, for half a minute at most.
pub struct Meeting {
    came: Mutex<u32>,
    changed: Condvar,
}

impl Meeting {
    const fn new() -> Meeting {
        Meeting {
            came: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// One more has come.
    pub fn come(&self) {
        *self.came.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    /// Waits until so many have come.
    ///
    /// # Errors
    /// They did not.
    pub fn wait_for(&self, enough: u32) -> Result<()> {
        let long = Duration::from_secs(30);
        let came = self.came.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(came, long, |came| *came < enough);
        match waited.unwrap().1.timed_out() {
            true => Err(Error::Backend("nobody else came".into())),
            false => Ok(()),
        }
    }

    fn come_and_wait_for(&self, enough: u32) -> Result<()> {
        self.come();
        self.wait_for(enough)
    }
}

/// Why it lacks something.
pub const BECAUSE: &str = "this backend is for tests";

fn refusal(capability: Capability) -> Error {
    let because = BECAUSE;
    Error::from(Unsupported {
        capability,
        because,
    })
}

fn check_readable(key: &[u8]) -> Result<()> {
    match key {
        UNREADABLE => Err(Error::Backend("nobody can read it".into())),
        _ => Ok(()),
    }
}

impl AskedAgain {
    fn has_keyspace(&self, name: &str) -> bool {
        self.0.keyspaces().iter().any(|existing| existing == name)
    }
}

impl Backend for AskedAgain {
    type Keyspace = AskedAgainKeyspace;
    type Transaction<'a> = Transaction<'a>;
    type Interactive = Absent;
    type Snapshot = Absent;

    const IS_REMOTE: bool = true;

    fn name(&self) -> &'static str {
        "asked-again"
    }

    fn promise(&self, _: Durability) -> String {
        "none".into()
    }

    fn lacks(&self, capability: Capability) -> Option<&'static str> {
        (capability != Capability::Watches).then_some(BECAUSE)
    }

    fn keyspace(&self, name: &str) -> Result<AskedAgainKeyspace> {
        self.0.keyspace(name).map(AskedAgainKeyspace)
    }

    fn keyspaces(&self) -> Result<Vec<String>> {
        if self.has_keyspace(LISTS_COUNTED) {
            LISTED.fetch_add(1, Ordering::SeqCst);
        }
        match self.has_keyspace(HIDES_ALL) {
            false => Ok(self.0.keyspaces()),
            true => Err(Error::Backend("nobody can say which there are".into())),
        }
    }

    fn known_keyspaces(&self) -> Vec<String> {
        self.0.keyspaces()
    }

    fn clear_keyspace(&self, name: &str, options: &WriteOptions) -> Result<()> {
        let needs_sync = self.0.keyspace(name)?.read(SYNCED, |_| ())?.is_some();
        match name {
            STAYS_FULL => Err(Error::Backend("nobody can empty it".into())),
            _ if needs_sync && options.durability != Some(Durability::Sync) => {
                Err(Error::Backend("that would not be durable".into()))
            }
            name => self.0.clear_keyspace(name),
        }
    }

    fn clear_keyspace_until(
        &self,
        name: &str,
        until_ms: u64,
        options: &WriteOptions,
        emptied: impl FnOnce(),
    ) -> Result<()> {
        if self.0.keyspace(name)?.read(SYNCED, |_| ())?.is_some() {
            CLEARED_UNTIL_MS.fetch_max(until_ms, Ordering::SeqCst);
        }
        self.clear_keyspace(name, options)?;
        emptied();
        Ok(())
    }

    fn default_index(&self) -> &'static str {
        "asked-again"
    }

    fn transact<R>(
        &self,
        locks: Locks<'_, AskedAgainKeyspace>,
        options: &WriteOptions,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        let Locks::Keys(keys) = locks else {
            return Err(refusal(Capability::SeveralRows));
        };
        let keys: Vec<(&Keyspace, &[u8])> = keys.iter().map(|(of, key)| (&of.0, *key)).collect();
        let is_first =
            |(of, key): &(&Keyspace, &[u8])| *key == keys[0].1 && of.name() == keys[0].0.name();
        if !keys.iter().all(is_first) {
            return Err(refusal(Capability::SeveralRows));
        }
        let locks = Locks::Keys(&keys);
        // What it fails with, it fails with again.
        let _ = self.0.transact(locks, options, |tx| {
            let result = work(tx);
            tx.rollback();
            result.map(drop)
        });
        self.0.transact(locks, options, work)
    }

    fn begin(&self, _: Isolation) -> Result<Absent> {
        Err(refusal(Capability::InteractiveTransactions))
    }

    fn snapshot_named(&self, _: &str) -> Result<Absent> {
        Err(refusal(Capability::Snapshots))
    }

    fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        None
    }

    fn is_volatile(&self) -> bool {
        self.0.is_in_memory()
    }

    fn keeps_writes_back(&self) -> bool {
        false
    }

    fn write_out(&self) -> Result<()> {
        Ok(())
    }

    fn request_durable(&self, _: &Commit) {}

    fn durable_epoch(&self) -> u64 {
        u64::MAX
    }

    fn is_durable(&self, _: &Commit) -> bool {
        true
    }

    fn poll_durable(&self, _: &Commit) -> Result<bool> {
        Ok(true)
    }

    fn subscribe_durable(&self, _: Box<dyn Fn(Progress) + Send + Sync>) {}

    fn checkpoint(&self) -> Result<()> {
        Err(refusal(Capability::Checkpoints))
    }

    fn backup(&self, _: &Path) -> Result<BackupReport> {
        Err(refusal(Capability::Backups))
    }

    fn check_health(&self) -> Result<()> {
        match self.has_keyspace(UNREACHABLE) {
            false => Backend::check_health(&self.0),
            true => Err(Error::Backend("nobody answers".into())),
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics::new()
    }

    fn log_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl BackendKeyspace for AskedAgainKeyspace {
    type Watch = Watch;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn row_count(&self) -> u64 {
        0
    }

    fn expiring(&self) -> u64 {
        0
    }

    fn index_name(&self) -> Result<&'static str> {
        Ok("asked-again")
    }

    fn index_counters(&self) -> Result<Statistics> {
        Ok(Statistics::new())
    }

    fn index_shape(&self) -> Result<Option<Statistics>> {
        Ok(None)
    }

    fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        check_readable(key)?;
        self.0.read(key, read)
    }

    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()> {
        keys.iter().try_for_each(|key| check_readable(key))?;
        self.0.get_many(keys, read)
    }

    /// The last one first.
    fn get_each(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Result<Option<Row<'_>>>)) {
        for (i, key) in keys.iter().enumerate().rev() {
            match self.read(key, |row| read(i, Ok(Some(row)))) {
                Ok(Some(())) => {}
                Ok(None) => read(i, Ok(None)),
                Err(error) => read(i, Err(error)),
            }
        }
    }

    fn prefetch_many(&self, _: &[&[u8]]) {}

    fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<Commit> {
        self.0.put_with(key, value, options)
    }

    fn update<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        match key {
            b"gate" => {
                ENTERED.come();
                GATE.wait_for(1)
            }
            b"door" => {
                AT_DOOR.come();
                DOOR.wait_for(1)
            }
            b"meeting" => MEETING.come_and_wait_for(2),
            _ => Ok(()),
        }?;
        self.0.update(key, options, |row, new| {
            let _ = decide(row, new);
            Action::Keep(())
        })?;
        self.0.update(key, options, decide)
    }

    fn delete_range_with(
        &self,
        range: impl KeyRange,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        self.0.delete_range_with(range, options)
    }

    fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.0.scan_up_to(range, direction, most, visit)
    }

    fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.0.scan_keys(range, direction, visit)
    }

    fn random_key(&self, _: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>> {
        Err(refusal(Capability::RandomKeys))
    }

    fn watch(&self, key: &[u8]) -> Result<Watch> {
        self.0.watch(key)
    }
}

impl ReadRows<AskedAgainKeyspace> for Transaction<'_> {
    fn read<R>(
        &self,
        keyspace: &AskedAgainKeyspace,
        key: &[u8],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>> {
        Transaction::read(self, &keyspace.0, key, read)
    }

    fn scan(
        &self,
        _: &AskedAgainKeyspace,
        _: impl KeyRange,
        _: Direction,
        _: usize,
        _: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        Err(refusal(Capability::SeveralRows))
    }
}

impl ChangeRows<AskedAgainKeyspace> for Transaction<'_> {
    fn put_with(
        &mut self,
        keyspace: &AskedAgainKeyspace,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        Transaction::put_with(self, &keyspace.0, key, value, options)
    }

    fn update<R>(
        &mut self,
        keyspace: &AskedAgainKeyspace,
        key: &[u8],
        decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<R> {
        Transaction::update(self, &keyspace.0, key, decide)
    }

    fn nested<R, E>(
        &mut self,
        work: impl FnOnce(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        Transaction::nested(self, work)
    }
}

impl LockingTransaction<AskedAgainKeyspace> for Transaction<'_> {
    fn changed_since(
        &self,
        keyspace: &AskedAgainKeyspace,
        key: &[u8],
        watch: &Watch,
    ) -> Result<bool> {
        Transaction::changed_since(self, &keyspace.0, key, watch)
    }

    fn rollback(&mut self) {
        Transaction::rollback(self);
    }
}
