//! A campaign: scans, counts, removals of ranges and writers on a real cluster, while regions of
//! their table are split and moved.
//!
//! `HEDGEROW_HBASE_URL` names a cluster that `.ci/hbase up` started, `HEDGEROW_HBASE_SPLITS` how
//! many splits, each followed by a move of all regions (4 without it). Skipped without the former.
//!
//! The rows lie in this order, and splits go through all of it but the ledger's:
//!
//! ```text
//! counter, fields N, log N, own N     the writers' of the ledger
//! gone 00000 …                        stored, and removed as a range
//! stay 00000, stay 00001 …            always there; their values grow
//! stay 00000 N …                      among them, stored and removed again: each is there once
//! ```

mod ledger;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow::backend::{Backend, BackendKeyspace, Put};
use hedgerow::{Action, Direction, Error, Row, WriteOptions};
use hedgerow_hbase::{ClusterUrl, Gateways, Hbase, HbaseKeyspace, HbaseOptions, TableName};

use ledger::Ledger;
use script::{Script, Stops};

const WRITERS: usize = 2;
const STAYING: usize = 400;
const REMOVED_TOGETHER: usize = 40;
/// Rows that a scan in small batches asks for.
const BATCH: usize = 7;
/// Scans that may fail one after the other when regions are not disturbed any more.
const MOST_LATE_SCANS: usize = 100;
/// Much longer than a cluster takes to recover on a busy machine.
const LONG: Duration = Duration::from_secs(300);

type Found = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const STAYING_RANGE: Range<'static> = (Bound::Included(b"stay "), Bound::Excluded(b"stay!"));
const GONE_RANGE: Range<'static> = (Bound::Included(b"gone "), Bound::Excluded(b"gone!"));

fn staying_key(i: usize) -> String {
    format!("stay {i:05}")
}

