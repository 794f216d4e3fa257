//! The pool against a map: pages that do not fit memory, checkpoints and reopens, threads, the
//! budget, and what bad input is answered with.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hedgerow_pages::{Error, Options, PageId, Pages, Pool, Stop, View, ViewMut};
use hedgerow_vfs::{CallKind, FaultyVfs, MemoryVfs, OpenMode, SystemVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;
const PATH: &str = "/pages";
/// Room for 128 pages besides the buffers, and a little for numbers.
const SMALL: u64 = 4 * 8 * 4096 + 128 * 4096 + 64 * 1024;

fn open(vfs: &Arc<dyn Vfs>, budget: u64) -> Pool<PAGE> {
    Pool::open(vfs, Path::new(PATH), &Options::new(budget)).unwrap()
}

/// Fills a page so that any mix of two fillings shows.
fn fill(page: &mut impl ViewMut<PAGE>, value: u64) {
    for at in (0..PAGE).step_by(8) {
        page.put_u64(at, value ^ (at as u64) << 32);
    }
}

fn content(view: impl View) -> Result<Option<u64>, hedgerow_pages::Restart> {
    let value = view.u64(0)?;
    for at in (0..PAGE).step_by(8) {
        if view.u64(at)? != value ^ (at as u64) << 32 {
            return Ok(None);
        }
    }
    Ok(Some(value))
}

fn read(pool: &Pool<PAGE>, id: PageId) -> Option<u64> {
    let page = Pages::shared(&pool, id).unwrap();
    content(page.image()).unwrap()
}

fn read_optimistically(pool: &Pool<PAGE>, id: PageId) -> Option<u64> {
    loop {
        let snapshot = pool.optimistic(id).unwrap();
        let found = content(pool.seen(&snapshot));
        if pool.validate(&snapshot).is_ok() {
            return found.expect("in bounds");
        }
    }
}

fn allocate(mut pool: &Pool<PAGE>, value: u64) -> PageId {
    let operation = pool.begin();
    let mut page = pool.allocate(&operation).unwrap();
    fill(&mut pool.change(&mut page, &operation).unwrap(), value);
    pool.id(&page)
}

fn write(mut pool: &Pool<PAGE>, id: PageId, value: u64) {
    let operation = pool.begin();
    let mut page = pool.exclusive(id).unwrap();
    fill(&mut pool.change(&mut page, &operation).unwrap(), value);
}

fn release(mut pool: &Pool<PAGE>, id: PageId) {
    let operation = pool.begin();
    if id.0.is_multiple_of(2) {
        return pool.release_by_id(id, &operation).unwrap();
    }
    let page = pool.exclusive(id).unwrap();
    pool.release(page, &operation).unwrap();
}

#[test]
fn pages_that_come_to_lie_side_by_side_are_written_together() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let ids: Vec<PageId> = (0..2_000).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    let statistics = pool.statistics();
    assert!(statistics.writes >= 2_000, "{statistics:?}");
    assert!(
        statistics.write_calls * 4 < statistics.writes,
        "{statistics:?}"
    );
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!(read(&pool, id), Some(n as u64));
    }
}

