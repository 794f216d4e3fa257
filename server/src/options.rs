//! How a server is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::Durability;

use crate::error::{Error, Result};
use crate::sockets::listener::{canonical, check_free};

/// The longest that a snapshot can be allowed to live.
const LONGEST_AGE: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a server listens on, and its limits. The default listens on a free loopback port for
/// RESP alone: set what you need.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to serve Redis clients. Port 0 takes a free one: see `Server::addresses`.
    pub resp: Option<SocketAddr>,
    /// Where to serve memcached clients.
    pub memcached: Option<SocketAddr>,
    /// Where to serve memcached clients by UDP, a request in each datagram: the port of the first
    /// worker, above which each other worker has the next (Masstree, §5). A password goes before
    /// the requests of each datagram.
    pub memcached_udp: Option<SocketAddr>,
    /// Where to serve `/metrics` and `/healthz`.
    pub http: Option<SocketAddr>,
    /// Unix domain sockets, beside those ports or instead of them.
    pub unix: UnixSockets,
    /// Event loops, one thread each.
    pub workers: usize,
    /// Whether each worker stays on a core of its own.
    pub pin_cores: bool,
    /// How a worker asks the operating system for what its connections sent, and sends replies.
    pub event_loop: EventLoop,
    /// What an acknowledged write promises. With [`Durability::Sync`] its reply is held back
    /// until the group sync that covers it.
    pub durability: Durability,
    /// What clients must say first: Redis clients with `AUTH`, memcached clients with a `set`
    /// whose data are `default` and the password, HTTP clients as a bearer token. `/healthz` is
    /// for everybody.
    pub password: Option<String>,
    /// Serves memcached and HTTP without a password on addresses that other machines can reach.
    pub allow_unprotected: bool,
    /// Connections beyond this number are refused with an error.
    pub max_connections: usize,
    /// Silent connections are closed after this time; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// A transaction of a Redis client (`BEGIN`) in which no command came for so long is rolled
    /// back.
    pub transaction_idle_timeout: Duration,
    /// The most snapshots that a connection of a Redis client has of its own (`SNAPSHOT`).
    pub max_snapshots: usize,
    /// The most snapshots that all connections share (`SNAPSHOT NAME … TTL …`).
    pub max_shared_snapshots: usize,
    /// The longest time to live of a snapshot, and that of one without a time. A year at most.
    pub max_snapshot_age: Duration,
    /// The directory within which `BACKUP` makes backups, each a directory of its own; made if
    /// missing. `None` refuses the command.
    pub backups: Option<PathBuf>,
    /// Requests that take this long are logged; `None` for none.
    pub slow_command: Option<Duration>,
    /// Requests of a connection whose unread replies exceed this are not run until some are
    /// fetched. A client that sends everything before it reads is still read from.
    pub output_limit_bytes: usize,
    /// The memory of all connections together: requests, replies and transactions under way. Where
    /// it does not suffice, the connection that holds most is closed.
    pub client_memory_bytes: usize,
    /// A connection that holds more than this is closed at once; 0 for never.
    pub client_hard_limit_bytes: usize,
    /// A connection that holds more than this for `client_soft_limit_time` is closed; 0 for never.
    pub client_soft_limit_bytes: usize,
    /// How long a connection may hold more than `client_soft_limit_bytes`.
    pub client_soft_limit_time: Duration,
    /// The longest request. One longer gets an error, and its connection is closed.
    pub max_frame_bytes: usize,
    /// The longest argument of a request.
    pub max_bulk_bytes: usize,
}

/// How a worker asks the operating system for what its connections sent, and sends replies. All do
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLoop {
    /// `io_uring` where it may be used, `epoll` elsewhere.
    #[default]
    Auto,
    /// Readiness events (epoll on Linux), and one system call for each receive and each send.
    Epoll,
    /// The same events; all receives of a tick are one system call, and all sends (Linux).
    IoUring,
}

