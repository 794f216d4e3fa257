//! Keyspaces in memory beside B-trees in a page file: one log, one checkpoint, one limit of memory.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Builder, Db, Durability, Health, IndexKind, KeyspaceOptions, Locks, WriteOptions};
use hedgerow_log::{MIXED_FORMAT_VERSION, Manifest, PLAIN_FORMAT_VERSION};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

use crate::keyspaces::{everything, with};

const DIR: &str = "/db";
const PAGES: &str = "/db/pages.hdg";
pub(crate) const KINDS: [IndexKind; 5] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::Bst,
    IndexKind::BTree,
];

pub(crate) fn builder(vfs: &dyn Fn() -> Arc<dyn Vfs>) -> Builder {
    Db::builder()
        .vfs(vfs())
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
}

pub(crate) fn on(disk: &MemoryVfs) -> Builder {
    builder(&|| Arc::new(disk.clone()))
}

fn key(n: u32) -> [u8; 8] {
    u64::from(n.wrapping_mul(0x9e37_79b9)).to_be_bytes()
}

/// Writes rows of all kinds of keyspaces in commits that they share; some expire, some go.
fn write(db: &Db, numbers: std::ops::Range<u32>) {
    write_kinds(db, &KINDS, numbers);
}

/// The same, in keyspaces of these kinds.
pub(crate) fn write_kinds(db: &Db, kinds: &[IndexKind], numbers: std::ops::Range<u32>) {
    let spaces = kinds.iter();
    let spaces = spaces.map(|kind| db.keyspace_with(kind.name(), with(*kind)).unwrap());
    let spaces: Vec<_> = spaces.collect();
    for n in numbers {
        let mut batch = db.batch();
        for space in &spaces {
            batch.put(space, &key(n), &n.to_le_bytes().repeat(10));
        }
        batch.commit(Durability::Periodic).unwrap();
        let space = &spaces[n as usize / 5 % kinds.len()];
        if n % 5 == 0 {
            let options = WriteOptions::default().expiry_ms(u64::from(n) + 1);
            space.put_with(&key(n), b"expires", &options).unwrap();
        }
        if n % 7 == 0 {
            space.remove(&key(n / 2)).unwrap();
        }
    }
    let all: Vec<_> = spaces
        .iter()
        .map(|space| (space, &b"is moved"[..]))
        .collect();
    let moved = db.transact(Locks::Keys(&all), &Durability::Sync.into(), |tx| {
        all.iter()
            .try_for_each(|(space, key)| tx.put(space, key, b"everywhere"))
    });
    moved.unwrap();
    for space in &spaces {
        space.delete_range([0x40_u8]..[0x50]).unwrap();
    }
    db.sync().unwrap();
}

/// Rows, and how many of them expire.
pub(crate) fn state(db: &Db) -> (Vec<crate::keyspaces::Contents>, Vec<u64>) {
    let spaces = db.keyspaces().into_iter();
    let expiring = spaces.map(|name| db.open_keyspace(&name).unwrap().expiring());
    (everything(db), expiring.collect())
}

/// A database with a clock at 0.
pub(crate) fn opened(disk: &MemoryVfs) -> Db {
    on(disk).now(Box::new(|| 0)).open(DIR).unwrap()
}

