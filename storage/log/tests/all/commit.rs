//! The running log: group commit, waiting, rotating, closing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_log::{Error, Health, Log, LogOptions, Operation, OperationKind, Progress, Timestamp};
use hedgerow_vfs::Vfs;

use crate::{append, create, dir, memory, options};

fn disk() -> Arc<dyn Vfs> {
    Arc::new(memory())
}

fn put(log: &Log, shard: usize, key: &[u8]) -> Timestamp {
    append(log, shard, &[key], b"value").unwrap()
}

#[test]
fn waiting_makes_a_commit_durable_with_one_sync() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(4));
    for round in 1..=20 {
        let commit = put(&log, round % 4, b"key");
        assert!(log.durable_epoch() < commit.epoch());
        log.wait_durable(commit.epoch()).unwrap();
        assert!(log.durable_epoch() >= commit.epoch());
        assert!(
            log.epoch() > commit.epoch(),
            "the epoch of a durable commit is over"
        );
        let statistics = log.statistics();
        // Three idle shards cost nothing.
        assert_eq!(
            (statistics.commits, statistics.syncs),
            (round as u64, round as u64)
        );
        assert_eq!(statistics.records, round as u64);
    }
}

#[test]
fn a_commit_that_is_waited_for_wakes_the_flusher_once() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(1));
    let commits = 50;
    for _ in 0..commits {
        let commit = put(&log, 0, b"key");
        log.wait_durable(commit.epoch()).unwrap();
        // Time to fall asleep: a flusher that is awake need not be woken, which hides the fault.
        std::thread::sleep(Duration::from_millis(1));
    }
    // One more for the first record, which finds the flusher asleep for as long as it takes.
    let wakes = log.statistics().wakes;
    assert!(wakes <= commits + 1, "{wakes} wakes of {commits} commits");
}

#[test]
fn waiting_for_nothing_needs_no_disk() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(2));
    log.wait_durable(log.epoch()).unwrap();
    log.wait_durable(log.epoch() + 100).unwrap();
    assert_eq!(log.statistics().blocks, 0);
}

#[test]
fn absurd_requests_use_up_no_epochs() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(1));
    log.request_durable(u64::MAX);
    log.wait_durable(u64::MAX).unwrap();
    let commit = put(&log, 0, b"key");
    log.wait_durable(commit.epoch()).unwrap();
    assert!(log.epoch() < 1 << 20, "{}", log.epoch());
}

#[test]
fn a_subscriber_may_be_the_last_owner() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(1));
    let (gone, dropped) = std::sync::mpsc::channel();
    let owned = Mutex::new(Some(Arc::clone(&log)));
    log.subscribe(Box::new(move |_| {
        // Blocks until the test has given its own handle up.
        let owned = owned.lock().unwrap().take();
        while owned.as_ref().is_some_and(|log| Arc::strong_count(log) > 1) {
            std::thread::yield_now();
        }
        drop(owned);
        let _ = gone.send(());
    }));
    let commit = put(&log, 0, b"key");
    log.request_durable(commit.epoch());
    drop(log);
    dropped.recv().unwrap();
}

#[test]
fn the_interval_makes_commits_durable_unasked() {
    let vfs = disk();
    let options = LogOptions {
        flush_interval: Duration::from_millis(1),
        ..options(2)
    };
    let (log, _) = create(&vfs, options);
    for _ in 0..5 {
        let commit = put(&log, 1, b"key");
        while log.durable_epoch() < commit.epoch() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn timestamps_rise_above_floor_shard_and_epoch() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(2));
    let first = put(&log, 0, b"a");
    assert!(put(&log, 0, b"a") > first);
    let floor = Timestamp::new(first.epoch() + 50, 9);
    let mut guard = log.shard(0).unwrap();
    let above = guard.timestamp(floor);
    assert!(above > floor);
    let kind = OperationKind::Remove;
    guard.append(
        above,
        &[Operation {
            keyspace: 1,
            kind,
            key: b"a",
            payload: b"",
        }],
    );
    drop(guard);
    // An epoch that ran ahead is still made durable when asked for.
    log.wait_durable(above.epoch()).unwrap();
    assert!(put(&log, 1, b"a").epoch() > above.epoch());
}

#[test]
fn rotation_begins_new_files_and_makes_the_old_durable() {
    let vfs = disk();
    let (log, manifest) = create(&vfs, options(3));
    let commit = put(&log, 2, b"key");
    let point = log.rotate().unwrap();
    assert!(point.epoch >= commit.epoch() && log.durable_epoch() >= commit.epoch());
    assert_eq!(
        point.generation,
        manifest.incarnations[0].first_generation + 1
    );
    assert_eq!(vfs.list(&dir().join("log")).unwrap().len(), 6);
    put(&log, 0, b"key");
    let end = log.close().unwrap();
    assert_eq!(end.last_generation, point.generation);
    assert_eq!(log.close().unwrap(), end);
    assert!(matches!(log.shard(0).err(), Some(Error::Closed)));
    assert!(matches!(log.rotate().err(), Some(Error::Closed)));
    assert!(matches!(
        log.wait_durable(u64::MAX >> 24).err(),
        Some(Error::Closed)
    ));
}

