//! A cycle in words: for each edge which transactions, which key, which versions, and why the one
//! precedes the other.

use super::anomaly::{Anomaly, Phenomenon};
use super::graph::{Edge, Reason};
use super::history::{History, Key, Operation, Transaction};
use super::phenomena::NamedCycle;
use super::reads::NO_RANGE;
use super::versions::{NONE, Versions};
use super::writes::{KeyKind, Writes};

/// Lists of more elements than this are shortened in the middle.
const MOST_ELEMENTS: usize = 8;

/// What the words of a cycle are taken from.
#[derive(Debug)]
pub(super) struct Explainer<'a> {
    pub history: &'a History,
    pub writes: &'a Writes,
    pub versions: &'a Versions,
}

impl Explainer<'_> {
    /// The anomaly that a cycle is. `chosen` says that the cycle stands for others like it, one
    /// for each choice of what absent reads saw.
    pub fn anomaly(&self, cycle: &NamedCycle, chosen: bool) -> Anomaly {
        let transactions: Vec<usize> = cycle.edges.iter().map(|edge| edge.from as usize).collect();
        let mut evidence = Vec::new();
        for edge in &cycle.edges {
            let Edge { from, to, reason } = edge;
            let why = self.reason(*from, *to, *reason);
            evidence.push(format!("T{from} precedes T{to}: {why}"));
        }
        let first = transactions[0];
        evidence.push(format!("so T{first} would precede itself"));
        if chosen {
            evidence.push(
                "(a read of an absent key does not say which removal it saw: each possible one \
                 leads to a cycle, of which this is one)"
                    .to_owned(),
            );
        }
        let keys = self.keys(cycle);
        for number in &transactions {
            let transaction = &self.history.transactions[*number];
            evidence.push(format!("T{number}: {}", shortened(transaction, &keys)));
        }
        Anomaly {
            phenomenon: Phenomenon::Cycle(cycle.kind, cycle.order),
            transactions,
            evidence,
        }
    }

    fn reason(&self, from: u32, to: u32, reason: Reason) -> String {
        match reason {
            Reason::Write { before, after } => {
                let key = self.name(after);
                let (wrote, replaced) = (self.wrote(before), self.wrote(after));
                match self.is_list(after) {
                    true => format!("T{from} {wrote} to {key}, and T{to} {replaced} next (ww)"),
                    false => format!("T{from} {wrote}, and T{to} {replaced} next (ww)"),
                }
            }
            Reason::Read { version, range } => {
                let by = self.by_range(to, range);
                format!(
                    "T{from} {}, which T{to} read{by} (wr)",
                    self.wrote_to(version)
                )
            }
            Reason::ReadNoEarlier { version, range } => {
                let by = self.by_range(to, range);
                format!(
                    "T{from} {}, and T{to} read{by} that removal or a later one (wr)",
                    self.wrote_to(version)
                )
            }
            Reason::Anti {
                version,
                next,
                range,
                is_predicate,
            } => {
                let (by, found) = (self.by_range(from, range), self.found(version));
                let replaced = self.wrote_to(next);
                let phantom = if is_predicate { ", phantom" } else { "" };
                format!("T{from} read{by} {found}, before T{to} {replaced} (rw{phantom})")
            }
            Reason::AntiNoLater {
                version,
                next,
                range,
                is_predicate,
            } => {
                let (by, found) = (self.by_range(from, range), self.found(version));
                let replaced = self.wrote_to(next);
                let phantom = if is_predicate { ", phantom" } else { "" };
                format!(
                    "T{from} read{by} {found}, the latest time before T{to} {replaced} \
                     (rw{phantom})"
                )
            }
            Reason::Process => {
                let process = self.history.transactions[from as usize].process;
                format!("process {process} ran T{from} before T{to} (process order)")
            }
            Reason::RealTime => {
                let [end, begin] = [
                    self.history.transactions[from as usize].end,
                    self.history.transactions[to as usize].begin,
                ];
                format!("T{from} ended at {end}, before T{to} began at {begin} (real time)")
            }
        }
    }

    fn key(&self, version: u32) -> Key {
        let key = self.versions.version(version).key;
        self.writes.keys[key as usize]
    }

    fn is_list(&self, version: u32) -> bool {
        let key = self.versions.version(version).key;
        self.writes.kinds[key as usize] == KeyKind::List
    }

    fn name(&self, version: u32) -> String {
        match self.is_list(version) {
            true => format!("list {}", self.key(version)),
            false => format!("{}", self.key(version)),
        }
    }

    /// How a version came to be, for example "wrote 0/3 = 7".
    fn wrote(&self, version: u32) -> String {
        let key = self.key(version);
        match (self.versions.version(version).value, self.is_list(version)) {
            (Some(element), true) => format!("appended {element}"),
            (Some(value), false) => format!("wrote {key} = {value}"),
            (None, _) => format!("removed {key}"),
        }
    }

    fn wrote_to(&self, version: u32) -> String {
        match self.is_list(version) {
            true => format!("{} to {}", self.wrote(version), self.name(version)),
            false => self.wrote(version),
        }
    }

    /// What a read found, for example "0/3 = 7".
    fn found(&self, version: u32) -> String {
        let at = self.versions.version(version);
        let name = self.name(version);
        match (at.value, self.is_list(version)) {
            (Some(element), true) => format!("{name} up to {element}"),
            (None, true) => format!("{name} empty"),
            (Some(value), false) => format!("{name} = {value}"),
            (None, false) if at.writer == NONE => format!("{name} absent"),
            (None, false) => format!("{name} absent as T{} left it", at.writer),
        }
    }

    fn by_range(&self, reader: u32, operation: u32) -> String {
        if operation == NO_RANGE {
            return String::new();
        }
        let operations = &self.history.transactions[reader as usize].operations;
        match &operations[operation as usize] {
            Operation::ReadRange { range, .. } => format!(", in range {range},"),
            _ => String::new(),
        }
    }

    /// The keys that a cycle is about.
    fn keys(&self, cycle: &NamedCycle) -> Vec<Key> {
        let versions = cycle.edges.iter().filter_map(|edge| match edge.reason {
            Reason::Write { after: version, .. }
            | Reason::Read { version, .. }
            | Reason::ReadNoEarlier { version, .. }
            | Reason::Anti { version, .. }
            | Reason::AntiNoLater { version, .. } => Some(version),
            Reason::Process | Reason::RealTime => None,
        });
        versions.map(|version| self.key(version)).collect()
    }
}

