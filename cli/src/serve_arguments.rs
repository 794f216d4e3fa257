//! The words of `hedgerow serve`, and what some of them mean.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use hedgerow::IndexKind;

use crate::address::{self, Listen};
use crate::size;

/// What an acknowledged write promises.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// It survives a power cut: the reply waits for the disk.
    Sync,
    /// It survives a power cut 200 ms later (see --flush-interval).
    Periodic,
    /// Nothing; it is logged with its neighbours all the same.
    None,
}

/// How a server receives and sends.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventLoop {
    /// `io_uring` where it may be used, `epoll` elsewhere.
    Auto,
    /// One system call for each receive and each send.
    Epoll,
    /// One for all receives of a tick, and one for all sends; an error where the system forbids it.
    #[value(name = "io_uring")]
    IoUring,
}

impl From<EventLoop> for hedgerow_server::EventLoop {
    fn from(event_loop: EventLoop) -> hedgerow_server::EventLoop {
        match event_loop {
            EventLoop::Auto => hedgerow_server::EventLoop::Auto,
            EventLoop::Epoll => hedgerow_server::EventLoop::Epoll,
            EventLoop::IoUring => hedgerow_server::EventLoop::IoUring,
        }
    }
}

/// Which events a server writes to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// None.
    Off,
    /// What stops writes: a failed sync, a full disk.
    Error,
    /// As well what an operator should look at: refused and closed clients, failed checkpoints,
    /// slow commands.
    Warn,
    /// As well what happens in normal operation: start and stop, recovery, checkpoints.
    Info,
    /// As well every connection.
    Debug,
}

impl From<Durability> for hedgerow::Durability {
    fn from(durability: Durability) -> hedgerow::Durability {
        match durability {
            Durability::Sync => hedgerow::Durability::Sync,
            Durability::Periodic => hedgerow::Durability::Periodic,
            Durability::None => hedgerow::Durability::None,
        }
    }
}

/// The kind of index that a name means.
pub(crate) fn index(name: &str) -> Result<IndexKind, String> {
    IndexKind::from_name(name).ok_or_else(|| {
        format!("there is no index {name:?}; choose masstree, matryoshka, bwtree, bst or btree")
    })
}

/// The directories that a flag names, `none` for no other than the database's own.
pub(crate) fn log_dirs(given: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let is_none = |dir: &PathBuf| dir.as_os_str() == "none";
    match &given[..] {
        [one] if is_none(one) => Ok(Vec::new()),
        several if several.iter().any(is_none) => {
            Err("--log-dir takes directories, or none alone".to_owned())
        }
        several if several.iter().any(|dir| dir.as_os_str().is_empty()) => Err(
            "--log-dir takes directories, and an empty path is none; use . for the current one"
                .to_owned(),
        ),
        _ => Ok(given),
    }
}

/// The permissions that octal digits mean.
pub(crate) fn unix_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
        format!("{text:?} is no mode of a socket's file; write it in octal digits, like 600 or 660")
    })?;
    match mode & 0o200 {
        0 => Err(format!(
            "{text:?} keeps the server's own user from writing the file, so nobody could replace \
             it after a kill; add 200, as in {:03o}",
            mode | 0o200
        )),
        _ => Ok(mode),
    }
}

