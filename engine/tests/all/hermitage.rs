//! The scenarios of Hermitage (Martin Kleppmann's collection of isolation anomalies, named after
//! Adya), over each index: serializable transactions prevent all of them, snapshot isolation allows
//! write skew and nothing else.
//!
//! Each scenario tells whether its anomaly happened. As a control it also runs without isolation,
//! each read and write going straight to the keyspace, where every anomaly must happen.

use std::ops::ControlFlow;

use std::sync::Arc;

use hedgerow::{Db, Direction, Durability, IndexKind, Isolation, Keyspace, OptimisticTransaction};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;

over_each_index! {
    serializable_transactions_prevent_all_and_snapshot_isolation_all_but_write_skew,
}

/// A database with rows 1 → 10 and 2 → 20.
struct Stage {
    db: Db,
    rows: Keyspace,
    index: IndexKind,
    /// `None`: no isolation.
    isolation: Option<Isolation>,
}

/// Somebody on the stage.
struct Session<'s> {
    stage: &'s Stage,
    transaction: Option<OptimisticTransaction>,
}

type Found = Vec<(u64, u64)>;

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

impl Stage {
    fn new(index: IndexKind, isolation: Option<Isolation>) -> Stage {
        let builder = builder_of(Some(index)).vfs(Arc::new(MemoryVfs::new()));
        let db = builder.open("/db").unwrap();
        let rows = db.keyspace("rows").unwrap();
        let stage = Stage {
            db,
            rows,
            index,
            isolation,
        };
        for (id, value) in [(1, "10"), (2, "20")] {
            stage.rows.put(&stage.key(id), value.as_bytes()).unwrap();
        }
        stage
    }

    fn key(&self, id: u64) -> Vec<u8> {
        key_of(Some(self.index), id.to_string())
    }

    fn begin(&self) -> Session<'_> {
        let begin = |isolation| self.db.begin(isolation).unwrap();
        Session {
            stage: self,
            transaction: self.isolation.map(begin),
        }
    }

    fn begin_two(&self) -> (Session<'_>, Session<'_>) {
        (self.begin(), self.begin())
    }

    /// What is there when all is over.
    fn all(&self) -> Found {
        let direct = Session {
            stage: self,
            transaction: None,
        };
        direct.find(|_| true)
    }
}

impl Session<'_> {
    fn get(&self, id: u64) -> Option<u64> {
        let (rows, key) = (&self.stage.rows, self.stage.key(id));
        let value = match &self.transaction {
            Some(tx) => tx.get(rows, &key).unwrap(),
            None => rows.get(&key).unwrap(),
        };
        value.map(|value| number(&value))
    }

    /// The rows whose value satisfies a predicate, in order.
    fn find(&self, predicate: impl Fn(u64) -> bool) -> Found {
        let rows = &self.stage.rows;
        let mut found = Found::new();
        let mut visit = |key: &[u8], row: hedgerow::Row<'_>| {
            let value = number(row.value().unwrap());
            if predicate(value) {
                found.push((number(&key[..1]), value));
            }
            ControlFlow::Continue(())
        };
        match &self.transaction {
            Some(tx) => tx.scan(rows, .., Direction::Forward, &mut visit).unwrap(),
            None => rows.scan(.., Direction::Forward, &mut visit).unwrap(),
        }
        found
    }

    fn put(&mut self, id: u64, value: u64) {
        let (rows, key) = (&self.stage.rows, self.stage.key(id));
        let value = value.to_string();
        match &mut self.transaction {
            Some(tx) => tx.put(rows, &key, value.as_bytes()).unwrap(),
            None => drop(rows.put(&key, value.as_bytes()).unwrap()),
        }
    }

    /// Changes a row that is there.
    fn change(&mut self, id: u64, value: u64) {
        if self.get(id).is_some() {
            self.put(id, value);
        }
    }

    fn remove(&mut self, id: u64) {
        let (rows, key) = (&self.stage.rows, self.stage.key(id));
        match &mut self.transaction {
            Some(tx) => tx.remove(rows, &key).unwrap(),
            None => rows.remove(&key).unwrap(),
        };
    }

    /// Whether it committed. What kept it from that can only have been a conflict.
    fn commit(self) -> bool {
        let Some(tx) = self.transaction else {
            return true;
        };
        let outcome = tx.commit(Durability::Periodic);
        let is_refused = outcome
            .inspect_err(|error| assert!(error.is_conflict(), "{error}"))
            .is_err();
        !is_refused
    }

    fn rollback(self) {
        drop(self.transaction);
    }
}