/// The transaction without operations on other keys and rows, and without the middle of lists.
fn shortened(transaction: &Transaction, keys: &[Key]) -> String {
    let operations = transaction.operations.iter();
    let concerned: Vec<String> = operations
        .filter_map(|operation| match operation {
            Operation::Append { key, .. }
            | Operation::Write { key, .. }
            | Operation::Remove { key }
            | Operation::ReadRegister { key, .. } => {
                keys.contains(key).then(|| operation.to_string())
            }
            Operation::ReadList { key, elements } => keys.contains(key).then(|| {
                if elements.len() <= MOST_ELEMENTS {
                    return operation.to_string();
                }
                let last = &elements[elements.len() - MOST_ELEMENTS / 2..];
                let number = elements.len();
                format!("read {key} = {number} elements, the last of them {last:?}")
            }),
            Operation::ReadRange { range, rows } => {
                let covers = keys.iter().any(|key| range.contains(*key));
                covers.then(|| format!("read range {range} with {} rows", rows.len()))
            }
        })
        .collect();
    let left_out = transaction.operations.len() - concerned.len();
    let rest = match left_out {
        0 => String::new(),
        number => format!(", and {number} operations on other keys"),
    };
    let head = Transaction {
        operations: Vec::new(),
        ..transaction.clone()
    };
    format!("{head} {}{rest}", concerned.join(", "))
}
