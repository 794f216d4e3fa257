//! What is sent again, and what is not: the gateways count.

use std::time::{Duration, Instant};

use hedgerow_hbase::thrift2::TResult;
use hedgerow_hbase::{Error, Origin, Repeat, cells};
use thrift::ApplicationErrorKind;

use crate::fake::{Fake, LONG, Reply, closed_port, gateways, gateways_at, options, row, rows};

fn put() -> hedgerow_hbase::thrift2::TPut {
    cells::put(b"r", vec![cells::column_value(b"f", b"q", b"v")])
}

fn increment() -> hedgerow_hbase::thrift2::TIncrement {
    cells::increment(b"r", b"f", b"q", 1)
}

#[test]
fn a_read_goes_to_another_gateway_when_one_closes_the_connection() {
    let bad = Fake::start(|_| Reply::Close);
    let good = Fake::start(|_| Reply::Row(row(b"r", b"v")));
    let gateways = gateways(&[&bad, &good], options());
    let read = gateways.within(LONG).get(&rows(), &cells::get(b"r"));
    assert_eq!(read, Ok(row(b"r", b"v")));
    assert_eq!((bad.count("get"), good.count("get")), (1, 1));
    let statistics = gateways.statistics();
    assert_eq!((statistics.calls, statistics.failures), (1, 0));
    assert_eq!((statistics.retries, statistics.failovers), (1, 1));
    assert_eq!(statistics.gateways[0].failures, 1);
}

#[test]
fn a_read_ends_after_so_many_attempts() {
    let bad = Fake::start(|_| Reply::Close);
    let gateways = gateways(&[&bad], options());
    let read = gateways.within(LONG).get(&rows(), &cells::get(b"r"));
    let error = read.expect_err("no answer");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
    assert_eq!(bad.count("get"), 3);
}

#[test]
fn an_increment_that_arrived_is_never_sent_twice() {
    let bad = Fake::start(|_| Reply::Close);
    let good = Fake::start(|_| Reply::Row(row(b"r", b"v")));
    let gateways = gateways(&[&bad, &good], options());
    let error = gateways
        .within(LONG)
        .increment(&rows(), &increment())
        .expect_err("no answer");
    assert!(error.is_unknown(), "{error}");
    assert_eq!((bad.count("increment"), good.count("increment")), (1, 0));
    assert_eq!(gateways.statistics().unknown_outcomes, 1);
}

#[test]
fn an_append_without_an_answer_is_unknown_at_its_deadline() {
    let silent = Fake::start(|_| Reply::Silence);
    let gateways = gateways(&[&silent], options());
    let begun = Instant::now();
    let append = cells::append(b"r", vec![cells::column_value(b"f", b"q", b"v")]);
    let calls = gateways.within(Duration::from_millis(50));
    let error = calls.append(&rows(), &append).expect_err("no answer");
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("waited"), "{error}");
    assert!(begun.elapsed() < LONG);
    assert_eq!(silent.count("append"), 1);
}

#[test]
fn an_increment_that_reached_nobody_is_sent_elsewhere() {
    let good = Fake::start(|_| Reply::Row(row(b"r", b"v")));
    let gateways = gateways_at(&[closed_port(), good.address()], options());
    for _ in 0..4 {
        let added = gateways.within(LONG).increment(&rows(), &increment());
        assert_eq!(added, Ok(row(b"r", b"v")));
    }
    assert_eq!(good.count("increment"), 4);
    assert!(!gateways.statistics().gateways[0].is_healthy);
}

/// The gateway closes the connection at the length, as it does over its limit: the operating system
/// cannot take the rest of the frame, and so the call was not executed.
#[test]
fn an_append_whose_frame_was_not_taken_whole_is_sent_elsewhere() {
    let narrow = Fake::with_frame_limit(1 << 20, |_| Reply::Row(row(b"r", b"narrow")));
    let wide = Fake::start(|_| Reply::Row(row(b"r", b"wide")));
    let mut options = options();
    options.request_limit_bytes = 256 << 20;
    let gateways = gateways(&[&narrow, &wide], options);
    // More than the buffers of both sockets take.
    let value = vec![0; 64 << 20];
    let append = cells::append(b"r", vec![cells::column_value(b"f", b"q", &value)]);
    let appended = gateways.within(LONG).append(&rows(), &append);
    assert_eq!(appended, Ok(row(b"r", b"wide")));
    assert_eq!((narrow.count("append"), wide.count("append")), (0, 1));
}

