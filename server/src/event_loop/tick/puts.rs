//! Puts: prefetched together, then applied.

use hedgerow::Keyspace;

use super::requests::{BATCH_PER_CONNECTION, ConnectionSlots, Tick, over_limit};
use crate::protocol::request::{Kind, Request, Span};
use crate::shared::Shared;

impl Tick {
    pub(super) fn run_puts(&mut self, shared: &Shared, slots: &mut ConnectionSlots<'_>) {
        let Tick {
            requests,
            spans,
            active,
            counts,
            awaited,
            ..
        } = self;
        let mut options = shared.write_options();
        let mut keys: Vec<&[u8]> = Vec::new();
        for active in active.iter_mut().filter(|active| !active.is_done()) {
            let Some(session) = &mut slots.sessions[active.slot] else {
                continue;
            };
            let last = active.end.min(active.next + BATCH_PER_CONNECTION);
            let run = leading_puts(&requests[active.next..last]);
            if run.is_empty() || !session.may_batch() {
                continue;
            }
            if over_limit(shared, &slots.outputs[active.slot]) {
                active.blocked = true;
                continue;
            }
            let input = slots.inputs[active.slot].bytes();
            let keyspace = shared.keyspace(session.database());
            if let (Ok(keyspace), true) = (&keyspace, run.len() > 1) {
                prefetch(keyspace, run, spans, input, &mut keys);
            }
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
                        session.reply_error(error, output.buffer());
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

/// The puts that some requests begin with.
fn leading_puts(requests: &[Request]) -> &[Request] {
    let is_put = |request: &&Request| matches!(request.kind, Kind::Put { .. });
    let count = requests.iter().take_while(is_put).count();
    &requests[..count]
}

/// Brings what a run of puts will touch into the cache.
fn prefetch<'k>(
    keyspace: &Keyspace,
    run: &[Request],
    spans: &[Span],
    input: &'k [u8],
    keys: &mut Vec<&'k [u8]>,
) {
    keys.clear();
    keys.extend(run.iter().filter_map(|request| {
        let Kind::Put { first, .. } = request.kind else {
            return None;
        };
        Some(spans[request.first_span as usize + usize::from(first)].of(input))
    }));
    keyspace.prefetch_many(keys);
}
