//! A disk that is full while a range is removed: what a removal says goes, and no more.

use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_index::Direction;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

const KEYS: u32 = 20_000;

fn rows(tree: &BTreeIndex) -> u64 {
    let mut rows = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        rows += 1;
        ControlFlow::Continue(())
    };
    tree.scan(Bound::Unbounded, Direction::Forward, &mut count)
        .unwrap();
    rows
}

#[test]
fn a_removal_on_a_full_disk_takes_what_it_says() {
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let options = Options::new((4 * 8 + 140) * 4096 + 64 * 1024);
    let pool = Arc::new(Pool::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex = BTreeIndex::create(pool).unwrap();
    for key in 0..KEYS {
        tree.insert(&key.to_be_bytes(), &[7; 60]).unwrap();
    }
    tree.pool().checkpoint(Vec::new).unwrap();
    // Nor are there free blocks within the file.
    faulty.fail_from(CallKind::Write, 0, Fault::Error(ErrorKind::StorageFull));
    let mut refused = 0;
    for key in (0..KEYS).step_by(30) {
        refused += u32::from(tree.insert(&key.to_be_bytes(), &[8; 60]).is_err());
    }
    assert!(refused > 0, "all of it fits memory");
    assert_eq!(rows(&tree), u64::from(KEYS), "reads go on");
    let mut said = 0;
    let mut all = |_: &[u8], _: &[u8]| {
        said += 1;
        ControlFlow::Continue(true)
    };
    // Leaves that are clean.
    let (from, to) = (KEYS - 5_000, KEYS - 1_000);
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let error = tree.remove_range(from, to, &mut all).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(tree.len(), u64::from(KEYS) - said);
    assert_eq!(rows(&tree), tree.len());
    faulty.heal();
    let mut rest = |_: &[u8], _: &[u8]| ControlFlow::Continue(true);
    tree.remove_range(from, to, &mut rest).unwrap();
    let left = u64::from(KEYS) - 4_000;
    assert_eq!((rows(&tree), tree.len()), (left, left));
    let pages = tree.verified_pages().unwrap();
    assert_eq!(tree.pool().statistics().live as usize, pages);
}
