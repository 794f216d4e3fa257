//! A campaign: writers on a real cluster while its processes are killed and started again, or
//! stopped and continued, with a ledger outside of it.
//!
//! `HEDGEROW_HBASE_URL` names a cluster that `.ci/hbase up` started, `HEDGEROW_HBASE_KILLS` how
//! many kills and stops (4 without it). Skipped without the former.
//!
//! A stopped process keeps its sockets, and does what they have for it when it is continued: a
//! gateway writes what its clients have long given up, and a region server whose session has ended
//! meets requests for regions that others serve. Region servers stop for less than their session of
//! 6 seconds, or for much longer: unlike HDFS, the local file system lets a server write that was
//! replaced, and what it acknowledges is lost, until calls to it have ended after 5 seconds.
//!
//! With the feature `planted-bugs`, `HEDGEROW_HBASE_PLANTED` names a bug, and the ledger must find
//! it.

mod ledger;
mod script;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hedgerow::WriteOptions;
use hedgerow::backend::Backend;
use hedgerow_hbase::{Hbase, HbaseOptions};

use ledger::Ledger;
use script::{Script, Stops};

/// Half of them give up early.
const WRITERS: usize = 6;

/// Much longer than a cluster takes to recover on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// What befalls a process.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is killed, and started again.
    Kill,
    /// It is stopped for so many seconds, and started again if it has ended since.
    Stop(u64),
}

const PROCESSES: [(&str, &str); 6] = [
    ("zookeeper", "1"),
    ("master", "1"),
    ("region-server", "1"),
    ("region-server", "2"),
    ("gateway", "1"),
    ("gateway", "2"),
];

/// Who is the next one, round after round. Callers wait for 5 or 30 seconds.
const FAULTS: [(&str, &str, Fault); 10] = [
    ("region-server", "1", Fault::Kill),
    ("gateway", "1", Fault::Stop(8)),
    ("gateway", "2", Fault::Kill),
    ("region-server", "2", Fault::Stop(25)),
    ("region-server", "2", Fault::Kill),
    ("gateway", "2", Fault::Stop(35)),
    ("master", "1", Fault::Kill),
    ("region-server", "1", Fault::Stop(3)),
    ("gateway", "1", Fault::Kill),
    ("region-server", "1", Fault::Stop(25)),
];

fn befall(script: &Script, (role, number, fault): (&str, &str, Fault)) {
    match fault {
        Fault::Kill => {
            script.run(&["kill", role, number]);
            std::thread::sleep(Duration::from_secs(3));
            script.run(&["start", role, number]);
        }
        Fault::Stop(seconds) => {
            script.run(&["kill", role, number, "STOP"]);
            std::thread::sleep(Duration::from_secs(seconds));
            script.run(&["kill", role, number, "CONT"]);
        }
    }
}

/// Starts processes that have ended, until the cluster is healthy. Not only those that were
/// disturbed end: a region server does, too, where it finds a region in an unexpected state. One
/// that has yet to notice that it was replaced runs still.
fn heal(script: &Script) {
    let until = Instant::now() + LONG;
    loop {
        for (role, number) in PROCESSES {
            // A later try starts what ends at once.
            let _ = script.command(&["start", role, number]).output();
        }
        let status = script.command(&["status"]).output().unwrap();
        if status.status.success() {
            return;
        }
        assert!(Instant::now() < until, "{status:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Selects the bug that the environment names. Returns whether there is one.
#[cfg(feature = "planted-bugs")]
fn plant() -> bool {
    use hedgerow_hbase::PlantedBug;
    let Ok(name) = std::env::var("HEDGEROW_HBASE_PLANTED") else {
        return false;
    };
    let named = |bug: &&PlantedBug| format!("{bug:?}") == name;
    let bug = PlantedBug::ALL.iter().find(named);
    hedgerow_hbase::plant(Some(*bug.expect("a planted bug")));
    true
}

#[cfg(not(feature = "planted-bugs"))]
fn plant() -> bool {
    false
}

fn report(rounds: usize) {
    let faults = (0..rounds).map(|round| FAULTS[round % FAULTS.len()].2);
    let kills = faults.filter(|fault| matches!(fault, Fault::Kill)).count();
    eprintln!("{kills} kills, {} stops", rounds - kills);
}

#[test]
fn kills_and_stops_lose_nothing_that_was_acknowledged_and_repeat_nothing() {
    let Some(url) = script::url() else { return };
    let url = url.parse().unwrap();
    let rounds = script::rounds("HEDGEROW_HBASE_KILLS", 4);
    let script = Script::find();
    let hurried = HbaseOptions {
        deadline: Duration::from_secs(5),
        ..HbaseOptions::default()
    };
    let databases = [
        Hbase::open(&url, HbaseOptions::default()).unwrap(),
        Hbase::open(&url, hurried).unwrap(),
    ];
    let keyspaces = databases.each_ref().map(|db| db.keyspace("kills").unwrap());
    let cleared = databases[0].clear_keyspace("kills", &WriteOptions::default());
    cleared.unwrap();
    let is_planted = plant();
    let stops = AtomicBool::new(false);
    let ledgers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let keyspace = &keyspaces[writer % keyspaces.len()];
            let (stops, ledgers) = (&stops, &ledgers);
            scope.spawn(move || {
                let ledger =
                    Ledger::of_writer(keyspace, writer, |_| !stops.load(Ordering::Relaxed));
                ledgers.lock().unwrap().push((writer, ledger));
            });
        }
        let _stops = Stops(&stops);
        for round in 0..rounds {
            heal(&script);
            std::thread::sleep(Duration::from_secs(2));
            befall(&script, FAULTS[round % FAULTS.len()]);
        }
        std::thread::sleep(Duration::from_secs(3));
    });
    let mut ledgers = ledgers.into_inner().unwrap();
    ledgers.sort_by_key(|(writer, _)| *writer);
    let ledgers: Vec<Ledger> = ledgers.into_iter().map(|(_, ledger)| ledger).collect();
    assert_eq!(ledgers.len(), WRITERS);
    let findings = ledger::check(&keyspaces[0], &ledgers);
    report(rounds);
    eprintln!("{findings}");
    assert_eq!(findings.is_clean(), !is_planted, "{findings:?}");
}
