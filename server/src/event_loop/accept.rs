//! The accepting thread: it accepts connections and gives them to the workers, one after the other.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hedgerow::backend::Backend;
use mio::{Events, Poll, Token, Waker};

use crate::clients::list::ClientAddresses;
use crate::error::{Error, Result};
use crate::event_loop::descriptors::{Reserve, retry_after};
use crate::event_loop::peer::Incoming;
use crate::protocol::port::PortProtocol;
use crate::session::Session;
use crate::shared::{Shared, WorkerHandle};
use crate::sockets::listener::Listener;
use crate::sockets::stream::Stream;
use crate::{memcached, resp};

const WAKER: Token = Token(usize::MAX);
/// Connections accepted at one place before the next is visited.
const ACCEPTS_PER_VISIT: usize = 64;

/// Where accepted connections go.
pub(crate) struct Target<B: Backend> {
    pub(crate) sender: Sender<Incoming<B>>,
    pub(crate) handle: Arc<WorkerHandle>,
}

/// A place to connect to: its socket, and the descriptor kept for telling clients that there is no
/// other.
struct Port {
    listener: Listener,
    speaks: PortProtocol,
    reserve: Reserve,
}

/// How far accepting at one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    /// No thread waits any more.
    All,
    /// Somebody may still wait.
    Some,
    /// Somebody waits, but the process has no descriptor for the connection.
    Failed,
}

/// The accepting thread's state.
pub(crate) struct Acceptor<B: Backend> {
    shared: Arc<Shared<B>>,
    poll: Poll,
    ports: Vec<Port>,
    targets: Vec<Target<B>>,
    next: usize,
}

impl<B: Backend> Acceptor<B> {
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        listeners: Vec<(Listener, PortProtocol)>,
        targets: Vec<Target<B>>,
    ) -> Result<(Acceptor<B>, Waker)> {
        let poll = Poll::new().map_err(Error::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("create a waker"))?;
        let mut ports = Vec::new();
        for (i, (mut listener, speaks)) in listeners.into_iter().enumerate() {
            let reserve =
                Reserve::new(&listener, 1).map_err(Error::system("reserve a file descriptor"))?;
            listener
                .watch(poll.registry(), Token(i))
                .map_err(Error::system("watch a listening socket"))?;
            ports.push(Port {
                listener,
                speaks,
                reserve,
            });
        }
        Ok((
            Acceptor {
                shared,
                poll,
                ports,
                targets,
                next: 0,
            },
            waker,
        ))
    }

    /// Accepts until the server stops.
    ///
    /// # Errors
    /// The poll has failed: no connection can be accepted any more.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let (mut timeout, mut failures) = (None, 0);
        while !self.shared.is_stopping() {
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let ports = 0..self.ports.len();
            let accepted: Vec<Accepted> = ports.map(|port| self.accept_some(port)).collect();
            // Edge-triggered: the poll does not report those that are left again.
            timeout = if accepted.contains(&Accepted::Failed) {
                failures += 1;
                Some(retry_after(failures))
            } else {
                failures = 0;
                accepted.contains(&Accepted::Some).then_some(Duration::ZERO)
            };
        }
        Ok(())
    }

    fn accept_some(&mut self, port: usize) -> Accepted {
        for _ in 0..ACCEPTS_PER_VISIT {
            let Port {
                listener,
                speaks,
                reserve,
            } = &mut self.ports[port];
            let speaks = *speaks;
            match reserve.accept(|| listener.accept()) {
                Ok(stream) => {
                    // Others may have closed something since the reserve was touched.
                    reserve.refill();
                    if reserve.is_full() {
                        self.welcome(stream, speaks);
                    } else {
                        let reason = "no file descriptor is left (ulimit -n)";
                        self.refuse(stream, speaks, reason);
                        self.ports[port].reserve.refill();
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Accepted::All,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        self.shared.events.out_of_descriptors(speaks, &error);
                        // Somebody else may have closed something meanwhile.
                        self.ports[port].reserve.refill();
                        return Accepted::Failed;
                    }
                },
            }
        }
        Accepted::Some
    }

    /// Tells a client in words that it cannot be served, and closes its connection.
    fn refuse(&self, mut stream: Stream, speaks: PortProtocol, reason: &str) {
        let Shared {
            metrics, events, ..
        } = &*self.shared;
        metrics.refused.fetch_add(1, Ordering::Relaxed);
        events.refused(speaks, stream.peer(), reason);
        let refusal: &[u8] = match speaks {
            PortProtocol::Memcached => b"SERVER_ERROR max number of clients reached\r\n",
            _ => b"-ERR max number of clients reached\r\n",
        };
        // A courtesy: whether it arrives changes nothing.
        let _ = stream.write(refusal);
    }

    fn welcome(&mut self, stream: Stream, speaks: PortProtocol) {
        let Shared {
            settings,
            metrics,
            connections,
            next_connection_id,
            clients,
            ..
        } = &*self.shared;
        if connections.fetch_add(1, Ordering::Relaxed) >= settings.max_connections() {
            connections.fetch_sub(1, Ordering::Relaxed);
            return self.refuse(stream, speaks, "max-connections is reached");
        }
        metrics.accepted.fetch_add(1, Ordering::Relaxed);
        stream.set_up();
        let id = next_connection_id.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(port = %speaks, id, "connection accepted");
        let addresses = ClientAddresses {
            peer: stream.peer(),
            own: stream.own(),
        };
        let session = match speaks {
            PortProtocol::Resp => Session::Resp(Box::new(resp::Session::new(
                clients.enter(id, addresses),
                !settings.has_password(),
            ))),
            _ => Session::Memcached(Box::new(memcached::Session::new(!settings.has_password()))),
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
