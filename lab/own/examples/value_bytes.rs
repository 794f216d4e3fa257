//! How many bytes of pages a record takes, by the length of its value.
//!
//! `cargo run --release -p hedgerow-lab-own --example value_bytes -- [RECORDS]` inserts keys of 8
//! bytes in random order and prints, for one writer's tree and for the shared one, pages in use
//! times their size, divided by the bytes of keys and values.

use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::configuration::Adaptive;
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

const PAGE: usize = 4096;
const LENGTHS: [usize; 12] = [
    100, 300, 600, 800, 1000, 1200, 1400, 2000, 2500, 3000, 5000, 10_000,
];

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn main() {
    let records = std::env::args().nth(1);
    let records: u64 = records.map_or(20_000, |count| count.parse().expect("a number of records"));
    println!("value bytes | one writer | shared");
    for len in LENGTHS {
        let value = vec![7; len];
        let mut one = BTree::<Adaptive, PAGE>::default();
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(1 << 30)).expect("a pool");
        let shared: BTreeIndex<Adaptive, PAGE> =
            BTreeIndex::create(Arc::new(pool)).expect("a tree");
        for number in 1..=records {
            one.insert(&key(number), &value);
            shared.insert(&key(number), &value).expect("room");
        }
        let data = (records * (8 + len as u64)) as f64;
        let pages = shared.pool().statistics().live as usize;
        let bytes = one.statistics().get("live_bytes").expect("counted");
        println!(
            "{len:11} | {:10.2} | {:6.2}",
            bytes / data,
            (pages * PAGE) as f64 / data
        );
    }
}
