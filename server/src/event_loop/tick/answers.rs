//! The answers to the keys of a batch.

use hedgerow::Row;
use hedgerow::backend::Backend;

use crate::connection::output::Output;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::request::{KeyPosition, Request};
use crate::session::Session;
use crate::shared::Shared;

/// A reply of up to this length never waits for the next tick, however many are large.
pub(super) const SMALL_REPLY_BYTES: usize = 4 << 10;

/// Whose key stands at a place of a batch.
#[derive(Clone, Copy)]
pub(crate) struct KeyOwner {
    pub(crate) slot: u32,
    pub(crate) position: KeyPosition,
    /// The number of its request within the tick.
    pub(super) request: u32,
}

/// The keys that one `get_each` looks up, and whose they are.
#[derive(Clone, Copy)]
pub(super) struct ReadBatch<'t> {
    pub(super) requests: &'t [Request],
    pub(super) keys: &'t [&'t [u8]],
    pub(super) owners: &'t [KeyOwner],
}

impl ReadBatch<'_> {
    /// One key of it.
    pub(super) fn only(self, at: usize) -> Self {
        Self {
            keys: &self.keys[at..=at],
            owners: &self.owners[at..=at],
            ..self
        }
    }

    /// The code of the request that a key belongs to.
    #[inline]
    pub(super) fn code(self, at: usize) -> u32 {
        self.requests[self.owners[at].request as usize].code
    }

    /// Encodes what was found under a key; whether that is no error.
    #[inline]
    pub(super) fn reply<B: Backend>(
        self,
        at: usize,
        row: Option<Row<'_>>,
        session: &mut Session<B>,
        out: &mut ReplyBuffer,
    ) -> bool {
        let position = self.owners[at].position;
        session.reply_read(self.code(at), self.keys[at], position, row, out)
    }
}

/// What the answers of a batch add up to.
pub(super) struct ReadSums<'t> {
    /// Keys that were found.
    pub(super) hits: &'t mut u64,
    /// By slot: by how much the memory of an output grew for large replies.
    pub(super) encoded_bytes: &'t mut [usize],
}

impl ReadSums<'_> {
    /// Counts by how much the memory of an output grew for a large reply, from `before` bytes: the
    /// replies of others, in this tick and those of other workers, have to do without.
    pub(super) fn count_growth<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slot: usize,
        before: usize,
        output: &Output,
    ) {
        let grown = output.capacity().saturating_sub(before);
        shared.client_memory.encoded(grown);
        self.encoded_bytes[slot] += grown;
    }
}

/// The length of a row, if it is large; else 0.
#[inline]
pub(super) fn large_bytes(row: Row<'_>) -> usize {
    let bytes = row.size_bytes();
    if bytes > SMALL_REPLY_BYTES { bytes } else { 0 }
}

/// Answers one key of a batch; how long the reply is, if it is large.
#[inline]
pub(super) fn answer<B: Backend>(
    shared: &Shared<B>,
    batch: ReadBatch<'_>,
    at: usize,
    row: Option<Row<'_>>,
    sums: &mut ReadSums<'_>,
    sessions: &mut [Option<Session<B>>],
    outputs: &mut [Output],
) -> usize {
    *sums.hits += u64::from(row.is_some());
    let slot = batch.owners[at].slot as usize;
    let Some(session) = &mut sessions[slot] else {
        return 0;
    };
    let output = &mut outputs[slot];
    if let Some(row) = row.filter(|row| large_bytes(*row) > 0) {
        return answer_large(shared, batch, at, row, sums, session, output);
    }
    if !batch.reply(at, row, session, output.buffer()) {
        session.count_wrong_type(batch.code(at));
    }
    0
}

/// Answers a key whose row is large; how long the reply is, if that is large, too.
fn answer_large<B: Backend>(
    shared: &Shared<B>,
    batch: ReadBatch<'_>,
    at: usize,
    row: Row<'_>,
    sums: &mut ReadSums<'_>,
    session: &mut Session<B>,
    output: &mut Output,
) -> usize {
    let (pending, capacity) = (output.pending(), output.capacity());
    if let Session::Resp(session) = session {
        session.reply_large(shared, batch.code(at), row, output.buffer());
    } else {
        // Of memcached a `get` may have further keys behind this one, whose answers an error would
        // have to end; there the connection with the most memory is closed instead.
        batch.reply(at, Some(row), session, output.buffer());
    }
    sums.count_growth(shared, batch.owners[at].slot as usize, capacity, output);
    let reply_bytes = output.pending() - pending;
    if reply_bytes > SMALL_REPLY_BYTES {
        reply_bytes
    } else {
        0
    }
}
