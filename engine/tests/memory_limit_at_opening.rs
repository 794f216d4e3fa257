//! The memory limit counts the memory of the whole process: so this test has a process of its own.

use std::sync::Arc;

use hedgerow::{Db, Error};
use hedgerow_vfs::{MemoryVfs, Vfs};

const MIB: usize = 1 << 20;

/// Opens with a limit of so much more than what is in use now.
fn open(vfs: &Arc<dyn Vfs>, room_bytes: Option<usize>) -> Result<Db, Error> {
    let limit = room_bytes.map(|room_bytes| hedgerow_memory::live_bytes() + room_bytes);
    Db::builder()
        .vfs(Arc::clone(vfs))
        .workers(2)
        .checkpoint_log_bytes(None)
        .memory_limit(limit)
        .open("/d")
}

#[test]
fn what_fitted_opens_again_and_what_does_not_is_refused() {
    for with_checkpoint in [false, true] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let db = open(&vfs, Some(24 * MIB)).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let mut rows = 0u32;
        while keyspace.put(&rows.to_be_bytes(), &[7; 1000]).is_ok() {
            rows += 1;
            assert!(rows < 100_000, "the limit is never reached");
        }
        if with_checkpoint {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
        drop((keyspace, db));
        let db = open(&vfs, Some(24 * MIB)).expect("what fitted fits again");
        assert_eq!(db.keyspace("k").unwrap().len(), u64::from(rows));
        drop(db);
        let refused = open(&vfs, Some(8 * MIB)).err();
        let Some(
            error @ Error::RecoveryOutOfMemory {
                limit_bytes,
                used_bytes,
            },
        ) = refused
        else {
            panic!("{refused:?}");
        };
        // Threads look one after the other, and one that had to wait for a processor looks late.
        let most_bytes = limit_bytes + limit_bytes / 4 + 8 * MIB;
        assert!(
            used_bytes > limit_bytes && used_bytes < most_bytes,
            "{used_bytes} of {limit_bytes}"
        );
        assert!(error.to_string().contains("higher memory limit"), "{error}");
        let db = open(&vfs, None).unwrap();
        assert_eq!(
            db.keyspace("k").unwrap().len(),
            u64::from(rows),
            "nothing is lost"
        );
    }
}
