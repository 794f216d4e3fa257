//! Connections: how many, which, how long.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_hbase::{Error, Gateways, Options, cells};

use crate::fake::{
    Fake, Gate, HANDSHAKE, LONG, Reply, await_that, closed_port, gateways, gateways_at, options,
    row, rows,
};

fn get(gateways: &Gateways) -> hedgerow_hbase::Result<hedgerow_hbase::thrift2::TResult> {
    gateways.within(LONG).get(&rows(), &cells::get(b"r"))
}

fn answering() -> Fake {
    Fake::start(|_| Reply::Row(row(b"r", b"v")))
}

/// A gateway whose answers wait for a gate.
fn gated() -> (Fake, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let waited_for = Arc::clone(&gate);
    let fake = Fake::start(move |_| {
        let answer = Reply::Row(row(b"r", b"v"));
        Reply::Behind(Arc::clone(&waited_for), Box::new(answer))
    });
    (fake, gate)
}

#[test]
fn callers_wait_for_a_free_connection() {
    let (fake, gate) = gated();
    let options = Options {
        connections: 2,
        ..options()
    };
    let gateways = gateways(&[&fake], options);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..6).map(|_| scope.spawn(|| get(&gateways))).collect();
        await_that("two calls", || fake.count("get") == 2);
        let hurried = gateways.within(Duration::from_millis(20));
        let error = hurried.get(&rows(), &cells::get(b"r")).expect_err("busy");
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert!(error.to_string().contains("free connection"), "{error}");
        gate.open();
        for caller in callers {
            assert!(caller.join().expect("no panic").is_ok());
        }
    });
    assert_eq!((fake.count("get"), fake.most_busy()), (6, 2));
    let statistics = gateways.statistics();
    assert_eq!(statistics.connections_opened, 2);
    assert_eq!(statistics.gateways[0].open_connections, 2);
    assert_eq!(statistics.gateways[0].idle_connections, 2);
    assert_eq!((statistics.calls, statistics.failures), (7, 1));
}

#[test]
fn gateways_are_used_one_after_the_other() {
    let fakes = [answering(), answering(), answering()];
    let gateways = gateways(&fakes.each_ref(), options());
    for _ in 0..30 {
        assert!(get(&gateways).is_ok());
    }
    assert_eq!(fakes.each_ref().map(|fake| fake.count("get")), [10; 3]);
    assert_eq!(gateways.statistics().connections_opened, 3);
    assert_eq!(gateways.statistics().failovers, 0);
}

#[test]
fn a_busy_gateway_leaves_calls_to_others() {
    let (busy, gate) = gated();
    let free = answering();
    let options = Options {
        connections: 1,
        ..options()
    };
    let gateways = gateways(&[&busy, &free], options);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| get(&gateways));
        await_that("a call", || busy.count("get") == 1);
        for _ in 0..10 {
            assert!(get(&gateways).is_ok());
        }
        gate.open();
        assert!(waiting.join().expect("no panic").is_ok());
    });
    assert_eq!((busy.count("get"), free.count("get")), (1, 10));
}

#[test]
fn a_gateway_that_comes_back_is_used_again() {
    let first = answering();
    let second = answering();
    let gateways = gateways(&[&first, &second], options());
    assert!(get(&gateways).is_ok() && get(&gateways).is_ok());
    let address = first.address();
    drop(first);
    await_that("the gateway is down", || {
        assert!(get(&gateways).is_ok(), "the other one serves");
        !gateways.statistics().gateways[0].is_healthy
    });
    assert!(gateways.statistics().gateways[0].why.is_some());
    let again = Fake::restart(address, |_| Reply::Row(row(b"r", b"again")));
    await_that("the gateway is healthy", || {
        gateways.statistics().gateways[0].is_healthy
    });
    assert!(get(&gateways).is_ok() && get(&gateways).is_ok());
    assert!(again.count("get") >= 1);
    assert!(again.count(HANDSHAKE) >= 2, "a check, and a connection");
    assert_eq!(gateways.statistics().failures, 0);
}

#[test]
fn callers_wait_for_the_only_gateway_to_come_back() {
    let gone = answering();
    let address = gone.address();
    drop(gone);
    let gateways = gateways_at(&[address], options());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| get(&gateways));
        await_that("the gateway is down", || {
            !gateways.statistics().gateways[0].is_healthy
        });
        let _back = Fake::restart(address, |_| Reply::Row(row(b"r", b"back")));
        let answer = waiting.join().expect("no panic");
        assert_eq!(answer, Ok(row(b"r", b"back")));
    });
}

