//! Settings of the server: flags, then environment, then configuration file, then defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::IndexKind;
use hedgerow_server::UnixSockets;
use serde::{Deserialize, Deserializer};

use crate::address::{Listen, Places, listen_in_file};
use crate::error::{Error, Result};
use crate::serve_arguments::{self, Durability, EventLoop, LogLevel, Serve};
use crate::size;

/// The longest value that can be allowed: a request may be twice as long.
const LONGEST_VALUE: u64 = 1023 << 20;
/// The largest commit that can be allowed: recovery counts with 32 bits within one.
const LARGEST_COMMIT: u64 = 2 << 30;
/// The least memory that connections need together.
const LEAST_CLIENT_MEMORY: u64 = 1 << 20;

/// The longest that a snapshot can be allowed to live.
const LONGEST_SNAPSHOT_AGE: Duration = Duration::from_secs(365 * 24 * 3600);

const TEN_SECONDS: Duration = Duration::from_secs(10);

/// How many workers there are where nobody says: one for each core. Those of a backend elsewhere
/// wait for its answers.
fn usual_workers(is_elsewhere: bool) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    cores.max(if is_elsewhere { 8 } else { 1 })
}

/// The configuration file. Names are those of the flags.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    data: Option<PathBuf>,
    #[serde(deserialize_with = "directories")]
    log_dir: Option<Vec<PathBuf>>,
    in_memory: Option<bool>,
    backend: Option<String>,
    #[serde(deserialize_with = "listen_in_file")]
    resp: Option<Vec<Listen>>,
    #[serde(deserialize_with = "listen_in_file")]
    memcached: Option<Vec<Listen>>,
    #[serde(deserialize_with = "listen_in_file")]
    http: Option<Vec<Listen>>,
    #[serde(deserialize_with = "unix_mode")]
    unix_mode: Option<u32>,
    #[serde(deserialize_with = "index")]
    index: Option<IndexKind>,
    #[serde(deserialize_with = "bytes")]
    memory: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    version_memory: Option<u64>,
    durability: Option<Durability>,
    #[serde(deserialize_with = "duration")]
    flush_interval: Option<Duration>,
    workers: Option<usize>,
    event_loop: Option<EventLoop>,
    password: Option<String>,
    /// The former name of `password`.
    resp_password: Option<String>,
    allow_unprotected: Option<bool>,
    max_connections: Option<usize>,
    #[serde(deserialize_with = "duration")]
    idle_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    transaction_idle_timeout: Option<Duration>,
    max_snapshots: Option<usize>,
    max_shared_snapshots: Option<usize>,
    #[serde(deserialize_with = "duration")]
    max_snapshot_age: Option<Duration>,
    #[serde(deserialize_with = "bytes")]
    client_memory: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    client_hard_limit: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    client_soft_limit: Option<u64>,
    #[serde(deserialize_with = "duration")]
    client_soft_limit_time: Option<Duration>,
    #[serde(deserialize_with = "bytes")]
    max_value: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    max_commit_bytes: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    checkpoint_log: Option<u64>,
    #[serde(deserialize_with = "duration")]
    checkpoint_idle: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    checkpoint_interval: Option<Duration>,
    keep_checkpoints: Option<usize>,
    backups: Option<PathBuf>,
    log_level: Option<LogLevel>,
    slow_command_ms: Option<u64>,
}

