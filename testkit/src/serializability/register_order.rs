//! The version order of registers: by the commit timestamps of their writers; else by what
//! transactions read of the register before they wrote it.
//!
//! From snapshot isolation on, a transaction that reads a version and writes the key replaces just
//! that version: two that replace the same one lost an update.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Phenomenon};
use super::history::History;
use super::reads::{Read, Seen};
use super::versions::{NONE, WriteOrder};
use super::writes::Writes;

/// The order of the final writes of a register, which are `own`.
///
/// `replaces_what_it_read` says whether the isolation level allows the second way,
/// `may_be_removed` whether a removal is unanswered.
pub(super) fn order(
    history: &History,
    writes: &Writes,
    own: &[u32],
    reads: &[Vec<Read<'_>>],
    (replaces_what_it_read, may_be_removed): (bool, bool),
) -> Result<WriteOrder, Anomaly> {
    let timestamp = |write: &u32| {
        let transaction = writes.all[*write as usize].transaction;
        history.transactions[transaction as usize].timestamp()
    };
    let (mut chain, mut others): (Vec<u32>, Vec<u32>) =
        own.iter().partition(|write| timestamp(write).is_some());
    chain.sort_by_key(timestamp);
    for pair in chain.windows(2) {
        if timestamp(&pair[0]) == timestamp(&pair[1]) {
            return Err(same_timestamp(
                writes,
                [pair[0], pair[1]],
                timestamp(&pair[0]),
            ));
        }
    }
    if others.is_empty() {
        return Ok(WriteOrder {
            chain,
            ..WriteOrder::default()
        });
    }
    let is_removal = |write: &u32| writes.all[*write as usize].value.is_none();
    let has_removals = may_be_removed || own.iter().any(is_removal);
    let mut replaced_by: HashMap<u32, u32> = HashMap::new();
    if replaces_what_it_read {
        for write in &others {
            let Some(read) = replaced_version(writes, *write, reads, has_removals) else {
                continue;
            };
            if let Some(other) = replaced_by.insert(read, *write) {
                return Err(lost_update(writes, read, [other, *write]));
            }
        }
    }
    let mut ordered = Vec::with_capacity(own.len());
    for version in [NONE].into_iter().chain(chain) {
        follow(version, &mut replaced_by, &mut ordered);
    }
    ordered.remove(0);
    others.retain(|write| !ordered.contains(write));
    Ok(WriteOrder {
        chain: ordered,
        loose: loose_chains(others, &mut replaced_by),
        follows: 0,
    })
}

/// Adds a version and all that replaced it one after the other.
fn follow(version: u32, replaced_by: &mut HashMap<u32, u32>, ordered: &mut Vec<u32>) {
    ordered.push(version);
    let mut last = version;
    while let Some(next) = replaced_by.remove(&last) {
        ordered.push(next);
        last = next;
    }
}

/// Chains of the writes that nothing joins to the initial version or to timestamps. Writes that
/// replace each other in a circle have no first one: such a chain begins anywhere.
fn loose_chains(others: Vec<u32>, replaced_by: &mut HashMap<u32, u32>) -> Vec<Vec<u32>> {
    let replacing: Vec<u32> = replaced_by.values().copied().collect();
    let (circular, first): (Vec<u32>, Vec<u32>) = others
        .into_iter()
        .partition(|write| replacing.contains(write));
    let mut chains: Vec<Vec<u32>> = Vec::new();
    for write in first.into_iter().chain(circular) {
        if chains.iter().any(|chain| chain.contains(&write)) {
            continue;
        }
        let mut chain = Vec::new();
        follow(write, replaced_by, &mut chain);
        // A circle closes at the write that it began with.
        if chain.len() > 1 && chain.last() == Some(&write) {
            chain.pop();
        }
        chains.push(chain);
    }
    chains
}

/// The write whose version the writer of `write` read before, [`NONE`] for the initial version.
fn replaced_version(
    writes: &Writes,
    write: u32,
    reads: &[Vec<Read<'_>>],
    has_removals: bool,
) -> Option<u32> {
    let write = writes.all[write as usize];
    let reads = reads[write.transaction as usize].iter();
    let read = reads.rev().find(|read| read.key == write.key)?;
    match read.seen {
        Seen::Value(value) => writes.find(write.key, value),
        Seen::Absent => (!has_removals).then_some(NONE),
        Seen::Elements(_) => None,
    }
}

fn lost_update(writes: &Writes, read: u32, by: [u32; 2]) -> Anomaly {
    let [one, two] = by.map(|write| writes.all[write as usize]);
    let key = writes.keys[one.key as usize];
    let read = match read {
        NONE => "absent".to_owned(),
        read => format!("{:?}", writes.all[read as usize].value.unwrap_or_default()),
    };
    let (one, two) = (one.transaction as usize, two.transaction as usize);
    Anomaly::new(
        Phenomenon::LostUpdate,
        vec![one, two],
        format!("T{one} and T{two} both read {key} = {read}, and both replaced it"),
    )
}

fn same_timestamp(writes: &Writes, by: [u32; 2], timestamp: Option<u64>) -> Anomaly {
    let [one, two] = by.map(|write| writes.all[write as usize]);
    let key = writes.keys[one.key as usize];
    let (one, two) = (one.transaction as usize, two.transaction as usize);
    let timestamp = timestamp.unwrap_or_default();
    Anomaly::new(
        Phenomenon::Malformed,
        vec![one, two],
        format!("T{one} and T{two} both write {key} and both committed as {timestamp}"),
    )
}
