//! What a recording of transactions holds: who ran which operations on which keys, what each
//! answered, when it began and ended, and how.
//!
//! A key holds either a register or a list, for the whole history. A register takes a value that
//! no other write has, so a read names the write that it saw; a removal leaves a tombstone. A list
//! takes one unique element at its end, so a read shows the order of all writes before it. Lists
//! are the stronger evidence (Kingsbury and Alvaro, "Elle", VLDB 2020, section 3): their version
//! order is in the answers, while that of registers comes from commit timestamps.

use std::fmt;

/// A key: a keyspace and a number in it. Numbers order the keys of a keyspace as the database
/// orders their bytes, which [`Key::bytes`] sees to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which keyspace.
    pub keyspace: u32,
    /// Which key of the keyspace.
    pub number: u64,
}

impl Key {
    /// Key `number` of keyspace `keyspace`.
    pub fn new(keyspace: u32, number: u64) -> Self {
        Key { keyspace, number }
    }

    /// The number's eight bytes, which sort as numbers do.
    pub fn bytes(self) -> [u8; 8] {
        self.number.to_be_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.keyspace, self.number)
    }
}

/// The keys of one keyspace from `start` on, before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Which keyspace.
    pub keyspace: u32,
    /// The first number inside.
    pub start: u64,
    /// The first number behind.
    pub end: u64,
}

impl KeyRange {
    /// Whether the range covers `key`.
    pub fn contains(&self, key: Key) -> bool {
        key.keyspace == self.keyspace && (self.start..self.end).contains(&key.number)
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}..{}", self.keyspace, self.start, self.end)
    }
}

/// What a key holds where a range read finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A register's value.
    Register(u64),
    /// A list's elements, from the first append on.
    List(Vec<u64>),
}

/// One operation of a transaction, with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Added an element, which no other append of the history adds, to the end of a list.
    Append {
        /// The list.
        key: Key,
        /// The element.
        element: u64,
    },
    /// Read a list; an absent key is the empty list.
    ReadList {
        /// The list.
        key: Key,
        /// All its elements.
        elements: Vec<u64>,
    },
    /// Wrote a value, which no other write of the history writes, to a register.
    Write {
        /// The register.
        key: Key,
        /// The value.
        value: u64,
    },
    /// Removed a register.
    Remove {
        /// The register.
        key: Key,
    },
    /// Read a register.
    ReadRegister {
        /// The register.
        key: Key,
        /// Its value, `None` when the key was absent.
        value: Option<u64>,
    },
    /// Read all keys of a range. Whatever key of the range is not among the rows was absent.
    ReadRange {
        /// The range.
        range: KeyRange,
        /// Keys and what they held, ascending.
        rows: Vec<(Key, Value)>,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Append { key, element } => write!(f, "append {element} to {key}"),
            Operation::ReadList { key, elements } => write!(f, "read {key} = {elements:?}"),
            Operation::Write { key, value } => write!(f, "write {key} = {value}"),
            Operation::Remove { key } => write!(f, "remove {key}"),
            Operation::ReadRegister { key, value: None } => write!(f, "read {key} = absent"),
            Operation::ReadRegister {
                key,
                value: Some(value),
            } => write!(f, "read {key} = {value}"),
            Operation::ReadRange { range, rows } => {
                write!(f, "read range {range} = {{")?;
                for (at, (key, value)) in rows.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    match value {
                        Value::Register(value) => write!(f, "{comma}{key}: {value}")?,
                        Value::List(elements) => write!(f, "{comma}{key}: {elements:?}")?,
                    }
                }
                f.write_str("}")
            }
        }
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The commit was acknowledged.
    Committed {
        /// Its place in the order of commits, if the database reports one. It orders the versions
        /// of registers; no two transactions that write may have the same.
        timestamp: Option<u64>,
    },
    /// The database said that nothing happened, or the client gave up before it committed.
    Aborted,
    /// No answer came: it committed, will commit, or never does.
    Unknown,
}

/// One transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The client that ran it; a client runs one transaction after the other.
    pub process: usize,
    /// When the client asked for it, on a clock that all processes share.
    pub begin: u64,
    /// When the client had the answer to its commit. Not looked at when the status is unknown.
    pub end: u64,
    /// How it ended.
    pub status: Status,
    /// What it did, in program order.
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// The commit timestamp, if it has one.
    pub fn timestamp(&self) -> Option<u64> {
        match self.status {
            Status::Committed { timestamp } => timestamp,
            Status::Aborted | Status::Unknown => None,
        }
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}, ", self.process)?;
        match self.status {
            Status::Committed {
                timestamp: Some(at),
            } => write!(f, "committed as {at}, ")?,
            Status::Committed { timestamp: None } => f.write_str("committed, ")?,
            Status::Aborted => f.write_str("aborted, ")?,
            Status::Unknown => f.write_str("without an answer, ")?,
        }
        match self.status {
            Status::Unknown => write!(f, "from {}:", self.begin)?,
            _ => write!(f, "from {} to {}:", self.begin, self.end)?,
        }
        for (at, operation) in self.operations.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma} {operation}")?;
        }
        Ok(())
    }
}

/// A recording. Every key is absent at its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions, in any order; messages call number `n` of them `Tn`.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// How many operations the transactions have in all.
    pub fn operations(&self) -> usize {
        self.transactions.iter().map(|t| t.operations.len()).sum()
    }
}
