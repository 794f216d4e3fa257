//! Kills, for real: a server process, writers outside it, `kill -9` at random moments.
//!
//! The writers talk RESP to a `hedgerow serve` process and keep their [`ledger`]s in this
//! process. Each round starts the server with random options, reads everything back and judges
//! it, writes for a random while (sometimes with a checkpoint running), and kills. Some rounds
//! kill during start-up, so that recovery itself is interrupted.

mod ballast;
pub mod client;
pub mod ledger;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::IndexKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use client::{Client, Reply};
use ledger::{Ledger, Promise, State};

/// What the flusher is promised to keep to under `--durability periodic`.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// Keys of each writer.
const KEYS: usize = 12;

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct KillCampaign {
    /// The `hedgerow` binary.
    pub program: PathBuf,
    /// The data directory; must not exist or be empty.
    pub data: PathBuf,
    /// How often to kill.
    pub kills: usize,
    /// Concurrent connections that write.
    pub writers: usize,
    /// Seed of workloads and options; the moments of death are the machine's.
    pub seed: u64,
    /// The index of the database; `None`: any of those in memory.
    pub index: Option<IndexKind>,
    /// How much later than the flush interval a periodic flush may be on this machine.
    pub slack: Duration,
}

/// What a campaign did and saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillReport {
    /// Processes killed.
    pub kills: usize,
    /// Of those, killed before they answered (recovering).
    pub kills_in_recovery: usize,
    /// Of those, killed while a checkpoint had been asked for.
    pub kills_in_checkpoint: usize,
    /// Commits sent.
    pub issued: usize,
    /// Commits acknowledged.
    pub acknowledged: usize,
    /// Acknowledged commits that a weaker durability lost, as it may.
    pub lost_as_promised: usize,
}

/// The options of one start.
#[derive(Debug, Clone)]
struct Start {
    workers: u32,
    durability: &'static str,
    checkpoint_log: &'static str,
    /// The index of keyspaces that are made, which is the default one's only at the first start.
    index: IndexKind,
}

impl Start {
    fn random(rng: &mut StdRng, index: Option<IndexKind>) -> Self {
        let any = [IndexKind::Masstree, IndexKind::Matryoshka][rng.random_range(0..2)];
        Start {
            workers: rng.random_range(1..=3),
            durability: ["sync", "sync", "sync", "periodic", "periodic", "none"]
                [rng.random_range(0..6)],
            checkpoint_log: ["64KiB", "256KiB", "16MiB"][rng.random_range(0..3)],
            index: index.unwrap_or(any),
        }
    }

    fn promise(&self, slack: Duration) -> Promise {
        match self.durability {
            "sync" => Promise::Sync,
            "periodic" => Promise::Within(FLUSH_INTERVAL + slack),
            _ => Promise::Nothing,
        }
    }
}

/// Runs the campaign; the error names round, seed and what was lost.
pub fn run(campaign: &KillCampaign) -> Result<KillReport, String> {
    let mut rng = StdRng::seed_from_u64(campaign.seed);
    let mut ledgers = vec![Ledger::new(); campaign.writers];
    let mut report = KillReport::default();
    let has_ballast = campaign.index == Some(IndexKind::BTree);
    if has_ballast {
        ballast::fill(campaign).map_err(|e| format!("filling: {e}"))?;
    }
    let mut killed = Instant::now();
    while report.kills < campaign.kills {
        let round = report.kills;
        let context = |what: String| format!("round {round} (seed {}): {what}", campaign.seed);
        let start = Start::random(&mut rng, campaign.index);
        let mut server = Server::spawn(campaign, &start).map_err(|e| context(e.to_string()))?;
        if rng.random_range(0..4) == 0 {
            thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
            server.kill().map_err(|e| context(e.to_string()))?;
            report.kills += 1;
            report.kills_in_recovery += 1;
            continue;
        }
        let mut client = server
            .connect()
            .map_err(|e| context(format!("{start:?}: {e}")))?;
        read_back(
            &mut client,
            &mut ledgers,
            killed,
            start.promise(campaign.slack),
            &mut report,
        )
        .map_err(|e| context(format!("after restart with {start:?}: {e}")))?;
        if has_ballast {
            ballast::check(&mut client, &mut rng)
                .map_err(|e| context(format!("after restart with {start:?}: {e}")))?;
        }
        let checkpoint = rng.random_bool(0.4);
        let life = match rng.random_range(0..12) {
            0 => Duration::from_millis(rng.random_range(300..700)),
            _ => Duration::from_micros(rng.random_range(1_000..50_000)),
        };
        killed = write_and_kill(&mut server, &mut ledgers, &mut rng, life, checkpoint)
            .map_err(|e| context(format!("{start:?}: {e}")))?;
        report.kills += 1;
        report.kills_in_checkpoint += usize::from(checkpoint);
    }
    let start = Start {
        workers: 1,
        durability: "sync",
        checkpoint_log: "16MiB",
        index: campaign.index.unwrap_or_default(),
    };
    let last = |e: String| format!("after the last kill (seed {}): {e}", campaign.seed);
    let mut server = Server::spawn(campaign, &start).map_err(|e| last(e.to_string()))?;
    let mut client = server.connect().map_err(|e| last(e.to_string()))?;
    read_back(
        &mut client,
        &mut ledgers,
        killed,
        Promise::Sync,
        &mut report,
    )
    .map_err(last)?;
    server.kill().map_err(|e| last(e.to_string()))?;
    Ok(report)
}

