//! One process run of a database: random work by a few threads, every commit told to the oracle.
//!
//! Each thread owns its keys, so that the state after an epoch does not depend on the order of
//! commits within it. Values are up to a few sectors long, so that they can tear.

mod abandoned;
mod administer;
mod pressed;
mod transactions;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow::{
    Action, Commit, Db, Durability, Error, IndexKind, Keyspace, KeyspaceOptions, Locks, Snapshot,
    Timestamp, WriteOptions,
};
use hedgerow_vfs::FaultyVfs;
use rand::Rng;
use rand::rngs::StdRng;

use super::oracle::{Change, Content, Contents, Oracle, Row, Rows};
use crate::databases::{ALL_KINDS, key_of};
use crate::pressure::Watch;

pub use pressed::THREADS as PRESSED_THREADS;

/// The keyspaces that all threads write; they are created once and never dropped.
const SHARED: [&str; 2] = ["main", "other"];

/// What keys begin with: of plain rows, of rows that may expire, of rows of columns. Short, so that
/// keys of 8 bytes differ.
const PLAIN: &str = "p";
const EXPIRING: &str = "e";
const COLUMNS: &str = "c";
const KINDS: [&str; 3] = [PLAIN, EXPIRING, COLUMNS];

/// A backup that was finished during a process run.
#[derive(Debug, Clone)]
pub struct Backup {
    /// Where it is.
    pub dir: PathBuf,
    /// File operations done when it was asked for.
    pub started_at: usize,
    /// File operations done when it was finished.
    pub finished_at: usize,
}

/// What the threads of a process run share.
pub struct ProcessRun<'a> {
    /// The database under test.
    pub db: &'a Db,
    /// Counts file operations done.
    pub operations: &'a (dyn Fn() -> usize + Sync),
    /// The database's clock.
    pub clock_ms: Arc<AtomicU64>,
    /// What was asked for so far.
    pub oracle: Mutex<Oracle>,
    /// Backups finished so far.
    pub backups: Mutex<Vec<Backup>>,
    /// How many threads write.
    pub threads: usize,
    /// The disk, if checkpoints are to be abandoned.
    pub faulty: Option<FaultyVfs>,
    /// Checkpoints that were abandoned so far.
    pub abandoned: AtomicUsize,
    /// Distinguishes the backups of different process runs.
    pub number: usize,
    /// An index whose keys all keyspaces have, if there is one that has keys of one width.
    pub keys_of: Option<IndexKind>,
    /// The indexes of the keyspaces that all threads write, if there are keyspaces of all kinds;
    /// otherwise they have the default.
    pub mixed: Option<[IndexKind; 2]>,
    /// What happened to the page file, if the process run is to put it under pressure.
    pub pressure: Option<Mutex<Watch>>,
}

type Outcome<T = ()> = Result<T, String>;

fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what} failed: {error}")
}

/// A change of a batch or a transaction.
struct Staged {
    keyspace: Keyspace,
    key: Vec<u8>,
    /// The new value; `None` removes the key.
    value: Option<Vec<u8>>,
    /// The same for the oracle.
    change: Change,
}

/// A snapshot, and what it showed when it was opened.
struct OpenSnapshot {
    snapshot: Snapshot,
    contents: Contents,
}

/// One writing thread.
struct Writer<'a> {
    process_run: &'a ProcessRun<'a>,
    thread: usize,
    rng: StdRng,
    keyspaces: BTreeMap<String, Keyspace>,
    next_value: u64,
    snapshot: Option<OpenSnapshot>,
}

/// Runs `steps` random steps as thread `thread` of `process_run`.
pub fn write(process_run: &ProcessRun<'_>, thread: usize, steps: usize, rng: StdRng) -> Outcome {
    let mut writer = Writer {
        process_run,
        thread,
        rng,
        keyspaces: BTreeMap::new(),
        next_value: 0,
        snapshot: None,
    };
    for name in SHARED {
        let keyspace = process_run
            .db
            .open_keyspace(name)
            .map_err(failed("opening a keyspace"))?;
        writer.keyspaces.insert(name.to_owned(), keyspace);
    }
    if process_run.pressure.is_some() {
        return writer.press(steps);
    }
    for _ in 0..steps {
        writer.step()?;
    }
    match &process_run.faulty {
        Some(disk) if thread == 0 => writer.abandon_some(disk),
        _ => Ok(()),
    }
}

/// Creates the shared keyspaces where they are missing.
pub fn prepare(process_run: &ProcessRun<'_>) -> Outcome {
    for name in SHARED {
        if process_run
            .with_oracle(|oracle| oracle.incarnation(name))
            .is_none()
        {
            process_run.create(name)?;
        }
    }
    Ok(())
}

