//! The checkers are checked: right histories pass, each kind of broken one is rejected.

use std::ops::Bound;

use hedgerow_index::Direction;
use hedgerow_testkit::history::linearizability::check_key;
use hedgerow_testkit::history::{Action, Clock, Operation, ScanBound, ThreadHistory, check};
use proptest::prelude::*;

fn op(called: u64, returned: u64, action: Action) -> Operation {
    let returned_ns = (returned != u64::MAX).then_some(returned);
    Operation {
        key: 0,
        thread: 0,
        called_ns: called,
        returned_ns,
        action,
    }
}
fn get(called: u64, returned: u64, found: Option<u64>) -> Operation {
    op(called, returned, Action::Get { found })
}
fn put(called: u64, returned: u64, value: u64) -> Operation {
    op(called, returned, Action::Put { value })
}
fn remove(called: u64, returned: u64, existed: Option<bool>) -> Operation {
    op(called, returned, Action::Remove { existed })
}
const NEVER: u64 = u64::MAX;

fn accepted(operations: &[Operation]) {
    check_key(None, operations.to_vec()).expect("this history is linearizable");
}
fn rejected(operations: &[Operation]) {
    let violation = check_key(None, operations.to_vec()).expect_err("this history is broken");
    assert!(
        violation.to_string().contains("not linearizable"),
        "{violation}"
    );
}

#[test]
fn sequential_histories() {
    accepted(&[
        get(0, 1, None),
        put(2, 3, 7),
        get(4, 5, Some(7)),
        remove(6, 7, Some(true)),
    ]);
    rejected(&[put(0, 1, 7), get(2, 3, None)]);
    rejected(&[put(0, 1, 7), remove(2, 3, Some(false))]);
    rejected(&[remove(0, 1, Some(true))]);
    rejected(&[get(0, 1, Some(3))]);
}

#[test]
fn a_stale_read_is_rejected_and_an_overlapping_one_is_not() {
    accepted(&[put(0, 1, 1), put(2, 5, 2), get(3, 4, Some(1))]);
    accepted(&[put(0, 1, 1), put(2, 5, 2), get(3, 4, Some(2))]);
    rejected(&[put(0, 1, 1), put(2, 5, 2), get(6, 7, Some(1))]);
    // Once seen, the new value may not disappear again although the put still runs.
    rejected(&[
        put(0, 1, 1),
        put(2, 9, 2),
        get(3, 4, Some(2)),
        get(5, 6, Some(1)),
    ]);
}

#[test]
fn a_lost_update_is_rejected() {
    let update = |called, returned, found, new| {
        op(
            called,
            returned,
            Action::Update {
                found,
                new: Some(new),
            },
        )
    };
    accepted(&[update(0, 9, None, 1), update(1, 8, Some(1), 2)]);
    rejected(&[update(0, 9, None, 1), update(1, 8, None, 2)]);
    rejected(&[put(0, 1, 1), put(2, 3, 2), get(4, 5, Some(1))]);
}

#[test]
fn compare_and_swap_answers_are_checked() {
    let cas = |called, returned, expected, new, succeeded| {
        let succeeded = Some(succeeded);
        op(
            called,
            returned,
            Action::CompareAndSwap {
                expected,
                new: Some(new),
                succeeded,
            },
        )
    };
    accepted(&[cas(0, 5, None, 1, true), cas(1, 6, None, 2, false)]);
    rejected(&[cas(0, 5, None, 1, true), cas(1, 6, None, 2, true)]);
    rejected(&[cas(0, 5, None, 1, false)]);
}

#[test]
fn an_unanswered_write_may_take_effect_late_or_never() {
    accepted(&[put(0, NEVER, 1), get(5, 6, None), get(7, 8, Some(1))]);
    accepted(&[put(0, NEVER, 1), get(5, 6, None), get(7, 8, None)]);
    rejected(&[put(0, NEVER, 1), get(5, 6, Some(1)), get(7, 8, None)]);
    accepted(&[
        put(0, 1, 1),
        remove(2, NEVER, None),
        get(5, 6, Some(1)),
        get(7, 8, None),
    ]);
}

#[test]
fn a_write_that_changes_nothing_yet_may_take_effect_later() {
    let later = |write: Operation, found: Option<u64>| {
        vec![write, get(1, 2, None), put(3, 4, 1), get(5, 6, found)]
    };
    accepted(&later(remove(0, NEVER, None), None));
    let cas = |expected, new| Action::CompareAndSwap {
        expected,
        new,
        succeeded: None,
    };
    accepted(&later(op(0, NEVER, cas(Some(1), Some(2))), Some(2)));
    rejected(&later(op(0, NEVER, cas(Some(3), Some(2))), Some(2)));
    // Two writes of one value.
    let running = put(2, 9, 1);
    accepted(&[put(0, 1, 1), running, put(3, 4, 2), get(5, 6, Some(1))]);
    let ended = put(2, 3, 1);
    rejected(&[put(0, 1, 1), ended, put(4, 5, 2), get(6, 7, Some(1))]);
    // A removal that found nothing changes nothing, however late.
    let found_nothing = remove(0, 9, Some(false));
    rejected(&later(found_nothing, None));
}

