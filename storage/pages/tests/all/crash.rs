//! What power cuts and failing disks leave: the last checkpoint, whole, and pages that can be read.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_pages::{Options, PageId, Pages, Pool, View, ViewMut};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;
const PATH: &str = "/pages";
const SMALL: u64 = 4 * 8 * 4096 + 128 * 4096 + 64 * 1024;

type Model = HashMap<PageId, u64>;

fn open(vfs: &Arc<dyn Vfs>) -> Result<Pool<PAGE>, hedgerow_pages::Error> {
    Pool::open(vfs, Path::new(PATH), &Options::new(SMALL))
}

fn read(pool: &Pool<PAGE>, id: PageId) -> hedgerow_pages::Result<u64> {
    let page = Pages::shared(&pool, id)?;
    let first = page.image().u64(0)?;
    assert_eq!(page.image().u64(PAGE - 8)?, first, "{id} is torn");
    Ok(first)
}

/// One random change; false if the pool could not make it.
fn step(mut pool: &Pool<PAGE>, model: &mut Model, random: &mut StdRng, value: u64) -> bool {
    let operation = pool.begin();
    let some = PageId(random.random_range(0..400));
    let page = if random.random_bool(0.3) || !model.contains_key(&some) {
        pool.allocate(&operation)
    } else {
        pool.exclusive(some)
    };
    let Ok(mut page) = page else { return false };
    let id = pool.id(&page);
    if model.contains_key(&id) && random.random_bool(0.25) {
        pool.release(page, &operation).unwrap();
        model.remove(&id);
        return true;
    }
    let Ok(mut bytes) = pool.change(&mut page, &operation) else {
        return false;
    };
    bytes.put_u64(0, value);
    bytes.put_u64(PAGE - 8, value);
    model.insert(id, value);
    true
}

/// Whether a pool holds exactly what a model says.
fn agrees(pool: &Pool<PAGE>, model: &Model) -> bool {
    (&pool).live() == model.len()
        && model
            .iter()
            .all(|(&id, &value)| read(pool, id).is_ok_and(|found| found == value))
}

/// What is in the root of a checkpoint that is to be given up.
const ABANDONED: u8 = 255;

/// Where in the file the disk has no space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Roots,
    /// Pages, and blocks of the table.
    BehindRoots,
}

impl Place {
    fn has(self, offset: u64) -> bool {
        (offset < 2 * PAGE as u64) == (self == Place::Roots)
    }
}

/// A checkpoint whose root was written.
struct Written {
    /// After how many file operations.
    at: usize,
    /// What it holds.
    model: Model,
    /// Whether it was published: else the disk refused its root, and may have it.
    is_sure: bool,
}

/// A pool on a recorded disk, and every checkpoint that it published.
struct History {
    recording: RecordingVfs,
    faulty: FaultyVfs,
    pool: Pool<PAGE>,
    model: Model,
    /// Checkpoints whose root was written, the first of an empty pool.
    written: Vec<Written>,
    random: StdRng,
    next_value: u64,
}

