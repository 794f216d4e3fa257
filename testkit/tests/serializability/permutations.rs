//! Every order of a few transactions, tried one after the other: the checker agrees.

use std::collections::BTreeMap;

use hedgerow_testkit::seed::seed;
use hedgerow_testkit::serializability::{
    History, Key, KeyRange, Model, Operation, Status, Transaction, Value, check,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::recordings::{MODELS, key};

type State = BTreeMap<Key, Value>;

/// Searches all orders of the points of transactions: of their commits, and under snapshot
/// isolation also of their snapshots.
struct Orders<'h> {
    transactions: Vec<&'h Transaction>,
    model: Model,
}

#[derive(Clone, Default)]
struct Progress {
    state: State,
    /// For each transaction the state that it reads and how many commits it has, once taken.
    snapshots: Vec<Option<(State, usize)>>,
    committed: Vec<bool>,
    /// Which commit wrote each key last.
    written: BTreeMap<Key, usize>,
    commits: usize,
}

impl Orders<'_> {
    fn has_snapshots(&self) -> bool {
        matches!(
            self.model,
            Model::SnapshotIsolation | Model::StrongSnapshotIsolation
        )
    }

    fn must_precede(&self, one: usize, two: usize) -> bool {
        let (one, two) = (self.transactions[one], self.transactions[two]);
        let ended = one.status != Status::Unknown && one.end < two.begin;
        match self.model {
            Model::StrictSerializable | Model::StrongSnapshotIsolation => ended,
            Model::StrongSessionSerializable => ended && one.process == two.process,
            _ => false,
        }
    }

    fn exists(&self, done: &Progress) -> bool {
        let mut all = 0..self.transactions.len();
        if all.clone().all(|number| done.committed[number]) {
            return true;
        }
        all.any(|number| {
            if done.committed[number] {
                return false;
            }
            let mut next = done.clone();
            if next.snapshots[number].is_none() {
                let mut others = 0..self.transactions.len();
                if others.any(|o| !done.committed[o] && self.must_precede(o, number)) {
                    return false;
                }
                next.snapshots[number] = Some((done.state.clone(), done.commits));
                if self.has_snapshots() {
                    return self.exists(&next);
                }
            }
            self.commit(number, &mut next) && self.exists(&next)
        })
    }

    /// Commits a transaction if its answers are those of its snapshot, and timestamps ascend.
    fn commit(&self, number: usize, done: &mut Progress) -> bool {
        let transaction = self.transactions[number];
        let (mut seen, at) = done.snapshots[number].take().expect("taken before");
        let mut written: BTreeMap<Key, ()> = BTreeMap::new();
        for operation in &transaction.operations {
            if !run(&mut seen, operation) {
                return false;
            }
            if let Operation::Append { key, .. }
            | Operation::Write { key, .. }
            | Operation::Remove { key } = operation
            {
                written.insert(*key, ());
            }
        }
        for (key, ()) in written {
            let earlier = done.written.get(&key).copied().unwrap_or(0);
            if earlier > at {
                return false;
            }
            let is_later = |other: usize| {
                let other = self.transactions[other].timestamp();
                let both = transaction.timestamp().zip(other);
                both.is_some_and(|(own, other)| own < other)
            };
            let mut others = 0..self.transactions.len();
            if others.any(|o| done.committed[o] && writes(self.transactions[o], key) && is_later(o))
            {
                return false;
            }
            done.written.insert(key, done.commits + 1);
            match seen.get(&key) {
                Some(value) => done.state.insert(key, value.clone()),
                None => done.state.remove(&key),
            };
        }
        done.commits += 1;
        done.committed[number] = true;
        true
    }
}

fn writes(transaction: &Transaction, written: Key) -> bool {
    transaction
        .operations
        .iter()
        .any(|operation| match operation {
            Operation::Append { key, .. }
            | Operation::Write { key, .. }
            | Operation::Remove { key } => *key == written,
            _ => false,
        })
}

