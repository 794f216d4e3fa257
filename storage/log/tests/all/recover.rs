//! Recovery of closed and crashed logs, without modelled power cuts (see `power_cuts.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointRecord, CheckpointWriter, Error, Log, LogOptions,
    Manifest, Operation, OperationKind, RecoveredLogs, Timestamp, remove_obsolete, required_files,
};
use hedgerow_vfs::{MemoryVfs, OpenMode, Vfs};

use crate::{append, create, dir, memory, numbers, options};

fn open(vfs: &MemoryVfs, manifest: &mut Manifest, shards: u16) -> (Vec<Entry>, Arc<Log>) {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let logs = RecoveredLogs::open(Arc::clone(&vfs), dir(), manifest).unwrap();
    let entries = read(&logs).unwrap();
    let log = Log::create(vfs, dir(), manifest, options(shards), logs.next_epoch()).unwrap();
    (entries, log)
}

fn record<'a>(keyspace: u32, key: &'a [u8], row: &'a [u8]) -> CheckpointRecord<'a> {
    CheckpointRecord { keyspace, key, row }
}

/// A commit's timestamp and the keys it changed.
type Entry = (Timestamp, Vec<Vec<u8>>);

fn read(logs: &RecoveredLogs) -> Result<Vec<Entry>, Error> {
    let mut commits = logs.commits();
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(commit) = commits.next()? {
        let keys = commit
            .operations()
            .map(|operation| operation.key.to_vec())
            .collect();
        entries.push((commit.timestamp(), keys));
    }
    assert!(
        entries.windows(2).all(|pair| pair[0].0 <= pair[1].0),
        "merged by timestamp"
    );
    assert_eq!(commits.bytes_read(), logs.total_bytes());
    // Commits of unrelated keys may share a timestamp.
    entries.sort();
    Ok(entries)
}

fn put(log: &Log, shard: usize, keys: &[&[u8]]) -> Entry {
    let timestamp = append(log, shard, keys, b"some value").unwrap();
    (timestamp, keys.iter().map(|key| key.to_vec()).collect())
}

fn crash(vfs: &MemoryVfs) -> (MemoryVfs, Manifest) {
    let image = vfs.deep_clone();
    let manifest = Manifest::load(&image, dir()).unwrap();
    (image, manifest)
}

#[test]
fn closed_logs_come_back_across_incarnations_with_changing_shards() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    manifest.store(&vfs, dir()).unwrap();
    let mut expected: Vec<Entry> = Vec::new();
    for (round, shards) in [1_u16, 4, 2, 3].into_iter().enumerate() {
        let (entries, log) = open(&vfs, &mut manifest, shards);
        assert_eq!(entries, expected, "round {round}");
        for at in 0..50_usize {
            let key = format!("{round}-{at}");
            expected.push(put(
                &log,
                at % usize::from(shards),
                &[key.as_bytes(), b"second"],
            ));
            if at % 7 == 0 {
                log.wait_durable(log.epoch()).unwrap();
            }
            if at == 25 {
                log.rotate().unwrap();
            }
        }
        expected.sort();
        manifest.record_end(log.close().unwrap());
        manifest.store(&vfs, dir()).unwrap();
        assert_eq!(Manifest::load(&vfs, dir()).unwrap(), manifest);
    }
}

#[test]
fn epochs_that_leave_no_commit_are_not_used_again() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    manifest.store(&vfs, dir()).unwrap();
    let (_, log) = open(&vfs, &mut manifest, 2);
    // Far more than a new incarnation leaves out beyond what it finds.
    for _ in 0..150 {
        log.wait_durable(log.epoch() + 1_000).unwrap();
    }
    let (lost, _) = put(&log, 0, &[b"seen by a client, and lost"]);
    let (image, mut manifest) = crash(&vfs);
    let logs = RecoveredLogs::open(Arc::new(image), dir(), &mut manifest).unwrap();
    assert_eq!(read(&logs).unwrap(), []);
    assert!(logs.next_epoch() > lost.epoch(), "{lost} can be used again");
}

