//! Could a database of some isolation level have answered so? A checker of recorded transactions.
//!
//! A test records what transactions read and wrote and when they began and ended ([`History`]);
//! [`check`] says whether they can be put into an order that the isolation level ([`Model`])
//! allows. It needs no database: [`driver`] records one, and any other program can.
//!
//! How it works, in the terms of Adya ("Weak Consistency", PhD thesis, MIT 1999), as Elle does it
//! (Kingsbury and Alvaro, VLDB 2020):
//!
//! 1. Every write has a unique value, so each read names the write that it saw (`writes`,
//!    `reads`). Reads of values that no commit left behind are anomalies by themselves: G1a, G1b
//!    (`dirty_reads`).
//! 2. For each key the order of versions follows: of lists from what they hold (`list_order`), of
//!    registers from commit timestamps (`register_order`).
//! 3. Versions and reads give dependencies between transactions: ww, wr, and rw, the latter also
//!    for keys that a range read did not find (`dependencies`). The clock gives the order of real
//!    time (`real_time`).
//! 4. A history is right if these have no cycle that the level forbids (`absences`, which also
//!    decides what reads of removed keys saw). If there is one, `phenomena` names it, and
//!    `explanation` says it in words.
//!
//! What it costs is proportional to the operations, to the elements of the lists that were read,
//! and to the keys of the history inside the ranges that were read.

mod absences;
mod anomaly;
mod cycles;
mod dependencies;
mod dirty_reads;
pub mod driver;
mod execution;
mod explanation;
mod graph;
mod history;
mod list_order;
mod model;
mod participants;
mod phenomena;
mod reads;
mod real_time;
mod register_order;
mod versions;
pub mod workload;
mod writes;

pub use anomaly::{Anomaly, CycleKind, CycleOrder, Phenomenon};
pub use history::{History, Key, KeyRange, Operation, Status, Transaction, Value};
pub use model::Model;

use absences::{Search, Verdict};
use dependencies::Dependencies;
use explanation::Explainer;
use reads::Read;
use versions::Versions;
use writes::{KeyKind, Writes};

/// What a checked history had in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions that committed.
    pub committed: usize,
    /// Transactions that aborted.
    pub aborted: usize,
    /// Transactions without an answer that others read from.
    pub unknown_seen: usize,
    /// Operations of all transactions.
    pub operations: usize,
    /// ww edges.
    pub write_dependencies: usize,
    /// wr edges.
    pub read_dependencies: usize,
    /// rw edges, phantoms included.
    pub anti_dependencies: usize,
    /// rw edges from range reads to the writers of keys that they lacked.
    pub predicate_anti_dependencies: usize,
    /// Edges of real time, without those that others imply.
    pub real_time: usize,
    /// Reads of absent registers that several removals explain. An order was found for them.
    pub absent_reads: usize,
    /// Reads of absent registers that were not checked at all, as nothing orders their versions.
    pub undetermined: usize,
    /// Whether the search for an order with the absent reads was given up: no anomaly was found,
    /// but one that only these reads show may have been missed.
    pub gave_up: bool,
}

/// Checks a history against an isolation level: the first anomaly, or what was checked.
pub fn check(history: &History, model: Model) -> Result<Statistics, Anomaly> {
    let writes = Writes::of(history)?;
    let reads = reads::external(history, &writes)?;
    let participants = participants::participants(history, &writes, &reads);
    dirty_reads::check(history, &writes, &reads, &participants)?;
    let versions = order_versions(history, &writes, &reads, &participants, model)?;
    let mut found = dependencies::of(&versions, &writes, &reads, &participants, model);
    if model.has_process_order() {
        let edges = real_time::process_edges(history, &participants)?;
        found.edges.extend(edges);
    }
    if model.has_real_time() {
        let edges = real_time::real_time_edges(history, &participants);
        found.edges.extend(edges);
    }
    let search = Search {
        history,
        versions: &versions,
        reads: &found.absent_reads,
        fixed: &found.edges,
        model,
    };
    let gave_up = match search.run() {
        Verdict::Ordered => false,
        Verdict::Undecided => true,
        Verdict::Cyclic { edges, chosen } => {
            let cycle = phenomena::find(history.transactions.len(), &edges, model);
            let explainer = Explainer {
                history,
                writes: &writes,
                versions: &versions,
            };
            return Err(explainer.anomaly(&cycle.expect("the edges have a cycle"), chosen));
        }
    };
    Ok(statistics(history, &participants, &found, gave_up))
}

fn order_versions(
    history: &History,
    writes: &Writes,
    reads: &[Vec<Read<'_>>],
    participants: &[bool],
    model: Model,
) -> Result<Versions, Anomaly> {
    let longest = list_order::longest_reads(writes, reads, participants)?;
    let mut own: Vec<Vec<u32>> = vec![Vec::new(); writes.keys.len()];
    let mut may_be_removed = vec![false; writes.keys.len()];
    for (number, write) in (0..).zip(&writes.all) {
        let status = history.transactions[write.transaction as usize].status;
        may_be_removed[write.key as usize] |= write.value.is_none() && status == Status::Unknown;
        let is_list = writes.kinds[write.key as usize] == KeyKind::List;
        if participants[write.transaction as usize] && (is_list || write.is_final) {
            own[write.key as usize].push(number);
        }
    }
    let mut versions = Versions::new(writes);
    for (key, own) in (0..).zip(&own) {
        let order = match writes.kinds[key as usize] {
            KeyKind::List => {
                let longest = longest[key as usize];
                let order = list_order::order(history, writes, (key, own), longest)?;
                // Timestamps order all of the chain: its lost updates are cycles.
                if model.has_anti_dependencies() && !order.loose.is_empty() {
                    list_order::check_unseen(writes, reads, &order)?;
                }
                order
            }
            KeyKind::Register => {
                let flags = (model.has_anti_dependencies(), may_be_removed[key as usize]);
                register_order::order(history, writes, own, reads, flags)?
            }
        };
        versions.add(writes, &order, may_be_removed[key as usize]);
    }
    Ok(versions)
}

fn statistics(
    history: &History,
    participants: &[bool],
    found: &Dependencies,
    gave_up: bool,
) -> Statistics {
    let mut statistics = Statistics {
        operations: history.operations(),
        absent_reads: found.absent_reads.len(),
        undetermined: found.undetermined,
        gave_up,
        ..Statistics::default()
    };
    for (transaction, participates) in history.transactions.iter().zip(participants) {
        match transaction.status {
            Status::Committed { .. } => statistics.committed += 1,
            Status::Aborted => statistics.aborted += 1,
            Status::Unknown if *participates => statistics.unknown_seen += 1,
            Status::Unknown => {}
        }
    }
    for edge in &found.edges {
        let reason = edge.reason;
        statistics.write_dependencies += usize::from(reason.is_write());
        statistics.read_dependencies += usize::from(reason.is_read());
        statistics.anti_dependencies += usize::from(reason.is_anti());
        statistics.predicate_anti_dependencies += usize::from(reason.is_predicate());
        statistics.real_time += usize::from(reason == graph::Reason::RealTime);
    }
    statistics
}
