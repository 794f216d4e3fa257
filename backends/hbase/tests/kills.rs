//! A campaign: writers on a real cluster while its processes are killed and started again, with a
//! ledger outside of it. What was acknowledged is there; what was acknowledged once happened once;
//! what failed did not happen; and only what the backend itself calls unknown may be either.
//!
//! `HEDGEROW_HBASE_URL` names a cluster that `.ci/hbase up` started, `HEDGEROW_HBASE_KILLS` how
//! many kills (4 without it). Skipped without the former.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Action, Error, WriteOptions};
use hedgerow_hbase::{Hbase, HbaseKeyspace, HbaseOptions};

const WRITERS: usize = 6;

/// What became of a write, as the backend says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Done,
    Failed,
    Unknown,
}

fn report<T>(outcome: &Result<T, Error>) -> Reported {
    match outcome {
        Ok(_) => Reported::Done,
        Err(Error::OutcomeUnknown(_)) => Reported::Unknown,
        Err(_) => Reported::Failed,
    }
}

/// What was reported to one writer of its writes.
#[derive(Default)]
struct Ledger {
    /// Of tokens appended to the common row.
    appended: BTreeMap<String, Reported>,
    /// Of additions to the common counter.
    added: Vec<Reported>,
    /// Of its own row: each value that was put, in their order.
    put: Vec<(u64, Reported)>,
    /// Of its own counter, in the fields of a hash: the last sum that was acknowledged, and how
    /// many additions may have happened since.
    field_done: u64,
    field_unknown: u64,
}

struct Script(PathBuf);

impl Script {
    fn run(&self, words: &[&str]) {
        let output = Command::new("bash")
            .arg(&self.0)
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), ".ci/hbase {words:?}: {text}");
    }
}

fn add(keyspace: &HbaseKeyspace, key: &[u8]) -> Result<u64, Error> {
    let added = keyspace.update(key, &WriteOptions::default(), |row, new| {
        let old = row.and_then(|row| row.value()).unwrap_or(b"0");
        let sum = std::str::from_utf8(old).unwrap().parse::<u64>().unwrap() + 1;
        new.set_value(sum.to_string().as_bytes());
        Action::Put(sum)
    });
    added.map(|(sum, _)| sum)
}

fn write(keyspace: &HbaseKeyspace, writer: usize, stops: &AtomicBool) -> Ledger {
    let options = WriteOptions::default();
    let mut ledger = Ledger::default();
    let own = format!("own {writer}");
    let fields = format!("fields {writer}");
    let mut i = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        i += 1;
        let token = format!("{writer}.{i}");
        let appended = keyspace.update(
            format!("log {}", i / 200).as_bytes(),
            &options,
            |row, new| {
                let old = row.and_then(|row| row.value()).unwrap_or_default();
                new.set_value_owned([old, token.as_bytes(), b" "].concat());
                Action::Put(())
            },
        );
        ledger.appended.insert(token.clone(), report(&appended));
        ledger.added.push(report(&add(keyspace, b"counter")));
        let put = keyspace.put_with(own.as_bytes(), i.to_string().as_bytes(), &options);
        ledger.put.push((i, report(&put)));
        let field = keyspace.update(fields.as_bytes(), &options, |row, new| {
            let old = row.and_then(|row| row.column(b"n")).unwrap_or(b"0");
            let sum = std::str::from_utf8(old).unwrap().parse::<u64>().unwrap() + 1;
            new.set_column(b"n", sum.to_string().as_bytes());
            new.set_column(format!("f{}", sum % 10).as_bytes(), b"x");
            Action::Put(sum)
        });
        match field {
            Ok((sum, _)) => {
                let known = ledger.field_done + 1..=ledger.field_done + ledger.field_unknown + 1;
                assert!(known.contains(&sum), "{fields}: {sum} is not in {known:?}");
                (ledger.field_done, ledger.field_unknown) = (sum, 0);
            }
            Err(Error::OutcomeUnknown(_)) => ledger.field_unknown += 1,
            Err(_) => {}
        }
    }
    ledger
}