#[test]
fn openings_that_log_nothing_leave_nothing() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    for _ in 0..5 {
        let (entries, log) = open(&vfs, &mut manifest, 2);
        assert!(entries.is_empty());
        let floor = manifest.epoch_floor;
        manifest.record_end(log.close().unwrap());
        manifest.store(&vfs, dir()).unwrap();
        assert!(manifest.incarnations.is_empty() && manifest.epoch_floor > floor);
        // The same after a crash.
        let (_, log) = open(&vfs, &mut manifest, 3);
        drop(log);
    }
    open(&vfs, &mut manifest, 1).1.close().unwrap();
    assert_eq!(vfs.list(&dir().join("log")).unwrap().len(), 1);
}

#[test]
fn a_crash_keeps_what_was_acknowledged_and_a_second_recovery_agrees() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let (_, log) = open(&vfs, &mut manifest, 3);
    let mut expected = vec![put(&log, 0, &[b"a"]), put(&log, 1, &[b"b"])];
    log.wait_durable(log.epoch()).unwrap();
    expected.push(put(&log, 2, &[b"c"]));
    log.wait_durable(log.epoch()).unwrap();
    expected.sort();
    put(&log, 1, &[b"never flushed"]);
    let (image, mut crashed) = crash(&vfs);
    let view = RecoveredLogs::open_read_only(Arc::new(image.clone()), dir(), &crashed).unwrap();
    assert_eq!(read(&view).unwrap(), expected);
    for _ in 0..3 {
        let (entries, log) = open(&image, &mut crashed, 2);
        assert_eq!(entries, expected);
        drop(log);
    }
}