#[test]
fn all_kinds_live_beside_each_other_and_come_back() {
    for default in KINDS {
        let disk = MemoryVfs::new();
        let db = on(&disk)
            .index(default)
            .now(Box::new(|| 0))
            .open(DIR)
            .unwrap();
        write(&db, 0..500);
        let first = state(&db);
        assert_eq!(
            state(&opened(&disk.deep_clone())),
            first,
            "from the logs alone"
        );
        db.checkpoint().unwrap();
        assert_eq!(
            state(&opened(&disk.deep_clone())),
            first,
            "from the checkpoint"
        );
        write(&db, 400..900);
        db.clear_keyspace(IndexKind::Matryoshka.name()).unwrap();
        let second = state(&db);
        let killed = disk.deep_clone();
        assert_eq!(state(&opened(&killed)), second, "from both");
        assert_eq!(on(&killed).check(DIR).unwrap().problems, []);
        let read_only = on(&disk.deep_clone()).read_only(true).now(Box::new(|| 0));
        assert_eq!(state(&read_only.open(DIR).unwrap()), second);
        db.backup("/copy").unwrap();
        on(&disk).restore("/copy", "/restored").unwrap();
        let restored = on(&disk).now(Box::new(|| 0)).open("/restored").unwrap();
        assert_eq!(state(&restored), second, "restored");
        db.close().unwrap();
        assert_eq!(state(&opened(&disk)), second, "closed");
    }
}

/// The file calls of a checkpoint fail from the n-th of their kind on, for each n; what is on the
/// disk then is recovered.
#[test]
fn a_checkpoint_that_stops_anywhere_loses_nothing_and_brings_nothing_back() {
    for kind in [
        CallKind::Write,
        CallKind::Sync,
        CallKind::Rename,
        CallKind::Open,
    ] {
        for after in (0..).step_by(2) {
            let disk = MemoryVfs::new();
            let faulty = FaultyVfs::new(Arc::new(disk.clone()));
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let db = builder(&|| Arc::clone(&vfs))
                .now(Box::new(|| 0))
                .open(DIR)
                .unwrap();
            write(&db, 0..60);
            db.checkpoint().unwrap();
            write(&db, 40..100);
            let expected = state(&db);
            faulty.fail_from(kind, after, Fault::Error(ErrorKind::Other));
            let stopped = db.checkpoint();
            let files = disk.deep_clone();
            faulty.heal();
            assert_eq!(
                state(&opened(&files)),
                expected,
                "{kind:?} {after}: {stopped:?}"
            );
            let problems = on(&files).check(DIR).unwrap().problems;
            assert_eq!(problems, [], "{kind:?} {after}");
            if stopped.is_ok() {
                break;
            }
        }
    }
}

/// The first B-tree of a database in memory that has checkpoints: its page file begins where the
/// logs do.
#[test]
fn a_database_in_memory_gets_a_page_file_with_its_first_btree() {
    for kind in [
        CallKind::Write,
        CallKind::Sync,
        CallKind::Rename,
        CallKind::Open,
    ] {
        for after in 0.. {
            let disk = MemoryVfs::new();
            let faulty = FaultyVfs::new(Arc::new(disk.clone()));
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let db = builder(&|| Arc::clone(&vfs)).open(DIR).unwrap();
            let memory = db.keyspace("memory").unwrap();
            for n in 0..50_u32 {
                memory.put(&key(n), b"value").unwrap();
                if n % 20 == 0 {
                    db.checkpoint().unwrap();
                }
            }
            let version =
                |disk: &MemoryVfs| Manifest::load(disk, Path::new(DIR)).unwrap().format_version;
            assert_eq!(version(&disk), PLAIN_FORMAT_VERSION);
            assert!(!disk.exists(Path::new(PAGES)).unwrap());
            db.sync().unwrap();
            faulty.fail_from(kind, after, Fault::Error(ErrorKind::Other));
            let made = db.keyspace_with("pages", with(IndexKind::BTree));
            let files = disk.deep_clone();
            faulty.heal();
            check_copy_of_failed(&db, &disk);
            if disk.exists(Path::new(PAGES)).unwrap() {
                assert_eq!(
                    version(&files),
                    MIXED_FORMAT_VERSION,
                    "an earlier program refuses it"
                );
            }
            let reopened = on(&files).open(DIR).unwrap();
            assert_eq!(
                reopened.open_keyspace("memory").unwrap().len(),
                50,
                "{kind:?} {after}"
            );
            let pages = reopened
                .keyspace_with("pages", with(IndexKind::BTree))
                .unwrap();
            pages
                .put_with(b"key", b"value", &Durability::Sync.into())
                .unwrap();
            let again = on(&files.deep_clone()).open(DIR).unwrap();
            assert_eq!(again.open_keyspace("pages").unwrap().len(), 1);
            assert_eq!(again.default_index(), IndexKind::Masstree);
            if made.is_ok() {
                break;
            }
        }
    }
}

