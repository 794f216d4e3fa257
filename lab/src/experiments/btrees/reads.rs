//! Random reads of pages that are not in memory, against fio on the same file (§7.2: the line
//! that Fig. 19 measures its trees by).
//!
//! What storage delivers depends on how many reads it has under way, so that is the axis. fio and
//! the file layer's batches keep as many in one thread; so does a batch of the buffer pool.
//! Reads that wait one by one, plain or by the pool's page faults, need a thread for each.
//!
//! Every process makes the same file with the pool, whose budget is an eighth of it. All read
//! past the system's page cache. What counts are pages that came from the file: of the pool's
//! lookups an eighth find theirs in memory.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hedgerow_lab_contender::{Entry, Promises, Unavailable};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_report::{Better, X};
use hedgerow_pages::{Options, PageId, Pages, Pool, View, ViewMut};
use hedgerow_vfs::{OpenMode, ReadAt, SystemVfs, Vfs, VfsFile};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use hedgerow_lab_own::own;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::timed;
use crate::process::find_program;
use crate::registry::Registry;
use crate::{LabError, Result};

const PAGE: usize = 4096;

/// The pool's file within a round's folder.
const FILE: &str = "reads.pages";

/// Most reads under way.
const DEPTHS: [usize; 3] = [1, 8, 64];

const FIO: &str = "fio";
const PREAD: &str = "pread";
const BATCHES: &str = "file batches";
const FAULTS: &str = "pool faults";
const POOL_BATCHES: &str = "pool batches";

/// The experiment.
pub struct Reads;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    /// Pages of the file.
    pages: u32,
    /// Reads of a round.
    reads: usize,
    /// Reads under way at once.
    depth: usize,
}

