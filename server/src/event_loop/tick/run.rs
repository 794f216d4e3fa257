//! The rounds of a tick.

use super::requests::{ConnectionSlots, Tick};
use crate::session::Session;
use crate::shared::Shared;
use hedgerow::backend::Backend;

impl Tick {
    /// Runs everything.
    pub(crate) fn run<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        shared.flush_if_due();
        while self.active.iter().any(|active| !active.is_done()) {
            self.run_reads(shared, slots);
            if B::IS_REMOTE {
                self.run_puts_together(shared, slots);
                self.run_singles_at_once(shared, slots);
            } else {
                self.run_puts(shared, slots);
                self.run_singles(shared, slots);
            }
        }
        for active in &mut self.active {
            let finished = active.next == active.end && !active.blocked && !active.deferred;
            if finished && !active.close {
                active.ran_bytes = active.parsed_bytes;
                if let Some(error) = active.malformed.take() {
                    let session = slots.sessions[active.slot].as_ref();
                    if !session.is_some_and(Session::is_silent) {
                        let out = slots.outputs[active.slot].buffer();
                        out.extend_from_slice(&error);
                        shared.metrics.count_if_error(&error);
                    }
                    self.counts.protocol_errors += 1;
                    active.offence = Some(error);
                    active.close = true;
                }
            }
            // What was put off is taken out of the input, and counted, again.
            let ran = &self.requests[active.first..active.next];
            self.counts.requests += ran.len() as u64;
            if let Some(Session::Resp(session)) = &mut slots.sessions[active.slot] {
                self.commands.extend(ran.iter().map(|request| request.code));
                if let Some(tally) = session.tally.take() {
                    self.commands.extend(tally.queued_ran);
                    self.failed_commands.extend(tally.failed);
                    self.rejected_commands.extend(tally.rejected);
                    shared.metrics.add_errors(tally.errors);
                }
            }
            slots.outputs[active.slot].answered_keys = active.next_key;
            let encoded = self.encoded_bytes.get_mut(active.slot);
            active.encoded_bytes += encoded.map(std::mem::take).unwrap_or_default();
            if !finished && let Some(session) = &mut slots.sessions[active.slot] {
                session.forget_parsed();
            }
            active.more |= active.blocked || active.deferred;
        }
    }
}
