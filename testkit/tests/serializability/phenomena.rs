//! Each phenomenon, found and named by just the levels that forbid it, and beside each the nearest
//! history that has none.

use hedgerow_testkit::serializability::{CycleKind, CycleOrder, Phenomenon, Value};

use crate::recordings::{
    ALL, FROM_SNAPSHOT, REAL_TIME, SERIALIZABLE, SESSIONS, allowed, cycle, forbidden_from, history,
    tx,
};

#[test]
fn g0_two_transactions_append_in_turns() {
    let reads = |one: &[u64], two: &[u64]| {
        let writers = [
            tx(0).append(1, 10).append(2, 20),
            tx(1).append(1, 11).append(2, 21),
        ];
        let [one_writer, other_writer] = writers;
        history([
            one_writer,
            other_writer,
            tx(2).list(1, one),
            tx(3).list(2, two),
        ])
    };
    allowed(&reads(&[10, 11], &[20, 21]));
    let found = forbidden_from(ALL, cycle(CycleKind::G0), &reads(&[10, 11], &[21, 20]));
    assert_eq!(found.transactions.len(), 2);
}

#[test]
fn g0_of_registers_is_found_by_timestamps() {
    // Two versions in the order of timestamps, and in each the later writer comes first.
    allowed(&history([
        tx(0).write(1, 10).write(2, 20).committed_as(1),
        tx(1).write(1, 11).write(2, 21).committed_as(2),
        tx(2).registers(0..9, &[(1, 11), (2, 21)]),
    ]));
    let late = history([
        tx(0).write(1, 10).committed_as(2).during(0, 10),
        tx(1).write(1, 11).committed_as(1).during(20, 30),
    ]);
    let against_time = Phenomenon::Cycle(CycleKind::G0, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, against_time, &late);
}

#[test]
fn g1a_reads_of_aborted_writes() {
    allowed(&history([tx(0).append(1, 10), tx(1).list(1, &[10])]));
    allowed(&history([
        tx(0).append(1, 10).aborted(),
        tx(1).list(1, &[]),
    ]));
    forbidden_from(
        ALL,
        Phenomenon::G1a,
        &history([tx(0).append(1, 10).aborted(), tx(1).list(1, &[10])]),
    );
    let in_the_middle = history([
        tx(0).append(1, 10).aborted(),
        tx(1).append(1, 11),
        tx(2).list(1, &[10, 11]),
    ]);
    forbidden_from(ALL, Phenomenon::G1a, &in_the_middle);
    forbidden_from(
        ALL,
        Phenomenon::G1a,
        &history([
            tx(0).write(1, 10).aborted(),
            tx(1).registers(0..5, &[(1, 10)]),
        ]),
    );
}

#[test]
fn g1b_reads_of_intermediate_writes() {
    let lists = |read: &[u64]| history([tx(0).append(1, 10).append(1, 11), tx(1).list(1, read)]);
    allowed(&lists(&[]));
    allowed(&lists(&[10, 11]));
    forbidden_from(ALL, Phenomenon::G1b, &lists(&[10]));
    let registers = |read| history([tx(0).write(1, 10).write(1, 11), tx(1).read(1, Some(read))]);
    allowed(&registers(11));
    let found = forbidden_from(ALL, Phenomenon::G1b, &registers(10));
    assert!(found.to_string().contains("followed with 11"), "{found}");
}

#[test]
fn g1c_two_transactions_read_each_other() {
    let of = |second: &[u64]| {
        history([
            tx(0).append(1, 10).list(2, &[20]),
            tx(1).append(2, 20).list(1, second),
        ])
    };
    allowed(&of(&[]));
    forbidden_from(ALL, cycle(CycleKind::G1c), &of(&[10]));
}

#[test]
fn g1c_with_an_append_that_nobody_reads() {
    // T1 appended to list 1 after T0, or T2 would have read it.
    let of = |two: &[u64]| {
        history([
            tx(0).append(1, 10).list(2, two),
            tx(1).append(2, 20).append(1, 11),
            tx(2).list(1, &[10]),
        ])
    };
    allowed(&of(&[]));
    forbidden_from(ALL, cycle(CycleKind::G1c), &of(&[20]));
}

