//! The requests of a tick, and how many of its own each connection has run.

use std::time::Duration;

use hedgerow::Commit;
use hedgerow::backend::Backend;

use super::answers::KeyOwner;
use super::reorder::Reorder;
use super::stopwatch::Stopwatch;
use crate::connection::input::Input;
use crate::connection::output::{AwaitedState, Output};
use crate::monitoring::metrics::TickCounts;
use crate::protocol::request::{Request, Span};
use crate::session::Session;
use crate::shared::Shared;

/// Keys that one batch looks up.
pub(super) const BATCH_KEYS: usize = 256;
/// Requests of one connection in one batch: between two, its output limit is looked at.
pub(super) const BATCH_PER_CONNECTION: usize = 64;

/// The parts of a worker's connections that a tick works on, by slot.
pub(crate) struct ConnectionSlots<'a, B: Backend> {
    pub(crate) inputs: &'a mut [Input],
    pub(crate) outputs: &'a mut [Output],
    pub(crate) sessions: &'a mut [Option<Session<B>>],
}

/// A connection with requests in this tick.
pub(crate) struct Active {
    pub(crate) slot: usize,
    /// Its first request, and what is passed over before it.
    pub(super) first: usize,
    pub(super) passed_over_bytes: usize,
    /// Its requests that have not run yet.
    pub(super) next: usize,
    /// The keys of the next request that were answered already.
    pub(super) next_key: usize,
    pub(super) end: usize,
    /// How much of the input is used up when all of them have run.
    pub(super) parsed_bytes: usize,
    /// How much of the input is used up by those that ran.
    pub(crate) ran_bytes: usize,
    /// An error to send after them, before closing.
    pub(super) malformed: Option<Vec<u8>>,
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
    /// Its next request waits for the next tick.
    pub(crate) deferred: bool,
    /// Its next request waits for the end of a pause.
    pub(crate) paused: bool,
    /// One of its single requests got a large reply.
    pub(super) ran_large: bool,
    /// By how much its replies made its output's memory grow, as far as others had to do without.
    pub(crate) encoded_bytes: usize,
}

impl Active {
    /// A connection whose requests begin at `first`; of the next one, so many keys were answered.
    pub(super) fn new(slot: usize, first: usize, answered_keys: usize) -> Active {
        Active {
            slot,
            first,
            passed_over_bytes: 0,
            next: first,
            next_key: answered_keys,
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
            encoded_bytes: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next == self.end || self.close || self.blocked || self.deferred
    }
}

/// The requests of a tick. Its buffers are used again and again.
#[derive(Default)]
pub(crate) struct Tick {
    pub(super) requests: Vec<Request>,
    pub(super) spans: Vec<Span>,
    pub(crate) active: Vec<Active>,
    pub(super) owners: Vec<KeyOwner>,
    pub(super) order: Reorder,
    /// By slot, until the tick's end: by how much large replies to reads made an output's memory
    /// grow.
    pub(super) encoded_bytes: Vec<usize>,
    pub(crate) counts: TickCounts,
    pub(crate) stopwatch: Stopwatch,
    /// The numbers of the RESP commands that ran.
    pub(crate) commands: Vec<u32>,
    /// Of those that failed.
    pub(crate) failed_commands: Vec<u32>,
    /// Of those that were refused before they ran, which are not among the former.
    pub(crate) rejected_commands: Vec<u32>,
    pub(crate) awaited: TickWaits,
}

/// What the replies of a tick wait for.
#[derive(Default)]
pub(crate) struct TickWaits {
    /// Some wait for the write-out.
    pub(crate) needs_write_out: bool,
    /// The last commit that some wait for.
    pub(crate) last_commit: Option<Commit>,
}

impl TickWaits {
    /// What replies that ran beside these wait for.
    pub(super) fn add_all(&mut self, others: &TickWaits) {
        self.needs_write_out |= others.needs_write_out;
        self.last_commit = self.last_commit.max(others.last_commit);
    }

    pub(super) fn add(&mut self, until: AwaitedState) {
        match until {
            AwaitedState::WrittenOut => self.needs_write_out = true,
            AwaitedState::Durable(commit) => self.last_commit = self.last_commit.max(Some(commit)),
        }
    }
}

impl Tick {
    pub(crate) fn begin(&mut self, slow: Option<Duration>) {
        self.stopwatch.reset(slow);
        self.order.large_bytes = 0;
        self.requests.clear();
        self.spans.clear();
        self.active.clear();
        self.commands.clear();
        self.failed_commands.clear();
        self.rejected_commands.clear();
        self.counts = TickCounts::default();
        self.awaited = TickWaits::default();
    }
}

/// Whether a connection has to fetch replies before more of its requests run.
pub(super) fn over_limit<B: Backend>(shared: &Shared<B>, output: &Output) -> bool {
    output.pending() > shared.options.output_limit_bytes
}
