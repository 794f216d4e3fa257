//! Every key and every write of a history, so that a value that was read names its writer.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Phenomenon};
use super::history::{History, Key, KeyRange, Operation, Value};

/// What a key holds for the whole history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Register,
    List,
}

/// One write. The number of a write is its place in [`Writes::all`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub transaction: u32,
    pub key: u32,
    /// `None` is a removal.
    pub value: Option<u64>,
    /// Whether its transaction writes the key no more afterwards.
    pub is_final: bool,
}

/// The keys and writes of a history. Keys are numbered in their order.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub keys: Vec<Key>,
    pub kinds: Vec<KeyKind>,
    /// By transaction, and in each in program order.
    pub all: Vec<Write>,
    by_value: HashMap<(u32, u64), u32>,
}

impl Writes {
    /// Fails if the history is malformed: a key of two kinds, or a value written twice.
    pub fn of(history: &History) -> Result<Self, Anomaly> {
        let mut writes = Writes::default();
        writes.number_keys(history)?;
        for (number, transaction) in history.transactions.iter().enumerate() {
            let first = writes.all.len();
            for operation in &transaction.operations {
                let (key, value) = match operation {
                    Operation::Append { key, element } => (*key, Some(*element)),
                    Operation::Write { key, value } => (*key, Some(*value)),
                    Operation::Remove { key } => (*key, None),
                    _ => continue,
                };
                writes.add(number, key, value)?;
            }
            let mut later: HashMap<u32, ()> = HashMap::new();
            for write in writes.all[first..].iter_mut().rev() {
                write.is_final = later.insert(write.key, ()).is_none();
            }
        }
        Ok(writes)
    }

    fn add(&mut self, transaction: usize, key: Key, value: Option<u64>) -> Result<(), Anomaly> {
        let id = self.key(key);
        let number = self.all.len() as u32;
        if let Some(value) = value
            && let Some(other) = self.by_value.insert((id, value), number)
        {
            let other = self.all[other as usize].transaction as usize;
            return Err(Anomaly::new(
                Phenomenon::Malformed,
                vec![other, transaction],
                format!("T{other} and T{transaction} both write {value} to {key}"),
            ));
        }
        self.all.push(Write {
            transaction: transaction as u32,
            key: id,
            value,
            is_final: false,
        });
        Ok(())
    }

    fn number_keys(&mut self, history: &History) -> Result<(), Anomaly> {
        let mut found: Vec<(Key, KeyKind, usize)> = Vec::new();
        for (number, transaction) in history.transactions.iter().enumerate() {
            for operation in &transaction.operations {
                let (key, kind) = match operation {
                    Operation::Append { key, .. } | Operation::ReadList { key, .. } => {
                        (key, KeyKind::List)
                    }
                    Operation::Write { key, .. }
                    | Operation::Remove { key }
                    | Operation::ReadRegister { key, .. } => (key, KeyKind::Register),
                    Operation::ReadRange { rows, .. } => {
                        let rows = rows.iter();
                        found.extend(rows.map(|(key, value)| (*key, kind_of(value), number)));
                        continue;
                    }
                };
                found.push((*key, kind, number));
            }
        }
        found.sort_unstable_by_key(|(key, _, number)| (*key, *number));
        found.dedup_by_key(|(key, kind, _)| (*key, *kind == KeyKind::List));
        for pair in found.windows(2) {
            let [(key, _, one), (other, _, another)] = [pair[0], pair[1]];
            if key == other {
                return Err(Anomaly::new(
                    Phenomenon::Malformed,
                    vec![one, another],
                    format!("{key} is a list in T{one} or T{another} and a register in the other"),
                ));
            }
        }
        self.keys = found.iter().map(|(key, ..)| *key).collect();
        self.kinds = found.iter().map(|(_, kind, _)| *kind).collect();
        Ok(())
    }

    /// The number of a key that the history has.
    pub fn key(&self, key: Key) -> u32 {
        self.keys.binary_search(&key).expect("a key of the history") as u32
    }

    /// The numbers of the keys in a range.
    pub fn keys_in(&self, range: KeyRange) -> std::ops::Range<u32> {
        let start = Key::new(range.keyspace, range.start);
        let end = Key::new(range.keyspace, range.end);
        let at = |bound| self.keys.partition_point(|key| *key < bound) as u32;
        at(start)..at(end)
    }

    /// The write that gave `value` to the key number `key`.
    pub fn find(&self, key: u32, value: u64) -> Option<u32> {
        self.by_value.get(&(key, value)).copied()
    }
}

/// What a key with this value is.
pub(super) fn kind_of(value: &Value) -> KeyKind {
    match value {
        Value::Register(_) => KeyKind::Register,
        Value::List(_) => KeyKind::List,
    }
}