#[test]
fn g_single_a_reader_sees_half_of_a_commit() {
    let of = |two: &[u64]| {
        history([
            tx(0).append(1, 10).append(2, 20),
            tx(1).list(1, &[10]).list(2, two),
            tx(2).list(2, &[20]),
        ])
    };
    allowed(&of(&[20]));
    let found = forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &of(&[]));
    let text = found.to_string();
    assert!(text.starts_with("G-single (read skew)"), "{text}");
    assert!(
        text.contains("T1 read list 0/2 empty, before T0 appended 20 to list 0/2 (rw)"),
        "{text}"
    );
    assert!(
        text.contains("T0 appended 10 to list 0/1, which T1 read (wr)"),
        "{text}"
    );
}

#[test]
fn g_single_a_range_read_sees_half_of_a_commit() {
    let of = |rows: &[(u64, u64)]| {
        history([
            tx(0).write(1, 10).write(2, 20).committed_as(1),
            tx(1).registers(0..9, rows),
        ])
    };
    allowed(&of(&[]));
    allowed(&of(&[(1, 10), (2, 20)]));
    let found = forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &of(&[(1, 10)]));
    let text = found.to_string();
    assert!(text.contains("in range 0/0..9, 0/2 absent"), "{text}");
}

#[test]
fn a_lost_update_is_read_skew_or_has_its_name() {
    let update = |process, element| tx(process).list(1, &[]).append(1, element);
    let lists = |last: &[u64]| history([update(0, 10), update(1, 11), tx(2).list(1, last)]);
    forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &lists(&[10, 11]));
    allowed(&history([
        update(0, 10),
        tx(1).list(1, &[10]).append(1, 11),
        tx(2).list(1, &[10, 11]),
    ]));
    // Nobody read the list afterwards.
    let unseen = |second: &[u64]| history([update(0, 10), tx(1).list(1, second).append(1, 11)]);
    allowed(&unseen(&[10]));
    forbidden_from(FROM_SNAPSHOT, Phenomenon::LostUpdate, &unseen(&[]));
    let registers = |read| {
        history([
            tx(0).read(1, None).write(1, 10),
            tx(1).read(1, read).write(1, 11),
        ])
    };
    allowed(&registers(Some(10)));
    forbidden_from(FROM_SNAPSHOT, Phenomenon::LostUpdate, &registers(None));
    let timed = history([
        tx(0).read(1, None).write(1, 10).committed_as(1),
        tx(1).read(1, None).write(1, 11).committed_as(2),
    ]);
    forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &timed);
}

#[test]
fn g_nonadjacent_long_fork() {
    // T2 sees T0 and not yet T1, T3 sees T1 and not yet T0: two snapshots that disagree.
    let of = |one: &[u64]| {
        history([
            tx(0).append(1, 10),
            tx(1).append(2, 20),
            tx(2).list(1, &[10]).list(2, &[]),
            tx(3).list(1, one).list(2, &[20]),
        ])
    };
    allowed(&of(&[10]));
    let found = forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GNonadjacent), &of(&[]));
    assert_eq!(found.transactions.len(), 4);
}

#[test]
fn g2_item_write_skew() {
    let of = |one: &[u64]| {
        history([
            tx(0).list(1, &[]).append(2, 20),
            tx(1).list(2, one).append(1, 10),
        ])
    };
    allowed(&of(&[20]));
    forbidden_from(SERIALIZABLE, cycle(CycleKind::G2Item), &of(&[]));
}

#[test]
fn g2_both_insert_where_the_other_found_nothing() {
    let of = |rows: &[(u64, u64)]| {
        history([
            tx(0).registers(0..5, &[]).write(12, 20).committed_as(1),
            tx(1).registers(10..15, rows).write(2, 10).committed_as(2),
        ])
    };
    allowed(&of(&[(12, 20)]));
    let found = forbidden_from(SERIALIZABLE, cycle(CycleKind::G2), &of(&[]));
    assert!(found.to_string().contains("(rw, phantom)"), "{found}");
    let lists = |rows: &[(u64, Value)]| {
        history([
            tx(0).range(0..5, &[]).append(12, 20),
            tx(1).range(10..15, rows).append(2, 10),
        ])
    };
    allowed(&lists(&[(12, Value::List(vec![20]))]));
    forbidden_from(SERIALIZABLE, cycle(CycleKind::G2), &lists(&[]));
}

