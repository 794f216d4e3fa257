//! Reads: one `get_many` over all connections.

use std::ops::Range;

use hedgerow::backend::{Backend, BackendKeyspace};

use super::answers::{KeyOwner, ReadBatch, ReadSums, answer};
use super::requests::{
    Active, BATCH_KEYS, BATCH_PER_CONNECTION, ConnectionSlots, Tick, over_limit,
};
use crate::connection::input::Input;
use crate::connection::output::Output;
use crate::protocol::request::{KeyPosition, Kind, Request, Span};
use crate::session::Session;
use crate::shared::Shared;

/// After so many keys of a batch in a row that a backend elsewhere could not read, the others are
/// not asked for: each would wait for a timeout.
const MOST_FAILED_ROUND_TRIPS: u32 = 2;

impl Tick {
    pub(super) fn run_reads<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        let Tick {
            requests,
            spans,
            active,
            owners,
            order,
            encoded_bytes,
            counts,
            ..
        } = self;
        encoded_bytes.resize(slots.outputs.len().max(encoded_bytes.len()), 0);
        loop {
            owners.clear();
            order.deferred.clear();
            let mut keys = Vec::new();
            let queued = QueuedRequests { requests, spans };
            let (sessions, inputs) = (&*slots.sessions, &*slots.inputs);
            let database =
                queued.collect_reads(active, sessions, inputs, owners, &mut keys, |slot| {
                    over_limit(shared, &slots.outputs[slot])
                });
            let (Some(database), false) = (database, keys.is_empty()) else {
                return;
            };
            counts.batched_reads += keys.len() as u64;
            counts.read_batches += 1;
            let (sessions, outputs) = (&mut *slots.sessions, &mut *slots.outputs);
            let sums = &mut ReadSums {
                hits: &mut counts.hits,
                encoded_bytes: encoded_bytes.as_mut_slice(),
            };
            let keyspace = shared.keyspace(database);
            let batch = ReadBatch {
                requests,
                keys: &keys,
                owners,
            };
            let answered = match (&keyspace, keys.as_slice()) {
                (Ok(keyspace), [_, _, ..]) => {
                    order.get_many(shared, keyspace, batch, sums, sessions, outputs)
                }
                _ => 0,
            };
            if order.deferred.is_empty() {
                let rest = answered..keys.len();
                let failed = answer_each(shared, &keyspace, batch, rest, sums, sessions, outputs);
                end_failed(active, requests, &failed);
                continue;
            }
            order.defer_rest(answered, owners);
            let mut failed = Vec::new();
            if order.large_bytes == 0
                && let Some(first) = order.take_first_deferred(owners)
            {
                // However large: each tick answers one.
                order.large_bytes = 1;
                let first = first..first + 1;
                failed = answer_each(shared, &keyspace, batch, first, sums, sessions, outputs);
            }
            for &key in &order.deferred {
                counts.batched_reads -= put_back(active, requests, &owners[key..]);
            }
            end_failed(active, requests, &failed);
        }
    }
}

/// The requests of a tick and their arguments.
struct QueuedRequests<'t> {
    requests: &'t [Request],
    spans: &'t [Span],
}

impl QueuedRequests<'_> {
    /// Takes the leading reads of all connections that work in one keyspace, whose number it
    /// returns.
    fn collect_reads<'k, B: Backend>(
        &self,
        active: &mut [Active],
        sessions: &[Option<Session<B>>],
        inputs: &'k [Input],
        owners: &mut Vec<KeyOwner>,
        keys: &mut Vec<&'k [u8]>,
        is_over_limit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut database = None;
        for active in active.iter_mut().filter(|active| !active.is_done()) {
            let Some(session) = &sessions[active.slot] else {
                continue;
            };
            let is_read = matches!(self.requests[active.next].kind, Kind::Read { .. });
            if !is_read || !session.may_batch() {
                continue;
            }
            // One batch, one keyspace: those of another get the next batch.
            if *database.get_or_insert(session.database()) != session.database() {
                continue;
            }
            if is_over_limit(active.slot) {
                active.blocked = true;
                continue;
            }
            let input = inputs[active.slot].bytes();
            let last = active.end.min(active.next + BATCH_PER_CONNECTION);
            while active.next < last && keys.len() < BATCH_KEYS {
                let request = &self.requests[active.next];
                let Kind::Read { first } = request.kind else {
                    break;
                };
                let named = &self.spans
                    [request.first_span as usize + usize::from(first)..request.end_span as usize];
                let answered = std::mem::take(&mut active.next_key);
                let rest = named.get(answered..).unwrap_or_default();
                let taken = rest.len().min(BATCH_KEYS - keys.len());
                for (i, span) in (answered as u32..).zip(&rest[..taken]) {
                    keys.push(span.of(input));
                    owners.push(KeyOwner {
                        slot: request.slot,
                        position: KeyPosition {
                            index: i,
                            count: named.len() as u32,
                        },
                        request: active.next as u32,
                    });
                }
                if taken < rest.len() {
                    // The others come once the output's limit was looked at.
                    active.next_key = answered + taken;
                    break;
                }
                active.ran_bytes = request.end as usize;
                active.next += 1;
            }
        }
        database
    }
}