impl History {
    fn new(number: u64) -> History {
        let recording = RecordingVfs::new(&MemoryVfs::new());
        let faulty = FaultyVfs::new(Arc::new(recording.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let pool = open(&vfs).unwrap();
        let first = Written {
            at: recording.operations(),
            model: Model::new(),
            is_sure: true,
        };
        History {
            recording,
            faulty,
            pool,
            model: Model::new(),
            written: vec![first],
            random: StdRng::seed_from_u64(11 + number),
            next_value: number << 32,
        }
    }

    fn work(&mut self, most: u64) {
        for _ in 0..self.random.random_range(1..most) {
            self.next_value += 1;
            let value = self.next_value;
            assert!(step(&self.pool, &mut self.model, &mut self.random, value));
        }
    }

    fn publish(&mut self) {
        let number = self.written.len() as u8;
        self.pool.checkpoint(|| vec![number]).unwrap();
        self.record_written(true);
    }

    fn record_written(&mut self, is_sure: bool) {
        self.written.push(Written {
            at: self.recording.operations(),
            model: self.model.clone(),
            is_sure,
        });
    }

    /// A checkpoint on a disk that becomes full at a place of the file, after some writes to it.
    fn fill_disk(&mut self, place: Place, after: usize, full: Fault) {
        self.faulty.fail_from_at(
            move |_, offset| place.has(offset),
            CallKind::Write,
            after,
            full,
        );
        let number = self.written.len() as u8;
        let outcome = self.pool.checkpoint(|| vec![number]);
        self.faulty.heal();
        match outcome {
            Ok(()) => self.record_written(true),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                if place == Place::Roots {
                    self.record_written(false);
                }
            }
        }
    }

    /// A checkpoint that is begun and then given up, in one of the ways in which that happens.
    fn abandon(&mut self) {
        let begin = |pool: &Pool<PAGE>| pool.begin_checkpoint(|| vec![ABANDONED]).unwrap();
        match self.random.random_range(0..5) {
            // The rotation of the logs failed.
            0 => {
                let begun = begin(&self.pool);
                self.work(20);
                self.pool.abandon_checkpoint(&begun);
            }
            // Nobody finished it.
            1 => drop(begin(&self.pool)),
            2 => {
                let after = self.random.random_range(0..20);
                let full = Fault::Error(ErrorKind::StorageFull);
                self.fill_disk(Place::BehindRoots, after, full);
            }
            _ => {
                let full = match self.random.random_range(0..3) {
                    0 => Fault::Error(ErrorKind::StorageFull),
                    1 => Fault::ShortWrite(ErrorKind::StorageFull),
                    _ => Fault::TornWrite(ErrorKind::QuotaExceeded),
                };
                self.fill_disk(Place::Roots, 0, full);
            }
        }
    }

    /// Cuts the power somewhere: the last checkpoint is there, or the one that was under way, or
    /// one between them whose root the disk refused.
    fn cut(&mut self) {
        let first = self.written[0].at;
        let cut = self
            .random
            .random_range(first..=self.recording.operations());
        let image = self
            .recording
            .crash_image(cut, &mut |n| self.random.random_range(0..n));
        let image: Arc<dyn Vfs> = Arc::new(image);
        let pool = open(&image).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        let found = usize::from(pool.owner().first().copied().unwrap_or(0));
        let is_sure = |written: &Written| written.is_sure && written.at <= cut;
        let sure = self.written.iter().rposition(is_sure).unwrap();
        let mut later = self.written[sure + 1..].iter();
        let next = later.position(|written| written.is_sure || written.at > cut);
        let newest = next.map_or(self.written.len() - 1, |next| sure + 1 + next);
        assert!(
            (sure..=newest).contains(&found),
            "cut {cut}: {found}, not {sure} to {newest}"
        );
        let expected = &self.written[found].model;
        assert!(agrees(&pool, expected), "cut {cut}: not checkpoint {found}");
        // And work goes on from there.
        let mut model = expected.clone();
        for n in 0..50 {
            assert!(step(&pool, &mut model, &mut self.random, n));
        }
        pool.checkpoint(Vec::new).unwrap();
        drop(pool);
        assert!(agrees(&open(&image).unwrap(), &model));
    }
}

#[test]
fn a_power_cut_leaves_the_last_checkpoint_whole() {
    for number in 0..6 {
        let mut history = History::new(number);
        for _ in 1..8 {
            history.work(250);
            history.publish();
        }
        (0..120).for_each(|_| history.cut());
    }
}

#[test]
fn a_power_cut_leaves_the_last_checkpoint_whole_though_others_were_given_up() {
    for number in 0..8 {
        let mut history = History::new(number);
        for _ in 1..8 {
            history.work(100);
            for _ in 0..history.random.random_range(0..4) {
                history.abandon();
                history.work(20);
            }
            history.publish();
        }
        (0..120).for_each(|_| history.cut());
    }
}

/// Each refused root keeps its blocks in use. Where the disk has no space for roots for a while,
/// though some for blocks that were reserved, removals need those.
#[test]
fn roots_that_are_refused_time_and_again_use_up_no_more_than_the_first() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(21));
    (0..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    (300..400).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    let full = Fault::ShortWrite(ErrorKind::StorageFull);
    let is_a_root = |_: &Path, offset| Place::Roots.has(offset);
    faulty.fail_from_at(is_a_root, CallKind::Write, 0, full);
    let refuse = || {
        let refused = pool.checkpoint(Vec::new).unwrap_err();
        assert!(refused.is_disk_full(), "{refused}");
        pool.blocks().dead
    };
    let dead = refuse();
    assert!(dead > 0);
    for _ in 0..20 {
        assert_eq!(refuse(), dead);
    }
    faulty.heal();
    (400..450).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    assert!(pool.blocks().dead < dead);
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &model));
}

