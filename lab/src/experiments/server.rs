//! Servers beside servers, on loopback: ours, Redis and memcached.
//!
//! All servers stay up for the whole run, each pinned to core 0 and idle while another is
//! measured; the client has core 1. All hold the same keys (the paper's 1-to-10-byte decimals)
//! with 8-byte values. A round visits every contender once per column, so drift of the machine
//! hits them alike. Pipelined columns keep `depth` requests in flight on each of a few
//! connections; every reply is compared with the right one, byte for byte.
//! `client busy` is the share of its core that the client used meanwhile: near 1, the figure
//! would be the client's and not the server's.
//!
//! Ours runs with its log on (`periodic`), and once in memory alone, without a log: what logging
//! costs. Redis
//! runs without persistence, its fastest form, and once more with its append-only file synced
//! every second, the form that promises about what ours does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::keys::{Key, KeySet};
use crate::machine::used_cpu_seconds;
use crate::process::{Server, find_program, pin_this_process};
use crate::report::{Output, Table};
use crate::wire::{Protocol, ScanForm, Script, latency, play_once, throughput};
use crate::{LabError, Result};

/// The core that servers run on, and the client's.
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

/// Requests prepared per script; played over and over.
const SCRIPT_REQUESTS: usize = 1 << 20;

/// Connections of the unpipelined column.
const MANY_CONNECTIONS: usize = 50;

/// Pairs per ordered scan.
const SCAN_PAIRS: usize = 50;

const SORTED_SET: &[u8] = b"ordered";

const COLUMNS: [&str; 10] = [
    "load kops",
    "GET pipelined kops",
    "client busy",
    "SET pipelined kops",
    "GET x50 kops",
    "SET x50 kops",
    "GET p50 us",
    "GET p99 us",
    "SET p50 us",
    "bytes per record",
];

/// Arguments of `hedgerow-lab server`.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArguments {
    /// Records in every server.
    #[arg(long, default_value_t = 10_000_000)]
    keys: usize,
    /// Requests in flight on each connection of the pipelined columns.
    #[arg(long, default_value_t = 64)]
    depth: usize,
    /// Connections of the pipelined columns.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds per figure.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The `hedgerow` binary; by default the one beside this program.
    #[arg(long)]
    hedgerow: Option<PathBuf>,
    /// Idle connections to open to a fresh server of each kind; 0 skips this.
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// Divide by the processor time of all threads of the server instead of by elapsed time:
    /// for machines whose cores are shared with other work.
    #[arg(long)]
    by_server_cpu: bool,
    /// Only ordered scans.
    #[arg(long)]
    scans: bool,
    /// Only contenders whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A kind of server.
