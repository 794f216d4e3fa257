//! A database one page of which is damaged, and whose logs have records for it: it opens, says
//! which keys are concerned, and keeps those records until it can be told otherwise.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Builder, Db, Error, IndexKind, KeySpan, Keyspace, WriteOptions};
use hedgerow_testkit::databases::builder_of;
use hedgerow_vfs::{MemoryVfs, Vfs};

const DIR: &str = "/db";
const PAGES: &str = "/db/pages.hdg";
const ROWS: u32 = 20_000;
const VICTIM: u32 = 10_000;
/// What a removed range begins and ends with: the victim is within.
const RANGE: (u32, u32) = (9_000, 12_000);

fn builder(disk: &MemoryVfs) -> Builder {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    builder_of(Some(IndexKind::BTree))
        .vfs(vfs)
        .workers(2)
        .sweep_interval(None)
}

fn open(disk: &MemoryVfs) -> Db {
    builder(disk).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    [n.to_le_bytes(), round.to_le_bytes()].concat().repeat(12)
}

/// What is in the row after the range was removed.
fn expected(n: u32) -> Option<Vec<u8>> {
    match n {
        _ if n.is_multiple_of(7) => Some(value(n, 3)),
        _ if (RANGE.0..RANGE.1).contains(&n) => None,
        _ if n.is_multiple_of(3) => Some(value(n, 2)),
        _ => Some(value(n, 1)),
    }
}

/// A disk with a checkpoint, logs behind it, and a damaged page that both are about.
fn damaged() -> MemoryVfs {
    let disk = MemoryVfs::new();
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    for n in 0..ROWS {
        rows.put(&key(n), &value(n, 1)).unwrap();
    }
    db.checkpoint().unwrap();
    let file = |disk: &MemoryVfs| {
        let files = disk.files().into_iter();
        let mut files = files.filter(|(path, _)| path == Path::new(PAGES));
        files.next().unwrap().1
    };
    let mut pages = file(&disk);
    for n in (0..ROWS).filter(|n| n.is_multiple_of(3)) {
        rows.put(&key(n), &value(n, 2)).unwrap();
    }
    rows.delete_range(key(RANGE.0)..key(RANGE.1)).unwrap();
    for n in (0..ROWS).filter(|n| n.is_multiple_of(7)) {
        rows.put(&key(n), &value(n, 3)).unwrap();
    }
    db.sync().unwrap();
    let crashed = disk.deep_clone();
    let victim = value(VICTIM, 1);
    // Older versions of the page may lie elsewhere.
    while let Some(at) = pages
        .windows(victim.len())
        .position(|bytes| bytes == victim)
    {
        pages[at] ^= 1;
    }
    crashed.insert_file(Path::new(PAGES), pages);
    crashed
}

/// Looks at all rows; which keys cannot be read. Old bytes of the victim may lie unused in the page
/// beside its own, too.
fn check(rows: &Keyspace) -> Vec<KeySpan> {
    let mut spans: Vec<KeySpan> = Vec::new();
    let holds = |span: &KeySpan, key: &[u8]| {
        key >= &span.from && span.to.as_deref().is_none_or(|to| key < to)
    };
    let mut lost = 0;
    for n in 0..ROWS {
        let key = key(n);
        let found = match rows.get(&key) {
            Ok(found) => found,
            Err(Error::Index(error)) => {
                let span = error.keys().expect("the keys are known");
                let said = error.to_string();
                for part in [
                    "pages.hdg",
                    "page ",
                    "checksum",
                    "backup",
                    &span.to_string(),
                ] {
                    assert!(said.contains(part), "{said}");
                }
                assert!(holds(span, &key), "row {n}: {said}");
                if !spans.contains(span) {
                    spans.push(span.clone());
                }
                lost += 1;
                continue;
            }
            Err(error) => panic!("row {n}: {error}"),
        };
        let is_lost = spans.iter().any(|span| holds(span, &key));
        assert!(!is_lost, "row {n}");
        assert_eq!(found, expected(n), "row {n}");
    }
    assert!(spans.iter().any(|span| holds(span, &key(VICTIM))));
    assert!(
        spans.len() <= 2 && (2..200).contains(&lost),
        "{lost} in {spans:?}"
    );
    spans
}

