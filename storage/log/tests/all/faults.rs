//! Disks that fail: every call of a scripted workload fails once, full disks, failed syncs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hedgerow_log::{
    CheckpointEntry, CheckpointWriter, Error, Health, Log, LogOptions, Manifest, Operation,
    OperationKind, Progress, RecoveredLogs, Result, Timestamp, check, remove_obsolete,
};
use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{append, dir, memory, numbers, options_without_reserve as options};

fn disk() -> (MemoryVfs, FaultyVfs, Arc<dyn Vfs>) {
    let memory = memory();
    let faulty = FaultyVfs::new(Arc::new(memory.clone()));
    let shared = Arc::new(faulty.clone());
    (memory, faulty, shared)
}

fn put(log: &Log, shard: usize, number: u64) -> Result<Timestamp> {
    append(log, shard, &[&number.to_be_bytes()], &[1; 30])
}

/// The numbers in the logs, after recovering them.
fn recover(vfs: Arc<dyn Vfs>) -> Result<BTreeSet<u64>> {
    let mut manifest = Manifest::load(&*vfs, dir())?;
    let logs = RecoveredLogs::open(vfs, dir(), &mut manifest)?;
    Ok(numbers(&logs)?.into_iter().collect())
}

/// What a script achieved before it ran into an error, if it did.
#[derive(Default)]
struct Outcome {
    issued: u64,
    acknowledged: BTreeSet<u64>,
    /// Numbers that a checkpoint took over from the logs.
    checkpointed: BTreeSet<u64>,
}

/// A workload with everything in it: creating, committing, rotating, checkpointing, closing,
/// reopening, crashing (dropping without recording it in the manifest), recovering.
fn script(vfs: &Arc<dyn Vfs>, outcome: &mut Outcome) -> Result<()> {
    let mut manifest = Manifest::new(3);
    manifest.store(&**vfs, dir())?;
    for round in 0..3 {
        let logs = RecoveredLogs::open(Arc::clone(vfs), dir(), &mut manifest)?;
        numbers(&logs)?;
        let first = logs.next_epoch();
        let log = Log::create(Arc::clone(vfs), dir(), &mut manifest, options(2), first)?;
        commit(&log, outcome)?;
        if round == 1 {
            let point = log.rotate()?;
            let before: BTreeSet<u64> = (0..outcome.issued).collect();
            commit(&log, outcome)?;
            let (id, generation) = (manifest.database_id, point.generation);
            let mut writer = CheckpointWriter::create(Arc::clone(vfs), dir(), id, generation, 0)?;
            writer.append(0, b"all", b"of them")?;
            let parts = vec![writer.finish()?];
            let timestamp = Timestamp::new(point.epoch, 0);
            let entry = CheckpointEntry {
                generation,
                timestamp,
                parts,
            };
            manifest.install_checkpoint(entry, 1);
            // From here on the checkpoint may count.
            outcome.checkpointed = before;
            manifest.store(&**vfs, dir())?;
            remove_obsolete(&**vfs, dir(), &manifest)?;
        }
        commit(&log, outcome)?;
        if round != 1 {
            manifest.record_end(log.close()?);
            manifest.store(&**vfs, dir())?;
        }
    }
    Ok(())
}

fn commit(log: &Log, outcome: &mut Outcome) -> Result<()> {
    let mut issued = Vec::new();
    for at in 0..3 {
        let number = outcome.issued;
        outcome.issued += 1;
        put(log, at % 2, number)?;
        issued.push(number);
    }
    match log.write_out().and_then(|()| log.wait_durable(log.epoch())) {
        // An injected full disk has space again at the next attempt.
        Err(Error::DiskFull) => {
            while log.health() == Health::DiskFull {
                std::thread::yield_now();
            }
            log.wait_durable(log.epoch())?;
        }
        other => other?,
    }
    outcome.acknowledged.extend(issued);
    Ok(())
}

fn judge(memory: &MemoryVfs, outcome: &Outcome, what: &str) {
    if !Manifest::exists(memory, dir()).unwrap() {
        assert!(outcome.acknowledged.is_empty(), "{what}");
        return;
    }
    let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
    let found = recover(Arc::clone(&vfs)).unwrap_or_else(|e| panic!("{what}: {e}"));
    for number in &outcome.acknowledged {
        let kept = found.contains(number) || outcome.checkpointed.contains(number);
        assert!(kept, "{what}: {number} was acknowledged and is gone");
    }
    assert!(
        found.iter().all(|&number| number < outcome.issued),
        "{what}"
    );
    let mut problems = Vec::new();
    check(vfs, dir(), &mut |problem| problems.push(problem)).unwrap();
    assert_eq!(problems, [], "{what}");
}

