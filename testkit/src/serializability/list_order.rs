//! The version order of lists, which their reads show: a list grows at its end alone, so every
//! read is a prefix of the longest one, and the longest one is the order of the writes it has.
//!
//! An element that no read has was appended after the longest read was taken, or all the longest
//! reads would have it. Commit timestamps order such elements among each other, if they have any.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Phenomenon};
use super::dirty_reads::written;
use super::history::History;
use super::reads::{Read, Seen};
use super::versions::WriteOrder;
use super::writes::Writes;

/// A read of a list, and who did it.
type ListRead<'h> = (usize, &'h [u64]);

/// The longest read of each key by a participant; the others are its prefixes.
pub(super) fn longest_reads<'h>(
    writes: &Writes,
    reads: &[Vec<Read<'h>>],
    participants: &[bool],
) -> Result<Vec<ListRead<'h>>, Anomaly> {
    let list_reads = || {
        let by = reads.iter().enumerate();
        let by = by.filter(|(reader, _)| participants[*reader]);
        by.flat_map(|(reader, reads)| reads.iter().map(move |read| (reader, read)))
            .filter_map(|(reader, read)| match read.seen {
                Seen::Elements(elements) => Some((reader, read.key, elements)),
                Seen::Value(_) | Seen::Absent => None,
            })
    };
    let mut longest: Vec<ListRead<'h>> = vec![(0, &[]); writes.keys.len()];
    for (reader, key, elements) in list_reads() {
        let longest = &mut longest[key as usize];
        if elements.len() > longest.1.len() {
            *longest = (reader, elements);
        }
    }
    for (reader, key, elements) in list_reads() {
        let (other, others) = longest[key as usize];
        if !others.starts_with(elements) {
            let key = writes.keys[key as usize];
            return Err(Anomaly::new(
                Phenomenon::IncompatibleOrder,
                vec![reader, other],
                format!(
                    "T{reader} read {elements:?} of list {key}, and T{other} read {others:?}, \
                     which does not begin so: no order of appends explains both"
                ),
            ));
        }
    }
    Ok(longest)
}

/// The order of the writes of the list number `key`, which are `own`.
pub(super) fn order(
    history: &History,
    writes: &Writes,
    (key, own): (u32, &[u32]),
    (reader, longest): ListRead<'_>,
) -> Result<WriteOrder, Anomaly> {
    let mut place: HashMap<u32, usize> = HashMap::with_capacity(longest.len());
    let mut chain = Vec::with_capacity(own.len());
    for (at, element) in longest.iter().enumerate() {
        let write = written(history, writes, (reader, key), *element)?;
        if place.insert(write, at).is_some() {
            let key = writes.keys[key as usize];
            return Err(Anomaly::new(
                Phenomenon::DuplicateElement,
                vec![reader],
                format!("T{reader} read {longest:?} of list {key}, which has {element} twice"),
            ));
        }
        chain.push(write);
    }
    check_order_of_own(writes, own, &place, (reader, longest))?;
    let timestamp = |write: u32| {
        let transaction = writes.all[write as usize].transaction;
        history.transactions[transaction as usize].timestamp()
    };
    let unseen = own.iter().filter(|write| !place.contains_key(*write));
    let (mut timed, untimed): (Vec<u32>, Vec<u32>) =
        unseen.partition(|write| timestamp(**write).is_some());
    timed.sort_by_key(|write| timestamp(*write));
    let follows = chain.len();
    chain.append(&mut timed);
    check_timestamps(writes, &chain, follows, timestamp)?;
    let mut loose: Vec<Vec<u32>> = Vec::new();
    for write in untimed {
        let transaction = writes.all[write as usize].transaction;
        match loose.last_mut() {
            Some(last) if writes.all[last[0] as usize].transaction == transaction => {
                last.push(write);
            }
            _ => loose.push(vec![write]),
        }
    }
    Ok(WriteOrder {
        chain,
        loose,
        follows,
    })
}

