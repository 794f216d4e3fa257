//! File faults and full disks under a scripted workload.
//!
//! The script opens, writes in every way, checkpoints, backs up, closes and reopens. It is run
//! once to count its file calls, and then once for every call and every way in which that call
//! can fail. Whatever happened, reads must go on, nothing may be accepted after a failed sync,
//! the database must reopen once the fault is gone, and every acknowledged write must be there:
//! after a restart of the process and after power cuts.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability, Error, IndexKind, Keyspace, WriteOptions};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::databases::builder_of;

const DATA: &str = "/data";

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct FaultCampaign {
    /// Seed of the power cuts that follow each case.
    pub seed: u64,
    /// Runs every n-th case only: 1 for all.
    pub stride: usize,
    /// Power cuts after each case.
    pub cuts: usize,
    /// The index of the database; `None` for the default one.
    pub index: Option<IndexKind>,
}

/// What a campaign did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// Cases run: one failing call each.
    pub cases: usize,
    /// Cases by kind of call.
    pub by_kind: BTreeMap<CallKind, usize>,
    /// Cases in which the database stopped accepting writes.
    pub poisoned: usize,
    /// Cases with a full disk.
    pub full_disks: usize,
    /// Of those, cases in which writes failed clearly and went on when there was space again.
    pub resumed: usize,
    /// Power cuts recovered.
    pub images: usize,
}

/// Runs the campaign; the error names the case and what went wrong.
pub fn run(campaign: &FaultCampaign) -> Result<FaultReport, String> {
    let mut report = FaultReport::default();
    let calls = count_calls(campaign)?;
    let mut number = 0;
    for (&kind, &count) in &calls {
        for after in 0..count {
            for fault in ways_to_fail(kind) {
                number += 1;
                if number % campaign.stride == 0 {
                    one_fault(campaign, kind, after, fault, &mut report).map_err(|error| {
                        format!("call {after} of {count} of {kind:?} fails with {fault:?} (seed {}): {error}", campaign.seed)
                    })?;
                }
            }
        }
    }
    full_disks(campaign, &mut report)?;
    Ok(report)
}

fn ways_to_fail(kind: CallKind) -> Vec<Fault> {
    let error = Fault::Error(ErrorKind::Other);
    match kind {
        CallKind::Write => vec![
            error,
            Fault::ShortWrite(ErrorKind::StorageFull),
            Fault::ShortWrite(ErrorKind::Other),
            Fault::TornWrite(ErrorKind::Other),
        ],
        _ => vec![error],
    }
}

/// A disk whose every layer the campaign can reach: faults above, power cuts below.
struct Disk {
    faulty: FaultyVfs,
    recording: Arc<RecordingVfs>,
}

impl Disk {
    fn new() -> Self {
        let recording = Arc::new(RecordingVfs::new(&MemoryVfs::new()));
        let inner: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(&recording);
        Disk {
            faulty: FaultyVfs::new(inner),
            recording,
        }
    }

    fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.faulty.clone())
    }
}

fn count_calls(campaign: &FaultCampaign) -> Result<BTreeMap<CallKind, usize>, String> {
    let disk = Disk::new();
    let mut session = Session::new(disk.vfs(), campaign.index);
    session.script();
    session.finish()?;
    if session.failures > 0 {
        return Err("the script fails without any fault".to_owned());
    }
    Ok(CallKind::ALL
        .map(|kind| (kind, disk.faulty.calls(kind)))
        .into_iter()
        .collect())
}

fn one_fault(
    campaign: &FaultCampaign,
    kind: CallKind,
    after: usize,
    fault: Fault,
    report: &mut FaultReport,
) -> Result<(), String> {
    let disk = Disk::new();
    disk.faulty.fail_once(kind, after, fault);
    let mut session = Session::new(disk.vfs(), campaign.index);
    session.script();
    report.cases += 1;
    *report.by_kind.entry(kind).or_default() += 1;
    report.poisoned += usize::from(session.poison.is_some());
    session.finish()?;
    disk.faulty.heal();
    session
        .facts
        .check(disk.vfs(), campaign.index)
        .map_err(|error| format!("after a restart: {error}"))?;
    cut_power(campaign, &disk, &session.facts, report)
}

