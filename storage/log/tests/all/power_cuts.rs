//! Power cuts at every step of random workloads of a log, and again during the recovery.
//!
//! A workload appends, asks for durability, rotates, checkpoints and reopens on a recording disk.
//! Then the disk is cut behind every recorded change, many images each. Every image must recover
//! to exactly the commits of closed epochs, with every acknowledged one among them.
//!
//! `HEDGEROW_LOG_WORKLOADS=500 cargo test --release -p hedgerow-log --test all power_cuts` runs
//! longer; `HEDGEROW_LOG_SEED` repeats one workload.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointWriter, Log, LogOptions, Manifest, Operation,
    OperationKind, RecoveredLogs, Timestamp, check, remove_obsolete,
};
use hedgerow_vfs::{FileLock, MemoryVfs, OpenMode, RecordingVfs, Vfs, VfsFile};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::{DIR, dir};

/// A commit: unique by its key.
#[derive(Clone, Debug)]
struct Issued {
    incarnation: u32,
    generation: u32,
    timestamp: Timestamp,
    /// All its operations carry the same number.
    operations: usize,
    /// When its appending began and ended, on a clock that ticks with every append.
    began: u64,
    ended: u64,
}

/// What happened in a workload: what its crash images are judged by.
#[derive(Default)]
struct History {
    issued: BTreeMap<u64, Issued>,
    /// When (in recorded changes) a commit was acknowledged as durable.
    acknowledged: Vec<(usize, u64)>,
    /// The same for commits that were written out: they survive a kill.
    handed_over: Vec<(usize, u64)>,
    clock: Arc<AtomicU64>,
    /// Whether cuts may lie inside an epoch.
    written_out: bool,
}

fn tick(clock: &AtomicU64) -> u64 {
    clock.fetch_add(1, Ordering::SeqCst)
}

/// Runs one workload on `vfs`, whose recorder is `recorder`.
fn run_workload(vfs: &Arc<dyn Vfs>, recorder: &RecordingVfs, rng: &mut SmallRng) -> History {
    let mut history = History::default();
    let mut manifest = Manifest::new(77);
    manifest.store(&**vfs, dir()).unwrap();
    for _ in 0..rng.random_range(1..4) {
        incarnation(vfs, recorder, &mut manifest, &mut history, rng);
    }
    history
}

fn incarnation(
    vfs: &Arc<dyn Vfs>,
    recorder: &RecordingVfs,
    manifest: &mut Manifest,
    history: &mut History,
    rng: &mut SmallRng,
) {
    let shards = rng.random_range(1..=4);
    let logs = RecoveredLogs::open(Arc::clone(vfs), dir(), manifest).unwrap();
    let options = LogOptions {
        shards,
        // Zero: commits and their witnesses happen unasked, at any moment.
        flush_interval: if rng.random_bool(0.3) {
            Duration::ZERO
        } else {
            Duration::from_secs(3600)
        },
        write_threshold_bytes: if rng.random_bool(0.3) { 600 } else { 1 << 20 },
        // What is written at once becomes several blocks, any of which may tear.
        block_bytes: if rng.random_bool(0.5) { 200 } else { 1 << 20 },
        ..LogOptions::default()
    };
    let log = Log::create(Arc::clone(vfs), dir(), manifest, options, logs.next_epoch()).unwrap();
    let mut generation = manifest.incarnations.last().unwrap().first_generation;
    for _ in 0..rng.random_range(1..30) {
        match rng.random_range(0..20) {
            0 => generation = log.rotate().unwrap().generation,
            1 => generation = checkpoint(vfs, recorder, &log, manifest, history),
            2 => burst(
                recorder,
                &log,
                rng,
                history,
                manifest.incarnation,
                generation,
            ),
            3..=4 => {
                if rng.random_bool(0.5) {
                    // So that the flusher may have come first.
                    std::thread::sleep(Duration::from_micros(200));
                }
                log.write_out().unwrap();
                history.written_out = true;
                let now = recorder.operations();
                let all: Vec<u64> = history.issued.keys().copied().collect();
                history
                    .handed_over
                    .extend(all.into_iter().map(|number| (now, number)));
            }
            5..=8 => acknowledge(recorder, &log, history, log.epoch()),
            _ => append(&log, rng, history, manifest.incarnation, generation),
        }
    }
    if rng.random_bool(0.5) {
        let end = log.close().unwrap();
        let epoch = end.cutoff_epoch;
        manifest.record_end(end);
        manifest.clean_shutdown = true;
        manifest.store(&**vfs, dir()).unwrap();
        acknowledge_upto(recorder, history, epoch);
    } else {
        // Dropping closes too, but the manifest does not hear of it.
        drop(log);
    }
}