/// Octal digits, which are read as they are written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "no mode: give octal digits, like \"660\"")]
enum DigitsOrText {
    Digits(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "no size: give a number of bytes, or a text like \"4GiB\""
)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

/// A number needs no unit where it is 0; of another the error says which there are.
#[derive(Deserialize)]
#[serde(untagged, expecting = "no time: give a text like \"10s\", or 0")]
enum TimeOrText {
    Number(u64),
    Text(String),
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u64>, D::Error> {
    match NumberOrText::deserialize(from)? {
        NumberOrText::Number(number) => Ok(Some(number)),
        NumberOrText::Text(text) => size::bytes(&text)
            .map(Some)
            .map_err(serde::de::Error::custom),
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "no directory: give a text, or a list of them")]
enum OneOrSeveral {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

fn directories<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Vec<PathBuf>>, D::Error> {
    Ok(Some(match OneOrSeveral::deserialize(from)? {
        OneOrSeveral::One(one) => vec![one],
        OneOrSeveral::Several(several) => several,
    }))
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Duration>, D::Error> {
    let text = match TimeOrText::deserialize(from)? {
        TimeOrText::Number(number) => number.to_string(),
        TimeOrText::Text(text) => text,
    };
    size::duration(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

fn unix_mode<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u32>, D::Error> {
    let mode = match DigitsOrText::deserialize(from)? {
        DigitsOrText::Digits(digits) => digits.to_string(),
        DigitsOrText::Text(text) => text,
    };
    let parsed = serve_arguments::unix_mode(&mode);
    // Whoever wrote 0o660 is told of 432.
    let parsed = parsed.map_err(|error| format!("{error}; without 0o before the digits"));
    parsed.map(Some).map_err(serde::de::Error::custom)
}

fn index<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<IndexKind>, D::Error> {
    let name = String::deserialize(from)?;
    serve_arguments::index(&name)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

/// What the server runs with.
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    /// Where rows live instead; the options of a database mean nothing then.
    pub(crate) backend: Option<String>,
    /// Where logs and checkpoints go; `None`: where they go already.
    pub(crate) log_dirs: Option<Vec<PathBuf>>,
    /// No files at all; `data` means nothing then.
    pub(crate) in_memory: bool,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) memcached: Option<SocketAddr>,
    pub(crate) memcached_udp: Option<SocketAddr>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) unix: UnixSockets,
    pub(crate) index: Option<IndexKind>,
    pub(crate) memory: Option<u64>,
    pub(crate) version_memory: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) flush_interval: Duration,
    pub(crate) workers: usize,
    pub(crate) event_loop: EventLoop,
    pub(crate) password: Option<String>,
    pub(crate) allow_unprotected: bool,
    pub(crate) max_connections: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) transaction_idle_timeout: Duration,
    pub(crate) max_snapshots: usize,
    pub(crate) max_shared_snapshots: usize,
    pub(crate) max_snapshot_age: Duration,
    pub(crate) client_memory: u64,
    /// Zero for no limit, like the next.
    pub(crate) client_hard_limit: u64,
    pub(crate) client_soft_limit: u64,
    pub(crate) client_soft_limit_time: Duration,
    pub(crate) max_value: u64,
    pub(crate) max_commit_bytes: u64,
    /// `None` for no checkpoints by itself.
    pub(crate) checkpoint_log: Option<u64>,
    /// `None` for no checkpoints when nobody writes.
    pub(crate) checkpoint_idle: Option<Duration>,
    /// `None` for no checkpoints by the clock.
    pub(crate) checkpoint_interval: Option<Duration>,
    pub(crate) keep_checkpoints: usize,
    pub(crate) backups: Option<PathBuf>,
    pub(crate) log_level: LogLevel,
    /// `None` for none.
    pub(crate) slow_command: Option<Duration>,
}

/// Where a protocol is served: where it was asked for, or at its own port.
fn places(flag: &str, given: Option<Vec<Listen>>, default_port: u16) -> Result<Places> {
    match given {
        Some(given) => Places::of(flag, given).map_err(Error::Usage),
        None => Ok(Places {
            port: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, default_port))),
            ..Places::default()
        }),
    }
}

/// Where a protocol is served that knows no UDP.
fn without_udp(flag: &str, given: Option<Vec<Listen>>, default_port: u16) -> Result<Places> {
    let refusal = "takes no udp: address: by UDP the server speaks memcached alone";
    let places = places(flag, given, default_port)?;
    match places.udp {
        Some(_) => Err(Error::Usage(format!("{flag} {refusal}"))),
        None => Ok(places),
    }
}