/// The key of the passing row of a number, right behind a row that stays.
fn passing_key(n: u64) -> String {
    format!("{} {n}", staying_key(n as usize * 7 % STAYING))
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// Values that were put into a row that stays: each is one more than the one before.
#[derive(Default)]
struct Values {
    acknowledged: AtomicU64,
    sent: AtomicU64,
}

/// What writers have done, for scans to be judged by, and what ran.
struct Progress {
    stops: AtomicBool,
    staying: Vec<Values>,
    /// Passing rows up to this one have been sent, or removed for certain.
    passing_sent: AtomicU64,
    passing_removed: AtomicU64,
    /// Passing rows that may come late: they were put with unknown outcomes.
    passing_late: Mutex<BTreeSet<Vec<u8>>>,
    /// Values, or keys of passing rows, that HBase never took.
    failed: Mutex<BTreeSet<(Vec<u8>, Vec<u8>)>>,
    scans: AtomicU64,
    rows: AtomicU64,
    counts: AtomicU64,
    removed_ranges: AtomicU64,
    /// Errors of reads and removals, with how often each came.
    errors: Mutex<BTreeMap<String, u64>>,
}

/// What writers had done when a scan began.
struct Before {
    values: Vec<u64>,
    removed: u64,
}

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Progress {
    fn new() -> Progress {
        Progress {
            stops: AtomicBool::new(false),
            staying: (0..STAYING).map(|_| Values::default()).collect(),
            passing_sent: AtomicU64::new(0),
            passing_removed: AtomicU64::new(0),
            passing_late: Mutex::default(),
            failed: Mutex::default(),
            scans: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            removed_ranges: AtomicU64::new(0),
            errors: Mutex::default(),
        }
    }

    fn failed(&self, error: &Error) {
        *self
            .errors
            .lock()
            .unwrap()
            .entry(error.to_string())
            .or_default() += 1;
    }

    fn is_over(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }

    fn before(&self) -> Before {
        let values = self.staying.iter();
        let values = values.map(|values| values.acknowledged.load(Ordering::SeqCst));
        Before {
            values: values.collect(),
            removed: self.passing_removed.load(Ordering::SeqCst),
        }
    }

    /// Judges a scan of the rows that stay: all of it, or what it found before an error.
    fn judge(&self, before: &Before, found: &Found, direction: Direction, is_whole: bool) {
        let is_in_order = |pair: &[(Vec<u8>, Option<Vec<u8>>)]| match direction {
            Direction::Forward => pair[0].0 < pair[1].0,
            Direction::Reverse => pair[0].0 > pair[1].0,
        };
        let wrong = found.windows(2).find(|pair| !is_in_order(pair));
        assert!(wrong.is_none(), "{direction:?}: {wrong:?}");
        let mut expected: Vec<usize> = (0..STAYING).collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        let mut expected = expected.into_iter();
        let staying_bytes = staying_key(0).len();
        for (key, value) in found {
            if key.len() > staying_bytes {
                self.judge_passing(before, key);
                continue;
            }
            let i = expected.next().expect("no more rows than stay");
            let wanted = staying_key(i);
            let shown = String::from_utf8_lossy(key);
            assert_eq!(
                shown, wanted,
                "{direction:?}: a row is missing, or never was"
            );
            if let Some(value) = value {
                self.judge_value(before, i, value);
            }
        }
        let missing = expected.next();
        assert!(
            !is_whole || missing.is_none(),
            "missing from {missing:?} on"
        );
        add(&self.rows, found.len());
    }

    fn judge_value(&self, before: &Before, i: usize, value: &[u8]) {
        let sent = self.staying[i].sent.load(Ordering::SeqCst);
        let possible = before.values[i]..=sent;
        let key = staying_key(i);
        assert!(possible.contains(&number(value)), "{key}: not {possible:?}");
        let entry = (key.into_bytes(), value.to_vec());
        assert!(!self.failed.lock().unwrap().contains(&entry), "{entry:?}");
    }

    fn judge_passing(&self, before: &Before, key: &[u8]) {
        let text = String::from_utf8_lossy(key).into_owned();
        let n = number(text.split(' ').nth(2).unwrap().as_bytes());
        assert_eq!(text, passing_key(n), "a row that never was");
        let sent = self.passing_sent.load(Ordering::SeqCst);
        assert!(n <= sent, "{text} never was: {sent} were sent");
        let is_late = self.passing_late.lock().unwrap().contains(key);
        assert!(n > before.removed || is_late, "{text} was removed before");
        let entry = (key.to_vec(), Vec::new());
        assert!(!self.failed.lock().unwrap().contains(&entry), "{text}");
    }
}

/// Puts growing values into the rows that stay.
fn overwrite(keyspace: &HbaseKeyspace, progress: &Progress) {
    let options = WriteOptions::default();
    for i in (0..STAYING).cycle() {
        if progress.is_over() {
            return;
        }
        let values = &progress.staying[i];
        let n = values.sent.fetch_add(1, Ordering::SeqCst) + 1;
        let (key, value) = (staying_key(i), n.to_string());
        match keyspace.put_with(key.as_bytes(), value.as_bytes(), &options) {
            Ok(_) => values.acknowledged.store(n, Ordering::SeqCst),
            Err(Error::OutcomeUnknown(_)) => {}
            Err(_) => {
                let entry = (key.into_bytes(), value.into_bytes());
                progress.failed.lock().unwrap().insert(entry);
            }
        }
    }
}

/// Stores and removes rows among those that stay.
fn pass(keyspace: &HbaseKeyspace, progress: &Progress) {
    let options = WriteOptions::default();
    for n in 1.. {
        if progress.is_over() {
            return;
        }
        let key = passing_key(n);
        progress.passing_sent.store(n, Ordering::SeqCst);
        match keyspace.put_with(key.as_bytes(), key.as_bytes(), &options) {
            Ok(_) => {}
            Err(Error::OutcomeUnknown(_)) => {
                let mut late = progress.passing_late.lock().unwrap();
                late.insert(key.clone().into_bytes());
            }
            Err(_) => {
                let entry = (key.clone().into_bytes(), Vec::new());
                progress.failed.lock().unwrap().insert(entry);
            }
        }
        until_done(progress, || {
            keyspace.update(key.as_bytes(), &options, |_, _| Action::Remove(()))
        });
        progress.passing_removed.store(n, Ordering::SeqCst);
    }
}

/// Repeats until there is no error.
fn until_done<T>(progress: &Progress, mut call: impl FnMut() -> Result<T, Error>) -> T {
    let until = Instant::now() + LONG;
    loop {
        match call() {
            Ok(result) => return result,
            Err(error) => {
                assert!(Instant::now() < until, "{error}");
                progress.failed(&error);
            }
        }
    }
}

/// Stores rows of a range of its own, and removes the range.
fn remove_ranges(keyspace: &HbaseKeyspace, progress: &Progress) {
    let options = WriteOptions::default();
    let keys: Vec<String> = (0..REMOVED_TOGETHER)
        .map(|i| format!("gone {i:05}"))
        .collect();
    let puts: Vec<Put<'_>> = keys
        .iter()
        .map(|key| Put::plain(key.as_bytes(), b"v"))
        .collect();
    while !progress.is_over() {
        let mut done = 0;
        keyspace.put_many(&puts, &options, |_, outcome| {
            done += usize::from(outcome.is_ok())
        });
        match keyspace.delete_range_with(GONE_RANGE, &options) {
            Ok((removed, _)) => {
                let possible = done as u64..=REMOVED_TOGETHER as u64;
                assert!(possible.contains(&removed), "{removed}: not {possible:?}");
            }
            Err(error) => {
                progress.failed(&error);
                until_done(progress, || {
                    keyspace.delete_range_with(GONE_RANGE, &options)
                });
            }
        }
        let left = until_done(progress, || keyspace.count(GONE_RANGE));
        // A put of unknown outcome may come late.
        let is_certain = done == REMOVED_TOGETHER;
        assert!(
            left == 0 || !is_certain,
            "{left} rows of a range that was removed"
        );
        add(&progress.removed_ranges, 1);
    }
}

fn scan_at_once(
    keyspace: &HbaseKeyspace,
    range: Range<'_>,
    direction: Direction,
    most: usize,
    found: &mut Found,
) -> Result<(), Error> {
    keyspace.scan_up_to(range, direction, most, |key: &[u8], row: Row<'_>| {
        found.push((key.to_vec(), row.value().map(<[u8]>::to_vec)));
        ControlFlow::Continue(())
    })
}

