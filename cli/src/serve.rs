//! `hedgerow serve`.

use std::net::{SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use hedgerow::Db;
use hedgerow::backend::{Backend, Capability};
use hedgerow_server::{Server, ServerOptions};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::logging;
use crate::output::{Output, bytes_bar};
use crate::serve_arguments::Serve;
use crate::settings::Settings;
use crate::stop_signals::StopSignals;
use crate::text;

fn open(settings: &Settings) -> Result<Db> {
    let mut builder = Db::builder()
        .workers(settings.workers)
        .durability(settings.durability.into())
        .flush_interval(settings.flush_interval)
        .memory_limit(
            settings
                .memory
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        )
        .version_memory(
            settings
                .version_memory
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        )
        .max_value_bytes(usize::try_from(settings.max_value).unwrap_or(usize::MAX))
        .max_commit_bytes(usize::try_from(settings.max_commit_bytes).unwrap_or(usize::MAX))
        .checkpoint_log_bytes(settings.checkpoint_log)
        .checkpoint_idle(settings.checkpoint_idle)
        .checkpoint_interval(settings.checkpoint_interval)
        .keep_checkpoints(settings.keep_checkpoints);
    if let Some(kind) = settings.index {
        builder = builder.index(kind);
    }
    if settings.in_memory {
        return Ok(builder.open_in_memory()?);
    }
    if let Some(dirs) = &settings.log_dirs {
        builder = builder.log_dirs(dirs);
    }
    let bar = bytes_bar("recovering", 0);
    let progress = bar.clone();
    let db = builder
        .progress(Box::new(move |state| {
            progress.set_length(state.total_bytes);
            progress.set_position(state.done_bytes);
        }))
        .open(&settings.data)?;
    bar.finish_and_clear();
    Ok(db)
}

fn options(settings: &Settings) -> ServerOptions {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let max_value = size(settings.max_value);
    ServerOptions {
        resp: settings.resp,
        memcached: settings.memcached,
        memcached_udp: settings.memcached_udp,
        http: settings.http,
        unix: settings.unix.clone(),
        workers: settings.workers,
        event_loop: settings.event_loop.into(),
        durability: settings.durability.into(),
        password: settings.password.clone(),
        allow_unprotected: settings.allow_unprotected,
        max_connections: settings.max_connections,
        idle_timeout: settings.idle_timeout,
        transaction_idle_timeout: settings.transaction_idle_timeout,
        max_snapshots: settings.max_snapshots,
        max_shared_snapshots: settings.max_shared_snapshots,
        max_snapshot_age: settings.max_snapshot_age,
        backups: settings.backups.clone(),
        slow_command: settings.slow_command,
        client_memory_bytes: size(settings.client_memory),
        client_hard_limit_bytes: size(settings.client_hard_limit),
        client_soft_limit_bytes: size(settings.client_soft_limit),
        client_soft_limit_time: settings.client_soft_limit_time,
        max_bulk_bytes: max_value,
        max_frame_bytes: max_value.saturating_mul(2).max(1 << 20),
        ..ServerOptions::default()
    }
}

/// Binds the ports that were asked for, before a database is opened or made for a server that
/// cannot start. Nobody can connect: the sockets do not listen. The server's own, which do, may be
/// bound beside them.
fn bind_ports(settings: &Settings) -> Result<Vec<Socket>> {
    let bind = |address: SocketAddr| {
        let bound = || -> std::io::Result<Socket> {
            let domain = Domain::for_address(address);
            let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            Ok(socket)
        };
        let failed = |source| hedgerow_server::Error::Bind { address, source };
        bound().map_err(|source| failed(source).into())
    };
    settings.unix.check_free()?;
    if let Some(address) = settings.memcached_udp {
        // The server's own could not be bound beside them: they are gone at once.
        for port in udp_ports(address, settings.workers) {
            let address = SocketAddr::new(address.ip(), port);
            let failed = |source| hedgerow_server::Error::BindUdp { address, source };
            UdpSocket::bind(address).map_err(failed)?;
        }
    }
    let addresses = [settings.resp, settings.memcached, settings.http];
    addresses.into_iter().flatten().map(bind).collect()
}

/// What `--index` does not change, where it names another index than the first database has.
fn other_index(settings: &Settings, db: &Db) -> Option<String> {
    let asked = settings.index?.name();
    let first = db.open_keyspace("default").ok()?;
    let found = first.index_kind().ok()?.name();
    (found != asked).then(|| {
        format!(
            "{asked} for new keyspaces; \"default\" stays {found} (to change it: dump, keyspace \
             drop, load --index {asked})"
        )
    })
}

/// Where logs and checkpoints go, if not to the database's directory.
fn shown_dirs(db: &Db) -> Vec<String> {
    let dirs = db.log_dirs();
    dirs.iter().map(|dir| dir.display().to_string()).collect()
}

/// The UDP ports of all workers, of which the first is at an address. One that is to be found has
/// none above it.
fn udp_ports(first: SocketAddr, workers: usize) -> RangeInclusive<u16> {
    let others = if first.port() == 0 { 0 } else { workers - 1 };
    let last = usize::from(first.port()) + others;
    first.port()..=u16::try_from(last).unwrap_or(u16::MAX)
}

/// Those of a server that runs.
fn shown_udp(first: SocketAddr, workers: usize) -> String {
    match udp_ports(first, workers).end() {
        last if *last == first.port() => format!("udp:{first}"),
        last => format!("udp:{first} to {last}, one a worker"),
    }
}

/// Lines that say where a protocol is served.
fn served(name: &str, places: &[String]) -> String {
    if places.is_empty() {
        return format!("\n  {name:<10} off");
    }
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let lines = places.iter().zip(names);
    lines
        .map(|(place, name)| format!("\n  {name:<10} {place}"))
        .collect()
}

/// What is shown of a database of this machine, and not of another backend.
#[derive(Default)]
struct Shown {
    /// `None` where there is no directory.
    data: Option<String>,
    /// How many rows there are; `None` where nobody counted.
    rows: Option<u64>,
    log_dirs: Vec<String>,
    other_index: Option<String>,
    damaged_checkpoints: Vec<String>,
}

impl Shown {
    fn of(settings: &Settings, db: &Db) -> Shown {
        Shown {
            // Paths may be no UTF-8, which JSON needs.
            data: (!settings.in_memory).then(|| settings.data.display().to_string()),
            rows: Some(db.statistics().get("rows").unwrap_or(0.0) as u64),
            log_dirs: shown_dirs(db),
            other_index: other_index(settings, db),
            damaged_checkpoints: db.damaged_checkpoints(),
        }
    }
}

/// Tells where the server listens and what it promises.
fn announce<B: Backend>(
    settings: &Settings,
    db: &B,
    extra: &Shown,
    server: &Server<B>,
    out: &Output,
) -> Result<()> {
    let addresses = server.addresses();
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let unix = &settings.unix;
    let shown_file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let shown_path = |path: &Option<PathBuf>| shown_file(path).map(|path| format!("unix:{path}"));
    let json = json!({
        "backend": db.name(),
        "backend_url": settings.backend,
        "data": extra.data,
        "log_dirs": extra.log_dirs,
        "rows": extra.rows,
        "resp": shown(addresses.resp),
        "memcached": shown(addresses.memcached),
        "http": shown(addresses.http),
        "resp_unix": shown_file(&unix.resp),
        "memcached_unix": shown_file(&unix.memcached),
        "memcached_udp": shown(addresses.memcached_udp),
        "http_unix": shown_file(&unix.http),
        "workers": settings.workers,
        "event_loop": server.event_loop().name(),
        "damaged_checkpoints": extra.damaged_checkpoints,
    });
    out.print(json, || {
        let place = settings.backend.as_ref().or(extra.data.as_ref());
        let mut text = format!(
            "hedgerow {} serves {}",
            env!("CARGO_PKG_VERSION"),
            place.map_or("from memory alone", String::as_str)
        );
        let rows = extra.rows.map(|rows| format!("{rows} rows, "));
        text += &format!(
            " ({}{} workers)",
            rows.unwrap_or_default(),
            settings.workers
        );
        let udp = addresses.memcached_udp;
        let udp = udp.map(|first| shown_udp(first, settings.workers));
        let web = "  (/metrics, /healthz)";
        for (name, address, path, udp, note) in [
            ("Redis", addresses.resp, &unix.resp, None, ""),
            ("memcached", addresses.memcached, &unix.memcached, udp, ""),
            ("HTTP", addresses.http, &unix.http, None, web),
        ] {
            let places = shown(address)
                .into_iter()
                .chain(shown_path(path))
                .chain(udp);
            text += &served(name, &places.map(|place| place + note).collect::<Vec<_>>());
        }
        text + &shown_promise(settings, db, extra)
    })
}

/// Lines below those that say where the server listens: what it promises, and what is unusual.
fn shown_promise<B: Backend>(settings: &Settings, db: &B, extra: &Shown) -> String {
    let mut text = format!(
        "\n  {:<10} {}",
        "promise",
        db.promise(settings.durability.into())
    );
    let lacks = Capability::ALL
        .iter()
        .filter(|all| db.lacks(**all).is_some());
    let lacks: Vec<String> = lacks.map(ToString::to_string).collect();
    if !lacks.is_empty() {
        text += &format!("\n  {:<10} {}", "without", lacks.join(", "));
    }
    if !extra.log_dirs.is_empty() {
        text += &format!("\n  {:<10} {}", "logs", extra.log_dirs.join(", "));
    }
    if let Some(other) = &extra.other_index {
        text += &format!("\n  {:<10} {other}", "index");
    }
    for damage in &extra.damaged_checkpoints {
        text += &format!("\n  {:<10} {}", "damage", text::passed_over(damage));
    }
    text
}

/// What was done before there was a database: the signals that end the server are awaited, and its
/// ports are known to be free.
struct Prepared {
    options: ServerOptions,
    signals: StopSignals,
    ports: Vec<Socket>,
}

/// Serves until somebody asks to stop; why the server stopped by itself, if it did.
fn serve_until_stopped<B: Backend>(
    settings: &Settings,
    db: &Arc<B>,
    extra: &Shown,
    prepared: Prepared,
    out: &Output,
) -> Result<Option<hedgerow_server::Error>> {
    let Prepared {
        options,
        signals,
        ports,
    } = prepared;
    signals.begin_to_serve();
    let server = Server::start(Arc::clone(db), options)?;
    let stopper = server.stopper();
    signals.serve(move || stopper.stop());
    drop(ports);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        workers = settings.workers,
        backend = db.name(),
        "serving"
    );
    match announce(settings, db.as_ref(), extra, &server, out) {
        // Whoever started it wants a server, and may not want to read of it.
        Err(error) if error.is_broken_pipe() => {
            tracing::warn!("nobody reads standard output: where the server listens is not printed");
        }
        announced => announced?,
    }
    hedgerow::drop_startup_code_pages();
    server.wait();
    server.shutdown();
    Ok(server.failure())
}