fn append(log: &Log, rng: &mut SmallRng, history: &mut History, incarnation: u32, generation: u32) {
    let number = history.issued.len() as u64;
    let count = rng.random_range(1..4);
    let payload = vec![number as u8; [0, 10, 300, 2000][rng.random_range(0..4)]];
    let key = number.to_be_bytes();
    let operation = Operation {
        keyspace: 1,
        kind: OperationKind::Put,
        key: &key,
        payload: &payload,
    };
    let began = tick(&history.clock);
    let mut guard = log.shard(rng.random_range(0..log.shards())).unwrap();
    let timestamp = guard.timestamp(Timestamp::ZERO);
    guard.append(timestamp, &vec![operation; count]);
    drop(guard);
    let issued = Issued {
        incarnation,
        generation,
        timestamp,
        operations: count,
        began,
        ended: tick(&history.clock),
    };
    history.issued.insert(number, issued);
}

/// Several threads commit at once, so that epochs close with writers under way.
fn burst(
    recorder: &RecordingVfs,
    log: &Log,
    rng: &mut SmallRng,
    history: &mut History,
    incarnation: u32,
    generation: u32,
) {
    let first = history.issued.len() as u64;
    let clock = Arc::clone(&history.clock);
    let writes_out = rng.random_bool(0.5);
    history.written_out |= writes_out;
    let shared = Mutex::new(history);
    let seeds: Vec<u64> = (0..3).map(|_| rng.random()).collect();
    std::thread::scope(|scope| {
        for (thread, seed) in seeds.into_iter().enumerate() {
            let (shared, clock) = (&shared, &clock);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(seed);
                for at in 0..4 {
                    let key = (first + 4 * thread as u64 + at).to_be_bytes();
                    let kind = OperationKind::Put;
                    let operation = Operation {
                        keyspace: 1,
                        kind,
                        key: &key,
                        payload: &[9; 50],
                    };
                    let began = tick(clock);
                    let mut guard = log.shard(rng.random_range(0..log.shards())).unwrap();
                    let timestamp = guard.timestamp(Timestamp::ZERO);
                    guard.append(timestamp, &[operation]);
                    drop(guard);
                    let issued = Issued {
                        incarnation,
                        generation,
                        timestamp,
                        operations: 1,
                        began,
                        ended: tick(clock),
                    };
                    shared
                        .lock()
                        .unwrap()
                        .issued
                        .insert(u64::from_be_bytes(key), issued);
                    if rng.random_bool(0.3) {
                        log.wait_durable(timestamp.epoch()).unwrap();
                        let history = &mut shared.lock().unwrap();
                        acknowledge_upto(recorder, history, timestamp.epoch());
                    } else if writes_out {
                        log.write_out().unwrap();
                        let now = recorder.operations();
                        let number = u64::from_be_bytes(key);
                        shared.lock().unwrap().handed_over.push((now, number));
                    }
                }
            });
        }
    });
}

fn acknowledge(recorder: &RecordingVfs, log: &Log, history: &mut History, epoch: u64) {
    log.wait_durable(epoch).unwrap();
    acknowledge_upto(recorder, history, epoch);
}

fn acknowledge_upto(recorder: &RecordingVfs, history: &mut History, epoch: u64) {
    let now = recorder.operations();
    let done = history
        .issued
        .iter()
        .filter(|(_, issued)| issued.timestamp.epoch() <= epoch);
    let done: Vec<_> = done.map(|(&number, _)| (now, number)).collect();
    history.acknowledged.extend(done);
}

/// Checkpoints that the manifest keeps.
const RETAINED: usize = 2;

