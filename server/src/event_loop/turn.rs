//! One turn of the event loop: what is done with the requests that it found.
//!
//! Requests of one connection run in their order; those of different connections in any. A turn
//! goes in rounds until every request has run:
//!
//! 1. the leading reads of all connections become one `get_many`, whose cache misses overlap;
//! 2. the leading puts of all connections are prefetched together, then applied;
//! 3. leading requests of any other kind run one by one, after the nodes around their keys were
//!    prefetched together.

mod singles;

use std::time::Duration;

use hedgerow::{Commit, Keyspace};

use crate::connection::input::Input;
use crate::connection::output::{Output, Until};
use crate::event_loop::reorder::Reorder;
use crate::event_loop::stopwatch::Stopwatch;
use crate::monitoring::metrics::TurnCounts;
use crate::protocol::request::{Kind, Parsed, Request, Span};
use crate::session::Session;
use crate::shared::Shared;

/// Keys that one batch looks up.
const BATCH_KEYS: usize = 256;
/// Requests of one connection in one batch: between two, its output limit is looked at.
const BATCH_PER_CONNECTION: usize = 64;
/// Large replies that a turn encodes after its first: what would be more waits for the next turn,
/// so that nobody's megabytes hold up others.
pub(crate) const LARGE_REPLIES_BYTES: usize = 2 << 20;
/// A reply of up to this length never waits for that.
pub(crate) const SMALL_REPLY_BYTES: usize = 4 << 10;
/// Requests that one connection can have in one turn, so that others get theirs.
const TURN_PER_CONNECTION: usize = 1024;

/// The parts of a worker's connections that a turn works on, by slot.
pub(crate) struct Lanes<'a> {
    pub(crate) inputs: &'a mut [Input],
    pub(crate) outputs: &'a mut [Output],
    pub(crate) sessions: &'a mut [Option<Session>],
}

/// A connection with requests in this turn.
pub(crate) struct Active {
    pub(crate) slot: usize,
    /// Its first request, and what is passed over before it.
    first: usize,
    passed_over_bytes: usize,
    /// Its requests that have not run yet.
    next: usize,
    /// The keys of the next request that were answered already.
    next_key: usize,
    end: usize,
    /// How much of the input is used up when all of them have run.
    parsed_bytes: usize,
    /// How much of the input is used up by those that ran.
    pub(crate) ran_bytes: usize,
    /// An error to send after them, before closing.
    malformed: Option<Vec<u8>>,
    /// The connection is to be closed.
    pub(crate) close: bool,
    /// Why, if its client broke the protocol: the error sent to it.
    pub(crate) offence: Option<Vec<u8>>,
    /// More requests may be whole in the input.
    pub(crate) more: bool,
    /// Bytes that the next request needs in all.
    pub(crate) wanted: usize,
    /// Its output is over the limit.
    pub(crate) blocked: bool,
    /// Its next request waits for the next turn.
    pub(crate) deferred: bool,
    /// Its next request waits for the end of a pause.
    pub(crate) paused: bool,
    /// One of its single requests got a large reply.
    ran_large: bool,
}

impl Active {
    fn is_done(&self) -> bool {
        self.next == self.end || self.close || self.blocked || self.deferred
    }
}

/// The requests of a turn. Its buffers are used again and again.
#[derive(Default)]
pub(crate) struct Turn {
    requests: Vec<Request>,
    spans: Vec<Span>,
    pub(crate) active: Vec<Active>,
    owners: Vec<Owner>,
    order: Reorder,
    pub(crate) counts: TurnCounts,
    pub(crate) stopwatch: Stopwatch,
    /// Replies wait for the write-out.
    pub(crate) needs_write_out: bool,
    /// The numbers of the RESP commands that ran.
    pub(crate) commands: Vec<u32>,
    /// The last commit that replies wait for.
    pub(crate) last_commit: Option<Commit>,
}

