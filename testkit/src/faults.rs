//! File faults and full disks under a scripted workload.
//!
//! The script opens, writes in every way, checkpoints, backs up, closes and reopens. It is run
//! once to count its file calls, and then once for every call and every way in which that call
//! can fail. Whatever happened, reads must go on, nothing may be accepted after a failed sync,
//! the database must reopen once the fault is gone, and every acknowledged write must be there:
//! after a restart of the process and after power cuts.

mod facts;
mod pressed;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability, Error, IndexKind, Keyspace, WriteOptions};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::databases::builder_of;
use crate::pressure::{LEAST_MEMORY, Pressure, Watch};
use facts::{Facts, Text};

const DATA: &str = "/data";
/// What each log has reserved: some blocks.
const RESERVE_BYTES: u32 = 32 << 10;

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct FaultCampaign {
    /// Seed of the power cuts that follow each case.
    pub seed: u64,
    /// Runs every n-th case only: 1 for all.
    pub stride: usize,
    /// Which of `stride` cases to run: so campaigns can be divided.
    pub first: usize,
    /// Power cuts after each case.
    pub cuts: usize,
    /// The index of the database; `None` for the default one.
    pub index: Option<IndexKind>,
    /// Ten times as much data as memory, in a page file that grows and shrinks; for B-trees.
    pub under_pressure: bool,
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
    /// Cases with a sync that failed and lost its data.
    pub lost_syncs: usize,
    /// Cases with a full disk.
    pub full_disks: usize,
    /// Of those, cases in which writes failed clearly and went on when there was space again.
    pub resumed: usize,
    /// Power cuts recovered.
    pub images: usize,
    /// What happened to page files, if that counts.
    pub pressure: Option<Pressure>,
}

/// Runs the campaign; the error names the case and what went wrong.
pub fn run(campaign: &FaultCampaign) -> Result<FaultReport, String> {
    let base = Base::new(campaign)?;
    let mut report = FaultReport::default();
    let calls = base.count_calls()?;
    let mut number = 0;
    for (&kind, &count) in &calls {
        for after in 0..count {
            for fault in ways_to_fail(kind) {
                number += 1;
                if number % campaign.stride == campaign.first {
                    base.one_fault(kind, after, fault, &mut report).map_err(|error| {
                        format!("call {after} of {count} of {kind:?} fails with {fault:?} (seed {}): {error}", campaign.seed)
                    })?;
                }
            }
        }
    }
    let syncs = calls.get(&CallKind::Sync).copied().unwrap_or(0);
    for after in (campaign.first % campaign.stride..syncs).step_by(campaign.stride.min(4)) {
        base.lost_sync(after, &mut report).map_err(|error| {
            let seed = campaign.seed;
            format!("sync {after} of {syncs} fails and loses its data (seed {seed}): {error}")
        })?;
    }
    base.full_disks(&mut report)?;
    if let Some(pressure) = &report.pressure {
        pressure.judge()?;
    }
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
    fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.faulty.clone())
    }
}

/// What every case begins with.
struct Base<'a> {
    campaign: &'a FaultCampaign,
    disk: MemoryVfs,
    /// What is on it.
    facts: Facts,
}

