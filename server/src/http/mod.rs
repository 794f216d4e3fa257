//! The HTTP port: `/metrics` for Prometheus and `/healthz` for health probes. One thread runs an
//! event loop for it, so a scrape never delays a request. Everything that a client can consume is
//! bounded: the head of a request ([`request::MAX_HEAD_BYTES`]), bodies (none), answers in memory
//! (one a connection), time (each state of a connection has a deadline), and connections
//! ([`HTTP_CONNECTIONS`]; a new one replaces the one that has waited longest). So a probe of
//! `/healthz` gets its answer whatever other clients do, also when the process has no file
//! descriptor left: the thread keeps some in reserve ([`crate::event_loop::descriptors`]).
//!
//! | module | what |
//! |---|---|
//! | `request` | parsing a head |
//! | `connection` | one connection's states and deadlines |
//! | `answers` | what is answered |

mod answers;
mod connection;
mod request;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::backend::Backend;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::error::{Error, Result};
use crate::event_loop::descriptors::{HTTP_CONNECTIONS, Reserve, retry_after};
use crate::protocol::port::PortProtocol;
use crate::shared::Shared;
use crate::sockets::listener::Listener;
use crate::sockets::stream::Stream;
use connection::{Connection, HttpState, VisitResult};

/// File descriptors that are kept for connections when the process has no other.
const RESERVED_DESCRIPTORS: usize = 4;
/// Connections accepted between two looks at those that are there.
const ACCEPTS_PER_VISIT: usize = HTTP_CONNECTIONS / 2;

const WAKER: Token = Token(usize::MAX);
/// Places to connect to have the tokens from here on, and connections those from zero.
const FIRST_LISTENER: usize = usize::MAX / 2;

/// A place to connect to.
struct Port {
    listener: Listener,
    reserve: Reserve,
    /// More connections may be waiting.
    waiting: bool,
}

/// The HTTP thread's state.
pub(crate) struct HttpServer<B: Backend> {
    shared: Arc<Shared<B>>,
    poll: Poll,
    ports: Vec<Port>,
    connections: Vec<Option<Connection<Stream>>>,
    /// When to try again after the process had no descriptor.
    accept_at: Option<Instant>,
    failures: u32,
}