/// Runs an operation, and says whether its answer is right.
fn run(state: &mut State, operation: &Operation) -> bool {
    match operation {
        Operation::Append { key, element } => {
            let list = state.entry(*key).or_insert(Value::List(Vec::new()));
            if let Value::List(elements) = list {
                elements.push(*element);
            }
            true
        }
        Operation::Write { key, value } => {
            state.insert(*key, Value::Register(*value));
            true
        }
        Operation::Remove { key } => {
            state.remove(key);
            true
        }
        Operation::ReadList { key, elements } => {
            let found = state.get(key).cloned().unwrap_or(Value::List(Vec::new()));
            found == Value::List(elements.clone())
        }
        Operation::ReadRegister { key, value } => {
            state.get(key).cloned() == value.map(Value::Register)
        }
        Operation::ReadRange { range, rows } => *rows == rows_of(state, *range),
    }
}

fn rows_of(state: &State, range: KeyRange) -> Vec<(Key, Value)> {
    let rows = state.iter().filter(|(key, _)| range.contains(**key));
    rows.map(|(key, value)| (*key, value.clone())).collect()
}

/// Whether some order explains the history, with some of the unanswered transactions.
fn some_order_explains(history: &History, model: Model) -> bool {
    let of = |wanted: fn(Status) -> bool| -> Vec<&Transaction> {
        let all = history.transactions.iter();
        all.filter(|transaction| wanted(transaction.status))
            .collect()
    };
    let committed = of(|status| matches!(status, Status::Committed { .. }));
    let unknown = of(|status| status == Status::Unknown);
    (0..1u32 << unknown.len()).any(|chosen| {
        let happened = (0..).zip(&unknown);
        let happened = happened.filter(|(number, _)| chosen >> number & 1 == 1);
        let mut transactions = committed.clone();
        transactions.extend(happened.map(|(_, transaction)| *transaction));
        let progress = Progress {
            snapshots: vec![None; transactions.len()],
            committed: vec![false; transactions.len()],
            ..Progress::default()
        };
        Orders {
            transactions,
            model,
        }
        .exists(&progress)
    })
}

/// Which histories to make.
#[derive(Clone, Copy)]
struct Shape {
    transactions: usize,
    /// Whether commits have timestamps.
    is_timed: bool,
    /// Whether unanswered transactions may write registers, whose place then nobody knows.
    unknown_registers: bool,
    /// Out of 100.
    unknown_percent: u32,
}

/// A history of a serial execution in which some transactions read an earlier state: some of
/// those have an order, and some do not.
fn make(random: &mut StdRng, shape: Shape) -> History {
    let mut states: Vec<State> = vec![State::new()];
    let mut history = History::default();
    let transactions = random.random_range(2..=shape.transactions);
    for number in 0..transactions {
        let current = states.last().cloned().unwrap_or_default();
        let snapshot = match random.random_ratio(35, 100) {
            true => states[random.random_range(0..states.len())].clone(),
            false => current.clone(),
        };
        let slack = random.random_range(0..25);
        let is_unknown = random.random_ratio(shape.unknown_percent, 100);
        let status = match random.random_range(0..100) {
            _ if is_unknown => Status::Unknown,
            0..5 => Status::Aborted,
            _ => Status::Committed {
                timestamp: shape.is_timed.then_some(number as u64 + 1),
            },
        };
        let registers = !is_unknown || shape.unknown_registers;
        let (operations, next) = execute(random, number, (snapshot, current.clone()), registers);
        let happens = match status {
            Status::Committed { .. } => true,
            Status::Aborted => random.random_ratio(1, 10),
            Status::Unknown => random.random(),
        };
        states.push(if happens { next } else { current });
        let at = 10 * (number as u64 + 3);
        let begin = at - slack;
        history.transactions.push(Transaction {
            process: idle_process(&history, begin),
            begin,
            end: at + random.random_range(0..25),
            status,
            operations,
        });
    }
    if shape.is_timed && random.random_ratio(5, 100) {
        let [one, two] = [0; 2].map(|_| random.random_range(0..transactions));
        let statuses = [one, two].map(|number| history.transactions[number].status);
        if statuses
            .iter()
            .all(|s| matches!(s, Status::Committed { .. }))
        {
            history.transactions[one].status = statuses[1];
            history.transactions[two].status = statuses[0];
        }
    }
    history
}

/// The first process that is in no transaction at `begin`, and ran none that has no answer.
fn idle_process(history: &History, begin: u64) -> usize {
    let is_busy = |process: &usize| {
        let mut own = history
            .transactions
            .iter()
            .filter(|t| t.process == *process);
        own.any(|t| t.end >= begin || t.status == Status::Unknown)
    };
    (0..)
        .find(|process| !is_busy(process))
        .expect("any number of processes")
}

