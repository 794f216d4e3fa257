//! The answers to the keys of a batch.

use crate::connection::output::Output;
use crate::session::Session;

/// Large replies that a tick encodes after its first: what would be more waits for the next tick,
/// so that nobody's megabytes hold up others.
pub(super) const LARGE_REPLIES_BYTES: usize = 2 << 20;
/// A reply of up to this length never waits for that.
pub(super) const SMALL_REPLY_BYTES: usize = 4 << 10;

/// Whose key stands at a place of a batch.
#[derive(Clone, Copy)]
pub(crate) struct KeyOwner {
    pub(crate) slot: u32,
    /// Which key of its request, of how many.
    pub(crate) place: (u32, u32),
    /// Its connection's place among the active ones, and the number and code of its request.
    pub(super) active: u32,
    pub(super) request: u32,
    pub(crate) code: u32,
}

#[inline]
pub(super) fn answer(
    owner: KeyOwner,
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
