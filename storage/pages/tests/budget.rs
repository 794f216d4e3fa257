//! The budget is the process's: a test of its own, since others would count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_pages::{Options, PageId, Pages, Pool, View, ViewMut};
use hedgerow_vfs::{SystemVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;

fn put(mut pool: &Pool<PAGE>, id: Option<PageId>, value: u64) -> PageId {
    let operation = pool.begin();
    let page = match id {
        Some(id) => pool.exclusive(id),
        None => pool.allocate(&operation),
    };
    let mut page = page.unwrap();
    pool.change(&mut page, &operation)
        .unwrap()
        .put_u64(8, value);
    pool.id(&page)
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn memory_stays_within_the_budget_under_load() {
    const BUDGET: u64 = 96 << 20;
    let dir = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
    let options = Options::new(BUDGET);
    let before = resident_bytes();
    let path = dir.path().join("pages");
    let pool = Arc::new(Pool::<PAGE>::open(&vfs, &path, &options).unwrap());
    let _cleaner = pool.start_cleaner().unwrap();
    let ids: Vec<PageId> = (0..100_000).map(|n| put(&pool, None, n)).collect();
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (pool, ids, most) = (&*pool, &ids, &most);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for step in 0..8_000_u64 {
                    let id = ids[random.random_range(0..ids.len())];
                    if step % 4 == 0 {
                        put(pool, Some(id), step);
                    } else {
                        assert!(Pages::shared(&pool, id).unwrap().image().u64(8).is_ok());
                    }
                    if step % 256 == 0 {
                        most.fetch_max(resident_bytes(), Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..3 {
            pool.checkpoint(Vec::new).unwrap();
        }
    });
    let grown = most.load(Ordering::Relaxed).saturating_sub(before);
    assert!(grown > BUDGET / 2, "the budget is used: {grown}");
    assert!(
        grown < BUDGET + BUDGET / 10,
        "{grown} bytes with a budget of {BUDGET}"
    );
}