/// Operations that read `snapshot` and write to `current`: their answers, and the state after.
fn execute(
    random: &mut StdRng,
    number: usize,
    (mut snapshot, mut current): (State, State),
    writes_registers: bool,
) -> (Vec<Operation>, State) {
    let mut operations = Vec::new();
    for step in 0..random.random_range(1..=4) {
        let chosen = key(random.random_range(0..4));
        let is_list = chosen.number.is_multiple_of(2);
        let fresh = (number * 10 + step) as u64;
        let operation = match random.random_range(0..6) {
            0 | 1 if is_list => Operation::ReadList {
                key: chosen,
                elements: match snapshot.get(&chosen) {
                    Some(Value::List(elements)) => elements.clone(),
                    _ => Vec::new(),
                },
            },
            0 | 1 => Operation::ReadRegister {
                key: chosen,
                value: match snapshot.get(&chosen) {
                    Some(Value::Register(value)) => Some(*value),
                    _ => None,
                },
            },
            2 => {
                let range = KeyRange {
                    keyspace: 0,
                    start: chosen.number,
                    end: random.random_range(chosen.number..6),
                };
                let rows = rows_of(&snapshot, range);
                Operation::ReadRange { range, rows }
            }
            _ if is_list => Operation::Append {
                key: chosen,
                element: fresh,
            },
            _ if !writes_registers => continue,
            3 => Operation::Remove { key: chosen },
            _ => Operation::Write {
                key: chosen,
                value: fresh,
            },
        };
        run(&mut snapshot, &operation);
        run(&mut current, &operation);
        operations.push(operation);
    }
    (operations, current)
}

/// So many histories, or more or less as `HEDGEROW_TEST_SCALE` says.
pub fn scaled(histories: usize) -> usize {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    ((histories as f64 * scale) as usize).max(1)
}

fn shown(history: &History) -> String {
    let numbered = history.transactions.iter().enumerate();
    let lines = numbered.map(|(number, transaction)| format!("T{number}: {transaction}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Both verdicts on many histories; with `exact`, the checker accepts no history without an order.
fn compare(histories: usize, models: &[Model], shape: Shape, exact: bool) {
    let mut random = StdRng::seed_from_u64(seed());
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..scaled(histories) {
        let history = make(&mut random, shape);
        for model in models {
            let is_explained = some_order_explains(&history, *model);
            match check(&history, *model) {
                Ok(found) if exact && !is_explained => panic!(
                    "{model:?}: no order explains this:\n{}\n{found:?}",
                    shown(&history)
                ),
                Err(anomaly) if is_explained => panic!(
                    "{model:?}: an order explains this:\n{}\n{anomaly}",
                    shown(&history)
                ),
                Ok(_) => accepted += 1,
                Err(_) => rejected += 1,
            }
        }
    }
    println!("{accepted} accepted, {rejected} rejected");
    if std::env::var("HEDGEROW_TEST_SCALE").is_err() {
        assert!(accepted > 100 && rejected > 100, "both verdicts are tried");
    }
}

#[test]
fn serial_orders_of_timed_commits() {
    let shape = Shape {
        transactions: 6,
        is_timed: true,
        unknown_registers: false,
        unknown_percent: 10,
    };
    let serializable = [
        Model::StrictSerializable,
        Model::StrongSessionSerializable,
        Model::Serializable,
    ];
    compare(3_000, &serializable, shape, true);
}

#[test]
fn snapshot_orders_of_timed_commits() {
    let shape = Shape {
        transactions: 5,
        is_timed: true,
        unknown_registers: false,
        unknown_percent: 0,
    };
    let snapshot = [Model::SnapshotIsolation, Model::StrongSnapshotIsolation];
    compare(1_500, &snapshot, shape, true);
}

#[test]
fn no_false_alarm_without_timestamps_or_answers() {
    let shape = Shape {
        transactions: 5,
        is_timed: false,
        unknown_registers: true,
        unknown_percent: 25,
    };
    compare(1_500, &MODELS[1..], shape, false);
    let timed = Shape {
        is_timed: true,
        ..shape
    };
    compare(1_000, &MODELS[1..], timed, false);
}