#[test]
fn what_is_written_is_read_through_evictions_checkpoints_and_reopens() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut random = StdRng::seed_from_u64(1);
    let mut model: HashMap<PageId, u64> = HashMap::new();
    let mut durable = model.clone();
    let (mut begun, mut evictions) = (None, 0);
    let mut pool = open(&vfs, SMALL);
    for step in 0..40_000_u64 {
        let some = (!model.is_empty()).then(|| {
            let wanted = PageId(random.random_range(0..model.len() as u32 * 2));
            model.keys().copied().find(|&id| id == wanted)
        });
        match (random.random_range(0..100), some.flatten()) {
            (0..20, _) if model.len() < 600 => {
                let id = allocate(&pool, step);
                assert_eq!(model.insert(id, step), None, "{id} given out twice");
            }
            (20..45, Some(id)) => {
                write(&pool, id, step);
                model.insert(id, step);
            }
            (45..55, Some(id)) => {
                release(&pool, id);
                model.remove(&id);
                assert!(matches!((&pool).optimistic(id), Err(Stop::Restart)));
            }
            (55..70, Some(id)) => assert_eq!(read(&pool, id), Some(model[&id]), "{id}"),
            (70..85, Some(id)) => assert_eq!(read_optimistically(&pool, id), Some(model[&id])),
            (85..90, _) => {
                let ids: Vec<PageId> = (0..40)
                    .map(|_| PageId(random.random_range(0..1000)))
                    .collect();
                (&pool).load_many(&ids);
            }
            // Begins a checkpoint, and finishes (or gives up) the one that was begun before.
            (98, _) if step % 3 == 0 => match begun.take() {
                Some((begun, then)) if step % 8 > 0 => {
                    pool.finish_checkpoint(begun).unwrap();
                    durable = then;
                }
                _ => {
                    let owner = || step.to_le_bytes().to_vec();
                    begun = Some((pool.begin_checkpoint(owner).unwrap(), model.clone()));
                }
            },
            (99, _) if step % 7 == 0 => {
                begun = None;
                evictions += pool.statistics().evictions;
                drop(pool);
                pool = open(&vfs, SMALL);
                model = durable.clone();
            }
            _ => {}
        }
        assert!((&pool).resident_bytes() <= SMALL as usize);
        assert_eq!((&pool).live(), model.len());
    }
    for (&id, &value) in &model {
        assert_eq!(read(&pool, id), Some(value));
    }
    evictions += pool.statistics().evictions;
    assert!(evictions > 1_000);
}

#[test]
fn a_checkpoint_that_was_given_up_is_not_published() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let id = allocate(&pool, 1);
    let first = pool.begin_checkpoint(|| b"first".to_vec()).unwrap();
    write(&pool, id, 2);
    let second = pool.begin_checkpoint(|| b"second".to_vec()).unwrap();
    assert!(matches!(pool.finish_checkpoint(first), Err(Error::GivenUp)));
    write(&pool, id, 3);
    pool.finish_checkpoint(second).unwrap();
    let third = pool.begin_checkpoint(|| b"third".to_vec()).unwrap();
    pool.abandon_checkpoint(&third);
    assert!(matches!(pool.finish_checkpoint(third), Err(Error::GivenUp)));
    drop(pool);
    let pool = open(&vfs, SMALL);
    assert_eq!(pool.owner(), b"second");
    assert_eq!(read(&pool, id), Some(2));
}

#[test]
fn a_page_that_is_given_back_by_its_number_is_not_read() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let ids: Vec<PageId> = (0..1000).map(|n| allocate(&pool, n)).collect();
    let kept = pool.begin_checkpoint(|| b"all".to_vec()).unwrap();
    let before = pool.statistics();
    let mut handle = &pool;
    let gone = |id: PageId| {
        let operation = handle.begin();
        pool.release_by_id(id, &operation)
    };
    ids.iter().for_each(|&id| gone(id).unwrap());
    assert!(ids.iter().all(|&id| matches!(gone(id), Err(Stop::Restart))));
    assert!(matches!(gone(PageId(1 << 20)), Err(Stop::Restart)));
    assert!(matches!(handle.try_exclusive(ids[0]), Err(Stop::Restart)));
    let after = pool.statistics();
    assert_eq!(
        (after.reads, after.live, after.resident),
        (before.reads, 0, 0)
    );
    // The checkpoint that was begun before has them all.
    pool.finish_checkpoint(kept).unwrap();
    let again = handle.begin();
    let page = handle.allocate(&again).unwrap();
    assert!(ids.contains(&handle.id(&page)));
    drop((page, again));
    let copy = open(&vfs, SMALL);
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!(read(&copy, id), Some(n as u64));
    }
}

#[test]
fn who_will_not_wait_gets_a_page_that_nobody_has() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let handle = &pool;
    let ids: Vec<PageId> = (0..400).map(|n| allocate(&pool, n)).collect();
    for (n, &id) in ids.iter().enumerate() {
        let latch = handle.try_exclusive(id).unwrap().expect("nobody has it");
        assert_eq!(content(latch.image()).unwrap(), Some(n as u64));
        assert!(handle.try_exclusive(id).unwrap().is_none());
        drop(latch);
        let shared = handle.shared(id).unwrap();
        assert!(handle.try_exclusive(id).unwrap().is_none());
        drop(shared);
    }
}

