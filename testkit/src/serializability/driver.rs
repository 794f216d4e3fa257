//! Runs a workload on a database, or whatever has transactions, and records the history.
//!
//! [`run_threads`] has one thread for each process. [`run_interleaved`] runs the steps of all
//! processes on one thread, in an order that the seed determines: the history is the same each
//! time, whatever else the machine does. It wants a subject whose transactions do not wait for
//! each other.

use std::cell::Cell;
use std::sync::Barrier;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::history::{History, Key, KeyRange, Operation, Status, Transaction, Value};
use super::workload::{Plans, Step, Workload};
use crate::history::Clock;

/// The transaction has ended, and nothing of it happened (a conflict, say).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

/// Single keys, as a transaction that is under way reads and writes them.
pub trait Keys {
    /// See [`TransactionSubject::get`].
    fn get(&mut self, key: Key) -> Result<Option<Vec<u8>>, Aborted>;

    /// See [`TransactionSubject::put`].
    fn put(&mut self, key: Key, value: Vec<u8>) -> Result<(), Aborted>;

    /// See [`TransactionSubject::remove`].
    fn remove(&mut self, key: Key) -> Result<bool, Aborted>;
}

/// What a transaction does to its keys.
pub type RunOnKeys<'r> = &'r mut dyn FnMut(&mut dyn Keys) -> Result<(), Aborted>;

/// Something that has transactions over keys and values of bytes.
///
/// Errors that are no conflicts are the subject's to report, by a panic.
pub trait TransactionSubject: Sync {
    /// A transaction that has begun.
    type Transaction<'s>
    where
        Self: 's;

    /// Begins a transaction.
    fn begin(&self) -> Self::Transaction<'_>;

    /// Begins a transaction that will write nothing.
    fn begin_reading(&self) -> Self::Transaction<'_> {
        self.begin()
    }

    /// The value of a key, with the transaction's own writes.
    fn get<'s>(
        &'s self,
        transaction: &mut Self::Transaction<'s>,
        key: Key,
    ) -> Result<Option<Vec<u8>>, Aborted>;

    /// Writes a key.
    fn put<'s>(
        &'s self,
        transaction: &mut Self::Transaction<'s>,
        key: Key,
        value: Vec<u8>,
    ) -> Result<(), Aborted>;

    /// Removes a key, which may be absent. False if it was, and the transaction did nothing but
    /// see that; a subject for which such a removal is a write as well returns true.
    fn remove<'s>(
        &'s self,
        transaction: &mut Self::Transaction<'s>,
        key: Key,
    ) -> Result<bool, Aborted>;

    /// All keys of a range in order, with the transaction's own writes.
    fn range<'s>(
        &'s self,
        transaction: &mut Self::Transaction<'s>,
        range: KeyRange,
    ) -> Result<Vec<(Key, Vec<u8>)>, Aborted>;

    /// Commits: [`Status::Committed`] with the commit timestamp if there is one,
    /// [`Status::Aborted`] if nothing happened, [`Status::Unknown`] if nobody knows.
    fn commit<'s>(&'s self, transaction: Self::Transaction<'s>) -> Status;

    /// Removes all keys of a range, in a transaction by itself; how that ended, `None` if the range
    /// was empty.
    fn remove_range(&self, range: KeyRange) -> Option<Status> {
        panic!("{range}: this subject removes no ranges");
    }

    /// Runs a transaction that locks these keys, the only ones that it reads or writes, and commits
    /// it; how that ended.
    fn run_locked(&self, keys: &[Key], _run: RunOnKeys<'_>) -> Status {
        panic!("{keys:?}: this subject locks no keys");
    }

    /// Ends a transaction of which nothing happens.
    fn roll_back<'s>(&'s self, transaction: Self::Transaction<'s>) {
        drop(transaction);
    }
}

/// Runs each process on a thread of its own.
pub fn run_threads<S: TransactionSubject>(subject: &S, workload: &Workload) -> History {
    let clock = Clock::start();
    let barrier = Barrier::new(workload.processes);
    let recorded = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workload.processes)
            .map(|process| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut client = Client::new(subject, workload, process);
                    barrier.wait();
                    while client.step(&|| clock.now_ns()) {}
                    client.recorded
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|recorded| recorded.expect("a process panicked"))
            .collect()
    });
    history(recorded)
}