impl Experiment for Reads {
    fn about(&self) -> About {
        About {
            name: "btrees/reads",
            title: "Random reads of pages beyond the cache",
            source: "B-Trees Are Back, §7.2, Fig. 19 (the rate of fio)",
            claim: "With 256 threads and the smallest pool 661,000 to 777,000 pages are read per \
                    second, 61 to 72 % of what fio reads.",
            x_label: Some("reads under way"),
            x_log: true,
            baseline: FIO,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let present = |entry: Entry| Participant {
            entry,
            available: Ok(()),
            environment: Vec::new(),
        };
        let ours = [BATCHES, FAULTS, POOL_BATCHES].map(|name| own(name, Promises::default()));
        let plain = Entry {
            origin: "the lab itself",
            ..own(PREAD, Promises::default())
        };
        let mut all = vec![fio()];
        all.extend([plain].into_iter().chain(ours).map(present));
        all
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let pages: u32 = settings.scale.pick(4096, 16_384, 2 << 20);
        let reads: usize = settings.scale.pick(500, 10_000, 2_000_000);
        let points = DEPTHS.iter().map(|&depth| {
            // One at a time is slow, and steady sooner.
            let reads = reads.min(reads.div_ceil(8) * depth);
            let workload = Workload {
                pages,
                reads,
                depth,
            };
            Ok(Point {
                parameters: [(
                    "file MiB".to_owned(),
                    ((u64::from(pages) * PAGE as u64) >> 20).into(),
                )]
                .into(),
                x: Some(X::Number(depth as f64)),
                contenders: vec![FIO, PREAD, BATCHES, FAULTS, POOL_BATCHES],
                need: Need {
                    memory_bytes: budget(pages) + (64 << 20),
                    disk_bytes: u64::from(pages) * PAGE as u64 * 5 / 4,
                    shared_seconds: 0.1 + f64::from(pages) * 15e-6,
                    own_seconds: reads as f64 * 100e-6 / depth.min(8) as f64,
                    verify_seconds: 0.2,
                },
                verified_by: "pages".into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            workload.pages = workload.pages.min(4096);
            workload.reads = workload.reads.min(200);
        }
        let folder = TempDir::with_prefix("hedgerow-lab-")?;
        let path = folder.path().join(FILE);
        let source = Source::make(&path, &workload)?;
        let (depth, reads) = (workload.depth, workload.reads);
        let (seconds, pages) = match job.contender.as_str() {
            FIO => (reads as f64 / fio_rate(&path, &workload)?, reads as u64),
            PREAD => source.run(&workload, depth, |wanted| source.pread(wanted))?,
            BATCHES => source.run(&workload, 1, |wanted| source.file_batches(wanted, depth))?,
            FAULTS => source.run(&workload, depth, |wanted| source.lookup(wanted, 1))?,
            POOL_BATCHES => source.run(&workload, 1, |wanted| source.lookup(wanted, depth))?,
            other => return Err(LabError::Usage(format!("{other} reads no pages here"))),
        };
        let mut answer = Answer::default();
        if job.stage == Stage::Measure {
            let rate = pages as f64 / seconds.max(1e-9) / 1e3;
            answer.push("pages read", "thousand/s", Better::Higher, rate);
        }
        Ok(answer)
    }
}

/// The standard tool, if it is installed.
fn fio() -> Participant {
    let program = find_program("fio").ok_or_else(|| Unavailable {
        why: "fio is not installed".to_owned(),
        remedy: "apt install fio".to_owned(),
    });
    let version = program.as_ref().ok().and_then(|program| {
        let output = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    Participant {
        entry: Entry {
            version: version.unwrap_or_default(),
            origin: "Debian package fio",
            ..own(FIO, Promises::default())
        },
        available: program.map(drop),
        environment: Vec::new(),
    }
}

/// Random reads per second by fio.
fn fio_rate(path: &Path, workload: &Workload) -> Result<f64> {
    let program = find_program("fio").ok_or_else(|| LabError::Unavailable("no fio".to_owned()))?;
    let output = Command::new(program)
        .args(["--name=reads", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--ioengine=io_uring", "--readonly", "--norandommap"])
        .args(["--thread", "--output-format=json"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--iodepth={}", workload.depth))
        .arg(format!("--io_size={}", workload.reads * PAGE))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    // It may say something before the report.
    let report = said.find('{').map_or("", |start| &said[start..]);
    let report: serde_json::Value = serde_json::from_str(report).map_err(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        LabError::Process(format!("fio gave no report: {error}; {complaint}"))
    })?;
    let rate = report.pointer("/jobs/0/read/iops").and_then(|x| x.as_f64());
    rate.filter(|rate| *rate > 0.0)
        .ok_or_else(|| LabError::Process("fio read nothing".to_owned()))
}

fn budget(pages: u32) -> u64 {
    (u64::from(pages) * PAGE as u64 / 8).max(4 << 20)
}

/// A block as reads past the page cache want it.
#[repr(align(4096))]
#[derive(Clone)]
struct Block([u8; PAGE]);

/// A page file, open as a pool and as a file.
struct Source {
    pool: Arc<Pool<PAGE>>,
    file: Box<dyn VfsFile>,
    blocks: u64,
    ids: Vec<PageId>,
}

impl Source {
    /// Makes a file whose pages hold their numbers.
    fn make(path: &Path, workload: &Workload) -> Result<Self> {
        let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
        let options = Options::new(budget(workload.pages));
        let pool = Pool::<PAGE>::open(&vfs, path, &options).map_err(LabError::from_display)?;
        let pool = Arc::new(pool);
        let mut ids = Vec::new();
        for _ in 0..workload.pages {
            let mut handle: &Pool<PAGE> = &pool;
            let operation = handle.begin();
            let mut page = handle
                .allocate(&operation)
                .map_err(LabError::from_display)?;
            let id = handle.id(&page);
            let mut change = handle
                .change(&mut page, &operation)
                .map_err(LabError::from_display)?;
            change.put_u32(0, id.0);
            ids.push(id);
        }
        pool.checkpoint(Vec::new).map_err(LabError::from_display)?;
        let file = vfs.open_direct(path, OpenMode::Read)?;
        let blocks = file.len()? / PAGE as u64;
        Ok(Self {
            pool,
            file,
            blocks,
            ids,
        })
    }

    /// Numbers below the number of pages, for one of the threads.
    fn draw(&self, seed: usize, count: usize) -> Vec<usize> {
        let mut random = Random::new(seed as u64 + 1);
        let pages = self.ids.len() as u64;
        (0..count).map(|_| random.below(pages) as usize).collect()
    }

    /// So many threads share the reads: seconds, and pages that came from the file, by the
    /// pool's count or by that of plain reads, which they return.
    fn run(
        &self,
        workload: &Workload,
        threads: usize,
        read: impl Fn(&[usize]) -> Result<u64> + Sync,
    ) -> Result<(f64, u64)> {
        let _cleaner = self.pool.start_cleaner()?;
        let each = workload.reads.div_ceil(threads);
        let wanted: Vec<_> = (0..threads).map(|n| self.draw(n, each)).collect();
        let before = self.pool.statistics().reads;
        let (seconds, plain) = timed(|| {
            std::thread::scope(|scope| {
                let read = &read;
                let threads = wanted.iter().map(|wanted| scope.spawn(|| read(wanted)));
                let threads: Vec<_> = threads.collect();
                let ended = threads.into_iter().map(|thread| {
                    let panicked = |_| LabError::Process("a reading thread panicked".to_owned());
                    thread.join().map_err(panicked)?
                });
                ended.sum::<Result<u64>>()
            })
        });
        Ok((seconds, plain? + self.pool.statistics().reads - before))
    }

    fn offset(&self, number: usize) -> u64 {
        number as u64 % self.blocks * PAGE as u64
    }

    fn pread(&self, wanted: &[usize]) -> Result<u64> {
        let mut block = Block([0; PAGE]);
        for &number in wanted {
            self.file.read_at(self.offset(number), &mut block.0)?;
        }
        Ok(wanted.len() as u64)
    }

    fn file_batches(&self, wanted: &[usize], depth: usize) -> Result<u64> {
        let mut blocks = vec![Block([0; PAGE]); depth];
        for group in wanted.chunks(depth) {
            let mut batch: Vec<ReadAt<'_>> = group
                .iter()
                .zip(&mut blocks)
                .map(|(&number, block)| ReadAt::new(self.offset(number), &mut block.0))
                .collect();
            self.file.read_many(&mut batch);
            for read in batch {
                read.result?;
            }
        }
        Ok(wanted.len() as u64)
    }

    /// Looks pages up and checks them; no read of these is plain.
    fn lookup(&self, wanted: &[usize], batch: usize) -> Result<u64> {
        let pool: &Pool<PAGE> = &self.pool;
        for group in wanted.chunks(batch) {
            let ids: Vec<PageId> = group.iter().map(|&number| self.ids[number]).collect();
            if batch > 1 {
                pool.load_many(&ids);
            }
            for id in ids {
                let page = pool.shared(id).map_err(LabError::from_display)?;
                if page.image().u32(0) != Ok(id.0) {
                    let what = format!("{id} has another page's content");
                    return Err(LabError::WrongAnswer(what));
                }
            }
        }
        Ok(0)
    }
}
