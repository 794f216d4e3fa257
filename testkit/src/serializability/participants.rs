//! Which transactions took part: those that committed, and those without an answer that a
//! participant read from. An unanswered transaction that nobody read from might as well have
//! aborted, which asks less of the others; it is left out.

use std::collections::HashSet;

use super::history::{History, Status};
use super::reads::{Read, Seen};
use super::writes::Writes;

/// For each transaction whether it took part.
pub(super) fn participants(
    history: &History,
    writes: &Writes,
    reads: &[Vec<Read<'_>>],
) -> Vec<bool> {
    let transactions = &history.transactions;
    let is_committed = |status| matches!(status, Status::Committed { .. });
    let mut takes_part: Vec<bool> = transactions
        .iter()
        .map(|transaction| is_committed(transaction.status))
        .collect();
    let has_unknown = transactions.iter().any(|t| t.status == Status::Unknown);
    if !has_unknown {
        return takes_part;
    }
    let mut open: Vec<usize> = (0..transactions.len())
        .filter(|&number| takes_part[number])
        .collect();
    // Readers of a list share its first elements: each is looked up once.
    let mut looked_up: HashSet<(u32, u64)> = HashSet::new();
    while let Some(reader) = open.pop() {
        for read in &reads[reader] {
            let one;
            let values = match read.seen {
                Seen::Absent => continue,
                Seen::Value(value) => {
                    one = [value];
                    &one[..]
                }
                Seen::Elements(elements) => elements,
            };
            for value in values.iter().rev() {
                if !looked_up.insert((read.key, *value)) {
                    break;
                }
                let Some(write) = writes.find(read.key, *value) else {
                    continue;
                };
                let writer = writes.all[write as usize].transaction as usize;
                if transactions[writer].status == Status::Unknown && !takes_part[writer] {
                    takes_part[writer] = true;
                    open.push(writer);
                }
            }
        }
    }
    takes_part
}