#[test]
fn torn_tails_are_cut_at_every_byte_back_to_a_closed_epoch() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let (_, log) = open(&vfs, &mut manifest, 2);
    let mut epochs: Vec<(u64, Vec<Entry>)> = vec![(0, Vec::new())];
    let mut entries = Vec::new();
    for round in 0..4_u8 {
        entries.push(put(&log, 0, &[&[round], b"x"]));
        entries.push(put(&log, 1, &[&[round + 100]]));
        log.wait_durable(log.epoch()).unwrap();
        entries.sort();
        epochs.push((log.durable_epoch(), entries.clone()));
    }
    let (image, crashed) = crash(&vfs);
    let path = only_log(&image, 1);
    let whole = image
        .files()
        .into_iter()
        .find(|(file, _)| *file == path)
        .unwrap()
        .1;
    // Behind it are zeros, written ahead.
    let end = log.close().unwrap().lengths[1] as usize;
    assert!(end < whole.len());
    // Shard 1 lost its tail; shard 0 says what of it was durable. Only the last round is at stake.
    let mut outcomes = [0; 3];
    for length in 0..=whole.len() {
        let image = image.deep_clone();
        image.insert_file(&path, whole[..length].to_vec());
        let mut manifest = crashed.clone();
        match RecoveredLogs::open(Arc::new(image), dir(), &mut manifest) {
            Ok(logs) => {
                let found = read(&logs).unwrap();
                let at = epochs
                    .iter()
                    .position(|(_, entries)| *entries == found)
                    .unwrap();
                assert!(at >= 3 && logs.cutoff_epoch() == epochs[at].0, "{length}");
                assert_eq!(at == 4, length >= end, "{length}");
                outcomes[at - 3] += 1;
            }
            Err(Error::Corrupt(problem)) => {
                assert_eq!(problem.file, path);
                assert!(problem.offset <= length as u64);
                outcomes[2] += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
    drop(log);
}

fn only_log(vfs: &MemoryVfs, shard: u16) -> PathBuf {
    let suffix = format!("-{shard:04}.log");
    let mut names = vfs.list(&dir().join("log")).unwrap();
    names.retain(|name| name.ends_with(&suffix));
    assert_eq!(names.len(), 1);
    dir().join("log").join(&names[0])
}

#[test]
fn missing_and_foreign_log_files_are_named() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let (_, log) = open(&vfs, &mut manifest, 2);
    put(&log, 0, &[b"a"]);
    manifest.record_end(log.close().unwrap());
    manifest.store(&vfs, dir()).unwrap();
    let path = only_log(&vfs, 1);
    let bytes = vfs
        .files()
        .into_iter()
        .find(|(file, _)| *file == path)
        .unwrap()
        .1;
    vfs.remove(&path).unwrap();
    let logs = RecoveredLogs::open_read_only(Arc::new(vfs.clone()), dir(), &manifest).unwrap();
    let message = read(&logs).unwrap_err().to_string();
    assert!(
        message.contains("missing") && message.contains("-0001.log"),
        "{message}"
    );
    // The other shard's file under this name.
    let other = only_log(&vfs, 0);
    let other = vfs
        .files()
        .into_iter()
        .find(|(file, _)| *file == other)
        .unwrap()
        .1;
    vfs.insert_file(&path, other);
    let message = read(&logs).unwrap_err().to_string();
    assert!(message.contains("renamed"), "{message}");
    vfs.insert_file(&path, bytes);
    assert_eq!(read(&logs).unwrap().len(), 1);
}

#[test]
fn a_checkpoint_replaces_older_logs() {
    let vfs = memory();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut manifest = Manifest::new(9);
    let (_, log) = open(&vfs, &mut manifest, 2);
    put(&log, 0, &[b"old"]);
    let point = log.rotate().unwrap();
    let kept = put(&log, 1, &[b"new"]);
    let mut writer =
        CheckpointWriter::create(Arc::clone(&shared), dir(), 9, point.generation, 0).unwrap();
    writer.append(3, b"old", b"row").unwrap();
    log.wait_durable(kept.0.epoch()).unwrap();
    let parts = vec![writer.finish().unwrap()];
    let timestamp = Timestamp::new(log.durable_epoch(), 0);
    let entry = CheckpointEntry {
        generation: point.generation,
        timestamp,
        parts,
    };
    manifest.install_checkpoint(entry.clone(), 1);
    manifest.store(&vfs, dir()).unwrap();
    remove_obsolete(&vfs, dir(), &manifest).unwrap();
    assert_eq!(vfs.list(&dir().join("log")).unwrap().len(), 2);
    manifest.record_end(log.close().unwrap());
    manifest.store(&vfs, dir()).unwrap();
    let files = required_files(&manifest).into_iter();
    let mut files: Vec<_> = files.map(|file| dir().join(file.path)).collect();
    files.push(Manifest::path(dir()));
    files.sort();
    assert_eq!(
        vfs.files()
            .into_iter()
            .map(|(file, _)| file)
            .collect::<Vec<_>>(),
        files
    );

    let (entries, _log) = open(&vfs, &mut manifest, 1);
    assert_eq!(entries, [kept]);
    let mut reader =
        CheckpointReader::open(&vfs, dir(), 9, entry.generation, &entry.parts[0]).unwrap();
    assert_eq!(reader.next().unwrap(), Some(record(3, b"old", b"row")));
    assert_eq!(reader.next().unwrap(), None);
}

#[test]
fn what_was_written_out_survives_the_process() {
    for shards in 1..=3 {
        let vfs = memory();
        let mut manifest = Manifest::new(1);
        let (_, log) = open(&vfs, &mut manifest, shards);
        let mut expected = Vec::new();
        for round in 0..30_u8 {
            for at in 0..3_u16 {
                expected.push(put(&log, usize::from(at % shards), &[&[round]]));
            }
            match round % 10 {
                4 => log.wait_durable(log.epoch()).unwrap(),
                7 => drop(log.rotate().unwrap()),
                _ => log.write_out().unwrap(),
            }
            // What the kernel has when the process dies: all writes, synced or not.
            let (image, mut crashed) = crash(&vfs);
            let logs = RecoveredLogs::open(Arc::new(image), dir(), &mut crashed).unwrap();
            expected.sort();
            assert_eq!(
                read(&logs).unwrap(),
                expected,
                "{shards} shards, round {round}"
            );
            assert_eq!(logs.discarded_bytes(), 0);
        }
        let epoch = log.epoch();
        log.write_out().unwrap();
        log.write_out().unwrap();
        assert_eq!(log.epoch(), epoch, "writing out uses up no epochs");
    }
}

#[test]
fn what_the_flusher_wrote_early_survives_the_process_once_written_out() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = LogOptions {
        write_threshold_bytes: 64,
        ..options(1)
    };
    let log = Log::create(shared, dir(), &mut manifest, options, 1).unwrap();
    let expected = [put(&log, 0, &[b"longer than the threshold"])];
    while log.statistics().bytes == 0 {
        std::thread::yield_now();
    }
    // The buffer is empty already; but nothing in the file makes the record count yet.
    log.write_out().unwrap();
    let (image, mut crashed) = crash(&vfs);
    let logs = RecoveredLogs::open(Arc::new(image), dir(), &mut crashed).unwrap();
    assert_eq!(read(&logs).unwrap(), expected);
}

