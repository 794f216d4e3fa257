//! Key adaption in the background beside a pool that is too small for the tree.

use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

/// A walk adapts what is in memory: it reads next to nothing, writes nothing, and makes no page
/// dirty, however much there is in the file.
#[test]
fn a_walk_leaves_what_is_not_in_memory_there() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 140) * 4096 + 64 * 1024);
    let pool = Arc::new(Pool::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex = BTreeIndex::create(pool).unwrap();
    for key in 0..100_000_u32 {
        let key = key.wrapping_mul(0x9e37_79b9).to_be_bytes();
        tree.insert(&key, &[7; 30]).unwrap();
    }
    tree.pool().checkpoint(Vec::new).unwrap();
    let before = tree.pool().statistics();
    assert!(before.live > 5 * before.resident, "{before:?}");
    let (mut next, mut steps) = (Vec::new(), 0_u64);
    while let Some(upper) = tree.adapt_to_keys(&next, 64).unwrap() {
        assert!(upper > next, "it goes on");
        next = upper;
        steps += 1;
    }
    assert!(64 * steps < before.live, "{steps} steps of 64");
    let after = tree.pool().statistics();
    assert!(after.reads <= before.reads + 2, "{before:?}, {after:?}");
    assert_eq!((after.writes, after.dirty), (before.writes, 0));
    tree.verify().unwrap();
}
