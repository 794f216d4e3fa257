//! Databases of B-trees in a page file: larger than memory, crashes between the two things that a
//! checkpoint publishes, damage, and what is refused.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hedgerow::{Builder, Db, Durability, Error, IndexKind, Keyspace, WriteOptions};
use hedgerow_testkit::databases::{LITTLE_MEMORY, builder_of};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, Vfs};

pub(crate) const DIR: &str = "/db";
pub(crate) const PAGES: &str = "/db/pages.hdg";

pub(crate) fn builder(vfs: &Arc<dyn Vfs>) -> Builder {
    builder_of(Some(IndexKind::BTree))
        .vfs(Arc::clone(vfs))
        .workers(2)
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
}

pub(crate) fn open(vfs: &Arc<dyn Vfs>) -> Db {
    builder(vfs).open(DIR).unwrap()
}

pub(crate) fn key(n: u32) -> Vec<u8> {
    // Neighbours in time are not neighbours in the tree.
    format!("{:08x}", n.wrapping_mul(0x9e37_79b9)).into_bytes()
}

pub(crate) fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(50)
}

pub(crate) fn fill(rows: &Keyspace, numbers: std::ops::Range<u32>) {
    for n in numbers {
        rows.put(&key(n), &value(n)).unwrap();
    }
}

pub(crate) fn check(rows: &Keyspace, numbers: std::ops::Range<u32>) {
    for n in numbers {
        assert_eq!(rows.get(&key(n)).unwrap(), Some(value(n)), "row {n}");
    }
}

pub(crate) fn number(db: &Db, name: &str) -> u64 {
    db.statistics().get(name).unwrap() as u64
}

#[test]
fn a_database_larger_than_memory_keeps_to_its_budget_and_comes_back() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    // Six times the memory.
    fill(&rows, 0..60_000);
    assert!(number(&db, "pages_evicted_total") > 1_000);
    assert!(number(&db, "pages_resident") * 4096 <= LITTLE_MEMORY as u64);
    let first = db.checkpoint().unwrap();
    fill(&rows, 60_000..60_010);
    // What it costs follows what changed.
    let second = db.checkpoint().unwrap();
    assert!(
        second.size_bytes * 10 < first.size_bytes,
        "{first:?} {second:?}"
    );
    for n in 0..1_000 {
        assert!(rows.remove(&key(n)).unwrap());
    }
    assert_eq!(db.verify().unwrap(), 59_010);
    db.close().unwrap();
    drop((rows, db));

    let db = Db::builder()
        .vfs(Arc::clone(&vfs))
        .memory_limit(Some(LITTLE_MEMORY))
        .open(DIR)
        .unwrap();
    let rows = db.keyspace("rows").unwrap();
    // Only the log since the last checkpoint.
    assert_eq!(number(&db, "recovered_records"), 1_000);
    check(&rows, 1_000..60_010);
    assert_eq!(rows.len(), 59_010);
    assert_eq!(rows.range(..).unwrap().map(Result::unwrap).count(), 59_010);
    assert_eq!(
        rows.delete_range("4".."c").unwrap(),
        rows_between(1_000..60_010, b"4", b"c")
    );
    assert_eq!(db.verify().unwrap(), rows.count(..).unwrap());
}

fn rows_between(numbers: std::ops::Range<u32>, from: &[u8], to: &[u8]) -> u64 {
    let keys = numbers.map(key);
    keys.filter(|key| &key[..] >= from && &key[..] < to).count() as u64
}

