//! The seam between the event loop and the protocols.
//!
//! The loop knows no syntax. Each connection's [`Session`] parses requests out of the input; the
//! loop runs those that it can batch (plain reads and plain puts), and lets the session run the
//! others one by one:
//!
//! ```text
//! input ──parse──► Request{Read}   ─► one get_many over all connections ─► reply_read  ─┐
//!                  Request{Put}    ─► prefetch_many, then put_with      ─► reply_put   ─┼─► output
//!                  Request{Single} ─► execute ──────────────────────────────────────────┘
//! ```
//!
//! A request names its arguments by [`Span`]s: ranges of the connection's input, which stays in
//! place until the tick ends. Sessions append replies to the output and never wait.

use std::time::{Duration, Instant};

use hedgerow::backend::Backend;
use hedgerow::{Commit, Row};

use crate::clients::pause::Scope;
use crate::connection::input::Input;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::effects::Effects;
use crate::protocol::port::PortProtocol;
use crate::protocol::request::{KeyPosition, Kind, Parsed, Request, Span};
use crate::shared::Shared;
use crate::{memcached, resp};

/// The error reply to a write that is applied, but not known to be on disk.
fn not_on_disk(error: &hedgerow::Error) -> String {
    match error {
        hedgerow::Error::DiskFull => "the disk is full: this write is applied but not known to be \
             on disk, and lost if the server ends before there is space; free some space"
            .to_owned(),
        error => format!("this write is applied but not known to be on disk: {error}"),
    }
}

/// What one connection's protocol remembers, and does.
pub(crate) enum Session<B: Backend> {
    Resp(Box<resp::Session<B>>),
    Memcached(Box<memcached::Session>),
}

/// Calls the same method of whichever session it is.
macro_rules! each {
    ($self:expr, $session:ident => $call:expr) => {
        match $self {
            Session::Resp($session) => $call,
            Session::Memcached($session) => $call,
        }
    };
}