struct Kind {
    name: &'static str,
    protocol: Protocol,
    program: PathBuf,
    arguments: fn(&Path, &str, &str) -> Vec<String>,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn hedgerow(durability: Option<&str>, protocol: &str, folder: &Path, port: &str) -> Vec<String> {
    let other = if protocol == "resp" {
        "memcached"
    } else {
        "resp"
    };
    let place = match durability {
        None => "--in-memory".to_owned(),
        Some(durability) => format!("--data {}/data --durability {durability}", folder.display()),
    };
    words(&format!(
        "serve {place} --workers 1 --http 127.0.0.1:0 --{protocol} 127.0.0.1:{port} \
         --{other} 127.0.0.1:0 --max-connections 20000"
    ))
}

fn redis(persistence: &str, folder: &Path, port: &str) -> Vec<String> {
    let mut arguments = words(&format!(
        "--port {port} --bind 127.0.0.1 --dir {} --maxclients 15000 {persistence} --save",
        folder.display()
    ));
    arguments.push(String::new());
    arguments
}

/// The servers found on this machine that `--only` lets through; says what is missing.
fn kinds(arguments: &ServerArguments) -> Result<Vec<Kind>> {
    let beside = std::env::current_exe()?.with_file_name("hedgerow");
    let ours = arguments.hedgerow.clone().unwrap_or(beside);
    let mut kinds = Vec::new();
    let mut add = |name, protocol, program: Option<PathBuf>, remedy: &str, arguments| match program
    {
        Some(program) => kinds.push(Kind {
            name,
            protocol,
            program,
            arguments,
        }),
        None => println!("skipped: {name} (to have it: {remedy})"),
    };
    let ours = ours.is_file().then_some(ours);
    let build = "cargo build --release -p hedgerow-cli";
    let (redis_server, memcached) = (find_program("redis-server"), find_program("memcached"));
    let install_redis = "apt install redis-server";
    add(
        "hedgerow",
        Protocol::Resp,
        ours.clone(),
        build,
        |folder, port, _| hedgerow(Some("periodic"), "resp", folder, port),
    );
    add(
        "hedgerow in memory",
        Protocol::Resp,
        ours.clone(),
        build,
        |folder, port, _| hedgerow(None, "resp", folder, port),
    );
    add(
        "redis",
        Protocol::Resp,
        redis_server.clone(),
        install_redis,
        |folder, port, _| redis("--appendonly no", folder, port),
    );
    add(
        "redis aof",
        Protocol::Resp,
        redis_server,
        install_redis,
        |folder, port, _| {
            let aof = "--appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0";
            redis(aof, folder, port)
        },
    );
    add(
        "hedgerow",
        Protocol::Memcached,
        ours,
        build,
        |folder, port, _| hedgerow(Some("periodic"), "memcached", folder, port),
    );
    add(
        "memcached",
        Protocol::Memcached,
        memcached,
        "apt install memcached",
        |_, port, user| {
            words(&format!(
                "-l 127.0.0.1 -p {port} -U 0 -t 1 -m 8192 -c 20000 -u {user}"
            ))
        },
    );
    kinds.retain(|kind| {
        arguments.only.is_empty()
            || arguments
                .only
                .iter()
                .any(|part| kind.name.contains(part.as_str()))
    });
    Ok(kinds)
}

impl Kind {
    fn start(&self) -> Result<Server> {
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        Server::start(&self.program, Some(SERVER_CORE), |folder, address| {
            Ok((self.arguments)(folder, &address.port().to_string(), &user))
        })
    }
}

/// Prebuilt requests of one protocol.
struct Scripts {
    gets: Script,
    sets: Script,
    single_gets: Script,
    single_sets: Script,
}

impl Scripts {
    fn new(protocol: Protocol, sample: &[Key], depth: usize) -> Self {
        let few = &sample[..sample.len().min(1 << 17)];
        Self {
            gets: Script::gets(protocol, sample, depth),
            sets: Script::sets(protocol, sample, depth),
            single_gets: Script::gets(protocol, few, 1),
            single_sets: Script::sets(protocol, few, 1),
        }
    }
}

/// Runs the experiment.
///
/// # Errors
///
/// A server that fails or answers wrongly, or a file that cannot be written.
pub fn run(arguments: &ServerArguments) -> Result<()> {
    let kinds = kinds(arguments)?;
    if kinds.is_empty() || arguments.keys == 0 || arguments.depth == 0 {
        return Err(LabError::Usage(
            "nothing to measure: no server, key or request".into(),
        ));
    }
    let mut output = Output::create(arguments.json.as_deref())?;
    if !pin_this_process(CLIENT_CORE) {
        println!("note: no taskset or a single core: nothing is pinned");
    }
    let sample = KeySet::Decimal.sample(arguments.keys, SCRIPT_REQUESTS);
    for protocol in [Protocol::Resp, Protocol::Memcached] {
        let these: Vec<_> = kinds
            .iter()
            .filter(|kind| kind.protocol == protocol)
            .collect();
        if these.is_empty() || arguments.scans {
            continue;
        }
        let table = measure_protocol(arguments, protocol, &these, &sample)?;
        output.table(&table)?;
    }
    let resp: Vec<_> = kinds
        .iter()
        .filter(|kind| {
            kind.protocol == Protocol::Resp && ["hedgerow", "redis"].contains(&kind.name)
        })
        .collect();
    if !resp.is_empty() {
        output.table(&measure_scans(arguments, &resp)?)?;
    }
    if arguments.idle > 0 && !arguments.scans {
        output.table(&measure_idle(arguments, &kinds)?)?;
    }
    Ok(())
}

fn measure_protocol(
    arguments: &ServerArguments,
    protocol: Protocol,
    kinds: &[&Kind],
    sample: &[Key],
) -> Result<Table> {
    let (experiment, baseline) = match protocol {
        Protocol::Resp => ("server resp", "redis"),
        Protocol::Memcached => ("server memcached", "memcached"),
    };
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    let mut table = Table::new(experiment, &COLUMNS, baseline, &names)
        .with("keys", arguments.keys)
        .with("depth", arguments.depth)
        .with("connections", arguments.connections)
        .with("by_server_cpu", arguments.by_server_cpu);
    let mut servers = Vec::new();
    for kind in kinds {
        let server = kind.start()?;
        let kops = load(arguments, protocol, &server)? / 1000.0;
        table.push(kind.name, "load kops", kops);
        std::thread::sleep(Duration::from_millis(500));
        let bytes = server.grown_bytes() as f64 / arguments.keys as f64;
        table.push(kind.name, "bytes per record", bytes);
        eprintln!("{experiment}: loaded {} at {kops:.0} kops", kind.name);
        servers.push((kind.name, server));
    }
    let scripts = Scripts::new(protocol, sample, arguments.depth);
    for round in 0..arguments.rounds {
        for (name, server) in &servers {
            measure_round(arguments, name, server, &scripts, &mut table)?;
        }
        eprintln!("{experiment}: round {}", round + 1);
    }
    Ok(table)
}

/// Sets all keys, in the order of the set, in slices that keep the script small.
fn load(arguments: &ServerArguments, protocol: Protocol, server: &Server) -> Result<f64> {
    let mut seconds = 0.0;
    let mut from = 0;
    while from < arguments.keys {
        let to = arguments.keys.min(from + SCRIPT_REQUESTS);
        let keys: Vec<_> = (from..to).map(|n| KeySet::Decimal.key(n as u64)).collect();
        let script = Script::sets(protocol, &keys, arguments.depth);
        let rate = play_once(server.address(), &script, arguments.connections)?;
        seconds += (to - from) as f64 / rate;
        from = to;
    }
    Ok(arguments.keys as f64 / seconds)
}

fn measure_round(
    arguments: &ServerArguments,
    name: &str,
    server: &Server,
    scripts: &Scripts,
    table: &mut Table,
) -> Result<()> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let address = server.address();
    for (column, script, connections) in [
        ("GET pipelined kops", &scripts.gets, arguments.connections),
        ("SET pipelined kops", &scripts.sets, arguments.connections),
        ("GET x50 kops", &scripts.single_gets, MANY_CONNECTIONS),
        ("SET x50 kops", &scripts.single_sets, MANY_CONNECTIONS),
    ] {
        let (start, before) = (Instant::now(), used_cpu_seconds());
        table.push(name, column, kops(arguments, server, script, connections)?);
        if column == COLUMNS[1] {
            let busy = (used_cpu_seconds() - before) / start.elapsed().as_secs_f64();
            table.push(name, "client busy", busy);
        }
    }
    let get = latency(address, &scripts.single_gets, time)?;
    table.push(name, "GET p50 us", get.p50_us);
    table.push(name, "GET p99 us", get.p99_us);
    table.push(
        name,
        "SET p50 us",
        latency(address, &scripts.single_sets, time)?.p50_us,
    );
    Ok(())
}

