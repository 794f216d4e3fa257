//! What power cuts and failing disks leave: the last checkpoint, whole, and pages that can be read.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

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

#[test]
fn a_power_cut_leaves_the_last_checkpoint_whole() {
    let mut random = StdRng::seed_from_u64(11);
    let mut images = 0;
    for life in 0..6_u64 {
        let recording = RecordingVfs::new(&MemoryVfs::new());
        let vfs: Arc<dyn Vfs> = Arc::new(recording.clone());
        let pool = open(&vfs).unwrap();
        let mut model = Model::new();
        // After how many operations each checkpoint was published, and what it holds.
        let mut published = vec![(recording.operations(), 0, model.clone())];
        for checkpoint in 1..8_u64 {
            for n in 0..random.random_range(1..250) {
                assert!(step(
                    &pool,
                    &mut model,
                    &mut random,
                    life << 32 | checkpoint << 16 | n
                ));
            }
            pool.checkpoint(|| vec![checkpoint as u8]).unwrap();
            published.push((recording.operations(), checkpoint, model.clone()));
        }
        drop(pool);
        for _ in 0..120 {
            let cut = random.random_range(published[0].0..=recording.operations());
            let image = recording.crash_image(cut, &mut |n| random.random_range(0..n));
            let image: Arc<dyn Vfs> = Arc::new(image);
            let pool = open(&image).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
            let found = u64::from(pool.owner().first().copied().unwrap_or(0));
            let sure = published
                .iter()
                .rev()
                .find(|(at, ..)| *at <= cut)
                .unwrap()
                .1;
            assert!(
                found == sure || found == sure + 1,
                "cut {cut}: {found}, not {sure}"
            );
            let (.., expected) = &published[found as usize];
            assert!(agrees(&pool, expected), "cut {cut}: not checkpoint {found}");
            // And life goes on from there.
            let mut model = expected.clone();
            for n in 0..50 {
                assert!(step(&pool, &mut model, &mut random, n));
            }
            pool.checkpoint(Vec::new).unwrap();
            drop(pool);
            assert!(agrees(&open(&image).unwrap(), &model));
            images += 1;
        }
    }
    assert_eq!(images, 720);
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
        // A failed write of a root leaves no telling which one counts.
        match pool.checkpoint(Vec::new) {
            Ok(()) => {
                drop(pool);
                assert!(agrees(&open(&vfs).unwrap(), &model), "case {case}");
            }
            Err(error) => assert!(error.to_string().contains("open the database again")),
        }
    }
}

#[test]
fn a_full_disk_stops_checkpoints_until_there_is_space() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
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