impl<'a> Base<'a> {
    fn new(campaign: &'a FaultCampaign) -> Result<Base<'a>, String> {
        let mut base = Base {
            campaign,
            disk: MemoryVfs::new(),
            facts: Facts::default(),
        };
        if campaign.under_pressure {
            let vfs: Arc<dyn Vfs> = Arc::new(base.disk.clone());
            let mut session = Session::new(vfs, campaign, Facts::default());
            session.fill();
            session.finish()?;
            if session.failures > 0 {
                return Err("the rows cannot be written without any fault".to_owned());
            }
            base.facts = session.facts;
        }
        Ok(base)
    }

    fn disk(&self) -> Disk {
        let recording = Arc::new(RecordingVfs::new(&self.disk));
        let inner: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(&recording);
        Disk {
            faulty: FaultyVfs::new(inner),
            recording,
        }
    }

    fn session(&self, disk: &Disk) -> Session {
        Session::new(disk.vfs(), self.campaign, self.facts.clone())
    }

    fn count_calls(&self) -> Result<BTreeMap<CallKind, usize>, String> {
        let disk = self.disk();
        let mut session = self.session(&disk);
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
        &self,
        kind: CallKind,
        after: usize,
        fault: Fault,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        let disk = self.disk();
        disk.faulty.fail_once(kind, after, fault);
        let mut session = self.session(&disk);
        session.script();
        report.cases += 1;
        *report.by_kind.entry(kind).or_default() += 1;
        report.poisoned += usize::from(session.poison.is_some());
        session.finish()?;
        disk.faulty.heal();
        self.judge(&disk, &session, report)
    }

    /// A sync fails, and what it was to write is only in the system's cache from then on, which
    /// later lives of the database read. The power then goes.
    fn lost_sync(&self, after: usize, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        disk.recording.lose_sync(after);
        let mut session = self.session(&disk);
        session.script();
        report.cases += 1;
        report.lost_syncs += 1;
        session.finish()?;
        // How many syncs there are depends on which of them share one: this time it may not have come.
        disk.recording.heal();
        self.judge(&disk, &session, report)
    }

    /// Restarts the process, and cuts the power.
    fn judge(
        &self,
        disk: &Disk,
        session: &Session,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        if let Some(pressure) = session.pressure {
            report.pressure.get_or_insert_default().add(&pressure);
        }
        let facts = &session.facts;
        facts
            .check(open(disk.vfs(), self.campaign))
            .map_err(|error| format!("after a restart: {error}"))?;
        self.cut_power(disk, facts, report)
    }

    /// Cuts the power at random moments from the last acknowledgement on.
    fn cut_power(
        &self,
        disk: &Disk,
        facts: &Facts,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        let seed = self.campaign.seed ^ report.cases as u64;
        let mut rng = StdRng::seed_from_u64(seed);
        let end = disk.recording.operations();
        for _ in 0..self.campaign.cuts {
            let image = disk
                .recording
                .crash_image(end, &mut |n| rng.random_range(0..n));
            report.images += 1;
            facts
                .check(open(Arc::new(image), self.campaign))
                .map_err(|e| format!("after a power cut: {e}"))?;
        }
        Ok(())
    }

    /// Fills the disk at every few bytes of the script, and gives the space back.
    fn full_disks(&self, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        disk.faulty.set_space(Some(u64::MAX / 2));
        let mut session = self.session(&disk);
        session.script();
        session.finish()?;
        let sizes = |disk: &MemoryVfs| -> usize {
            let files = disk.files();
            files.iter().map(|(_, bytes)| bytes.len()).sum()
        };
        let end = disk.recording.operations();
        let total = match self.campaign.under_pressure {
            // It shrinks, so that its end says little: as much again as there was.
            true => sizes(&self.disk),
            false => sizes(&disk.recording.crash_image(end, &mut |n| n - 1)),
        };
        let fine = if self.campaign.under_pressure {
            total as u64 / 256
        } else {
            97
        };
        let mut space = 0;
        while space < total as u64 {
            self.one_full_disk(space, report).map_err(|error| {
                format!(
                    "space for {space} bytes (seed {}): {error}",
                    self.campaign.seed
                )
            })?;
            space += fine * self.campaign.stride.min(32) as u64;
        }
        Ok(())
    }

    fn one_full_disk(&self, space: u64, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        disk.faulty.set_space(Some(space));
        let mut session = self.session(&disk);
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
        report.cases += 1;
        self.judge(&disk, &session, report)
    }
}

fn open(vfs: Arc<dyn Vfs>, campaign: &FaultCampaign) -> hedgerow::Result<Db> {
    let builder = builder_of(campaign.index);
    let builder = match campaign.under_pressure {
        true => builder.memory_limit(Some(LEAST_MEMORY)),
        false => builder,
    };
    builder
        .vfs(vfs)
        .workers(2)
        .flush_interval(Duration::from_millis(2))
        // Little, so that disks are found full everywhere.
        .log_reserve_bytes(RESERVE_BYTES)
        .open(DATA)
}

/// One process's life with the database, faults included.
struct Session {
    vfs: Arc<dyn Vfs>,
    campaign: FaultCampaign,
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
    /// The page file of the database that is open.
    watch: Watch,
    /// What happened to it in all of its lives, if that counts.
    pressure: Option<Pressure>,
}

impl Session {
    fn new(vfs: Arc<dyn Vfs>, campaign: &FaultCampaign, facts: Facts) -> Self {
        Session {
            vfs,
            campaign: campaign.clone(),
            db: None,
            facts,
            accepted: BTreeMap::new(),
            failures: 0,
            poisoned: false,
            poison: None,
            broken: None,
            backups: 0,
            watch: Watch::default(),
            pressure: campaign.under_pressure.then(Pressure::default),
        }
    }