impl EventLoop {
    /// The name in `--event-loop` and `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            EventLoop::Auto => "auto",
            EventLoop::Epoll => "epoll",
            EventLoop::IoUring => "io_uring",
        }
    }
}

/// The Unix domain sockets at which a server listens. Clients of the same machine alone can reach
/// them, and of these who may write their files; so they need no password.
///
/// The files are made when the server starts, and removed when it ends. A socket that a killed
/// server has left is replaced; anything else that is there is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSockets {
    /// For Redis clients.
    pub resp: Option<PathBuf>,
    /// For memcached clients.
    pub memcached: Option<PathBuf>,
    /// For `/metrics` and `/healthz`.
    pub http: Option<PathBuf>,
    /// The permissions of the files, whatever the umask is: 0o600, for the user of this process
    /// alone, unless said otherwise.
    pub mode: u32,
}

impl Default for UnixSockets {
    fn default() -> UnixSockets {
        UnixSockets {
            resp: None,
            memcached: None,
            http: None,
            mode: 0o600,
        }
    }
}

impl UnixSockets {
    /// The files of all of them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.resp, &self.memcached, &self.http];
        all.into_iter().flatten().map(PathBuf::as_path)
    }

    /// One that two protocols are to have, however each spells its path.
    pub fn shared(&self) -> Option<&Path> {
        let paths: Vec<(PathBuf, &Path)> =
            self.paths().map(|path| (canonical(path), path)).collect();
        let is_again = |i: usize| paths[..i].iter().any(|(other, _)| *other == paths[i].0);
        (0..paths.len()).find(|&i| is_again(i)).map(|i| paths[i].1)
    }

    /// Checks that nobody listens there, and that nothing else is there: what
    /// [`Server::start`](crate::Server::start) would find, before a database is opened for it.
    ///
    /// # Errors
    /// [`Error::BindUnix`].
    pub fn check_free(&self) -> Result<()> {
        self.paths().try_for_each(|path| {
            check_free(path).map_err(|source| Error::BindUnix {
                path: path.to_owned(),
                source,
            })
        })
    }
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            resp: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            memcached: None,
            memcached_udp: None,
            http: None,
            unix: UnixSockets::default(),
            workers: std::thread::available_parallelism().map_or(1, |n| n.get()),
            pin_cores: false,
            event_loop: EventLoop::default(),
            durability: Durability::Periodic,
            password: None,
            allow_unprotected: false,
            max_connections: 65_536,
            idle_timeout: None,
            transaction_idle_timeout: Duration::from_secs(10),
            max_snapshots: 16,
            max_shared_snapshots: 64,
            max_snapshot_age: Duration::from_secs(3600),
            backups: None,
            slow_command: Some(Duration::from_millis(100)),
            output_limit_bytes: 4 << 20,
            client_memory_bytes: 1 << 30,
            client_hard_limit_bytes: 0,
            client_soft_limit_bytes: 0,
            client_soft_limit_time: Duration::from_secs(60),
            max_frame_bytes: 1 << 30,
            max_bulk_bytes: 512 << 20,
        }
    }
}

impl ServerOptions {
    fn ports(&self) -> [Option<SocketAddr>; 4] {
        [self.resp, self.memcached, self.memcached_udp, self.http]
    }

    /// Whether other machines can reach one of the ports.
    pub(crate) fn is_reachable(&self) -> bool {
        let mut ports = self.ports().into_iter().flatten();
        ports.any(|address| !address.ip().is_loopback())
    }

