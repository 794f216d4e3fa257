//! A running server: its threads, from start to shutdown.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hedgerow::Db;
use hedgerow::backend::Backend;
use hedgerow_ring::Ring;
use mio::Events;

use crate::error::{Error, Result};
use crate::event_loop::accept::{Acceptor, Target};
use crate::event_loop::choice::choose;
use crate::event_loop::descriptors::most_connections;
use crate::event_loop::worker::{EVENTS, Worker};
use crate::http::HttpServer;
use crate::options::{EventLoop, ServerOptions};
use crate::protocol::port::PortProtocol;
use crate::resp;
use crate::shared::{FailedThread, Shared};
use crate::sockets::listener::Listener;
use crate::sockets::udp_port::UdpPort;
use crate::stop_request::StopRequest;

/// The ports at which a server listens. Its Unix domain sockets are where its options put them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// For Redis clients.
    pub resp: Option<SocketAddr>,
    /// For memcached clients.
    pub memcached: Option<SocketAddr>,
    /// For memcached clients by UDP: the first worker's port. The others' are right above it.
    pub memcached_udp: Option<SocketAddr>,
    /// For Prometheus and health checks.
    pub http: Option<SocketAddr>,
}

/// A running server of a database. Dropping it shuts it down.
pub struct Server<B: Backend = Db> {
    shared: Arc<Shared<B>>,
    addresses: Addresses,
    accept_waker: Option<mio::Waker>,
    http_waker: Option<mio::Waker>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Asks a server to stop, from any thread; [`Server::wait`] then returns.
#[derive(Clone)]
pub struct Stopper(Arc<StopRequest>);

impl Stopper {
    /// Asks.
    pub fn stop(&self) {
        self.0.ask();
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}

impl<B: Backend> std::fmt::Debug for Server<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Server<B> {
    /// Checks the options, binds the ports, and starts serving `db`.
    ///
    /// # Errors
    /// The options are unsafe or wrong, a port is taken, or a thread cannot be started.
    pub fn start(db: Arc<B>, mut options: ServerOptions) -> Result<Server<B>> {
        options.check()?;
        let (mut addresses, (listeners, http)) = bind(&options)?;
        let udp = options.memcached_udp;
        let udp = udp.map(|first| UdpPort::bind_all(first, options.workers));
        let udp = udp.transpose()?.unwrap_or_default();
        addresses.memcached_udp = udp.first().map(UdpPort::at);
        // From here on, the ports that clients see.
        (options.resp, options.memcached, options.http) =
            (addresses.resp, addresses.memcached, addresses.http);
        options.memcached_udp = addresses.memcached_udp;
        options.max_connections = most_connections(options.max_connections, options.workers);
        let (event_loop, rings) = choose(options.event_loop, options.workers)?;
        options.event_loop = event_loop;
        let shared = Shared::new(db, options, resp::command_names())?;
        let mut server = Server {
            shared: Arc::clone(&shared),
            addresses,
            accept_waker: None,
            http_waker: None,
            threads: Mutex::new(Vec::new()),
        };
        let targets = server.start_workers(rings, udp)?;
        let (acceptor, waker) = Acceptor::new(Arc::clone(&shared), listeners, targets)?;
        server.accept_waker = Some(waker);
        server.spawn("hedgerow-accept".into(), move || acceptor.run())?;
        if !http.is_empty() {
            let (http, waker) = HttpServer::new(Arc::clone(&shared), http)?;
            server.http_waker = Some(waker);
            let run = move || {
                http.run();
                Ok(())
            };
            server.spawn("hedgerow-http".into(), run)?;
        }
        Ok(server)
    }

    /// Starts the workers, each with its UDP port if there are any, and says where connections for
    /// them go.
    fn start_workers(
        &mut self,
        rings: Vec<Option<Ring>>,
        udp: Vec<UdpPort>,
    ) -> Result<Vec<Target<B>>> {
        let (mut targets, mut workers) = (Vec::new(), Vec::new());
        let mut udp = udp.into_iter();
        for (index, ring) in rings.into_iter().enumerate() {
            let (sender, incoming) = channel();
            let shared = Arc::clone(&self.shared);
            let worker = Worker::new(shared, index, incoming, ring, udp.next())?;
            targets.push(Target {
                sender,
                handle: worker.handle(),
            });
            workers.push(worker);
        }
        self.shared.set_workers(
            targets
                .iter()
                .map(|target| Arc::clone(&target.handle))
                .collect(),
        );
        for (index, worker) in workers.into_iter().enumerate() {
            let run = move || worker.run(Events::with_capacity(EVENTS));
            self.spawn(format!("hedgerow-{index}"), run)?;
        }
        Ok(targets)
    }