impl<B: Backend> Session<B> {
    /// Takes one request out of `input` at `at`, pushing its arguments as spans.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        shared: &Shared<B>,
        input: &mut Input,
        at: usize,
        spans: &mut Vec<Span>,
    ) -> Parsed {
        each!(self, session => session.parse(shared, input, at, spans))
    }

    /// Requests that were parsed will be parsed again, from the first that did not run on.
    pub(crate) fn forget_parsed(&mut self) {
        each!(self, session => session.forget_parsed());
    }

    /// The memory that the session takes up, beyond a few bytes.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        match self {
            Session::Resp(session) => session.memory(),
            Session::Memcached(_) => 0,
        }
    }

    /// Shows others what the connection is like after a tick, and how many bytes its buffers of
    /// input and output hold.
    #[inline]
    pub(crate) fn publish(&self, now: Instant, input_bytes: usize, output_bytes: usize) {
        if let Session::Resp(session) = self {
            session.publish(now);
            session.client.publish_buffers(input_bytes, output_bytes);
        }
    }

    /// Ends snapshots whose time is over.
    pub(crate) fn end_due(&mut self, now: Instant) {
        if let Session::Resp(session) = self {
            session.snapshots.end_due(now);
        }
    }

    /// A request has run, or came in part: a transaction is not idle.
    #[inline]
    pub(crate) fn touch(&mut self) {
        if let Session::Resp(session) = self {
            session.touch();
        }
    }

    /// When a transaction is to be rolled back if no request comes until then.
    #[inline]
    pub(crate) fn due_at(&self, longest_idle: Duration) -> Option<Instant> {
        match self {
            Session::Resp(session) => session.due_at(longest_idle),
            Session::Memcached(_) => None,
        }
    }

    /// Rolls a transaction back that is idle; whether its memory changed.
    pub(crate) fn end_if_idle(&mut self, now: Instant, longest_idle: Duration) -> bool {
        match self {
            Session::Resp(session) => session.end_if_idle(now, longest_idle),
            Session::Memcached(_) => false,
        }
    }

    /// What is spoken on the connection's port.
    pub(crate) fn speaks(&self) -> PortProtocol {
        match self {
            Session::Resp(_) => PortProtocol::Resp,
            Session::Memcached(_) => PortProtocol::Memcached,
        }
    }

    /// Whether the client wants no reply now (`CLIENT REPLY`).
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Session::Resp(session) if session.replies != resp::Replies::On)
    }

    /// Whether somebody wants the connection to end.
    pub(crate) fn is_killed(&self) -> bool {
        matches!(self, Session::Resp(session) if session.client.is_killed())
    }

    /// The number of the keyspace in which requests work now.
    #[inline]
    pub(crate) fn database(&self) -> usize {
        each!(self, session => session.database())
    }

    /// Whether reads and puts may be batched now (not, say, inside `MULTI`).
    #[inline]
    pub(crate) fn may_batch(&self) -> bool {
        each!(self, session => session.may_batch())
    }

    /// Whether a request must run before the next one can be parsed.
    #[inline]
    pub(crate) fn one_by_one(&self) -> bool {
        each!(self, session => session.one_by_one())
    }

    /// Whether a request can take so long that its own time is taken.
    #[inline]
    pub(crate) fn may_take_long(&self, code: u32, input: &[u8], spans: &[Span]) -> bool {
        match self {
            Session::Resp(session) => session.may_take_long(code, spans.len()),
            Session::Memcached(session) => session.may_take_long(input, spans),
        }
    }

    /// Whether a request waits while those of a scope are paused.
    pub(crate) fn waits(
        &self,
        scope: Scope,
        kind: Kind,
        code: u32,
        input: &[u8],
        spans: &[Span],
    ) -> bool {
        match self {
            Session::Resp(session) => session.waits(scope, kind, code),
            Session::Memcached(session) => session.waits(scope, kind, input, spans),
        }
    }

    /// Replies to a key of a [`Kind::Read`]; whether that is no error, which is always that the key
    /// has another type. One is counted ([`Session::count_wrong_type`]) when the reply is final.
    #[inline]
    pub(crate) fn reply_read(
        &mut self,
        code: u32,
        key: &[u8],
        position: KeyPosition,
        row: Option<Row<'_>>,
        out: &mut ReplyBuffer,
    ) -> bool {
        match self {
            Session::Resp(session) => session.reply_read(row, out),
            Session::Memcached(session) => {
                session.reply_read(code, key, position, row, out);
                true
            }
        }
    }

    /// Counts a request, by its code, whose reply is that its key has another type.
    #[cold]
    pub(crate) fn count_wrong_type(&mut self, code: u32) {
        if let Session::Resp(session) = self {
            session.count_wrong_type(code);
        }
    }

    /// Replies to a [`Kind::Put`]; `Err` if it failed.
    #[inline]
    pub(crate) fn reply_put(
        &mut self,
        code: u32,
        outcome: hedgerow::Result<Commit>,
        out: &mut ReplyBuffer,
    ) {
        match self {
            Session::Resp(session) => session.reply_put(code, outcome, out),
            Session::Memcached(session) => session.reply_put(code, outcome, out),
        }
    }

    /// Replaces the reply to a request (by its code) whose commit is applied, but not known to be
    /// on disk. `is_silent`: the request asked for no reply but to an error.
    pub(crate) fn reply_not_on_disk(
        &mut self,
        code: u32,
        is_silent: bool,
        error: &hedgerow::Error,
        out: &mut ReplyBuffer,
    ) {
        let text = not_on_disk(error);
        match self {
            Session::Resp(session) => session.reply_not_on_disk(is_silent, &text, out),
            Session::Memcached(session) => session.reply_not_on_disk(code, is_silent, &text, out),
        }
    }

    /// Replaces the reply to a request whose deadline for durability has passed.
    pub(crate) fn reply_overdue(&mut self, out: &mut ReplyBuffer) {
        match self {
            Session::Resp(session) => session.reply_overdue(out),
            Session::Memcached(_) => debug_assert!(false, "memcached knows no deadlines"),
        }
    }

    /// What to send to a client whose request exceeds the limit.
    pub(crate) fn too_long(&self) -> Vec<u8> {
        each!(self, session => session.too_long())
    }

    /// Ends the reply to a request of a batch, by its code, that the engine failed, and counts
    /// that.
    pub(crate) fn fail(&mut self, code: u32, error: &hedgerow::Error, out: &mut ReplyBuffer) {
        match self {
            Session::Resp(session) => session.fail(code, error, out),
            // Its client would take an error for the reply to another request.
            Session::Memcached(_) if code == memcached::Code::QuietSet as u32 => {}
            Session::Memcached(session) => session.reply_error(error, out),
        }
    }

    /// Runs any request by itself and replies. So many of its keys were answered already.
    pub(crate) fn execute(
        &mut self,
        shared: &Shared<B>,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        answered_keys: usize,
        out: &mut ReplyBuffer,
    ) -> Effects {
        match self {
            Session::Resp(session) => session.execute(shared, request, input, spans, out),
            Session::Memcached(session) => {
                session.execute(shared, request, input, spans, answered_keys, out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_wants_no_reply_gets_none_where_its_keyspace_cannot_be_opened() {
        let session = memcached::Session::new(true);
        let mut session: Session<hedgerow::Db> = Session::Memcached(Box::new(session));
        let mut out = ReplyBuffer::default();
        let error = hedgerow::Error::Backend("nobody answers".into());
        session.fail(memcached::Code::QuietSet as u32, &error, &mut out);
        assert_eq!(out.since(0), b"");
        session.fail(memcached::Code::Classic as u32, &error, &mut out);
        assert_eq!(out.since(0), b"SERVER_ERROR nobody answers\r\n");
    }
}
