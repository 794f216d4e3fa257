//! What each transaction read of others: its answers without what it had written itself.
//!
//! A transaction must see its own writes: a register that it wrote has what it wrote last, and a
//! list ends in what it appended. Only the rest of an answer says anything of other transactions.
//! A range read is one read for every key of the history inside its range: of the keys among its
//! rows, and of all others, which it says were absent.

use std::collections::BTreeMap;

use super::anomaly::{Anomaly, Phenomenon};
use super::history::{History, Key, KeyRange, Operation, Status, Value};
use super::writes::{KeyKind, Writes};

/// No range: the read was of its key alone.
pub(super) const NO_RANGE: u32 = u32::MAX;

/// What a transaction saw of others at one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen<'h> {
    /// A register's value.
    Value(u64),
    /// No register: it had not been written yet, or had been removed.
    Absent,
    /// A list's elements; none when absent.
    Elements(&'h [u64]),
}

/// One read of what others wrote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read<'h> {
    pub key: u32,
    pub seen: Seen<'h>,
    /// The operation that read a range, by its place in the transaction, or [`NO_RANGE`].
    pub range: u32,
    /// Whether the transaction writes the key later: then it replaces what it saw.
    pub is_before_write: bool,
}

impl Read<'_> {
    /// Whether a range read found the key missing.
    pub fn is_predicate(&self) -> bool {
        let is_absent = matches!(self.seen, Seen::Absent | Seen::Elements([]));
        self.range != NO_RANGE && is_absent
    }
}

/// The reads of each transaction that did not abort, in program order.
pub(super) fn external<'h>(
    history: &'h History,
    writes: &Writes,
) -> Result<Vec<Vec<Read<'h>>>, Anomaly> {
    let transactions = history.transactions.iter().enumerate();
    let reads = transactions.map(|(number, transaction)| {
        let mut reader = Reader {
            writes,
            number,
            own: BTreeMap::new(),
            reads: Vec::new(),
        };
        if transaction.status != Status::Aborted {
            for (at, operation) in transaction.operations.iter().enumerate() {
                reader.follow(at as u32, operation)?;
            }
        }
        for read in &mut reader.reads {
            read.is_before_write = reader.own.contains_key(&read.key);
        }
        Ok(reader.reads)
    });
    reads.collect()
}

/// What a transaction itself did to a key so far.
#[derive(Debug)]
enum Own {
    Register(Option<u64>),
    Appended(Vec<u64>),
}

struct Reader<'h, 'w> {
    writes: &'w Writes,
    number: usize,
    own: BTreeMap<u32, Own>,
    reads: Vec<Read<'h>>,
}

impl<'h> Reader<'h, '_> {
    fn follow(&mut self, at: u32, operation: &'h Operation) -> Result<(), Anomaly> {
        match operation {
            Operation::Append { key, element } => {
                let own = self.own.entry(self.writes.key(*key));
                match own.or_insert_with(|| Own::Appended(Vec::new())) {
                    Own::Appended(elements) => elements.push(*element),
                    Own::Register(_) => unreachable!("a key has one kind"),
                }
                Ok(())
            }
            Operation::Write { key, value } => {
                let own = Own::Register(Some(*value));
                self.own.insert(self.writes.key(*key), own);
                Ok(())
            }
            Operation::Remove { key } => {
                self.own.insert(self.writes.key(*key), Own::Register(None));
                Ok(())
            }
            Operation::ReadList { key, elements } => {
                self.read_list(self.writes.key(*key), elements, NO_RANGE)
            }
            Operation::ReadRegister { key, value } => {
                self.read_register(self.writes.key(*key), *value, NO_RANGE)
            }
            Operation::ReadRange { range, rows } => self.read_range(at, *range, rows),
        }
    }

    fn read_register(&mut self, key: u32, value: Option<u64>, range: u32) -> Result<(), Anomaly> {
        match self.own.get(&key) {
            None => {
                self.add(key, value.map_or(Seen::Absent, Seen::Value), range);
                Ok(())
            }
            Some(Own::Register(own)) if *own == value => Ok(()),
            Some(Own::Register(own)) => Err(self.internal(key, &shown(*own), &shown(value))),
            Some(Own::Appended(own)) => Err(self.internal(key, &format!("{own:?}"), &shown(value))),
        }
    }

    fn read_list(&mut self, key: u32, elements: &'h [u64], range: u32) -> Result<(), Anomaly> {
        let others = match self.own.get(&key) {
            None => Some(elements),
            Some(Own::Appended(own)) => elements.strip_suffix(own.as_slice()),
            Some(Own::Register(_)) => None,
        };
        match others {
            Some(others) => {
                self.add(key, Seen::Elements(others), range);
                Ok(())
            }
            None => {
                let own = match self.own.get(&key) {
                    Some(Own::Appended(own)) => format!("… {own:?}"),
                    Some(Own::Register(own)) => shown(*own),
                    None => String::new(),
                };
                Err(self.internal(key, &own, &format!("{elements:?}")))
            }
        }
    }

    fn read_range(
        &mut self,
        at: u32,
        range: KeyRange,
        rows: &'h [(Key, Value)],
    ) -> Result<(), Anomaly> {
        let ascends = rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let stray = rows.iter().find(|(key, _)| !range.contains(*key));
        if !ascends || stray.is_some() {
            let what = match stray {
                Some((key, _)) => format!("found {key}, which is outside"),
                None => "has keys twice or not in order".to_owned(),
            };
            return Err(Anomaly::new(
                Phenomenon::BrokenRange,
                vec![self.number],
                format!("T{}'s read of range {range} {what}", self.number),
            ));
        }
        let mut rows = rows.iter().peekable();
        for key in self.writes.keys_in(range) {
            let row = rows.next_if(|(row, _)| *row == self.writes.keys[key as usize]);
            match (row.map(|(_, value)| value), self.writes.kinds[key as usize]) {
                (Some(Value::Register(value)), _) => self.read_register(key, Some(*value), at)?,
                (Some(Value::List(elements)), _) => self.read_list(key, elements, at)?,
                (None, KeyKind::Register) => self.read_register(key, None, at)?,
                (None, KeyKind::List) => self.read_list(key, &[], at)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, key: u32, seen: Seen<'h>, range: u32) {
        self.reads.push(Read {
            key,
            seen,
            range,
            is_before_write: false,
        });
    }

    fn internal(&self, key: u32, own: &str, found: &str) -> Anomaly {
        let number = self.number;
        let key = self.writes.keys[key as usize];
        Anomaly::new(
            Phenomenon::Internal,
            vec![number],
            format!("T{number} made {key} = {own} itself, and then read {key} = {found}"),
        )
    }
}

fn shown(value: Option<u64>) -> String {
    value.map_or("absent".to_owned(), |value| value.to_string())
}