/// Whose key stands at a place of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) slot: u32,
    /// Which key of its request, of how many.
    pub(crate) place: (u32, u32),
    /// Its connection's place among the active ones, and the number and code of its request.
    active: u32,
    request: u32,
    pub(crate) code: u32,
}

impl Turn {
    pub(crate) fn begin(&mut self, slow: Option<Duration>) {
        self.stopwatch.reset(slow);
        self.order.large_bytes = 0;
        self.requests.clear();
        self.spans.clear();
        self.active.clear();
        self.commands.clear();
        self.counts = TurnCounts::default();
        self.last_commit = None;
        self.needs_write_out = false;
    }

    /// Takes all whole requests out of a connection's input.
    pub(crate) fn parse(&mut self, shared: &Shared, slot: usize, lanes: &mut Lanes<'_>) {
        let Some(session) = &mut lanes.sessions[slot] else {
            return;
        };
        let input = &mut lanes.inputs[slot];
        let first = self.requests.len();
        let mut active = Active {
            slot,
            first,
            passed_over_bytes: 0,
            next: first,
            next_key: std::mem::take(&mut lanes.outputs[slot].answered_keys),
            end: first,
            parsed_bytes: 0,
            ran_bytes: 0,
            malformed: None,
            close: false,
            offence: None,
            more: false,
            wanted: 0,
            blocked: false,
            deferred: false,
            paused: false,
            ran_large: false,
        };
        let paused = shared.pause.scope();
        loop {
            let at = active.parsed_bytes;
            if at == input.len() {
                break;
            }
            let first_span = self.spans.len();
            match session.parse(shared, input, at, &mut self.spans) {
                Parsed::Whole { kind, code, .. }
                    if paused.is_some_and(|scope| {
                        let named = &self.spans[first_span..];
                        session.waits(scope, (kind, code), input.bytes(), named)
                    }) =>
                {
                    self.spans.truncate(first_span);
                    active.paused = true;
                    break;
                }
                Parsed::Whole { bytes, kind, code } => {
                    active.parsed_bytes += bytes;
                    self.requests.push(Request {
                        slot: slot as u32,
                        end: active.parsed_bytes as u32,
                        first_span: first_span as u32,
                        end_span: self.spans.len() as u32,
                        kind,
                        code,
                    });
                }
                Parsed::Skip(bytes) => {
                    active.parsed_bytes += bytes;
                    // Never to be parsed again, even if a later request has to be.
                    match self.requests[first..].last_mut() {
                        Some(request) => request.end = active.parsed_bytes as u32,
                        None => {
                            active.passed_over_bytes = active.parsed_bytes;
                            active.ran_bytes = active.parsed_bytes;
                        }
                    }
                }
                Parsed::Partial(wanted) => {
                    active.wanted = wanted;
                    if wanted > shared.options.max_frame_bytes {
                        active.malformed = Some(session.too_long());
                    }
                    break;
                }
                Parsed::Malformed(error) => {
                    active.malformed = Some(error);
                    break;
                }
            }
            let requests = self.requests.len() - first;
            if requests >= TURN_PER_CONNECTION || (requests > 0 && session.one_by_one()) {
                active.more = true;
                break;
            }
        }
        active.end = self.requests.len();
        self.active.push(active);
    }

    /// Runs everything.
    pub(crate) fn run(&mut self, shared: &Shared, lanes: &mut Lanes<'_>) {
        while self.active.iter().any(|active| !active.is_done()) {
            self.run_reads(shared, lanes);
            self.run_puts(shared, lanes);
            self.run_singles(shared, lanes);
        }
        for active in &mut self.active {
            let finished = active.next == active.end && !active.blocked && !active.deferred;
            if finished && !active.close {
                active.ran_bytes = active.parsed_bytes;
                if let Some(error) = active.malformed.take() {
                    lanes.outputs[active.slot]
                        .buffer()
                        .extend_from_slice(&error);
                    self.counts.protocol_errors += 1;
                    active.offence = Some(error);
                    active.close = true;
                }
            }
            // What was put off is taken out of the input, and counted, again.
            let ran = &self.requests[active.first..active.next];
            self.counts.requests += ran.len() as u64;
            if matches!(lanes.sessions[active.slot], Some(Session::Resp(_))) {
                self.commands.extend(ran.iter().map(|request| request.code));
            }
            lanes.outputs[active.slot].answered_keys = active.next_key;
            if !finished && let Some(session) = &mut lanes.sessions[active.slot] {
                session.forget_parsed();
            }
            active.more |= active.blocked || active.deferred;
        }
    }

