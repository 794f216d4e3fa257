//! Openings that fail: of a database that they were to make nothing is left, and all of one that
//! was there.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hedgerow::{Builder, Db};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A directory for logs, on a disk that is there.
const LOGS_ELSEWHERE: &str = "/disk/logs";

/// Has all calls of a kind fail below a path.
fn fail(faulty: &FaultyVfs, kind: CallKind, below: &str) {
    let below = below.to_owned();
    let is_there = move |path: &Path, _| path.starts_with(&below);
    let denied = Fault::Error(ErrorKind::PermissionDenied);
    faulty.fail_from_at(is_there, kind, 0, denied);
}

#[test]
fn an_opening_that_fails_leaves_what_was_there() {
    for dir in ["/new/data", "/there"] {
        for (kind, below) in [
            (CallKind::Rename, format!("{dir}/MANIFEST.tmp")),
            (CallKind::Open, format!("{dir}/log")),
            (CallKind::CreateDir, LOGS_ELSEWHERE.to_owned()),
        ] {
            let disk = MemoryVfs::new();
            for there in ["/there", "/disk"] {
                disk.create_dir_all(Path::new(there)).unwrap();
            }
            let faulty = FaultyVfs::new(Arc::new(disk.clone()));
            let plain = || Db::builder().vfs(Arc::new(faulty.clone()));
            let builder = || -> Builder {
                match kind {
                    CallKind::CreateDir => plain().log_dirs([LOGS_ELSEWHERE]),
                    _ => plain(),
                }
            };
            fail(&faulty, kind, &below);
            assert!(builder().open(dir).is_err(), "{below}");
            assert!(disk.files().is_empty(), "{below}");
            assert!(!disk.exists(Path::new("/new")).unwrap(), "{below}");
            let left = disk.list(Path::new("/there")).unwrap();
            assert_eq!(left, [""; 0], "{below}");
            // The next opening makes it, and what is there stays from then on.
            faulty.heal();
            let db = plain().open(dir).unwrap();
            db.keyspace("rows").unwrap().put(b"key", b"value").unwrap();
            db.close().unwrap();
            fail(&faulty, kind, &below);
            assert!(builder().open(dir).is_err(), "{below}");
            faulty.heal();
            let db = plain().create(false).open(dir).unwrap();
            let rows = db.open_keyspace("rows").unwrap();
            assert!(rows.contains(b"key").unwrap(), "{below}");
        }
    }
}

/// One that the options name is made before the next one fails: it names the database as its owner.
#[test]
fn a_database_that_a_log_directory_names_stays() {
    let disk = MemoryVfs::new();
    for there in ["/disk", "/other"] {
        disk.create_dir_all(Path::new(there)).unwrap();
    }
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let open = || {
        let builder = Db::builder().vfs(Arc::new(faulty.clone()));
        builder
            .log_dirs([LOGS_ELSEWHERE, "/other/logs"])
            .open("/new")
    };
    fail(&faulty, CallKind::CreateDir, "/other/logs");
    assert!(open().is_err());
    assert!(disk.exists(Path::new("/new/MANIFEST")).unwrap());
    faulty.heal();
    open().unwrap();
}

/// The power goes at any moment of a creation that finds the disk full, and of what removes it.
#[test]
fn a_power_cut_within_a_creation_on_a_full_disk_leaves_a_directory_that_opens() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut failed = 0;
    for space in (0..600).step_by(37) {
        let disk = RecordingVfs::new(&MemoryVfs::new());
        let faulty = FaultyVfs::new(Arc::new(disk.clone()));
        faulty.set_space(Some(space));
        let open = |vfs: Arc<dyn Vfs>| Db::builder().vfs(vfs).workers(1).open("/new/data");
        match open(Arc::new(faulty.clone())) {
            Ok(db) => drop(db),
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("space"), "{space}: {error}");
            }
        }
        for cut in 0..=disk.operations() {
            for _ in 0..3 {
                let image = disk.crash_image(cut, &mut |n| rng.random_range(0..n));
                let db = open(Arc::new(image)).unwrap_or_else(|e| panic!("{space}, {cut}: {e}"));
                let rows = db.keyspace("rows").unwrap();
                rows.put(b"key", b"value").unwrap();
                db.close().unwrap();
            }
        }
        faulty.set_space(None);
        open(Arc::new(faulty)).unwrap();
    }
    assert!(failed > 0, "each had space enough");
}