/// Rotates and writes everything older into a checkpoint.
fn checkpoint(
    vfs: &Arc<dyn Vfs>,
    recorder: &RecordingVfs,
    log: &Log,
    manifest: &mut Manifest,
    history: &mut History,
) -> u32 {
    let point = log.rotate().unwrap();
    acknowledge_upto(recorder, history, point.epoch);
    let (generation, id) = (point.generation, manifest.database_id);
    let mut writer = CheckpointWriter::create(Arc::clone(vfs), dir(), id, generation, 0).unwrap();
    for number in history.issued.keys() {
        writer
            .append(1, &number.to_be_bytes(), b"in the checkpoint")
            .unwrap();
    }
    acknowledge(recorder, log, history, log.epoch());
    let parts = vec![writer.finish().unwrap()];
    let timestamp = Timestamp::new(point.epoch, 0);
    let entry = CheckpointEntry {
        generation,
        timestamp,
        parts,
    };
    manifest.install_checkpoint(entry, RETAINED);
    manifest.store(&**vfs, dir()).unwrap();
    remove_obsolete(&**vfs, dir(), manifest).unwrap();
    generation
}

/// Recovers an image and returns the numbers of the commits that it holds, in checkpoint or log.
fn recover(image: &Arc<dyn Vfs>, history: &History) -> Result<Vec<u64>, String> {
    let mut manifest = Manifest::load(&**image, dir()).map_err(|e| e.to_string())?;
    let mut logs =
        RecoveredLogs::open(Arc::clone(image), dir(), &mut manifest).map_err(|e| e.to_string())?;
    let mut found = read_checkpoint(&**image, &manifest, 0)?;
    // What counts is what the manifest says of each incarnation.
    let cutoff = |incarnation| {
        let mut entries = manifest.incarnations.iter();
        let entry = entries.find(|entry| entry.incarnation == incarnation)?;
        Some(entry.end.as_ref()?.cutoff_epoch)
    };
    let counts = |issued: &Issued| {
        issued.generation >= manifest.replayed_from()
            && cutoff(issued.incarnation).is_some_and(|cutoff| issued.timestamp.epoch() <= cutoff)
    };
    let mut may_count = history.issued.clone();
    may_count.retain(|_, issued| counts(issued));
    let mut logged = Vec::new();
    let mut last = Timestamp::ZERO;
    let mut commits = logs.commits();
    while let Some(commit) = commits.next().map_err(|e| e.to_string())? {
        if commit.timestamp() < last {
            return Err(format!("{} comes after {last}", commit.timestamp()));
        }
        last = commit.timestamp();
        let numbers: Vec<u64> = commit
            .operations()
            .map(|operation| u64::from_be_bytes(operation.key.try_into().unwrap()))
            .collect();
        let number = numbers[0];
        let issued = history
            .issued
            .get(&number)
            .ok_or("a commit that was never made")?;
        if numbers != vec![number; issued.operations] || issued.timestamp != last {
            return Err(format!("commit {number} came back changed"));
        }
        logged.push(number);
    }
    logged.sort();
    check_cut(history, &may_count, &logged)?;
    found.extend(logged);
    found.sort();
    found.dedup();
    for nth in 1..manifest.checkpoints.len() {
        check_older(image, &manifest, nth, &mut logs, history, &found)?;
    }
    Ok(found)
}

/// The numbers in the checkpoint that is the `nth` in the manifest, from 0.
fn read_checkpoint(vfs: &dyn Vfs, manifest: &Manifest, nth: usize) -> Result<Vec<u64>, String> {
    let mut found = Vec::new();
    let Some(entry) = manifest.checkpoints.get(nth) else {
        return Ok(found);
    };
    for part in &entry.parts {
        let id = manifest.database_id;
        let mut reader = CheckpointReader::open(vfs, dir(), id, entry.generation, part)
            .map_err(|e| e.to_string())?;
        while let Some(record) = reader.next().map_err(|e| e.to_string())? {
            found.push(u64::from_be_bytes(record.key.try_into().unwrap()));
        }
    }
    Ok(found)
}

