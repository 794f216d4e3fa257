//! Logs and checkpoints in several directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointWriter, DATA_FOLDER, DirectoryEntry, Error, Log,
    Manifest, OWNER_FILE, Owner, PartEntry, RecoveredLogs, check, remove_obsolete, required_files,
};
use hedgerow_vfs::{MemoryVfs, Vfs};

use crate::{append, dir, memory, numbers, options};

const FORMAT_AT: usize = 8;

fn disk(number: u64) -> PathBuf {
    format!("/disk{number}").into()
}

fn entry(number: u64) -> DirectoryEntry {
    let path = disk(number);
    DirectoryEntry { id: number, path }
}

fn disks() -> MemoryVfs {
    let vfs = memory();
    for number in 1..=3 {
        vfs.create_dir_all(&disk(number)).unwrap();
    }
    vfs
}

fn version(vfs: &MemoryVfs) -> u8 {
    hedgerow_vfs::read_file(vfs, &Manifest::path(dir())).unwrap()[FORMAT_AT]
}

/// The names in `log/` of a directory.
fn logs(vfs: &MemoryVfs, folder: &Path) -> Vec<String> {
    vfs.list(&folder.join("log")).unwrap_or_default()
}

/// Opens the log with its files in these directories, which are listed from then on.
fn open(vfs: &MemoryVfs, manifest: &mut Manifest, directories: &[u64], shards: u16) -> Arc<Log> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let recovered = RecoveredLogs::open(Arc::clone(&shared), dir(), manifest).unwrap();
    for number in directories {
        let is_listed = |listed: &DirectoryEntry| listed.id == *number;
        if !manifest.directories.iter().any(is_listed) {
            manifest.directories.push(entry(*number));
        }
    }
    manifest.log_directories = directories.to_vec();
    manifest.store(vfs, dir()).unwrap();
    let first_epoch = recovered.next_epoch();
    Log::create(shared, dir(), manifest, options(shards), first_epoch).unwrap()
}

fn put(log: &Log, shard: usize, number: u64) {
    let written = append(log, shard, &[&number.to_be_bytes()], b"payload").unwrap();
    log.wait_durable(written.epoch()).unwrap();
}

fn close(vfs: &MemoryVfs, log: &Log, manifest: &mut Manifest) {
    manifest.record_end(log.close().unwrap());
    manifest.store(vfs, dir()).unwrap();
}

fn recovered(vfs: &MemoryVfs) -> Result<Vec<u64>, Error> {
    let mut manifest = Manifest::load(vfs, dir())?;
    let logs = RecoveredLogs::open(Arc::new(vfs.deep_clone()), dir(), &mut manifest)?;
    let mut found = numbers(&logs)?;
    found.sort_unstable();
    Ok(found)
}

#[test]
fn shards_take_the_directories_by_turns_and_are_read_from_all() {
    let (vfs, mut manifest) = (disks(), Manifest::new(7));
    let log = open(&vfs, &mut manifest, &[1, 2], 3);
    assert_eq!(version(&vfs), 4, "earlier programs refuse it");
    (0..6).for_each(|number| put(&log, number as usize % 3, number));
    log.rotate().unwrap();
    (6..9).for_each(|number| put(&log, number as usize % 3, number));
    let shards = |names: Vec<String>| names.iter().map(|name| name[18..22].to_owned()).collect();
    let shards: Vec<Vec<String>> = [1, 2].map(|at| shards(logs(&vfs, &disk(at)))).to_vec();
    assert_eq!(
        shards,
        [vec!["0000", "0002", "0000", "0002"], vec!["0001"; 2]]
    );
    assert_eq!(logs(&vfs, dir()), ["00000001.elsewhere"]);
    // As a crash leaves it, and then closed.
    assert_eq!(recovered(&vfs).unwrap(), Vec::from_iter(0..9));
    close(&vfs, &log, &mut manifest);
    assert_eq!(recovered(&vfs).unwrap(), Vec::from_iter(0..9));
    let checked = check(Arc::new(vfs), dir(), &mut |problem| panic!("{problem}")).unwrap();
    assert_eq!((checked.records, checked.files), (9, 7));
}

#[test]
fn later_openings_may_use_other_directories() {
    let (vfs, mut manifest) = (disks(), Manifest::new(7));
    let mut number = 0;
    for directories in [&[][..], &[1, 2], &[3], &[2, 3, 1], &[]] {
        for is_closed in [true, false] {
            let log = open(&vfs, &mut manifest, directories, 2);
            for shard in 0..2 {
                put(&log, shard, number);
                number += 1;
            }
            if is_closed {
                close(&vfs, &log, &mut manifest);
            } else {
                drop(log);
                manifest = Manifest::load(&vfs, dir()).unwrap();
            }
            assert_eq!(recovered(&vfs).unwrap(), Vec::from_iter(0..number));
        }
    }
    assert_eq!(manifest.idle_directories(), []);
    let files = required_files(&manifest);
    let found = files.iter().filter(|file| {
        let folder = manifest.folders(dir()).path(file.directory).to_path_buf();
        vfs.exists(&folder.join(&file.path)).unwrap()
    });
    assert_eq!(found.count(), files.len());
}