/// Thousand requests per second (of time, or of the server's processor time).
fn kops(
    arguments: &ServerArguments,
    server: &Server,
    script: &Script,
    connections: usize,
) -> Result<f64> {
    let duration = Duration::from_secs_f64(arguments.seconds);
    let (start, before) = (Instant::now(), server.cpu_seconds());
    let rate = throughput(server.address(), script, connections, duration)?;
    if !arguments.by_server_cpu {
        return Ok(rate / 1000.0);
    }
    let requests = rate * start.elapsed().as_secs_f64();
    Ok(requests / (server.cpu_seconds() - before).max(1e-3) / 1000.0)
}

/// Ordered scans of 50 over the same keys: our `RANGE` with values and without beside Redis's
/// `ZRANGEBYLEX`, which has keys only.
fn measure_scans(arguments: &ServerArguments, kinds: &[&Kind]) -> Result<Table> {
    let columns = ["scan 50 kops", "scan 50 pipelined kops", "client busy"];
    let names = ["hedgerow", "hedgerow keys", "redis"];
    let mut table = Table::new("server scan", &columns, "redis", &names)
        .with("keys", arguments.keys)
        .with("by_server_cpu", arguments.by_server_cpu);
    let mut sorted = KeySet::Decimal.keys(arguments.keys);
    let starts: Vec<usize> = (0..20_000)
        .map(|n: usize| n * 7_919_717 % sorted.len())
        .collect();
    let mut servers = Vec::new();
    for kind in kinds {
        let server = kind.start()?;
        if kind.name == "redis" {
            for some in sorted.chunks(SCRIPT_REQUESTS) {
                let script = Script::sorted_set(SORTED_SET, some, arguments.depth);
                play_once(server.address(), &script, arguments.connections)?;
            }
        } else {
            load(arguments, Protocol::Resp, &server)?;
        }
        servers.push((kind.name, server));
    }
    sorted.sort_unstable_by_key(Key::padded);
    for _ in 0..arguments.rounds {
        for (server_name, server) in &servers {
            let forms: &[_] = match *server_name {
                "redis" => &[("redis", ScanForm::SortedSet(SORTED_SET))],
                _ => &[
                    ("hedgerow", ScanForm::Pairs),
                    ("hedgerow keys", ScanForm::Keys),
                ],
            };
            for &(name, form) in forms {
                for (column, depth, connections) in [
                    (columns[0], 1, MANY_CONNECTIONS),
                    (columns[1], 16, arguments.connections),
                ] {
                    let script = Script::scans(form, &sorted, &starts, SCAN_PAIRS, depth);
                    let (start, before) = (Instant::now(), used_cpu_seconds());
                    table.push(name, column, kops(arguments, server, &script, connections)?);
                    if column == columns[1] {
                        let busy = (used_cpu_seconds() - before) / start.elapsed().as_secs_f64();
                        table.push(name, columns[2], busy);
                    }
                }
            }
        }
    }
    Ok(table)
}

