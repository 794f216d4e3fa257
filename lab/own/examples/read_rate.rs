//! Random reads of pages that are not in memory, beside plain reads of the same file.
//!
//! ```text
//! cargo run --release -p hedgerow-lab-own --example read_rate -- [DIR] [PAGES] [READS]
//! ```
//!
//! Makes a page file in DIR (the current directory), with a budget of an eighth of it, and prints
//! reads per second: `pread` of one page after the other past the system's cache, the file
//! layer's batches, and the pool's faults and batches, by one thread. Each is measured several
//! times in turn, and the middle counts.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hedgerow_pages::{Options, PageId, Pages, Pool, View, ViewMut};
use hedgerow_vfs::{OpenMode, ReadAt, SystemVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;
const BATCH: usize = 64;
const ROUNDS: usize = 5;

#[repr(align(4096))]
#[derive(Clone)]
struct Block([u8; PAGE]);

fn rate(reads: usize, mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> f64 {
    let start = Instant::now();
    match work() {
        Ok(()) => reads as f64 / start.elapsed().as_secs_f64(),
        Err(error) => {
            eprintln!("{error}");
            0.0
        }
    }
}

fn fill(mut pool: &Pool<PAGE>, pages: u32) -> Result<Vec<PageId>, Box<dyn Error>> {
    let mut ids = Vec::new();
    for n in 0..pages {
        let operation = pool.begin();
        let mut page = pool.allocate(&operation)?;
        pool.change(&mut page, &operation)?.put_u32(0, n);
        ids.push(pool.id(&page));
    }
    pool.checkpoint(Vec::new)?;
    Ok(ids)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments
        .next()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let pages: u32 = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let reads: usize = arguments.next().map_or(Ok(20_000), |n| n.parse())?;
    let path = dir.join("read_rate.pages");
    let result = measure(&path, pages, reads);
    std::fs::remove_file(&path)?;
    result
}

fn measure(path: &Path, pages: u32, reads: usize) -> Result<(), Box<dyn Error>> {
    let vfs: Arc<dyn Vfs> = Arc::new(SystemVfs);
    let budget = (u64::from(pages) * PAGE as u64 / 8).max(8 << 20);
    let pool = Arc::new(Pool::<PAGE>::open(&vfs, path, &Options::new(budget))?);
    let _cleaner = pool.start_cleaner()?;
    let ids = fill(&pool, pages)?;
    let file = vfs.open_direct(path, OpenMode::Read)?;
    let blocks = file.len()? / PAGE as u64;
    let mut random = StdRng::seed_from_u64(1);
    let mut rates = vec![Vec::new(); 4];
    for _ in 0..ROUNDS {
        let offsets: Vec<u64> = (0..reads)
            .map(|_| random.random_range(0..blocks) * PAGE as u64)
            .collect();
        let wanted: Vec<PageId> = (0..reads)
            .map(|_| ids[random.random_range(0..ids.len())])
            .collect();
        let mut buffers = vec![Block([0; PAGE]); BATCH];
        rates[0].push(rate(reads, || {
            for &offset in &offsets {
                file.read_at(offset, &mut buffers[0].0)?;
            }
            Ok(())
        }));
        rates[1].push(rate(reads, || {
            for group in offsets.chunks(BATCH) {
                let mut batch: Vec<ReadAt<'_>> = group
                    .iter()
                    .zip(&mut buffers)
                    .map(|(&offset, block)| ReadAt::new(offset, &mut block.0))
                    .collect();
                file.read_many(&mut batch);
            }
            Ok(())
        }));
        rates[2].push(rate(reads, || look_up(&pool, &wanted, 1)));
        rates[3].push(rate(reads, || look_up(&pool, &wanted, BATCH)));
    }
    let names = ["pread", "read_many", "pool, one by one", "pool, load_many"];
    for (name, rates) in names.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        println!("{name:<18} {:>9.0} reads/s", rates[ROUNDS / 2]);
    }
    println!("(an eighth of the pool's lookups find their page in memory)");
    println!("{:?}", pool.statistics());
    Ok(())
}

/// Looks pages up in batches, and checks them.
fn look_up(pool: &Pool<PAGE>, wanted: &[PageId], batch: usize) -> Result<(), Box<dyn Error>> {
    for group in wanted.chunks(batch) {
        if batch > 1 {
            Pages::load_many(&pool, group);
        }
        for &id in group {
            let page = Pages::shared(&pool, id)?;
            if page.image().u32(0) != Ok(id.0) {
                return Err(format!("{id} has another page's content").into());
            }
        }
    }
    Ok(())
}