/// As clients with cursors scan: each batch begins behind the last key of the one before.
fn scan_in_batches(
    keyspace: &HbaseKeyspace,
    direction: Direction,
    found: &mut Found,
) -> Result<(), Error> {
    loop {
        let last = found.last().map(|(key, _)| key.clone());
        let (mut lower, mut upper) = STAYING_RANGE;
        match (&last, direction) {
            (Some(last), Direction::Forward) => lower = Bound::Excluded(last),
            (Some(last), Direction::Reverse) => upper = Bound::Excluded(last),
            (None, _) => {}
        }
        let seen = found.len();
        scan_at_once(keyspace, (lower, upper), direction, BATCH, found)?;
        if found.len() - seen < BATCH {
            return Ok(());
        }
    }
}

/// The ways of scanning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    AtOnce,
    InBatches,
    Keys,
}

/// Scans in all ways, at least once each, until it is over.
fn scan(keyspace: &HbaseKeyspace, direction: Direction, progress: &Progress) {
    let ways = [Way::AtOnce, Way::InBatches, Way::Keys];
    let mut done = BTreeSet::new();
    let mut late = 0;
    for way in ways.into_iter().cycle() {
        late += usize::from(progress.is_over());
        if late > 0 && done.len() == ways.len() {
            return;
        }
        assert!(late < MOST_LATE_SCANS, "all but {done:?} fail");
        let before = progress.before();
        let mut found = Found::new();
        let scanned = match way {
            Way::AtOnce => scan_at_once(keyspace, STAYING_RANGE, direction, usize::MAX, &mut found),
            Way::InBatches => scan_in_batches(keyspace, direction, &mut found),
            Way::Keys => keyspace.scan_keys(STAYING_RANGE, direction, |key: &[u8]| {
                found.push((key.to_vec(), None));
                ControlFlow::Continue(())
            }),
        };
        progress.judge(&before, &found, direction, scanned.is_ok());
        match scanned {
            Ok(()) => {
                done.insert(way);
                add(&progress.scans, 1);
            }
            Err(error) => progress.failed(&error),
        }
        count(keyspace, progress);
    }
}

fn count(keyspace: &HbaseKeyspace, progress: &Progress) {
    let removed = progress.passing_removed.load(Ordering::SeqCst);
    match keyspace.count(STAYING_RANGE) {
        Ok(count) => {
            // Any passing row may be counted that was there at some moment meanwhile.
            let sent = progress.passing_sent.load(Ordering::SeqCst);
            let late = progress.passing_late.lock().unwrap().len() as u64;
            let possible = STAYING as u64..=STAYING as u64 + (sent - removed) + late;
            assert!(possible.contains(&count), "{count}: not {possible:?}");
            add(&progress.counts, 1);
        }
        Err(error) => progress.failed(&error),
    }
}