/// Stops the other threads of a test, also where the test fails.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Readers whose latches overlap, so that the page is never free by itself.
#[test]
fn a_writer_has_its_turn_among_readers_that_follow_each_other() {
    const WRITES: u64 = 20;
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let id = allocate(&pool, 0);
    let (stop, written) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let page = Pages::shared(&&pool, id).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                    assert!(content(page.image()).unwrap().is_some());
                }
            });
        }
        let (pool, done) = (&pool, written.0);
        scope.spawn(move || {
            (1..=WRITES).for_each(|value| write(pool, id, value));
            done.send(()).unwrap();
        });
        let seen = written.1.recv_timeout(Duration::from_secs(120));
        assert_eq!(seen, Ok(()), "the writer starves");
    });
    assert_eq!(read(&pool, id), Some(WRITES));
}

/// Moves amounts between two of the pages until `stop`: their sum is the same at every moment.
fn transfer(pool: &Pool<PAGE>, ids: &[PageId], seed: u64, stop: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut handle = pool;
    while !stop.load(Ordering::Relaxed) {
        let a = random.random_range(0..ids.len());
        let b = random.random_range(0..ids.len());
        if a == b {
            continue;
        }
        let operation = handle.begin();
        let mut from = handle.exclusive(ids[a.min(b)]).unwrap();
        let mut to = handle.exclusive(ids[a.max(b)]).unwrap();
        let x = handle.image(&from).u64(0).unwrap();
        let y = handle.image(&to).u64(0).unwrap();
        if x > 0 {
            fill(&mut handle.change(&mut from, &operation).unwrap(), x - 1);
            fill(&mut handle.change(&mut to, &operation).unwrap(), y + 1);
        }
    }
}

/// Reads pages with a latch and without, until `stop`: none is torn.
fn read_until(pool: &Pool<PAGE>, ids: &[PageId], seed: u64, stop: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed);
    while !stop.load(Ordering::Relaxed) {
        let id = ids[random.random_range(0..ids.len())];
        assert!(
            read_optimistically(pool, id).is_some(),
            "a torn page was validated"
        );
        assert!(read(pool, id).is_some(), "a latched page was torn");
    }
}

/// Makes a checkpoint and opens a copy of the file: the pages add up to `sum`.
fn check_checkpoint(pool: &Pool<PAGE>, memory: &MemoryVfs, ids: &[PageId], round: u64, sum: u64) {
    pool.checkpoint(|| round.to_le_bytes().to_vec()).unwrap();
    let copy: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    let reopened = open(&copy, SMALL);
    assert_eq!(reopened.owner(), round.to_le_bytes());
    let values = ids.iter().map(|&id| read(&reopened, id).expect("whole"));
    let found: u64 = values.sum();
    assert_eq!(found, sum, "a checkpoint cut through an operation");
}

#[test]
fn threads_share_pages_under_eviction_and_checkpoints_are_moments() {
    const PAGES: u64 = 400;
    let memory = MemoryVfs::new();
    let disk = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let pool = Arc::new(open(&vfs, SMALL));
    let ids: Vec<PageId> = (0..PAGES).map(|_| allocate(&pool, 1000)).collect();
    // While a checkpoint waits for the disk, others change pages that it has not written yet.
    disk.delay(CallKind::Write, std::time::Duration::from_micros(100));
    let stop = AtomicBool::new(false);
    let cleaner = pool.start_cleaner().unwrap();
    std::thread::scope(|scope| {
        let (pool, ids, stop) = (&*pool, &ids, &stop);
        for seed in 1..3 {
            scope.spawn(move || transfer(pool, ids, seed, stop));
        }
        for seed in 3..5 {
            scope.spawn(move || read_until(pool, ids, seed, stop));
        }
        let _stop = StopWhenDropped(stop);
        // Until a page was changed that a checkpoint had not written yet.
        for round in (0..5_000_u64).take_while(|&round| round < 25 || pool.statistics().saved == 0)
        {
            check_checkpoint(pool, &memory, ids, round, PAGES * 1000);
        }
    });
    drop(cleaner);
    let statistics = pool.statistics();
    assert!(
        statistics.saved > 0 && statistics.evictions > 0,
        "{statistics:?}"
    );
}