/// Runs all processes on this thread, a step of one and a step of another, as the seed says.
pub fn run_interleaved<S: TransactionSubject>(subject: &S, workload: &Workload) -> History {
    let instant = Cell::new(0);
    let now = || instant.replace(instant.get() + 1);
    let mut random = StdRng::seed_from_u64(workload.seed);
    let mut clients: Vec<Client<'_, S>> = (0..workload.processes)
        .map(|process| Client::new(subject, workload, process))
        .collect();
    let mut recorded = Vec::new();
    while !clients.is_empty() {
        let chosen = random.random_range(0..clients.len());
        if !clients[chosen].step(&now) {
            recorded.extend(clients.swap_remove(chosen).recorded);
        }
    }
    history(recorded)
}

/// Transactions are numbered by their begin, for messages.
fn history(mut transactions: Vec<Transaction>) -> History {
    transactions.sort_by_key(|transaction| transaction.begin);
    History { transactions }
}

/// One process, with the transaction that it is in.
struct Client<'s, S: TransactionSubject> {
    subject: &'s S,
    workload: &'s Workload,
    process: usize,
    plans: Plans<'s>,
    running: Option<Running<'s, S>>,
    last_value: u64,
    recorded: Vec<Transaction>,
}

/// The keys of a transaction that locks none.
struct KeysOf<'t, 's, S: TransactionSubject + 's> {
    subject: &'s S,
    transaction: &'t mut S::Transaction<'s>,
}

impl<'s, S: TransactionSubject + 's> Keys for KeysOf<'_, 's, S> {
    fn get(&mut self, key: Key) -> Result<Option<Vec<u8>>, Aborted> {
        self.subject.get(self.transaction, key)
    }

    fn put(&mut self, key: Key, value: Vec<u8>) -> Result<(), Aborted> {
        self.subject.put(self.transaction, key, value)
    }

    fn remove(&mut self, key: Key) -> Result<bool, Aborted> {
        self.subject.remove(self.transaction, key)
    }
}

struct Running<'s, S: TransactionSubject + 's> {
    transaction: S::Transaction<'s>,
    steps: std::vec::IntoIter<Step>,
    is_rolled_back: bool,
    begin: u64,
    operations: Vec<Operation>,
}

impl<'s, S: TransactionSubject> Client<'s, S> {
    fn new(subject: &'s S, workload: &'s Workload, process: usize) -> Self {
        Client {
            subject,
            workload,
            process,
            plans: workload.plans(process),
            running: None,
            last_value: (process as u64 + 1) << 40,
            recorded: Vec::with_capacity(workload.transactions),
        }
    }

    /// Begins a transaction, runs a step of it, or ends it; `false` when all plans are done.
    fn step(&mut self, now: &dyn Fn() -> u64) -> bool {
        let Some(mut running) = self.running.take() else {
            let Some(plan) = self.plans.next() else {
                return false;
            };
            if let [Step::RemoveRange(range)] = plan.steps[..] {
                self.remove_range(range, now);
                return true;
            }
            if plan.is_locked {
                self.run_locked(&plan.steps, now);
                return true;
            }
            let begin = now();
            self.running = Some(Running {
                transaction: match plan.only_reads() {
                    true => self.subject.begin_reading(),
                    false => self.subject.begin(),
                },
                steps: plan.steps.into_iter(),
                is_rolled_back: plan.is_rolled_back,
                begin,
                operations: Vec::new(),
            });
            return true;
        };
        let (begin, status, operations) = match running.steps.next() {
            Some(step) => match self.operate(&mut running, step) {
                Ok(()) => {
                    self.running = Some(running);
                    return true;
                }
                Err(Aborted) => (running.begin, Status::Aborted, running.operations),
            },
            None if running.is_rolled_back => {
                self.subject.roll_back(running.transaction);
                (running.begin, Status::Aborted, running.operations)
            }
            None => {
                let status = self.subject.commit(running.transaction);
                (running.begin, status, running.operations)
            }
        };
        self.recorded.push(Transaction {
            process: self.process,
            begin,
            end: now(),
            status,
            operations,
        });
        true
    }

    /// Runs the removal of a range. Nobody hears which of its keys were there: each gets a
    /// tombstone, which says nothing new of a key that was absent. An empty range was read.
    fn remove_range(&mut self, range: KeyRange, now: &dyn Fn() -> u64) {
        let begin = now();
        let removed = self.subject.remove_range(range);
        let end = now();
        let (status, operations) = match removed {
            Some(status) => {
                let keys = (range.start..range.end).map(|number| Key::new(range.keyspace, number));
                (status, keys.map(|key| Operation::Remove { key }).collect())
            }
            None => {
                let (status, rows) = (Status::Committed { timestamp: None }, Vec::new());
                (status, vec![Operation::ReadRange { range, rows }])
            }
        };
        self.recorded.push(Transaction {
            process: self.process,
            begin,
            end,
            status,
            operations,
        });
    }