/// Has a connection go on in the next tick with the first of these keys; how many of them, from
/// there on, are its keys.
fn put_back(active: &mut [Active], requests: &[Request], owners: &[KeyOwner]) -> u64 {
    let Some(&owner) = owners.first() else {
        return 0;
    };
    let of_owner = |active: &&mut Active| active.slot == owner.slot as usize;
    let Some(active) = active.iter_mut().find(of_owner) else {
        return 0;
    };
    active.deferred = true;
    active.next = owner.request as usize;
    active.next_key = owner.position.index as usize;
    active.ran_bytes = if active.next == active.first {
        active.passed_over_bytes
    } else {
        requests[active.next - 1].end as usize
    };
    // A batch has the keys of a connection side by side.
    let its_own = owners.iter().take_while(|next| next.slot == owner.slot);
    its_own.count() as u64
}

/// Has connections go on behind requests whose replies have ended in an error, if some of their
/// keys are left.
fn end_failed(active: &mut [Active], requests: &[Request], failed: &[KeyOwner]) {
    for owner in failed {
        let is_left = |active: &&mut Active| {
            active.slot == owner.slot as usize && active.next == owner.request as usize
        };
        if let Some(active) = active.iter_mut().find(is_left) {
            active.ran_bytes = requests[active.next].end as usize;
            active.next += 1;
            active.next_key = 0;
        }
    }
}

/// Answers keys one by one: one that is alone, or those that a batch left since one of them could
/// not be read. That one's request gets the error, the others what they asked for. The keys that
/// could not be read, one of each such request.
fn answer_each<B: Backend>(
    shared: &Shared<B>,
    keyspace: &hedgerow::Result<&B::Keyspace>,
    batch: ReadBatch<'_>,
    which: Range<usize>,
    sums: &mut ReadSums<'_>,
    sessions: &mut [Option<Session<B>>],
    outputs: &mut [Output],
) -> Vec<KeyOwner> {
    let mut failed: Vec<KeyOwner> = Vec::new();
    let mut failed_in_a_row = 0;
    let mut out_of_reach = None;
    for at in which {
        let owner = batch.owners[at];
        // A batch has the keys of a request side by side.
        let is_same = |last: &KeyOwner| (last.slot, last.request) == (owner.slot, owner.request);
        if failed.last().is_some_and(is_same) {
            continue;
        }
        if let Some(error) = &out_of_reach {
            failed.push(owner);
            fail(batch, at, error, sessions, outputs);
            continue;
        }
        let read = match keyspace {
            Ok(keyspace) => keyspace.read(batch.keys[at], |row| {
                answer(shared, batch, at, Some(row), sums, sessions, outputs);
            }),
            Err(error) => {
                failed.push(owner);
                fail(batch, at, error, sessions, outputs);
                continue;
            }
        };
        match read {
            Ok(Some(())) => failed_in_a_row = 0,
            Ok(None) => {
                failed_in_a_row = 0;
                answer(shared, batch, at, None, sums, sessions, outputs);
            }
            Err(error) => {
                failed.push(owner);
                fail(batch, at, &error, sessions, outputs);
                failed_in_a_row += 1;
                if B::IS_REMOTE && failed_in_a_row == MOST_FAILED_ROUND_TRIPS {
                    out_of_reach = Some(error);
                }
            }
        }
    }
    failed
}

/// Ends the reply to the request of a key that cannot be read.
fn fail<B: Backend>(
    batch: ReadBatch<'_>,
    at: usize,
    error: &hedgerow::Error,
    sessions: &mut [Option<Session<B>>],
    outputs: &mut [Output],
) {
    let slot = batch.owners[at].slot as usize;
    if let Some(session) = &mut sessions[slot] {
        session.fail(batch.code(at), error, outputs[slot].buffer());
    }
}
