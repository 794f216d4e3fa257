//! Short transactions beside other transactional stores: two keys or ten are read, and a one added
//! to each; or two are only read.
//!
//! A round loads a store and goes through every leg in one process. A leg runs for a fixed time;
//! its keys are drawn before, distinct within a transaction and in order, so that no two which lock
//! them in turn wait for each other. At the end of a round the sum of all records must be the
//! number of ones that were added: a lost update, or one made twice, is a wrong answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hedgerow_lab_contender::{SharedTransactionalStore, StoreSettings, Sync, TransactionalEntry};
use hedgerow_lab_data::random::{Random, mix64};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use super::records::{get, in_batches, key_of, load};
use super::skew::{self, EXPONENTS};
use super::stores::{self, Memory};
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::registry::Registry;
use crate::threads::at_once;
use crate::{LabError, Result};

/// Transactions that a thread has drawn, and repeats from the first on after the last.
const DRAWN: usize = 1 << 15;
/// The experiment.
pub(super) struct Short;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: u64,
    thread_counts: Vec<usize>,
    leg_ms: u64,
    /// Memory that a store may take by its own settings, if that is limited.
    store_bytes: Option<u64>,
    directory: Option<PathBuf>,
}

/// What a transaction does.
#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    keys: usize,
    adds: bool,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "2 reads, 2 writes",
        keys: 2,
        adds: true,
    },
    Shape {
        name: "10 reads, 10 writes",
        keys: 10,
        adds: true,
    },
    Shape {
        name: "2 reads",
        keys: 2,
        adds: false,
    },
];

/// One leg of a round.
#[derive(Debug, Clone, Copy)]
struct Leg {
    shape: Shape,
    exponent: f64,
    threads: usize,
}

impl Leg {
    fn column(&self) -> String {
        let Self {
            shape,
            exponent,
            threads,
        } = self;
        format!("{}, zipf {exponent}, {threads} threads", shape.name)
    }

    /// The keys of so many transactions one after the other, distinct and in order within each.
    fn draw(&self, records: u64, thread: usize, count: usize) -> Vec<[u8; 8]> {
        let keys = self.shape.keys;
        let seed = mix64(self.exponent.to_bits() ^ keys as u64);
        let mut random = Random::for_thread(seed, thread as u64);
        let drawn = skew::draw(self.exponent, records, keys, count, &mut random);
        let mut all: Vec<[u8; 8]> = drawn.into_iter().map(key_of).collect();
        for each in all.chunks_mut(keys) {
            each.sort_unstable();
        }
        all
    }
}

/// What a thread, or all of a leg, did.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    committed: u64,
    conflicts: u64,
    seconds: f64,
}

/// A loaded store under measurement.
struct Loaded<'a> {
    workload: &'a Workload,
    store: SharedTransactionalStore,
}

impl Loaded<'_> {
    fn sum(&self) -> Result<u64> {
        let (mut sum, mut value) = (0, Vec::new());
        in_batches(self.workload.records, |keys| {
            let mut of_batch = 0;
            let read = self.store.read(&mut |transaction| {
                of_batch = 0;
                for key in keys {
                    of_batch += get(transaction, key, &mut value)?;
                }
                Ok(())
            });
            sum += of_batch;
            read.map_err(LabError::from_display)
        })?;
        Ok(sum)
    }

    /// Reads the keys and adds one to each, or only reads.
    fn transact(&self, shape: Shape, keys: &[&[u8]], value: &mut Vec<u8>) -> Result<u64> {
        let done = if shape.adds {
            self.store.write(keys, &mut |transaction| {
                for key in keys {
                    let counter = get(transaction, key, value)? + 1;
                    value[..8].copy_from_slice(&counter.to_le_bytes());
                    transaction.put(key, value)?;
                }
                Ok(())
            })
        } else {
            let read = self.store.read(&mut |transaction| {
                let mut keys = keys.iter();
                keys.try_for_each(|key| get(transaction, key, value).map(drop))
            });
            read.map(|()| 0)
        };
        done.map_err(LabError::from_display)
    }

    fn leg(&self, leg: Leg) -> Result<Done> {
        let Leg { shape, threads, .. } = leg;
        let count = DRAWN.min(self.workload.records as usize * 8);
        let drawn: Vec<_> = (0..threads)
            .map(|thread| leg.draw(self.workload.records, thread, count))
            .collect();
        let all = at_once(threads, |thread| {
            let (mut done, mut value) = (Done::default(), Vec::new());
            let begun = Instant::now();
            let end = begun + Duration::from_millis(self.workload.leg_ms);
            for keys in drawn[thread].chunks_exact(shape.keys).cycle() {
                let mut listed: [&[u8]; 10] = [&[]; 10];
                for (place, key) in listed.iter_mut().zip(keys) {
                    *place = key;
                }
                done.conflicts += self.transact(shape, &listed[..shape.keys], &mut value)?;
                done.committed += 1;
                if Instant::now() >= end {
                    break;
                }
            }
            done.seconds = begun.elapsed().as_secs_f64();
            Ok(done)
        })?;
        let sum = |sum: Done, one: Done| Done {
            committed: sum.committed + one.committed,
            conflicts: sum.conflicts + one.conflicts,
            seconds: sum.seconds.max(one.seconds),
        };
        Ok(all.into_iter().fold(Done::default(), sum))
    }
}

