//! The whole engine under power cuts: columns, batches, transactions, keyspaces, expiry,
//! checkpoints and backups.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow::{Db, IndexKind};
use hedgerow_vfs::{FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::campaign::Subject;
use super::oracle::{Contents, Oracle};
use super::verdicts::Verdicts;
use super::workload::{self, Backup, ProcessRun};
use crate::damage::damage_newest;
use crate::databases::{ALL_KINDS, IN_MEMORY, builder_of};
use crate::pressure::{LEAST_MEMORY, Pressure, Watch};

/// Indexes of the keyspaces that all threads write, where all kinds are beside each other. Of the
/// last mixture B-trees come and go, and so the page file is made later.
const MIXTURES: [[IndexKind; 2]; 5] = [
    [IndexKind::Masstree, IndexKind::BTree],
    [IndexKind::BTree, IndexKind::Matryoshka],
    [IndexKind::BwTree, IndexKind::BTree],
    [IndexKind::BTree, IndexKind::Bst],
    [IndexKind::Masstree, IndexKind::BwTree],
];

/// One recovery in so many finds the newest checkpoint damaged, if there is one behind it.
const DAMAGED_EVERY: u32 = 4;

/// Where the database lies on the modelled disks.
const DATA: &str = "/data";

/// A database as a [`Subject`].
#[derive(Debug)]
pub struct DbSubject {
    /// `None`: any of those in memory.
    index: Option<IndexKind>,
    clock_ms: Arc<AtomicU64>,
    process_runs: usize,
    /// Checkpoints abandoned in all process runs.
    abandoned: usize,
    /// Recoveries that found the newest checkpoint damaged.
    damaged: usize,
    /// Backups finished in the current process run.
    backups: Vec<Backup>,
    /// The indexes of the shared keyspaces, if keyspaces of all kinds are beside each other.
    mixed: Option<[IndexKind; 2]>,
    /// What happened to page files, if they are to be under pressure.
    pressure: Option<Pressure>,
    /// Whether openings name directories of logs, each others than the last one.
    log_dirs: bool,
}

/// What openings name: directories by their numbers. `None`: those of the last opening.
const LOG_DIRS: [Option<&[u32]>; 7] = [
    None,
    Some(&[1]),
    Some(&[1, 2]),
    Some(&[2, 3]),
    Some(&[3, 1, 2]),
    Some(&[2]),
    Some(&[]),
];

impl Default for DbSubject {
    fn default() -> Self {
        let clock_ms = Arc::new(AtomicU64::new(1_000_000));
        DbSubject {
            index: None,
            clock_ms,
            process_runs: 0,
            abandoned: 0,
            damaged: 0,
            backups: Vec::new(),
            mixed: None,
            pressure: None,
            log_dirs: false,
        }
    }
}

impl DbSubject {
    /// A database of this index.
    pub fn of_index(index: IndexKind) -> DbSubject {
        DbSubject {
            index: Some(index),
            ..DbSubject::default()
        }
    }

    /// A database whose keyspaces are of all kinds: each opening has another default.
    pub fn mixed() -> DbSubject {
        DbSubject {
            mixed: Some(MIXTURES[0]),
            ..DbSubject::default()
        }
    }

    /// The same database, with logs and checkpoints in several directories.
    pub fn in_directories(self) -> DbSubject {
        DbSubject {
            log_dirs: true,
            ..self
        }
    }

    /// A database of B-trees with ten times as much data as memory, whose page file grows and
    /// shrinks in each process run.
    pub fn under_pressure() -> DbSubject {
        DbSubject {
            pressure: Some(Pressure::default()),
            ..DbSubject::of_index(IndexKind::BTree)
        }
    }

    /// Opens the database; every opening has options of its own.
    fn open(&self, vfs: Arc<dyn Vfs>, dir: &Path, rng: &mut StdRng) -> Result<Db, String> {
        let clock_ms = Arc::clone(&self.clock_ms);
        let is_mixed = self.mixed.is_some();
        let kinds = match is_mixed {
            true => &ALL_KINDS[..],
            false => &IN_MEMORY[..],
        };
        let any = kinds[rng.random_range(0..kinds.len())];
        let builder = match is_mixed {
            // Without a limit: it would count the memory of all tests of the process.
            true => Db::builder().index(any),
            false => builder_of(Some(self.index.unwrap_or(any))),
        };
        let (builder, log_bytes) = match self.pressure {
            None => (builder, [4 << 10, 64 << 10]),
            Some(_) => (
                builder.memory_limit(Some(LEAST_MEMORY)),
                [512 << 10, 4 << 20],
            ),
        };
        let log_dirs = match self.log_dirs {
            true => LOG_DIRS[rng.random_range(0..LOG_DIRS.len())],
            false => None,
        };
        let builder = match log_dirs {
            Some(numbers) => {
                let beside = |number| format!("{}-log{number}", dir.display());
                builder.log_dirs(numbers.iter().map(beside))
            }
            None => builder,
        };
        builder
            .vfs(vfs)
            .workers(rng.random_range(1..=3))
            .flush_interval(Duration::from_millis(rng.random_range(1..20)))
            .sweep_interval(Some(Duration::from_millis(rng.random_range(1..20))))
            .checkpoint_log_bytes(
                [None, Some(log_bytes[0]), Some(log_bytes[1])][rng.random_range(0..3)],
            )
            .now(Box::new(move || clock_ms.load(Ordering::SeqCst)))
            .open(dir)
            .map_err(|error| format!("opening failed: {error}"))
    }

    fn recover_at(
        &mut self,
        disk: Arc<dyn Vfs>,
        dir: &Path,
        rng: &mut StdRng,
    ) -> Result<Contents, String> {
        let db = self.open(disk, dir, rng)?;
        let contents = workload::contents(&db)?;
        if let Some(pressure) = &mut self.pressure {
            let mut watch = Watch::default();
            watch.read_counters(&db);
            pressure.add(&watch.seen());
        }
        db.close()
            .map_err(|error| format!("closing after recovery failed: {error}"))?;
        Ok(contents)
    }
}

/// What earlier process runs left of their backups is in the way of nothing but time.
fn remove_backups(vfs: &dyn Vfs) -> Result<(), String> {
    for name in vfs.list(Path::new("/")).map_err(|e| e.to_string())? {
        if name.starts_with("backup-") {
            vfs.remove_dir_all(&Path::new("/").join(name))
                .map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Lets each thread of a process run take so many steps.
fn write_from_threads(
    process_run: &ProcessRun,
    steps: usize,
    rng: &mut StdRng,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..process_run.threads)
            .map(|thread| {
                let rng = StdRng::seed_from_u64(rng.random());
                scope.spawn(move || workload::write(process_run, thread, steps, rng))
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|w| w.join().expect("a writer panicked"))
    })
}

impl Subject for DbSubject {
    fn live(
        &mut self,
        disk: &Arc<RecordingVfs>,
        contents: Contents,
        rng: &mut StdRng,
    ) -> Result<Verdicts, String> {
        self.process_runs += 1;
        if let (Some(mixture), 1) = (&mut self.mixed, self.process_runs) {
            *mixture = MIXTURES[rng.random_range(0..MIXTURES.len())];
        }
        let vfs: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(disk);
        remove_backups(&*vfs)?;
        // Where memory is scarce, commits need writes of pages, too, which must not fail.
        let has_pages = self.index == Some(IndexKind::BTree) || self.mixed.is_some();
        let is_abandoning = has_pages && self.pressure.is_none();
        let faulty = is_abandoning.then(|| FaultyVfs::new(Arc::clone(&vfs)));
        let vfs = faulty
            .clone()
            .map_or(vfs, |faulty| Arc::new(faulty) as Arc<dyn Vfs>);
        let db = self.open(vfs, Path::new(DATA), rng)?;
        let threads = match self.pressure {
            None => rng.random_range(1..=3),
            Some(_) => workload::PRESSED_THREADS,
        };
        let operations = || disk.operations();
        let process_run = ProcessRun {
            db: &db,
            operations: &operations,
            clock_ms: Arc::clone(&self.clock_ms),
            oracle: Mutex::new(Oracle::new(contents)),
            backups: Mutex::default(),
            threads,
            faulty,
            abandoned: AtomicUsize::new(0),
            number: self.process_runs,
            keys_of: match self.mixed {
                Some(mixture) => mixture.into_iter().find(|kind| kind.key_bytes().is_some()),
                None => self.index,
            },
            mixed: self.mixed,
            pressure: self.pressure.map(|_| Mutex::default()),
        };
        workload::prepare(&process_run)?;
        let steps = rng.random_range(5..40);
        write_from_threads(&process_run, steps, rng)?;
        let ProcessRun {
            oracle,
            backups,
            pressure,
            abandoned,
            ..
        } = process_run;
        self.abandoned += abandoned.into_inner();
        if let (Some(sum), Some(watch)) = (&mut self.pressure, pressure) {
            let watch = watch.into_inner().unwrap_or_else(PoisonError::into_inner);
            sum.add(&watch.seen());
        }
        self.backups = backups.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut oracle = oracle.into_inner().unwrap_or_else(PoisonError::into_inner);
        if rng.random_bool(0.5) {
            db.close()
                .map_err(|error| format!("closing failed: {error}"))?;
            oracle.all_acknowledged(disk.operations());
        } else {
            drop(db);
        }
        Ok(oracle.seal(self.clock_ms.load(Ordering::SeqCst)))
    }

    /// Sometimes the newest checkpoint has been damaged meanwhile.
    fn recover(&mut self, disk: Arc<dyn Vfs>, rng: &mut StdRng) -> Result<Contents, String> {
        let data = Path::new(DATA);
        let damaged = match rng.random_range(0..DAMAGED_EVERY) {
            0 => damage_newest(&*disk, data, rng)?,
            _ => None,
        };
        self.damaged += usize::from(damaged.is_some());
        let recovered = self.recover_at(disk, data, rng);
        recovered.map_err(|error| match damaged {
            Some(file) => format!("with {} damaged: {error}", file.display()),
            None => error,
        })
    }

    /// Every backup finished before the cut restores to a state that existed while it was made.
    fn examine(
        &mut self,
        image: &MemoryVfs,
        cut: usize,
        verdicts: &Verdicts,
        rng: &mut StdRng,
    ) -> Result<usize, String> {
        let finished: Vec<Backup> = self
            .backups
            .iter()
            .filter(|backup| backup.finished_at <= cut)
            .cloned()
            .collect();
        for backup in &finished {
            let disk = image.deep_clone();
            let vfs: Arc<dyn Vfs> = Arc::new(disk);
            let restored = Path::new("/restored");
            let name = backup.dir.display();
            Db::builder()
                .vfs(Arc::clone(&vfs))
                .restore(&backup.dir, restored)
                .map_err(|error| format!("restoring {name}: {error}"))?;
            let contents = self.recover_at(vfs, restored, rng)?;
            verdicts
                .check_between(backup.started_at, backup.finished_at, &contents)
                .map_err(|error| format!("restored {name}: {error}"))?;
        }
        Ok(finished.len())
    }

    fn pressure(&self) -> Option<Pressure> {
        self.pressure
    }

    fn abandoned(&self) -> usize {
        self.abandoned
    }

    fn damaged(&self) -> usize {
        self.damaged
    }

    fn verify(&mut self, disk: Arc<dyn Vfs>) -> Result<(), String> {
        let report = Db::builder()
            .vfs(disk)
            .check(DATA)
            .map_err(|e| format!("checking: {e}"))?;
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(format!("check after recovery: {problem}")),
        }
    }
}
