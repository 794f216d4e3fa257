//! Puts: prefetched together, over the connections that have them, then applied.

use super::requests::{Active, BATCH_PER_CONNECTION, ConnectionSlots, Tick, over_limit};
use crate::protocol::request::{Kind, Request, Span};
use crate::session::Session;
use crate::shared::Shared;
use hedgerow::backend::{Backend, BackendKeyspace};

/// Puts that are prefetched together: what they touch must still be in the cache when the last of
/// them is applied.
const PREFETCHED_TOGETHER: usize = BATCH_PER_CONNECTION;

impl Tick {
    pub(super) fn run_puts<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        let Tick {
            requests,
            spans,
            active,
            counts,
            awaited,
            ..
        } = self;
        let mut options = shared.write_options();
        let mut prefetched_before = 0;
        for place in 0..active.len() {
            if place == prefetched_before {
                let later = &active[place..];
                prefetched_before += prefetch(shared, requests, spans, later, slots);
            }
            let active = &mut active[place];
            let Some(session) = &mut slots.sessions[active.slot] else {
                continue;
            };
            let run = leading_puts(requests, active, session);
            if run.is_empty() {
                continue;
            }
            if over_limit(shared, &slots.outputs[active.slot]) {
                active.blocked = true;
                continue;
            }
            let input = slots.inputs[active.slot].bytes();
            let keyspace = shared.keyspace(session.database());
            counts.batched_puts += run.len() as u64;
            let output = &mut slots.outputs[active.slot];
            for request in run {
                let Kind::Put {
                    first,
                    expiry_ms,
                    user_flags,
                } = request.kind
                else {
                    continue;
                };
                let place = request.first_span as usize + usize::from(first);
                let (key, value) = (spans[place].of(input), spans[place + 1].of(input));
                (options.expiry_ms, options.user_flags) = (expiry_ms, user_flags);
                let outcome = match &keyspace {
                    Ok(keyspace) => keyspace.put_with(key, value, &options),
                    Err(error) => {
                        session.fail(request.code, error, output.buffer());
                        active.ran_bytes = request.end as usize;
                        continue;
                    }
                };
                let start = output.position();
                let commit = outcome.as_ref().ok().copied();
                session.reply_put(request.code, outcome, output.buffer());
                if let Some(until) = commit.and_then(|commit| shared.reply_waits(&commit)) {
                    output.delay(start, until, request.code);
                    awaited.add(until);
                }
                active.ran_bytes = request.end as usize;
            }
            active.next += run.len();
        }
    }
}

/// The puts that a connection's next requests begin with.
pub(super) fn leading_puts<'r, B: Backend>(
    requests: &'r [Request],
    active: &Active,
    session: &Session<B>,
) -> &'r [Request] {
    if active.is_done() || !session.may_batch() {
        return &[];
    }
    let last = active.end.min(active.next + BATCH_PER_CONNECTION);
    let next = &requests[active.next..last];
    let is_put = |request: &&Request| matches!(request.kind, Kind::Put { .. });
    &next[..next.iter().take_while(is_put).count()]
}

/// Brings what the leading puts of the first of these connections will touch into the cache; of
/// how many connections.
fn prefetch<B: Backend>(
    shared: &Shared<B>,
    requests: &[Request],
    spans: &[Span],
    connections: &[Active],
    slots: &ConnectionSlots<'_, B>,
) -> usize {
    if let [alone] = connections
        && alone.end - alone.next < 2
    {
        return 1;
    }
    let mut keys: Vec<&[u8]> = Vec::new();
    let (mut database, mut count) = (None, 0);
    for active in connections {
        if keys.len() >= PREFETCHED_TOGETHER {
            break;
        }
        count += 1;
        let Some(session) = &slots.sessions[active.slot] else {
            continue;
        };
        let run = leading_puts(requests, active, session);
        // One batch, one keyspace.
        if run.is_empty() || *database.get_or_insert(session.database()) != session.database() {
            continue;
        }
        let input = slots.inputs[active.slot].bytes();
        keys.extend(run.iter().filter_map(|request| {
            let Kind::Put { first, .. } = request.kind else {
                return None;
            };
            Some(spans[request.first_span as usize + usize::from(first)].of(input))
        }));
    }
    if let (Some(database), true) = (database, keys.len() > 1)
        && let Ok(keyspace) = shared.keyspace(database)
    {
        keyspace.prefetch_many(&keys);
    }
    count
}