#[test]
fn a_root_is_never_written_over_the_one_that_counts() {
    for abandoned in 0..5 {
        let memory = MemoryVfs::new();
        let faulty = FaultyVfs::new(Arc::new(memory.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let pool = open(&vfs).unwrap();
        let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(3));
        (0..50).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
        pool.checkpoint(Vec::new).unwrap();
        let durable = model.clone();
        for _ in 0..abandoned {
            let begun = pool.begin_checkpoint(Vec::new).unwrap();
            pool.abandon_checkpoint(&begun);
        }
        (0..50).for_each(|n| assert!(step(&pool, &mut model, &mut random, 100 + n)));
        let is_a_root = |_: &Path, offset| offset < 2 * PAGE as u64;
        let torn = Fault::TornWrite(ErrorKind::Other);
        faulty.fail_from_at(is_a_root, CallKind::Write, 0, torn);
        pool.checkpoint(Vec::new).unwrap_err();
        drop(pool);
        faulty.heal();
        let pool = open(&vfs).unwrap_or_else(|error| panic!("{abandoned} given up: {error}"));
        assert!(agrees(&pool, &durable), "{abandoned} given up");
    }
}

/// After a failed sync the system's cache serves a root that the disk may not have. Whoever opens
/// the file then must not rely on it: the blocks of the root before would be written over, and a
/// power cut would bring that root back.
#[test]
fn a_root_whose_sync_failed_is_made_durable_before_the_one_before_it_is_given_up() {
    let mut random = StdRng::seed_from_u64(17);
    for case in 0..6 {
        let recording = RecordingVfs::new(&MemoryVfs::new());
        let vfs: Arc<dyn Vfs> = Arc::new(recording.clone());
        let pool = open(&vfs).unwrap();
        let mut model = Model::new();
        (0..200).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
        pool.checkpoint(|| vec![1]).unwrap();
        (200..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
        // The pages reach the disk, their root does not.
        recording.lose_sync(1);
        pool.checkpoint(|| vec![2]).unwrap_err();
        drop(pool);

        let pool = open(&vfs).unwrap();
        assert_eq!(pool.owner(), [2], "the cache has the root");
        assert!(agrees(&pool, &model));
        let opened = recording.operations();
        let second = model.clone();
        (300..600).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
        pool.checkpoint(|| vec![3]).unwrap();
        let end = recording.operations();
        for _ in 0..20 {
            let cut = random.random_range(opened..=end);
            let image = recording.crash_image(cut, &mut |n| random.random_range(0..n));
            let image: Arc<dyn Vfs> = Arc::new(image);
            let pool = open(&image).unwrap_or_else(|e| panic!("case {case}, cut {cut}: {e}"));
            let expected = match pool.owner().first() {
                Some(2) => &second,
                Some(3) => &model,
                other => panic!("case {case}, cut {cut}: root {other:?}"),
            };
            assert!(agrees(&pool, expected), "case {case}, cut {cut}");
        }
    }
}

#[test]
fn a_failing_call_loses_nothing_and_a_later_checkpoint_succeeds() {
    let mut random = StdRng::seed_from_u64(5);
    let faults = [
        Fault::Error(ErrorKind::Other),
        Fault::ShortWrite(ErrorKind::Other),
        Fault::TornWrite(ErrorKind::StorageFull),
    ];
    let kinds = [CallKind::Write, CallKind::Read, CallKind::Truncate];
    for case in 0..90 {
        let memory = MemoryVfs::new();
        let faulty = FaultyVfs::new(Arc::new(memory.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let pool = open(&vfs).unwrap();
        let mut model = Model::new();
        for n in 0..400 {
            assert!(step(&pool, &mut model, &mut random, n));
        }
        pool.checkpoint(Vec::new).unwrap();
        let mut durable = model.clone();
        let kind = kinds[case % 3];
        faulty.fail_from(kind, random.random_range(0..80), faults[case / 3 % 3]);
        for n in 0..400 {
            step(&pool, &mut model, &mut random, 1_000 + n);
        }
        if pool.checkpoint(Vec::new).is_ok() {
            durable = model.clone();
        }
        // What crashed now would find the last checkpoint that was published.
        let left: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
        assert!(agrees(&open(&left).unwrap(), &durable), "case {case}");
        faulty.heal();
        assert!(agrees(&pool, &model), "case {case}: memory lost something");
        // A failed write of a root leaves no telling which one counts, but for a full disk's.
        match pool.checkpoint(Vec::new) {
            Ok(()) => {
                drop(pool);
                assert!(agrees(&open(&vfs).unwrap(), &model), "case {case}");
            }
            Err(error) => {
                assert_ne!(case / 3 % 3, 2, "{error}");
                assert!(error.to_string().contains("open the database again"));
            }
        }
    }
}

/// A file system that cannot reserve space: what is dirty when the disk becomes full stays so.
fn cannot_reserve(faulty: &FaultyVfs) {
    let unsupported = Fault::Error(std::io::ErrorKind::Unsupported);
    faulty.fail_from(CallKind::Allocate, 0, unsupported);
}

/// Space is reserved before a page is changed: a checkpoint of all changes fits a full disk, and
/// leaves the next changes as much.
fn checkpoints_of_what_could_be_changed(full: ErrorKind) {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    faulty.set_full_error(full);
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(18));
    (0..900).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    (0..50).for_each(|n| assert!(step(&pool, &mut model, &mut random, 1_000 + n)));
    faulty.set_space(Some(0));
    for round in 0..20 {
        let mut changed = 0;
        while changed < 2_000 && step(&pool, &mut model, &mut random, 2_000) {
            changed += 1;
        }
        assert!(changed > 0, "round {round}");
        pool.keep_space();
        let done = pool.checkpoint(Vec::new);
        done.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(agrees(&pool, &model), "round {round}");
    }
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &model));
}

#[test]
fn a_full_disk_takes_checkpoints_of_what_it_let_be_changed() {
    checkpoints_of_what_could_be_changed(ErrorKind::StorageFull);
}

#[test]
fn so_does_a_disk_of_which_the_users_share_is_used_up() {
    checkpoints_of_what_could_be_changed(ErrorKind::QuotaExceeded);
}

/// Blocks of a file that were given back to the disk take no write when it is full, whether of
/// pages or of the table: what was changed gets into those that are left, at the first attempt.
#[test]
fn a_full_disk_takes_checkpoints_into_a_file_with_holes() {
    for seed in 0..300 {
        let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let pool = open(&vfs).unwrap();
        let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(seed));
        (0..2_000).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
        pool.checkpoint(Vec::new).unwrap();
        let gone: Vec<PageId> = model.keys().copied().collect();
        let kept = random.random_range(2..60);
        for id in gone.into_iter().filter(|id| id.0 % kept > 0) {
            let operation = (&pool).begin();
            let page = (&pool).exclusive(id).unwrap();
            (&pool).release(page, &operation).unwrap();
            model.remove(&id);
        }
        (0..3).for_each(|_| pool.checkpoint(Vec::new).unwrap());
        // The first change reserves space for those that follow.
        (0..3).for_each(|n| assert!(step(&pool, &mut model, &mut random, 3_000 + n)));
        faulty.set_space(Some(0));
        for round in 0..3 {
            for n in 0..seed % 50 {
                step(&pool, &mut model, &mut random, 4_000 + n);
            }
            let done = pool.checkpoint(Vec::new);
            done.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            pool.keep_space();
            assert!(agrees(&pool, &model), "seed {seed}, round {round}");
        }
        drop(pool);
        assert!(agrees(&open(&vfs).unwrap(), &model), "seed {seed}");
    }
}