#[test]
fn a_checkpoint_given_up_leaves_nothing() {
    let vfs = memory();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut writer = CheckpointWriter::create(Arc::clone(&shared), dir(), 1, 2, 0).unwrap();
    writer.append(0, b"key", &[1; 200_000]).unwrap();
    drop(writer);
    assert!(vfs.files().is_empty());
    let again = CheckpointWriter::create(shared, dir(), 1, 2, 0).unwrap();
    assert_eq!(again.finish().unwrap().records, 0);
    assert_eq!(vfs.files().len(), 1);
}

#[test]
fn a_rotation_point_is_a_complete_copy() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let (_, log) = open(&vfs, &mut manifest, 3);
    let expected = [put(&log, 0, &[b"a"]), put(&log, 2, &[b"b"])];
    let point = log.rotate().unwrap();
    put(&log, 0, &[b"later"]);
    log.wait_durable(log.epoch()).unwrap();
    let mut copied = manifest.clone();
    copied.record_end(point.end);
    let copy = memory();
    for file in required_files(&copied) {
        let path = dir().join(file.path);
        let bytes = hedgerow_vfs::read_file(&vfs, &path).unwrap();
        copy.insert_file(&path, bytes);
    }
    copied.store(&copy, dir()).unwrap();
    let logs = RecoveredLogs::open(Arc::new(copy), dir(), &mut copied).unwrap();
    let mut found = read(&logs).unwrap();
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn large_commits_and_checkpoint_records_pass() {
    let vfs = memory();
    let mut manifest = Manifest::new(1);
    let (_, log) = open(&vfs, &mut manifest, 1);
    let large = vec![7; 3 << 20];
    let kind = OperationKind::PutColumns;
    let mut guard = log.shard(0).unwrap();
    let timestamp = guard.timestamp(Timestamp::ZERO);
    let operation = Operation {
        keyspace: u32::MAX,
        kind,
        key: &large,
        payload: &large,
    };
    guard.append(timestamp, &[operation, operation]);
    drop(guard);
    manifest.record_end(log.close().unwrap());
    let logs = RecoveredLogs::open_read_only(Arc::new(vfs.clone()), dir(), &manifest).unwrap();
    let mut commits = logs.commits();
    let commit = commits.next().unwrap().unwrap();
    assert!(commit.operations().eq([operation, operation]));

    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut writer = CheckpointWriter::create(shared, dir(), 1, 2, 5).unwrap();
    for _ in 0..3 {
        writer.append(1, b"", &large).unwrap();
        writer.append(1, &large, b"").unwrap();
    }
    let part = writer.finish().unwrap();
    let file = vfs
        .open(&dir().join("checkpoint").join(&part.file), OpenMode::Read)
        .unwrap();
    assert_eq!(file.len().unwrap(), part.len);
    let mut reader = CheckpointReader::open(&vfs, dir(), 1, 2, &part).unwrap();
    for _ in 0..3 {
        assert_eq!(reader.next().unwrap(), Some(record(1, b"", &large)));
        assert_eq!(reader.next().unwrap(), Some(record(1, &large, b"")));
    }
    assert_eq!(reader.next().unwrap(), None);
    assert!(
        CheckpointReader::open(&vfs, dir(), 2, 2, &part).is_err(),
        "another database's"
    );
}