/// A time that was given or the default, `None` for zero.
fn unless_zero(given: Option<Duration>, default: Duration) -> Option<Duration> {
    Some(given.unwrap_or(default)).filter(|time| !time.is_zero())
}

impl Settings {
    /// Puts flags (and environment, which clap has read) over the configuration file.
    pub(crate) fn of(flags: Serve) -> Result<Settings> {
        let file = flags.config.as_deref().map(read).transpose()?;
        let file = file.unwrap_or_default();
        check_pairs(&flags, &file)?;
        // A flag, or what the file says.
        macro_rules! given {
            ($name:ident) => {
                flags.$name.or(file.$name)
            };
        }
        let backend = given!(backend);
        let workers = given!(workers).unwrap_or_else(|| usual_workers(backend.is_some()));
        let log_dirs = given!(log_dir).map(serve_arguments::log_dirs);
        let slow_command = given!(slow_command_ms).map(Duration::from_millis);
        let resp = without_udp("--resp", given!(resp), 7379)?;
        let memcached = places("--memcached", given!(memcached), 7211)?;
        let http = without_udp("--http", given!(http), 7380)?;
        let settings = Settings {
            data: given!(data).unwrap_or_else(|| PathBuf::from("hedgerow-data")),
            backend,
            log_dirs: log_dirs.transpose().map_err(Error::Usage)?,
            in_memory: given!(in_memory).unwrap_or(false),
            resp: resp.port,
            memcached: memcached.port,
            memcached_udp: memcached.udp,
            http: http.port,
            unix: UnixSockets {
                resp: resp.unix,
                memcached: memcached.unix,
                http: http.unix,
                mode: given!(unix_mode).unwrap_or(UnixSockets::default().mode),
            },
            index: given!(index),
            memory: given!(memory),
            version_memory: given!(version_memory),
            durability: given!(durability).unwrap_or(Durability::Periodic),
            flush_interval: given!(flush_interval).unwrap_or(Duration::from_millis(200)),
            workers,
            event_loop: given!(event_loop).unwrap_or(EventLoop::Auto),
            password: flags
                .password
                .or(flags.resp_password)
                .or(file.password)
                .or(file.resp_password),
            allow_unprotected: given!(allow_unprotected).unwrap_or(false),
            max_connections: given!(max_connections).unwrap_or(65_536),
            idle_timeout: given!(idle_timeout),
            transaction_idle_timeout: given!(transaction_idle_timeout).unwrap_or(TEN_SECONDS),
            max_snapshots: given!(max_snapshots).unwrap_or(16),
            max_shared_snapshots: given!(max_shared_snapshots).unwrap_or(64),
            max_snapshot_age: given!(max_snapshot_age).unwrap_or(Duration::from_secs(3600)),
            client_memory: given!(client_memory).unwrap_or(1 << 30),
            client_hard_limit: given!(client_hard_limit).unwrap_or(0),
            client_soft_limit: given!(client_soft_limit).unwrap_or(0),
            client_soft_limit_time: given!(client_soft_limit_time)
                .unwrap_or(Duration::from_secs(60)),
            max_value: given!(max_value).unwrap_or(512 << 20),
            max_commit_bytes: given!(max_commit_bytes).unwrap_or(1 << 30),
            checkpoint_log: given!(checkpoint_log).or(Some(1 << 30)).filter(|&b| b > 0),
            checkpoint_idle: unless_zero(given!(checkpoint_idle), TEN_SECONDS),
            checkpoint_interval: unless_zero(given!(checkpoint_interval), Duration::from_secs(300)),
            keep_checkpoints: given!(keep_checkpoints).unwrap_or(2),
            backups: given!(backups),
            log_level: given!(log_level).unwrap_or(LogLevel::Info),
            slow_command: unless_zero(slow_command, Duration::from_millis(100)),
        };
        settings.check()?;
        Ok(settings)
    }