/// As a gateway does that was idle for too long for its own taste, or was restarted.
#[test]
fn a_connection_that_the_gateway_closed_is_not_used() {
    let fake = Fake::start(|_| Reply::ThenClose(Box::new(Reply::Row(row(b"r", b"v")))));
    let gateways = gateways(&[&fake], options());
    let increment = cells::increment(b"r", b"f", b"q", 1);
    for nth in 1..=3 {
        let added = gateways.within(LONG).increment(&rows(), &increment);
        assert_eq!(added, Ok(row(b"r", b"v")));
        fake.await_ended(nth);
    }
    assert_eq!(fake.count("increment"), 3);
    let statistics = gateways.statistics();
    assert_eq!((statistics.retries, statistics.connections_opened), (0, 3));
    assert_eq!(statistics.gateways[0].failures, 0);
}

/// It broke only when it was used: that says nothing about the gateway.
#[test]
fn a_used_connection_that_breaks_takes_no_gateway_out_of_use() {
    let fake = Fake::start(|seen| match seen.nth {
        1 => Reply::Close,
        _ => Reply::Row(row(b"r", b"v")),
    });
    let gateways = gateways(&[&fake], options());
    assert!(get(&gateways).is_ok() && get(&gateways).is_ok());
    assert_eq!(fake.count("get"), 3);
    assert_eq!(gateways.statistics().gateways[0].failures, 0);
}

#[test]
fn few_connections_stay_open_unused() {
    let (fake, gate) = gated();
    let options = Options {
        idle_connections: 1,
        ..options()
    };
    let gateways = gateways(&[&fake], options);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(|| get(&gateways))).collect();
        await_that("four calls", || fake.count("get") == 4);
        gate.open();
        for caller in callers {
            assert!(caller.join().expect("no panic").is_ok());
        }
    });
    let gateway = &gateways.statistics().gateways[0];
    assert_eq!((gateway.open_connections, gateway.idle_connections), (1, 1));
    fake.await_ended(3);
    drop(gateways);
    fake.await_ended(4);
}

#[test]
fn unused_connections_are_closed_after_a_while() {
    let fake = answering();
    let options = Options {
        idle_timeout: Duration::from_millis(20),
        ..options()
    };
    let gateways = gateways(&[&fake], options);
    assert!(get(&gateways).is_ok());
    fake.await_ended(1);
    await_that("no open connection", || {
        gateways.statistics().gateways[0].open_connections == 0
    });
    assert!(get(&gateways).is_ok());
}

#[test]
fn a_scan_stays_with_its_gateway() {
    let script = |seen: &crate::fake::Seen| match (seen.method.as_str(), seen.nth) {
        ("openScanner", _) => Reply::Integer(7),
        ("getScannerRows", 0) => Reply::Rows(vec![row(b"r", b"v")]),
        ("getScannerRows", _) => Reply::Close,
        _ => Reply::Void,
    };
    let fakes = [Fake::start(script), Fake::start(script)];
    let gateways = gateways(&fakes.each_ref(), options());
    let calls = gateways.within(LONG);
    let scanner = calls.open_scanner(&rows(), &cells::scan(None, None));
    let scanner = scanner.expect("a scanner");
    let page = calls.scanner_rows(&scanner, 10);
    assert_eq!(page, Ok(vec![row(b"r", b"v")]));
    let lost = calls.scanner_rows(&scanner, 10).expect_err("no answer");
    assert!(!lost.is_unknown(), "nothing was written: {lost}");
    assert_eq!(calls.close_scanner(scanner), Ok(()));
    let counts = fakes.each_ref().map(|fake| fake.seen().len());
    assert_eq!(counts, [4, 0]);
}

#[test]
fn a_name_without_an_address_is_a_gateway_that_is_down() {
    let url = "hbase://no-such-host.invalid:9090/test".parse();
    let gateways = Gateways::new(&url.expect("a URL"), options()).expect("a thread");
    let calls = gateways.within(Duration::from_millis(50));
    let error = calls.cluster_id().expect_err("no host");
    assert!(
        error.to_string().contains("no-such-host.invalid:9090"),
        "{error}"
    );
}

#[test]
fn a_gateway_that_refuses_connections_is_tried_ever_more_rarely() {
    let gateways = gateways_at(&[closed_port()], options());
    let calls = gateways.within(Duration::from_millis(100));
    assert!(calls.cluster_id().is_err());
    let gateway = &gateways.statistics().gateways[0];
    assert!(gateway.failures >= 2 && !gateway.is_healthy);
    let why = gateway.why.as_deref().unwrap_or_default();
    assert!(why.contains("refused"), "{why}");
    assert_eq!(gateways.statistics().connections_opened, 0);
}

#[test]
fn nonsense_options_are_refused() {
    let url = "hbase://localhost:9090/test".parse().expect("a URL");
    let options = Options {
        connections: 0,
        ..Options::default()
    };
    assert!(matches!(
        Gateways::new(&url, options),
        Err(Error::InvalidOption(_))
    ));
}