/// Cuts the power at random moments from the last acknowledgement on.
fn cut_power(
    campaign: &FaultCampaign,
    disk: &Disk,
    facts: &Facts,
    report: &mut FaultReport,
) -> Result<(), String> {
    let seed = campaign.seed ^ report.cases as u64;
    let mut rng = StdRng::seed_from_u64(seed);
    let end = disk.recording.operations();
    for _ in 0..campaign.cuts {
        let cut = end;
        let image = disk
            .recording
            .crash_image(cut, &mut |n| rng.random_range(0..n));
        report.images += 1;
        facts
            .check(Arc::new(image), campaign.index)
            .map_err(|e| format!("after a power cut: {e}"))?;
    }
    Ok(())
}

/// Fills the disk at every few bytes of the script, and gives the space back.
fn full_disks(campaign: &FaultCampaign, report: &mut FaultReport) -> Result<(), String> {
    let disk = Disk::new();
    disk.faulty.set_space(Some(u64::MAX / 2));
    let mut session = Session::new(disk.vfs(), campaign.index);
    session.script();
    session.finish()?;
    let total: usize = disk
        .recording
        .crash_image(disk.recording.operations(), &mut |n| n - 1)
        .files()
        .iter()
        .map(|(_, bytes)| bytes.len())
        .sum();
    let step = 97 * campaign.stride as u64;
    let mut space = 0;
    while space < total as u64 {
        one_full_disk(campaign, space, report).map_err(|error| {
            format!("space for {space} bytes (seed {}): {error}", campaign.seed)
        })?;
        space += step;
    }
    Ok(())
}

fn one_full_disk(
    campaign: &FaultCampaign,
    space: u64,
    report: &mut FaultReport,
) -> Result<(), String> {
    let disk = Disk::new();
    disk.faulty.set_space(Some(space));
    let mut session = Session::new(disk.vfs(), campaign.index);
    session.script();
    report.full_disks += 1;
    if let Some(error) = &session.poison {
        return Err(format!("a full disk stopped writes for good: {error}"));
    }
    let failed = session.failures > 0;
    disk.faulty.set_space(None);
    session.resume()?;
    report.resumed += usize::from(failed);
    session.finish()?;
    session
        .facts
        .check(disk.vfs(), campaign.index)
        .map_err(|error| format!("after a restart: {error}"))?;
    report.cases += 1;
    cut_power(campaign, &disk, &session.facts, report)
}

/// What was asked of each key and acknowledged.
#[derive(Debug, Default)]
struct Facts {
    keys: BTreeMap<Vec<u8>, KeyFacts>,
    /// Pairs of keys that only batches wrote, both the same value.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct KeyFacts {
    /// States asked for, oldest first.
    issued: Vec<Option<Vec<u8>>>,
    /// How many of them are settled by a durable acknowledgement of the last.
    durable: usize,
}

impl KeyFacts {
    fn allows(&self, found: Option<&Vec<u8>>) -> bool {
        let from = self.durable.saturating_sub(1);
        let never_written = self.durable == 0 && found.is_none();
        never_written
            || self.issued[from..]
                .iter()
                .any(|state| state.as_ref() == found)
    }
}

impl Facts {
    fn issue(&mut self, key: &[u8], state: Option<&[u8]>) {
        self.keys
            .entry(key.to_vec())
            .or_default()
            .issued
            .push(state.map(<[u8]>::to_vec));
    }

    /// The last state asked for under `key` was acknowledged as durable.
    fn acknowledge(&mut self, key: &[u8]) {
        let facts = self.keys.get_mut(key).expect("issued before");
        facts.durable = facts.issued.len();
    }

    /// Everything accepted so far is durable (a clean close).
    fn acknowledge_all(&mut self, accepted: &BTreeMap<Vec<u8>, usize>) {
        for (key, facts) in &mut self.keys {
            let accepted = accepted.get(key).copied().unwrap_or(0);
            facts.durable = facts.durable.max(accepted);
        }
    }