/// Flags that leave an index as little memory as it can work in, if it can do with less than all.
fn memory(index: IndexKind) -> &'static [&'static str] {
    match index {
        IndexKind::BTree => &["--memory", "1MiB"],
        _ => &[],
    }
}

fn key(writer: usize, number: usize) -> Vec<u8> {
    format!("writer{writer}/key{number}").into_bytes()
}

/// Reads all keys, judges them and starts new ledgers from what is there.
fn read_back(
    client: &mut Client,
    ledgers: &mut [Ledger],
    killed: Instant,
    promise: Promise,
    report: &mut KillReport,
) -> Result<(), String> {
    for (writer, ledger) in ledgers.iter_mut().enumerate() {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| key(writer, number)).collect();
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        words.extend(keys.iter().map(Vec::as_slice));
        let reply = client.call(&words).map_err(|e| format!("MGET: {e}"))?;
        let Reply::Array(Some(values)) = reply else {
            return Err(format!("MGET answered {reply:?}"));
        };
        let mut found = State::new();
        for (key, value) in keys.iter().zip(values) {
            match value {
                Reply::Bulk(Some(value)) => drop(found.insert(key.clone(), value)),
                Reply::Bulk(None) => {}
                other => return Err(format!("MGET holds {other:?}")),
            }
        }
        let survived = ledger
            .check(killed, &found)
            .map_err(|e| format!("writer {writer}: {e}"))?;
        let (issued, acknowledged) = ledger.counts();
        report.issued += issued;
        report.acknowledged += acknowledged;
        report.lost_as_promised += acknowledged.saturating_sub(survived);
        ledger.restart(found, promise);
    }
    Ok(())
}

/// Lets all writers write for `life`, then kills the server under them.
fn write_and_kill(
    server: &mut Server,
    ledgers: &mut [Ledger],
    rng: &mut StdRng,
    life: Duration,
    checkpoint: bool,
) -> Result<Instant, String> {
    let dead = AtomicBool::new(false);
    let address = server.address;
    let seeds: Vec<u64> = ledgers.iter().map(|_| rng.random()).collect();
    let delay = life.mul_f64(rng.random_range(0.0..1.0));
    thread::scope(|scope| {
        let dead = &dead;
        let mut threads = Vec::new();
        for ((writer, ledger), seed) in ledgers.iter_mut().enumerate().zip(seeds) {
            threads.push(scope.spawn(move || {
                let result = write_until_killed(address, writer, ledger, seed, dead);
                // Losing the connection is how a writer learns of the kill.
                result.or_else(|e| {
                    if dead.load(Ordering::SeqCst) {
                        Ok(())
                    } else {
                        Err(e)
                    }
                })
            }));
        }
        if checkpoint {
            thread::sleep(delay);
            if let Ok(mut client) = Client::connect(address) {
                let _started = client.call(&[b"BGSAVE"]);
            }
            thread::sleep(life - delay);
        } else {
            thread::sleep(life);
        }
        dead.store(true, Ordering::SeqCst);
        let killed = Instant::now();
        server.kill().map_err(|e| e.to_string())?;
        for thread in threads {
            thread
                .join()
                .expect("a writer panicked")
                .map_err(|e| format!("a writer: {e}"))?;
        }
        Ok(killed)
    })
}