#[test]
fn any_call_of_a_checkpoint_may_be_the_last() {
    let disk = MemoryVfs::new();
    let base: Arc<dyn Vfs> = Arc::new(disk.clone());
    let db = open(&base);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..200);
    db.checkpoint().unwrap();
    fill(&rows, 200..400);
    rows.remove(&key(0)).unwrap();
    let expired = WriteOptions::default().expiry_ms(1);
    rows.put_with(b"expiring", b"soon", &expired).unwrap();
    db.sync().unwrap();
    let before = disk.deep_clone();
    drop((rows, db));
    let mut published = 0;
    for kind in [
        CallKind::Write,
        CallKind::Sync,
        CallKind::Rename,
        CallKind::Remove,
    ] {
        for after in 0.. {
            let disk = before.deep_clone();
            let faulty = FaultyVfs::new(Arc::new(disk.clone()));
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let db = open(&vfs);
            let calls = faulty.calls(kind);
            faulty.fail_once(kind, after, Fault::Error(ErrorKind::Other));
            let outcome = db.checkpoint();
            if faulty.calls(kind) - calls <= after {
                assert!(outcome.is_ok());
                break;
            }
            // What a crash at this point leaves.
            let crashed: Arc<dyn Vfs> = Arc::new(disk.deep_clone());
            drop(db);
            let db = open(&crashed);
            let rows = db.keyspace("rows").unwrap();
            published += u32::from(number(&db, "recovered_records") < 200);
            check(&rows, 1..400);
            assert_eq!((rows.len(), rows.expiring()), (400, 1), "{kind:?} {after}");
            assert_eq!(db.sweep_expired().unwrap(), 1);
            assert_eq!(db.verify().unwrap(), 399);
        }
    }
    assert!(published > 0, "some came after the manifest");
}

#[test]
fn a_hundred_keyspaces_and_their_expiries_come_back() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let clock = Arc::new(AtomicU64::new(1_000));
    let open = || {
        let clock = Arc::clone(&clock);
        let now = Box::new(move || clock.load(Ordering::Relaxed));
        builder(&vfs)
            .sweep_interval(None)
            .now(now)
            .open(DIR)
            .unwrap()
    };
    let db = open();
    let name = |n: u64| format!("space {n}");
    for n in 0..100 {
        let rows = db.keyspace(&name(n)).unwrap();
        rows.put(b"stays", &n.to_le_bytes()).unwrap();
        let until = WriteOptions::default().expiry_ms(2_000 + n);
        rows.put_with(b"goes", b"", &until).unwrap();
    }
    db.checkpoint().unwrap();
    db.drop_keyspace(&name(7)).unwrap();
    db.clear_keyspace(&name(8)).unwrap();
    drop(db);
    let db = open();
    assert_eq!(db.keyspaces().len(), 99);
    assert!(db.keyspace(&name(8)).unwrap().is_empty());
    for n in (0..100).filter(|n| ![7, 8].contains(n)) {
        let rows = db.keyspace(&name(n)).unwrap();
        assert_eq!(rows.get(b"stays").unwrap(), Some(n.to_le_bytes().to_vec()));
        assert_eq!((rows.len(), rows.expiring()), (2, 1));
    }
    clock.store(2_050, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), 49);
    db.checkpoint().unwrap();
    drop(db);
    let db = open();
    clock.store(3_000, Ordering::Relaxed);
    assert_eq!(db.sweep_expired().unwrap(), 49);
    assert_eq!(number(&db, "expiring_rows"), 0);
}

#[test]
fn pages_are_given_back_and_used_again() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs);
    let (kept, cleared) = (
        db.keyspace("kept").unwrap(),
        db.keyspace("cleared").unwrap(),
    );
    fill(&kept, 0..10);
    db.checkpoint().unwrap();
    let small = number(&db, "pages_live");
    let mut longest = None;
    for round in 0..3 {
        fill(&cleared, 0..20_000);
        db.checkpoint().unwrap();
        assert!(number(&db, "pages_live") > 100 * small);
        let length = number(&db, "pages_file_bytes");
        let first = *longest.get_or_insert(length);
        assert!(
            length < first * 3 / 2,
            "round {round}: {length} after {first}"
        );
        match round {
            // Somebody holds a handle: the rows go one by one.
            0 => db.clear_keyspace("cleared").unwrap(),
            1 => assert_eq!(cleared.delete_range(..).unwrap(), 20_000),
            _ => db.drop_keyspace("cleared").unwrap(),
        }
        db.checkpoint().unwrap();
        let live = number(&db, "pages_live");
        assert!(live <= small + 8, "round {round}: {live} after {small}");
    }
    check(&kept, 0..10);
    assert_eq!(db.verify().unwrap(), 10);
}