#[test]
fn hints_and_reads_write_nothing() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let ids: Vec<PageId> = (0..300).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    let before = pool.statistics();
    let mut handle = &pool;
    for &id in &ids {
        let snapshot = handle.optimistic(id).unwrap();
        let mut page = handle.exclusive(id).unwrap();
        assert!(handle.validate(&snapshot).is_err(), "latched");
        let value = handle.image(&page).u64(0).unwrap();
        handle.touch(&mut page).put_u64(0, value);
        drop(page);
        assert!(handle.validate(&snapshot).is_err(), "touched");
        let snapshot = handle.optimistic(id).unwrap();
        drop(handle.exclusive(id).unwrap());
        assert!(
            handle.validate(&snapshot).is_ok(),
            "a latch alone changes nothing"
        );
    }
    let after = pool.statistics();
    assert_eq!(after.writes, before.writes);
    assert!(after.evictions > before.evictions);
}

#[test]
fn space_is_used_again_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pages");
    let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
    let pool = Pool::<PAGE>::open(&vfs, &path, &Options::new(SMALL)).unwrap();
    let ids: Vec<PageId> = (0..2000).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    let full = pool.statistics().file_bytes;
    for round in 0..5 {
        for &id in &ids[..200] {
            write(&pool, id, round);
        }
        pool.checkpoint(Vec::new).unwrap();
    }
    let grown = pool.statistics().file_bytes;
    assert!(grown < full + full / 4, "{grown} bytes after {full}");
    let used = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).unwrap().blocks() * 512
    };
    let before = used(&path);
    ids[100..].iter().for_each(|&id| release(&pool, id));
    pool.checkpoint(Vec::new).unwrap();
    pool.checkpoint(Vec::new).unwrap();
    assert!(
        used(&path) < before / 4,
        "{} of {before} bytes",
        used(&path)
    );
    drop(pool);
    let pool = Pool::<PAGE>::open(&vfs, &path, &Options::new(SMALL)).unwrap();
    assert_eq!((&pool).live(), 100);
    for (n, &id) in ids[..100].iter().enumerate() {
        assert_eq!(read(&pool, id), Some(4), "page {n}");
    }
}

#[test]
fn tables_of_several_levels_come_back() {
    // A block of the table holds 512 entries and a root 439: this needs two levels.
    const FEW: u32 = 439 * 512 + 5_000;
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    // A larger budget has larger buffers.
    let budget = SMALL + 4 * 64 * 4096 + u64::from(FEW) * 16;
    let pool = open(&vfs, budget);
    let mut handle = &pool;
    let mut ids = Vec::new();
    for n in 0..FEW {
        let operation = handle.begin();
        let mut page = handle.allocate(&operation).unwrap();
        handle.change(&mut page, &operation).unwrap().put_u32(0, n);
        ids.push(handle.id(&page));
        drop(page);
        if n == 100_000 {
            drop(operation);
            pool.checkpoint(Vec::new).unwrap();
        }
    }
    pool.checkpoint(Vec::new).unwrap();
    write(&pool, ids[77], 5);
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    let pool = open(&vfs, budget);
    for n in (0..FEW).step_by(997) {
        let page = Pages::shared(&&pool, ids[n as usize]).unwrap();
        assert_eq!(page.image().u32(0), Ok(n));
    }
    assert_eq!(read(&pool, ids[77]), Some(5));
}

fn refused(result: Result<Pool<PAGE>, Error>) -> String {
    result.err().expect("refused").to_string()
}