/// Where the regions of a round begin: each split halves one, roughly.
fn split_key(round: usize) -> String {
    match round % 4 {
        1 => format!(
            "gone {:05}",
            (REMOVED_TOGETHER / 2 + round * 7) % REMOVED_TOGETHER
        ),
        // Within the keys of passing rows.
        3 => format!("{} 5", staying_key(round * 149 % STAYING)),
        _ => staying_key((STAYING / 2 + round * 149) % STAYING),
    }
}

/// A new table of one region, whatever was there before.
fn drop_table(url: &ClusterUrl, table: &TableName) {
    let gateways = Gateways::new(url, HbaseOptions::default().gateways).unwrap();
    let calls = gateways.within(LONG);
    if calls.table_exists(table).unwrap() {
        calls.disable_table(table).unwrap();
        calls.delete_table(table).unwrap();
    }
}

fn fill(keyspace: &HbaseKeyspace) {
    let keys: Vec<String> = (0..STAYING).map(staying_key).collect();
    let puts: Vec<Put<'_>> = keys
        .iter()
        .map(|key| Put::plain(key.as_bytes(), b"0"))
        .collect();
    keyspace.put_many(&puts, &WriteOptions::default(), |_, outcome| {
        outcome.unwrap();
    });
}

/// Splits and moves regions; returns how many there are in the end.
fn split_and_move(script: &Script, table: &TableName, rounds: usize) -> usize {
    let table = table.to_string();
    let mut regions = 1;
    for round in 0..rounds {
        script.run(&["split", &table, &split_key(round)]);
        let printed = script.run(&["move", &table]);
        regions = printed.lines().count();
    }
    assert!(regions > 1 || rounds == 0, "nothing was split");
    regions
}

fn report(progress: &Progress, rounds: usize, regions: usize) {
    let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!("{rounds} splits, {rounds} moves of all regions, {regions} regions in the end");
    eprintln!(
        "{} scans of {} rows, {} counts, {} removed ranges; {} passing rows",
        counted(&progress.scans),
        counted(&progress.rows),
        counted(&progress.counts),
        counted(&progress.removed_ranges),
        counted(&progress.passing_removed),
    );
    for (error, times) in progress.errors.lock().unwrap().iter() {
        eprintln!("{times} times: {error}");
    }
}

#[test]
fn splits_and_moves_hide_no_row_and_show_none_twice() {
    let Some(url) = script::url() else { return };
    let url: ClusterUrl = url.parse().unwrap();
    let rounds = script::rounds("HEDGEROW_HBASE_SPLITS", 4);
    let table = TableName::new(url.namespace(), "regions").unwrap();
    drop_table(&url, &table);
    let db = Hbase::open(&url, HbaseOptions::default()).unwrap();
    let keyspace = db.keyspace("regions").unwrap();
    fill(&keyspace);
    let (progress, ledgers) = (Progress::new(), Mutex::new(Vec::new()));
    let regions = std::thread::scope(|scope| {
        let (keyspace, progress, ledgers) = (&keyspace, &progress, &ledgers);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let ledger = Ledger::of_writer(keyspace, writer, |_| !progress.is_over());
                ledgers.lock().unwrap().push((writer, ledger));
            });
        }
        scope.spawn(move || overwrite(keyspace, progress));
        scope.spawn(move || pass(keyspace, progress));
        scope.spawn(move || remove_ranges(keyspace, progress));
        scope.spawn(move || scan(keyspace, Direction::Forward, progress));
        scope.spawn(move || scan(keyspace, Direction::Reverse, progress));
        let _stops = Stops(&progress.stops);
        split_and_move(&Script::find(), &table, rounds)
    });
    report(&progress, rounds, regions);
    let mut ledgers = ledgers.into_inner().unwrap();
    ledgers.sort_by_key(|(writer, _)| *writer);
    let ledgers: Vec<Ledger> = ledgers.into_iter().map(|(_, ledger)| ledger).collect();
    let findings = ledger::check(&keyspace, &ledgers);
    eprintln!("{findings}");
    assert!(findings.is_clean(), "{findings:?}");
}