#[test]
fn every_call_of_a_workload_fails_once_and_nothing_acknowledged_is_lost() {
    let faults = [
        Fault::Error(ErrorKind::Other),
        Fault::ShortWrite(ErrorKind::Other),
        Fault::TornWrite(ErrorKind::Other),
        Fault::ShortWrite(ErrorKind::StorageFull),
    ];
    let mut cases = 0;
    let mut kinds = BTreeSet::new();
    for kind in CallKind::ALL {
        for fault in faults {
            if !matches!(fault, Fault::Error(_)) && kind != CallKind::Write {
                continue;
            }
            for after in 0.. {
                let (memory, faulty, shared) = disk();
                faulty.fail_once(kind, after, fault);
                let mut outcome = Outcome::default();
                let result = script(&shared, &mut outcome);
                let what = format!("{kind:?} {after} {fault:?}");
                if faulty.calls(kind) <= after {
                    result.unwrap_or_else(|e| panic!("{what}: {e}"));
                    break;
                }
                judge(&memory, &outcome, &what);
                kinds.insert(kind);
                cases += 1;
            }
        }
    }
    println!("{cases} faults");
    let expected = [
        CallKind::Open,
        CallKind::Read,
        CallKind::Write,
        CallKind::Sync,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::CreateDir,
        CallKind::SyncDir,
        CallKind::List,
    ];
    for kind in expected {
        assert!(
            kinds.contains(&kind),
            "the script never makes a call of kind {kind:?}"
        );
    }
    assert!(cases > 200, "{cases}");
}

#[test]
fn a_failing_recovery_changes_nothing_and_can_be_repeated() {
    // A crashed log with a torn tail, so that recovery has something to cut.
    let (memory, _, shared) = disk();
    let mut manifest = Manifest::new(3);
    let log = Log::create(shared, dir(), &mut manifest, options(2), 1).unwrap();
    let mut outcome = Outcome::default();
    commit(&log, &mut outcome).unwrap();
    let image = memory.deep_clone();
    drop(log);
    for (path, mut bytes) in image.files() {
        if path.to_string_lossy().ends_with("0.log") {
            bytes.extend_from_slice(&[7; 700]);
            image.insert_file(&path, bytes);
        }
    }
    for kind in CallKind::ALL {
        for after in 0.. {
            let memory = image.deep_clone();
            let faulty = FaultyVfs::new(Arc::new(memory.clone()));
            faulty.fail_once(kind, after, Fault::Error(ErrorKind::Other));
            let result = recover(Arc::new(faulty.clone()));
            if faulty.calls(kind) <= after {
                assert_eq!(result.unwrap(), outcome.acknowledged);
                break;
            }
            judge(&memory, &outcome, &format!("{kind:?} {after}"));
        }
    }
}

/// A manifest that replaced another counts when its name is durable: until then a power cut may
/// bring the old one back, with all that it names.
#[test]
fn no_log_goes_before_the_manifest_that_does_without_it_is_durable() {
    let recording = RecordingVfs::new(&MemoryVfs::new());
    let faulty = FaultyVfs::new(Arc::new(recording.clone()));
    let shared: Arc<dyn Vfs> = Arc::new(faulty.clone());
    shared.create_dir_all(dir()).unwrap();
    shared.sync_dir(Path::new("/")).unwrap();
    let mut manifest = Manifest::new(3);
    manifest.store(&*shared, dir()).unwrap();
    drop(Log::create(Arc::clone(&shared), dir(), &mut manifest, options(2), 1).unwrap());
    // Recovery finds the log empty and does without it; the name of the manifest that says so is
    // not durable.
    faulty.fail_from(CallKind::SyncDir, 0, Fault::Error(ErrorKind::Other));
    recover(Arc::clone(&shared)).unwrap_err();
    faulty.heal();
    let opened = recording.operations();
    recover(shared).unwrap();
    let mut random = StdRng::seed_from_u64(21);
    for cut in opened..=recording.operations() {
        for _ in 0..32 {
            let image = recording.crash_image(cut, &mut |n| random.random_range(0..n));
            recover(Arc::new(image)).unwrap_or_else(|e| panic!("cut {cut}: {e}"));
        }
    }
}