#[test]
fn bad_input_is_refused_with_a_remedy() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let path = Path::new(PATH);
    let tiny = refused(Pool::open(&vfs, path, &Options::new(500_000)));
    assert!(tiny.contains("at least 655360 bytes are needed"), "{tiny}");
    {
        let pool = open(&vfs, SMALL);
        (0..1000).for_each(|n| _ = allocate(&pool, n));
        pool.checkpoint(Vec::new).unwrap();
        // Makes room at the front, where the table goes with the checkpoint after.
        (10..30).for_each(|n| release(&pool, PageId(n)));
        pool.checkpoint(Vec::new).unwrap();
        (0..2).for_each(|n| write(&pool, PageId(600 * n), 1));
        pool.checkpoint(Vec::new).unwrap();
    }
    let other = Options {
        database: 9,
        ..Options::new(SMALL)
    };
    let foreign = refused(Pool::open(&vfs, path, &other));
    assert!(foreign.contains("belongs to the database"), "{foreign}");
    let wide = Pool::<16384>::open(&vfs, path, &Options::new(1 << 30))
        .err()
        .unwrap();
    assert!(
        matches!(wide, Error::PageSize { found: 4096, .. }),
        "{wide}"
    );
    memory.insert_file(Path::new("/text"), b"no pages here".to_vec());
    let text = refused(Pool::open(&vfs, Path::new("/text"), &Options::new(SMALL)));
    assert!(text.contains("/text is not a Hedgerow page file"), "{text}");

    for (format, remedy) in [(1_u32, "export its rows with"), (3, "use a newer program")] {
        let mut root = [
            b"HDGPAGES".as_slice(),
            &format.to_le_bytes(),
            &[0; PAGE - 12],
        ]
        .concat();
        let crc = crc32c::crc32c(&root);
        root[52..56].copy_from_slice(&crc.to_le_bytes());
        memory.insert_file(Path::new("/other"), root);
        let other = refused(Pool::open(&vfs, Path::new("/other"), &Options::new(SMALL)));
        assert!(
            other.contains("/other") && other.contains(remedy),
            "{other}"
        );
    }

    let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
    file.truncate(500 * PAGE as u64).unwrap();
    let short = refused(Pool::open(&vfs, path, &Options::new(SMALL)));
    assert!(
        short.contains("/pages") && short.contains("page "),
        "{short}"
    );
    let salvaging = Options {
        salvage: true,
        ..Options::new(SMALL)
    };
    let pool = Pool::<PAGE>::open(&vfs, path, &salvaging).unwrap();
    let readable = (0..1000).filter(|&n| Pages::shared(&&pool, PageId(n)).is_ok());
    let readable = readable.count();
    assert!((400..500).contains(&readable), "{readable} pages");
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_costs_no_other_page() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let pool = open(&vfs, SMALL);
    let ids: Vec<PageId> = (0..64).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    let (_, bytes) = memory.files().remove(0);
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let bit = random.random_range(0..bytes.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        let disk = MemoryVfs::new();
        disk.insert_file(Path::new(PATH), damaged);
        let disk: Arc<dyn Vfs> = Arc::new(disk);
        let options = Options::new(SMALL);
        // Damage in the table or the roots is refused, or leaves the older, empty root.
        let Ok(pool) = Pool::<PAGE>::open(&disk, Path::new(PATH), &options) else {
            continue;
        };
        if (&pool).live() == 0 {
            continue;
        }
        let mut lost = 0;
        for (n, &id) in ids.iter().enumerate() {
            match Pages::shared(&&pool, id) {
                Ok(page) => assert_eq!(content(page.image()), Ok(Some(n as u64))),
                Err(Stop::Failed(error)) => {
                    lost += 1;
                    let text = error.to_string();
                    assert!(
                        text.contains(&id.to_string()) && text.contains("checksum"),
                        "{text}"
                    );
                }
                Err(Stop::Restart) => panic!("{id} is in use"),
            }
        }
        assert!(lost <= 1);
    }
}

#[test]
fn a_cleaner_fetches_what_was_queued() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let ids: Vec<PageId> = (0..500).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    let pool = Arc::new(open(&vfs, SMALL));
    let cleaner = pool.start_cleaner().unwrap();
    // No more than it keeps for so little memory.
    (&*pool).prefetch(&ids[..10]);
    while pool.statistics().reads < 10 {
        std::thread::yield_now();
    }
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!(read(&pool, id), Some(n as u64));
    }
    assert_eq!(pool.statistics().reads, 500, "nothing was read twice");
    drop(cleaner);
    (&*pool).prefetch(&ids);
    assert!(
        pool.statistics().reads > 500,
        "without a cleaner it is done at once"
    );
}

