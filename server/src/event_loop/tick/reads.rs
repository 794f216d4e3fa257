//! Reads: one `get_each` over all connections.

use hedgerow::backend::Backend;

use super::answers::{KeyOwner, ReadBatch, ReadSums};
use super::requests::{
    Active, BATCH_KEYS, BATCH_PER_CONNECTION, ConnectionSlots, Tick, over_limit,
};
use crate::connection::input::Input;
use crate::protocol::request::{KeyPosition, Kind, Request, Span};
use crate::session::Session;
use crate::shared::Shared;

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
            order.begin_batch();
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
            match (&keyspace, keys.as_slice()) {
                (Ok(keyspace), [_, _, ..]) => {
                    order.get_each(shared, keyspace, batch, sums, sessions, outputs);
                }
                _ => order.get_alone(shared, &keyspace, batch, sums, sessions, outputs),
            }
            if order.large_bytes == 0
                && let Some(first) = order.take_first_deferred(owners)
            {
                // However large: each tick answers one.
                order.large_bytes = 1;
                let first = batch.only(first);
                order.get_alone(shared, &keyspace, first, sums, sessions, outputs);
            }
            for &key in &order.deferred {
                counts.batched_reads -= put_back(active, requests, &owners[key..]);
            }
            end_failed(active, requests, &order.failed);
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