/// G0, write cycles: each has the last word on one of two rows.
fn dirty_write(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    one.put(1, 11);
    two.put(1, 12);
    two.put(2, 22);
    one.put(2, 21);
    assert!(one.commit());
    two.commit();
    let all = stage.all();
    all != [(1, 11), (2, 21)] && all != [(1, 12), (2, 22)]
}

/// G1a: a value is seen whose transaction is given up.
fn aborted_read(stage: &Stage) -> bool {
    let (mut one, two) = stage.begin_two();
    one.put(1, 101);
    let before = two.get(1);
    one.rollback();
    let after = two.find(|_| true);
    assert!(two.commit());
    before == Some(101) || after.contains(&(1, 101))
}

/// G1b: a value is seen that its own transaction replaces.
fn intermediate_read(stage: &Stage) -> bool {
    let (mut one, two) = stage.begin_two();
    one.put(1, 101);
    let before = two.find(|_| true);
    one.put(1, 11);
    assert!(one.commit());
    assert!(two.commit());
    before.contains(&(1, 101))
}

/// G1c: each sees what the other wrote.
fn circular_information_flow(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    one.put(1, 11);
    two.put(2, 22);
    let seen = (one.get(2), two.get(1));
    one.commit();
    two.commit();
    seen == (Some(22), Some(11))
}

/// OTV: what one transaction wrote is seen, and is gone at the next look.
fn observed_transaction_vanishes(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    one.put(1, 11);
    one.put(2, 19);
    two.put(1, 12);
    assert!(one.commit());
    let three = stage.begin();
    let first = three.get(1);
    two.put(2, 18);
    let second = three.get(2);
    two.commit();
    let again = (three.get(1), three.get(2));
    assert!(three.commit());
    (first, second) != again || again != (Some(11), Some(19))
}

/// PMP, by a read: a row appears that satisfies a predicate which was read before.
fn predicate_many_preceders_read(stage: &Stage) -> bool {
    let (one, mut two) = stage.begin_two();
    assert_eq!(one.find(|value| value == 30), []);
    two.put(3, 30);
    assert!(two.commit());
    let found = one.find(|value| value % 3 == 0);
    assert!(one.commit());
    !found.is_empty()
}

/// PMP, by a write: rows are removed by a predicate that others satisfy meanwhile.
fn predicate_many_preceders_write(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    for (id, value) in one.find(|_| true) {
        one.change(id, value + 10);
    }
    assert!(one.commit());
    for (id, _) in two.find(|value| value == 20) {
        two.remove(id);
    }
    two.commit() && stage.all() != [(1, 20), (2, 30)]
}

/// P4: two add to what they read, and one of the additions is lost.
fn lost_update(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    let (first, second) = (one.get(1).unwrap(), two.get(1).unwrap());
    one.put(1, first + 1);
    two.put(1, second + 1);
    let committed = u64::from(one.commit()) + u64::from(two.commit());
    stage.all()[0].1 != 10 + committed
}

/// G-single: a row as it was before another transaction, and one as that left it.
fn read_skew(stage: &Stage) -> bool {
    let (one, mut two) = stage.begin_two();
    let first = one.get(1);
    two.change(1, 12);
    two.change(2, 18);
    assert!(two.commit());
    let second = one.get(2);
    assert!(one.commit());
    (first, second) == (Some(10), Some(18))
}

/// G-single, with predicates: what a predicate finds, and what another finds later.
fn read_skew_by_predicates(stage: &Stage) -> bool {
    let (one, mut two) = stage.begin_two();
    assert_eq!(one.find(|value| value % 5 == 0).len(), 2);
    two.change(1, 12);
    assert!(two.commit());
    let found = one.find(|value| value % 3 == 0);
    assert!(one.commit());
    !found.is_empty()
}

