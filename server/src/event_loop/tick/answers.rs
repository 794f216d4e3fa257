//! The answers to the keys of a batch.

use hedgerow::Row;

use crate::connection::output::Output;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::request::{KeyPosition, Request};
use crate::session::Session;

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
    /// Encodes what was found under a key.
    #[inline]
    pub(super) fn reply(
        self,
        at: usize,
        row: Option<Row<'_>>,
        session: &mut Session,
        out: &mut ReplyBuffer,
    ) {
        let owner = self.owners[at];
        let code = self.requests[owner.request as usize].code;
        session.reply_read(code, self.keys[at], owner.position, row, out);
    }
}

/// Answers one key of a batch.
#[inline]
pub(super) fn answer(
    batch: ReadBatch<'_>,
    at: usize,
    row: Option<Row<'_>>,
    sessions: &mut [Option<Session>],
    outputs: &mut [Output],
) {
    let slot = batch.owners[at].slot as usize;
    if let Some(session) = &mut sessions[slot] {
        batch.reply(at, row, session, outputs[slot].buffer());
    }
}
