//! The log alone under power cuts: shards, group commit, rotation, manifest and recovery,
//! without an engine around them. Small and fast, so it reaches many images.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow_log::{Log, LogOptions, Manifest, Operation, OperationKind, RecoveredLogs, Timestamp};
use hedgerow_vfs::{RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::campaign::Subject;
use super::oracle::{Change, Content, Contents, Oracle, Row, Rows};
use super::verdicts::Verdicts;

const DATA: &str = "/data";
const KEYSPACE: u32 = 1;
const NAME: &str = "main";

/// The log as a [`Subject`].
#[derive(Debug, Default)]
pub struct LogSubject {
    process_runs: usize,
}

fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what} failed: {error}")
}

/// What is left of a database after a power cut.
struct Recovered {
    manifest: Manifest,
    next_epoch: u64,
    contents: Contents,
}

/// Opens the database of a disk, new or not, and reads its commits back.
fn recover(vfs: &Arc<dyn Vfs>) -> Result<Recovered, String> {
    let dir = Path::new(DATA);
    vfs.create_dir_all(dir)
        .map_err(failed("creating the directory"))?;
    vfs.sync_dir(Path::new("/"))
        .map_err(failed("syncing the root"))?;
    let exists = Manifest::exists(&**vfs, dir).map_err(failed("looking for the manifest"))?;
    if !exists {
        Manifest::new(7)
            .store(&**vfs, dir)
            .map_err(failed("storing a first manifest"))?;
    }
    let mut manifest = Manifest::load(&**vfs, dir).map_err(failed("loading the manifest"))?;
    let logs =
        RecoveredLogs::open(Arc::clone(vfs), dir, &mut manifest).map_err(failed("recovery"))?;
    let mut rows = Rows::new();
    let mut commits = logs.commits();
    while let Some(commit) = commits.next().map_err(failed("reading a commit"))? {
        for operation in commit.operations() {
            let key = operation.key.to_vec();
            match operation.kind {
                OperationKind::Remove => drop(rows.remove(&key)),
                _ => drop(rows.insert(key, row(operation.payload))),
            }
        }
    }
    Ok(Recovered {
        manifest,
        next_epoch: logs.next_epoch(),
        contents: Contents::from([(NAME.to_owned(), rows)]),
    })
}

fn row(value: &[u8]) -> Row {
    Row {
        content: Content::Plain(value.to_vec()),
        expiry_ms: None,
    }
}

impl Subject for LogSubject {
    fn live(
        &mut self,
        disk: &Arc<RecordingVfs>,
        mut contents: Contents,
        rng: &mut StdRng,
    ) -> Result<Verdicts, String> {
        self.process_runs += 1;
        let vfs: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(disk);
        let Recovered {
            mut manifest,
            next_epoch: first_epoch,
            ..
        } = recover(&vfs)?;
        let options = LogOptions {
            shards: rng.random_range(1..=3),
            flush_interval: Duration::from_millis(rng.random_range(1..10)),
            // What is written at once becomes one block, or several, any of which may tear.
            block_bytes: if rng.random_bool(0.5) { 200 } else { 1 << 20 },
            ..LogOptions::default()
        };
        let dir = Path::new(DATA);
        let log = Log::create(vfs, dir, &mut manifest, options, first_epoch)
            .map_err(failed("creating the log"))?;
        contents.entry(NAME.to_owned()).or_default();
        let oracle = Mutex::new(Oracle::new(contents));
        let steps = rng.random_range(1..40);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..rng.random_range(1..=3))
                .map(|thread| {
                    let rng = StdRng::seed_from_u64(rng.random());
                    let (log, oracle, disk, process_run) = (&log, &oracle, disk, self.process_runs);
                    let mut writer = Writer {
                        log,
                        oracle,
                        disk,
                        process_run,
                        thread,
                        rng,
                        last: BTreeMap::new(),
                    };
                    scope.spawn(move || (0..steps).try_for_each(|step| writer.step(step)))
                })
                .collect();
            writers
                .into_iter()
                .try_for_each(|w| w.join().expect("a writer panicked"))
        })?;
        let mut oracle = oracle.into_inner().unwrap_or_else(PoisonError::into_inner);
        let end = log.close().map_err(failed("closing the log"))?;
        oracle.all_acknowledged(disk.operations());
        if rng.random_bool(0.5) {
            manifest.record_end(end);
            manifest
                .store(&**disk, dir)
                .map_err(failed("storing the manifest"))?;
        }
        Ok(oracle.seal(0))
    }

    fn recover(&mut self, disk: Arc<dyn Vfs>, rng: &mut StdRng) -> Result<Contents, String> {
        let Recovered {
            mut manifest,
            next_epoch: first_epoch,
            contents,
        } = recover(&disk)?;
        if rng.random_bool(0.3) {
            // Opening it again without writing anything must not change what it holds.
            let options = LogOptions {
                shards: rng.random_range(1..=3),
                ..LogOptions::default()
            };
            let log = Log::create(
                Arc::clone(&disk),
                Path::new(DATA),
                &mut manifest,
                options,
                first_epoch,
            )
            .map_err(failed("creating a log after recovery"))?;
            log.close().map_err(failed("closing an empty log"))?;
        }
        Ok(contents)
    }
}