fn write_until_killed(
    address: SocketAddr,
    writer: usize,
    ledger: &mut Ledger,
    seed: u64,
    dead: &AtomicBool,
) -> io::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut client = Client::connect(address)?;
    let mut number = 0u64;
    while !dead.load(Ordering::SeqCst) {
        let mut replies = Vec::new();
        for _ in 0..rng.random_range(1..=16) {
            number += 1;
            let value = value(seed, number, &mut rng);
            replies.push(queue_commit(&mut client, ledger, writer, value, &mut rng));
        }
        client.send()?;
        for count in replies {
            for _ in 0..count {
                if let Reply::Error(message) = client.receive()? {
                    return Err(io::Error::other(message));
                }
            }
            ledger.acknowledge();
        }
    }
    Ok(())
}

/// A value that no other commit writes, of up to 2000 bytes.
fn value(seed: u64, number: u64, rng: &mut StdRng) -> Vec<u8> {
    let mut value = format!("{seed:x}-{number}-").into_bytes();
    let length = [0, 10, 100, 600, 2000][rng.random_range(0..5)];
    value.resize(value.len() + length, b'.');
    value
}

/// Queues one commit of a random kind and returns how many replies it has.
fn queue_commit(
    client: &mut Client,
    ledger: &mut Ledger,
    writer: usize,
    value: Vec<u8>,
    rng: &mut StdRng,
) -> usize {
    let first = rng.random_range(0..KEYS);
    let second = (first + rng.random_range(1..KEYS)) % KEYS;
    let (a, b) = (key(writer, first), key(writer, second));
    match rng.random_range(0..10) {
        0..6 => {
            client.queue(&[b"SET", &a, &value]);
            ledger.issue(vec![(a, Some(value))]);
            1
        }
        6 => {
            client.queue(&[b"DEL", &a]);
            ledger.issue(vec![(a, None)]);
            1
        }
        7 | 8 => {
            client.queue(&[b"MSET", &a, &value, &b, &value]);
            ledger.issue(vec![(a, Some(value.clone())), (b, Some(value))]);
            1
        }
        _ => {
            client.queue(&[b"MULTI"]);
            client.queue(&[b"SET", &a, &value]);
            client.queue(&[b"DEL", &b]);
            client.queue(&[b"EXEC"]);
            ledger.issue(vec![(a, Some(value)), (b, None)]);
            4
        }
    }
}

/// A running server process; killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn spawn(campaign: &KillCampaign, start: &Start) -> io::Result<Self> {
        // The port is free now and, with nobody else picking ports in the meantime, a moment
        // later; if not, the server says so and the round fails loudly.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(&campaign.program)
            .arg("serve")
            .arg("--data")
            .arg(&campaign.data)
            .args([
                "--resp",
                &address.to_string(),
                "--memcached",
                "none",
                "--http",
                "none",
            ])
            .args(["--workers", &start.workers.to_string()])
            .args(["--durability", start.durability])
            .args(["--checkpoint-log", start.checkpoint_log])
            .args(["--index", start.index.name()])
            .args(memory(start.index))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::other(format!("{}: {e}", campaign.program.display())))?;
        Ok(Server { child, address })
    }

    /// Connects once the server listens; fails with its own words if it exits instead.
    fn connect(&mut self) -> io::Result<Client> {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(client) = Client::connect(self.address) {
                return Ok(client);
            }
            if let Some(status) = self.child.try_wait()? {
                let mut words = String::new();
                if let Some(stderr) = &mut self.child.stderr {
                    stderr.read_to_string(&mut words)?;
                }
                return Err(io::Error::other(format!(
                    "the server exited with {status}: {words}"
                )));
            }
            if Instant::now() > patience {
                return Err(io::Error::other("the server neither listens nor exits"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already killed in the ordinary case; this covers early returns.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