#[test]
fn a_full_disk_refuses_appends_and_resumes_when_there_is_space() {
    for space in (0..700).step_by(9) {
        let (memory, faulty, shared) = disk();
        let mut manifest = Manifest::new(3);
        let log = Log::create(shared, dir(), &mut manifest, options(2), 1).unwrap();
        let mut outcome = Outcome::default();
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let inside = Arc::clone(&heard);
        log.subscribe(Box::new(move |progress| {
            inside.lock().unwrap().push(progress)
        }));
        faulty.set_space(Some(space));
        let mut pending = Vec::new();
        loop {
            let number = outcome.issued;
            match put(&log, number as usize % 2, number) {
                Ok(timestamp) => {
                    outcome.issued += 1;
                    // Sometimes the worker meets the full disk, sometimes the flusher.
                    let written = if number % 3 == 0 {
                        log.write_out()
                    } else {
                        Ok(())
                    };
                    match written.and_then(|()| log.wait_durable(timestamp.epoch())) {
                        Ok(()) => drop(outcome.acknowledged.insert(number)),
                        Err(Error::DiskFull) => pending.push((timestamp, number)),
                        Err(other) => panic!("space {space}: {other}"),
                    }
                }
                Err(Error::DiskFull) => break,
                Err(other) => panic!("space {space}: {other}"),
            }
        }
        assert_eq!(log.health(), Health::DiskFull);
        assert!(matches!(log.rotate(), Err(Error::DiskFull)));
        assert!(matches!(log.write_out(), Err(Error::DiskFull)));
        assert!(!pending.is_empty());
        while log.statistics().full_disk == 0 {
            std::thread::yield_now();
        }
        // What a crash now would leave is whole.
        judge(&memory.deep_clone(), &outcome, &format!("full at {space}"));
        faulty.set_space(None);
        while log.health() == Health::DiskFull {
            std::thread::yield_now();
        }
        // What was appended before the disk was found full becomes durable after all.
        for (timestamp, number) in pending {
            log.wait_durable(timestamp.epoch()).unwrap();
            outcome.acknowledged.insert(number);
        }
        commit(&log, &mut outcome).unwrap();
        let heard = heard.lock().unwrap().clone();
        let was_notified = |health| heard.contains(&Progress::Health(health));
        assert!(
            was_notified(Health::DiskFull) && was_notified(Health::Healthy),
            "{heard:?}"
        );
        log.close().unwrap();
        judge(&memory, &outcome, &format!("space {space}"));
        let found = recover(Arc::new(memory)).unwrap();
        assert_eq!(
            found.len() as u64,
            outcome.issued,
            "nothing appended was lost"
        );
    }
}

#[test]
fn the_reserve_takes_what_was_accepted_then_removals_then_openings() {
    let (_, faulty, shared) = disk();
    let mut manifest = Manifest::new(3);
    let options = LogOptions {
        reserve_bytes: 64 << 10,
        ..options(2)
    };
    let log = Log::create(
        Arc::clone(&shared),
        dir(),
        &mut manifest,
        options.clone(),
        1,
    )
    .unwrap();
    faulty.set_space(Some(0));
    let mut durable = 0;
    loop {
        match put(&log, durable % 2, durable as u64) {
            Ok(timestamp) => log.wait_durable(timestamp.epoch()).unwrap(),
            Err(Error::DiskFull) => break,
            Err(other) => panic!("{other}"),
        }
        durable += 1;
    }
    assert_eq!(log.health(), Health::DiskFull);
    let remove = |log: &Log| {
        let mut guard = log.shard_for_removal(0).unwrap();
        let timestamp = guard.timestamp(Timestamp::ZERO);
        let operation = Operation {
            keyspace: 1,
            kind: OperationKind::Remove,
            key: b"gone",
            payload: b"",
        };
        guard.append(timestamp, &[operation]);
        drop(guard);
        log.write_out().unwrap();
        log.wait_durable(timestamp.epoch()).unwrap();
        assert!(log.poll_durable(timestamp.epoch()).unwrap());
    };
    for _ in 0..20 {
        remove(&log);
        durable += 1;
    }
    drop(log);
    for _ in 0..5 {
        let mut manifest = Manifest::load(&*shared, dir()).unwrap();
        let logs = RecoveredLogs::open(Arc::clone(&shared), dir(), &mut manifest).unwrap();
        let mut commits = logs.commits();
        let mut found = 0;
        while commits.next().unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, durable);
        let (next, vfs) = (logs.next_epoch(), Arc::clone(&shared));
        let log = Log::create(vfs, dir(), &mut manifest, options.clone(), next).unwrap();
        remove(&log);
        durable += 1;
    }
}

