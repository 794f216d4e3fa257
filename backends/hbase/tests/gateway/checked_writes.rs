//! Checked writes, one by one and many at once on a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_hbase::thrift2::TRowMutations;
use hedgerow_hbase::{Check, Error, Repeat, cells};

use crate::fake::{Fake, Gate, LONG, Reply, Seen, gateways, options, rows};

fn mutations(row: &[u8]) -> TRowMutations {
    let put = cells::put(row, vec![cells::column_value(b"f", b"q", b"new")]);
    let delete = cells::delete_columns(row, vec![cells::column(b"f", Some(b"other"))]);
    cells::row_mutations(row, vec![put], vec![delete])
}

fn check(row: &[u8]) -> Check<'_> {
    Check::equals(row, b"f", b"q", b"old")
}

/// So many rows with keys of their own.
fn keys(count: usize) -> Vec<Vec<u8>> {
    let keys = (0..count).map(|nth| format!("row-{nth:06}").into_bytes());
    keys.collect()
}

fn writes(keys: &[Vec<u8>]) -> Vec<(Check<'_>, TRowMutations)> {
    let writes = keys.iter().map(|key| (check(key), mutations(key)));
    writes.collect()
}

/// The number in the key of the row that a call is for.
fn nth_row(seen: &Seen) -> usize {
    let text = String::from_utf8_lossy(&seen.arguments).into_owned();
    let at = text.find("row-").expect("a key") + "row-".len();
    text[at..at + 6].parse().expect("a number")
}

#[test]
fn a_check_that_fails_after_a_lost_try_says_nothing() {
    for (second, expected) in [(true, Some(true)), (false, None)] {
        let fake = Fake::start(move |seen| match seen.nth {
            0 => Reply::Close,
            _ => Reply::Flag(second),
        });
        let gateways = gateways(&[&fake], options());
        let calls = gateways.within(LONG);
        let written =
            calls.check_and_mutate(&rows(), &check(b"r"), &mutations(b"r"), Repeat::Freely);
        assert_eq!(written.clone().ok(), expected, "{written:?}");
        assert!(written.is_ok() || written.is_err_and(|error| error.is_unknown()));
        assert_eq!(fake.count("checkAndMutate"), 2);
    }
}

#[test]
fn an_answer_that_was_not_lost_is_believed() {
    let fake = Fake::start(|seen| Reply::Flag(seen.nth.is_multiple_of(2)));
    let gateways = gateways(&[&fake], options());
    let calls = gateways.within(LONG);
    let table = rows();
    let put = cells::put(b"r", vec![cells::column_value(b"f", b"q", b"new")]);
    let delete = cells::delete_row(b"r");
    for held in [true, false] {
        for repeat in [Repeat::Freely, Repeat::OnlyIfUnsent] {
            let row = mutations(b"r");
            let _ = calls.check_and_mutate(&table, &check(b"r"), &row, repeat);
        }
        let absent = Check::absent(b"r", b"f", b"q");
        let written = calls.check_and_put(&table, &absent, &put, Repeat::OnlyIfUnsent);
        assert_eq!(written, Ok(held));
        let written = calls.check_and_delete(&table, &check(b"r"), &delete, Repeat::OnlyIfUnsent);
        assert_eq!(written, Ok(held));
    }
}