/// The longest block of each shard, whichever of its files has it, and whatever the others hold.
#[test]
fn what_a_pass_holds_at_once_is_the_longest_block_of_each_shard() {
    let vfs = memory();
    let mut manifest = Manifest::new(7);
    let long = vec![7; 3 << 20];
    let (entries, log) = open(&vfs, &mut manifest, 2);
    assert_eq!(entries.len(), 0);
    for round in 0..3u8 {
        // A block each: most of them shorter than what is read to see their headers.
        for payload in [&long[..100], &long[..1 << 20], &long[..100]] {
            let commit = append(&log, 0, &[&[round]], payload).unwrap();
            log.wait_durable(commit.epoch()).unwrap();
        }
        if round == 1 {
            append(&log, 1, &[b"longest"], &long).unwrap();
        }
        log.rotate().unwrap();
    }
    log.close().unwrap();
    let logs = RecoveredLogs::open_read_only(Arc::new(vfs), dir(), &manifest).unwrap();
    let (payloads, held) = ((4 << 20) as u64, logs.block_bytes().unwrap());
    assert!(held > payloads && held < payloads + 4096, "{held}");
    assert!(logs.total_bytes() > 6 << 20);
}

/// Appends so many commits of a kilobyte, numbered, to two shards by turns; has them written at
/// once, by blocks of so many bytes. The disk, as a crash leaves it, and how many blocks it has.
fn written_at_once(commits: u64, block_bytes: usize) -> (MemoryVfs, u64) {
    let vfs = memory();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = LogOptions {
        block_bytes,
        // Nothing is written early: as if the disk were busy.
        write_threshold_bytes: usize::MAX,
        ..options(2)
    };
    let (log, _) = create(&shared, options);
    for number in 0..commits {
        append(
            &log,
            number as usize % 2,
            &[&number.to_be_bytes()],
            &[7; 1000],
        )
        .unwrap();
    }
    log.wait_durable(log.epoch()).unwrap();
    (vfs.deep_clone(), log.statistics().blocks)
}

#[test]
fn blocks_are_short_however_much_is_written_at_once() {
    let block_bytes = LogOptions::default().block_bytes as u64;
    // Six mebibytes of each shard.
    let commits = 12 << 10;
    let (vfs, blocks) = written_at_once(commits, block_bytes as usize);
    assert!(blocks > 40, "{blocks}");
    let (image, mut manifest) = crash(&vfs);
    let logs = RecoveredLogs::open(Arc::new(image), dir(), &mut manifest).unwrap();
    let held = logs.block_bytes().unwrap();
    assert!(
        held > block_bytes && held < 2 * (block_bytes + 2048),
        "{held}"
    );
    assert_eq!(logs.discarded_bytes(), 0);
    let mut found = numbers(&logs).unwrap();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..commits));
}

/// Programs before blocks were cut wrote whatever a shard had as one.
#[test]
fn logs_of_long_blocks_are_read() {
    let commits = 12 << 10;
    let (vfs, blocks) = written_at_once(commits, usize::MAX);
    assert_eq!(blocks, 2);
    let (image, mut manifest) = crash(&vfs);
    let logs = RecoveredLogs::open(Arc::new(image), dir(), &mut manifest).unwrap();
    assert!(logs.block_bytes().unwrap() > 11 << 20);
    let mut found = numbers(&logs).unwrap();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..commits));
}
