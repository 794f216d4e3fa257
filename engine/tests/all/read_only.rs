//! Databases of B-trees that are only looked at: after a kill, with a page file that is missing or
//! damaged. What can be read is read, what cannot is named, and nothing on the disk changes.

use std::path::Path;
use std::sync::Arc;

use hedgerow::{Builder, Error, IndexKind};
use hedgerow_testkit::databases::builder_of;
use hedgerow_vfs::{MemoryVfs, Vfs};

const DIR: &str = "/db";
const PAGES: &str = "/db/pages.hdg";
const ROWS: u32 = 20_000;

fn builder(disk: &MemoryVfs) -> Builder {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    builder_of(Some(IndexKind::BTree))
        .vfs(vfs)
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    [n.to_le_bytes(), round.to_le_bytes()].concat().repeat(25)
}

/// A closed database: four times the memory, in pages.
fn closed() -> MemoryVfs {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open(DIR).unwrap();
    let rows = db.keyspace("rows").unwrap();
    for n in 0..ROWS {
        rows.put(&key(n), &value(n, 1)).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    disk
}

fn page_file(disk: &MemoryVfs) -> Vec<u8> {
    let files = disk.files().into_iter();
    let mut files = files.filter(|(path, _)| path == Path::new(PAGES));
    files.next().expect("there is a page file").1
}

#[test]
fn a_killed_database_with_more_log_than_memory_can_be_looked_at() {
    let disk = closed();
    let db = builder(&disk).open(DIR).unwrap();
    let rows = db.keyspace("rows").unwrap();
    for n in 0..ROWS {
        rows.put(&key(n), &value(n, 2)).unwrap();
    }
    db.sync().unwrap();
    let killed = disk.deep_clone();
    drop((rows, db));
    let before = killed.files();
    let db = builder(&killed).read_only(true).open(DIR).unwrap();
    let rows = db.open_keyspace("rows").unwrap();
    for n in (0..ROWS).step_by(7) {
        assert_eq!(rows.get(&key(n)).unwrap(), Some(value(n, 2)), "row {n}");
    }
    assert_eq!(rows.count(..).unwrap(), u64::from(ROWS));
    assert_eq!(db.verify().unwrap(), u64::from(ROWS));
    // What was changed and evicted is in a scratch file: memory stays within its limit.
    let number = |name| db.statistics().get(name).unwrap();
    let resident = number("pages_resident") * 4096.0;
    assert!(resident <= number("pages_budget_bytes"), "{resident} bytes");
    assert!(number("pages_written_total") > 1_000.0);
    db.close().unwrap();
    let report = builder(&killed).check(DIR).unwrap();
    assert_eq!((report.problems.len(), report.rows), (0, u64::from(ROWS)));
    let is_lock = |path: &Path| path.ends_with("LOCK");
    let files = |all: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        all.into_iter().filter(|(path, _)| !is_lock(path)).collect()
    };
    assert!(files(killed.files().into_iter().collect()) == files(before.into_iter().collect()));
}

#[test]
fn a_page_file_that_is_missing_is_named_and_not_made() {
    let disk = closed();
    disk.remove(Path::new(PAGES)).unwrap();
    for read_only in [false, true] {
        let error = builder(&disk).read_only(read_only).open(DIR).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        for part in ["pages.hdg", "missing", "restore a backup"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!disk.exists(Path::new(PAGES)).unwrap());
    }
    let report = builder(&disk).check(DIR).unwrap();
    assert!(report.problems[0].to_string().contains("missing"));
    assert!(!disk.exists(Path::new(PAGES)).unwrap());
    // Before the first checkpoint the logs have everything.
    let disk = MemoryVfs::new();
    let db = builder(&disk).open(DIR).unwrap();
    db.keyspace("rows").unwrap().put(b"key", b"value").unwrap();
    db.sync().unwrap();
    let killed = disk.deep_clone();
    drop(db);
    killed.remove(Path::new(PAGES)).unwrap();
    let db = builder(&killed).open(DIR).unwrap();
    let rows = db.open_keyspace("rows").unwrap();
    assert_eq!(rows.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_check_counts_the_page_file_and_a_torn_root() {
    let disk = closed();
    let report = builder(&disk).check(DIR).unwrap();
    let pages = page_file(&disk);
    assert!(report.problems.is_empty());
    assert!(report.size_bytes >= pages.len() as u64, "{report:?}");
    assert!(report.files >= 2, "the manifest, too: {report:?}");
    let torn = report.torn_bytes;
    // Of the two roots the one with the lower epoch does not count.
    let epoch = |slot: usize| u64::from_le_bytes(*pages[slot * 4096 + 24..].first_chunk().unwrap());
    let older = usize::from(epoch(1) < epoch(0));
    let mut damaged = pages.clone();
    damaged[older * 4096 + 100] ^= 1;
    disk.insert_file(Path::new(PAGES), damaged);
    let report = builder(&disk).check(DIR).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!(report.torn_bytes, torn + 4096);
}

/// A part of the page table is lost: in turn each of those at the end of the file, of which the
/// first has the pages that lead to all others.
#[test]
fn what_is_left_of_a_page_file_can_be_read() {
    let disk = closed();
    let whole = page_file(&disk);
    let (mut read, mut lost) = (0, 0);
    for back in 1..=4 {
        let mut pages = whole.clone();
        let at = pages.len() - 4096 * back + 100;
        pages[at] ^= 1;
        disk.insert_file(Path::new(PAGES), pages);
        let Err(error) = builder(&disk).open(DIR) else {
            continue;
        };
        let said = error.to_string();
        assert!(said.contains("page table"), "{said}");
        assert!(said.contains("dump") && !said.contains("salvage"), "{said}");
        let report = builder(&disk).check(DIR).unwrap();
        assert!(report.problems[0].to_string().contains("page table"));
        let Ok(db) = builder(&disk).read_only(true).open(DIR) else {
            continue;
        };
        let rows = db.open_keyspace("rows").unwrap();
        for n in 0..ROWS {
            match rows.get(&key(n)) {
                Ok(found) => {
                    assert_eq!(found, Some(value(n, 1)), "row {n}");
                    read += 1;
                }
                Err(Error::Index(_)) => lost += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(read > 0 && lost > 0, "{read} read, {lost} lost");
}