    fn run_reads(&mut self, shared: &Shared, lanes: &mut Lanes<'_>) {
        let Turn {
            requests,
            spans,
            active,
            owners,
            order,
            counts,
            ..
        } = self;
        loop {
            owners.clear();
            order.deferred.clear();
            let mut keys = Vec::new();
            let queued = Queued { requests, spans };
            let (sessions, inputs) = (&*lanes.sessions, &*lanes.inputs);
            let database =
                queued.gather_reads(active, sessions, inputs, owners, &mut keys, |slot| {
                    over_limit(shared, &lanes.outputs[slot])
                });
            let (Some(database), false) = (database, keys.is_empty()) else {
                return;
            };
            counts.batched_reads += keys.len() as u64;
            counts.read_batches += 1;
            let (sessions, outputs) = (&mut *lanes.sessions, &mut *lanes.outputs);
            let hits = &mut counts.hits;
            let keyspace = shared.keyspace(database);
            let answered = match (&keyspace, keys.as_slice()) {
                (Ok(keyspace), [_, _, ..]) => {
                    order.get_many(keyspace, &keys, owners, hits, sessions, outputs)
                }
                _ => 0,
            };
            if order.deferred.is_empty() {
                let rest = (&keys[answered..], &owners[answered..]);
                answer_each(&keyspace, rest, hits, sessions, outputs);
                continue;
            }
            order.defer_rest(answered, owners);
            if order.large_bytes == 0
                && let Some(first) = order.take_first_deferred(owners)
            {
                // However large: each turn answers one.
                let one = (&keys[first..=first], &owners[first..=first]);
                order.large_bytes = 1;
                answer_each(&keyspace, one, hits, sessions, outputs);
            }
            for &key in &order.deferred {
                put_back(active, requests, owners[key]);
            }
        }
    }

    fn run_puts(&mut self, shared: &Shared, lanes: &mut Lanes<'_>) {
        let Turn {
            requests,
            spans,
            active,
            counts,
            last_commit,
            needs_write_out,
            ..
        } = self;
        let mut options = shared.write_options();
        let mut keys: Vec<&[u8]> = Vec::new();
        for active in active.iter_mut().filter(|active| !active.is_done()) {
            let Some(session) = &mut lanes.sessions[active.slot] else {
                continue;
            };
            let last = active.end.min(active.next + BATCH_PER_CONNECTION);
            let run = requests[active.next..last].iter();
            let count = run
                .take_while(|request| matches!(request.kind, Kind::Put { .. }))
                .count();
            if count == 0 || !session.may_batch() {
                continue;
            }
            if over_limit(shared, &lanes.outputs[active.slot]) {
                active.blocked = true;
                continue;
            }
            let input = lanes.inputs[active.slot].bytes();
            let run = &requests[active.next..active.next + count];
            let keyspace = shared.keyspace(session.database());
            if let (Ok(keyspace), true) = (&keyspace, count > 1) {
                keys.clear();
                keys.extend(run.iter().filter_map(|request| {
                    let Kind::Put { first, .. } = request.kind else {
                        return None;
                    };
                    Some(spans[request.first_span as usize + usize::from(first)].of(input))
                }));
                keyspace.prefetch_many(&keys);
            }
            counts.batched_puts += count as u64;
            let output = &mut lanes.outputs[active.slot];
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
                if let Some(commit) = commit
                    && let Some(until) = shared.reply_waits(&commit)
                {
                    output.hold(start, until, request.code);
                    match until {
                        Until::WrittenOut => *needs_write_out = true,
                        Until::Durable(_) => *last_commit = (*last_commit).max(Some(commit)),
                    }
                }
                active.ran_bytes = request.end as usize;
            }
            active.next += count;
        }
    }
}

