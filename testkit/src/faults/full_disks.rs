//! Disks that fill up: at every step of the script, and under a database that is open and has its
//! reserve, which must then take removals and be opened again, whatever space is left.

use hedgerow_vfs::MemoryVfs;

use super::session::Session;
use super::{Base, Disk, FaultReport};
use crate::databases::key_of;

/// Openings of a database on a full disk.
const PROCESS_RUNS: usize = 3;
/// Space left under a small database, at most: more than its logs have reserved.
const MOST_SPACE_BYTES: u64 = 128 << 10;
/// A value for which neither that nor what the logs have reserved is enough.
const LARGE_VALUE_BYTES: usize = 192 << 10;

impl Base<'_> {
    /// Fills the disk at every few bytes of the script, and gives the space back.
    pub(super) fn full_disks(&self, report: &mut FaultReport) -> Result<(), String> {
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
        let mut space = 0;
        while space < (total as u64).max(MOST_SPACE_BYTES) {
            let outcome = self.full_while_open(space, report);
            let seed = self.campaign.seed;
            outcome.map_err(|e| format!("{space} bytes left under it (seed {seed}): {e}"))?;
            let outcome = self.full_under_a_large_value(space, report);
            outcome.map_err(|e| format!("{space} bytes left, a large value (seed {seed}): {e}"))?;
            space += (total as u64 / 64).max(1_237) * self.campaign.stride.min(8) as u64;
        }
        Ok(())
    }

    /// A database that was opened with space, and has so much left now.
    fn session_that_fills(&self, disk: &Disk, space: u64) -> Result<Session, String> {
        disk.faulty.set_space(Some(u64::MAX / 2));
        let mut session = self.session(disk);
        session.open();
        session.begin_on_full_disk();
        if session.failures > 0 {
            return Err("something failed before the disk was full".to_owned());
        }
        disk.faulty.set_space(Some(space));
        Ok(session)
    }

    /// A value is larger than the space that is left with what the logs have reserved: it waits in
    /// memory for space, and becomes durable when that comes.
    fn full_under_a_large_value(&self, space: u64, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        let mut session = self.session_that_fills(&disk, space)?;
        let value = "large.".repeat(LARGE_VALUE_BYTES / 6);
        session.put("key3", &value, hedgerow::Durability::Sync);
        let failures = session.failures;
        session.put("key1", "behind it", hedgerow::Durability::Sync);
        session.check_not_poisoned()?;
        let waits = session.holds("key3", value.as_bytes());
        disk.faulty.set_space(None);
        session.resume()?;
        if waits && failures > 0 {
            report.waited += 1;
            // It was visible before a later write that is durable.
            let key = key_of(self.campaign.index, "key3");
            session.facts.acknowledge(&key);
        }
        session.finish()?;
        report.cases += 1;
        report.full_disks += 1;
        report.resumed += usize::from(failures > 0);
        self.judge(&disk, &session, report)
    }

    /// The disk fills up under a database that had space when it was opened.
    fn full_while_open(&self, space: u64, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        let mut session = self.session_that_fills(&disk, space)?;
        for process_run in 0..PROCESS_RUNS {
            session.free_space(process_run)?;
            session.close();
            session.open_at_once()?;
            report.full_openings += 1;
        }
        session.clear_scratch()?;
        session.check_not_poisoned()?;
        disk.faulty.set_space(None);
        session.resume()?;
        session.finish()?;
        report.cases += 1;
        report.full_disks += 1;
        self.judge(&disk, &session, report)
    }

    fn one_full_disk(&self, space: u64, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        disk.faulty.set_space(Some(space));
        let mut session = self.session(&disk);
        session.script();
        report.full_disks += 1;
        session.check_not_poisoned()?;
        let failed = session.failures > 0;
        disk.faulty.set_space(None);
        session.resume()?;
        report.resumed += usize::from(failed);
        session.finish()?;
        report.cases += 1;
        self.judge(&disk, &session, report)
    }
}

impl Session {
    /// What is there before the disk is full. Under pressure the log becomes larger than memory.
    fn begin_on_full_disk(&mut self) {
        self.press(0);
        self.overwrite_rows("before");
        for number in 0..PROCESS_RUNS {
            let key = format!("free{number}");
            self.put(&key, "to be removed", hedgerow::Durability::Sync);
        }
        self.put("key0", "stays", hedgerow::Durability::Sync);
        self.attempt(|db| db.create_keyspace("scratch").map(drop));
    }

    /// A full disk is no failed one.
    fn check_not_poisoned(&self) -> Result<(), String> {
        match &self.poison {
            None => Ok(()),
            Some(error) => Err(format!("a full disk stopped writes for good: {error}")),
        }
    }

    /// Writes, which the disk may refuse, and removes, which it must not.
    fn free_space(&mut self, process_run: usize) -> Result<(), String> {
        for number in 0..20 {
            let value = format!("{process_run}.{number}.").repeat(200);
            self.put("key2", &value, hedgerow::Durability::Sync);
        }
        let failures = self.failures;
        self.remove(&format!("free{process_run}"));
        if self.failures > failures {
            return Err(format!(
                "a removal was refused in process run {process_run}"
            ));
        }
        Ok(())
    }

    /// Opens the database, at the first attempt.
    fn open_at_once(&mut self) -> Result<(), String> {
        let failures = self.failures;
        self.open();
        if self.failures > failures {
            return Err("it did not open".to_owned());
        }
        Ok(())
    }

    /// Whether the key has this value now.
    fn holds(&self, name: &str, value: &[u8]) -> bool {
        let key = key_of(self.campaign.index, name);
        let db = self.db.as_ref().expect("it is open");
        let keyspace = self.campaign.keyspace_of(db, &key);
        let found = keyspace.and_then(|keyspace| keyspace.get(&key));
        found.is_ok_and(|found| found.as_deref() == Some(value))
    }

    fn clear_scratch(&mut self) -> Result<(), String> {
        let failures = self.failures;
        self.attempt(|db| db.clear_keyspace("scratch"));
        self.attempt(|db| db.drop_keyspace("scratch"));
        if self.failures > failures {
            return Err("a keyspace could not be cleared and dropped".to_owned());
        }
        Ok(())
    }
}