#[test]
fn a_backup_of_a_page_file_restores() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..20_000);
    let sync = WriteOptions::from(Durability::Sync);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..2_000 {
                rows.put_with(&key(n), b"changed", &sync.no_wait()).unwrap();
            }
        });
        db.backup("/backup").unwrap();
        writer.join().unwrap();
    });
    db.close().unwrap();
    let builder = || Db::builder().vfs(Arc::clone(&vfs));
    assert_eq!(builder().check("/backup").unwrap().problems, []);
    builder().restore("/backup", "/restored").unwrap();
    for dir in ["/backup", "/restored"] {
        let db = self::builder(&vfs).open(dir).unwrap();
        let rows = db.keyspace("rows").unwrap();
        assert_eq!(rows.len(), 20_000);
        check(&rows, 2_000..20_000);
        // Some prefix of what was written meanwhile.
        let changed = |n: u32| rows.get(&key(n)).unwrap().as_deref() == Some(b"changed");
        assert!((1..2_000).all(|n| changed(n - 1) || !changed(n)), "{dir}");
    }
}

/// Changes a row's bytes where they lie in a leaf; older versions of that may lie elsewhere.
fn damage(disk: &MemoryVfs, row: &[u8]) {
    let files = disk.files();
    let found = files.iter().find(|(path, _)| path == Path::new(PAGES));
    let mut damaged = found.unwrap().1.clone();
    while let Some(at) = find(&damaged, row) {
        damaged[at] ^= 1;
    }
    disk.insert_file(Path::new(PAGES), damaged);
}

#[test]
fn a_damaged_page_costs_its_rows_and_says_so() {
    let disk = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..20_000);
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop((rows, db));
    let victim = 10_000;
    damage(&disk, &value(victim));

    let report = Db::builder().vfs(Arc::clone(&vfs)).check(DIR).unwrap();
    let said = report.problems[0].to_string();
    assert!(said.contains("pages.hdg"), "{said}");
    let restored = Db::builder()
        .vfs(Arc::clone(&vfs))
        .restore(DIR, "/restored");
    assert!(matches!(restored, Err(Error::Corrupt(_))), "{restored:?}");
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    let said = rows.get(&key(victim)).unwrap_err().to_string();
    for part in ["pages.hdg", "page ", "checksum", "backup"] {
        assert!(said.contains(part), "{said}");
    }
    let lost = (0..20_000).filter(|&n| rows.get(&key(n)).is_err()).count();
    assert!((1..100).contains(&lost), "{lost} rows are lost");
    let seen = rows.range(..).unwrap();
    let (whole, failed): (Vec<_>, Vec<_>) = seen.partition(Result::is_ok);
    assert!(
        whole.len() < 20_000 && failed.len() == 1,
        "an error is the last item"
    );
    let back: Vec<_> = rows.range(..).unwrap().rev().collect();
    assert!(back.last().unwrap().is_err());
    assert_eq!(whole.len() + back.len() - 1 + lost, 20_000);
    // A write that needs the page does nothing, alone or with others.
    assert!(matches!(
        rows.put(&key(victim), b"new"),
        Err(Error::Index(_))
    ));
    let good = (0..20_000).find(|&n| rows.get(&key(n)).is_ok()).unwrap();
    for _ in 0..2 {
        let mut batch = db.batch();
        batch
            .put(&rows, &key(good), b"half")
            .put(&rows, b"0", b"half");
        batch
            .put(&rows, &key(victim), b"of a batch")
            .put(&rows, b"z", b"half");
        assert!(matches!(
            batch.commit(Durability::Sync),
            Err(Error::Index(_))
        ));
    }
    assert_eq!(rows.get(&key(good)).unwrap(), Some(value(good)));
    assert_eq!(
        (rows.get(b"0").unwrap(), rows.get(b"z").unwrap()),
        (None, None)
    );
    // Others go on, checkpoints too.
    rows.put(&key(good), b"new").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(rows.len(), 20_000);
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn refused(outcome: hedgerow::Result<Db>, parts: &[&str]) {
    let said = outcome.unwrap_err().to_string();
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    let disk = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let with = |index| Db::builder().vfs(Arc::clone(&vfs)).index(index);
    refused(
        with(IndexKind::BTree)
            .memory_limit(Some(100_000))
            .open("/small"),
        &["100000", "pages.hdg", "at least", "raise"],
    );
    refused(
        with(IndexKind::BTree).open_in_memory(),
        &["btree", "directory"],
    );
    with(IndexKind::Masstree)
        .open("/other")
        .unwrap()
        .keyspace("k")
        .unwrap();
    let db = with(IndexKind::BTree).open("/other").unwrap();
    let kept = db.keyspace("k").unwrap();
    assert_eq!(kept.index_kind().unwrap(), IndexKind::Masstree);
    assert_eq!(db.default_index(), IndexKind::BTree);
    drop(db);

    let db = open(&vfs);
    fill(&db.keyspace("rows").unwrap(), 0..100);
    let first = disk.files();
    db.checkpoint().unwrap();
    drop(db);
    let pages = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        let file = files.iter().find(|(path, _)| path == Path::new(PAGES));
        file.unwrap().1.clone()
    };
    let good = pages(&disk.files());
    disk.insert_file(Path::new(PAGES), pages(&first));
    refused(
        builder(&vfs).open(DIR),
        &["pages.hdg", "log generation", "backup"],
    );
    vfs.remove(Path::new(PAGES)).unwrap();
    refused(
        builder(&vfs).open(DIR),
        &["pages.hdg", "log generation", "backup"],
    );

    let another: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    drop(open(&another));
    let foreign = MemoryVfs::new();
    disk.insert_file(Path::new(PAGES), good.clone());
    drop(foreign);
    let mut bytes = Vec::new();
    let file = another
        .open(Path::new(PAGES), hedgerow_vfs::OpenMode::Read)
        .unwrap();
    bytes.resize(file.len().unwrap() as usize, 0);
    file.read_at(0, &mut bytes).unwrap();
    disk.insert_file(Path::new(PAGES), bytes);
    refused(
        builder(&vfs).open(DIR),
        &["pages.hdg", "belongs to the database"],
    );

    disk.insert_file(Path::new(PAGES), good);
    check(&open(&vfs).keyspace("rows").unwrap(), 0..100);
}

