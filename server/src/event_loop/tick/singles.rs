//! Requests that run one by one: everything but plain reads and puts.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::answers::SMALL_REPLY_BYTES;
use super::requests::{
    Active, BATCH_KEYS, BATCH_PER_CONNECTION, ConnectionSlots, Tick, TickWaits, over_limit,
};
use super::stopwatch::Stopwatch;
use crate::connection::output::{AwaitedState, Output};
use crate::monitoring::metrics::TickCounts;
use crate::protocol::effects::Effects;
use crate::protocol::request::{Kind, LARGE_REPLIES_BYTES, Request, Span};
use crate::session::Session;
use crate::shared::Shared;
use hedgerow::backend::{Backend, BackendKeyspace};

impl Tick {
    /// Brings what the leading single requests of all connections will touch into the cache. Only
    /// a hint: a request may turn out to touch something else, or nothing.
    fn prefetch_singles<B: Backend>(&self, shared: &Shared<B>, slots: &ConnectionSlots<'_, B>) {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut database = None;
        for active in self.active.iter().filter(|active| !active.is_done()) {
            let Some(session) = &slots.sessions[active.slot] else {
                continue;
            };
            if *database.get_or_insert(session.database()) != session.database() {
                continue;
            }
            let input = slots.inputs[active.slot].bytes();
            let last = active.end.min(active.next + BATCH_PER_CONNECTION);
            for request in &self.requests[active.next..last] {
                let Kind::Single { key } = request.kind else {
                    break;
                };
                let spans = &self.spans[request.first_span as usize..request.end_span as usize];
                keys.extend(key.and_then(|key| key.of(spans, input)));
            }
            if keys.len() >= BATCH_KEYS {
                break;
            }
        }
        if let (Some(database), true) = (database, keys.len() > 1)
            && let Ok(keyspace) = shared.keyspace(database)
        {
            keyspace.prefetch_many(&keys);
        }
    }

    pub(super) fn run_singles<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        self.prefetch_singles(shared, slots);
        let Tick {
            requests,
            spans,
            active,
            order,
            awaited,
            counts,
            stopwatch,
            ..
        } = self;
        stopwatch.others_ran();
        let large_bytes = AtomicUsize::new(order.large_bytes);
        let mut sums = Sums {
            large_bytes: &large_bytes,
            awaited,
            counts,
            stopwatch,
        };
        for (place, active) in active.iter_mut().enumerate() {
            let Some(session) = &mut slots.sessions[active.slot] else {
                continue;
            };
            let mut connection = SinglesOf {
                is_first: place == 0,
                input: slots.inputs[active.slot].bytes(),
                requests: &mut requests[active.first..active.end],
                first: active.first,
                output: &mut slots.outputs[active.slot],
                active,
                session,
            };
            connection.run(shared, spans, &mut sums);
        }
        order.large_bytes = large_bytes.into_inner();
    }
}

/// What the single requests of a tick add up to.
pub(super) struct Sums<'t> {
    /// Bytes of large replies, also of those that run at the same time.
    pub(super) large_bytes: &'t AtomicUsize,
    pub(super) awaited: &'t mut TickWaits,
    pub(super) counts: &'t mut TickCounts,
    pub(super) stopwatch: &'t mut Stopwatch,
}

/// A connection whose leading single requests run.
pub(super) struct SinglesOf<'t, B: Backend> {
    /// It is the first of the tick, and may have a large reply whatever there is already.
    pub(super) is_first: bool,
    pub(super) input: &'t [u8],
    /// Its requests, and the place of the first among all.
    pub(super) requests: &'t mut [Request],
    pub(super) first: usize,
    pub(super) active: &'t mut Active,
    pub(super) session: &'t mut Session<B>,
    pub(super) output: &'t mut Output,
}

impl<B: Backend> SinglesOf<'_, B> {
    /// Whether its next request runs by itself.
    pub(super) fn is_ready(&self) -> bool {
        !self.active.is_done()
            && (!self.session.may_batch()
                || matches!(
                    self.requests[self.active.next - self.first].kind,
                    Kind::Single { .. }
                ))
    }

    /// Runs its leading single requests.
    #[inline]
    pub(super) fn run(&mut self, shared: &Shared<B>, spans: &[Span], sums: &mut Sums<'_>) {
        let SinglesOf {
            active,
            session,
            output,
            ..
        } = self;
        // Those beyond come next round, prefetched.
        let last = active.end.min(active.next + BATCH_PER_CONNECTION);
        while !active.is_done() && active.next < last {
            let request = &mut self.requests[active.next - self.first];
            if session.may_batch() && !matches!(request.kind, Kind::Single { .. }) {
                break;
            }
            if over_limit(shared, output) {
                active.blocked = true;
                break;
            }
            if sums.large_bytes.load(Ordering::Relaxed) > LARGE_REPLIES_BYTES
                && (active.ran_large || (!self.is_first && output.expects_large()))
            {
                active.deferred = true;
                break;
            }
            let input = self.input;
            let named = &spans[request.first_span as usize..request.end_span as usize];
            let (position, before) = (output.position(), output.pending());
            let capacity = output.capacity();
            let stopwatch = &mut *sums.stopwatch;
            stopwatch.start(session.may_take_long(request.code, input, named));
            let answered = std::mem::take(&mut active.next_key);
            let ran = session.execute(shared, request, input, named, answered, output.buffer());
            stopwatch.stop(active.slot, || named.first().map(|name| name.of(input)));
            let reply_bytes = output.pending() - before;
            // The replies of others, in this tick and those of other workers, have to do without.
            let grown = output.capacity().saturating_sub(capacity);
            shared.client_memory.encoded(grown);
            active.encoded_bytes += grown;
            // What is queued says nothing of the reply to `EXEC`.
            if session.may_batch() {
                output.had_small = reply_bytes <= SMALL_REPLY_BYTES;
            }
            if reply_bytes > SMALL_REPLY_BYTES {
                sums.large_bytes.fetch_add(reply_bytes, Ordering::Relaxed);
                active.ran_large = true;
            }
            delay(shared, sums.awaited, output, position, request.code, &ran);
            sums.counts.looked_up.add(ran.looked_up);
            if let Some(answered_keys) = ran.answered_keys {
                // It is parsed again, and goes on behind these.
                (active.next_key, active.deferred) = (answered_keys, true);
                break;
            }
            active.ran_bytes = request.end as usize;
            request.code = ran.counted_code(request.code);
            active.next += 1;
            active.close |= ran.close;
            // What stands behind it is parsed again, and waits if it has to.
            active.deferred |= ran.pauses && active.next < active.end;
            sums.counts.protocol_errors += u64::from(ran.malformed);
            shared
                .metrics
                .count_if_error(output.buffer().since(position));
        }
    }
}

/// Has the reply to a request wait for what the server promises of its commit.
fn delay<B: Backend>(
    shared: &Shared<B>,
    awaited: &mut TickWaits,
    output: &mut Output,
    position: usize,
    code: u32,
    ran: &Effects,
) {
    if let Some(commit) = ran.awaits {
        let until = AwaitedState::Durable(commit);
        if ran.wrote {
            output.delay(position, until, code);
        } else {
            output.delay_until(position, until, ran.deadline);
        }
        awaited.add(until);
    } else if ran.wrote
        && let Some(until) = shared.waits_for_write_out()
    {
        output.delay(position, until, code);
        awaited.add(until);
    }
}