    /// An address that two protocols are to have.
    fn shared_address(&self) -> Option<SocketAddr> {
        let [resp, memcached, http] = [self.resp, self.memcached, self.http];
        let pairs = [(resp, memcached), (resp, http), (memcached, http)];
        let shared = pairs
            .into_iter()
            .find(|(one, other)| one == other && one.is_some());
        shared
            .and_then(|(one, _)| one)
            .filter(|address| address.port() != 0)
    }

    /// The first UDP port of the workers, if there are too few above it.
    fn udp_port_too_high(&self) -> Option<u16> {
        let first = self.memcached_udp?.port();
        let last = usize::from(first) + self.workers - 1;
        (first > 0 && last > usize::from(u16::MAX)).then_some(first)
    }

    /// A Unix domain socket that two protocols are to have.
    fn shared_socket(&self) -> Option<&Path> {
        self.unix.shared()
    }

    /// The flag whose directory has no name.
    fn empty_path(&self) -> Option<&'static str> {
        let paths = [
            ("--data", Some(&self.data)),
            ("--backups", self.backups.as_ref()),
        ];
        let is_empty = |path: &PathBuf| path.as_os_str().is_empty();
        let mut empty = paths
            .into_iter()
            .filter(|(_, path)| path.is_some_and(is_empty));
        empty.next().map(|(flag, _)| flag)
    }

    /// Checks what can be checked before anything is opened, in the words of the command line.
    fn check(&self) -> Result<()> {
        let longest_flush = Duration::from_millis(200);
        let wrong = if !(1..=1024).contains(&self.workers) {
            format!(
                "--workers {} makes no sense; choose 1 to 1024 workers",
                self.workers
            )
        } else if self.flush_interval.is_zero() || self.flush_interval > longest_flush {
            "--flush-interval must be between 1ms and 200ms".into()
        } else if !(1..=LONGEST_VALUE).contains(&self.max_value) {
            format!(
                "--max-value must be between 1 and {}",
                size::show_bytes(LONGEST_VALUE)
            )
        } else if !(1..=LARGEST_COMMIT).contains(&self.max_commit_bytes) {
            format!(
                "--max-commit-bytes must be between 1 and {}",
                size::show_bytes(LARGEST_COMMIT)
            )
        } else if !(1..=100).contains(&self.keep_checkpoints) {
            "--keep-checkpoints must be between 1 and 100".into()
        } else if self.client_memory < LEAST_CLIENT_MEMORY {
            format!(
                "--client-memory must be at least {}",
                size::show_bytes(LEAST_CLIENT_MEMORY)
            )
        } else if let Some(first) = self.udp_port_too_high() {
            format!(
                "--memcached udp: each of {} workers needs a port, one above the other, and none \
                 is above 65535; choose one below {first}, or fewer --workers",
                self.workers
            )
        } else if self.max_connections == 0 {
            "--max-connections must be at least 1".into()
        } else if self.transaction_idle_timeout.is_zero() {
            "--transaction-idle-timeout must be at least 1ms".into()
        } else if self.max_snapshot_age.is_zero() || self.max_snapshot_age > LONGEST_SNAPSHOT_AGE {
            "--max-snapshot-age must be between 1ms and 8760h, a year".into()
        } else if self.password.as_deref() == Some("") {
            "--password is empty; leave it out or choose one".into()
        } else if let Some(flag) = self.empty_path() {
            format!("{flag} is empty; name a directory, or leave it out")
        } else if self.in_memory && self.index == Some(IndexKind::BTree) {
            "--index btree is for data larger than memory and needs a directory; choose another \
             index with --in-memory"
                .into()
        } else if let Some(address) = self.shared_address() {
            format!(
                "{address} is asked for twice; --resp, --memcached and --http need ports of their \
                 own"
            )
        } else if let Some(path) = self.shared_socket() {
            format!(
                "unix:{} is asked for twice; --resp, --memcached and --http need sockets of their \
                 own",
                path.display()
            )
        } else if [self.resp, self.memcached, self.memcached_udp, self.http] == [None; 4]
            && self.unix.paths().next().is_none()
        {
            "there is nothing to listen on; give one of --resp, --memcached and --http an address"
                .into()
        } else {
            return Ok(());
        };
        Err(Error::Usage(wrong))
    }
}