#[test]
fn a_call_that_nobody_takes_is_late_and_not_unknown() {
    let gateways = gateways_at(&[closed_port()], options());
    let calls = gateways.within(Duration::from_millis(50));
    let error = calls.increment(&rows(), &increment()).expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let again = gateways.within(Duration::from_millis(50));
    let error = again.cluster_id().expect_err("nobody");
    assert!(error.to_string().contains("hbase thrift2 start"), "{error}");
}

#[test]
fn a_put_that_may_be_repeated_is() {
    let bad = Fake::start(|seen| match seen.nth {
        0 => Reply::Close,
        _ => Reply::Void,
    });
    let gateways = gateways(&[&bad], options());
    let put = gateways.within(LONG).put(&rows(), &put(), Repeat::Freely);
    assert_eq!(put, Ok(()));
    assert_eq!(bad.count("put"), 2);
}

#[test]
fn a_put_that_may_not_be_repeated_is_not() {
    let bad = Fake::start(|_| Reply::Close);
    let gateways = gateways(&[&bad], options());
    let calls = gateways.within(LONG);
    let error = calls
        .put(&rows(), &put(), Repeat::OnlyIfUnsent)
        .expect_err("no answer");
    assert!(error.is_unknown(), "{error}");
    assert_eq!(bad.count("put"), 1);
}

#[test]
fn a_read_that_hbase_refuses_for_now_is_repeated() {
    let busy = Fake::start(|seen| match seen.nth {
        0 | 1 => Reply::IoError(
            "org.apache.hadoop.hbase.RegionTooBusyException: r",
            Some(true),
        ),
        _ => Reply::Row(row(b"r", b"v")),
    });
    let gateways = gateways(&[&busy], options());
    let get = || gateways.within(LONG).get(&rows(), &cells::get(b"r"));
    assert_eq!(get(), Ok(row(b"r", b"v")));
    assert_eq!(busy.count("get"), 3);
    assert_eq!(gateways.statistics().gateways[0].failures, 0);
}

#[test]
fn a_refusal_for_good_is_not_repeated() {
    let message = "org.apache.hadoop.hbase.TableNotFoundException: test:rows\n\tat a.B.c(B.java:1)";
    let sure = Fake::start(move |_| Reply::IoError(message, Some(false)));
    let gateways = gateways(&[&sure], options());
    let calls = gateways.within(LONG);
    let read = calls.get(&rows(), &cells::get(b"r")).expect_err("refused");
    let write = calls.put(&rows(), &put(), Repeat::Freely);
    let write = write.expect_err("refused");
    let once = calls.increment(&rows(), &increment()).expect_err("refused");
    for error in [read, write, once] {
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let refusal = error.refusal().expect("HBase said so");
        assert!(refusal.is("TableNotFoundException"), "{refusal}");
        assert!(!error.to_string().contains("B.java"), "{error}");
    }
    let counts = ["get", "put", "increment"].map(|method| sure.count(method));
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(gateways.statistics().failures, 3);
}

/// HBase's client in the gateway may have run out of time after the write was applied.
#[test]
fn a_write_that_hbase_refuses_for_now_may_have_been_applied() {
    let message = "Failed after attempts=2, exceptions:\norg.apache.hadoop.hbase.ipc.\
                   CallTimeoutException: 1 s";
    let busy = Fake::start(move |_| Reply::IoError(message, Some(true)));
    let gateways = gateways(&[&busy], options());
    let calls = gateways.within(LONG);
    let write = calls.put(&rows(), &put(), Repeat::Freely);
    let once = calls.increment(&rows(), &increment()).map(|_| ());
    for result in [write, once] {
        let error = result.expect_err("refused");
        assert!(error.is_unknown(), "{error}");
        let refusal = error.refusal().expect("HBase said so");
        assert!(refusal.is("CallTimeoutException"), "{refusal}");
    }
    assert_eq!((busy.count("put"), busy.count("increment")), (3, 1));
}

#[test]
fn a_put_that_was_lost_and_then_refused_may_have_been_applied() {
    let fake = Fake::start(|seen| match seen.nth {
        0 => Reply::Close,
        _ => Reply::IoError("gone", Some(false)),
    });
    let gateways = gateways(&[&fake], options());
    let put = gateways.within(LONG).put(&rows(), &put(), Repeat::Freely);
    assert!(put.expect_err("refused").is_unknown());
    assert_eq!(fake.count("put"), 2);
}