/// One writing thread; its keys are its own.
struct Writer<'a> {
    log: &'a Arc<Log>,
    oracle: &'a Mutex<Oracle>,
    disk: &'a RecordingVfs,
    process_run: usize,
    thread: usize,
    rng: StdRng,
    /// The timestamp of each key's last commit: the floor of the next.
    last: BTreeMap<Vec<u8>, Timestamp>,
}

impl Writer<'_> {
    fn with_oracle<R>(&self, with: impl FnOnce(&mut Oracle) -> R) -> R {
        with(&mut self.oracle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn step(&mut self, step: usize) -> Result<(), String> {
        if self.thread == 0 && self.rng.random_range(0..12) == 0 {
            return self.log.rotate().map(drop).map_err(failed("a rotation"));
        }
        let mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..self.rng.random_range(1..=3) {
            let key = format!("{}-{}", self.thread, self.rng.random_range(0..6)).into_bytes();
            if changes.iter().all(|(other, _)| *other != key) {
                let length = [0, 10, 600, 1400][self.rng.random_range(0..4)];
                let mut value = format!("{}.{}.{step}", self.process_run, self.thread).into_bytes();
                value.resize(value.len() + length, b'v');
                changes.push((key, self.rng.random_bool(0.85).then_some(value)));
            }
        }
        self.commit(&changes)
    }

    fn commit(&mut self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), String> {
        let told = changes.iter().map(|(key, value)| Change {
            incarnation: 0,
            key: key.clone(),
            row: value.as_deref().map(row),
        });
        let issued = self.with_oracle(|oracle| oracle.issue(told.collect()));
        let operations: Vec<Operation<'_>> = changes
            .iter()
            .map(|(key, value)| Operation {
                keyspace: KEYSPACE,
                kind: if value.is_some() {
                    OperationKind::Put
                } else {
                    OperationKind::Remove
                },
                key,
                payload: value.as_deref().unwrap_or_default(),
            })
            .collect();
        let floors = changes.iter().filter_map(|(key, _)| self.last.get(key));
        let floor = floors.max().copied().unwrap_or(Timestamp::ZERO);
        let shard = self.rng.random_range(0..self.log.shards());
        let mut guard = self.log.shard(shard).map_err(failed("locking a shard"))?;
        let timestamp = guard.timestamp(floor);
        guard.append(timestamp, &operations);
        drop(guard);
        for (key, _) in changes {
            self.last.insert(key.clone(), timestamp);
        }
        self.with_oracle(|oracle| oracle.committed(issued, timestamp.epoch()));
        if self.rng.random_bool(0.4) {
            self.log
                .wait_durable(timestamp.epoch())
                .map_err(failed("waiting"))?;
            let operations = self.disk.operations();
            self.with_oracle(|oracle| oracle.acknowledged(issued, operations));
        }
        Ok(())
    }
}