/// Refuses settings that make no sense together.
fn check_pairs(flags: &Serve, file: &File) -> Result<()> {
    let two_passwords = [
        (&flags.password, &flags.resp_password),
        (&file.password, &file.resp_password),
    ];
    let differ = |(one, other): &(&Option<String>, &Option<String>)| {
        one.is_some() && other.is_some() && one != other
    };
    if two_passwords.iter().any(differ) {
        return Err(Error::Usage(
            "--password (or HEDGEROW_PASSWORD) and its former name --resp-password are both given \
             and differ; give --password alone"
                .into(),
        ));
    }
    check_in_memory(flags, file)?;
    check_backend(flags, file)
}

/// Refuses a database without files beside a setting that is about them: the user would lose what
/// he believes to be kept. Where flags (or the environment) ask for it, they win over what the file
/// says of files; where the file asks for it, no such setting may be anywhere.
fn check_in_memory(flags: &Serve, file: &File) -> Result<()> {
    let asked_by_flag = match (flags.in_memory, file.in_memory) {
        (Some(true), _) => true,
        (None, Some(true)) => false,
        _ => return Ok(()),
    };
    macro_rules! given {
        ($($name:ident)*) => {
            [$((
                stringify!($name),
                flags.$name.is_some() || !asked_by_flag && file.$name.is_some(),
            )),*]
        };
    }
    let given = given!(
        data log_dir durability flush_interval checkpoint_log checkpoint_idle checkpoint_interval
        keep_checkpoints backups
    );
    let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let flag = name.replace('_', "-");
    let variable = name.to_uppercase();
    Err(Error::Usage(match asked_by_flag {
        true => format!(
            "--in-memory keeps nothing, and --{flag} is given, too; take one of the two away (each \
             may stand in the environment: HEDGEROW_IN_MEMORY, HEDGEROW_{variable})"
        ),
        false => format!(
            "the configuration file says in-memory = true, which keeps nothing, and {flag} is \
             given (as a flag, in the environment or in the file); take one of the two away"
        ),
    }))
}

/// Refuses a backend beside a setting, of wherever, that is about a database of this machine. Of
/// flags the parser refuses the pair.
fn check_backend(flags: &Serve, file: &File) -> Result<()> {
    let Some(backend) = flags.backend.as_ref().or(file.backend.as_ref()) else {
        return Ok(());
    };
    macro_rules! given {
        ($($name:ident)*) => {
            [$((stringify!($name), flags.$name.is_some() || file.$name.is_some())),*]
        };
    }
    let given = given!(
        data log_dir index memory version_memory flush_interval max_commit_bytes checkpoint_log
        checkpoint_idle checkpoint_interval keep_checkpoints backups
    );
    let in_memory = flags.in_memory.or(file.in_memory) == Some(true);
    let in_memory = [("in_memory", in_memory)];
    let mut given = given.into_iter().chain(in_memory);
    let Some((name, _)) = given.find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let name = name.replace('_', "-");
    Err(Error::Usage(format!(
        "the rows are to live in {backend} (--backend), and {name}, which is about a database of \
         this machine, is given, too (as a flag, in the environment or in the file); take one of \
         the two away"
    )))
}

fn read(path: &Path) -> Result<File> {
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        operation: "read the configuration",
        file: path.to_path_buf(),
        source,
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let whole = error.utf8_error().valid_up_to();
        let newlines = error.as_bytes()[..whole]
            .iter()
            .filter(|byte| **byte == b'\n');
        let place = newlines.count() + 1;
        Error::Usage(format!(
            "{} line {place}: it is no UTF-8 text; save the file as UTF-8",
            path.display()
        ))
    })?;
    toml::from_str(&text).map_err(|error| {
        let place = error
            .span()
            .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        Error::Usage(format!(
            "{} line {place}: {}; options are named like the flags of serve",
            path.display(),
            error.message()
        ))
    })
}
