//! A flipped bit anywhere: found, named, and never taken for data.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointWriter, Error, Log, LogOptions, Manifest, Problem,
    RecoveredLogs, Timestamp, check,
};
use hedgerow_vfs::{MemoryVfs, Vfs};

use crate::{append, dir, memory, options};

type Found = (Vec<(Timestamp, Vec<u8>)>, Vec<Vec<u8>>);

/// Reads everything: commits of the logs, and records of the checkpoint.
fn read(vfs: &MemoryVfs) -> Result<Found, Error> {
    let manifest = Manifest::load(vfs, dir())?;
    let mut records = Vec::new();
    if let Some(entry) = manifest.newest_checkpoint() {
        for part in &entry.parts {
            let id = manifest.database_id;
            let mut reader = CheckpointReader::open(vfs, dir(), id, entry.generation, part)?;
            while let Some(record) = reader.next()? {
                records.push(record.row.to_vec());
            }
        }
    }
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let logs = RecoveredLogs::open_read_only(shared, dir(), &manifest)?;
    let mut commits = logs.commits();
    let mut found = Vec::new();
    while let Some(commit) = commits.next()? {
        let keys = commit
            .operations()
            .flat_map(|operation| operation.key.to_vec());
        found.push((commit.timestamp(), keys.collect()));
    }
    Ok((found, records))
}

fn problems(vfs: &MemoryVfs) -> Vec<Problem> {
    let mut problems = Vec::new();
    check(Arc::new(vfs.clone()), dir(), &mut |problem| {
        problems.push(problem)
    })
    .unwrap();
    problems
}

fn put(log: &Log, shard: usize, key: &[u8]) {
    append(log, shard, &[key], b"payload").unwrap();
}

/// A database with a checkpoint, and logs of two generations and two shards; open.
fn database(options: LogOptions) -> (MemoryVfs, Manifest, Arc<Log>) {
    let vfs = memory();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut manifest = Manifest::new(0x1234_5678_9abc);
    manifest.add_keyspace("default", "masstree");
    let log = Log::create(Arc::clone(&shared), dir(), &mut manifest, options, 1).unwrap();
    put(&log, 0, b"replaced by the checkpoint");
    let generation = log.rotate().unwrap().generation;
    let parts = (0..2).map(|part| {
        let id = manifest.database_id;
        let mut writer =
            CheckpointWriter::create(Arc::clone(&shared), dir(), id, generation, part).unwrap();
        for number in 0..3_u8 {
            writer.append(1, &[number], b"row").unwrap();
        }
        writer.finish().unwrap()
    });
    let parts = parts.collect();
    let timestamp = Timestamp::new(log.durable_epoch(), 0);
    let entry = CheckpointEntry {
        generation,
        timestamp,
        parts,
    };
    manifest.install_checkpoint(entry, 1);
    manifest.store(&vfs, dir()).unwrap();
    hedgerow_log::remove_obsolete(&vfs, dir(), &manifest).unwrap();
    for round in 0..3_u8 {
        put(&log, 0, &[round]);
        put(&log, usize::from(round) % 2, &[round, 100]);
        log.wait_durable(log.epoch()).unwrap();
        if round == 1 {
            log.rotate().unwrap();
        }
    }
    (vfs, manifest, log)
}

/// Calls `judge` with the database in which one bit is flipped, for every bit of every file.
fn flip_each(vfs: &MemoryVfs, mut judge: impl FnMut(&MemoryVfs, &PathBuf, usize)) -> usize {
    let image = vfs.deep_clone();
    let mut flips = 0;
    for (path, bytes) in vfs.files() {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                image.insert_file(&path, damaged);
                judge(&image, &path, at);
                flips += 1;
            }
        }
        image.insert_file(&path, bytes);
    }
    flips
}

#[test]
fn every_flipped_bit_of_a_closed_database_is_named() {
    let (vfs, mut manifest, log) = database(options(2));
    manifest.record_end(log.close().unwrap());
    manifest.store(&vfs, dir()).unwrap();
    assert_eq!(problems(&vfs), []);
    let (commits, records) = read(&vfs).unwrap();
    assert_eq!((commits.len(), records.len()), (6, 6));
    let flips = flip_each(&vfs, |image, path, at| {
        let found = problems(image);
        assert!(!found.is_empty(), "{} byte {at}: not found", path.display());
        for problem in &found {
            assert_eq!(problem.file, *path, "byte {at}: {problem}");
            assert!(!problem.affected.is_empty() && !problem.remedy.is_empty());
        }
        assert!(found[0].offset <= at as u64, "byte {at}: {}", found[0]);
        match read(image) {
            Err(Error::Corrupt(problem)) => assert_eq!(problem.file, *path),
            Err(other) => panic!("byte {at} of {}: {other}", path.display()),
            Ok(_) => panic!("byte {at} of {} was believed", path.display()),
        }
    });
    println!("{flips} flips");
}

