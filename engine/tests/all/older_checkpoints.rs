//! The newest checkpoint is damaged, and an older one is behind it: an opening has everything that
//! was acknowledged, says so, and takes a new checkpoint. Where no older one helps, it changes
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Builder, Db, Durability, Error, IndexKind};
use hedgerow_log::{FORMAT_VERSION, Manifest};
use hedgerow_testkit::damage::{Damage, parts_of};
use hedgerow_testkit::seed::seed;
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs, read_file};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::keyspaces::with;
use crate::mixed::{KINDS, on, opened, state, write_kinds};

const DIR: &str = "/db";
const IN_MEMORY: [IndexKind; 4] = [
    IndexKind::Masstree,
    IndexKind::Matryoshka,
    IndexKind::BwTree,
    IndexKind::Bst,
];

type State = (Vec<crate::keyspaces::Contents>, Vec<u64>);

fn rng() -> StdRng {
    StdRng::seed_from_u64(seed())
}

/// How a database comes to rest.
#[derive(Clone, Copy, Debug)]
struct Rest<'a> {
    kinds: &'a [IndexKind],
    keep: usize,
    checkpoints: u32,
    is_closed: bool,
    has_log_dirs: bool,
}

impl Rest<'_> {
    fn builder(&self, disk: &MemoryVfs) -> Builder {
        let builder = on(disk).now(Box::new(|| 0)).keep_checkpoints(self.keep);
        match self.has_log_dirs {
            true => builder.log_dirs(["/disk1", "/disk2"]),
            false => builder,
        }
    }

    /// Rows of all kinds change in every way between the checkpoints and behind the last, and the
    /// catalog does, too. What it shows at the end.
    fn make(&self, rng: &mut StdRng) -> (MemoryVfs, State) {
        let disk = MemoryVfs::new();
        let mut db = self.builder(&disk).open(DIR).unwrap();
        let mut from = 0;
        for round in 0..=self.checkpoints {
            let numbers = from..from + rng.random_range(30..120);
            from = numbers.end - numbers.len() as u32 / 3;
            write_kinds(&db, self.kinds, numbers);
            self.change_catalog(&db, round, rng);
            if rng.random_bool(0.5) {
                // Several openings between two checkpoints; some are killed.
                if rng.random_bool(0.5) {
                    db.close().unwrap();
                }
                drop(db);
                db = self.builder(&disk).open(DIR).unwrap();
                write_kinds(&db, self.kinds, from..from + 10);
            }
            if round < self.checkpoints {
                db.checkpoint().unwrap();
                self.change_catalog(&db, round + 100, rng);
            }
        }
        let shown = state(&db);
        if self.is_closed {
            db.close().unwrap();
            return (disk, shown);
        }
        (disk.deep_clone(), shown)
    }

    /// Keyspaces come, go, and are cleared, and have rows before and after that.
    fn change_catalog(&self, db: &Db, round: u32, rng: &mut StdRng) {
        let kind = self.kinds[rng.random_range(0..self.kinds.len())];
        let late = db.keyspace_with(&format!("late {round}"), with(kind));
        let durable = Durability::Sync.into();
        late.unwrap().put_with(b"8 bytes!", b"x", &durable).unwrap();
        let cleared = db.keyspace_with("cleared", with(self.kinds[0])).unwrap();
        cleared.put_with(b"and more", b"y", &durable).unwrap();
        if rng.random_bool(0.5) {
            db.clear_keyspace("cleared").unwrap();
            let cleared = db.keyspace("cleared").unwrap();
            cleared.put_with(b"is later", b"z", &durable).unwrap();
        }
        if rng.random_bool(0.3) {
            db.drop_keyspace("cleared").unwrap();
        }
    }

    fn is_mixed(&self) -> bool {
        self.kinds.contains(&IndexKind::BTree)
    }
}

const REST: Rest<'_> = Rest {
    kinds: &IN_MEMORY,
    keep: 2,
    checkpoints: 3,
    is_closed: true,
    has_log_dirs: false,
};

fn manifest(disk: &MemoryVfs) -> Manifest {
    Manifest::load(disk, Path::new(DIR)).unwrap()
}

fn parts(disk: &MemoryVfs, nth: usize) -> Vec<PathBuf> {
    parts_of(disk, Path::new(DIR), nth).unwrap()
}

