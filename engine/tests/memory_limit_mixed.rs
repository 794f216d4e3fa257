//! One limit of memory for indexes in memory and pages. It counts the memory of the whole process:
//! so this test has a process of its own.

use std::sync::Arc;

use hedgerow::{Builder, Db, Durability, Error, IndexKind, KeyspaceOptions};
use hedgerow_vfs::{MemoryVfs, Vfs};

const LIMIT: usize = 48 << 20;

fn builder(vfs: &Arc<dyn Vfs>) -> Builder {
    let builder = Db::builder().vfs(Arc::clone(vfs)).workers(1);
    builder.memory_limit(Some(LIMIT)).checkpoint_log_bytes(None)
}

fn number(db: &Db, name: &str) -> usize {
    db.statistics().get(name).unwrap() as usize
}

/// What indexes in memory use, and what pages may use beside them, is the limit at most, give or
/// take a step of a sixty-fourth.
fn check_shares(db: &Db) {
    let (used, pages) = (
        hedgerow_memory::live_bytes(),
        number(db, "pages_budget_bytes"),
    );
    assert!(used + pages <= LIMIT + LIMIT / 32, "{used} and {pages}");
    assert!(pages >= LIMIT / 4, "{pages}");
    assert!(number(db, "pages_resident") * 4096 <= pages);
}

#[test]
fn pages_give_way_to_rows_in_memory_down_to_a_quarter() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = builder(&vfs).open("/d").unwrap();
    let with = |index| KeyspaceOptions { index: Some(index) };
    let memory = db
        .keyspace_with("memory", with(IndexKind::Masstree))
        .unwrap();
    let pages = db.keyspace_with("pages", with(IndexKind::BTree)).unwrap();
    for n in 0..60_000_u32 {
        pages.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
    }
    assert!(
        number(&db, "pages_resident") * 4096 > LIMIT / 2,
        "nothing else needs it yet"
    );
    let mut stored = 0_u32;
    let error = loop {
        match memory.put(&stored.to_be_bytes(), &[7; 1000]) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100_000, "the limit is never reached");
    };
    let Error::OutOfMemory {
        limit_bytes: LIMIT,
        share_bytes,
    } = error
    else {
        panic!("{error}");
    };
    assert!(share_bytes <= LIMIT / 4 * 3, "{share_bytes}");
    for words in [
        "in memory",
        "B-trees",
        "remove rows",
        "--memory",
        "memory_limit",
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
    // A commit of rows of both is refused as a whole.
    let mut batch = db.batch();
    batch.put(&pages, b"half", b"").put(&memory, b"half", b"");
    assert!(batch.commit(Durability::Periodic).is_err());
    assert_eq!(pages.get(b"half").unwrap(), None);
    assert!(
        hedgerow_memory::live_bytes() > LIMIT / 2,
        "three quarters are for rows in memory"
    );
    check_shares(&db);
    for n in 60_000..70_000_u32 {
        pages.put(&n.to_be_bytes(), &[7; 1000]).unwrap();
    }
    check_shares(&db);
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop((memory, pages, db));
    let db = builder(&vfs).open("/d").unwrap();
    assert_eq!(db.open_keyspace("memory").unwrap().len(), u64::from(stored));
    assert_eq!(db.open_keyspace("pages").unwrap().len(), 70_000);
    check_shares(&db);
    // What was cleared makes room, though there is a handle.
    let memory = db.open_keyspace("memory").unwrap();
    db.clear_keyspace("memory").unwrap();
    let done = (0..100_000).any(|_| {
        memory.remove(b"none").unwrap();
        memory.put(b"again", &[7; 1000]).is_ok()
    });
    assert!(done, "the memory of cleared rows never comes back");
}