/// A root counts the blocks that are cut off the file once it is published. When the file is opened
/// again they have no space, and no change of a page counts on it.
#[test]
fn a_full_disk_has_no_space_where_a_file_was_cut() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let options = Options::new(16 << 20);
    let open = || Pool::<PAGE>::open(&vfs, Path::new(PATH), &options).unwrap();
    let pool = open();
    let mut pages = &pool;
    for _ in 0..400 {
        let operation = pages.begin();
        drop(pages.allocate(&operation).unwrap());
    }
    pool.checkpoint(Vec::new).unwrap();
    for id in (50..400).map(PageId) {
        let operation = pages.begin();
        let page = pages.exclusive(id).unwrap();
        pages.release(page, &operation).unwrap();
    }
    (0..2).for_each(|_| pool.checkpoint(Vec::new).unwrap());
    let file_bytes = pool.statistics().file_bytes;
    assert!(file_bytes < 60 * PAGE as u64, "{file_bytes}");
    drop(pool);
    faulty.set_space(Some(0));
    let pool = open();
    assert_eq!(pool.statistics().file_bytes, file_bytes);
    let mut pages = &pool;
    for id in (0..50).map(PageId) {
        let operation = pages.begin();
        let mut page = pages.exclusive(id).unwrap();
        // One that is refused stays as it is.
        if let Ok(mut bytes) = pages.change(&mut page, &operation) {
            bytes.put_u64(0, 7);
        }
    }
    pool.checkpoint(Vec::new).unwrap();
}

