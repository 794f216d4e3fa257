//! Zeros written ahead of blocks: where commits are waited for, and never taken for anything else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow_log::{Checked, Error, Log, LogOptions, Manifest, Problem, RecoveredLogs, check};
use hedgerow_vfs::{FaultyVfs, MemoryVfs, Vfs};

use crate::{append, create, dir, memory, numbers, options_without_reserve as options};

fn put(log: &Log, number: u64, payload: &[u8]) -> u64 {
    let timestamp = append(log, 0, &[&number.to_be_bytes()], payload);
    timestamp.unwrap().epoch()
}

fn commit(log: &Log, number: u64) {
    let epoch = put(log, number, b"value");
    log.wait_durable(epoch).unwrap();
}

/// Zeros written so far. They come after a commit is acknowledged, and before the next one is: so
/// one more commit, of this number, is waited for.
fn ahead_after(log: &Log, number: u64) -> u64 {
    commit(log, number);
    log.statistics().bytes_ahead
}

/// The log files, oldest first.
fn files(vfs: &MemoryVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vfs.files();
    files.retain(|(path, _)| path.starts_with(dir().join("log")));
    files.sort();
    files
}

/// Zeros at the end of a file. Blocks end with some, in the upper half of a length.
fn zeros(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|&&byte| byte == 0).count()
}

fn checked(image: &MemoryVfs) -> (Checked, Vec<Problem>) {
    let mut problems = Vec::new();
    let vfs: Arc<dyn Vfs> = Arc::new(image.clone());
    let checked = check(vfs, dir(), &mut |problem| problems.push(problem)).unwrap();
    (checked, problems)
}

/// Recovers an image: the numbers that count, and the bytes that did not.
fn recover(image: &MemoryVfs) -> Result<(Vec<u64>, u64), Error> {
    let vfs: Arc<dyn Vfs> = Arc::new(image.clone());
    let mut manifest = Manifest::load(image, dir())?;
    let logs = RecoveredLogs::open(vfs, dir(), &mut manifest)?;
    Ok((numbers(&logs)?, logs.discarded_bytes()))
}

#[test]
fn zeros_ahead_of_blocks_are_no_torn_tail_and_are_cut_off_at_the_end() {
    let memory = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let (log, mut manifest) = create(&vfs, options(1));
    let all: Vec<u64> = (0..500).collect();
    (0..499).for_each(|number| commit(&log, number));
    let ahead = ahead_after(&log, 499);
    let statistics = log.statistics();
    // As many as the file has, twice as many at most: the first steps are of 16 KiB.
    assert!(ahead >= 32 << 10 && ahead <= 2 * statistics.bytes + (16 << 10));
    let written = &files(&memory)[0].1;
    assert!(zeros(written) > 200, "{}", zeros(written));
    // Killed now.
    let image = memory.deep_clone();
    let (found, problems) = checked(&image);
    assert_eq!((found.torn_bytes, problems), (0, vec![]));
    assert_eq!(recover(&image).unwrap(), (all.clone(), 0));
    assert_eq!(recover(&image).unwrap(), (all.clone(), 0), "once more");
    assert!(zeros(&files(&image)[0].1) < 8, "recovery cuts the file");
    // Closed.
    let end = log.close().unwrap();
    assert_eq!(files(&memory)[0].1.len() as u64, end.lengths[0]);
    manifest.record_end(end);
    manifest.store(&memory, dir()).unwrap();
    assert_eq!(recover(&memory).unwrap(), (all, 0));
}

#[test]
fn a_log_that_is_synced_by_the_clock_is_written_once() {
    let vfs: Arc<dyn Vfs> = Arc::new(memory());
    let by_clock = LogOptions {
        flush_interval: Duration::from_millis(1),
        ..options(1)
    };
    let never = LogOptions {
        ahead_bytes: 0,
        ..options(1)
    };
    let (log, _) = create(&vfs, by_clock);
    for number in 0..20 {
        let epoch = put(&log, number, b"value");
        while log.durable_epoch() < epoch {
            std::thread::yield_now();
        }
    }
    assert_eq!(log.statistics().bytes_ahead, 0);
    let vfs: Arc<dyn Vfs> = Arc::new(memory());
    let (log, _) = create(&vfs, never);
    (0..20).for_each(|number| commit(&log, number));
    assert_eq!(ahead_after(&log, 20), 0);
    // Of large blocks the file system's journal is a small part.
    let vfs: Arc<dyn Vfs> = Arc::new(memory());
    let (log, _) = create(&vfs, options(1));
    for number in 0..20 {
        let epoch = put(&log, number, &[1; 100_000]);
        log.wait_durable(epoch).unwrap();
    }
    assert_eq!(log.statistics().bytes_ahead, 0);
}

