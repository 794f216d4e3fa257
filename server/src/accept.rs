//! The accepting thread: takes connections and deals them out to the workers in turn.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::protocol::Session;
use crate::shared::{Shared, WorkerHandle};
use crate::worker::Incoming;
use crate::{memcached, resp};

const WAKER: Token = Token(usize::MAX);
const BACKLOG: i32 = 1024;
/// How long to pause when the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(20);

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Resp,
    Memcached,
}

impl std::fmt::Display for Speaks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Speaks::Resp => "resp",
            Speaks::Memcached => "memcached",
        })
    }
}

/// Binds a listening socket.
pub(crate) fn listen(address: SocketAddr) -> Result<std::net::TcpListener> {
    let bind = || -> io::Result<std::net::TcpListener> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| Error::Bind { address, source })
}

/// Where accepted connections go.
pub(crate) struct Target {
    pub(crate) sender: Sender<Incoming>,
    pub(crate) handle: Arc<WorkerHandle>,
}

/// The accepting thread's state.
pub(crate) struct Acceptor {
    shared: Arc<Shared>,
    poll: Poll,
    listeners: Vec<(TcpListener, Speaks)>,
    targets: Vec<Target>,
    next: usize,
}

impl Acceptor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        listeners: Vec<(std::net::TcpListener, Speaks)>,
        targets: Vec<Target>,
    ) -> Result<(Acceptor, Waker)> {
        let poll = Poll::new().map_err(Error::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("create a waker"))?;
        let mut registered = Vec::new();
        for (i, (listener, speaks)) in listeners.into_iter().enumerate() {
            let mut listener = TcpListener::from_std(listener);
            poll.registry()
                .register(&mut listener, Token(i), Interest::READABLE)
                .map_err(Error::system("watch a listening socket"))?;
            registered.push((listener, speaks));
        }
        Ok((
            Acceptor {
                shared,
                poll,
                listeners: registered,
                targets,
                next: 0,
            },
            waker,
        ))
    }

    /// Accepts until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(8);
        let mut timeout = None;
        while !self.shared.is_stopping() {
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
            timeout = None;
            for i in 0..self.listeners.len() {
                if !self.accept_all(i) {
                    // Edge-triggered: nobody reminds us of those that are left.
                    timeout = Some(PAUSE);
                }
            }
        }
    }

    /// Accepts all that wait; `false` if some had to be left.
    fn accept_all(&mut self, listener: usize) -> bool {
        loop {
            match self.listeners[listener].0.accept() {
                Ok((stream, _)) => self.welcome(stream, self.listeners[listener].1),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return true,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        let speaks = self.listeners[listener].1;
                        self.shared.events.out_of_descriptors(speaks, &error);
                        return false;
                    }
                },
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, speaks: Speaks) {
        let Shared {
            settings,
            metrics,
            connections,
            next_connection_id,
            clients,
            events,
            ..
        } = &*self.shared;
        if connections.fetch_add(1, Ordering::Relaxed) >= settings.max_connections() {
            connections.fetch_sub(1, Ordering::Relaxed);
            metrics.refused.fetch_add(1, Ordering::Relaxed);
            let reason = "max-connections is reached";
            events.refused(speaks, stream.peer_addr().ok(), reason);
            let refusal: &[u8] = match speaks {
                Speaks::Resp => b"-ERR max number of clients reached\r\n",
                Speaks::Memcached => b"SERVER_ERROR max number of clients reached\r\n",
            };
            // A courtesy: whether it arrives changes nothing.
            let _ = stream.write(refusal);
            return;
        }
        metrics.accepted.fetch_add(1, Ordering::Relaxed);
        // Replies go out in one write: waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        let id = next_connection_id.fetch_add(1, Ordering::Relaxed);
        let session = match speaks {
            Speaks::Resp => Session::Resp(Box::new(resp::Session::new(
                clients.enter(id, (stream.peer_addr().ok(), stream.local_addr().ok())),
                !settings.has_password(),
            ))),
            Speaks::Memcached => Session::Memcached(Box::new(memcached::Session::new(id))),
        };
        let target = &self.targets[self.next % self.targets.len()];
        self.next += 1;
        if target.sender.send(Incoming { stream, session }).is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let _ = target.handle.waker.wake();
    }
}
