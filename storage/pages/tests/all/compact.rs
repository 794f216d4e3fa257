//! A file from which nearly all pages are gone gets short, wherever those lie that are left.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use hedgerow_pages::{Options, PageId, Pages, Pool, View, ViewMut};
use hedgerow_vfs::{SystemVfs, Vfs};

const PAGE: usize = 4096;
const PAGES: u32 = 12_000;

fn open(path: &Path) -> Pool<PAGE> {
    let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
    Pool::open(&vfs, path, &Options::new(4 << 20)).unwrap()
}

fn allocate(mut pool: &Pool<PAGE>, value: u64) -> PageId {
    let operation = pool.begin();
    let mut page = pool.allocate(&operation).unwrap();
    let mut change = pool.change(&mut page, &operation).unwrap();
    change.put_u64(8, value);
    pool.id(&page)
}

fn release(mut pool: &Pool<PAGE>, id: PageId) {
    let operation = pool.begin();
    let page = pool.exclusive(id).unwrap();
    pool.release(page, &operation).unwrap();
}

#[test]
fn live_pages_at_the_end_do_not_keep_a_file_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pages");
    let pool = open(&path);
    let ids: Vec<PageId> = (0..u64::from(PAGES)).map(|n| allocate(&pool, n)).collect();
    pool.checkpoint(Vec::new).unwrap();
    let full = std::fs::metadata(&path).unwrap();
    assert!(full.len() >= u64::from(PAGES) * PAGE as u64);
    let stays = |n: usize| n.is_multiple_of(1_000) || n + 5 > ids.len();
    for (n, &id) in ids.iter().enumerate() {
        if !stays(n) {
            release(&pool, id);
        }
    }
    let before = pool.statistics().writes;
    for _ in 0..3 {
        pool.checkpoint(Vec::new).unwrap();
    }
    let small = std::fs::metadata(&path).unwrap();
    // Three blocks for each in use, and a little.
    assert!(
        small.len() < 300 * PAGE as u64,
        "{} bytes long",
        small.len()
    );
    let on_disk = small.blocks() * 512;
    assert!(on_disk < small.len() + (64 << 10), "{on_disk} on disk");
    assert_eq!(small.len(), pool.statistics().file_bytes);
    // Nothing moves for ever.
    let moved = pool.statistics().writes - before;
    assert!((16..=64).contains(&moved), "{moved} pages were written");
    drop(pool);
    let pool = open(&path);
    for (n, &id) in ids.iter().enumerate().filter(|(n, _)| stays(*n)) {
        let page = Pages::shared(&&pool, id).unwrap();
        assert_eq!(page.image().u64(8), Ok(n as u64));
    }
}