#[test]
fn numbers_that_name_no_page_are_passed_over() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut options = Options::new(SMALL);
    options.most_pages = 1000;
    let pool = Pool::<PAGE>::open(&vfs, Path::new(PATH), &options).unwrap();
    let ids: Vec<PageId> = (0..4).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    let pool = Pool::<PAGE>::open(&vfs, Path::new(PATH), &options).unwrap();
    // What a reader makes of bytes that change under it: none, none of this file, one not yet used.
    let nonsense = [u32::MAX, 1000, 999, 4].map(PageId);
    let [none, beyond, last, next] = nonsense;
    (&pool).load_many(&[none, ids[0], beyond, ids[1], last, next]);
    assert_eq!(pool.statistics().reads, 2);
    (&pool).prefetch(&[none, ids[2], beyond, last, next, ids[3]]);
    assert_eq!(pool.statistics().reads, 4);
    for id in nonsense {
        let snapshot = Pages::optimistic(&&pool, id);
        assert!(matches!(snapshot, Err(Stop::Restart)), "{id}");
    }
}

#[test]
fn reserved_memory_is_not_used_for_pages_until_it_is_returned() {
    const BUDGET: u64 = SMALL + 872 * 4096;
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, BUDGET);
    let ids: Vec<PageId> = (0..3_000).map(|n| allocate(&pool, n)).collect();
    let check = || {
        for (n, &id) in ids.iter().enumerate() {
            assert_eq!(read(&pool, id), Some(n as u64));
        }
        pool.statistics().resident as usize
    };
    let whole = pool.limit();
    assert!(whole > 900 && check() > whole / 2);
    let reservation = pool.reserve_memory(100 * PAGE);
    assert_eq!(
        (reservation.bytes(), pool.limit()),
        (100 * PAGE, whole - 100)
    );
    assert!(
        pool.statistics().resident as usize <= pool.limit(),
        "at once"
    );
    let rest = pool.reserve_memory(usize::MAX);
    assert_eq!(pool.limit(), (whole - 100) / 4);
    assert!(check() <= pool.limit());
    let nothing = pool.reserve_memory(1 << 30);
    assert!(nothing.bytes() < rest.bytes());
    drop((reservation, rest, nothing));
    assert_eq!(pool.limit(), whole);
    assert!(check() > whole / 2);
    pool.checkpoint(Vec::new).unwrap();
    drop(pool);
    let mut options = Options::new(BUDGET);
    options.read_only = true;
    let pool: Pool<PAGE> = Pool::open(&vfs, Path::new(PATH), &options).unwrap();
    assert_eq!(
        pool.reserve_memory(1 << 20).bytes(),
        1 << 20,
        "it evicts as others do"
    );
}

#[test]
fn most_of_any_budget_is_for_pages() {
    for budget in [800 << 10, 1 << 20, 2 << 20, 16 << 20, 256 << 20] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = open(&vfs, budget);
        let pages = (pool.limit() * PAGE) as u64;
        assert!(
            pages <= budget && pages > budget / 5 * 4,
            "{pages} of {budget}"
        );
    }
}

/// Pages that are used again and again, beside others that are each used once: how many of the
/// former had to be read again.
fn read_again(demoted: bool) -> u64 {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let pool = open(&vfs, SMALL);
    let often: Vec<PageId> = (0..50).map(|n| allocate(&pool, n)).collect();
    let once: Vec<PageId> = (50..2_050).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    let mut again = 0;
    for (index, &id) in once.iter().enumerate() {
        assert_eq!(read(&pool, id), Some(index as u64 + 50));
        if demoted {
            pool.demote(id);
        }
        // Less often than the hand of the clock comes round.
        let often = often[index / 3 % often.len()];
        let before = pool.statistics().reads;
        assert!(read_optimistically(&pool, often).is_some());
        again += pool.statistics().reads - before;
    }
    again
}

#[test]
fn pages_that_are_demoted_go_before_others() {
    let (plain, demoted) = (read_again(false), read_again(true));
    assert!(plain > 200, "too little happens: {plain}");
    assert!(demoted * 3 < plain, "{demoted} where it was {plain}");
}
