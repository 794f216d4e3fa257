//! Rows that a keyspace reads and writes together, over gateways that leave answers out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow::backend::{Backend, BackendKeyspace, Put};
use hedgerow::{Commit, Error, WriteOptions};
use hedgerow_hbase::thrift2::{THRegionInfo, THRegionLocation, TServerName};
use hedgerow_hbase::{Hbase, HbaseKeyspace, HbaseOptions, Options};

use crate::fake::{self, Fake, Gate, LONG, Reply, Seen, await_that};
use crate::table::Table;

/// Writes that are sent together on one connection.
const SENT_TOGETHER: usize = 16;

fn open(fake: &Fake, options: HbaseOptions) -> (Hbase, HbaseKeyspace) {
    let url = format!("hbase://{}/test", fake.address());
    let db = Hbase::open(&url.parse().expect("a URL"), options).expect("a gateway");
    let keyspace = db.keyspace("rows").expect("a table");
    (db, keyspace)
}

/// Options with so much time for a request.
fn within(deadline: Duration) -> HbaseOptions {
    HbaseOptions {
        gateways: fake::options(),
        deadline,
        ..HbaseOptions::default()
    }
}

/// So many keys.
fn keys(count: usize) -> Vec<Vec<u8>> {
    let keys = (0..count).map(|nth| format!("row-{nth:06}").into_bytes());
    keys.collect()
}

/// Puts a value at each key, all in one call. Returns what became of each put.
fn put(keyspace: &HbaseKeyspace, keys: &[Vec<u8>]) -> Vec<Result<Commit, Error>> {
    let puts: Vec<Put<'_>> = keys.iter().map(|key| Put::plain(key, b"v")).collect();
    let mut outcomes = Vec::new();
    keyspace.put_many(&puts, &WriteOptions::default(), |nth, outcome| {
        assert_eq!(nth, outcomes.len());
        outcomes.push(outcome);
    });
    outcomes
}

/// Whether a call's arguments have these bytes.
fn has(seen: &Seen, bytes: &[u8]) -> bool {
    seen.arguments
        .windows(bytes.len())
        .any(|some| some == bytes)
}

/// Whether a row was asked for since its header was read for the first write.
fn is_asked_for(fake: &Fake, key: &[u8]) -> bool {
    let seen = fake.seen();
    let mut reads = seen
        .iter()
        .filter(|seen| seen.method == "get" || (seen.method == "getMultiple" && seen.nth > 0));
    reads.any(|seen| has(seen, key))
}

/// There is one connection, and nobody answers on it: the time of all writes is over with the first
/// of them, and that of reading their rows with the first read.
#[test]
fn writes_that_are_sent_together_have_one_deadline() {
    let table = Table::reliable();
    let fake = Fake::start(move |seen| match (seen.method.as_str(), seen.nth) {
        ("get" | "checkAndPut", _) | ("getMultiple", 1..) => Reply::Silence,
        _ => table.answer(seen),
    });
    let options = HbaseOptions {
        gateways: Options {
            connections: 1,
            ..fake::options()
        },
        deadline: Duration::from_secs(2),
        ..HbaseOptions::default()
    };
    let (_db, keyspace) = open(&fake, options);
    let outcomes = put(&keyspace, &keys(3 * SENT_TOGETHER));
    assert_eq!(outcomes.len(), 3 * SENT_TOGETHER);
    assert!(matches!(outcomes[0], Err(Error::OutcomeUnknown(_))));
    for (nth, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Err(Error::OutcomeUnknown(_)) => assert!(nth < SENT_TOGETHER, "{nth}"),
            // It was not sent.
            Err(Error::Backend(_)) => {}
            other => panic!("{nth}: {other:?}"),
        }
    }
    assert!(fake.count("checkAndPut") <= SENT_TOGETHER);
    let reads = fake.count("get") + fake.count("getMultiple") - 1;
    assert!(reads < SENT_TOGETHER, "{reads} reads");
}