/// Options of `serve`. Each can stand in the configuration file under its long name, too; flags
/// win over the environment, the environment over the file.
#[derive(Args)]
pub(crate) struct Serve {
    /// A TOML file of these options.
    #[arg(long, value_name = "FILE", env = "HEDGEROW_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The directory of the database; made if missing [default: hedgerow-data].
    #[arg(long, value_name = "DIR", env = "HEDGEROW_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Keep the rows elsewhere than in a database of this machine, as
    /// hbase://HOST:PORT[,HOST:PORT…]/NAMESPACE says: in an HBase cluster, by its Thrift2 gateways
    /// [default: in the directory].
    #[arg(long, value_name = "URL", env = "HEDGEROW_BACKEND", conflicts_with_all = ["data",
        "log_dir", "index", "memory", "version_memory", "flush_interval",
        "max_commit_bytes", "checkpoint_log", "checkpoint_idle", "checkpoint_interval",
        "keep_checkpoints", "backups"])]
    pub(crate) backend: Option<String>,
    /// Where logs and checkpoints go, best on a disk of its own; several times, or with commas
    /// between, for the log of each worker to go to the next of them by turns. Each is made if
    /// missing, in a folder that is there; `none` for the database's directory [default: where they
    /// go already, or the database's directory].
    #[arg(
        long,
        value_name = "DIR",
        env = "HEDGEROW_LOG_DIR",
        value_delimiter = ','
    )]
    pub(crate) log_dir: Option<Vec<PathBuf>>,
    /// Keep everything in memory alone: no files, no log, and nothing left after the end.
    #[arg(
        long,
        value_name = "BOOL",
        env = "HEDGEROW_IN_MEMORY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) in_memory: Option<bool>,
    /// Where Redis clients connect: address and port, a port of this machine alone, a Unix domain
    /// socket (`unix:PATH`), or `none`; twice, or with a comma between, for a port and a socket
    /// [default: 127.0.0.1:7379].
    #[arg(long, value_name = "ADDR", env = "HEDGEROW_RESP", value_parser = address::listen,
        value_delimiter = ',')]
    pub(crate) resp: Option<Vec<Listen>>,
    /// Where memcached clients connect, as for --resp, and by UDP (`udp:ADDR`, from where on each
    /// worker has a port) [default: 127.0.0.1:7211].
    #[arg(long, value_name = "ADDR", env = "HEDGEROW_MEMCACHED", value_parser = address::listen,
        value_delimiter = ',')]
    pub(crate) memcached: Option<Vec<Listen>>,
    /// Where /metrics and /healthz are, as for --resp [default: 127.0.0.1:7380].
    #[arg(long, value_name = "ADDR", env = "HEDGEROW_HTTP", value_parser = address::listen,
        value_delimiter = ',')]
    pub(crate) http: Option<Vec<Listen>>,
    /// Who may connect to Unix domain sockets, as permissions of their files in octal digits
    /// [default: 600, the user of the server alone].
    #[arg(long, value_name = "MODE", env = "HEDGEROW_UNIX_MODE", value_parser = unix_mode)]
    pub(crate) unix_mode: Option<u32>,
    /// The index of new keyspaces: masstree, matryoshka (flat pages) or bwtree, in memory, bst, in
    /// memory for keys of 8 bytes, or btree, in a file of pages and larger than memory if need be
    /// [default: masstree, or btree where all keyspaces have it].
    #[arg(long, value_name = "NAME", env = "HEDGEROW_INDEX", value_parser = index)]
    pub(crate) index: Option<IndexKind>,
    /// Memory for the data, like 4GiB: indexes in memory refuse writes beyond it, btree keeps what
    /// is beyond in its file [default: no limit; for btree half of the machine's memory, or of what
    /// its control group allows].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_MEMORY", value_parser = size::bytes)]
    pub(crate) memory: Option<u64>,
    /// Of that, the most that replaced rows take which snapshots and transactions can see: beyond
    /// it the oldest of these is ended [default: an eighth of --memory, or 256MiB without it].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_VERSION_MEMORY", value_parser = size::bytes)]
    pub(crate) version_memory: Option<u64>,
    /// What an acknowledged write promises [default: periodic].
    #[arg(long, env = "HEDGEROW_DURABILITY")]
    pub(crate) durability: Option<Durability>,
    /// How long a periodic write may stay unsynced [default: 200ms].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_FLUSH_INTERVAL",
        value_parser = size::duration
    )]
    pub(crate) flush_interval: Option<Duration>,
    /// Event loops and log files [default: one per core; with --backend 8 at least].
    #[arg(long, value_name = "N", env = "HEDGEROW_WORKERS")]
    pub(crate) workers: Option<usize>,
    /// How workers receive and send [default: auto].
    #[arg(long, value_name = "LOOP", env = "HEDGEROW_EVENT_LOOP")]
    pub(crate) event_loop: Option<EventLoop>,
    /// The password that clients of all ports must give; /healthz alone is for everybody.
    #[arg(
        long,
        value_name = "WORD",
        env = "HEDGEROW_PASSWORD",
        hide_env_values = true
    )]
    pub(crate) password: Option<String>,
    /// The former name of --password.
    #[arg(
        long,
        value_name = "WORD",
        env = "HEDGEROW_RESP_PASSWORD",
        hide_env_values = true,
        hide = true
    )]
    pub(crate) resp_password: Option<String>,
    /// Serve memcached and HTTP without a password on addresses other than loopback.
    #[arg(
        long,
        value_name = "BOOL",
        env = "HEDGEROW_ALLOW_UNPROTECTED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) allow_unprotected: Option<bool>,
    /// Refuse connections beyond this number [default: 65536].
    #[arg(long, value_name = "N", env = "HEDGEROW_MAX_CONNECTIONS")]
    pub(crate) max_connections: Option<usize>,
    /// Close connections silent for this long [default: never].
    #[arg(long, value_name = "TIME", env = "HEDGEROW_IDLE_TIMEOUT", value_parser = size::duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Roll back a transaction of a Redis client (BEGIN) in which no command came for this long
    /// [default: 10s].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_TRANSACTION_IDLE_TIMEOUT",
        value_parser = size::duration
    )]
    pub(crate) transaction_idle_timeout: Option<Duration>,
    /// The most snapshots that one connection of a Redis client has of its own [default: 16].
    #[arg(long, value_name = "N", env = "HEDGEROW_MAX_SNAPSHOTS")]
    pub(crate) max_snapshots: Option<usize>,
    /// The most snapshots with a name and a time, which all connections share [default: 64].
    #[arg(long, value_name = "N", env = "HEDGEROW_MAX_SHARED_SNAPSHOTS")]
    pub(crate) max_shared_snapshots: Option<usize>,
    /// End snapshots of Redis clients after this long at the latest [default: 1h].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_MAX_SNAPSHOT_AGE",
        value_parser = size::duration
    )]
    pub(crate) max_snapshot_age: Option<Duration>,
    /// Memory of all connections together, for requests, replies and transactions under way; where
    /// it does not suffice, the connection that holds most is closed [default: 1GiB].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_CLIENT_MEMORY", value_parser = size::bytes)]
    pub(crate) client_memory: Option<u64>,
    /// Close a connection that holds more than this [default: never].
    #[arg(
        long,
        value_name = "SIZE",
        env = "HEDGEROW_CLIENT_HARD_LIMIT",
        value_parser = size::bytes
    )]
    pub(crate) client_hard_limit: Option<u64>,
    /// Close a connection that holds more than this for `--client-soft-limit-time`
    /// [default: never].
    #[arg(
        long,
        value_name = "SIZE",
        env = "HEDGEROW_CLIENT_SOFT_LIMIT",
        value_parser = size::bytes
    )]
    pub(crate) client_soft_limit: Option<u64>,
    /// How long a connection may hold more than `--client-soft-limit` [default: 60s].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_CLIENT_SOFT_LIMIT_TIME",
        value_parser = size::duration
    )]
    pub(crate) client_soft_limit_time: Option<Duration>,
    /// The longest value [default: 512MiB].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_MAX_VALUE", value_parser = size::bytes)]
    pub(crate) max_value: Option<u64>,
    /// The most that one commit of several rows writes: MSET, EXEC and the like [default: 1GiB].
    #[arg(
        long,
        value_name = "SIZE",
        env = "HEDGEROW_MAX_COMMIT_BYTES",
        value_parser = size::bytes
    )]
    pub(crate) max_commit_bytes: Option<u64>,
    /// Checkpoint by itself after this much log; 0 for no checkpoint by itself, for any reason
    /// [default: 1GiB].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_CHECKPOINT_LOG", value_parser = size::bytes)]
    pub(crate) checkpoint_log: Option<u64>,
    /// Checkpoint a database with B-trees when nobody has written for this long; 0 for never
    /// [default: 10s].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_CHECKPOINT_IDLE",
        value_parser = size::duration
    )]
    pub(crate) checkpoint_idle: Option<Duration>,
    /// Checkpoint a database with B-trees this long after the first write that the last checkpoint
    /// lacks; 0 for never [default: 5m].
    #[arg(
        long,
        value_name = "TIME",
        env = "HEDGEROW_CHECKPOINT_INTERVAL",
        value_parser = size::duration
    )]
    pub(crate) checkpoint_interval: Option<Duration>,
    /// Keep so many checkpoints, with the logs since the oldest: if the newest is found damaged,
    /// the one before has everything. B-trees and full disks keep one [default: 2].
    #[arg(long, value_name = "N", env = "HEDGEROW_KEEP_CHECKPOINTS")]
    pub(crate) keep_checkpoints: Option<usize>,
    /// The directory within which the command BACKUP makes backups of the running database; made if
    /// missing [default: none, and no such command].
    #[arg(long, value_name = "DIR", env = "HEDGEROW_BACKUPS")]
    pub(crate) backups: Option<PathBuf>,
    /// Which events go to standard error, one line each [default: info].
    #[arg(long, value_name = "LEVEL", env = "HEDGEROW_LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Log requests that take this many milliseconds; 0 for none [default: 100].
    #[arg(long, value_name = "N", env = "HEDGEROW_SLOW_COMMAND_MS")]
    pub(crate) slow_command_ms: Option<u64>,
}