#[test]
fn the_read_only_transaction_anomaly() {
    // Fekete, O'Neil, O'Neil, SIGMOD Record 2004: the two writers alone are serializable.
    let of = |savings: &[u64]| {
        history([
            tx(0).list(1, &[]).list(2, &[]).append(1, 10),
            tx(1).append(2, 20),
            tx(2).list(1, savings).list(2, &[20]),
            tx(3).list(1, &[10]),
        ])
    };
    allowed(&history([
        tx(0).list(1, &[]).list(2, &[]).append(1, 10),
        tx(1).append(2, 20),
        tx(2).list(1, &[]).list(2, &[20]).aborted(),
    ]));
    allowed(&of(&[10]));
    forbidden_from(SERIALIZABLE, cycle(CycleKind::G2Item), &of(&[]));
}

#[test]
fn a_stale_read_against_real_time() {
    let of = |begin, read: &[u64]| {
        history([
            tx(0).append(1, 10).during(0, 10),
            tx(1).list(1, read).during(begin, 30),
            tx(2).list(1, &[10]).during(40, 50),
        ])
    };
    allowed(&of(20, &[10]));
    allowed(&of(10, &[]));
    let stale = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::RealTime);
    let found = forbidden_from(REAL_TIME, stale, &of(20, &[]));
    let text = found.to_string();
    assert!(text.starts_with("G-single-realtime"), "{text}");
    assert!(
        text.contains("T0 ended at 10, before T1 began at 20 (real time)"),
        "{text}"
    );
}

#[test]
fn a_process_does_not_see_what_it_did() {
    let of = |process, read: &[u64]| {
        history([
            tx(0).append(1, 10).during(0, 10),
            tx(process).list(1, read).during(10, 20),
            tx(2).list(1, &[10]).during(0, 50),
        ])
    };
    allowed(&of(0, &[10]));
    allowed(&of(1, &[]));
    let own = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::Process);
    forbidden_from(SESSIONS, own, &of(0, &[]));
}

#[test]
fn g1c_against_real_time_a_read_of_the_future() {
    let of = |begin| {
        history([
            tx(0).list(1, &[10]).during(0, 10),
            tx(1).append(1, 10).during(begin, 30),
        ])
    };
    allowed(&of(10));
    let future = Phenomenon::Cycle(CycleKind::G1c, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, future, &of(11));
}

#[test]
fn a_transaction_sees_its_own_writes() {
    allowed(&history([
        tx(0).append(1, 10).committed_as(1),
        tx(1)
            .list(1, &[10])
            .append(1, 11)
            .list(1, &[10, 11])
            .write(2, 20)
            .read(2, Some(20))
            .remove(2)
            .registers(2..9, &[])
            .range(0..9, &[(1, Value::List(vec![10, 11]))])
            .committed_as(2),
    ]));
    let broken = [
        tx(0).append(1, 10).list(1, &[]),
        tx(0).append(1, 10).append(1, 11).list(1, &[10]),
        tx(0).write(1, 10).read(1, None),
        tx(0).write(1, 10).remove(1).read(1, Some(10)),
        tx(0).write(1, 10).registers(0..5, &[]),
        tx(0).write(1, 10).remove(1).registers(0..5, &[(1, 10)]),
        tx(0).append(1, 10).range(0..5, &[]),
        tx(0).read(1, Some(10)).write(1, 10),
    ];
    for made in broken {
        forbidden_from(ALL, Phenomenon::Internal, &history([made]));
    }
}

#[test]
fn ranges_are_ordered_whole_and_inside() {
    let of = |rows: &[(u64, u64)]| {
        history([
            tx(0).write(1, 10).write(2, 20).write(5, 50).committed_as(1),
            tx(1).registers(0..5, rows),
        ])
    };
    allowed(&of(&[(1, 10), (2, 20)]));
    for broken in [
        &[(2, 20), (1, 10)][..],
        &[(1, 10), (1, 10), (2, 20)],
        &[(1, 10), (2, 20), (5, 50)],
    ] {
        forbidden_from(ALL, Phenomenon::BrokenRange, &of(broken));
    }
}

