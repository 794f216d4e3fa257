//! A connection's socket, and what else a worker knows of it besides its session and buffers.

use std::io;
use std::time::Instant;

use hedgerow::backend::Backend;
use mio::{Interest, Registry, Token};

use crate::connection::output::Flushed;
use crate::session::Session;
use crate::sockets::stream::Stream;

/// A connection on its way from the accepting thread to a worker.
pub(crate) struct Incoming<B: Backend> {
    pub(crate) stream: Stream,
    pub(crate) session: Session<B>,
}

/// What the loop knows of a connection besides its session and buffers.
pub(crate) struct Peer {
    pub(crate) stream: Stream,
    pub(super) active_at: Instant,
    /// Bytes that the next request needs in all, as far as known.
    pub(super) wanted: usize,
    /// In the queue of connections to look at.
    pub(super) queued: bool,
    /// The socket may have bytes to read.
    pub(crate) readable: bool,
    /// Whole requests may be left in the input: they come first.
    pub(crate) unparsed: bool,
    /// The end of what the peer sends has been announced.
    pub(crate) hung_up: bool,
    /// The end has been read: what was asked is still answered.
    pub(crate) ended: bool,
    /// Listed in `waiting`.
    pub(crate) waiting: bool,
    /// Replies were left because the socket took no more.
    pub(super) pending: bool,
    /// The poll tells when the socket takes more.
    watches_writable: bool,
    /// The output is over its limit: nothing is run until some of it is fetched.
    pub(crate) blocked: bool,
    /// It fetches nothing: it is read from all the same, as it may send everything before it reads.
    pub(crate) buffers: bool,
    /// Bytes sent to it since it was blocked or looked at.
    pub(crate) fetched: bool,
    /// The memory that it holds, as counted.
    pub(crate) memory_bytes: usize,
    /// Since when that is over the soft limit.
    pub(crate) over_soft_limit_since: Option<Instant>,
    /// The next request waits for the end of a pause.
    pub(super) paused: bool,
    /// What a batch has received into the room of its input already.
    pub(super) received: Option<io::Result<usize>>,
    /// What a batch has sent already of the output's next bytes.
    pub(super) sent: Option<io::Result<usize>>,
    /// Nothing more is read; the connection ends when its replies are sent.
    pub(super) closing: bool,
}

impl Peer {
    /// A connection at its beginning.
    pub(super) fn new(stream: Stream, now: Instant) -> Peer {
        Peer {
            stream,
            active_at: now,
            wanted: 0,
            queued: false,
            readable: false,
            unparsed: false,
            hung_up: false,
            ended: false,
            waiting: false,
            pending: false,
            watches_writable: false,
            blocked: false,
            buffers: false,
            fetched: false,
            memory_bytes: 0,
            over_soft_limit_since: None,
            paused: false,
            received: None,
            sent: None,
            closing: false,
        }
    }

    /// Whether it sent something that was not read, or has not run.
    pub(super) fn has_input(&self) -> bool {
        self.readable || self.queued || self.unparsed
    }

    /// Has the poll of a worker tell what arrives for the connection in this slot.
    ///
    /// # Errors
    /// That of the system, which is out of memory or of watches.
    pub(super) fn register(&mut self, registry: &Registry, slot: usize) -> io::Result<()> {
        registry.register(&mut self.stream, Token(slot), Interest::READABLE)
    }

    /// Has the poll tell as well when the socket takes more, from the moment when it took no more
    /// until all is sent. Not always: a Unix domain socket tells it of each reply that the client
    /// fetches, which would wake the worker twice for each request.
    ///
    /// # Errors
    /// That of the system.
    #[inline]
    pub(super) fn watch_sent(
        &mut self,
        flushed: Flushed,
        registry: &Registry,
        slot: usize,
    ) -> io::Result<()> {
        self.pending = flushed != Flushed::All;
        let watches_writable = match flushed {
            Flushed::All => false,
            Flushed::Blocked => true,
            Flushed::More => self.watches_writable,
        };
        if watches_writable == self.watches_writable {
            return Ok(());
        }
        self.watches_writable = watches_writable;
        let interests = match watches_writable {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        registry.reregister(&mut self.stream, Token(slot), interests)
    }
}