impl Workload {
    fn legs(&self) -> Vec<Leg> {
        let mut legs = Vec::new();
        for shape in SHAPES {
            for exponent in EXPONENTS {
                for &threads in &self.thread_counts {
                    legs.push(Leg {
                        shape,
                        exponent,
                        threads,
                    });
                }
            }
        }
        // Nobody contends with those that only read.
        legs.retain(|leg| leg.shape.adds || leg.exponent == 0.0);
        legs
    }

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
        let store = open(folder.path(), &settings).map_err(LabError::from_display)?;
        let loaded = Loaded {
            workload: self,
            store,
        };
        load(&*loaded.store, self.records)?;
        let (mut answer, mut added) = (Answer::default(), 0);
        for leg in self.legs() {
            let done = loaded.leg(leg)?;
            if leg.shape.adds {
                added += done.committed * leg.shape.keys as u64;
            }
            let column = leg.column();
            let each = done.committed as f64 / done.seconds.max(1e-9) / 1e3;
            answer.push(&column, "thousand/s", Better::Higher, each);
            if leg.shape.adds && leg.threads > 1 {
                let begun = done.committed + done.conflicts;
                let share = done.conflicts as f64 * 100.0 / begun as f64;
                let column = format!("{column}: aborted");
                answer.push(&column, "%", Better::Lower, share);
            }
        }
        let sum = loaded.sum()?;
        match sum == added {
            true => Ok(answer),
            false => Err(LabError::WrongAnswer(format!(
                "{added} were added, the sum of all records is {sum}"
            ))),
        }
    }

    /// A small one of the same kind.
    fn few(self) -> Self {
        Self {
            records: self.records.min(200),
            leg_ms: 5,
            thread_counts: vec![1, 2],
            ..self
        }
    }
}

impl Experiment for Short {
    fn about(&self) -> About {
        About {
            name: "transactions/short",
            title: "Short transactions beside other stores",
            source: "ours",
            claim: "Serializable transactions of two reads and two writes, the log synced by the \
                    clock, are three times as many as RocksDB's optimistic ones and twice as many \
                    as every other store's, by one thread and by two.",
            x_label: Some("memory"),
            x_log: false,
            baseline: "hedgerow serializable",
            here: Some(
                "Stores with one writer at a time abort nothing, whatever the contention. Engines \
                 that sync by the clock do so every 200 ms on a thread of their own. Under \
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
        let records = (settings.keys(1000, 1_000_000, 10_000_000) as u64).max(100);
        let point = |memory: Memory| {
            let workload = Workload {
                records,
                thread_counts: settings.thread_counts(2),
                leg_ms: settings.scale.pick(10, 150, 2000),
                store_bytes: memory.store_bytes(records),
                directory: settings.directory.clone(),
            };
            let seconds = workload.legs().len() as f64 * workload.leg_ms as f64 / 1e3;
            Ok(Point {
                parameters: [("records".to_owned(), records.into())].into(),
                x: Some(X::Category(memory.name().to_owned())),
                contenders: memory.durable(registry),
                need: Need {
                    memory_bytes: records * 1500 + (256 << 20),
                    disk_bytes: records * 1000 + (seconds * 4e8) as u64 + (512 << 20),
                    shared_seconds: seconds + 0.2,
                    own_seconds: records as f64 * 3e-6,
                    verify_seconds: 0.5,
                },
                verified_by: serde_json::json!([memory.name()]),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        };
        [Memory::Enough, Memory::Third]
            .into_iter()
            .map(point)
            .collect()
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
        let here = Short.about().here.expect("words about this machine");
        let is_said = here.contains("Nothing limits the system's page cache");
        assert!(is_said, "{here}");
        assert!(!here.contains("process whose memory is limited"), "{here}");
    }
}