/// An older checkpoint and the logs since have what counts of `found`, which the newest one and
/// the logs since it have.
fn check_older(
    image: &Arc<dyn Vfs>,
    manifest: &Manifest,
    nth: usize,
    logs: &mut RecoveredLogs,
    history: &History,
    found: &[u64],
) -> Result<(), String> {
    let mut older = read_checkpoint(&**image, manifest, nth)?;
    let replayed = logs.replay_from(manifest.checkpoints[nth].generation);
    replayed.map_err(|e| e.to_string())?;
    let mut commits = logs.commits();
    while let Some(commit) = commits.next().map_err(|e| e.to_string())? {
        let operation = commit.operations().next().ok_or("an empty commit")?;
        older.push(u64::from_be_bytes(operation.key.try_into().unwrap()));
    }
    older.sort();
    let acknowledged = history.acknowledged.iter().map(|(_, number)| number);
    let mut counting = acknowledged.filter(|number| found.binary_search(number).is_ok());
    match counting.find(|number| older.binary_search(number).is_err()) {
        Some(number) => Err(format!(
            "commit {number} is not in checkpoint {nth} and its logs"
        )),
        None => Ok(()),
    }
}

/// What was recovered is a cut through time: with each commit, all that were complete before it
/// began. Without `write_out` it is even exactly the commits of closed epochs.
fn check_cut(
    history: &History,
    may_count: &BTreeMap<u64, Issued>,
    logged: &[u64],
) -> Result<(), String> {
    let is_logged = |number: &u64| logged.binary_search(number).is_ok();
    if let Some(number) = logged.iter().find(|number| !may_count.contains_key(number)) {
        return Err(format!("commit {number} is of no closed epoch"));
    }
    let mut last_began: BTreeMap<u32, u64> = BTreeMap::new();
    for number in logged {
        let issued = &may_count[number];
        let began = last_began.entry(issued.incarnation).or_default();
        *began = (*began).max(issued.began);
    }
    for (number, issued) in may_count {
        let before = last_began
            .get(&issued.incarnation)
            .is_some_and(|last| issued.ended < *last);
        if (before || !history.written_out) && !is_logged(number) {
            return Err(format!("commit {number} is missing though it counts"));
        }
    }
    Ok(())
}

/// Everything that must hold of the disk after a cut behind `cut` changes.
fn judge(
    image: &MemoryVfs,
    history: &History,
    cut: usize,
    rng: &mut SmallRng,
) -> Result<(), String> {
    let recorder = RecordingVfs::new(image);
    let recording: Arc<dyn Vfs> = Arc::new(recorder.clone());
    let found = recover(&recording, history)?;
    for (when, number) in &history.acknowledged {
        if *when <= cut && found.binary_search(number).is_err() {
            return Err(format!("commit {number} was acknowledged and is gone"));
        }
    }
    if found != recover(&recording, history)? {
        return Err("a second recovery finds something else".into());
    }
    let mut problems = Vec::new();
    check(recording, dir(), &mut |problem| {
        problems.push(problem.to_string())
    })
    .map_err(|e| e.to_string())?;
    if !problems.is_empty() {
        return Err(format!("check complains: {problems:?}"));
    }
    // A cut during that recovery.
    let second = rng.random_range(0..=recorder.operations());
    let again = recorder.crash_image(second, &mut |n| rng.random_range(0..n));
    let manifest = Manifest::load(&again, dir()).map_err(|e| e.to_string())?;
    let decided = manifest
        .incarnations
        .iter()
        .all(|entry| entry.end.is_some());
    let refound = recover(&(Arc::new(again) as Arc<dyn Vfs>), history)?;
    if decided && refound != found {
        return Err("a cut during recovery changed a decision".into());
    }
    let mut acknowledged = history.acknowledged.iter().filter(|(when, _)| *when <= cut);
    if acknowledged.any(|(_, number)| refound.binary_search(number).is_err()) {
        return Err("a cut during recovery lost an acknowledged commit".into());
    }
    Ok(())
}

/// Nothing that was written out is lost with the process.
fn judge_kill(killed: MemoryVfs, history: &History, cut: usize) -> Result<(), String> {
    let found = recover(&(Arc::new(killed) as Arc<dyn Vfs>), history)?;
    let mut kept = history
        .handed_over
        .iter()
        .chain(&history.acknowledged)
        .filter(|(when, _)| *when <= cut);
    match kept.find(|(_, number)| found.binary_search(number).is_err()) {
        Some((_, number)) => Err(format!("commit {number} was written out and is gone")),
        None => Ok(()),
    }
}