    /// Starts a thread. Neither a bug in one request nor a failed event loop may leave the
    /// connections of the thread, or those that nobody accepts any more, hanging forever: if the
    /// thread panics or fails, the owner shuts everything down in order instead.
    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let (shared, thread) = (Arc::clone(&self.shared), name.clone());
        let guarded = move || {
            let error = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    tracing::error!(thread, %error, "an event loop has failed: stopping");
                    Some(error)
                }
                Err(_) => {
                    tracing::error!(thread, "a thread has panicked: stopping");
                    None
                }
            };
            let name = thread;
            shared.fail(FailedThread { name, error });
        };
        let thread = std::thread::Builder::new().name(name).spawn(guarded);
        let thread = thread.map_err(Error::system("start a thread"))?;
        self.threads
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
        Ok(())
    }

    /// Where the server listens: with the real numbers for ports asked for as 0.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The event loop that its workers run: never [`EventLoop::Auto`], and no more
    /// [`EventLoop::IoUring`] once it has failed all of them.
    pub fn event_loop(&self) -> EventLoop {
        self.shared.event_loop()
    }

    /// A handle with which another thread, or a signal, can end [`Server::wait`].
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared.stop_request))
    }

    /// Blocks until somebody asks the server to stop: a client with `SHUTDOWN`, or a
    /// [`Stopper`]. Then call [`Server::shutdown`].
    pub fn wait(&self) {
        self.shared.stop_request.wait();
    }

    /// Why the server asked its owner to stop it by itself: one of its threads panicked, or the
    /// event loop of one failed.
    pub fn failure(&self) -> Option<Error> {
        let FailedThread { name, error } = self.shared.failed_thread()?;
        let thread = name.clone();
        Some(match error {
            None => Error::Panicked { thread },
            Some(error) => Error::EventLoopFailed {
                thread,
                reason: error.to_string(),
            },
        })
    }

    /// Stops accepting, finishes the requests under way, sends their replies, closes all
    /// connections, and returns when all threads have ended, also those of checkpoints and backups
    /// that clients asked for. The database stays open.
    pub fn shutdown(&self) {
        self.shared.ask_to_stop();
        self.shared.stop_workers();
        for waker in [&self.accept_waker, &self.http_waker].into_iter().flatten() {
            // Fails only when the thread is gone.
            let _ = waker.wake();
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has already said why.
            let _ = thread.join();
        }
        self.shared.await_background();
    }
}

impl<B: Backend> Drop for Server<B> {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Sockets that listen for clients, each with what is spoken there; and those for HTTP.
type Listeners = (Vec<(Listener, PortProtocol)>, Vec<Listener>);

/// Binds the ports and makes the Unix domain sockets that the options ask for.
fn bind(options: &ServerOptions) -> Result<(Addresses, Listeners)> {
    let mut addresses = Addresses::default();
    let unix = &options.unix;
    let mut listeners = Vec::new();
    for (address, bound, path, speaks) in [
        (
            options.resp,
            &mut addresses.resp,
            &unix.resp,
            PortProtocol::Resp,
        ),
        (
            options.memcached,
            &mut addresses.memcached,
            &unix.memcached,
            PortProtocol::Memcached,
        ),
        (
            options.http,
            &mut addresses.http,
            &unix.http,
            PortProtocol::Http,
        ),
    ] {
        if let Some(address) = address {
            let (listener, at) = Listener::tcp(address)?;
            *bound = Some(at);
            listeners.push((listener, speaks));
        }
        if let Some(path) = path {
            listeners.push((Listener::unix(path, unix.mode)?, speaks));
        }
    }
    let (http, others) = listeners
        .into_iter()
        .partition::<Vec<_>, _>(|(_, speaks)| *speaks == PortProtocol::Http);
    let http = http.into_iter().map(|(listener, _)| listener).collect();
    Ok((addresses, (others, http)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_worker() -> Server {
        let db = Arc::new(Db::builder().open_in_memory().unwrap());
        let options = ServerOptions {
            workers: 1,
            ..ServerOptions::default()
        };
        Server::start(db, options).unwrap()
    }

    /// Why a server stopped by itself.
    fn failure_of(server: &Server) -> String {
        server.wait();
        let failure = server.failure().unwrap().to_string();
        server.shutdown();
        failure
    }

    #[test]
    fn a_thread_that_panics_stops_the_server_and_is_named() {
        let mut server = one_worker();
        assert!(server.failure().is_none());
        let panics = || -> io::Result<()> { std::panic::resume_unwind(Box::new("planted")) };
        server.spawn("hedgerow-planted".into(), panics).unwrap();
        let failure = failure_of(&server);
        assert!(failure.contains("hedgerow-planted"), "{failure}");
    }

    /// Linux refuses a poll that has room for no event.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_worker_whose_poll_fails_stops_the_server_and_says_why() {
        let mut server = one_worker();
        let (_sender, incoming) = channel();
        let worker = Worker::new(Arc::clone(&server.shared), 0, incoming, None, None).unwrap();
        let run = move || worker.run(Events::with_capacity(0));
        server.spawn("hedgerow-planted".into(), run).unwrap();
        let failure = failure_of(&server);
        let reason = io::Error::from(rustix::io::Errno::INVAL).to_string();
        for said in ["hedgerow-planted", &reason] {
            assert!(failure.contains(said), "{failure}");
        }
    }
}
