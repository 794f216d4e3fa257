//! What is wrong with a history: the phenomenon's name, and the evidence in words.

use std::fmt;

/// What a history shows that its isolation level forbids. The names are Adya's ("Weak
/// Consistency", PhD thesis, MIT 1999), with Elle's additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phenomenon {
    /// The recording cannot be checked: two writes have one value, a key is both list and
    /// register, two commits have one timestamp.
    Malformed,
    /// A transaction does not see its own writes.
    Internal,
    /// A range read is out of order, has a key twice or a key outside its range.
    BrokenRange,
    /// A read found a value that nobody ever wrote.
    UnwrittenValue,
    /// A list has an element twice.
    DuplicateElement,
    /// A list has a later element of a transaction, but not an earlier one.
    LostElement,
    /// Two reads of a list are not prefixes of each other, or commit timestamps contradict it.
    IncompatibleOrder,
    /// Two transactions that nothing orders read one version of a key and both replaced it.
    LostUpdate,
    /// G1a, aborted read: a read found what an aborted transaction wrote.
    G1a,
    /// G1b, intermediate read: a read found what its writer itself replaced later.
    G1b,
    /// A cycle of dependencies.
    Cycle(CycleKind, CycleOrder),
}

/// Which dependencies a cycle has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CycleKind {
    /// G0, write cycle: write dependencies alone.
    G0,
    /// G1c, circular information flow: write and read dependencies.
    G1c,
    /// G-single, read skew: one anti-dependency. Lost updates and stale reads are of this kind.
    GSingle,
    /// G-nonadjacent: several anti-dependencies, no two of them adjacent.
    GNonadjacent,
    /// G2-item, write skew: adjacent anti-dependencies, all of them on keys that were read.
    G2Item,
    /// G2: adjacent anti-dependencies, at least one by a range read that lacked a key (a phantom).
    G2,
}

/// Which orders outside the database a cycle needs besides dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CycleOrder {
    /// None.
    DependenciesAlone,
    /// The order in which a process ran its transactions.
    Process,
    /// One transaction ended before another began.
    RealTime,
}

impl fmt::Display for Phenomenon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Phenomenon::Malformed => "malformed history",
            Phenomenon::Internal => "internal inconsistency",
            Phenomenon::BrokenRange => "broken range read",
            Phenomenon::UnwrittenValue => "unwritten value",
            Phenomenon::DuplicateElement => "duplicate element",
            Phenomenon::LostElement => "lost element",
            Phenomenon::IncompatibleOrder => "incompatible order",
            Phenomenon::LostUpdate => "lost update",
            Phenomenon::G1a => "G1a (aborted read)",
            Phenomenon::G1b => "G1b (intermediate read)",
            Phenomenon::Cycle(kind, order) => return write_cycle(f, *kind, *order),
        };
        f.write_str(name)
    }
}

fn write_cycle(f: &mut fmt::Formatter<'_>, kind: CycleKind, order: CycleOrder) -> fmt::Result {
    let (name, words) = match kind {
        CycleKind::G0 => ("G0", "write cycle"),
        CycleKind::G1c => ("G1c", "circular information flow"),
        CycleKind::GSingle => ("G-single", "read skew"),
        CycleKind::GNonadjacent => ("G-nonadjacent", "anti-dependencies apart"),
        CycleKind::G2Item => ("G2-item", "write skew"),
        CycleKind::G2 => ("G2", "phantom"),
    };
    match order {
        CycleOrder::DependenciesAlone => write!(f, "{name} ({words})"),
        CycleOrder::Process => write!(f, "{name}-process ({words}, against a process's order)"),
        CycleOrder::RealTime => write!(f, "{name}-realtime ({words}, against real time)"),
    }
}

/// Why no database of the isolation level could have answered so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub phenomenon: Phenomenon,
    /// The transactions that show it, by their number in the history; of a cycle, in its order.
    pub transactions: Vec<usize>,
    /// The evidence, in lines that end without a newline.
    pub(super) evidence: Vec<String>,
}

impl Anomaly {
    pub(super) fn new(phenomenon: Phenomenon, transactions: Vec<usize>, evidence: String) -> Self {
        Anomaly {
            phenomenon,
            transactions,
            evidence: vec![evidence],
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.phenomenon)?;
        for line in &self.evidence {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Anomaly {}