fn value(keyspace: &HbaseKeyspace, key: &[u8]) -> String {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match keyspace.read(key, |row| row.value().unwrap().to_vec()) {
            Ok(value) => return String::from_utf8(value.unwrap_or_default()).unwrap(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn check(keyspace: &HbaseKeyspace, ledgers: &[Ledger]) {
    let (mut done, mut unknown) = (0, 0);
    for reported in ledgers.iter().flat_map(|ledger| &ledger.added) {
        done += u64::from(*reported == Reported::Done);
        unknown += u64::from(*reported == Reported::Unknown);
    }
    let counter: u64 = value(keyspace, b"counter").parse().unwrap();
    assert!(
        (done..=done + unknown).contains(&counter),
        "{counter}: {done} done, {unknown} unknown"
    );
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    let mut rows = 0;
    loop {
        let text = value(keyspace, format!("log {rows}").as_bytes());
        if text.is_empty() && rows > 0 {
            break;
        }
        for token in text.split_whitespace() {
            *found.entry(token.to_owned()).or_default() += 1;
        }
        rows += 1;
    }
    let appended = ledgers.iter().flat_map(|ledger| &ledger.appended);
    let mut acknowledged = 0;
    for (token, reported) in appended {
        let times = found.remove(token).unwrap_or(0);
        let is_right = match reported {
            Reported::Done => times == 1,
            Reported::Failed => times == 0,
            Reported::Unknown => times <= 1,
        };
        assert!(
            is_right,
            "{token} is there {times} times, and was reported as {reported:?}"
        );
        acknowledged += u64::from(*reported == Reported::Done);
    }
    assert!(found.is_empty(), "nobody appended {found:?}");
    for (writer, ledger) in ledgers.iter().enumerate() {
        let own = value(keyspace, format!("own {writer}").as_bytes());
        let own: u64 = own.parse().unwrap_or(0);
        // The last acknowledged one, or one behind it that may have happened.
        let last = ledger
            .put
            .iter()
            .rev()
            .find(|(_, reported)| *reported == Reported::Done);
        let last = last.map_or(0, |(i, _)| *i);
        let later = ledger
            .put
            .iter()
            .any(|(i, reported)| *i == own && *reported == Reported::Unknown);
        assert!(
            own == last || (own > last && later),
            "own {writer}: {own}, acknowledged {last}"
        );
    }
    eprintln!("{acknowledged} appends and {done} additions acknowledged, {unknown} unknown");
}

#[test]
fn kills_lose_nothing_that_was_acknowledged_and_repeat_nothing() {
    let Ok(url) = std::env::var("HEDGEROW_HBASE_URL") else {
        eprintln!("skipped: HEDGEROW_HBASE_URL names no cluster; `.ci/hbase up` starts one");
        return;
    };
    let kills = std::env::var("HEDGEROW_HBASE_KILLS").map_or(4, |text| text.parse().unwrap());
    let script = Script(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.ci/hbase"));
    let db = Hbase::open(&url.parse().unwrap(), HbaseOptions::default()).unwrap();
    let keyspace = db.keyspace("kills").unwrap();
    db.clear_keyspace("kills").unwrap();
    let (stops, killed) = (AtomicBool::new(false), AtomicU64::new(0));
    let ledgers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (keyspace, stops, ledgers) = (keyspace.clone(), &stops, &ledgers);
            scope.spawn(move || {
                let ledger = write(&keyspace, writer, stops);
                ledgers.lock().unwrap().push((writer, ledger));
            });
        }
        let victims = [
            ["region-server", "1"],
            ["gateway", "1"],
            ["region-server", "2"],
            ["gateway", "2"],
            ["master", "1"],
        ];
        for round in 0..kills {
            std::thread::sleep(Duration::from_secs(2));
            let [role, number] = victims[round % victims.len()];
            script.run(&["kill", role, number]);
            killed.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(3));
            script.run(&["start", role, number]);
        }
        std::thread::sleep(Duration::from_secs(3));
        stops.store(true, Ordering::Relaxed);
    });
    let mut ledgers = ledgers.into_inner().unwrap();
    ledgers.sort_by_key(|(writer, _)| *writer);
    let ledgers: Vec<Ledger> = ledgers.into_iter().map(|(_, ledger)| ledger).collect();
    assert_eq!(ledgers.len(), WRITERS);
    check(&keyspace, &ledgers);
    eprintln!("{} kills", killed.load(Ordering::Relaxed));
}
