//! Puts of all connections as one call: for a backend where each call is a round trip.

use hedgerow::backend::{Backend, BackendKeyspace, Put};
use hedgerow::{Commit, Error, Result};

use super::puts::leading_puts;
use super::requests::{Active, ConnectionSlots, Tick, TickWaits, over_limit};
use crate::connection::input::Input;
use crate::connection::output::Output;
use crate::protocol::request::{Kind, Request, Span};
use crate::session::Session;
use crate::shared::Shared;

/// Whose a put of a batch is.
struct PutOwner {
    /// The place of its connection among those of the tick.
    active: usize,
    code: u32,
    /// Where its request ends in the input.
    end: u32,
}

/// Puts of one keyspace.
#[derive(Default)]
struct JoinedPuts<'k> {
    /// The keyspace's number.
    database: Option<usize>,
    puts: Vec<Put<'k>>,
    owners: Vec<PutOwner>,
}

/// Where answers go.
struct Answers<'t, B: Backend> {
    shared: &'t Shared<B>,
    active: &'t mut [Active],
    sessions: &'t mut [Option<Session<B>>],
    outputs: &'t mut [Output],
    awaited: &'t mut TickWaits,
}

impl Tick {
    /// The leading puts of all connections that work in one keyspace become one call, until none is
    /// left.
    pub(super) fn run_puts_together<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        loop {
            let queued = (self.requests.as_slice(), self.spans.as_slice());
            let (sessions, inputs) = (&*slots.sessions, &*slots.inputs);
            let mut joined = JoinedPuts::default();
            for place in 0..self.active.len() {
                let active = &mut self.active[place];
                let is_over_limit = over_limit(shared, &slots.outputs[active.slot]);
                joined.take(place, active, is_over_limit, queued, sessions, inputs);
            }
            let JoinedPuts {
                database: Some(database),
                puts,
                owners,
            } = joined
            else {
                return;
            };
            self.counts.batched_puts += puts.len() as u64;
            let mut answers = Answers {
                shared,
                active: &mut self.active,
                sessions: &mut *slots.sessions,
                outputs: &mut *slots.outputs,
                awaited: &mut self.awaited,
            };
            match shared.keyspace(database) {
                Ok(keyspace) => {
                    let options = shared.write_options();
                    keyspace.put_many(&puts, &options, |i, outcome| {
                        answers.answer(&owners[i], outcome);
                    });
                }
                Err(error) => owners.iter().for_each(|owner| answers.fail(owner, &error)),
            }
        }
    }
}

impl<'k> JoinedPuts<'k> {
    /// Takes the leading puts of a connection, if it works in the keyspace of those before: others
    /// get the next call.
    fn take<B: Backend>(
        &mut self,
        place: usize,
        active: &mut Active,
        is_over_limit: bool,
        (requests, spans): (&[Request], &[Span]),
        sessions: &[Option<Session<B>>],
        inputs: &'k [Input],
    ) {
        let Some(session) = &sessions[active.slot] else {
            return;
        };
        let run = leading_puts(requests, active, session);
        if run.is_empty() {
            return;
        }
        if is_over_limit {
            active.blocked = true;
            return;
        }
        if *self.database.get_or_insert(session.database()) != session.database() {
            return;
        }
        let input = inputs[active.slot].bytes();
        for request in run {
            let Kind::Put {
                first,
                expiry_ms,
                user_flags,
            } = request.kind
            else {
                continue;
            };
            let named = request.first_span as usize + usize::from(first);
            self.puts.push(Put {
                key: spans[named].of(input),
                value: spans[named + 1].of(input),
                expiry_ms,
                user_flags,
            });
            self.owners.push(PutOwner {
                active: place,
                code: request.code,
                end: request.end,
            });
        }
        active.next += run.len();
    }
}

impl<B: Backend> Answers<'_, B> {
    /// Replies that the keyspace cannot be used.
    fn fail(&mut self, owner: &PutOwner, error: &Error) {
        let active = &mut self.active[owner.active];
        if let Some(session) = &mut self.sessions[active.slot] {
            session.fail(owner.code, error, self.outputs[active.slot].buffer());
            active.ran_bytes = owner.end as usize;
        }
    }

    fn answer(&mut self, owner: &PutOwner, outcome: Result<Commit>) {
        let active = &mut self.active[owner.active];
        let Some(session) = &mut self.sessions[active.slot] else {
            return;
        };
        let output = &mut self.outputs[active.slot];
        let start = output.position();
        let commit = outcome.as_ref().ok().copied();
        session.reply_put(owner.code, outcome, output.buffer());
        if let Some(until) = commit.and_then(|commit| self.shared.reply_waits(&commit)) {
            output.delay(start, until, owner.code);
            self.awaited.add(until);
        }
        active.ran_bytes = owner.end as usize;
    }
}