/// Whether the last block is a witness of `witness` bytes: without it, the same is read. Of any
/// other block a commit would be lost.
fn ends_with_a_witness(image: &MemoryVfs, witness: usize) -> bool {
    let whole = read(image).unwrap();
    image.files().into_iter().any(|(path, mut bytes)| {
        let Some(rest) = bytes.len().checked_sub(witness) else {
            return false;
        };
        bytes.truncate(rest);
        let cut = image.deep_clone();
        cut.insert_file(&path, bytes);
        read(&cut).is_ok_and(|found| found == whole)
    })
}

#[test]
fn after_a_kill_every_flipped_bit_is_named_or_stands_in_the_unsynced_tail() {
    let interval = Duration::from_millis(1);
    let (vfs, _, log) = database(LogOptions {
        flush_interval: interval,
        ahead_bytes: 0,
        ..options(2)
    });
    let witness = 64 + 8 + 2 * 16;
    // When nothing happens, the flusher leaves a block which says that all before is durable.
    let tail = loop {
        let image = vfs.deep_clone();
        if ends_with_a_witness(&image, witness) {
            break image;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let whole = read(&tail).unwrap();
    let mut in_tail = 0;
    flip_each(&tail, |image, path, at| match read(image) {
        Ok(found) => {
            // Only in the witness itself, which is not synced: nothing is lost then.
            assert_eq!(found, whole, "byte {at} of {}", path.display());
            let length = tail
                .files()
                .into_iter()
                .find(|(p, _)| p == path)
                .unwrap()
                .1
                .len();
            assert!(
                at >= length - witness,
                "byte {at} of {} was believed",
                path.display()
            );
            in_tail += 1;
        }
        Err(Error::Corrupt(problem)) => {
            assert_eq!(problem.file, *path);
            assert!(problems(image).contains(&problem));
        }
        Err(other) => panic!("byte {at} of {}: {other}", path.display()),
    });
    assert_eq!(in_tail, witness * 8, "exactly the witness is unsynced");
    drop(log);
}

#[test]
fn right_after_a_commit_a_flip_costs_at_most_that_commit() {
    let (vfs, _, log) = database(LogOptions {
        ahead_bytes: 4096,
        ..options(2)
    });
    assert!(log.statistics().bytes_ahead > 0);
    let whole = read(&vfs).unwrap();
    let mut cut = 0;
    flip_each(&vfs.deep_clone(), |image, path, at| match read(image) {
        Ok((commits, records)) => {
            assert_eq!(records, whole.1);
            assert!(
                commits.len() >= 4 && commits[..] == whole.0[..commits.len()],
                "byte {at} of {}: {commits:?}",
                path.display()
            );
            cut += 1;
        }
        Err(Error::Corrupt(problem)) => assert_eq!(problem.file, *path),
        Err(other) => panic!("byte {at} of {}: {other}", path.display()),
    });
    assert!(cut > 0, "nothing tells the last commit from a torn one");
    drop(log);
}

#[test]
fn every_damaged_block_of_a_log_is_listed() {
    let vfs = memory();
    let mut manifest = Manifest::new(5);
    let options = LogOptions {
        shards: 1,
        ahead_bytes: 0,
        ..options(2)
    };
    let log = Log::create(Arc::new(vfs.clone()), dir(), &mut manifest, options, 1).unwrap();
    let mut starts = Vec::new();
    let path = dir().join("log").join("00000001-00000001-0000.log");
    for round in 0..6_u8 {
        starts.push(hedgerow_vfs::read_file(&vfs, &path).unwrap().len());
        put(&log, 0, &[round]);
        log.wait_durable(log.epoch()).unwrap();
    }
    manifest.record_end(log.close().unwrap());
    manifest.store(&vfs, dir()).unwrap();
    let mut bytes = hedgerow_vfs::read_file(&vfs, &path).unwrap();
    for damaged in [1, 3, 4, 5] {
        bytes[starts[damaged] + 70] ^= 4;
    }
    vfs.insert_file(&path, bytes);
    let offsets: Vec<_> = problems(&vfs)
        .iter()
        .map(|problem| problem.offset as usize)
        .collect();
    // Blocks 3 to 5 are one damaged stretch: where the second begins is not known any more.
    assert_eq!(offsets, [starts[1], starts[3]]);
}