/// The requests of a turn and their arguments.
struct Queued<'t> {
    requests: &'t [Request],
    spans: &'t [Span],
}

impl Queued<'_> {
    /// Takes the leading reads of all connections that work in one keyspace, whose number it
    /// returns.
    fn gather_reads<'k>(
        &self,
        active: &mut [Active],
        sessions: &[Option<Session>],
        inputs: &'k [Input],
        owners: &mut Vec<Owner>,
        keys: &mut Vec<&'k [u8]>,
        is_over_limit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut database = None;
        for (at, active) in active.iter_mut().enumerate() {
            if active.is_done() {
                continue;
            }
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
                for (i, span) in named.iter().enumerate().skip(answered) {
                    keys.push(span.of(input));
                    owners.push(Owner {
                        slot: request.slot,
                        place: (i as u32, named.len() as u32),
                        active: at as u32,
                        request: active.next as u32,
                        code: request.code,
                    });
                }
                active.ran_bytes = request.end as usize;
                active.next += 1;
            }
        }
        database
    }
}

/// Has a connection go on with this key in the next turn.
fn put_back(active: &mut [Active], requests: &[Request], owner: Owner) {
    let active = &mut active[owner.active as usize];
    active.deferred = true;
    active.next = owner.request as usize;
    active.next_key = owner.place.0 as usize;
    active.ran_bytes = if active.next == active.first {
        active.passed_over_bytes
    } else {
        requests[active.next - 1].end as usize
    };
}

fn over_limit(shared: &Shared, output: &Output) -> bool {
    output.pending() > shared.options.output_limit_bytes
}

#[inline]
pub(crate) fn answer(
    owner: Owner,
    key: &[u8],
    row: Option<hedgerow::Row<'_>>,
    sessions: &mut [Option<Session>],
    outputs: &mut [Output],
) {
    let slot = owner.slot as usize;
    if let Some(session) = &mut sessions[slot] {
        let place = (owner.place.0 as usize, owner.place.1 as usize);
        session.reply_read(owner.code, key, place, row, outputs[slot].buffer());
    }
}

/// Answers keys one by one: one that is alone, or those that a batch left since one of them could
/// not be read. That one's request gets the error, the others what they asked for.
fn answer_each(
    keyspace: &hedgerow::Result<&Keyspace>,
    (keys, owners): (&[&[u8]], &[Owner]),
    hits: &mut u64,
    sessions: &mut [Option<Session>],
    outputs: &mut [Output],
) {
    let mut in_failed = false;
    for (&owner, key) in owners.iter().zip(keys) {
        in_failed &= owner.place.0 > 0;
        if in_failed {
            continue;
        }
        let read = match keyspace {
            Ok(keyspace) => keyspace.read(key, |row| {
                *hits += 1;
                answer(owner, key, Some(row), sessions, outputs);
            }),
            Err(error) => {
                in_failed = true;
                fail(owner, error, sessions, outputs);
                continue;
            }
        };
        match read {
            Ok(Some(())) => {}
            Ok(None) => answer(owner, key, None, sessions, outputs),
            Err(error) => {
                in_failed = true;
                fail(owner, &error, sessions, outputs);
            }
        }
    }
}

fn fail(
    owner: Owner,
    error: &hedgerow::Error,
    sessions: &mut [Option<Session>],
    outputs: &mut [Output],
) {
    let slot = owner.slot as usize;
    if let Some(session) = &mut sessions[slot] {
        session.reply_error(error, outputs[slot].buffer());
    }
}
