//! Writers beside one reader that stays: what a snapshot, or a read transaction, that lives for a
//! minute costs those who write meanwhile, and what it makes memory and files grow by.
//!
//! Writers run alone, beside the reader, and alone again, each for the same time; the ratio is that
//! of the second to the mean of the others. Each writes one record at a time, drawn evenly, with a
//! number that grows. The reader mostly sleeps: what it costs is that it is there. It remembers
//! some records as they were when it began, and must find them so until it ends. An engine may end
//! it sooner, as ours does when versions take more memory than they may: then it lasted for a part.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow_lab_contender::{SharedTransactionalStore, StoreSettings, Sync, TransactionalEntry};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use super::records::{VALUE_BYTES, get, key_of, load};
use super::stores::{self, Memory};
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{disk_bytes, resident_bytes};
use crate::registry::Registry;
use crate::threads::at_once;
use crate::{LabError, Result};

/// Records that the reader remembers.
const REMEMBERED: u64 = 1000;
/// How long the reader sleeps after it has read a part of them.
const SLEEP: Duration = Duration::from_millis(5);
/// How many are a part.
const PART: usize = 50;
/// Writes between two looks at the clock.
const STEP: u64 = 16;

/// The experiment.
pub(super) struct Beside;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: u64,
    threads: usize,
    leg_ms: u64,
    /// Memory that a store may take by its own settings, if that is limited.
    store_bytes: Option<u64>,
    directory: Option<PathBuf>,
}

/// A loaded store under measurement.
struct Loaded<'a> {
    workload: &'a Workload,
    store: SharedTransactionalStore,
    folder: &'a Path,
    /// The number of the newest write.
    newest: AtomicU64,
    leg: AtomicU64,
}

/// What a leg of the writers came to.
struct Leg {
    thousand_a_second: f64,
    grown_disk_mib: f64,
    grown_memory_mib: f64,
}

impl Loaded<'_> {
    fn write_one(&self, record: u64) -> Result<()> {
        let key = key_of(record);
        let mut value = [0; VALUE_BYTES];
        let number = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        value[..8].copy_from_slice(&number.to_le_bytes());
        let written = self.store.write(&[&key], &mut |tx| tx.put(&key, &value));
        written.map(drop).map_err(LabError::from_display)
    }

    fn write(&self) -> Result<Leg> {
        let disk = disk_bytes(self.folder)?;
        let memory = resident_bytes(None);
        let seed = self.leg.fetch_add(1, Ordering::Relaxed);
        let rates = at_once(self.workload.threads, |thread| {
            let mut random = Random::for_thread(seed, thread as u64);
            let begun = Instant::now();
            let end = begun + Duration::from_millis(self.workload.leg_ms);
            let mut written = 0;
            while Instant::now() < end {
                for _ in 0..STEP {
                    self.write_one(random.below(self.workload.records))?;
                }
                written += STEP;
            }
            Ok(written as f64 / begun.elapsed().as_secs_f64() / 1e3)
        })?;
        let mib = |now: u64, before: u64| (now as f64 - before as f64) / f64::from(1 << 20);
        Ok(Leg {
            thousand_a_second: rates.iter().sum(),
            grown_disk_mib: mib(disk_bytes(self.folder)?, disk),
            grown_memory_mib: mib(resident_bytes(None), memory),
        })
    }

    /// Reads at one moment until it is told to stop, and finds every record as it was; which part
    /// of a leg that was.
    fn stay(&self, is_open: &AtomicBool, is_over: &AtomicBool) -> Result<f64> {
        let (begun, wrong) = (Instant::now(), OnceCell::new());
        let read = self.store.read(&mut |transaction| {
            let newest = self.newest.load(Ordering::SeqCst);
            let step = (self.workload.records / REMEMBERED).max(1);
            let (mut value, mut remembered) = (Vec::new(), Vec::new());
            for record in (0..self.workload.records).step_by(step as usize) {
                let key = key_of(record);
                remembered.push((key, get(transaction, &key, &mut value)?));
            }
            is_open.store(true, Ordering::SeqCst);
            for part in remembered.chunks(PART).cycle() {
                for (key, number) in part {
                    let now = get(transaction, key, &mut value)?;
                    if now != *number || now > newest {
                        let _ = wrong.set(format!("a record is of write {now}, not {number}"));
                        return Ok(());
                    }
                }
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::sleep(SLEEP);
            }
            Ok(())
        });
        // Whoever waits for it must not wait for ever.
        is_open.store(true, Ordering::SeqCst);
        if let Some(what) = wrong.into_inner() {
            return Err(LabError::WrongAnswer(what));
        }
        let lasted = begun.elapsed().as_secs_f64() * 1e3 / self.workload.leg_ms as f64;
        Ok(read.map_or(lasted.min(1.0), |()| 1.0))
    }

    /// A leg beside a reader, and which part of it that lasted.
    fn write_beside(&self) -> Result<(Leg, f64)> {
        let (is_open, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.stay(&is_open, &is_over));
            while !is_open.load(Ordering::SeqCst) {
                std::thread::sleep(SLEEP);
            }
            let leg = self.write();
            is_over.store(true, Ordering::SeqCst);
            let stayed = reader.join();
            let lasted = stayed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((leg?, lasted))
        })
    }
}

