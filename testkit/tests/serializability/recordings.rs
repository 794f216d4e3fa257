//! Histories made by hand: transactions that all overlap in time, unless they say otherwise.

use hedgerow_testkit::serializability::{
    Anomaly, CycleKind, CycleOrder, History, Key, KeyRange, Model, Operation, Phenomenon, Status,
    Transaction, Value, check,
};

/// All levels, from the weakest on.
pub const MODELS: [Model; 6] = [
    Model::ReadCommitted,
    Model::SnapshotIsolation,
    Model::StrongSnapshotIsolation,
    Model::Serializable,
    Model::StrongSessionSerializable,
    Model::StrictSerializable,
];

/// Key `number` of the first keyspace.
pub fn key(number: u64) -> Key {
    Key::new(0, number)
}

/// A transaction that is being written down.
pub struct Made(Transaction);

/// A transaction without operations, of a process of its own, over all of time.
pub fn tx(process: usize) -> Made {
    Made(Transaction {
        process,
        begin: 0,
        end: 1_000,
        status: Status::Committed { timestamp: None },
        operations: Vec::new(),
    })
}

impl Made {
    fn and(mut self, operation: Operation) -> Made {
        self.0.operations.push(operation);
        self
    }

    pub fn append(self, number: u64, element: u64) -> Made {
        let key = key(number);
        self.and(Operation::Append { key, element })
    }

    pub fn list(self, number: u64, elements: &[u64]) -> Made {
        let (key, elements) = (key(number), elements.to_vec());
        self.and(Operation::ReadList { key, elements })
    }

    pub fn write(self, number: u64, value: u64) -> Made {
        let key = key(number);
        self.and(Operation::Write { key, value })
    }

    pub fn remove(self, number: u64) -> Made {
        self.and(Operation::Remove { key: key(number) })
    }

    pub fn read(self, number: u64, value: Option<u64>) -> Made {
        let key = key(number);
        self.and(Operation::ReadRegister { key, value })
    }

    pub fn range(self, range: std::ops::Range<u64>, rows: &[(u64, Value)]) -> Made {
        let rows = rows.iter();
        self.and(Operation::ReadRange {
            range: KeyRange {
                keyspace: 0,
                start: range.start,
                end: range.end,
            },
            rows: rows
                .map(|(number, value)| (key(*number), value.clone()))
                .collect(),
        })
    }

    /// A read of a range of registers.
    pub fn registers(self, range: std::ops::Range<u64>, rows: &[(u64, u64)]) -> Made {
        let rows = rows.iter();
        let rows: Vec<(u64, Value)> = rows
            .map(|(number, value)| (*number, Value::Register(*value)))
            .collect();
        self.range(range, &rows)
    }

    pub fn during(mut self, begin: u64, end: u64) -> Made {
        (self.0.begin, self.0.end) = (begin, end);
        self
    }

    pub fn committed_as(mut self, timestamp: u64) -> Made {
        let timestamp = Some(timestamp);
        self.0.status = Status::Committed { timestamp };
        self
    }

    pub fn aborted(mut self) -> Made {
        self.0.status = Status::Aborted;
        self
    }

    pub fn unanswered(mut self) -> Made {
        self.0.status = Status::Unknown;
        self
    }
}

/// The history of these transactions.
pub fn history<const N: usize>(made: [Made; N]) -> History {
    let transactions = made.into_iter().map(|made| made.0).collect();
    History { transactions }
}

/// Fails unless every level that is not weaker than `weakest` rejects the history for
/// `phenomenon`, and every other level accepts it.
pub fn forbidden_from(forbidden: &[Model], phenomenon: Phenomenon, history: &History) -> Anomaly {
    let mut last = None;
    for model in MODELS {
        match check(history, model) {
            Ok(found) if forbidden.contains(&model) => {
                panic!("{model:?} misses {phenomenon}: {found:?}")
            }
            Ok(_) => {}
            Err(anomaly) if !forbidden.contains(&model) => {
                panic!("{model:?} allows this:\n{anomaly}")
            }
            Err(anomaly) => {
                assert_eq!(anomaly.phenomenon, phenomenon, "{model:?}: {anomaly}");
                last = Some(anomaly);
            }
        }
    }
    last.expect("some level forbids it")
}

/// Every level.
pub const ALL: &[Model] = &MODELS;
/// Those with anti-dependencies.
pub const FROM_SNAPSHOT: &[Model] = &[
    Model::SnapshotIsolation,
    Model::StrongSnapshotIsolation,
    Model::Serializable,
    Model::StrongSessionSerializable,
    Model::StrictSerializable,
];
pub const SERIALIZABLE: &[Model] = &[
    Model::Serializable,
    Model::StrongSessionSerializable,
    Model::StrictSerializable,
];
/// Those in which real time counts.
pub const REAL_TIME: &[Model] = &[Model::StrongSnapshotIsolation, Model::StrictSerializable];
/// Those in which the order of a process counts, of itself or as a part of real time.
pub const SESSIONS: &[Model] = &[
    Model::StrongSnapshotIsolation,
    Model::StrongSessionSerializable,
    Model::StrictSerializable,
];

/// Fails if any level rejects the history.
pub fn allowed(history: &History) {
    for model in MODELS {
        if let Err(anomaly) = check(history, model) {
            panic!("{model:?} allows this:\n{anomaly}");
        }
    }
}

/// A cycle of dependencies alone.
pub fn cycle(kind: CycleKind) -> Phenomenon {
    Phenomenon::Cycle(kind, CycleOrder::DependenciesAlone)
}