/// The first of two writes ends the connection. The read of no row is answered before both rows
/// have been asked for.
#[test]
fn rows_of_writes_without_an_answer_are_read_at_once() {
    let (table, gate) = (Table::reliable(), Arc::new(Gate::default()));
    let closed = Arc::clone(&gate);
    let fake = Fake::start(move |seen| match (seen.method.as_str(), seen.nth) {
        ("checkAndPut", 0) => Reply::Close,
        ("get", _) | ("getMultiple", 1..) => {
            Reply::Behind(Arc::clone(&closed), Box::new(table.answer(seen)))
        }
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(LONG));
    let keys = keys(2);
    let outcomes = std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&keyspace, &keys));
        let are_asked_for = || keys.iter().all(|key| is_asked_for(&fake, key));
        await_that("reads of both rows", are_asked_for);
        gate.open();
        writer.join().expect("no panic")
    });
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Nobody answers a call with others, which must not take all the time there is.
#[test]
fn a_row_is_asked_for_alone_within_a_short_deadline() {
    let table = Table::reliable();
    let fake = Fake::start(move |seen| match seen.method.as_str() {
        "getMultiple" => Reply::Silence,
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(Duration::from_secs(2)));
    let read = keyspace.read(b"row", |_| ());
    assert!(matches!(read, Ok(None)), "{read:?}");
    assert_eq!(fake.count("getMultiple"), 1);
}

/// The second try of a write happens, and its answer does not come before the deadline.
#[test]
fn a_row_is_read_after_the_last_try_of_its_write() {
    let table = Table::reliable();
    let fake = Fake::start(move |seen| match (seen.method.as_str(), seen.nth) {
        ("checkAndPut", 0) => Reply::Close,
        ("checkAndPut", 1) => {
            table.answer(seen);
            Reply::Silence
        }
        _ => table.answer(seen),
    });
    let options = HbaseOptions {
        gateways: fake::options(),
        // More than the time to read rows behind the first try.
        deadline: Duration::from_secs(3),
        ..HbaseOptions::default()
    };
    let (_db, keyspace) = open(&fake, options);
    let outcomes = put(&keyspace, &keys(1));
    assert!(outcomes[0].is_ok(), "{:?}", outcomes[0]);
    assert_eq!(fake.count("checkAndPut"), 2);
}

/// Whether a call reads no more than headers, as writes of plain values begin with.
fn reads_headers(seen: &Seen) -> bool {
    // The second field of a column is its qualifier.
    seen.method == "getMultiple" && has(seen, b"\x0b\0\x02\0\0\0\x01h")
}

/// Another writer is quicker with all rows. What their headers are by then nobody says: the time of
/// all writes is over with the first of them.
#[test]
fn writes_that_are_overtaken_together_have_one_deadline() {
    let table = Arc::new(Table::reliable());
    let others = Arc::clone(&table);
    let other = Fake::start(move |seen| others.answer(seen));
    let (_other_db, quicker) = open(&other, within(LONG));
    let all = keys(3 * SENT_TOGETHER);
    let (overtaken, overtakes, reads) = (all.clone(), Once::new(), AtomicUsize::new(0));
    let fake = Fake::start(move |seen| {
        if seen.method == "checkAndPut" {
            overtakes.call_once(|| {
                assert!(put(&quicker, &overtaken).iter().all(Result::is_ok));
            });
        }
        match reads_headers(seen) && reads.fetch_add(1, Ordering::SeqCst) > 0 {
            true => Reply::Silence,
            false => table.answer(seen),
        }
    });
    let (_db, keyspace) = open(&fake, within(Duration::from_secs(2)));
    let outcomes = put(&keyspace, &all);
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    let seen = fake.seen();
    let reads = seen.iter().filter(|seen| reads_headers(seen)).count();
    assert!(reads < all.len(), "{reads} reads");
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_millis() as u64
}

/// As a delayed `flush_all` is, whose time is that when it was due.
#[test]
fn a_removal_that_is_made_again_leaves_what_was_stored_since_its_time() {
    let (table, fails) = (Table::reliable(), Arc::new(AtomicBool::new(true)));
    let refuses = Arc::clone(&fails);
    let fake = Fake::start(move |seen| {
        let is_third = seen.method == "checkAndMutate" && has(seen, b"row-000002");
        match is_third && refuses.load(Ordering::SeqCst) {
            true => Reply::IoError("not now", Some(false)),
            false => table.answer(seen),
        }
    });
    let options = within(LONG);
    let (db, keyspace) = open(&fake, options);
    let all = keys(3);
    assert!(put(&keyspace, &all).iter().all(Result::is_ok));
    let due_ms = now_ms();
    await_that("another millisecond", || now_ms() > due_ms);
    let remove = || db.clear_keyspace_until("rows", due_ms, &WriteOptions::default(), || ());
    let removed = remove();
    assert!(
        matches!(removed, Err(Error::OutcomeUnknown(_))),
        "{removed:?}"
    );
    assert!(put(&keyspace, &all[..1]).iter().all(Result::is_ok));
    fails.store(false, Ordering::SeqCst);
    let removed = remove();
    assert!(removed.is_ok(), "{removed:?}");
    let is_there = |key: &Vec<u8>| keyspace.read(key, |_| ()).expect("an answer").is_some();
    let are_there: Vec<bool> = all.iter().map(is_there).collect();
    assert_eq!(are_there, [true, false, false]);
}

/// They are sent one behind the other, as each replaces the one before it.
#[test]
fn writes_of_one_row_have_one_deadline_where_nobody_answers() {
    let table = Table::reliable();
    let fake = Fake::start(move |seen| match seen.method.as_str() {
        "get" | "getMultiple" => Reply::Silence,
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(Duration::from_secs(2)));
    let row = b"row".to_vec();
    let outcomes = put(&keyspace, &[row.clone(), row.clone(), row]);
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert_eq!(fake.count("getMultiple"), 1);
}

/// The region of the keys that begin with `away`.
fn away_region() -> THRegionLocation {
    THRegionLocation {
        server_name: TServerName {
            host_name: "host".to_owned(),
            port: None,
            start_code: None,
        },
        region_info: THRegionInfo {
            region_id: 1,
            table_name: b"test:rows".to_vec(),
            start_key: Some(b"away".to_vec()),
            end_key: Some(b"away~".to_vec()),
            offline: None,
            split: None,
            replica_id: None,
        },
    }
}

/// No reader of the region that is away has an answer before all others have theirs.
#[test]
fn readers_of_a_region_that_is_away_hold_up_no_others() {
    let (table, gate) = (Table::reliable(), Arc::new(Gate::default()));
    let closed = Arc::clone(&gate);
    let fake = Fake::start(move |seen| match seen.method.as_str() {
        "getRegionLocation" => Reply::Location(away_region()),
        "get" | "getMultiple" if has(seen, b"away") => {
            Reply::Behind(Arc::clone(&closed), Box::new(table.answer(seen)))
        }
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(10 * LONG));
    std::thread::scope(|scope| {
        let keyspace = &keyspace;
        let read_away = |nth: usize| {
            let key = format!("away-{nth}").into_bytes();
            scope.spawn(move || keyspace.read(&key, |_| ()).is_ok())
        };
        let mut away: Vec<_> = (0..8).map(read_away).collect();
        // As many as ask alone at once.
        await_that("reads of rows alone", || fake.count("get") >= 4);
        for nth in 0..10 {
            away.extend((0..3).map(|other| read_away(8 + 3 * nth + other)));
            let read = keyspace.read(b"here", |_| ());
            assert!(matches!(read, Ok(None)), "{read:?}");
        }
        let are_waiting = away.iter().all(|reader| !reader.is_finished());
        gate.open();
        assert!(are_waiting, "a row was read as others had failed");
        for reader in away {
            assert!(reader.join().expect("no panic"));
        }
    });
}

/// Of several clients, whose puts the server sends together.
#[test]
fn puts_of_a_region_that_is_away_fail_no_others() {
    let table = Table::reliable();
    let fake = Fake::start(move |seen| match seen.method.as_str() {
        "getRegionLocation" => Reply::Location(away_region()),
        "get" | "getMultiple" if has(seen, b"away") => {
            Reply::IoError("the region is not online", Some(true))
        }
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(LONG));
    let keys = ["away-1", "here-1", "away-2", "here-2"].map(|key| key.as_bytes().to_vec());
    let outcomes = put(&keyspace, &keys);
    let are_stored: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(are_stored, [false, true, false, true], "{outcomes:?}");
    for (key, is_stored) in keys.iter().zip(are_stored) {
        if is_stored {
            let read = keyspace.read(key, |_| ());
            assert!(matches!(read, Ok(Some(()))), "{read:?}");
        }
    }
}

/// Of several clients, whose `GET`s the server sends together.
#[test]
fn gets_of_a_region_that_is_away_fail_no_others() {
    let (table, is_away) = (Table::reliable(), Arc::new(AtomicBool::new(false)));
    let away = Arc::clone(&is_away);
    let fake = Fake::start(move |seen| match seen.method.as_str() {
        "getRegionLocation" => Reply::Location(away_region()),
        "get" | "getMultiple" if has(seen, b"away") && away.load(Ordering::SeqCst) => {
            Reply::IoError("the region is not online", Some(true))
        }
        _ => table.answer(seen),
    });
    let (_db, keyspace) = open(&fake, within(Duration::from_secs(5)));
    // More than a call asks for; one of them comes twice, and one is not there.
    let mut all = keys(100);
    for nth in [0, 20, 99] {
        all.insert(nth, format!("away-{nth}").into_bytes());
    }
    assert!(put(&keyspace, &all).iter().all(Result::is_ok));
    all.push(all[0].clone());
    all.push(b"not there".to_vec());
    is_away.store(true, Ordering::SeqCst);
    let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let mut outcomes: Vec<Option<Result<bool, Error>>> = all.iter().map(|_| None).collect();
    let mut is_one_away = false;
    keyspace.get_each(&slices, |nth, outcome| {
        // Nobody waits for the region that is away.
        assert!(outcome.is_err() || !is_one_away, "{nth} came behind it");
        is_one_away |= outcome.is_err();
        let before = outcomes[nth].replace(outcome.map(|row| row.is_some()));
        assert!(before.is_none(), "{nth} came twice");
    });
    for (key, outcome) in all.iter().zip(outcomes) {
        let outcome = outcome.expect("an outcome for each key");
        match key.starts_with(b"away") {
            true => assert!(matches!(outcome, Err(Error::Backend(_))), "{outcome:?}"),
            false => assert_eq!(
                outcome.expect("a region that is there"),
                key != b"not there"
            ),
        }
    }
}

#[test]
fn headers_of_long_keys_are_read_in_calls_that_gateways_take() {
    let table = Table::reliable();
    let gateways = fake::options();
    let limit = gateways.request_limit_bytes;
    let fake = Fake::with_frame_limit(limit, move |seen| table.answer(seen));
    let options = HbaseOptions {
        gateways,
        deadline: LONG,
        ..HbaseOptions::default()
    };
    let (_db, keyspace) = open(&fake, options);
    // Some 3 MiB, in as many rows as are put together.
    let long = keys(1024).into_iter().map(|key| key.repeat(300));
    let outcomes = put(&keyspace, &Vec::from_iter(long));
    assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes[0]);
    assert!(fake.count("getMultiple") > 1);
}