/// The elements of one transaction stand in the list in the order in which it appended them, and
/// none before one that is there is missing.
fn check_order_of_own(
    writes: &Writes,
    own: &[u32],
    place: &HashMap<u32, usize>,
    (reader, longest): ListRead<'_>,
) -> Result<(), Anomaly> {
    for pair in own.windows(2) {
        let [first, second] = [pair[0], pair[1]].map(|write| writes.all[write as usize]);
        if first.transaction != second.transaction {
            continue;
        }
        let phenomenon = match (place.get(&pair[0]), place.get(&pair[1])) {
            (None, Some(_)) => Phenomenon::LostElement,
            (Some(at), Some(next)) if at > next => Phenomenon::IncompatibleOrder,
            _ => continue,
        };
        let (writer, key) = (first.transaction as usize, writes.keys[first.key as usize]);
        let [first, second] = [first, second].map(|write| write.value.unwrap_or_default());
        return Err(Anomaly::new(
            phenomenon,
            vec![writer, reader],
            format!(
                "T{writer} appended {first} to list {key} and then {second}, and T{reader} read \
                 {longest:?}"
            ),
        ));
    }
    Ok(())
}

/// Two transactions that both read all that was read of a list, and appended to it what is in no
/// read, did not see each other's append: one of the two is lost.
pub(super) fn check_unseen(
    writes: &Writes,
    reads: &[Vec<Read<'_>>],
    order: &WriteOrder,
) -> Result<(), Anomaly> {
    let unseen = order.chain[order.follows..].iter();
    let unseen = unseen.chain(order.loose.iter().flatten());
    let mut first: Option<u32> = None;
    for write in unseen.map(|write| writes.all[*write as usize]) {
        let is_last = |read: &Read<'_>| {
            let seen = match read.seen {
                Seen::Elements(elements) => elements.len(),
                Seen::Value(_) | Seen::Absent => return false,
            };
            read.key == write.key && seen == order.follows
        };
        if !reads[write.transaction as usize].iter().any(is_last) {
            continue;
        }
        let other = *first.get_or_insert(write.transaction);
        if other != write.transaction {
            let (one, two) = (other as usize, write.transaction as usize);
            let key = writes.keys[write.key as usize];
            let elements = order.follows;
            return Err(Anomaly::new(
                Phenomenon::LostUpdate,
                vec![one, two],
                format!(
                    "T{one} and T{two} both read {elements} elements of list {key}, and both \
                     appended the next one"
                ),
            ));
        }
    }
    Ok(())
}

/// Timestamps ascend along the list. The first `seen` elements of `chain` were read.
fn check_timestamps(
    writes: &Writes,
    chain: &[u32],
    seen: usize,
    timestamp: impl Fn(u32) -> Option<u64>,
) -> Result<(), Anomaly> {
    let mut latest: Option<(u64, u32)> = None;
    for (at, write) in chain.iter().enumerate() {
        let Some(committed) = timestamp(*write) else {
            continue;
        };
        if let Some((before, other)) = latest
            && before > committed
        {
            let [one, two] = [other, *write].map(|write| writes.all[write as usize]);
            let [first, second] = [one, two].map(|write| write.value.unwrap_or_default());
            let (writer, later) = (two.transaction as usize, one.transaction as usize);
            let key = writes.keys[two.key as usize];
            let (phenomenon, what) = match at < seen {
                true => (Phenomenon::IncompatibleOrder, "stands behind it"),
                false => (Phenomenon::LostElement, "is in no read"),
            };
            return Err(Anomaly::new(
                phenomenon,
                vec![writer, later],
                format!(
                    "T{later}, committed as {before}, appended {first} to list {key}, where \
                     reads found it; {second}, which T{writer} appended and committed as \
                     {committed}, before it, {what}"
                ),
            ));
        }
        latest = Some((committed, *write));
    }
    Ok(())
}