    /// Checks that the options are safe and consistent.
    ///
    /// # Errors
    /// [`Error::PasswordNeeded`], [`Error::Unprotected`] or [`Error::InvalidOption`].
    pub fn check(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::InvalidOption(what.to_owned()));
        let reachable =
            |address: &Option<SocketAddr>| address.filter(|address| !address.ip().is_loopback());
        if self.password.as_deref() == Some("") {
            return invalid("the password is empty; leave it out or choose one");
        }
        if let (Some(address), None) = (reachable(&self.resp), &self.password) {
            return Err(Error::PasswordNeeded { address });
        }
        let others = [
            ("memcached", &self.memcached),
            ("memcached by UDP", &self.memcached_udp),
            ("HTTP", &self.http),
        ];
        for (protocol, address) in others {
            if let (Some(address), None, false) =
                (reachable(address), &self.password, self.allow_unprotected)
            {
                return Err(Error::Unprotected { protocol, address });
            }
        }
        let has_port = self.ports().iter().any(Option::is_some);
        if !has_port && self.unix.paths().next().is_none() {
            return invalid("there is nothing to listen on; give at least one address");
        }
        if self.unix.shared().is_some() {
            return invalid("two protocols have the same Unix domain socket; give each its own");
        }
        if self.unix.mode > 0o777 || self.unix.mode & 0o200 == 0 {
            return invalid(
                "the mode of Unix domain sockets must be at most 0o777 and include 0o200: else \
                 nobody could replace the file of a server that was killed",
            );
        }
        if !(1..=1024).contains(&self.workers) {
            return invalid("workers must be between 1 and 1024");
        }
        let first = self.memcached_udp.map_or(0, |address| address.port());
        if first > 0 && usize::from(first) + self.workers > usize::from(u16::MAX) + 1 {
            return invalid(
                "each worker needs a UDP port, one above the other; there are too few above this",
            );
        }
        if self.max_connections == 0 {
            return invalid("max_connections must be at least 1");
        }
        if self.transaction_idle_timeout.is_zero() {
            return invalid("transaction_idle_timeout must be longer than nothing");
        }
        if self.max_snapshot_age.is_zero() || self.max_snapshot_age > LONGEST_AGE {
            return invalid("max_snapshot_age must be longer than nothing, and a year at most");
        }
        if self.client_memory_bytes < 1 << 20 {
            return invalid("client_memory_bytes must be at least 1 MiB");
        }
        if self.max_frame_bytes > (u32::MAX / 2) as usize {
            return invalid("max_frame_bytes must be below 2 GiB");
        }
        if self.max_bulk_bytes > self.max_frame_bytes || self.max_bulk_bytes == 0 {
            return invalid("max_bulk_bytes must be between 1 and max_frame_bytes");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
    }

    #[test]
    fn an_open_port_needs_a_password() {
        let mut options = ServerOptions {
            resp: open(1),
            ..ServerOptions::default()
        };
        assert!(matches!(options.check(), Err(Error::PasswordNeeded { .. })));
        options.password = Some(String::new());
        assert!(matches!(options.check(), Err(Error::InvalidOption(_))));
        options.password = Some("secret".into());
        options.check().unwrap();
    }

    #[test]
    fn open_ports_for_memcached_and_http_need_a_password_or_permission() {
        let options = |memcached, http| ServerOptions {
            memcached,
            http,
            ..ServerOptions::default()
        };
        for mut options in [options(open(1), None), options(None, open(1))] {
            assert!(matches!(options.check(), Err(Error::Unprotected { .. })));
            options.allow_unprotected = true;
            options.check().unwrap();
            options.allow_unprotected = false;
            options.password = Some("secret".into());
            options.check().unwrap();
        }
    }

    #[test]
    fn nothing_to_listen_on_and_no_workers_are_refused() {
        let none = ServerOptions {
            resp: None,
            ..ServerOptions::default()
        };
        assert!(matches!(none.check(), Err(Error::InvalidOption(_))));
        let none = ServerOptions {
            workers: 0,
            ..ServerOptions::default()
        };
        assert!(matches!(none.check(), Err(Error::InvalidOption(_))));
    }

    #[test]
    fn times_that_end_at_once_or_never_are_refused() {
        for (age, idle) in [(0, 1), (1, 0), (365 * 24 * 3600 + 1, 1)] {
            let options = ServerOptions {
                max_snapshot_age: Duration::from_secs(age),
                transaction_idle_timeout: Duration::from_secs(idle),
                ..ServerOptions::default()
            };
            assert!(matches!(options.check(), Err(Error::InvalidOption(_))));
        }
    }
}