#[test]
fn a_failed_commit_is_undone_before_a_checkpoint_can_see_it() {
    // Reads fail for a while: commits of several rows stop half-way, again and again.
    let faulty = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..20_000);
    db.checkpoint().unwrap();
    let mut failed = 0;
    for round in 0..200_u32 {
        let numbers: Vec<u32> = (0..8).map(|i| (round * 97 + i * 2_311) % 20_000).collect();
        let before: Vec<_> = numbers
            .iter()
            .map(|&n| rows.get(&key(n)).unwrap())
            .collect();
        // So many other pages that those are evicted.
        for n in 0..400 {
            rows.contains(&key((round * 31 + n * 47) % 20_000)).unwrap();
        }
        let mut batch = db.batch();
        for &n in &numbers {
            batch.put(&rows, &key(n), format!("round {round}").as_bytes());
        }
        // Until the commit has failed: what is read ahead of it is asked for again.
        faulty.fail_from(
            CallKind::Read,
            (round % 12) as usize,
            Fault::Error(ErrorKind::Other),
        );
        let outcome = batch.commit(WriteOptions::default());
        faulty.heal();
        let after: Vec<_> = numbers
            .iter()
            .map(|&n| rows.get(&key(n)).unwrap())
            .collect();
        match outcome {
            Ok(_) => assert!(after.iter().all(|v| v.as_deref() == after[0].as_deref())),
            Err(Error::Index(_)) => {
                failed += 1;
                assert_eq!(after, before, "round {round}");
                // A scan may have shown the rows with their timestamp, so no shard may hand it out
                // again. This thread's next one is at most four behind it.
                let own = rows.put(&round.to_be_bytes(), b"").unwrap().timestamp;
                rows.remove(&round.to_be_bytes()).unwrap();
                let (key, value) = (key(numbers[0]), before[0].clone().unwrap());
                let write = || rows.put(&key, &value).unwrap().timestamp;
                let other = thread::scope(|scope| scope.spawn(write).join().unwrap());
                assert!(other.raw() + 4 > own.raw(), "{other} again, before {own}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failed > 20, "only {failed} failed");
    assert_eq!(db.verify().unwrap(), 20_000);
}

#[test]
fn a_commit_of_many_rows_reads_their_pages_together() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    fill(&rows, 0..60_000);
    let (read, batches) = (
        number(&db, "pages_read_total"),
        number(&db, "pages_read_batches_total"),
    );
    // Rows of all over the tree, most of them there already, one with a value of several pages.
    let mut batch = db.batch();
    for n in (59_000..60_500).step_by(3) {
        batch.put(&rows, &key(n), &value(n + 1));
    }
    batch.put(&rows, &key(7), &[7; 20_000]);
    batch.remove(&rows, &key(8));
    batch.commit(Durability::None).unwrap();
    let read = number(&db, "pages_read_total") - read;
    let batches = number(&db, "pages_read_batches_total") - batches;
    assert!(read > 200, "{read} pages read");
    assert!(4 * batches < read && batches > 0, "{read} in {batches}");
    for n in (59_000..60_500).step_by(3) {
        assert_eq!(rows.get(&key(n)).unwrap(), Some(value(n + 1)), "row {n}");
    }
    assert_eq!(rows.get(&key(7)).unwrap(), Some(vec![7; 20_000]));
    assert_eq!(rows.get(&key(8)).unwrap(), None);
    check(&rows, 59_001..59_003);
    db.verify().unwrap();
}

#[test]
fn rows_are_replaced_without_being_read_and_a_crash_loses_no_room() {
    let memory = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    let row = |n: u32| vec![n as u8; 1000];
    for n in 0..12_000 {
        rows.put(&key(n), &row(n)).unwrap();
    }
    let (read, batches) = (
        number(&db, "pages_read_total"),
        number(&db, "pages_read_batches_total"),
    );
    for n in 0..6_000 {
        rows.put(&key(n * 7919 % 12_000), &row(n)).unwrap();
    }
    let read = number(&db, "pages_read_total") - read;
    let batches = number(&db, "pages_read_batches_total") - batches;
    // Without leaves it would be a page for each, by itself.
    assert!(batches > 100, "{read} in {batches}");
    let statistics = rows.index_statistics().unwrap();
    let noted = statistics.get("deferred_slot_frees").unwrap();
    assert!(noted > 3_000.0, "{noted} noted");
    for n in 6_000..7_000 {
        rows.put(&key(n * 7919 % 12_000), &row(n)).unwrap();
    }
    db.checkpoint().unwrap();
    // As a crash leaves it.
    let copy: Arc<dyn Vfs> = Arc::new(memory.deep_clone());
    let later = open(&copy);
    let rows = later.keyspace("rows").unwrap();
    for n in 0..7_000 {
        assert_eq!(rows.get(&key(n * 7919 % 12_000)).unwrap(), Some(row(n)));
    }
    assert_eq!(later.verify().unwrap(), 12_000);
    drop(rows);
    // A slot that is taken in vain would keep its page.
    later.drop_keyspace("rows").unwrap();
    later.checkpoint().unwrap();
    assert!(number(&later, "pages_live") < 8, "pages are lost");
}

#[test]
fn reads_after_closing_change_nothing_of_the_file() {
    let files = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(files.clone());
    let db = open(&vfs);
    let rows = db.keyspace("rows").unwrap();
    // Several times the memory, so that reads want room of the pages that were changed last.
    fill(&rows, 0..30_000);
    db.sync().unwrap();
    assert!(number(&db, "pages_dirty") > 0, "pages differ from the file");
    db.close().unwrap();
    let before = read_all(&files, Path::new(PAGES));
    let (mut found, mut absent) = (0, 0);
    for n in 0..30_000 {
        match rows.get(&key(n)) {
            Ok(row) => {
                assert_eq!(row, Some(value(n)), "row {n}");
                found += 1;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("open the database again"), "{text}");
                absent += 1;
            }
        }
    }
    let after = read_all(&files, Path::new(PAGES));
    assert!(before == after, "a closed database wrote to its page file");
    assert!(found > 0 && absent > 0, "{found} found, {absent} not");
    check(&open(&vfs).keyspace("rows").unwrap(), 0..30_000);
}

fn read_all(files: &MemoryVfs, path: &Path) -> Vec<u8> {
    let file = files.open(path, hedgerow_vfs::OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}
