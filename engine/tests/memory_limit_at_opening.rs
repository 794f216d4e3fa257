//! The memory limit counts the memory of the whole process: so these tests have a process of
//! their own, and run one after the other.

use std::sync::{Arc, Mutex};

use hedgerow::{Db, Durability, Error};
use hedgerow_sync::epoch;
use hedgerow_vfs::{CallKind, FaultyVfs, MemoryVfs, Vfs};

const MIB: usize = 1 << 20;
const WORKERS: usize = 2;

static ONE_TEST: Mutex<()> = Mutex::new(());

/// Opens with a limit of so much more than what is in use now.
fn open(vfs: &Arc<dyn Vfs>, room_bytes: Option<usize>) -> Result<Db, Error> {
    let limit = room_bytes.map(|room_bytes| hedgerow_memory::live_bytes() + room_bytes);
    Db::builder()
        .vfs(Arc::clone(vfs))
        .workers(WORKERS)
        .checkpoint_log_bytes(None)
        .memory_limit(limit)
        .open("/d")
}

/// A worker that recovers looks at memory each time it has put 1 MiB of rows into an index. It
/// puts up to 1 MiB at once, and rows take more there than in the log.
const MOST_UNCHECKED_BYTES: usize = WORKERS * 3 * MIB;

/// Opening with so little more memory is an error that tells what it used: not much more than it
/// may, however the threads were scheduled.
#[track_caller]
fn assert_refused(vfs: &Arc<dyn Vfs>, room_bytes: usize) {
    let refused = open(vfs, Some(room_bytes)).err();
    let Some(
        error @ Error::RecoveryOutOfMemory {
            limit_bytes,
            used_bytes,
        },
    ) = refused
    else {
        panic!("{refused:?}");
    };
    let most_bytes = limit_bytes + limit_bytes / 4;
    assert!(
        used_bytes > most_bytes && used_bytes < most_bytes + MOST_UNCHECKED_BYTES,
        "{used_bytes} of {limit_bytes}"
    );
    assert!(error.to_string().contains("higher memory limit"), "{error}");
}

/// A commit is one piece of the log, so it is read at once.
#[test]
fn a_large_commit_does_not_pass_the_limit_at_opening() {
    let _one_test_at_a_time = ONE_TEST.lock();
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs, None).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    let rows = 24 * 1024u32;
    let mut batch = db.batch();
    for row in 0..rows {
        batch.put(&keyspace, &row.to_be_bytes(), &[7; 1000]);
    }
    batch.commit(Durability::Periodic).unwrap();
    db.close().unwrap();
    drop((keyspace, db));
    assert_refused(&vfs, 4 * MIB);
    let db = open(&vfs, None).unwrap();
    assert_eq!(db.keyspace("k").unwrap().len(), u64::from(rows));
}

#[test]
fn what_fitted_opens_again_and_what_does_not_is_refused() {
    let _one_test_at_a_time = ONE_TEST.lock();
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
        assert_refused(&vfs, 8 * MIB);
        let db = open(&vfs, None).unwrap();
        assert_eq!(
            db.keyspace("k").unwrap().len(),
            u64::from(rows),
            "nothing is lost"
        );
    }
}

/// A long row that is replaced again and again needs the memory of one, when it is replayed, too.
#[test]
fn what_a_replay_replaces_does_not_count() {
    const VALUE_BYTES: usize = 16 * MIB;
    const ROOM_BYTES: usize = VALUE_BYTES / 2 * 3;
    let _one_test_at_a_time = ONE_TEST.lock();
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs, Some(ROOM_BYTES)).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for n in 0..12u8 {
        keyspace.put(b"key", &vec![n; VALUE_BYTES]).unwrap();
    }
    db.close().unwrap();
    drop((keyspace, db));
    // What is in use now is what nobody is going to free.
    epoch::release_due();
    epoch::release_due();
    let db = open(&vfs, Some(ROOM_BYTES)).expect("what fitted fits again");
    let value = db.keyspace("k").unwrap().get(b"key").unwrap();
    assert!(value.is_some_and(|value| value[0] == 11));
}

/// Every thread that replays holds the longest block of the log.
#[test]
fn fewer_threads_read_a_log_whose_blocks_are_large() {
    const BLOCK_BYTES: usize = 16 * MIB;
    let _one_test_at_a_time = ONE_TEST.lock();
    let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let open = |room_bytes: Option<usize>| {
        let limit = room_bytes.map(|room_bytes| hedgerow_memory::live_bytes() + room_bytes);
        let builder = Db::builder().vfs(Arc::new(vfs.clone())).workers(8);
        let builder = builder.checkpoint_log_bytes(None).memory_limit(limit);
        builder.open("/d").unwrap()
    };
    let db = open(None);
    let keyspace = db.keyspace("k").unwrap();
    for commit in 0..4u8 {
        let mut batch = db.batch();
        for row in 0..8u8 {
            batch.put(&keyspace, &[commit, row], &vec![7; BLOCK_BYTES / 8]);
        }
        batch.commit(Durability::Sync).unwrap();
    }
    db.close().unwrap();
    drop((keyspace, db));
    let reads_of = |room_bytes| {
        let before = vfs.calls(CallKind::Read);
        let db = open(room_bytes);
        assert_eq!(db.keyspace("k").unwrap().len(), 32);
        let opened = vfs.calls(CallKind::Read);
        drop(db);
        opened - before
    };
    let (all, few) = (reads_of(None), reads_of(Some(5 * BLOCK_BYTES)));
    assert!(few * 2 < all, "{few} and {all}");
}
