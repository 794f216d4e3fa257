//! Files whose checksums pass, and which store rows under keys that the keyspace's index cannot
//! have: those of another database under this manifest, or of a program with a bug.

use std::path::PathBuf;
use std::sync::Arc;

use hedgerow::{Builder, Db, Error, IndexKind};
use hedgerow_log::{Manifest, RecoveredLogs};
use hedgerow_testkit::databases::LITTLE_MEMORY;
use hedgerow_vfs::MemoryVfs;

use crate::keyspaces::{everything, with};

const DIR: &str = "/db";

fn builder(disk: &MemoryVfs) -> Builder {
    Db::builder().vfs(Arc::new(disk.clone())).workers(2)
}

/// Where the key of another width is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Log,
    /// In the log of a database that has a page file, which replays logs another way.
    LogBesidePages,
    /// In a log record that sets columns.
    Columns,
    Checkpoint,
}

const PLACES: [Place; 4] = [
    Place::Log,
    Place::LogBesidePages,
    Place::Columns,
    Place::Checkpoint,
];

/// A closed database with 300 keys of 8 bytes, and one of 9, in a keyspace of which the manifest
/// says that it is a binary tree.
fn foreign(place: Place) -> MemoryVfs {
    let disk = MemoryVfs::new();
    let kind = IndexKind::Masstree;
    let mut builder = builder(&disk);
    if place == Place::LogBesidePages {
        builder = builder
            .index(IndexKind::BTree)
            .memory_limit(Some(LITTLE_MEMORY));
    }
    let db = builder.open(DIR).unwrap();
    let numbers = db.keyspace_with("numbers", with(kind)).unwrap();
    if place == Place::LogBesidePages {
        let paged = db.keyspace("paged").unwrap();
        paged.put(b"any width at all", b"a page's row").unwrap();
    }
    for number in 0..300_u64 {
        numbers.put(&number.to_be_bytes(), b"of the width").unwrap();
    }
    match place {
        Place::Columns => drop(
            numbers
                .put_columns(b"nine byte", &[(b"c", b"foreign")])
                .unwrap(),
        ),
        _ => drop(numbers.put(b"nine byte", b"foreign").unwrap()),
    }
    if place == Place::Checkpoint {
        db.checkpoint().unwrap();
    }
    for number in 300..600_u64 {
        numbers.put(&number.to_be_bytes(), b"of the width").unwrap();
    }
    db.sync().unwrap();
    // As a kill would leave the files: closing might replace logs by a checkpoint. What an opening
    // decides first, where such logs end, is decided here.
    let disk = disk.deep_clone();
    let mut manifest = Manifest::load(&disk, DIR.as_ref()).unwrap();
    RecoveredLogs::open(Arc::new(disk.clone()), DIR.as_ref(), &mut manifest).unwrap();
    name_index(&disk, IndexKind::Bst);
    disk
}

/// Changes what the manifest says of the index of `numbers`.
fn name_index(disk: &MemoryVfs, index: IndexKind) {
    let mut manifest = Manifest::load(disk, DIR.as_ref()).unwrap();
    let entry = manifest.keyspaces.iter_mut().find(|k| k.name == "numbers");
    entry.unwrap().index = index.name().to_owned();
    manifest.store(disk, DIR.as_ref()).unwrap();
}

/// All files but the lock, which has no bytes.
fn files(disk: &MemoryVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = disk.files();
    files.retain(|(_, bytes)| !bytes.is_empty());
    files.sort();
    files
}

#[test]
fn a_key_of_another_width_in_a_file_is_an_error_that_names_it() {
    for place in PLACES {
        let disk = foreign(place);
        let before = files(&disk);
        let paths: Vec<&PathBuf> = before.iter().map(|(path, _)| path).collect();
        for read_only in [false, true] {
            let opened = builder(&disk).read_only(read_only).open(DIR);
            let Err(Error::Corrupt(problem)) = opened else {
                panic!("{place:?}, reading only {read_only}: {:?}", opened.err());
            };
            let extension = match place {
                Place::Checkpoint => "ckpt",
                _ => "log",
            };
            let is_file = problem.file.extension().is_some_and(|e| e == extension);
            assert!(is_file && paths.contains(&&problem.file), "{problem}");
            assert!(problem.offset > 0, "{problem}");
            let words = problem.to_string();
            for part in ["\"numbers\"", "bst", "9 bytes", "8 bytes", "nine byte"] {
                assert!(words.contains(part), "{place:?}: {words}");
            }
        }
        let report = builder(&disk).check(DIR).unwrap();
        assert_eq!(report.problems.len(), 1, "{place:?}: {report:?}");
        assert!(files(&disk) == before, "{place:?}: a file changed");
        // Nothing is lost: with the right manifest all rows are there.
        name_index(&disk, IndexKind::Masstree);
        let db = builder(&disk).open(DIR).unwrap();
        assert_eq!(db.keyspace("numbers").unwrap().len(), 601, "{place:?}");
        db.close().unwrap();
    }
}

/// The removal of a key that cannot be there is no error, so logs may have one.
#[test]
fn a_removal_of_a_key_of_another_width_is_replayed() {
    let disk = MemoryVfs::new();
    let db = builder(&disk).open(DIR).unwrap();
    let numbers = db.keyspace_with("numbers", with(IndexKind::Bst)).unwrap();
    let mut batch = db.batch();
    batch
        .put(&numbers, &1_u64.to_be_bytes(), b"one")
        .remove(&numbers, b"nine byte")
        .remove(&numbers, b"");
    batch.commit(hedgerow::Durability::Sync).unwrap();
    numbers.delete_range(&b"a"[..]..&b"nine byte"[..]).unwrap();
    let before = everything(&db);
    let killed = builder(&disk.deep_clone()).open(DIR).unwrap();
    assert_eq!(everything(&killed), before);
    killed.close().unwrap();
    db.close().unwrap();
}