/// G-single, with a predicate of a write: it removes by what it cannot have seen together.
fn read_skew_by_a_write_predicate(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    assert_eq!(one.get(1), Some(10));
    two.change(1, 20);
    two.change(2, 18);
    assert!(two.commit());
    for (id, _) in one.find(|value| value == 20) {
        one.remove(id);
    }
    one.commit()
}

/// G-single, with a write that is given up: it must not have been in the other's way.
fn read_skew_by_a_discarded_write(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    assert_eq!(one.get(1), Some(10));
    assert_eq!(two.find(|_| true).len(), 2);
    two.change(1, 12);
    for (id, _) in one.find(|value| value == 20) {
        one.remove(id);
    }
    two.change(2, 18);
    one.rollback();
    assert!(two.commit());
    stage.all() != [(1, 12), (2, 18)]
}

/// G2-item: each reads both rows and writes another of them.
fn write_skew(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    for session in [&one, &two] {
        assert_eq!((session.get(1), session.get(2)), (Some(10), Some(20)));
    }
    one.put(1, 11);
    two.put(2, 21);
    one.commit() & two.commit()
}

/// G2: each finds nothing by a predicate, and adds a row that satisfies it.
fn anti_dependency_cycle(stage: &Stage) -> bool {
    let (mut one, mut two) = stage.begin_two();
    for session in [&one, &two] {
        assert_eq!(session.find(|value| value % 3 == 0), []);
    }
    one.put(3, 30);
    two.put(4, 42);
    one.commit() & two.commit()
}

/// G2, with two anti-dependencies and a reader: it saw the second's write, and not the first's,
/// which did not see the second's.
fn anti_dependency_cycle_with_a_reader(stage: &Stage) -> bool {
    let mut one = stage.begin();
    assert_eq!(one.find(|_| true), [(1, 10), (2, 20)]);
    let mut two = stage.begin();
    two.change(2, 25);
    assert!(two.commit());
    let three = stage.begin();
    assert_eq!(three.find(|_| true), [(1, 10), (2, 25)]);
    assert!(three.commit());
    one.put(1, 0);
    one.commit()
}

struct Scenario {
    name: &'static str,
    happens: fn(&Stage) -> bool,
    /// Whether snapshot isolation allows it.
    is_write_skew: bool,
}

const fn prevented(name: &'static str, happens: fn(&Stage) -> bool) -> Scenario {
    Scenario {
        name,
        happens,
        is_write_skew: false,
    }
}

const fn skew(name: &'static str, happens: fn(&Stage) -> bool) -> Scenario {
    Scenario {
        name,
        happens,
        is_write_skew: true,
    }
}

const SCENARIOS: &[Scenario] = &[
    prevented("G0", dirty_write),
    prevented("G1a", aborted_read),
    prevented("G1b", intermediate_read),
    prevented("G1c", circular_information_flow),
    prevented("OTV", observed_transaction_vanishes),
    prevented("PMP", predicate_many_preceders_read),
    prevented("PMP, write predicate", predicate_many_preceders_write),
    prevented("P4", lost_update),
    prevented("G-single", read_skew),
    prevented("G-single, predicates", read_skew_by_predicates),
    prevented("G-single, write predicate", read_skew_by_a_write_predicate),
    prevented("G-single, discarded write", read_skew_by_a_discarded_write),
    skew("G2-item", write_skew),
    skew("G2", anti_dependency_cycle),
    skew("G2, two edges", anti_dependency_cycle_with_a_reader),
];

fn serializable_transactions_prevent_all_and_snapshot_isolation_all_but_write_skew(
    index: IndexKind,
) {
    for scenario in SCENARIOS {
        let expected = [
            (Some(Isolation::Serializable), false),
            (Some(Isolation::Snapshot), scenario.is_write_skew),
            (None, true),
        ];
        for (isolation, is_allowed) in expected {
            let stage = Stage::new(index, isolation);
            let happened = (scenario.happens)(&stage);
            let name = scenario.name;
            assert_eq!(happened, is_allowed, "{name} under {isolation:?}");
            let versions = stage.db.statistics().get("versions").unwrap();
            assert_eq!(versions as u64, 0, "versions left by {name}");
        }
    }
}