#[test]
fn a_rotation_on_a_full_disk_fails_and_the_next_one_goes_on_from_it() {
    const HEADERS: u64 = 2 * 64;
    // From no room for the new files to room for all but the last seal.
    for space in (0..HEADERS + 300).step_by(11) {
        let (memory, faulty, shared) = disk();
        let mut manifest = Manifest::new(3);
        let log = Log::create(shared, dir(), &mut manifest, options(2), 1).unwrap();
        for number in 0..4 {
            put(&log, number as usize % 2, number).unwrap();
        }
        faulty.set_space(Some(space));
        match log.rotate() {
            Err(Error::DiskFull) => {}
            Err(error) if error.is_disk_full() && space < HEADERS => {}
            other => panic!("space {space}: {other:?}"),
        }
        faulty.set_space(None);
        while log.health() == Health::DiskFull {
            std::thread::yield_now();
        }
        put(&log, 0, 4).unwrap();
        let point = log.rotate().unwrap();
        assert_eq!(point.generation, log.rotate().unwrap().generation - 1);
        put(&log, 1, 5).unwrap();
        log.close().unwrap();
        let found = recover(Arc::new(memory)).unwrap();
        assert_eq!(found.len(), 6, "space {space}");
    }
}

#[test]
fn closing_on_a_full_disk_says_so_and_keeps_what_was_durable() {
    let (memory, faulty, shared) = disk();
    let mut manifest = Manifest::new(3);
    let options = LogOptions {
        ahead_bytes: 0,
        ..options(2)
    };
    let log = Log::create(shared, dir(), &mut manifest, options, 1).unwrap();
    let mut outcome = Outcome::default();
    commit(&log, &mut outcome).unwrap();
    faulty.set_space(Some(20));
    put(&log, 0, outcome.issued).unwrap();
    outcome.issued += 1;
    assert!(matches!(log.close(), Err(Error::DiskFull)));
    assert!(log.shard(0).is_err());
    judge(&memory, &outcome, "closed while full");
}

#[test]
fn writers_that_wait_for_room_hear_of_a_full_disk() {
    let (_, faulty, shared) = disk();
    let mut manifest = Manifest::new(3);
    let small = LogOptions {
        buffer_limit_bytes: 200,
        write_threshold_bytes: 100,
        ..options(1)
    };
    let log = Log::create(shared, dir(), &mut manifest, small, 1).unwrap();
    faulty.set_space(Some(0));
    let error = (0..1000).find_map(|number| put(&log, 0, number).err());
    assert!(matches!(error, Some(Error::DiskFull)), "{error:?}");
}

#[test]
fn a_failed_sync_poisons_for_good_and_loses_nothing_acknowledged() {
    for after in 0..4 {
        let (memory, faulty, shared) = disk();
        let mut manifest = Manifest::new(3);
        let log = Log::create(shared, dir(), &mut manifest, options(2), 1).unwrap();
        let mut outcome = Outcome::default();
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let inside = Arc::clone(&heard);
        log.subscribe(Box::new(move |progress| {
            inside.lock().unwrap().push(progress)
        }));
        faulty.fail_once(CallKind::Sync, after, Fault::Error(ErrorKind::Other));
        let error = (0..10)
            .find_map(|_| commit(&log, &mut outcome).err())
            .unwrap();
        let message = error.to_string();
        assert!(matches!(error, Error::Poisoned(_)), "{message}");
        assert!(
            message.contains(".log") && message.contains("reopen"),
            "{message}"
        );
        assert!(matches!(log.health(), Health::Poisoned(_)));
        // Nothing is accepted, and no disk is asked again as if it could have recovered.
        let calls = (faulty.calls(CallKind::Sync), faulty.calls(CallKind::Write));
        assert!(matches!(put(&log, 0, 0), Err(Error::Poisoned(_))));
        assert!(matches!(
            log.wait_durable(log.epoch()),
            Err(Error::Poisoned(_))
        ));
        assert!(matches!(log.rotate(), Err(Error::Poisoned(_))));
        assert!(matches!(log.write_out(), Err(Error::Poisoned(_))));
        assert!(matches!(log.close(), Err(Error::Poisoned(_))));
        assert_eq!(
            (faulty.calls(CallKind::Sync), faulty.calls(CallKind::Write)),
            calls
        );
        let heard = heard.lock().unwrap();
        assert!(matches!(
            heard.last(),
            Some(Progress::Health(Health::Poisoned(_)))
        ));
        judge(&memory, &outcome, &format!("sync {after}"));
    }
}

#[test]
fn a_waiter_hears_of_a_failed_sync() {
    let (_, faulty, shared) = disk();
    let mut manifest = Manifest::new(3);
    let log = Log::create(shared, dir(), &mut manifest, options(1), 1).unwrap();
    faulty.fail_from(CallKind::Sync, 0, Fault::Error(ErrorKind::Other));
    let timestamp = put(&log, 0, 0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let waited = log.wait_durable(timestamp.epoch());
                assert!(matches!(waited, Err(Error::Poisoned(_))));
            });
        }
    });
}
