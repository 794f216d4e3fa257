//! Orders outside the database: of each process's transactions, and of real time.
//!
//! Transactions that do not overlap in time are ordered, which is a quadratic number of pairs.
//! Only those that no others imply become edges: a sweep over begins and ends holds the
//! *frontier*, the ended transactions that no other ended one follows, and a beginning
//! transaction comes after just these (as in Elle). The frontier is no larger than the number of
//! processes, so the sweep is linear but for sorting.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Phenomenon};
use super::graph::{Edge, Reason};
use super::history::{History, Status};

/// Edges from each transaction to the next one of its process. A transaction without an answer may
/// take effect after its process went on, so nothing follows it. Fails if a process began one
/// before another ended.
pub(super) fn process_edges(
    history: &History,
    participants: &[bool],
) -> Result<Vec<Edge>, Anomaly> {
    let mut last: HashMap<usize, u32> = HashMap::new();
    let mut edges = Vec::new();
    for number in by_begin(history, participants) {
        let transaction = &history.transactions[number as usize];
        if let Some(from) = last.get(&transaction.process) {
            if history.transactions[*from as usize].end > transaction.begin {
                let process = transaction.process;
                return Err(Anomaly::new(
                    Phenomenon::Malformed,
                    vec![*from as usize, number as usize],
                    format!("process {process} began T{number} before its T{from} ended"),
                ));
            }
            edges.push(Edge {
                from: *from,
                to: number,
                reason: Reason::Process,
            });
        }
        if transaction.status != Status::Unknown {
            last.insert(transaction.process, number);
        }
    }
    Ok(edges)
}

/// The transitive reduction of: one ended before the other began. Equal instants overlap.
pub(super) fn real_time_edges(history: &History, participants: &[bool]) -> Vec<Edge> {
    let begins = by_begin(history, participants);
    let mut ends: Vec<u32> = begins.clone();
    ends.retain(|number| history.transactions[*number as usize].status != Status::Unknown);
    ends.sort_by_key(|number| history.transactions[*number as usize].end);
    let mut ends = ends.into_iter().peekable();
    let mut frontier: Vec<u32> = Vec::new();
    let mut edges = Vec::new();
    for beginning in begins {
        let begin = history.transactions[beginning as usize].begin;
        while let Some(ended) =
            ends.next_if(|ended| history.transactions[*ended as usize].end < begin)
        {
            let began = history.transactions[ended as usize].begin;
            frontier.retain(|other| history.transactions[*other as usize].end >= began);
            frontier.push(ended);
        }
        edges.extend(frontier.iter().map(|from| Edge {
            from: *from,
            to: beginning,
            reason: Reason::RealTime,
        }));
    }
    edges
}

fn by_begin(history: &History, participants: &[bool]) -> Vec<u32> {
    let numbers = 0..history.transactions.len() as u32;
    let mut begins: Vec<u32> = numbers
        .filter(|number| participants[*number as usize])
        .collect();
    begins.sort_by_key(|number| history.transactions[*number as usize].begin);
    begins
}