#[test]
fn a_full_disk_stops_checkpoints_until_there_is_space() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    cannot_reserve(&faulty);
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(8));
    (0..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    faulty.set_space(Some(0));
    for n in 300..700 {
        step(&pool, &mut model, &mut random, n);
    }
    let full = pool.checkpoint(Vec::new).unwrap_err();
    assert!(full.is_disk_full(), "{full}");
    assert!(agrees(&pool, &model), "reads go on");
    faulty.set_space(None);
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &model));
}

#[test]
fn a_full_disk_leaves_room_for_reading() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    cannot_reserve(&faulty);
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(10));
    (0..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    assert_eq!(pool.statistics().dirty, 0);
    faulty.set_space(Some(0));
    // As many changes as there can be without writing: whatever is in memory becomes dirty.
    let mut refused = 0;
    for n in 0..20_000 {
        refused += u32::from(!step(&pool, &mut model, &mut random, 1_000 + n));
    }
    assert!(refused > 0, "memory is full of what cannot be written");
    let after = pool.statistics();
    assert!(after.dirty > after.resident / 2, "{after:?}");
    assert!(after.dirty < pool.limit() as u64, "{after:?}");
    assert!(agrees(&pool, &model), "reads go on");
    faulty.set_space(None);
    (0..400).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    assert_eq!(pool.statistics().dirty, 0);
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &model));
}

#[test]
fn after_a_failed_sync_there_are_no_more_checkpoints() {
    let memory = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(9));
    (0..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    let durable = model.clone();
    (0..300).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    faulty.fail_once(CallKind::Sync, 0, Fault::Error(ErrorKind::Other));
    pool.checkpoint(Vec::new).unwrap_err();
    let again = pool.checkpoint(Vec::new).unwrap_err().to_string();
    assert!(
        again.contains("check the disk, then open the database again"),
        "{again}"
    );
    assert!(agrees(&pool, &model));
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &durable));
}