impl ProcessRun<'_> {
    fn with_oracle<R>(&self, with: impl FnOnce(&mut Oracle) -> R) -> R {
        with(&mut self.oracle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        let watch = self.pressure.as_ref().expect("asked only under pressure");
        watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a commit may be refused, with nothing changed, as a thread abandons a checkpoint.
    /// The disk has space for the logs all the while, so what is accepted becomes durable.
    fn may_refuse(&self) -> bool {
        self.threads > 1 && self.faulty.is_some()
    }

    fn count_abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    fn create(&self, name: &str) -> Outcome<Keyspace> {
        let started = (self.operations)();
        let event = self.with_oracle(|oracle| oracle.creating(name, started));
        let index = self.mixed.map(|mixture| {
            let shared = SHARED.iter().position(|shared| *shared == name);
            // Others are of another kind in each process run.
            shared.map_or(ALL_KINDS[self.number % ALL_KINDS.len()], |at| mixture[at])
        });
        let keyspace = self
            .db
            .create_keyspace_with(name, KeyspaceOptions { index })
            .map_err(failed("creating a keyspace"))?;
        let done = (self.operations)();
        self.with_oracle(|oracle| oracle.keyspace_done(event, done));
        Ok(keyspace)
    }
}

impl Writer<'_> {
    fn step(&mut self) -> Outcome {
        match self.rng.random_range(0..100) {
            0..27 => self.put(),
            27..36 => self.put_expiring(),
            36..47 => self.put_columns(),
            47..53 => self.remove(),
            53..57 => self.remove_range(),
            57..69 => self.batch(),
            69..74 => self.transact(),
            74..81 => self.validate(),
            81..84 => self.wait(),
            84..88 => self.hold(),
            _ if self.thread == 0 => self.administer(),
            _ => self.put(),
        }
    }

    fn key(&mut self, kind: &str) -> Vec<u8> {
        let number = self.rng.random_range(0..6);
        let mut key = format!("{kind}{}-{number}", self.thread).into_bytes();
        if number == 5 {
            key.extend_from_slice(&[b'x'; 300]);
        }
        key_of(self.process_run.keys_of, key)
    }

    fn value(&mut self) -> Vec<u8> {
        self.next_value += 1;
        let length = [0, 0, 8, 60, 500, 1500][self.rng.random_range(0..6)];
        let mut value = format!(
            "{}.{}.{}",
            self.process_run.number, self.thread, self.next_value
        )
        .into_bytes();
        let fill = b'a' + (self.next_value % 26) as u8;
        value.resize(value.len() + length, fill);
        value
    }

    /// A keyspace to write to, and its incarnation.
    fn keyspace(&mut self) -> (Keyspace, usize) {
        let index = self.rng.random_range(0..self.keyspaces.len());
        let (name, keyspace) = self
            .keyspaces
            .iter()
            .nth(index)
            .expect("index below the length");
        let incarnation = self
            .process_run
            .with_oracle(|oracle| oracle.incarnation(name));
        (
            keyspace.clone(),
            incarnation.expect("open keyspaces are alive"),
        )
    }

    fn durability(&mut self) -> Durability {
        match self.rng.random_range(0..10) {
            0..4 => Durability::Sync,
            4..8 => Durability::Periodic,
            _ => Durability::None,
        }
    }

    /// Tells the oracle, runs the commit, tells the oracle what it returned, and when it was
    /// durable, where it has waited for that.
    fn commit(
        &mut self,
        changes: Vec<Change>,
        durability: Durability,
        run: impl FnOnce() -> hedgerow::Result<Commit>,
    ) -> Outcome {
        match self.run(changes, run)? {
            Some((issued, _)) if durability == Durability::Sync => {
                let operations = (self.process_run.operations)();
                self.process_run
                    .with_oracle(|oracle| oracle.acknowledged(issued, operations));
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the oracle, runs the commit, tells the oracle what it returned: the oracle's number of
    /// the commit, and the commit; or that nothing happened, if the commit was refused.
    fn run(
        &mut self,
        changes: Vec<Change>,
        run: impl FnOnce() -> hedgerow::Result<Commit>,
    ) -> Outcome<Option<(usize, Commit)>> {
        let issued = self.process_run.with_oracle(|oracle| oracle.issue(changes));
        match run() {
            // A checkpoint of another thread has what the logs have reserved.
            Err(Error::DiskFull) if self.process_run.may_refuse() => {
                self.process_run
                    .with_oracle(|oracle| oracle.refused(issued));
                Ok(None)
            }
            commit => {
                let commit = commit.map_err(failed("a commit"))?;
                let epoch = commit.epoch();
                self.process_run
                    .with_oracle(|oracle| oracle.committed(issued, epoch));
                Ok(Some((issued, commit)))
            }
        }
    }

    fn put(&mut self) -> Outcome {
        let ((keyspace, incarnation), key) = (self.keyspace(), self.key(PLAIN));
        let (value, durability) = (self.value(), self.durability());
        let row = Some(Row {
            content: Content::Plain(value.clone()),
            expiry_ms: None,
        });
        let options = WriteOptions::default().durability(durability);
        let changes = vec![Change {
            incarnation,
            key: key.clone(),
            row,
        }];
        self.commit(changes, durability, || {
            keyspace.put_with(&key, &value, &options)
        })
    }

    fn put_expiring(&mut self) -> Outcome {
        let ((keyspace, incarnation), key) = (self.keyspace(), self.key(EXPIRING));
        let (value, durability) = (self.value(), self.durability());
        let now = self.process_run.clock_ms.load(Ordering::SeqCst);
        let expiry_ms = self
            .rng
            .random_bool(0.7)
            .then(|| now + self.rng.random_range(1..2_000));
        let row = Some(Row {
            content: Content::Plain(value.clone()),
            expiry_ms,
        });
        let options = WriteOptions {
            durability: Some(durability),
            expiry_ms,
            ..WriteOptions::default()
        };
        let changes = vec![Change {
            incarnation,
            key: key.clone(),
            row,
        }];
        self.commit(changes, durability, || {
            keyspace.put_with(&key, &value, &options)
        })
    }

    /// Merges one to three columns into a row; columns of a plain row replace its value.
    fn put_columns(&mut self) -> Outcome {
        let ((keyspace, incarnation), key) = (self.keyspace(), self.key(COLUMNS));
        let durability = self.durability();
        let mut new = BTreeMap::new();
        for _ in 0..self.rng.random_range(1..=3) {
            let name = format!("c{}", self.rng.random_range(0..4)).into_bytes();
            new.insert(name, self.value());
        }
        let mut columns = self.process_run.with_oracle(|oracle| {
            match oracle.current(incarnation, &key).map(|row| &row.content) {
                Some(Content::Columns(columns)) => columns.clone(),
                _ => BTreeMap::new(),
            }
        });
        columns.extend(new.clone());
        let row = Some(Row {
            content: Content::Columns(columns),
            expiry_ms: None,
        });
        let options = WriteOptions::default().durability(durability);
        let changes = vec![Change {
            incarnation,
            key: key.clone(),
            row,
        }];
        self.commit(changes, durability, || {
            let ((), commit) = keyspace.update(&key, &options, |_, row| {
                for (name, value) in &new {
                    row.set_column(name, value);
                }
                Action::Put(())
            })?;
            Ok(commit.expect("an update that puts commits"))
        })
    }

    fn remove(&mut self) -> Outcome {
        let (keyspace, incarnation) = self.keyspace();
        let kind = KINDS[self.rng.random_range(0..3)];
        let (key, durability) = (self.key(kind), self.durability());
        let mut batch = self.process_run.db.batch();
        batch.remove(&keyspace, &key);
        let changes = vec![Change {
            incarnation,
            key,
            row: None,
        }];
        self.commit(changes, durability, || {
            batch.commit(WriteOptions::default().durability(durability))
        })
    }

    /// Removes some neighbours among the own keys of one kind, or all of them.
    fn remove_range(&mut self) -> Outcome {
        let index = self.rng.random_range(0..self.keyspaces.len());
        let name = self.keyspaces.keys().nth(index).expect("below the length");
        let name = name.clone();
        let kind = KINDS[self.rng.random_range(0..3)];
        let first = format!("{kind}{}-{}", self.thread, self.rng.random_range(0..4));
        // The character behind the dash ends them all.
        let last = [format!("{first}~"), format!("{kind}{}.", self.thread)];
        let last = &last[self.rng.random_range(0..2)];
        self.remove_between(&name, first.as_bytes()..last.as_bytes())
    }

    fn remove_between(&mut self, name: &str, range: Range<&[u8]>) -> Outcome {
        let keyspace = self.keyspaces[name].clone();
        let durability = self.durability();
        let (incarnation, keys) = self.process_run.with_oracle(|oracle| {
            let incarnation = oracle.incarnation(name).expect("open keyspaces are alive");
            (incarnation, oracle.keys(incarnation, range.clone()))
        });
        let changes = keys.into_iter().map(|key| Change {
            incarnation,
            key,
            row: None,
        });
        let options = WriteOptions::default().durability(durability);
        self.commit(changes.collect(), durability, || {
            let (_, commit) = keyspace.delete_range_with(range, &options)?;
            // Nothing was there: nothing happened.
            let timestamp = commit.map_or(Timestamp::ZERO, |commit| commit.timestamp);
            Ok(Commit { timestamp })
        })
    }

    /// Distinct keys over all keyspaces, each with a new value or none.
    fn several(&mut self) -> Vec<Staged> {
        let mut chosen: Vec<Staged> = Vec::new();
        for _ in 0..self.rng.random_range(2..=5) {
            let ((keyspace, incarnation), key) = (self.keyspace(), self.key(PLAIN));
            let same = |other: &Change| other.incarnation == incarnation && other.key == key;
            if chosen.iter().any(|staged| same(&staged.change)) {
                continue;
            }
            let value = self.rng.random_bool(0.8).then(|| self.value());
            let content = value.clone().map(Content::Plain);
            let row = content.map(|content| Row {
                content,
                expiry_ms: None,
            });
            let change = Change {
                incarnation,
                key: key.clone(),
                row,
            };
            chosen.push(Staged {
                keyspace,
                key,
                value,
                change,
            });
        }
        chosen
    }

    fn batch(&mut self) -> Outcome {
        let durability = self.durability();
        let chosen = self.several();
        let mut batch = self.process_run.db.batch();
        for staged in &chosen {
            match &staged.value {
                Some(value) => batch.put(&staged.keyspace, &staged.key, value),
                None => batch.remove(&staged.keyspace, &staged.key),
            };
        }
        let changes = chosen.into_iter().map(|staged| staged.change).collect();
        self.commit(changes, durability, || {
            batch.commit(WriteOptions::default().durability(durability))
        })
    }

    fn transact(&mut self) -> Outcome {
        let durability = self.durability();
        let chosen = self.several();
        let db = self.process_run.db;
        let changes = chosen.iter().map(|staged| staged.change.clone()).collect();
        let options = WriteOptions::default().durability(durability);
        let locks = chosen
            .iter()
            .map(|staged| (&staged.keyspace, &staged.key[..]));
        let locks: Vec<(&Keyspace, &[u8])> = locks.collect();
        self.commit(changes, durability, || {
            let (_, commit) = db.transact(Locks::Keys(&locks), &options, |tx| {
                for staged in &chosen {
                    match &staged.value {
                        Some(value) => tx.put(&staged.keyspace, &staged.key, value)?,
                        None => drop(tx.remove(&staged.keyspace, &staged.key)?),
                    }
                }
                Ok(())
            })?;
            Ok(commit)
        })
    }

    /// Waits until an own write is durable, which acknowledges it late.
    fn wait(&mut self) -> Outcome {
        let ((keyspace, incarnation), key) = (self.keyspace(), self.key(PLAIN));
        let value = self.value();
        let row = Some(Row {
            content: Content::Plain(value.clone()),
            expiry_ms: None,
        });
        let options = WriteOptions::default().durability(Durability::Periodic);
        let changes = vec![Change {
            incarnation,
            key: key.clone(),
            row,
        }];
        let put = self.run(changes, || keyspace.put_with(&key, &value, &options))?;
        let Some((issued, commit)) = put else {
            return Ok(());
        };
        self.process_run
            .db
            .wait_durable(&commit)
            .map_err(failed("waiting"))?;
        let operations = (self.process_run.operations)();
        self.process_run
            .with_oracle(|oracle| oracle.acknowledged(issued, operations));
        Ok(())
    }
}

/// A row as the oracle has it.
fn row_of(row: hedgerow::Row<'_>) -> Row {
    let columns = || row.columns().map(|(n, v)| (n.to_vec(), v.to_vec()));
    let content = match row.value() {
        Some(value) => Content::Plain(value.to_vec()),
        None => Content::Columns(columns().collect()),
    };
    Row {
        content,
        expiry_ms: row.expiry_ms(),
    }
}

/// Everything that a database shows.
pub fn contents(db: &Db) -> Outcome<Contents> {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let keyspace = db
            .open_keyspace(&name)
            .map_err(failed("opening a keyspace"))?;
        let mut rows = Rows::new();
        keyspace
            .scan(.., hedgerow::Direction::Forward, |key, row| {
                rows.insert(key.to_vec(), row_of(row));
                std::ops::ControlFlow::Continue(())
            })
            .map_err(failed("a scan"))?;
        contents.insert(name, rows);
    }
    Ok(contents)
}