impl<B: Backend> HttpServer<B> {
    /// Takes over listening sockets; the waker ends [`HttpServer::run`] once the server stops.
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        listeners: Vec<Listener>,
    ) -> Result<(HttpServer<B>, Waker)> {
        let poll = Poll::new().map_err(Error::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("create a waker"))?;
        let mut ports = Vec::new();
        for (i, mut listener) in listeners.into_iter().enumerate() {
            let reserve = Reserve::new(&listener, RESERVED_DESCRIPTORS)
                .map_err(Error::system("reserve file descriptors"))?;
            listener
                .watch(poll.registry(), Token(FIRST_LISTENER + i))
                .map_err(Error::system("watch a listening socket"))?;
            ports.push(Port {
                listener,
                reserve,
                waiting: false,
            });
        }
        let server = HttpServer {
            shared,
            poll,
            ports,
            connections: (0..HTTP_CONNECTIONS).map(|_| None).collect(),
            accept_at: None,
            failures: 0,
        };
        Ok((server, waker))
    }

    /// Answers until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(2 * HTTP_CONNECTIONS);
        let mut again: Vec<usize> = Vec::new();
        while !self.shared.is_stopping() {
            let timeout = self.timeout(Instant::now(), !again.is_empty());
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "the HTTP port has failed and is closed");
                    return;
                }
                _ => {}
            }
            let now = Instant::now();
            let mut ready = std::mem::take(&mut again);
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(listener) if listener >= FIRST_LISTENER => {
                        self.ports[listener - FIRST_LISTENER].waiting = true;
                    }
                    Token(slot) if !ready.contains(&slot) => ready.push(slot),
                    _ => {}
                }
            }
            for slot in ready {
                if self.visit(slot, now) {
                    again.push(slot);
                }
            }
            self.close_overdue(now);
            if self.accept_at.is_none_or(|at| at <= now) {
                self.accept_at = None;
                for port in 0..self.ports.len() {
                    self.accept_some(port, now, &mut again);
                }
            }
        }
    }

    /// How long nothing can happen unless a socket becomes ready.
    fn timeout(&self, now: Instant, again: bool) -> Option<Duration> {
        let waiting = self.ports.iter().any(|port| port.waiting);
        if again || (waiting && self.accept_at.is_none()) {
            return Some(Duration::ZERO);
        }
        let deadlines = self.connections.iter().flatten().map(Connection::deadline);
        let next = deadlines.chain(self.accept_at).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Lets a connection go on; whether it has more to do at once.
    fn visit(&mut self, slot: usize, now: Instant) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return false;
        };
        let shared = &self.shared;
        match connection.visit(now, &|request| answers::answer(shared, request)) {
            VisitResult::Waits => false,
            VisitResult::Again => true,
            VisitResult::Over => {
                self.close(slot);
                false
            }
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.connections[slot].take() {
            let _ = self.poll.registry().deregister(&mut connection.socket);
            drop(connection);
            self.ports.iter_mut().for_each(|port| port.reserve.refill());
        }
    }

    fn close_overdue(&mut self, now: Instant) {
        for slot in 0..self.connections.len() {
            let overdue = |connection: &Connection<_>| connection.deadline() <= now;
            if self.connections[slot].as_ref().is_some_and(overdue) {
                self.close(slot);
            }
        }
    }

    /// The place for a new connection: a free one, or that of the connection that has waited
    /// longest, one for a request rather than one for an answer to be fetched.
    fn make_room(&mut self) -> usize {
        if let Some(free) = self.connections.iter().position(Option::is_none) {
            return free;
        }
        let rank = |slot: &usize| {
            let connection = self.connections[*slot].as_ref();
            connection
                .map(|connection| (connection.state() == HttpState::Writing, connection.since()))
        };
        let oldest = (0..self.connections.len()).min_by_key(rank).unwrap_or(0);
        self.close(oldest);
        oldest
    }

    fn accept_some(&mut self, port: usize, now: Instant, again: &mut Vec<usize>) {
        for _ in 0..ACCEPTS_PER_VISIT {
            let at = &mut self.ports[port];
            if !at.waiting {
                return;
            }
            let (reserve, listener) = (&mut at.reserve, &at.listener);
            match reserve.accept(|| listener.accept()) {
                Ok(socket) => {
                    self.failures = 0;
                    if let Some(slot) = self.adopt(socket, now) {
                        again.push(slot);
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        at.waiting = false;
                        return;
                    }
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        // The one that has waited longest gives its descriptor up.
                        let slot = self.make_room_for_descriptor();
                        if slot.is_none() {
                            let events = &self.shared.events;
                            events.out_of_descriptors(PortProtocol::Http, &error);
                            self.accept_at = Some(now + retry_after(self.failures));
                            self.failures += 1;
                            return;
                        }
                    }
                },
            }
        }
    }

    /// Closes the connection that has waited longest, if there is one.
    fn make_room_for_descriptor(&mut self) -> Option<usize> {
        let taken = |slot: &usize| self.connections[*slot].is_some();
        let since = |slot: &usize| self.connections[*slot].as_ref().map(Connection::since);
        let slots = 0..self.connections.len();
        let oldest = slots.filter(taken).min_by_key(since)?;
        self.close(oldest);
        Some(oldest)
    }

    fn adopt(&mut self, mut socket: Stream, now: Instant) -> Option<usize> {
        let slot = self.make_room();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut socket, Token(slot), both).ok()?;
        self.connections[slot] = Some(Connection::new(socket, now));
        Some(slot)
    }
}