#[test]
fn many_are_answered_in_their_order_on_one_connection() {
    let fake = Fake::start(|seen| Reply::Flag(!nth_row(seen).is_multiple_of(3)));
    let gateways = gateways(&[&fake], options());
    let keys = keys(3000);
    let table = rows();
    let calls = gateways.within(LONG);
    let results = calls.check_and_mutate_many(&table, &writes(&keys), Repeat::OnlyIfUnsent);
    assert_eq!(results.len(), keys.len());
    for (nth, result) in results.into_iter().enumerate() {
        assert_eq!(result, Ok(nth % 3 != 0), "row {nth}");
    }
    let seen = fake.seen();
    let order: Vec<usize> = seen.iter().map(nth_row).collect();
    assert_eq!(order, Vec::from_iter(0..keys.len()));
    let first = seen[0].connection;
    assert!(seen.iter().all(|seen| seen.connection == first));
    assert_eq!(gateways.statistics().calls, 3000);
    let none =
        calls.check_and_mutate_many(&table, &[] as &[(Check<'_>, TRowMutations)], Repeat::Freely);
    assert!(none.is_empty());
}

/// The first answer waits for the last request that fits: they are under way at once.
#[test]
fn many_are_under_way_at_once() {
    let gate = Arc::new(Gate::default());
    let opened = Arc::clone(&gate);
    let fake = Fake::start(move |seen| match seen.nth {
        0 => Reply::Behind(Arc::clone(&gate), Box::new(Reply::Flag(true))),
        _ => Reply::Flag(true),
    });
    let gateways = gateways(&[&fake], options());
    let keys = keys(50);
    let results = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let calls = gateways.within(LONG);
            calls.check_and_mutate_many(&rows(), &writes(&keys), Repeat::OnlyIfUnsent)
        });
        crate::fake::await_that("the first request", || fake.count("checkAndMutate") == 1);
        opened.open();
        caller.join().expect("no panic")
    });
    assert!(results.iter().all(|result| *result == Ok(true)));
}

#[test]
fn of_many_only_those_that_arrived_unanswered_are_unknown() {
    let failing = Fake::start(|seen| match nth_row(seen) {
        7 => Reply::Close,
        _ => Reply::Flag(true),
    });
    let other = Fake::start(|_| Reply::Flag(true));
    let gateways = gateways(&[&failing, &other], options());
    // Some 200 KiB: not all of it is sent before the first answer.
    let keys = keys(2000);
    let calls = gateways.within(LONG);
    let results = calls.check_and_mutate_many(&rows(), &writes(&keys), Repeat::OnlyIfUnsent);
    let mut arrivals: BTreeMap<usize, usize> = BTreeMap::new();
    for seen in failing.seen().iter().chain(&other.seen()) {
        *arrivals.entry(nth_row(seen)).or_default() += 1;
    }
    assert!(arrivals.values().all(|count| *count == 1), "{arrivals:?}");
    for (nth, result) in results.iter().enumerate() {
        match result {
            Ok(written) => assert!(*written && arrivals.contains_key(&nth)),
            Err(error) => assert!(error.is_unknown() && nth >= 7, "{nth}: {error}"),
        }
    }
    assert!(results[7].is_err() && results[..7].iter().all(Result::is_ok));
    assert!(
        results[1999].is_ok(),
        "the last one was not sent with the seventh"
    );
}

#[test]
fn many_that_may_be_repeated_are() {
    let failing = Fake::start(|seen| match (nth_row(seen), seen.nth) {
        (7, 0..8) => Reply::Close,
        _ => Reply::Flag(true),
    });
    let gateways = gateways(&[&failing], options());
    let keys = keys(100);
    let calls = gateways.within(LONG);
    let results = calls.check_and_mutate_many(&rows(), &writes(&keys), Repeat::Freely);
    assert!(
        results.iter().all(|result| *result == Ok(true)),
        "{results:?}"
    );
}

#[test]
fn each_of_many_has_an_error_of_its_own() {
    let fake = Fake::start(|seen| match nth_row(seen) {
        1 => Reply::IoError("no such family", Some(false)),
        2 => Reply::Flag(false),
        _ => Reply::Flag(true),
    });
    let mut options = options();
    options.request_limit_bytes = 1000;
    let gateways = gateways(&[&fake], options);
    let keys = keys(5);
    let mut writes = writes(&keys);
    let long = cells::put(&keys[3], vec![cells::column_value(b"f", b"q", &[0; 1000])]);
    writes[3].1 = cells::row_mutations(&keys[3], vec![long], vec![]);
    let calls = gateways.within(LONG);
    let results = calls.check_and_mutate_many(&rows(), &writes, Repeat::OnlyIfUnsent);
    assert_eq!((&results[0], &results[2]), (&Ok(true), &Ok(false)));
    assert!(matches!(results[1], Err(Error::Refused { .. })));
    assert!(matches!(results[3], Err(Error::RequestTooLong { .. })));
    assert_eq!(results[4], Ok(true));
    assert_eq!(fake.count("checkAndMutate"), 4);
}