#[test]
fn equal_timestamps_overlap() {
    accepted(&[put(0, 5, 1), get(5, 6, None)]);
    rejected(&[put(0, 5, 1), get(6, 6, None)]);
}

/// An operation of a simulated history.
#[derive(Debug, Clone)]
struct Step {
    kind: u8,
    /// Nanoseconds between its call and its effect, and between that and its return.
    before_ns: u64,
    after_ns: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let parts = (any::<u8>(), 0..60_u64, 0..60_u64);
    parts.prop_map(|(kind, before_ns, after_ns)| Step {
        kind,
        before_ns,
        after_ns,
    })
}

/// Runs puts, removes and gets at random instants inside random intervals: linearizable by
/// construction.
fn simulate(steps: &[Step]) -> Vec<Operation> {
    let mut state = None;
    let mut operations = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let instant = (i as u64 + 100) * 10;
        let (called, returned) = (instant - step.before_ns, instant + step.after_ns);
        operations.push(match step.kind % 3 {
            0 => {
                state = Some(i as u64);
                put(called, returned, i as u64)
            }
            1 => {
                let existed = state.take().is_some();
                remove(called, returned, Some(existed))
            }
            _ => get(called, returned, state),
        });
    }
    operations
}

proptest! {
    #[test]
    fn simulated_histories_are_accepted(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        let operations = simulate(&steps);
        prop_assert!(check_key(None, operations).is_ok());
    }

    /// Swap one read's answer for a value that was overwritten long before.
    #[test]
    fn simulated_histories_with_one_stale_read_are_rejected(
        steps in prop::collection::vec(step(), 60..120)
    ) {
        let mut operations = simulate(&steps);
        operations.insert(0, put(0, 1, u64::MAX));
        operations.insert(1, put(2, 3, 5_000));
        operations.push(get(5_000, 5_001, Some(u64::MAX)));
        prop_assert!(check_key(None, operations).is_err());
    }
}

fn table() -> Vec<Vec<u8>> {
    [&b""[..], b"a", b"b", b"c"].map(<[u8]>::to_vec).to_vec()
}

/// One thread put 10·i at key i of [`table`], then a scan saw `visited`.
fn scanned(bound: ScanBound, visited: &[(&[u8], u64)], reached_end: bool) -> Result<(), String> {
    let clock = Clock::start();
    let mut history = ThreadHistory::new(clock, 0);
    for key in 0..4 {
        history.record(key, || {
            (
                Action::Put {
                    value: 10 * key as u64,
                },
                (),
            )
        });
    }
    // The clock must tick between the puts and the scan, or they count as overlapping.
    let last = history
        .operations
        .last()
        .and_then(|op| op.returned_ns)
        .unwrap_or(0);
    while clock.now_ns() <= last {}
    let visited = visited
        .iter()
        .map(|(key, value)| (key.to_vec(), *value))
        .collect();
    history.record_scan(bound, || (visited, reached_end));
    check(&table(), &[history], |_| None).map_err(|violation| violation.to_string())
}

fn forward(from: Bound<&[u8]>) -> ScanBound {
    ScanBound {
        from: from.map(<[u8]>::to_vec),
        direction: Direction::Forward,
    }
}

#[test]
fn scans_are_ordered_bounded_and_complete() {
    let all = forward(Bound::Unbounded);
    scanned(
        all.clone(),
        &[(b"", 0), (b"a", 10), (b"b", 20), (b"c", 30)],
        true,
    )
    .unwrap();
    scanned(all.clone(), &[(b"", 0), (b"a", 10)], false).unwrap();
    let reverse = ScanBound {
        from: Bound::Included(b"b".to_vec()),
        direction: Direction::Reverse,
    };
    scanned(reverse.clone(), &[(b"b", 20), (b"a", 10)], false).unwrap();

    let broken = |bound: &ScanBound, visited: &[(&[u8], u64)], reached_end, says: &str| {
        let violation = scanned(bound.clone(), visited, reached_end).expect_err(says);
        assert!(violation.contains(says), "{violation}");
    };
    broken(
        &all,
        &[(b"", 0), (b"b", 20), (b"a", 10)],
        false,
        "out of order",
    );
    broken(
        &all,
        &[(b"", 0), (b"a", 10), (b"a", 10)],
        false,
        "visited twice",
    );
    broken(&all, &[(b"", 0), (b"b", 20)], false, "not linearizable");
    broken(
        &all,
        &[(b"", 0), (b"a", 10), (b"b", 20)],
        true,
        "not linearizable",
    );
    broken(&all, &[(b"", 0), (b"a", 30)], false, "not linearizable");
    broken(&all, &[(b"", 0), (b"aa", 30)], false, "nobody ever wrote");
    broken(
        &forward(Bound::Excluded(b"a")),
        &[(b"a", 10)],
        false,
        "outside its bound",
    );
    broken(&reverse, &[(b"c", 30)], false, "outside its bound");
}