/// Serves a database of this machine.
fn serve_embedded(settings: &Settings, prepared: Prepared, out: &Output) -> Result<()> {
    let db = Arc::new(open(settings)?);
    if db.statistics().get("pages_budget_bytes").is_some() {
        // Whoever sets a budget for pages wants the rest to be small as well.
        hedgerow::fix_mmap_threshold();
    }
    let extra = Shown::of(settings, &db);
    let failure = serve_until_stopped(settings, &db, &extra, prepared, out)?;
    db.close()?;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    // The system takes the trees back faster than we take them apart.
    std::mem::forget(db);
    tracing::info!(
        "stopped; everything is {}",
        if settings.in_memory {
            "gone"
        } else {
            "on disk"
        }
    );
    Ok(())
}

/// Serves what lives elsewhere.
#[cfg(feature = "hbase")]
fn serve_backend(url: &str, settings: &Settings, prepared: Prepared, out: &Output) -> Result<()> {
    let url: hedgerow_hbase::ClusterUrl = url.parse().map_err(|error| {
        let error: hedgerow_hbase::Error = error;
        Error::Usage(format!("--backend: {error}"))
    })?;
    let db = Arc::new(hedgerow_hbase::Hbase::open(
        &url,
        hedgerow_hbase::HbaseOptions::default(),
    )?);
    let extra = Shown::default();
    let failure = serve_until_stopped(settings, &db, &extra, prepared, out)?;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    tracing::info!("stopped; everything is in HBase");
    Ok(())
}

#[cfg(not(feature = "hbase"))]
fn serve_backend(url: &str, _: &Settings, _: Prepared, _: &Output) -> Result<()> {
    Err(Error::Usage(format!(
        "--backend {url}: this program was built without other backends; build it with \
         `cargo build --release -p hedgerow-cli --features hbase`"
    )))
}

pub(crate) fn run(serve: Serve, out: &Output) -> Result<()> {
    let settings = Settings::of(serve)?;
    let options = options(&settings);
    let checked = options.check().map_err(Error::from);
    checked.map_err(|wrong| Error::Usage(wrong.to_string()))?;
    logging::start(settings.log_level);
    hedgerow_server::raise_open_file_limit();
    let prepared = Prepared {
        options,
        signals: StopSignals::watch()?,
        ports: bind_ports(&settings)?,
    };
    match &settings.backend {
        None => serve_embedded(&settings, prepared, out),
        Some(url) => serve_backend(url, &settings, prepared, out),
    }
}