/// What a crash now would leave holds exactly what a model says.
fn is_published(memory: &MemoryVfs, model: &Model) -> bool {
    let left: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    agrees(&open(&left).unwrap(), model)
}

/// Evicted pages are written slowly: while one write waits, checkpoints begin and are given up, and
/// the last one is finished before or after the write is done.
fn write_slowly(case: u64, given_up: usize, is_begun_before: bool, is_finished_before: bool) {
    let memory = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(case));
    (0..800).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    (0..60).for_each(|n| assert!(step(&pool, &mut model, &mut random, 1_000 + n)));
    let first = is_begun_before.then(|| pool.begin_checkpoint(Vec::new).unwrap());
    let pause = faulty.pause_once(CallKind::Write, random.random_range(0..2));
    let begun = std::thread::scope(|scope| {
        // More pages than fit, so that those that were changed are written to make room.
        let reader = scope.spawn(|| {
            model
                .iter()
                .for_each(|(&id, &value)| assert_eq!(read(&pool, id).unwrap(), value));
        });
        assert!(
            pause.is_reached_within(Duration::from_secs(60)),
            "case {case}"
        );
        if let Some(first) = first {
            pool.abandon_checkpoint(&first);
        }
        for _ in 0..given_up {
            let begun = pool.begin_checkpoint(Vec::new).unwrap();
            pool.abandon_checkpoint(&begun);
        }
        let mut begun = pool.begin_checkpoint(Vec::new).unwrap();
        if is_finished_before {
            pool.finish_checkpoint(begun).unwrap();
            assert!(is_published(&memory, &model), "case {case}: too early");
            begun = pool.begin_checkpoint(Vec::new).unwrap();
        }
        pause.release();
        reader.join().unwrap();
        begun
    });
    pool.finish_checkpoint(begun).unwrap();
    assert!(
        is_published(&memory, &model),
        "case {case}: an old version of a page was published after {given_up} were given up"
    );
    (0..200).for_each(|n| assert!(step(&pool, &mut model, &mut random, 2_000 + n)));
    pool.checkpoint(Vec::new).unwrap();
    assert!(is_published(&memory, &model), "case {case}: and later");
}

#[test]
fn a_page_that_is_written_slowly_is_in_the_checkpoint_that_needs_it() {
    for case in 0..32 {
        let given_up = case as usize % 4;
        write_slowly(case, given_up, case & 4 != 0, case & 8 != 0);
    }
}

#[test]
fn reading_on_a_full_disk_tries_few_writes() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    cannot_reserve(&faulty);
    let pool = open(&vfs).unwrap();
    let (mut model, mut random) = (Model::new(), StdRng::seed_from_u64(12));
    (0..900).for_each(|n| assert!(step(&pool, &mut model, &mut random, n)));
    pool.checkpoint(Vec::new).unwrap();
    faulty.set_space(Some(0));
    // Until memory is full of what cannot be written.
    while step(&pool, &mut model, &mut random, 1_000) {}
    let (before, writes) = (pool.statistics(), faulty.calls(CallKind::Write));
    for _ in 0..20 {
        assert!(agrees(&pool, &model), "reads go on");
    }
    let after = pool.statistics();
    let evicted = after.evictions - before.evictions;
    let tried = (faulty.calls(CallKind::Write) - writes) as u64;
    assert!(evicted > 4_000, "{evicted} evicted");
    assert!(tried * 50 < evicted, "{tried} writes for {evicted} evicted");
    assert!(after.clean_first_batches > before.clean_first_batches);
    faulty.set_space(None);
    // With space they are written again, and nothing is lost.
    (0..400).for_each(|n| assert!(step(&pool, &mut model, &mut random, 2_000 + n)));
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    assert!(agrees(&open(&vfs).unwrap(), &model));
}