#[test]
fn zeros_behind_a_seal_were_not_cut_off_and_anything_else_is_damage() {
    let memory = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let (log, _) = create(&vfs, options(1));
    (0..9).for_each(|number| commit(&log, number));
    assert!(ahead_after(&log, 9) > 0);
    log.rotate().unwrap();
    (10..20).for_each(|number| commit(&log, number));
    let image = memory.deep_clone();
    let (path, sealed) = files(&image).swap_remove(0);
    assert!(zeros(&sealed) < 8, "cut off");
    // A power cut can undo that.
    for (zeros, last) in [(1, 0), (5000, 0), (300_000, 0), (5000, 7)] {
        let mut bytes = sealed.clone();
        bytes.resize(sealed.len() + zeros, 0);
        *bytes.last_mut().unwrap() = last;
        let image = image.deep_clone();
        image.insert_file(&path, bytes);
        let (_, problems) = checked(&image);
        if last == 0 {
            assert_eq!(problems, [], "{zeros}");
            assert_eq!(recover(&image).unwrap(), ((0..20).collect(), 0));
        } else {
            // Behind the seal: nothing that counts, but nothing that belongs there.
            assert!(recover(&image).is_err());
        }
    }
}

#[test]
fn zeros_in_the_place_of_durable_blocks_are_damage() {
    let memory = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let (log, mut manifest) = create(&vfs, options(1));
    let lengths: Vec<usize> = (0..10)
        .map(|number| {
            commit(&log, number);
            let bytes = &files(&memory)[0].1;
            bytes.len() - zeros(bytes)
        })
        .collect();
    let killed = memory.deep_clone();
    manifest.record_end(log.close().unwrap());
    manifest.store(&memory, dir()).unwrap();
    let wipe = |image: &MemoryVfs, from: usize| {
        let image = image.deep_clone();
        let (path, mut bytes) = files(&image).swap_remove(0);
        bytes[from..].fill(0);
        image.insert_file(&path, bytes);
        image
    };
    for &length in &lengths[..9] {
        let image = wipe(&memory, length);
        assert!(matches!(recover(&image), Err(Error::Corrupt(_))));
        assert_eq!(checked(&image).1.len(), 1);
    }
    // The last commit of a killed one cannot be told from one that never came.
    let (numbers, _) = recover(&wipe(&killed, lengths[8])).unwrap();
    assert_eq!(numbers, (0..9).collect::<Vec<_>>());
}

#[test]
fn a_disk_without_room_for_zeros_loses_nothing() {
    let memory = memory();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let (log, _) = create(&vfs, options(1));
    let number = AtomicU64::new(0);
    let commit = || commit(&log, number.fetch_add(1, Ordering::Relaxed));
    // Of the first 16 KiB of zeros a part is written.
    faulty.set_space(Some(5000));
    (0..11).for_each(|_| commit());
    let used = log.statistics().bytes as usize;
    assert!(
        files(&memory)[0].1.len() > used + 1000,
        "a part was written"
    );
    faulty.set_space(None);
    (0..10).for_each(|_| commit());
    let ahead = log.statistics().bytes_ahead;
    assert_eq!(ahead, 0, "no second try in this file");
    let image = memory.deep_clone();
    assert_eq!(recover(&image).unwrap(), ((0..21).collect(), 0));
    // The next file has it.
    log.rotate().unwrap();
    (0..2).for_each(|_| commit());
    assert!(log.statistics().bytes_ahead > 0);
    // And what was written ahead is room on a full disk.
    faulty.set_space(Some(0));
    (0..10).for_each(|_| commit());
    assert_eq!(recover(&memory).unwrap(), ((0..33).collect(), 0));
}

#[test]
fn a_torn_block_is_what_was_torn_without_the_zeros_behind_it() {
    let memory = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let (log, _) = create(&vfs, options(1));
    (0..10).for_each(|number| commit(&log, number));
    let before = log.statistics().bytes as usize + 64;
    commit(&log, 10);
    let (path, bytes) = files(&memory).swap_remove(0);
    assert!(zeros(&bytes) > 1000);
    for part in [1, 20, 70, 100] {
        let image = memory.deep_clone();
        let mut torn = bytes.clone();
        torn[before + part..].fill(0);
        image.insert_file(&path, torn);
        let (found, problems) = checked(&image);
        assert_eq!(problems, []);
        assert!(found.torn_bytes > 0 && found.torn_bytes <= part as u64);
        let (numbers, discarded) = recover(&image).unwrap();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        assert_eq!(discarded, found.torn_bytes);
    }
}
