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

/// The keys that one `get_many` looks up, and whose they are.
#[derive(Clone, Copy)]
pub(super) struct ReadBatch<'t> {
    pub(super) requests: &'t [Request],
    pub(super) keys: &'t [&'t [u8]],
    pub(super) owners: &'t [KeyOwner],
}

impl ReadBatch<'_> {
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

/// Answers one key of a batch.
#[inline]
pub(super) fn answer<B: Backend>(
    shared: &Shared<B>,
    batch: ReadBatch<'_>,
    at: usize,
    row: Option<Row<'_>>,
    sessions: &mut [Option<Session<B>>],
    outputs: &mut [Output],
) {
    let slot = batch.owners[at].slot as usize;
    if let Some(session) = &mut sessions[slot] {
        // Of memcached a `get` may have further keys behind this one, whose answers an error would
        // have to end; there the connection with the most memory is closed instead.
        if let Session::Resp(session) = session
            && let Some(row) = row.filter(|row| row.size_bytes() > SMALL_REPLY_BYTES)
        {
            return session.reply_large(shared, batch.code(at), row, outputs[slot].buffer());
        }
        let is_answered = batch.reply(at, row, session, outputs[slot].buffer());
        if !is_answered {
            session.count_wrong_type(batch.code(at));
        }
    }
}
