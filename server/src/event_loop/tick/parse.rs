//! Taking requests out of the inputs of connections.

use super::requests::{Active, ConnectionSlots, Tick};
use crate::clients::pause::Scope;
use crate::connection::input::Input;
use crate::protocol::request::{Parsed, Request};
use crate::session::Session;
use crate::shared::Shared;
use hedgerow::backend::Backend;

/// Requests that one connection can have in one tick, so that others get theirs.
const REQUESTS_PER_CONNECTION: usize = 1024;

impl Tick {
    /// Takes all whole requests out of a connection's input.
    pub(crate) fn parse<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slot: usize,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        let Some(session) = &mut slots.sessions[slot] else {
            return;
        };
        let input = &mut slots.inputs[slot];
        let first = self.requests.len();
        let answered_keys = std::mem::take(&mut slots.outputs[slot].answered_keys);
        let mut active = Active::new(slot, first, answered_keys);
        let paused = shared.pause.scope();
        while active.parsed_bytes != input.len()
            && self.parse_one(shared, session, input, paused, &mut active)
        {
            let requests = self.requests.len() - first;
            if requests >= REQUESTS_PER_CONNECTION || (requests > 0 && session.one_by_one()) {
                active.more = true;
                break;
            }
        }
        active.end = self.requests.len();
        self.active.push(active);
    }

    /// Takes one request out of an input; `false` if no other can follow it now.
    #[inline]
    fn parse_one<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        session: &mut Session<B>,
        input: &mut Input,
        paused: Option<Scope>,
        active: &mut Active,
    ) -> bool {
        let at = active.parsed_bytes;
        let first_span = self.spans.len();
        let is_first = self.requests.len() == active.first;
        // A pause lets what has begun end.
        let paused = paused.filter(|_| !(is_first && active.next_key > 0));
        match session.parse(shared, input, at, &mut self.spans) {
            Parsed::Whole { kind, code, .. }
                if paused.is_some_and(|scope| {
                    let named = &self.spans[first_span..];
                    session.waits(scope, kind, code, input.bytes(), named)
                }) =>
            {
                self.spans.truncate(first_span);
                // It will be parsed again: behind others, once these have run and their replies are
                // out.
                session.forget_parsed();
                active.paused = is_first;
                active.more |= !is_first;
                return false;
            }
            Parsed::Whole { bytes, kind, code } => {
                active.parsed_bytes += bytes;
                self.requests.push(Request {
                    slot: active.slot as u32,
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
                match self.requests[active.first..].last_mut() {
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
                return false;
            }
            Parsed::Malformed(error) => {
                active.malformed = Some(error);
                return false;
            }
        }
        true
    }
}