#[test]
fn a_damaged_page_that_the_logs_are_about_costs_its_rows_alone() {
    let disk = damaged();
    // Where nothing can be written, redo needs room.
    let whole = builder(&disk).memory_limit(Some(64 << 20));
    let report = whole.check(DIR).unwrap();
    let said = report.problems[0].to_string();
    assert!(
        said.contains("pages.hdg") && said.contains("keys from"),
        "{said}"
    );
    let mut last = None;
    for round in 0..3_u32 {
        let db = open(&disk);
        let rows = db.keyspace("rows").unwrap();
        let spans = check(&rows);
        assert_eq!(last.get_or_insert_with(|| spans.clone()), &spans);
        let reasons = db.not_replayed();
        assert_eq!(reasons.len(), spans.len(), "{reasons:?}");
        for span in &spans {
            let is_said = |reason: &String| reason.contains(&span.to_string());
            assert!(reasons.iter().any(is_said), "{reasons:?}");
        }
        assert!(db.statistics().get("recovery_lost_records").unwrap() >= 2.0);
        let refused = db.checkpoint().unwrap_err();
        assert!(matches!(refused, Error::NotReplayed { .. }), "{refused}");
        for part in ["checkpoint", "pages.hdg", "dump"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        // Others are written as ever.
        let name = format!("written {round}").into_bytes();
        rows.put(&name, b"new").unwrap();
        for round in 0..=round {
            let name = format!("written {round}").into_bytes();
            assert_eq!(rows.get(&name).unwrap().as_deref(), Some(&b"new"[..]));
        }
        db.close().unwrap();
    }
    // Without the keyspace nothing is missing any more.
    let db = open(&disk);
    db.drop_keyspace("rows").unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    assert!(db.not_replayed().is_empty());
    db.checkpoint().unwrap();
}

#[test]
fn a_page_that_comes_back_has_all_its_rows() {
    let disk = damaged();
    // Opened, written and closed meanwhile.
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    let _ = check(&rows);
    rows.put(&key(1), b"meanwhile").unwrap();
    db.close().unwrap();
    drop((rows, db));
    let files = disk.files().into_iter();
    let mut files = files.filter(|(path, _)| path == Path::new(PAGES));
    let mut pages = files.next().unwrap().1;
    let mut victim = value(VICTIM, 1);
    victim[0] ^= 1;
    while let Some(at) = pages
        .windows(victim.len())
        .position(|bytes| bytes == victim)
    {
        pages[at] ^= 1;
    }
    disk.insert_file(Path::new(PAGES), pages);
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    for n in (0..ROWS).filter(|&n| n != 1) {
        assert_eq!(rows.get(&key(n)).unwrap(), expected(n), "row {n}");
    }
    assert_eq!(
        rows.get(&key(1)).unwrap().as_deref(),
        Some(&b"meanwhile"[..])
    );
    assert!(db.not_replayed().is_empty());
    db.verify().unwrap();
    db.checkpoint().unwrap();
}

/// The sweeper comes to the rows of the damaged page first, and they stay where they are.
#[test]
fn expired_rows_are_swept_beside_those_of_a_damaged_page() {
    const EXPIRING: u32 = 4_000;
    let disk = MemoryVfs::new();
    let now = Arc::new(AtomicU64::new(1_000));
    let open = |disk: &MemoryVfs| {
        let now = Arc::clone(&now);
        let clock = move || now.load(Ordering::Relaxed);
        builder(disk).now(Box::new(clock)).open(DIR).unwrap()
    };
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    for n in 0..EXPIRING {
        // Row 500 is the first to expire: the root, once a leaf, has old bytes of the lowest.
        let expiry_ms = 2_000 + u64::from((n + EXPIRING - 500) % EXPIRING);
        let options = WriteOptions {
            expiry_ms: Some(expiry_ms),
            ..WriteOptions::default()
        };
        rows.put_with(&key(n), &value(n, 1), &options).unwrap();
    }
    db.close().unwrap();
    drop((rows, db));
    // More rows than the sweeper looks at together.
    let mut damaged = 0;
    for n in (500..2_500).step_by(10) {
        damaged += flip_all(&disk, &value(n, 1));
    }
    assert!(damaged >= 200, "{damaged}");
    let db = open(&disk);
    let rows = db.keyspace("rows").unwrap();
    let readable = || {
        let is_there = |&n: &u32| !matches!(rows.contains(&key(n)), Ok(false));
        (0..EXPIRING).filter(is_there).count()
    };
    now.store(1_500, Ordering::Relaxed);
    let lost = (0..EXPIRING).filter(|&n| rows.contains(&key(n)).is_err());
    let lost = lost.count() as u64;
    assert!((1_100..3_000).contains(&lost), "{lost}");
    assert_eq!(readable(), EXPIRING as usize);
    now.store(100_000, Ordering::Relaxed);
    for _ in 0..2 {
        let failed = db.sweep_expired().unwrap_err();
        assert!(matches!(failed, Error::Index(_)), "{failed}");
        assert_eq!(rows.len(), lost, "all others went");
        let counted = db.statistics().get("expired_rows_unreadable");
        assert_eq!(counted, Some(lost as f64));
    }
}

/// Changes a bit of all copies of some bytes in the page file; how many there were.
fn flip_all(disk: &MemoryVfs, bytes: &[u8]) -> usize {
    let files = disk.files().into_iter();
    let mut files = files.filter(|(path, _)| path == Path::new(PAGES));
    let mut pages = files.next().unwrap().1;
    let mut flipped = 0;
    while let Some(at) = pages
        .windows(bytes.len())
        .position(|window| window == bytes)
    {
        pages[at] ^= 1;
        flipped += 1;
    }
    disk.insert_file(Path::new(PAGES), pages);
    flipped
}