impl Workload {
    fn run(&self, entry: &TransactionalEntry) -> Result<Answer> {
        let folder = match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?;
        let open = entry.open.as_ref().map_err(LabError::unavailable)?;
        let settings = StoreSettings {
            cache_bytes: Memory::cache_bytes(self.store_bytes, self.records),
            process_bytes: self.store_bytes,
            sync: Sync::Periodic,
        };
        let loaded = Loaded {
            workload: self,
            store: open(folder.path(), &settings).map_err(LabError::from_display)?,
            folder: folder.path(),
            newest: AtomicU64::new(0),
            leg: AtomicU64::new(0),
        };
        load(&*loaded.store, self.records)?;
        let before = loaded.write()?;
        let (beside, lasted) = loaded.write_beside()?;
        let after = loaded.write()?;
        let alone = (before.thousand_a_second + after.thousand_a_second) / 2.0;
        let mut answer = Answer::default();
        answer.push("writes alone", "thousand/s", Better::Higher, alone);
        let rate = beside.thousand_a_second;
        answer.push("writes beside", "thousand/s", Better::Higher, rate);
        let ratio = rate / alone.max(1e-9);
        answer.push("writes: ratio", "of 1", Better::Higher, ratio);
        answer.push("reader lasted", "of 1", Better::Higher, lasted);
        for (column, alone, beside) in [
            ("files grow", after.grown_disk_mib, beside.grown_disk_mib),
            (
                "memory grows",
                after.grown_memory_mib,
                beside.grown_memory_mib,
            ),
        ] {
            let name = format!("{column}, alone");
            answer.push(&name, "MiB", Better::Lower, alone);
            let name = format!("{column}, beside");
            answer.push(&name, "MiB", Better::Lower, beside);
        }
        Ok(answer)
    }

    /// A small one of the same kind.
    fn few(self) -> Self {
        Self {
            records: self.records.min(500),
            leg_ms: 10,
            ..self
        }
    }
}

impl Experiment for Beside {
    fn about(&self) -> About {
        About {
            name: "transactions/beside",
            title: "Writers beside one reader that stays",
            source: "ours",
            claim: "Beside one snapshot that lives for a minute writers keep 0.7 of their speed, \
                    and files grow as they do without it.",
            x_label: Some("memory"),
            x_log: false,
            baseline: "hedgerow serializable",
            here: Some(
                "Writers commit one record at a time, their log synced by the clock. Under \
                 `beyond` a store of ours may take a third of its data, and 32 MiB at least, and \
                 the cache of another store is half of that. Nothing limits the system's page \
                 cache, by which others read their files.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        stores::participants(registry)
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(500, 1_000_000, 10_000_000) as u64;
        let leg_ms = settings.scale.pick(20, 10_000, 60_000);
        let mut points = Vec::new();
        for threads in settings.thread_counts(2) {
            for memory in [Memory::Enough, Memory::Third] {
                let workload = Workload {
                    records,
                    threads,
                    leg_ms,
                    store_bytes: memory.store_bytes(records),
                    directory: settings.directory.clone(),
                };
                let seconds = leg_ms as f64 * 3e-3;
                points.push(Point {
                    parameters: [
                        ("records".to_owned(), records.into()),
                        ("threads".to_owned(), threads.into()),
                    ]
                    .into(),
                    x: Some(X::Category(memory.name().to_owned())),
                    contenders: memory.durable(registry),
                    need: Need {
                        memory_bytes: records * 1500 + (256 << 20),
                        disk_bytes: records * 1000 + (seconds * 4e8) as u64 + (512 << 20),
                        shared_seconds: seconds + 0.2,
                        own_seconds: records as f64 * 3e-6,
                        verify_seconds: 0.2,
                    },
                    verified_by: serde_json::json!([threads, memory.name()]),
                    workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
                });
            }
        }
        Ok(points)
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let entry = stores::named(registry, &job.contender)?;
        match job.stage {
            Stage::Verify => workload.few().run(entry).map(|_| Answer::default()),
            Stage::Measure => workload.run(entry),
            Stage::Count { .. } => Ok(Answer::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No control group limits the process here.
    #[test]
    fn the_report_says_that_nothing_limits_the_page_cache() {
        let here = Beside.about().here.expect("words about this machine");
        let is_said = here.contains("Nothing limits the system's page cache");
        assert!(is_said, "{here}");
        assert!(!here.contains("process whose memory is limited"), "{here}");
    }
}