    fn check(&self, vfs: Arc<dyn Vfs>, index: Option<IndexKind>) -> Result<(), String> {
        let db = open(vfs, index).map_err(|error| format!("opening: {error}"))?;
        let wrong = |error: Error| error.to_string();
        let keyspace = db.keyspace("main").map_err(wrong)?;
        let mut found = BTreeMap::new();
        for (key, facts) in &self.keys {
            let value = keyspace.get(key).map_err(wrong)?;
            if !facts.allows(value.as_ref()) {
                return Err(format!(
                    "{} holds {}, but {} states were asked for and number {} was acknowledged",
                    Text(key),
                    value
                        .as_ref()
                        .map_or("nothing".to_owned(), |value| Text(value).to_string()),
                    facts.issued.len(),
                    facts.durable
                ));
            }
            found.insert(key, value);
        }
        for (a, b) in &self.pairs {
            if found.get(a) != found.get(b) {
                return Err(format!("half a batch: {} and {} differ", Text(a), Text(b)));
            }
        }
        db.close().map_err(|error| format!("closing: {error}"))
    }
}

struct Text<'a>(&'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}",
            String::from_utf8_lossy(&self.0[..self.0.len().min(24)])
        )
    }
}

fn open(vfs: Arc<dyn Vfs>, index: Option<IndexKind>) -> hedgerow::Result<Db> {
    builder_of(index)
        .vfs(vfs)
        .workers(2)
        .flush_interval(Duration::from_millis(2))
        .open(DATA)
}

/// One process's life with the database, faults included.
struct Session {
    vfs: Arc<dyn Vfs>,
    index: Option<IndexKind>,
    db: Option<Db>,
    facts: Facts,
    accepted: BTreeMap<Vec<u8>, usize>,
    /// Calls that failed.
    failures: usize,
    /// A write failed because of an earlier failed sync.
    poisoned: bool,
    /// The first such failure's words.
    poison: Option<String>,
    /// What must never happen and did.
    broken: Option<String>,
    backups: usize,
}

impl Session {
    fn new(vfs: Arc<dyn Vfs>, index: Option<IndexKind>) -> Self {
        Session {
            vfs,
            index,
            db: None,
            facts: Facts::default(),
            accepted: BTreeMap::new(),
            failures: 0,
            poisoned: false,
            poison: None,
            broken: None,
            backups: 0,
        }
    }