#[test]
fn subscribers_hear_of_every_advance() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(1));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&heard);
    log.subscribe(Box::new(move |progress| {
        inside.lock().unwrap().push(progress)
    }));
    let commit = put(&log, 0, b"key");
    log.wait_durable(commit.epoch()).unwrap();
    log.close().unwrap();
    assert_eq!(*heard.lock().unwrap(), [Progress::Durable(commit.epoch())]);
    assert_eq!(log.health(), Health::Healthy);
}

#[test]
fn writers_on_many_threads_share_syncs_and_pass_the_limit() {
    let vfs = disk();
    let small = LogOptions {
        buffer_limit_bytes: 256,
        write_threshold_bytes: 128,
        ..options(2)
    };
    let (log, _) = create(&vfs, small);
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (log, acknowledged) = (&log, &acknowledged);
            scope.spawn(move || {
                for round in 0..500 {
                    let commit = put(log, worker % 2, &[worker as u8; 40]);
                    if round % 10 == 0 {
                        log.wait_durable(commit.epoch()).unwrap();
                        acknowledged.fetch_max(commit.epoch(), Ordering::Relaxed);
                        assert!(log.durable_epoch() >= commit.epoch());
                    }
                }
            });
        }
    });
    log.close().unwrap();
    assert_eq!(log.statistics().records, 2000);
    assert!(log.durable_epoch() >= acknowledged.into_inner());
}

#[test]
fn writing_out_waits_for_rotations_and_shares_the_files_with_the_flusher() {
    let vfs = disk();
    let (log, _) = create(
        &vfs,
        LogOptions {
            write_threshold_bytes: 2000,
            ..options(2)
        },
    );
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let log = &log;
            scope.spawn(move || {
                for round in 0..400 {
                    let commit = put(log, worker, &[3; 100]);
                    match round % 20 {
                        0 => log.wait_durable(commit.epoch()).unwrap(),
                        1..=10 => log.write_out().unwrap(),
                        _ => {}
                    }
                }
            });
        }
        scope.spawn(|| (0..20).for_each(|_| drop(log.rotate().unwrap())));
    });
    log.close().unwrap();
    assert!(matches!(log.write_out(), Err(Error::Closed)));
    assert_eq!(log.statistics().records, 800);
}

#[test]
fn an_idle_log_sleeps_and_wakes() {
    let vfs = disk();
    let options = LogOptions {
        flush_interval: Duration::from_millis(1),
        ..options(1)
    };
    let (log, _) = create(&vfs, options);
    for _ in 0..3 {
        let commit = put(&log, 0, b"key");
        while log.durable_epoch() < commit.epoch() {
            std::thread::yield_now();
        }
        let epoch = log.epoch();
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(log.epoch(), epoch, "no epochs pass while nothing happens");
    }
}

#[test]
fn a_cut_is_after_all_earlier_commits_and_before_all_later_ones() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(4));
    let earlier: Vec<_> = (0..4).map(|shard| put(&log, shard, b"earlier")).collect();
    put(&log, 2, b"earlier");
    let newest = put(&log, 2, b"earlier");
    let cut = log.cut(|newest| newest);
    assert!(cut >= newest && earlier.iter().all(|commit| *commit <= cut));
    for shard in 0..4 {
        assert!(put(&log, shard, b"later") > cut);
    }
    // With an epoch between, too.
    let last = put(&log, 1, b"later");
    log.wait_durable(last.epoch()).unwrap();
    let cut = log.cut(|newest| newest);
    assert!(cut >= last && put(&log, 3, b"later still") > cut);
}

#[test]
fn a_cut_and_whoever_awaits_guards_wait_for_commits_under_way() {
    let vfs = disk();
    let (log, _) = create(&vfs, options(2));
    let released = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut guard = log.shard(1).unwrap();
        let timestamp = guard.timestamp(Timestamp::ZERO);
        let log = &log;
        let cut = scope.spawn(move || {
            let cut = log.cut(|newest| newest);
            (cut, released.load(Ordering::SeqCst))
        });
        let awaited = scope.spawn(move || {
            log.await_guards();
            released.load(Ordering::SeqCst)
        });
        std::thread::sleep(Duration::from_millis(5));
        let operation = Operation {
            keyspace: 1,
            kind: OperationKind::Put,
            key: b"key",
            payload: b"value",
        };
        guard.append(timestamp, &[operation]);
        released.store(1, Ordering::SeqCst);
        drop(guard);
        let (cut, seen) = cut.join().unwrap();
        assert!(cut >= timestamp && seen == 1);
        assert_eq!(awaited.join().unwrap(), 1);
    });
}