/// A page file that could not be made, if there is one, is in the way of no backup.
fn check_copy_of_failed(db: &Db, disk: &MemoryVfs) {
    if db.health() != Health::Healthy {
        return;
    }
    db.backup("/copy").unwrap();
    assert_eq!(on(disk).check("/copy").unwrap().problems, []);
    let copy = on(disk).open("/copy").unwrap();
    assert_eq!(copy.open_keyspace("memory").unwrap().len(), 50);
}

#[test]
fn a_first_btree_without_memory_for_its_pages_changes_nothing() {
    let disk = MemoryVfs::new();
    let db = on(&disk).memory_limit(Some(64 << 10)).open(DIR).unwrap();
    let error = db
        .keyspace_with("pages", with(IndexKind::BTree))
        .unwrap_err();
    assert!(error.to_string().contains("--memory"), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    assert_eq!(db.keyspaces(), [""; 0]);
    let manifest = Manifest::load(&disk, Path::new(DIR)).unwrap();
    assert_eq!(manifest.format_version, PLAIN_FORMAT_VERSION);
    assert!(!disk.exists(Path::new(PAGES)).unwrap());
    db.keyspace("memory").unwrap();
    db.close().unwrap();
}

/// What is left of its page file would be in the way of the next database there.
#[test]
fn a_database_whose_page_file_could_not_be_made_is_discarded_as_a_whole() {
    let disk = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let db = builder(&|| Arc::clone(&vfs)).open(DIR).unwrap();
    let full = Fault::Error(ErrorKind::StorageFull);
    faulty.fail_from_at(
        |path, _| path.ends_with("pages.hdg.new"),
        CallKind::Sync,
        0,
        full,
    );
    let made = db.keyspace_with("pages", with(IndexKind::BTree));
    made.unwrap_err();
    assert!(disk.exists(Path::new("/db/pages.hdg.new")).unwrap());
    faulty.heal();
    assert!(db.discard().unwrap());
    assert!(disk.files().is_empty());
    on(&disk).open(DIR).unwrap().close().unwrap();
}

#[test]
fn the_bytes_of_an_index_grow_with_its_rows() {
    let disk = MemoryVfs::new();
    let db = on(&disk).open(DIR).unwrap();
    for kind in KINDS {
        let keyspace = db.keyspace_with(kind.name(), with(kind)).unwrap();
        for n in 0..1_000_u32 {
            keyspace.put(&key(n), &[7; 500]).unwrap();
        }
        let bytes = keyspace.index_bytes().unwrap();
        assert!((500_000..5_000_000).contains(&bytes), "{kind:?} {bytes}");
        db.clear_keyspace(kind.name()).unwrap();
        assert!(keyspace.index_bytes().unwrap() < 100_000, "{kind:?}");
    }
}

#[test]
fn the_format_names_a_mixed_database_and_no_other() {
    let disk = MemoryVfs::new();
    let version = || {
        Manifest::load(&disk, Path::new(DIR))
            .unwrap()
            .format_version
    };
    let db = on(&disk).index(IndexKind::BTree).open(DIR).unwrap();
    db.keyspace("pages").unwrap().put(b"key", b"").unwrap();
    assert_eq!(version(), PLAIN_FORMAT_VERSION);
    db.keyspace_with("memory", with(IndexKind::Masstree))
        .unwrap();
    assert_eq!(version(), MIXED_FORMAT_VERSION);
    db.checkpoint().unwrap();
    assert_eq!(version(), MIXED_FORMAT_VERSION);
    db.close().unwrap();
    let db = on(&disk).open(DIR).unwrap();
    assert_eq!(
        (version(), db.default_index()),
        (MIXED_FORMAT_VERSION, IndexKind::Masstree)
    );
    db.drop_keyspace("memory").unwrap();
    assert_eq!(version(), PLAIN_FORMAT_VERSION);
    db.close().unwrap();
    let db = on(&disk).open(DIR).unwrap();
    assert_eq!(db.default_index(), IndexKind::BTree);
    db.drop_keyspace("pages").unwrap();
    db.keyspace_with("memory", with(IndexKind::Matryoshka))
        .unwrap();
    assert_eq!(
        version(),
        MIXED_FORMAT_VERSION,
        "the page file is there still"
    );
}

/// A commit of rows of both kinds fails at a page: no row of it is there, nor in a checkpoint.
#[test]
fn a_commit_that_fails_at_a_page_leaves_rows_in_memory_alone() {
    let disk = MemoryVfs::new();
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let open = || {
        let builder = builder(&|| Arc::clone(&vfs));
        builder.memory_limit(Some(8 << 20)).open(DIR).unwrap()
    };
    let db = open();
    let memory = db.keyspace_with("a", with(IndexKind::Masstree)).unwrap();
    let pages = db.keyspace_with("b", with(IndexKind::BTree)).unwrap();
    for n in 0..2_000_u32 {
        pages.put(&key(n), &[7; 100]).unwrap();
    }
    // So that recovery brings no page to memory.
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = open();
    let (memory, pages) = (
        db.keyspace(memory.name()).unwrap(),
        db.keyspace(pages.name()).unwrap(),
    );
    faulty.fail_from(CallKind::Read, 0, Fault::Error(ErrorKind::Other));
    let mut batch = db.batch();
    batch
        .put(&memory, b"row", b"half")
        .put(&pages, &key(1_000), b"other half");
    batch.commit(Durability::Periodic).unwrap_err();
    faulty.heal();
    assert!(memory.is_empty() && memory.get(b"row").unwrap().is_none());
    assert_eq!(pages.get(&key(1_000)).unwrap().unwrap(), [7; 100]);
}

#[test]
fn rows_of_both_kinds_expire_and_leave_no_entry_behind() {
    let disk = MemoryVfs::new();
    let now_ms = Arc::new(AtomicU64::new(0));
    let open = |disk: &MemoryVfs| {
        let now_ms = Arc::clone(&now_ms);
        on(disk)
            .now(Box::new(move || now_ms.load(Ordering::Relaxed)))
            .open(DIR)
            .unwrap()
    };
    let db = open(&disk);
    write(&db, 0..200);
    db.checkpoint().unwrap();
    write(&db, 150..400);
    let killed = disk.deep_clone();
    drop(db);
    let db = open(&killed);
    let spaces = KINDS.map(|kind| db.open_keyspace(kind.name()).unwrap());
    let expiring: u64 = spaces.iter().map(|space| space.expiring()).sum();
    assert!(spaces.iter().all(|space| space.expiring() > 0));
    now_ms.store(u64::MAX / 2, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), expiring);
    assert_eq!(db.sweep_expired().unwrap(), 0);
    assert!(
        spaces
            .iter()
            .all(|space| space.expiring() == 0 && !space.is_empty())
    );
}

#[test]
fn keyspace_options_of_an_existing_btree_are_checked() {
    let disk = MemoryVfs::new();
    let db = on(&disk).open(DIR).unwrap();
    db.keyspace_with("b", with(IndexKind::BTree)).unwrap();
    let other = db
        .keyspace_with("b", with(IndexKind::Masstree))
        .unwrap_err();
    assert!(other.to_string().contains("btree, not masstree"), "{other}");
    db.keyspace_with("b", KeyspaceOptions::default()).unwrap();
}