/// Resident memory of a fresh server of each kind with idle connections.
fn measure_idle(arguments: &ServerArguments, kinds: &[Kind]) -> Result<Table> {
    let columns = ["resident MiB", "KiB per connection"];
    let mut names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    names.dedup();
    let mut table = Table::new("server idle connections", &columns, "redis", &names)
        .with("connections", arguments.idle);
    for name in ["hedgerow", "redis", "memcached"] {
        let Some(kind) = kinds.iter().find(|kind| kind.name == name) else {
            continue;
        };
        let server = kind.start()?;
        let connections = (0..arguments.idle)
            .map(|_| std::net::TcpStream::connect(server.address()))
            .collect::<std::io::Result<Vec<_>>>();
        let connections = connections.map_err(|error| {
            LabError::Usage(format!(
                "{} idle connections to {name}: {error} (raise the limit: ulimit -n 20000)",
                arguments.idle
            ))
        })?;
        std::thread::sleep(Duration::from_secs(1));
        table.push(
            name,
            columns[0],
            server.resident_bytes() as f64 / f64::from(1 << 20),
        );
        let each = server.grown_bytes() as f64 / connections.len() as f64 / 1024.0;
        table.push(name, columns[1], each);
    }
    table.rows.retain(|row| !row.figures[0].is_empty());
    Ok(table)
}