    /// Everything the database does with files, once.
    fn script(&mut self) {
        for round in 0..3 {
            self.open();
            self.press(round);
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
                drop(self.end());
                // Whether the close in it went well nobody hears.
                self.accepted.clear();
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
            match open(Arc::clone(&self.vfs), &self.campaign) {
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
        states: &[(&[u8], Option<&[u8]>)],
        durability: Durability,
        run: impl FnOnce(&Db, &Keyspace) -> hedgerow::Result<()>,
    ) {
        let Some(keyspace) = self.keyspace() else {
            return;
        };
        for (key, state) in states {
            self.facts.issue(key, *state);
        }
        let was_poisoned = self.poisoned;
        match run(self.db.as_ref().expect("it has a keyspace"), &keyspace) {
            Err(error) => self.fail(&error),
            Ok(()) => {
                if was_poisoned {
                    self.broken
                        .get_or_insert("a write was accepted after a failed sync".to_owned());
                }
                for &(key, _) in states {
                    let issued = self.facts.keys[key].issued.len();
                    self.accepted.insert(key.to_vec(), issued);
                    if durability == Durability::Sync {
                        self.facts.acknowledge(key);
                    }
                }
            }
        }
        // Reads go on whatever happened to the write.
        for (key, _) in states {
            self.read_back(&keyspace, key);
        }
    }

    fn read_back(&mut self, keyspace: &Keyspace, key: &[u8]) {
        let mut found = keyspace.get(key);
        if let (true, Err(error)) = (self.campaign.under_pressure, &found) {
            // The call that fails may be the read of a page: once.
            self.fail(error);
            found = keyspace.get(key);
        }
        match found {
            Ok(value) if self.facts.keys[key].allows(value.as_ref()) => {}
            Ok(value) => {
                let value = value.map(|v| Text(&v).to_string());
                self.broken
                    .get_or_insert(format!("a read of {} returned {value:?}", Text(key)));
            }
            Err(error) => {
                self.broken
                    .get_or_insert(format!("a read of {} failed: {error}", Text(key)));
            }
        }
    }

    fn put(&mut self, key: &str, value: &str, durability: Durability) {
        let options = WriteOptions::default().durability(durability);
        let states = [(key.as_bytes(), Some(value.as_bytes()))];
        self.commit(&states, durability, |_, keyspace| {
            keyspace
                .put_with(key.as_bytes(), value.as_bytes(), &options)
                .map(drop)
        });
    }

    fn remove(&mut self, key: &str) {
        self.commit(
            &[(key.as_bytes(), None)],
            Durability::Sync,
            |db, keyspace| {
                let mut batch = db.batch();
                batch.remove(keyspace, key.as_bytes());
                batch
                    .commit(WriteOptions::default().durability(Durability::Sync))
                    .map(drop)
            },
        );
    }

    fn pair(&mut self, value: &str, durability: Durability) {
        let (a, b) = ("pair-a", "pair-b");
        if self.facts.pairs.is_empty() {
            self.facts.pairs.push((a.into(), b.into()));
        }
        self.commit(
            &[a, b].map(|key| (key.as_bytes(), Some(value.as_bytes()))),
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
        let Some(db) = self.end() else { return };
        match db.close() {
            Ok(()) => self.facts.acknowledge_all(&self.accepted),
            Err(error) => {
                self.fail(&error);
                // The next life may begin without what this one accepted and did not make durable:
                // that it closes well says nothing about that.
                self.accepted.clear();
            }
        }
        self.poisoned = false;
    }

    /// There is space again: writes must succeed without reopening, sooner or later.
    fn resume(&mut self) -> Result<(), String> {
        if self.db.is_none() {
            self.open();
        }
        let patience = Instant::now() + Duration::from_secs(300);
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

    /// Forgets the database that is open, but for what happened to its page file.
    fn end(&mut self) -> Option<Db> {
        self.look();
        if let Some(pressure) = &mut self.pressure {
            pressure.add(&std::mem::take(&mut self.watch).seen());
        }
        self.db.take()
    }

    fn finish(&mut self) -> Result<(), String> {
        self.end();
        self.broken.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_life_lost_is_not_settled_when_the_next_closes() {
        let campaign = FaultCampaign {
            seed: 0,
            stride: 1,
            first: 0,
            cuts: 0,
            index: None,
            under_pressure: false,
        };
        let base = Base::new(&campaign).unwrap();
        let disk = base.disk();
        let mut session = base.session(&disk);
        session.open();
        session.put("first", "durable", Durability::Sync);
        disk.faulty
            .fail_once(CallKind::Sync, 0, Fault::Error(ErrorKind::Other));
        session.put("key", "accepted", Durability::Periodic);
        session.close();
        assert!(session.failures > 0, "the fault met nothing");
        assert_eq!(session.broken, None);
        session.open();
        session.close();
        assert!(session.facts.keys[&b"key"[..]].allows(None));
        session.finish().unwrap();
    }
}