#[test]
fn a_refused_batch_may_have_been_written_in_part() {
    let fake = Fake::start(|_| Reply::IoError("no such family", Some(false)));
    let gateways = gateways(&[&fake], options());
    let calls = gateways.within(LONG);
    let puts = calls.put_multiple(&rows(), &[put(), put()], Repeat::Freely);
    let deletes = [cells::delete_row(b"r")];
    let deletes = calls.delete_multiple(&rows(), &deletes, Repeat::OnlyIfUnsent);
    for result in [puts, deletes] {
        let error = result.expect_err("refused");
        assert!(error.is_unknown() && error.refusal().is_some(), "{error}");
    }
    assert_eq!(fake.seen().len(), 2);
    let empty = calls.put_multiple(&rows(), &[], Repeat::Freely);
    assert_eq!(empty, Ok(()));
    assert_eq!(fake.seen().len(), 2);
}

#[test]
fn an_internal_error_of_a_gateway_is_not_repeated() {
    let message = "Internal error processing get";
    let kind = ApplicationErrorKind::InternalError;
    let fake = Fake::start(move |_| Reply::Application(kind, message));
    let gateways = gateways(&[&fake], options());
    let calls = gateways.within(LONG);
    let read = calls.get(&rows(), &cells::get(b"r")).expect_err("refused");
    assert!(
        matches!(&read, Error::Refused { refusal, .. } if refusal.origin == Origin::Internal),
        "{read}"
    );
    let write = calls.put(&rows(), &put(), Repeat::Freely);
    assert!(write.expect_err("refused").is_unknown());
    assert_eq!(fake.seen().len(), 2);
}

#[test]
fn an_unknown_method_was_not_executed() {
    let kind = ApplicationErrorKind::UnknownMethod;
    let fake = Fake::start(move |_| Reply::Application(kind, "Invalid method name: 'increment'"));
    let gateways = gateways(&[&fake], options());
    let error = gateways
        .within(LONG)
        .increment(&rows(), &increment())
        .expect_err("refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[test]
fn a_silent_gateway_is_left_for_another_one() {
    let silent = Fake::start(|_| Reply::Silence);
    let good = Fake::start(|_| Reply::Row(row(b"r", b"v")));
    let mut options = options();
    options.attempt_timeout = Duration::from_millis(50);
    let gateways = gateways(&[&silent, &good], options);
    let read = gateways.within(LONG).get(&rows(), &cells::get(b"r"));
    assert_eq!(read, Ok(row(b"r", b"v")));
    assert_eq!((silent.count("get"), good.count("get")), (1, 1));
    assert_eq!(gateways.statistics().gateways[0].failures, 1);
}

#[test]
fn a_caller_in_a_hurry_takes_no_gateway_out_of_use() {
    let silent = Fake::start(|_| Reply::Silence);
    let gateways = gateways(&[&silent], options());
    let calls = gateways.within(Duration::from_millis(50));
    let error = calls.get(&rows(), &cells::get(b"r")).expect_err("late");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(gateways.statistics().gateways[0].is_healthy);
    // Nor does a deadline that has passed already.
    let late = gateways
        .until(Instant::now())
        .get(&rows(), &cells::get(b"r"));
    assert!(matches!(late, Err(Error::Deadline { .. })), "{late:?}");
    assert_eq!(silent.count("get"), 1);
}

#[test]
fn rows_in_another_number_than_asked_for_are_no_answer() {
    let fake = Fake::start(|_| Reply::Rows(vec![TResult::new(None, vec![], None, None)]));
    let gateways = gateways(&[&fake], options());
    let gets = [cells::get(b"a"), cells::get(b"b")];
    let calls = gateways.within(LONG);
    let error = calls.get_multiple(&rows(), &gets).expect_err("one row");
    assert!(error.to_string().contains("1 rows where 2"), "{error}");
    assert_eq!(
        calls.get_multiple(&rows(), &gets[..1]).map(|r| r.len()),
        Ok(1)
    );
    assert_eq!(calls.get_multiple(&rows(), &[]), Ok(vec![]));
}

#[test]
fn a_request_over_the_limit_is_not_sent() {
    let fake = Fake::start(|_| Reply::Void);
    let mut options = options();
    options.request_limit_bytes = 1000;
    let gateways = gateways(&[&fake], options);
    let long = cells::put(b"r", vec![cells::column_value(b"f", b"q", &[0; 1000])]);
    let calls = gateways.within(LONG);
    let error = calls.put(&rows(), &long, Repeat::Freely);
    assert!(
        matches!(error, Err(Error::RequestTooLong { .. })),
        "{error:?}"
    );
    assert_eq!(calls.put(&rows(), &put(), Repeat::Freely), Ok(()));
    assert_eq!(fake.count("put"), 1);
}
