//! Chains of process runs, cut and recovered until enough images were judged.
//!
//! A chain begins with an empty disk. Each process run opens its [`Subject`] on a recording file
//! layer, works, and ends; then every boundary between two file operations is cut several times,
//! and each image is recovered and judged. Some recoveries are recorded and cut themselves. One
//! image becomes the disk of the next process run, so that logs of several openings, leftovers of
//! unfinished ones, and numbers that are given out again all occur.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_vfs::{MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};

use super::oracle::Contents;
use super::verdicts::Verdicts;
use crate::pressure::Pressure;

/// Process runs of a chain before a new one begins on an empty disk.
const PROCESS_RUNS: usize = 4;

/// What is cut: something durable that opens, works and recovers. One per chain, so it may keep
/// a clock and the like.
pub trait Subject: Send {
    /// Opens on `disk`, whose recovery shows `contents`, works, and ends.
    fn live(
        &mut self,
        disk: &Arc<RecordingVfs>,
        contents: Contents,
        rng: &mut StdRng,
    ) -> Result<Verdicts, String>;

    /// Recovers what is on a disk, and closes it.
    fn recover(&mut self, disk: Arc<dyn Vfs>, rng: &mut StdRng) -> Result<Contents, String>;

    /// Looks at one image beyond the recovery of its database; returns how many further images
    /// that recovered. The image may be changed.
    fn examine(
        &mut self,
        _image: &MemoryVfs,
        _cut: usize,
        _verdicts: &Verdicts,
        _rng: &mut StdRng,
    ) -> Result<usize, String> {
        Ok(0)
    }

    /// What happened to its page files, if that counts; a campaign without it is red.
    fn pressure(&self) -> Option<Pressure> {
        None
    }

    /// How many checkpoints were abandoned in its process runs.
    fn abandoned(&self) -> usize {
        0
    }

    /// How many recoveries found the newest checkpoint damaged.
    fn damaged(&self) -> usize {
        0
    }

    /// Looks at the disk of a database that recovered and closed.
    fn verify(&mut self, _disk: Arc<dyn Vfs>) -> Result<(), String> {
        Ok(())
    }
}

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct PowerCutCampaign {
    /// How many images to recover at least.
    pub images: usize,
    /// Chains run at once.
    pub threads: usize,
    /// How many of a process run's boundaries to cut, at random; `None` for all of them.
    pub cuts_per_life: Option<usize>,
    /// Seed of workloads and cuts; the interleaving of threads is the machine's.
    pub seed: u64,
    /// Where to write an image that was recovered wrongly.
    pub failures: Option<PathBuf>,
}

/// What a campaign did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PowerCutReport {
    /// Images recovered and judged, second-level ones and backups included.
    pub images: usize,
    /// Of those that are no backups, how many had different bytes.
    pub distinct_images: usize,
    /// Of those, cuts during a recovery.
    pub second_level: usize,
    /// Of those, restored backups.
    pub backups: usize,
    /// Process runs of databases.
    pub process_runs: usize,
    /// Boundaries between file operations that were cut.
    pub boundaries: usize,
    /// Commits in all process runs.
    pub commits: usize,
    /// Checkpoints that process runs began and had to abandon.
    pub abandoned: usize,
    /// Recoveries that found the newest checkpoint damaged, with an older one behind it.
    pub damaged: usize,
    /// What happened to page files, if that counts.
    pub pressure: Option<Pressure>,
}