#[test]
fn values_and_elements_that_are_not_what_was_written() {
    forbidden_from(
        ALL,
        Phenomenon::UnwrittenValue,
        &history([tx(0).write(1, 10).committed_as(1), tx(1).read(1, Some(11))]),
    );
    // The value was written to another key.
    forbidden_from(
        ALL,
        Phenomenon::UnwrittenValue,
        &history([tx(0).write(1, 10).committed_as(1), tx(1).read(2, Some(10))]),
    );
    let lists = |read: &[u64]| {
        history([
            tx(0).append(1, 10).append(1, 11),
            tx(1).append(1, 12),
            tx(2).list(1, read),
        ])
    };
    allowed(&lists(&[10, 11, 12]));
    forbidden_from(ALL, Phenomenon::UnwrittenValue, &lists(&[10, 11, 13, 12]));
    forbidden_from(ALL, Phenomenon::DuplicateElement, &lists(&[10, 11, 10, 11]));
    forbidden_from(ALL, Phenomenon::LostElement, &lists(&[11, 12]));
    forbidden_from(ALL, Phenomenon::IncompatibleOrder, &lists(&[11, 10, 12]));
}

#[test]
fn two_orders_of_one_list() {
    let of = |second: &[u64]| {
        history([
            tx(0).append(1, 10),
            tx(1).append(1, 11),
            tx(2).list(1, &[10, 11]),
            tx(3).list(1, second),
        ])
    };
    allowed(&of(&[10]));
    forbidden_from(ALL, Phenomenon::IncompatibleOrder, &of(&[11]));
    forbidden_from(ALL, Phenomenon::IncompatibleOrder, &of(&[11, 10]));
}

#[test]
fn lists_agree_with_commit_timestamps() {
    let of = |read: &[u64]| {
        history([
            tx(0).append(1, 10).committed_as(1),
            tx(1).append(1, 11).committed_as(2),
            tx(2).list(1, read),
        ])
    };
    allowed(&of(&[10, 11]));
    allowed(&of(&[10]));
    forbidden_from(ALL, Phenomenon::IncompatibleOrder, &of(&[11, 10]));
    forbidden_from(ALL, Phenomenon::LostElement, &of(&[11]));
}

#[test]
fn an_acknowledged_append_that_nobody_finds_is_lost_in_real_time() {
    let of = |timestamp: Option<u64>| {
        let writer = tx(0).append(1, 10).during(0, 10);
        let writer = match timestamp {
            Some(timestamp) => writer.committed_as(timestamp),
            None => writer,
        };
        history([writer, tx(1).list(1, &[]).during(20, 30)])
    };
    let lost = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, lost, &of(None));
    forbidden_from(REAL_TIME, lost, &of(Some(1)));
}

#[test]
fn malformed_histories_are_refused() {
    for made in [
        tx(0).write(1, 10).write(1, 10),
        tx(0).append(1, 10).write(1, 11),
        tx(0).write(1, 10).range(0..5, &[(1, Value::List(vec![3]))]),
    ] {
        forbidden_from(ALL, Phenomenon::Malformed, &history([made]));
    }
    forbidden_from(
        ALL,
        Phenomenon::Malformed,
        &history([
            tx(0).write(1, 10).committed_as(1),
            tx(1).write(1, 11).committed_as(1),
        ]),
    );
    let overlapping = history([tx(0).during(0, 10), tx(0).during(9, 20)]);
    forbidden_from(SESSIONS, Phenomenon::Malformed, &overlapping);
}

#[test]
fn unanswered_transactions_happen_at_any_time_or_never() {
    let of = |one: &[u64], two: &[u64]| {
        history([
            tx(0).append(1, 10).append(2, 20).during(0, 0).unanswered(),
            tx(1).list(1, one).during(5, 10),
            tx(2).list(2, two).during(20, 30),
        ])
    };
    allowed(&of(&[], &[]));
    allowed(&of(&[10], &[20]));
    allowed(&of(&[], &[20]));
    let undone = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, undone, &of(&[10], &[]));
    // It happened, so what it read counts as well.
    let read_then = |read: &[u64]| {
        history([
            tx(0)
                .list(3, read)
                .append(1, 10)
                .during(20, 20)
                .unanswered(),
            tx(1).append(3, 30).during(0, 10),
            tx(2).list(1, &[10]).list(3, &[30]).during(30, 40),
        ])
    };
    allowed(&read_then(&[30]));
    let stale = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, stale, &read_then(&[]));
}