/// Runs a workload on a disk seen through `wrap`, cuts it everywhere, and returns how many images
/// passed, or the first complaint.
fn campaign(
    seed: u64,
    images_per_cut: usize,
    wrap: &dyn Fn(RecordingVfs) -> Arc<dyn Vfs>,
) -> Result<usize, String> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let base = MemoryVfs::new();
    base.create_dir_all(dir()).unwrap();
    let recorder = RecordingVfs::new(&base);
    let history = run_workload(&wrap(recorder.clone()), &recorder, &mut rng);
    // The manifest that creates the database is the first thing made durable.
    let created = (0..=recorder.operations())
        .find(|&cut| {
            let nothing = recorder.crash_image(cut, &mut |_| 0);
            Manifest::load(&nothing, dir()).is_ok()
        })
        .ok_or("the first manifest never becomes durable")?;
    let mut images = 0;
    for cut in created..=recorder.operations() {
        // A kill: the machine goes on, and with it all that was written.
        let killed = recorder.crash_image(cut, &mut |n| n - 1);
        judge_kill(killed, &history, cut).map_err(|e| format!("seed {seed}, kill {cut}: {e}"))?;
        for _ in 0..images_per_cut {
            let image = recorder.crash_image(cut, &mut |n| rng.random_range(0..n));
            judge(&image, &history, cut, &mut rng)
                .map_err(|e| format!("seed {seed}, cut {cut}: {e}"))?;
            images += 1;
        }
    }
    Ok(images)
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_image_recovers_to_a_cut_through_time_with_all_acknowledged_commits() {
    let workloads = environment("HEDGEROW_LOG_WORKLOADS").unwrap_or(25);
    let first = environment("HEDGEROW_LOG_SEED").unwrap_or_else(|| rand::rng().random());
    println!("seed {first}");
    let mut images = 0;
    for workload in 0..workloads {
        let outcome = campaign(first.wrapping_add(workload), 3, &|recorder| {
            Arc::new(recorder)
        });
        images += outcome.unwrap_or_else(|complaint| panic!("{complaint}"));
    }
    println!("{images} images");
    assert!(images as u64 >= workloads * 30);
}

/// A file layer that lies about one kind of sync.
struct Liar {
    inner: RecordingVfs,
    /// Files whose syncs are left out, by part of their path.
    files: &'static str,
    /// Only syncs of files longer than this are left out: log file headers have 64 bytes.
    beyond: u64,
    /// Whether syncs of directories are left out.
    names: bool,
}

struct LiarFile {
    inner: Box<dyn VfsFile>,
    lies: bool,
    beyond: u64,
}

impl Vfs for Liar {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let lies = !self.files.is_empty() && path.to_string_lossy().contains(self.files);
        Ok(Box::new(LiarFile {
            inner: self.inner.open(path, mode)?,
            lies,
            beyond: self.beyond,
        }))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // The database's first manifest is let through: there is nothing to judge before it.
        let first = !self.inner.exists(&dir.join("log"))? && dir == Path::new(DIR);
        if self.names && !first {
            Ok(())
        } else {
            self.inner.sync_dir(dir)
        }
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}

impl VfsFile for LiarFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        let left_out = self.lies && self.inner.len()? > self.beyond;
        if left_out { Ok(()) } else { self.inner.sync() }
    }
    fn truncate(&self, length: u64) -> io::Result<()> {
        self.inner.truncate(length)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

/// The campaign itself is checked: with a sync left out, it must complain.
#[track_caller]
fn assert_caught(files: &'static str, beyond: u64, names: bool) {
    let complaint = (0..200).find_map(|seed| {
        campaign(seed, 2, &|inner| {
            Arc::new(Liar {
                inner,
                files,
                beyond,
                names,
            })
        })
        .err()
    });
    println!("{}", complaint.expect("a missing sync goes unnoticed"));
}

#[test]
fn a_missing_sync_of_log_files_is_noticed() {
    assert_caught(".log", 64, false);
}

#[test]
fn a_missing_sync_of_one_shard_is_noticed() {
    assert_caught("-0001.log", 64, false);
}

#[test]
fn a_missing_sync_of_file_headers_is_noticed() {
    assert_caught(".log", 0, false);
}

#[test]
fn a_missing_sync_of_the_manifest_is_noticed() {
    assert_caught("MANIFEST", 0, false);
}

#[test]
fn a_missing_sync_of_checkpoints_is_noticed() {
    assert_caught(".ckpt", 0, false);
}

#[test]
fn a_missing_sync_of_directories_is_noticed() {
    assert_caught("", 0, true);
}