    /// Runs a transaction that locks its keys: nobody else has a step between its own.
    fn run_locked(&mut self, steps: &[Step], now: &dyn Fn() -> u64) {
        let mut keys: Vec<Key> = steps.iter().filter_map(|step| step.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let (subject, begin) = (self.subject, now());
        let mut operations = Vec::new();
        let status = subject.run_locked(&keys, &mut |keys| {
            operations.clear();
            let mut steps = steps.iter();
            steps.try_for_each(|step| self.operate_on(keys, &mut operations, *step))
        });
        self.recorded.push(Transaction {
            process: self.process,
            begin,
            end: now(),
            status,
            operations,
        });
    }

    fn operate(&mut self, running: &mut Running<'s, S>, step: Step) -> Result<(), Aborted> {
        let Running {
            transaction,
            operations,
            ..
        } = running;
        let subject = self.subject;
        if let Step::ReadRange(range) = step {
            let rows = subject.range(transaction, range)?.into_iter();
            let rows = rows.map(|(key, bytes)| (key, decode(key, &bytes)));
            let rows = rows.collect();
            operations.push(Operation::ReadRange { range, rows });
            return Ok(());
        }
        let mut keys = KeysOf {
            subject,
            transaction,
        };
        self.operate_on(&mut keys, operations, step)
    }

    /// Runs a step that is about a single key.
    fn operate_on(
        &mut self,
        keys: &mut dyn Keys,
        operations: &mut Vec<Operation>,
        step: Step,
    ) -> Result<(), Aborted> {
        match step {
            Step::Read(key) => {
                let found = keys.get(key)?;
                operations.push(self.read(key, found));
            }
            Step::Remove(key) => {
                operations.push(match keys.remove(key)? {
                    true => Operation::Remove { key },
                    false => self.read(key, None),
                });
            }
            Step::Write(key) if self.workload.is_list(key) => {
                let found = keys.get(key)?;
                let mut value = found.clone().unwrap_or_else(|| vec![LIST]);
                operations.push(self.read(key, found));
                let element = self.new_value();
                value.extend_from_slice(&element.to_be_bytes());
                keys.put(key, value)?;
                operations.push(Operation::Append { key, element });
            }
            Step::Write(key) => {
                let value = self.new_value();
                keys.put(key, encode(&Value::Register(value)))?;
                operations.push(Operation::Write { key, value });
            }
            Step::ReadRange(range) | Step::RemoveRange(range) => {
                unreachable!("{range} is no single key")
            }
        }
        Ok(())
    }

    fn read(&self, key: Key, found: Option<Vec<u8>>) -> Operation {
        match found.map(|bytes| decode(key, &bytes)) {
            Some(Value::List(elements)) => Operation::ReadList { key, elements },
            Some(Value::Register(value)) => Operation::ReadRegister {
                key,
                value: Some(value),
            },
            None if self.workload.is_list(key) => Operation::ReadList {
                key,
                elements: Vec::new(),
            },
            None => Operation::ReadRegister { key, value: None },
        }
    }

    /// A value that no other write of the history has.
    fn new_value(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }
}

const LIST: u8 = b'l';
const REGISTER: u8 = b'r';

/// The bytes of a value: its kind, then its numbers.
pub fn encode(value: &Value) -> Vec<u8> {
    let (kind, numbers) = match value {
        Value::Register(number) => (REGISTER, std::slice::from_ref(number)),
        Value::List(elements) => (LIST, elements.as_slice()),
    };
    let bytes = numbers.iter().flat_map(|number| number.to_be_bytes());
    [kind].into_iter().chain(bytes).collect()
}

/// The value that bytes are.
///
/// # Panics
///
/// If [`encode`] does not make such bytes: then no transaction wrote them.
pub fn decode(key: Key, bytes: &[u8]) -> Value {
    let (kind, numbers) = bytes.split_first().unwrap_or((&0, &[]));
    let (numbers, rest) = numbers.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|number| u64::from_be_bytes(*number));
    match (*kind, numbers.len(), rest) {
        (LIST, _, []) => Value::List(numbers.collect()),
        (REGISTER, 1, []) => Value::Register(numbers.next().unwrap_or_default()),
        _ => panic!("{key} holds bytes that no transaction wrote: {bytes:?}"),
    }
}