#[test]
fn aborted_transactions_leave_nothing_and_constrain_nothing() {
    allowed(&history([
        tx(0).append(1, 10).during(0, 10),
        tx(1).list(1, &[]).append(1, 11).during(20, 30).aborted(),
        tx(2).list(1, &[10]).during(40, 50),
    ]));
}

#[test]
fn a_removed_register_is_absent_again() {
    let of = |last: Option<u64>| {
        history([
            tx(0).write(1, 10).committed_as(1).during(0, 10),
            tx(1).remove(1).committed_as(2).during(20, 30),
            tx(2).write(1, 11).committed_as(3).during(40, 50),
            tx(3).read(1, last).during(60, 70),
        ])
    };
    allowed(&of(Some(11)));
    let stale = Phenomenon::Cycle(CycleKind::GSingle, CycleOrder::RealTime);
    forbidden_from(REAL_TIME, stale, &of(None));
    forbidden_from(REAL_TIME, stale, &of(Some(10)));
}

#[test]
fn an_absent_read_may_have_seen_any_removal() {
    // T4 saw the key absent: before T0, or between T1 and T2. The other key says which.
    let of = |mark: &[u64]| {
        history([
            tx(0).write(1, 10).append(2, 20).committed_as(1),
            tx(1).remove(1).append(2, 21).committed_as(2),
            tx(2).write(1, 11).append(2, 22).committed_as(3),
            tx(3).remove(1).append(2, 23).committed_as(4),
            tx(4).read(1, None).list(2, mark),
            tx(5).list(2, &[20, 21, 22, 23]),
        ])
    };
    allowed(&of(&[]));
    allowed(&of(&[20, 21]));
    allowed(&of(&[20, 21, 22, 23]));
    for impossible in [&[20][..], &[20, 21, 22]] {
        let found = forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &of(impossible));
        assert!(found.to_string().contains("each possible one"), "{found}");
    }
}

#[test]
fn two_absences_at_no_common_moment() {
    // Between T0 and T3 one of the two keys is present at any time, unless T2 writes neither.
    let of = |always_one: bool, mark: &[u64]| {
        let third = tx(2).remove(2);
        let third = if always_one {
            third.write(1, 11)
        } else {
            third
        };
        history([
            tx(0).write(1, 10).append(3, 30).committed_as(1),
            tx(1).remove(1).write(2, 20).committed_as(2),
            third.committed_as(3),
            tx(3).remove(1).remove(2).append(3, 31).committed_as(4),
            tx(4).registers(0..3, &[]).list(3, mark),
            tx(5).list(3, &[30, 31]),
        ])
    };
    allowed(&of(true, &[]));
    allowed(&of(true, &[30, 31]));
    allowed(&of(false, &[30]));
    forbidden_from(FROM_SNAPSHOT, cycle(CycleKind::GSingle), &of(true, &[30]));
}

#[test]
fn of_two_absences_one_came_before_and_one_after() {
    // An order is T5, T2, T1, T3, T0, T4, which is not that of timestamps: T2 saw 0/2 absent
    // before T1 wrote it, and T0 saw 0/1 absent after T3 removed it.
    allowed(&history([
        tx(0).read(1, None).list(10, &[30]),
        tx(1)
            .write(1, 10)
            .write(2, 20)
            .append(10, 30)
            .committed_as(1),
        tx(2).read(2, None).list(11, &[40]).append(12, 50),
        tx(3).remove(1).list(12, &[50]).write(3, 60).committed_as(2),
        tx(4).remove(2).write(3, 61).committed_as(3),
        tx(5).write(4, 70).append(11, 40).committed_as(5),
        tx(6).remove(4).committed_as(6),
        tx(7).read(4, None),
    ]));
}