#[test]
fn what_a_checkpoint_replaces_goes_from_all_directories() {
    let (vfs, mut manifest) = (disks(), Manifest::new(7));
    let log = open(&vfs, &mut manifest, &[1, 2], 2);
    (0..4).for_each(|number| put(&log, number as usize % 2, number));
    close(&vfs, &log, &mut manifest);
    let log = open(&vfs, &mut manifest, &[3], 2);
    let rotation = log.rotate().unwrap();
    put(&log, 0, 9);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let parts = [2, DATA_FOLDER].map(|directory| {
        let folders = manifest.folders(dir());
        let (folder, part) = (folders.path(directory), directory as u32);
        let generation = rotation.generation;
        let writer =
            CheckpointWriter::create(Arc::clone(&shared), folder, 7, generation, part).unwrap();
        let written = writer.finish().unwrap();
        PartEntry {
            directory,
            ..written
        }
    });
    let checkpoint = CheckpointEntry {
        generation: rotation.generation,
        timestamp: hedgerow_log::Timestamp::new(rotation.epoch, 0),
        parts: parts.to_vec(),
    };
    manifest.install_checkpoint(checkpoint, 1);
    manifest.store(&vfs, dir()).unwrap();
    remove_obsolete(&vfs, dir(), &manifest).unwrap();
    assert_eq!(logs(&vfs, &disk(1)), [""; 0]);
    assert_eq!(logs(&vfs, &disk(2)), [""; 0]);
    assert_eq!(logs(&vfs, &disk(3)).len(), 2);
    assert_eq!(manifest.idle_directories(), [entry(1)]);
    for part in &parts {
        let folders = manifest.folders(dir());
        let folder = folders.path(part.directory);
        CheckpointReader::open(&vfs, folder, 7, rotation.generation, part).unwrap();
    }
    manifest.forget_directories(&[entry(1)]);
    manifest.store(&vfs, dir()).unwrap();
    assert_eq!(recovered(&vfs).unwrap(), [9]);
    // A copy has all of it in one folder, and an earlier program reads that.
    close(&vfs, &log, &mut manifest);
    let from = required_files(&manifest);
    let mut copy = manifest.clone();
    copy.place_in(Vec::new());
    let copied = memory();
    for (file, target) in from.iter().zip(required_files(&copy)) {
        let folders = manifest.folders(dir());
        let source = folders.path(file.directory).join(&file.path);
        let bytes = hedgerow_vfs::read_file(&vfs, &source).unwrap();
        assert_eq!(target.directory, DATA_FOLDER);
        copied.insert_file(&dir().join(target.path), bytes);
    }
    copy.store(&copied, dir()).unwrap();
    assert_eq!((version(&vfs), version(&copied)), (4, 2));
    assert_eq!(recovered(&copied).unwrap(), [9]);
}

#[test]
fn a_manifest_that_lists_too_few_directories_is_known_for_an_older_one() {
    let (vfs, mut manifest) = (disks(), Manifest::new(7));
    let log = open(&vfs, &mut manifest, &[], 1);
    put(&log, 0, 0);
    close(&vfs, &log, &mut manifest);
    let before = hedgerow_vfs::read_file(&vfs, &Manifest::path(dir())).unwrap();
    let log = open(&vfs, &mut manifest, &[1], 1);
    put(&log, 0, 1);
    close(&vfs, &log, &mut manifest);
    assert_eq!(recovered(&vfs).unwrap(), [0, 1]);
    vfs.insert_file(&Manifest::path(dir()), before);
    let error = recovered(&vfs).unwrap_err().to_string();
    assert!(
        error.contains("older") && error.contains("elsewhere"),
        "{error}"
    );
    let mut problems = 0;
    check(Arc::new(vfs), dir(), &mut |_| problems += 1).unwrap();
    assert_eq!(problems, 1);
}

#[test]
fn a_missing_file_of_another_directory_is_damage() {
    let (vfs, mut manifest) = (disks(), Manifest::new(7));
    let log = open(&vfs, &mut manifest, &[1, 2], 2);
    (0..4).for_each(|number| put(&log, number as usize % 2, number));
    close(&vfs, &log, &mut manifest);
    let path = disk(2).join("log").join(&logs(&vfs, &disk(2))[0]);
    vfs.remove(&path).unwrap();
    let error = recovered(&vfs).unwrap_err();
    let Error::Corrupt(problem) = &error else {
        panic!("{error}");
    };
    assert_eq!(problem.file, path);
}

#[test]
fn a_directory_says_whose_it_is() {
    let vfs = disks();
    assert_eq!(Owner::load(&vfs, &disk(1)).unwrap(), None);
    let owner = Owner {
        database_id: 0x1234_5678_9abc_def0_1234,
        directory: 77,
    };
    for owner in [
        owner,
        Owner {
            directory: 1,
            ..owner
        },
    ] {
        owner.store(&vfs, &disk(1)).unwrap();
        assert_eq!(Owner::load(&vfs, &disk(1)).unwrap(), Some(owner));
        assert_eq!(vfs.list(&disk(1)).unwrap(), [OWNER_FILE]);
    }
    let path = disk(1).join(OWNER_FILE);
    let whole = hedgerow_vfs::read_file(&vfs, &path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        vfs.insert_file(&path, bytes);
        let error = Owner::load(&vfs, &disk(1)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{at}: {error}");
        vfs.insert_file(&path, whole[..at].to_vec());
        let error = Owner::load(&vfs, &disk(1)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{at}: {error}");
    }
}