/// Files but locks and the space for the next manifest: what an opening that is refused leaves.
fn files(disk: &MemoryVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = disk.files();
    files.retain(|(path, _)| !path.ends_with("LOCK") && !path.ends_with("MANIFEST.tmp"));
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Everything that must hold of a database whose newest checkpoint has the damaged file `damaged`.
fn check_recovers(rest: &Rest<'_>, disk: &MemoryVfs, damaged: &Path, expected: &State, what: &str) {
    let builder = || rest.builder(disk);
    let old = manifest(disk);
    let report = builder().check(DIR).unwrap();
    assert!(!report.problems.is_empty(), "{what}");
    let said = report.problems[0].to_string();
    assert!(
        said.contains(name(damaged)) && said.contains("open the database"),
        "{what}: {said}"
    );
    // Who only reads goes back, too, and changes nothing.
    let before = files(disk);
    let db = builder().read_only(true).open(DIR).unwrap();
    assert_eq!(&state(&db), expected, "{what}, read only");
    assert_eq!(db.damaged_checkpoints().len(), 1, "{what}");
    drop(db);
    assert_eq!(files(disk), before, "{what}, read only");
    let db = builder().open(DIR).unwrap();
    assert_eq!(&state(&db), expected, "{what}");
    let [said] = &db.damaged_checkpoints()[..] else {
        panic!("{what}: {:?}", db.damaged_checkpoints());
    };
    assert!(said.contains(name(damaged)), "{what}: {said}");
    assert_eq!(db.statistics().get("checkpoints_damaged"), Some(1.0));
    let now = manifest(disk);
    assert_eq!(now.checkpoints, old.checkpoints[1..], "{what}");
    assert!(!disk.exists(damaged).unwrap(), "{what}");
    // As a kill leaves it now.
    let killed = disk.deep_clone();
    let again = rest.builder(&killed).open(DIR).unwrap();
    assert_eq!(&state(&again), expected, "{what}, again");
    assert!(again.damaged_checkpoints().is_empty(), "{what}, again");
    drop(again);
    // A new one takes its place, and everything is as it was.
    db.checkpoint().unwrap();
    db.verify().unwrap();
    assert_eq!(manifest(disk).checkpoints.len(), old.checkpoints.len());
    db.backup("/copy").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(builder().check(DIR).unwrap().problems, [], "{what}");
    for dir in [DIR, "/copy"] {
        let db = on(disk).now(Box::new(|| 0)).open(dir).unwrap();
        assert_eq!(&state(&db), expected, "{what}, at last, {dir}");
        assert!(db.damaged_checkpoints().is_empty(), "{what}, at last");
    }
}

fn damage_each_part(rest: &Rest<'_>, flips: usize) {
    let rng = &mut rng();
    let (disk, expected) = rest.make(rng);
    assert_eq!(manifest(&disk).checkpoints.len(), rest.keep);
    assert_eq!(
        &state(&rest.builder(&disk.deep_clone()).open(DIR).unwrap()),
        &expected
    );
    let parts = parts(&disk, 0);
    assert!(!parts.is_empty());
    for part in &parts {
        for damage in Damage::ALL {
            let times = if damage == Damage::Flip { flips } else { 1 };
            for _ in 0..times {
                let damaged = disk.deep_clone();
                if damage.apply(&damaged, part, rng).unwrap() {
                    let what = format!("{rest:?}, {damage:?} of {}", part.display());
                    check_recovers(rest, &damaged, part, &expected, &what);
                }
            }
        }
    }
}

#[test]
fn damage_of_any_part_of_the_newest_checkpoint_loses_nothing() {
    for is_closed in [true, false] {
        let rest = Rest { is_closed, ..REST };
        damage_each_part(&rest, 8);
    }
}

#[test]
fn damage_of_the_only_checkpoint_loses_nothing_while_all_logs_are_there() {
    for is_closed in [true, false] {
        let rest = Rest {
            is_closed,
            checkpoints: 1,
            ..REST
        };
        damage_each_part(&rest, 3);
    }
}

#[test]
fn damage_of_part_files_beside_a_page_file_loses_nothing() {
    for is_closed in [true, false] {
        let rest = Rest {
            kinds: &KINDS,
            is_closed,
            ..REST
        };
        assert!(rest.is_mixed());
        damage_each_part(&rest, 5);
    }
}

#[test]
fn damage_in_one_of_several_directories_loses_nothing() {
    for kinds in [&IN_MEMORY[..], &KINDS] {
        let rest = Rest {
            kinds,
            has_log_dirs: true,
            is_closed: false,
            ..REST
        };
        damage_each_part(&rest, 2);
    }
}

#[test]
fn as_many_checkpoints_may_be_damaged_as_are_kept_behind_one() {
    let rng = &mut rng();
    let rest = Rest {
        keep: 3,
        checkpoints: 4,
        ..REST
    };
    let (disk, expected) = rest.make(rng);
    for nth in 0..2 {
        for part in parts(&disk, nth) {
            Damage::Delete.apply(&disk, &part, rng).unwrap();
        }
    }
    let db = rest.builder(&disk).open(DIR).unwrap();
    assert_eq!(state(&db), expected);
    assert_eq!(db.damaged_checkpoints().len(), 2);
    assert_eq!(manifest(&disk).checkpoints.len(), 1);
    for kept in [2, 3, 3] {
        db.checkpoint().unwrap();
        assert_eq!(manifest(&disk).checkpoints.len(), kept);
        assert_eq!(db.statistics().get("checkpoints_kept"), Some(kept as f64));
    }
}

/// What is needed besides the newest checkpoint is damaged, too.
#[test]
fn where_no_older_checkpoint_helps_nothing_is_changed() {
    let rng = &mut rng();
    for kinds in [&IN_MEMORY[..], &KINDS] {
        let (disk, expected) = Rest { kinds, ..REST }.make(rng);
        let rest = Rest { kinds, ..REST };
        let newest = parts(&disk, 0).pop().unwrap();
        let older = parts(&disk, 1).pop().unwrap();
        let floor = manifest(&disk).log_floor;
        let logs = files(&disk).into_iter().map(|(path, _)| path);
        let mut logs = logs.filter(|path| name(path).contains(&format!("-{floor:08}-")));
        let log = logs.find(|path| path.extension().is_some_and(|e| e == "log"));
        for other in [older, log.expect("a log of the oldest generation")] {
            let damaged = disk.deep_clone();
            Damage::Flip.apply(&damaged, &newest, rng).unwrap();
            Damage::Truncate.apply(&damaged, &other, rng).unwrap();
            let before = files(&damaged);
            for read_only in [true, false] {
                let opened = rest.builder(&damaged).read_only(read_only).open(DIR);
                let error = opened.expect_err("it cannot have everything");
                assert!(matches!(error, Error::Corrupt(_)), "{error}");
                let said = error.to_string();
                assert!(said.contains(name(&newest)), "{said}");
                assert!(said.contains(name(&other)), "{said}");
                assert!(said.contains("nothing was changed"), "{said}");
                assert_eq!(files(&damaged), before, "{said}");
            }
            // Either of both suffices.
            for file in [&newest, &other] {
                let again = damaged.deep_clone();
                again.insert_file(file, read_file(&disk, file).unwrap());
                let db = rest.builder(&again).open(DIR).unwrap();
                assert_eq!(state(&db), expected, "{}", file.display());
            }
        }
    }
}

#[test]
fn damage_of_what_only_an_older_checkpoint_needs_is_in_nobodys_way() {
    let rng = &mut rng();
    for is_closed in [true, false] {
        let rest = Rest { is_closed, ..REST };
        let (disk, expected) = rest.make(rng);
        let newest = manifest(&disk).checkpoints[0].generation;
        let is_old_log = |path: &Path| {
            let fields = name(path).split('-').nth(1);
            let generation = fields.and_then(|field| field.parse::<u32>().ok());
            path.extension().is_some_and(|e| e == "log") && generation.is_some_and(|g| g < newest)
        };
        let all = files(&disk).into_iter().map(|(path, _)| path);
        let logs: Vec<PathBuf> = all.filter(|path| is_old_log(path)).collect();
        assert!(!logs.is_empty());
        for file in parts(&disk, 1).into_iter().chain(logs) {
            for damage in Damage::ALL {
                let damaged = disk.deep_clone();
                if !damage.apply(&damaged, &file, rng).unwrap() {
                    continue;
                }
                let what = format!("{damage:?} of {}", file.display());
                let problems = rest.builder(&damaged).check(DIR).unwrap().problems;
                // Zeros behind the end of a log are room that was written ahead.
                if let Some(problem) = problems.first() {
                    let said = problem.to_string();
                    assert!(said.contains(name(&file)), "{what}: {said}");
                    assert!(said.contains("as long as the newest"), "{what}: {said}");
                }
                let db = rest.builder(&damaged).open(DIR).unwrap();
                assert_eq!(state(&db), expected, "{what}");
                assert!(db.damaged_checkpoints().is_empty(), "{what}");
                db.checkpoint().unwrap();
                db.close().unwrap();
                drop(db);
                let problems = rest.builder(&damaged).check(DIR).unwrap().problems;
                assert_eq!(problems, [], "{what}");
            }
        }
    }
}

/// A power cut at any moment of the opening that goes back, of its checkpoint, and of its end.
#[test]
fn a_cut_while_an_opening_goes_back_loses_nothing() {
    let rng = &mut rng();
    for kinds in [&IN_MEMORY[..], &KINDS] {
        let rest = Rest {
            kinds,
            is_closed: false,
            ..REST
        };
        let (disk, expected) = rest.make(rng);
        let damage = Damage::ALL[rng.random_range(0..Damage::ALL.len())];
        let part = parts(&disk, 0).pop().unwrap();
        damage.apply(&disk, &part, rng).unwrap();
        let recording = RecordingVfs::new(&disk);
        let db = rest.builder(&disk).vfs(Arc::new(recording.clone()));
        let db = db.open(DIR).unwrap();
        db.checkpoint().unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
        for cut in 0..=recording.operations() {
            let image = recording.crash_image(cut, &mut |n| rng.random_range(0..n));
            let db = rest.builder(&image).open(DIR);
            let db = db.unwrap_or_else(|e| panic!("{damage:?}, cut behind {cut}: {e}"));
            assert_eq!(state(&db), expected, "{damage:?}, cut behind {cut}");
        }
    }
}

/// Each file call of such an opening fails in turn; the next opening has everything.
#[test]
fn an_opening_that_goes_back_and_fails_loses_nothing() {
    let rng = &mut rng();
    let rest = Rest {
        is_closed: false,
        ..REST
    };
    let (disk, expected) = rest.make(rng);
    let part = parts(&disk, 0).pop().unwrap();
    Damage::Flip.apply(&disk, &part, rng).unwrap();
    for kind in CallKind::ALL {
        for after in (0..).step_by(3) {
            let image = disk.deep_clone();
            let faulty = FaultyVfs::new(Arc::new(image.clone()));
            faulty.fail_from(kind, after, Fault::Error(std::io::ErrorKind::Other));
            let db = rest.builder(&image).vfs(Arc::new(faulty.clone()));
            let opened = db.open(DIR).and_then(|db| db.checkpoint());
            let again = rest.builder(&image.deep_clone()).open(DIR);
            let again = again.unwrap_or_else(|e| panic!("{kind:?} {after}: {e}"));
            assert_eq!(state(&again), expected, "{kind:?} {after}");
            if opened.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn a_part_that_the_disk_cannot_read_is_damaged() {
    const EIO: i32 = 5;
    let rng = &mut rng();
    let (disk, expected) = REST.make(rng);
    let part = parts(&disk, 0).pop().unwrap();
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let bad = part.clone();
    let is_bad = move |path: &Path, _| path == bad;
    faulty.fail_from_at(is_bad, CallKind::Read, 1, Fault::Os(EIO));
    let db = REST.builder(&disk).vfs(Arc::new(faulty)).open(DIR).unwrap();
    assert_eq!(state(&db), expected);
    let said = db.damaged_checkpoints().join(", ");
    assert!(said.contains(name(&part)), "{said}");
}

/// A file that may not be read now, for any other reason, is no damaged one.
#[test]
fn a_part_that_cannot_be_opened_is_an_error_and_stays() {
    let (disk, expected) = REST.make(&mut rng());
    let part = parts(&disk, 0).pop().unwrap();
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let bad = part.clone();
    let refused = Fault::Error(std::io::ErrorKind::PermissionDenied);
    faulty.fail_from_at(move |path, _| path == bad, CallKind::Open, 0, refused);
    let error = REST.builder(&disk).vfs(Arc::new(faulty)).open(DIR).err();
    let said = error.expect("a file cannot be opened").to_string();
    assert!(said.contains(name(&part)), "{said}");
    assert_eq!(state(&REST.builder(&disk).open(DIR).unwrap()), expected);
    assert_eq!(manifest(&disk).checkpoints.len(), 2);
}

#[test]
fn a_database_that_takes_checkpoints_by_itself_takes_one_at_once() {
    let rng = &mut rng();
    let (disk, expected) = REST.make(rng);
    let part = parts(&disk, 0).pop().unwrap();
    Damage::Truncate.apply(&disk, &part, rng).unwrap();
    let builder = REST.builder(&disk).checkpoint_log_bytes(Some(1 << 40));
    let db = builder.open(DIR).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while db.statistics().get("checkpoints_total") == Some(0.0) {
        assert!(Instant::now() < deadline, "no checkpoint came");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(manifest(&disk).checkpoints.len(), 2);
    assert_eq!(state(&db), expected);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(db.statistics().get("checkpoints_total"), Some(1.0), "one");
}

#[test]
fn btrees_alone_keep_one_checkpoint_and_the_format_says_how_many_there_are() {
    let version = |disk: &MemoryVfs| {
        let bytes = read_file(disk, &Path::new(DIR).join("MANIFEST")).unwrap();
        u32::from_le_bytes(bytes[8..12].try_into().unwrap())
    };
    for (kind, keep, kept) in [
        (IndexKind::BTree, 2, 1),
        (IndexKind::Masstree, 1, 1),
        (IndexKind::Masstree, 2, 2),
    ] {
        let disk = MemoryVfs::new();
        let db = on(&disk).index(kind).keep_checkpoints(keep).open(DIR);
        let db = db.unwrap();
        let keyspace = db.keyspace("k").unwrap();
        for round in 0..3_u8 {
            keyspace.put(&[round], b"value").unwrap();
            db.checkpoint().unwrap();
            assert_eq!(manifest(&disk).checkpoints.len(), kept, "{kind:?} {keep}");
            assert_eq!(version(&disk) == FORMAT_VERSION, kept > 1);
        }
        // Who wants fewer has fewer with the next checkpoint.
        db.close().unwrap();
        drop(db);
        let db = on(&disk).keep_checkpoints(1).open(DIR).unwrap();
        db.checkpoint().unwrap();
        assert_eq!(manifest(&disk).checkpoints.len(), 1);
        assert!(version(&disk) < FORMAT_VERSION, "earlier programs read it");
        db.close().unwrap();
    }
    for count in [0, 101] {
        let refused = Db::builder().keep_checkpoints(count).open_in_memory();
        assert!(matches!(refused.err(), Some(Error::InvalidOption(_))));
    }
}

/// The space of older checkpoints and their logs is there when the disk is full.
#[test]
fn a_full_disk_takes_the_space_of_older_checkpoints() {
    for log_bytes in [None, Some(1 << 40)] {
        let disk = MemoryVfs::new();
        let faulty = FaultyVfs::new(Arc::new(disk.clone()));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let db = on(&disk).vfs(vfs).checkpoint_log_bytes(log_bytes);
        let db = db.open(DIR).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        let durable = Durability::Sync.into();
        for round in 0..2_u32 {
            for n in 0..200_u32 {
                let key = n.to_be_bytes();
                keyspace
                    .put_with(&key, &[round as u8; 2_000], &durable)
                    .unwrap();
            }
            db.checkpoint().unwrap();
        }
        assert_eq!(manifest(&disk).checkpoints.len(), 2);
        faulty.set_space(Some(0));
        let mut written = 0_u32;
        let deadline = Instant::now() + Duration::from_secs(60);
        while manifest(&disk).checkpoints.len() == 2 {
            assert!(Instant::now() < deadline, "the space was not given up");
            match keyspace.put_with(&(1_000 + written).to_be_bytes(), &[9; 2_000], &durable) {
                Ok(_) => written += 1,
                Err(Error::DiskFull) if log_bytes.is_none() => {
                    // Nobody looks after the disk; a checkpoint that is asked for does.
                    db.checkpoint().unwrap();
                }
                Err(Error::DiskFull) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        }
        // Writes go on.
        while let Err(error) = keyspace.put_with(b"after", b"all", &durable) {
            assert!(matches!(error, Error::DiskFull), "{error}");
            assert!(Instant::now() < deadline, "the disk stays full");
            std::thread::sleep(Duration::from_millis(5));
        }
        let shown = state(&db);
        drop(db);
        faulty.set_space(None);
        assert_eq!(state(&opened(&disk.deep_clone())), shown);
        assert_eq!(on(&disk).check(DIR).unwrap().problems, []);
    }
}