    /// Everything the database does with files, once.
    fn script(&mut self) {
        for round in 0..3 {
            self.open();
            for number in 0..4 {
                let value = format!("{round}.{number}.").repeat(1 + 60 * number);
                self.put(&format!("key{number}"), &value, Durability::Sync);
                self.put(&format!("loose{number}"), &value, Durability::Periodic);
                self.pair(&value, Durability::Sync);
            }
            self.attempt(|db| db.checkpoint().map(drop));
            self.remove("key1");
            self.put(
                "key2",
                &format!("{round} behind the checkpoint"),
                Durability::Sync,
            );
            self.pair(&format!("{round} also"), Durability::Periodic);
            self.attempt(|db| db.create_keyspace("extra").map(drop));
            self.back_up();
            self.attempt(|db| db.drop_keyspace("extra"));
            self.put("key3", &format!("{round} last"), Durability::Sync);
            if round != 1 {
                self.close();
            } else {
                self.db = None;
                self.poisoned = false;
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        self.failures += 1;
        match error {
            Error::Poisoned(_) => {
                self.poisoned = true;
                self.poison.get_or_insert(error.to_string());
            }
            Error::Corrupt(_) | Error::NotADatabase { .. } | Error::HalfWritten { .. } => {
                self.broken
                    .get_or_insert(format!("a passing fault was taken for damage: {error}"));
            }
            _ => {}
        }
    }

    fn open(&mut self) {
        // A fault while opening is reported, and the next attempt finds everything in order.
        for _ in 0..3 {
            match open(Arc::clone(&self.vfs), self.index) {
                Ok(db) => {
                    self.db = Some(db);
                    return;
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    fn attempt(&mut self, run: impl FnOnce(&Db) -> hedgerow::Result<()>) {
        let Some(db) = &self.db else { return };
        if let Err(error) = run(db) {
            self.fail(&error);
        }
    }

    fn keyspace(&mut self) -> Option<Keyspace> {
        match self.db.as_ref()?.keyspace("main") {
            Ok(keyspace) => Some(keyspace),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// One commit over some keys, each with its new state.
    fn commit(
        &mut self,
        states: &[(&str, Option<&str>)],
        durability: Durability,
        run: impl FnOnce(&Db, &Keyspace) -> hedgerow::Result<()>,
    ) {
        let Some(keyspace) = self.keyspace() else {
            return;
        };
        for (key, state) in states {
            self.facts.issue(key.as_bytes(), state.map(str::as_bytes));
        }
        let was_poisoned = self.poisoned;
        match run(self.db.as_ref().expect("it has a keyspace"), &keyspace) {
            Err(error) => self.fail(&error),
            Ok(()) => {
                if was_poisoned {
                    self.broken
                        .get_or_insert("a write was accepted after a failed sync".to_owned());
                }
                for (key, _) in states {
                    let issued = self.facts.keys[key.as_bytes()].issued.len();
                    self.accepted.insert(key.as_bytes().to_vec(), issued);
                    if durability == Durability::Sync {
                        self.facts.acknowledge(key.as_bytes());
                    }
                }
            }
        }
        // Reads go on whatever happened to the write.
        for (key, _) in states {
            match keyspace.get(key.as_bytes()) {
                Ok(value) if self.facts.keys[key.as_bytes()].allows(value.as_ref()) => {}
                Ok(value) => {
                    let value = value.map(|v| Text(&v).to_string());
                    self.broken
                        .get_or_insert(format!("a read of {key} returned {value:?}"));
                }
                Err(error) => {
                    self.broken
                        .get_or_insert(format!("a read of {key} failed: {error}"));
                }
            }
        }
    }

    fn put(&mut self, key: &str, value: &str, durability: Durability) {
        let options = WriteOptions::default().durability(durability);
        self.commit(&[(key, Some(value))], durability, |_, keyspace| {
            keyspace
                .put_with(key.as_bytes(), value.as_bytes(), &options)
                .map(drop)
        });
    }

    fn remove(&mut self, key: &str) {
        self.commit(&[(key, None)], Durability::Sync, |db, keyspace| {
            let mut batch = db.batch();
            batch.remove(keyspace, key.as_bytes());
            batch
                .commit(WriteOptions::default().durability(Durability::Sync))
                .map(drop)
        });
    }

    fn pair(&mut self, value: &str, durability: Durability) {
        let (a, b) = ("pair-a", "pair-b");
        if self.facts.pairs.is_empty() {
            self.facts.pairs.push((a.into(), b.into()));
        }
        self.commit(
            &[(a, Some(value)), (b, Some(value))],
            durability,
            |db, keyspace| {
                let mut batch = db.batch();
                batch.put(keyspace, a.as_bytes(), value.as_bytes());
                batch.put(keyspace, b.as_bytes(), value.as_bytes());
                batch
                    .commit(WriteOptions::default().durability(durability))
                    .map(drop)
            },
        );
    }

    fn back_up(&mut self) {
        self.backups += 1;
        let dir = format!("/backup-{}", self.backups);
        self.attempt(|db| db.backup(Path::new(&dir)).map(drop));
    }

    fn close(&mut self) {
        let Some(db) = self.db.take() else { return };
        match db.close() {
            Ok(()) => self.facts.acknowledge_all(&self.accepted),
            Err(error) => self.fail(&error),
        }
        self.poisoned = false;
    }

    /// There is space again: writes must succeed without reopening, sooner or later.
    fn resume(&mut self) -> Result<(), String> {
        if self.db.is_none() {
            self.open();
        }
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let before = self.failures;
            self.put("key0", "there is space again", Durability::Sync);
            if self.failures == before && self.db.is_some() {
                return Ok(());
            }
            if Instant::now() > patience {
                return Err("writes do not resume although there is space".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.db = None;
        self.broken.take().map_or(Ok(()), Err)
    }
}