/// Runs the campaign; the error names the seed and what was wrong first.
pub fn run<S: Subject>(
    campaign: &PowerCutCampaign,
    subject: impl Fn() -> S + Sync,
) -> Result<PowerCutReport, String> {
    let shared = Shared::default();
    let threads = campaign.threads.max(1);
    std::thread::scope(|scope| {
        let (shared, subject) = (&shared, &subject);
        let chains: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let numbers = (thread as u64..).step_by(threads);
                    for number in numbers.take_while(|_| shared.continues(campaign)) {
                        chain(campaign, shared, subject(), number).inspect_err(|_| {
                            shared.failed.store(true, Ordering::Relaxed);
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        chains
            .into_iter()
            .try_for_each(|chain| chain.join().expect("a chain panicked"))
    })
    .map_err(|error: String| format!("seed {}: {error}", campaign.seed))?;
    let mut report = shared.report().clone();
    report.distinct_images = shared.seen().len();
    if let Some(pressure) = &report.pressure {
        let judged = pressure.judge();
        judged.map_err(|error| format!("seed {}: {error}", campaign.seed))?;
    }
    Ok(report)
}

#[derive(Default)]
struct Shared {
    images: AtomicUsize,
    failed: AtomicBool,
    seen: Mutex<HashSet<u64>>,
    report: Mutex<PowerCutReport>,
}

impl Shared {
    fn continues(&self, campaign: &PowerCutCampaign) -> bool {
        self.images.load(Ordering::Relaxed) < campaign.images
            && !self.failed.load(Ordering::Relaxed)
    }

    fn report(&self) -> MutexGuard<'_, PowerCutReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, image: &MemoryVfs) {
        let mut hasher = DefaultHasher::new();
        image.files().hash(&mut hasher);
        self.seen().insert(hasher.finish());
        self.images.fetch_add(1, Ordering::Relaxed);
        self.report().images += 1;
    }
}

fn crash_image(recording: &RecordingVfs, cut: usize, rng: &mut StdRng) -> MemoryVfs {
    recording.crash_image(cut, &mut |n| rng.random_range(0..n))
}

fn chain<S: Subject>(
    campaign: &PowerCutCampaign,
    shared: &Shared,
    mut subject: S,
    number: u64,
) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(campaign.seed.wrapping_add(number << 32));
    let mut disk = MemoryVfs::new();
    let mut contents = Contents::new();
    for process_run in 0..PROCESS_RUNS {
        let context = |error| format!("chain {number}, process run {process_run}: {error}");
        let recording = Arc::new(RecordingVfs::new(&disk));
        let verdicts = subject
            .live(&recording, contents, &mut rng)
            .map_err(context)?;
        let mut judge = Judge {
            campaign,
            shared,
            recording: &recording,
            verdicts: &verdicts,
            subject: &mut subject,
        };
        judge.all_cuts(&mut rng).map_err(context)?;
        {
            let mut report = shared.report();
            report.process_runs += 1;
            report.commits += verdicts.commits();
            report.boundaries += recording.operations() + 1;
        }
        if !shared.continues(campaign) {
            break;
        }
        let cut = rng.random_range(0..=recording.operations());
        disk = crash_image(&recording, cut, &mut rng);
        contents = subject
            .recover(Arc::new(disk.deep_clone()), &mut rng)
            .map_err(context)?;
    }
    shared.report().abandoned += subject.abandoned();
    shared.report().damaged += subject.damaged();
    if let Some(pressure) = subject.pressure() {
        shared
            .report()
            .pressure
            .get_or_insert_default()
            .add(&pressure);
    }
    Ok(())
}

/// Cuts one recorded process run everywhere and judges the images.
struct Judge<'a, S> {
    campaign: &'a PowerCutCampaign,
    shared: &'a Shared,
    recording: &'a RecordingVfs,
    verdicts: &'a Verdicts,
    subject: &'a mut S,
}

impl<S: Subject> Judge<'_, S> {
    fn all_cuts(&mut self, rng: &mut StdRng) -> Result<(), String> {
        let end = self.recording.operations();
        let most = self.campaign.cuts_per_life.unwrap_or(usize::MAX);
        let mut cuts = match most <= end {
            // Ascending, as the recording likes them.
            true => sample(rng, end + 1, most).into_vec(),
            false => (0..=end).collect(),
        };
        cuts.sort_unstable();
        for cut in cuts {
            for _ in 0..rng.random_range(1..=3) {
                if !self.shared.continues(self.campaign) {
                    return Ok(());
                }
                let image = crash_image(self.recording, cut, rng);
                let kept = image.deep_clone();
                self.judge(&image, cut, rng).map_err(|error| {
                    format!(
                        "cut behind operation {cut} of {end}: {error}{}",
                        self.keep(&kept)
                    )
                })?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, image: &MemoryVfs, cut: usize, rng: &mut StdRng) -> Result<(), String> {
        self.shared.count(image);
        if rng.random_range(0..6) == 0 {
            let copy = image.deep_clone();
            let more = self.subject.examine(&copy, cut, self.verdicts, rng)?;
            self.shared.images.fetch_add(more, Ordering::Relaxed);
            let mut report = self.shared.report();
            report.images += more;
            report.backups += more;
        }
        if rng.random_range(0..5) == 0 {
            return self.judge_second_level(image, cut, rng);
        }
        let contents = self.subject.recover(Arc::new(image.clone()), rng)?;
        self.verdicts.check(cut, &contents)?;
        if rng.random_range(0..4) == 0 {
            self.subject.verify(Arc::new(image.clone()))?;
        }
        Ok(())
    }

    /// Recovers while recording, cuts the recovery, and recovers again: to the same contents.
    fn judge_second_level(
        &mut self,
        image: &MemoryVfs,
        cut: usize,
        rng: &mut StdRng,
    ) -> Result<(), String> {
        let recovery = Arc::new(RecordingVfs::new(image));
        let vfs: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(&recovery);
        let contents = self.subject.recover(vfs, rng)?;
        self.verdicts.check(cut, &contents)?;
        for _ in 0..3 {
            let second = rng.random_range(0..=recovery.operations());
            let image = crash_image(&recovery, second, rng);
            self.shared.count(&image);
            self.shared.report().second_level += 1;
            let again = self
                .subject
                .recover(Arc::new(image), rng)
                .map_err(|e| format!("then behind operation {second} of the recovery: {e}"))?;
            if again != contents {
                let verdict = self.verdicts.check(cut, &again).err().unwrap_or_default();
                return Err(format!(
                    "a second cut behind operation {second} of {} of the recovery led to other \
                     contents than the recovery itself. {verdict}",
                    recovery.operations()
                ));
            }
        }
        Ok(())
    }

    /// Writes an image that was recovered wrongly to where a person can look at it.
    fn keep(&self, image: &MemoryVfs) -> String {
        let Some(dir) = &self.campaign.failures else {
            return String::new();
        };
        for (path, bytes) in image.files() {
            let path = dir.join(path.strip_prefix("/").unwrap_or(&path));
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, bytes));
            if let Err(error) = written {
                return format!(
                    " (the image could not be kept in {}: {error})",
                    dir.display()
                );
            }
        }
        format!(" (the image is in {})", dir.display())
    }
}
