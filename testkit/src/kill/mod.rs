//! Kills, for real: a server process, writers outside it, `kill -9` at random moments.
//!
//! The writers talk RESP or memcached's protocol to a `hedgerow serve` process and keep their
//! [`ledger`]s in this process. Each round starts the server with random options, reads everything
//! back and judges it, writes for a random while (sometimes with a checkpoint running), and kills.
//! Some rounds kill during start-up, so that recovery itself is interrupted; some put an old
//! manifest back first, and some move a row between databases and empty the first. Where the
//! campaign has a small disk, or may limit the length of files, the server of every other round
//! meets a disk that is full or broken while it is written to.
//!
//! What a kill met is judged by what the process left, not by when it was sent. A campaign that met
//! no recovery or no checkpoint goes on until it did.

mod ballast;
mod between_databases;
mod campaign;
pub mod client;
pub mod ledger;
mod ledgers;
mod memcached_writer;
pub(crate) mod mixture;
mod old_manifests;
pub mod server;
pub(crate) mod start;
pub mod trouble;
mod unfinished;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::pressure::{Pressure, Watch};
use between_databases::Move;
use client::{Client, Reply};
use ledger::{Ledger, Promise, State};
use ledgers::Ledgers;
use memcached_writer::{CONNECTIONS, MemcachedWriter};
use mixture::{DATABASES, database_of};
use old_manifests::Manifests;
use server::Server;
use start::Start;
use trouble::{Filler, Trouble};
use unfinished::Files;
use writer::{KEYS, Writer, key};

pub use campaign::KillCampaign;

/// How long a process run may take to have its page file grow or shrink.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kills beyond those that were asked for until one met a [`Moment`].
const MOST_MORE: usize = 60;

/// What a campaign did and saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillReport {
    /// Processes killed.
    pub kills: usize,
    /// Of those, killed before they said where they listen (recovering).
    pub kills_in_recovery: usize,
    /// Of those, killed behind the start of a checkpoint that was asked for and before its end, by
    /// the files that they left.
    pub kills_in_checkpoint: usize,
    /// Commits sent.
    pub issued: usize,
    /// Commits acknowledged.
    pub acknowledged: usize,
    /// Of those, commits of memcached clients.
    pub acknowledged_by_memcached: usize,
    /// Acknowledged commits that a weaker durability lost, as it may.
    pub lost_as_promised: usize,
    /// Commits that got an error, as the disk was full or broken.
    pub failed: usize,
    /// Of the kills, those of servers whose disk had been filled, or whose files could not grow.
    pub kills_in_trouble: usize,
    /// Of those, the kills of servers that had answered a commit with an error of the disk.
    pub kills_after_errors: usize,
    /// Of the kills, those with a `FLUSHALL` under way or just done.
    pub kills_in_flush: usize,
    /// Of the kills, those while a row moved to another database and its own was emptied.
    pub kills_in_moves: usize,
    /// Starts with an older manifest that were refused.
    pub old_manifests_refused: usize,
    /// Of the kills, those of servers that evicted pages while they were written to.
    pub kills_in_eviction: usize,
    /// What happened to the page file, if that counts.
    pub pressure: Option<Pressure>,
}

/// What each campaign kills a server in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Recovery,
    Checkpoint,
}

/// Runs the campaign; the error names round, seed and what was lost.
pub fn run(campaign: &KillCampaign) -> Result<KillReport, String> {
    let mut run = Run {
        campaign,
        rng: StdRng::seed_from_u64(campaign.seed),
        ledgers: Ledgers {
            redis: vec![Ledger::new(); campaign.writers],
            memcached: vec![Ledger::new(); CONNECTIONS],
            rows: campaign.under_pressure.then(Ledger::new),
        },
        watch: Watch::default(),
        moved: None,
        manifests: Manifests::default(),
        wanted: None,
        report: KillReport::default(),
    };
    if campaign.mixed {
        mixture::create_keyspaces(&campaign.program, &campaign.data)?;
    }
    while run.report.kills < campaign.kills {
        let round = run.report.kills;
        let start = Start::random(&mut run.rng, campaign, round);
        run.round(&start)
            .map_err(|what| format!("round {round} (seed {}), {start:?}: {what}", campaign.seed))?;
    }
    for moment in [Moment::Recovery, Moment::Checkpoint] {
        run.meet(moment)?;
    }
    let last = |e: String| format!("after the last kill (seed {}): {e}", campaign.seed);
    run.last().map_err(last)?;
    if let Some(pressure) = &run.report.pressure {
        pressure.judge().map_err(last)?;
    }
    Ok(run.report)
}

/// A campaign under way.
struct Run<'a> {
    campaign: &'a KillCampaign,
    rng: StdRng,
    ledgers: Ledgers,
    watch: Watch,
    /// The row that was moving when the last server was killed.
    moved: Option<Move>,
    manifests: Manifests,
    /// What the next kill is for, if not for anything.
    wanted: Option<Moment>,
    report: KillReport,
}

impl Run<'_> {
    /// Kills more servers until one was in the middle of this; an error, if none ever is.
    fn meet(&mut self, moment: Moment) -> Result<(), String> {
        self.wanted = Some(moment);
        let seed = self.campaign.seed;
        for _ in 0..MOST_MORE {
            if self.has_met(moment) {
                return Ok(());
            }
            // It takes a checkpoint where it is asked for one.
            let start = Start {
                checkpoint_log: "16MiB",
                trouble: None,
                ..Start::random(&mut self.rng, self.campaign, self.report.kills)
            };
            self.round(&start)
                .map_err(|what| format!("{moment:?} (seed {seed}), {start:?}: {what}"))?;
        }
        match self.has_met(moment) {
            true => Ok(()),
            false => Err(format!(
                "no server was killed in the middle of this: {moment:?} (seed {seed}), {:?}",
                self.report
            )),
        }
    }

    fn has_met(&self, moment: Moment) -> bool {
        let kills = match moment {
            Moment::Recovery => self.report.kills_in_recovery,
            Moment::Checkpoint => self.report.kills_in_checkpoint,
        };
        kills > 0
    }

    fn round(&mut self, start: &Start) -> Result<(), String> {
        if start.trouble.is_none() && self.rng.random_range(0..6) == 0 {
            let refused = self.manifests.start_with_older(self.campaign, start)?;
            self.report.old_manifests_refused += usize::from(refused);
        }
        let mut server = start.spawn(self.campaign)?;
        let in_trouble = start.trouble.is_some();
        let is_early = match self.wanted {
            Some(moment) => moment == Moment::Recovery,
            None => self.rng.random_range(0..4) == 0 && !self.shrinks() && !in_trouble,
        };
        if is_early {
            thread::sleep(Duration::from_micros(self.rng.random_range(0..20_000)));
            server.kill().map_err(|e| e.to_string())?;
            self.report.kills += 1;
            self.report.kills_in_recovery += usize::from(!server.had_listened());
            return Ok(());
        }
        let mut client = server.connect().map_err(|e| e.to_string())?;
        let restarted = |e: String| format!("after the restart: {e}");
        let promise = start.promise();
        self.read_back(&mut client, promise).map_err(restarted)?;
        if let Some(moved) = self.moved.take() {
            moved.judge(&mut client).map_err(restarted)?;
        }
        let evicted = self.read_counters(&mut client)?;
        let kind = self.rng.random_range(0..16);
        let may_empty = !self.shrinks() && !in_trouble && self.wanted.is_none();
        if kind < 2 && may_empty {
            let moved = between_databases::move_and_kill(server, client, &mut self.rng)?;
            self.moved = Some(moved);
            self.report.kills_in_moves += 1;
        } else if kind == 2 && may_empty {
            self.flush_and_kill(server, client)?;
            self.report.kills_in_flush += 1;
        } else {
            let checkpoint = self.rng.random_bool(0.4) || self.wanted.is_some();
            self.write_and_kill(&mut server, client, checkpoint, start.trouble.as_ref())?;
            self.report.kills_in_trouble += usize::from(in_trouble);
            let evicts = self.watch.seen().evictions > evicted;
            self.report.kills_in_eviction += usize::from(evicts);
        }
        self.report.kills += 1;
        let ledgers = self.ledgers.all();
        let acknowledged = ledgers.map(|ledger| ledger.counts().1).sum();
        self.manifests.remember(self.campaign, acknowledged);
        if self.campaign.under_pressure {
            let pressure = self.report.pressure.get_or_insert_default();
            pressure.add(&self.watch.take());
        }
        Ok(())
    }

    /// Whether this round is one of those that have the page file shrink.
    fn shrinks(&self) -> bool {
        self.ledgers.rows.is_some() && self.report.kills % 6 == 3
    }

    /// Reads everything back once more.
    fn last(&mut self) -> Result<(), String> {
        let start = Start {
            workers: 1,
            durability: "sync",
            checkpoint_log: "16MiB",
            index: self.campaign.index.unwrap_or_default(),
            log_dirs: None,
            trouble: None,
        };
        let mut server = start.spawn(self.campaign)?;
        let mut client = server.connect().map_err(|e| e.to_string())?;
        self.read_back(&mut client, Promise::Nothing)?;
        server.kill().map_err(|e| e.to_string())
    }

    /// Reads all keys, judges them and starts new ledgers from what is there.
    fn read_back(&mut self, client: &mut Client, promise: Promise) -> Result<(), String> {
        for (writer, ledger) in self.ledgers.redis.iter_mut().enumerate() {
            let keys: Vec<_> = (0..KEYS)
                .map(|number| key(self.campaign, writer, number))
                .collect();
            let found = match self.campaign.mixed {
                true => mixture::read_values(client, keys)?,
                false => client.read_values(&keys)?,
            };
            judge(found, ledger, promise, &mut self.report)
                .map_err(|e| format!("writer {writer}: {e}"))?;
        }
        for (connection, ledger) in self.ledgers.memcached.iter_mut().enumerate() {
            let found = client.read_values(&memcached_writer::keys(self.campaign, connection))?;
            self.report.acknowledged_by_memcached += ledger.counts().1;
            judge(found, ledger, promise, &mut self.report)
                .map_err(|e| format!("memcached connection {connection}: {e}"))?;
        }
        if let Some(rows) = &mut self.ledgers.rows {
            let found = client.read_values(&ballast::keys())?;
            judge(found, rows, promise, &mut self.report).map_err(|e| format!("ballast: {e}"))?;
        }
        Ok(())
    }

    /// Reads the server's counters, if they count; says how many pages it evicted.
    fn read_counters(&mut self, client: &mut Client) -> Result<u64, String> {
        if !self.campaign.under_pressure {
            return Ok(0);
        }
        let reply = client.call(&[b"INFO"]).map_err(|e| format!("INFO: {e}"))?;
        let Reply::Bulk(Some(text)) = reply else {
            return Err(format!("INFO answered {reply:?}"));
        };
        let text = String::from_utf8_lossy(&text);
        self.watch.record(|name| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        });
        Ok(self.watch.seen().evictions)
    }

    /// Reads the server's counters until the page file met what this process run is for,
    /// however long a busy machine takes; not for ever, and not when a writer has ended: whoever
    /// judges the campaign hears of that.
    fn await_pressure(
        &mut self,
        client: &mut Client,
        alive: impl Fn() -> bool,
        met: impl Fn(&Pressure) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.read_counters(client)?;
            if met(&self.watch.seen()) || !alive() || Instant::now() > deadline {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Removes everything at once, with nobody else writing, and kills the server about then.
    fn flush_and_kill(&mut self, mut server: Server, mut client: Client) -> Result<(), String> {
        // One database after the other is emptied.
        let databases = if self.campaign.mixed { DATABASES } else { 1 };
        for (writer, ledger) in self.ledgers.redis.iter_mut().enumerate() {
            for database in 0..databases {
                let keys = (0..KEYS).map(|number| key(self.campaign, writer, number));
                let keys = keys.filter(|key| databases == 1 || database_of(key) == database);
                ledger.issue(keys.map(|key| (key, None)).collect());
            }
        }
        let removals = |keys: Vec<Vec<u8>>| keys.into_iter().map(|key| (key, None)).collect();
        for (connection, ledger) in self.ledgers.memcached.iter_mut().enumerate() {
            ledger.issue(removals(memcached_writer::keys(self.campaign, connection)));
        }
        if let Some(rows) = &mut self.ledgers.rows {
            rows.issue(removals(ballast::keys()));
        }
        client.queue(&[b"FLUSHALL"]);
        client.send().map_err(|e| e.to_string())?;
        if self.rng.random_bool(0.5) {
            let reply = client.receive().map_err(|e| format!("FLUSHALL: {e}"))?;
            if let Reply::Error(message) = reply {
                return Err(format!("FLUSHALL: {message}"));
            }
            for _ in 1..databases {
                self.ledgers.redis.iter_mut().for_each(Ledger::acknowledge);
            }
            self.ledgers.all_mut().for_each(Ledger::acknowledge);
        }
        thread::sleep(Duration::from_micros(self.rng.random_range(0..5_000)));
        server.kill().map_err(|e| e.to_string())
    }

    /// Lets all writers write for a while, then kills the server under them.
    fn write_and_kill(
        &mut self,
        server: &mut Server,
        mut client: Client,
        checkpoint: bool,
        trouble: Option<&Trouble>,
    ) -> Result<(), String> {
        let shrinks = self.shrinks();
        let is_small = self.ledgers.rows.as_ref().is_some_and(ballast::is_small);
        let lifetime = self.lifetime(shrinks || is_small || trouble.is_some());
        let delay = self.delay(lifetime);
        let (dead, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let memcached = server.await_memcached().map_err(|e| e.to_string())?;
        let (redis, campaign) = (server.address(), self.campaign);
        let mut ledgers = std::mem::take(&mut self.ledgers);
        let killed = thread::scope(|scope| {
            let writing = Writing {
                redis,
                memcached,
                campaign,
                shrinks,
                may_fail: trouble.is_some(),
                has_failed: &has_failed,
                dead: &dead,
            };
            let threads = start_writers(scope, &mut ledgers, writing, &mut self.rng);
            let checkpoint = checkpoint.then_some(&*campaign.data);
            let (_full, before) = live(lifetime, delay, redis, checkpoint, trouble)?;
            let alive = || !threads.iter().any(thread::ScopedJoinHandle::is_finished);
            let looked = if let Some(trouble) = trouble {
                trouble.await_failure(&has_failed, alive);
                self.read_counters(&mut client).map(drop)
            } else if shrinks {
                self.await_pressure(&mut client, alive, |seen| seen.shrinks > 0)
            } else if is_small {
                let met = |seen: &Pressure| seen.growths > 0 && seen.evictions > 0;
                self.await_pressure(&mut client, alive, met)
            } else {
                self.read_counters(&mut client).map(drop)
            };
            dead.store(true, Ordering::SeqCst);
            server.kill().map_err(|e| e.to_string())?;
            // Where the disk may fail, a checkpoint may end without a manifest.
            let before = before.filter(|_| trouble.is_none());
            let unfinished = before
                .is_some_and(|before| Files::of(&campaign.data).show_checkpoint_since(&before));
            self.report.kills_in_checkpoint += usize::from(unfinished);
            for thread in threads {
                thread
                    .join()
                    .expect("a writer panicked")
                    .map_err(|e| format!("a writer: {e}"))?;
            }
            looked
        });
        if trouble.is_some() {
            ledgers.all_mut().for_each(Ledger::lose_answers);
        }
        self.ledgers = ledgers;
        self.report.kills_after_errors += usize::from(has_failed.into_inner());
        killed
    }

    /// When in its lifetime a server is asked for a checkpoint, or its disk is filled: shortly
    /// before its end, if that is to come in the middle of the checkpoint.
    fn delay(&mut self, lifetime: Duration) -> Duration {
        if self.wanted.is_some() {
            let rest_us = 1_u64 << self.rng.random_range(0..15_u32);
            return lifetime.saturating_sub(Duration::from_micros(rest_us));
        }
        lifetime.mul_f64(self.rng.random_range(0.0..1.0))
    }

    /// How long a server lives while it is written to: a short time mostly, if that suffices.
    fn lifetime(&mut self, must_be_long: bool) -> Duration {
        match self.rng.random_range(0..12) == 0 || must_be_long {
            true => Duration::from_millis(self.rng.random_range(300..700)),
            false => Duration::from_micros(self.rng.random_range(1_000..50_000)),
        }
    }
}

/// Where the connections of one process run write, and what they share.
#[derive(Clone, Copy)]
struct Writing<'r> {
    redis: SocketAddr,
    memcached: SocketAddr,
    campaign: &'r KillCampaign,
    /// Whether the ballast is removed.
    shrinks: bool,
    may_fail: bool,
    has_failed: &'r AtomicBool,
    dead: &'r AtomicBool,
}

impl Writing<'_> {
    /// Losing the connection is how a writer learns of the kill.
    fn unless_dead(self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if !self.dead.load(Ordering::SeqCst) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Starts a thread for each connection.
fn start_writers<'scope, 'r: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    ledgers: &'r mut Ledgers,
    writing: Writing<'r>,
    rng: &mut StdRng,
) -> Vec<thread::ScopedJoinHandle<'scope, io::Result<()>>> {
    let Writing {
        campaign,
        may_fail,
        has_failed,
        dead,
        ..
    } = writing;
    let mut threads = Vec::new();
    for (writer, ledger) in ledgers.redis.iter_mut().enumerate() {
        let seed = rng.random();
        threads.push(scope.spawn(move || {
            let writer = Writer::new(writer, ledger, seed, may_fail, has_failed, campaign);
            writing.unless_dead(writer.write(writing.redis, dead))
        }));
    }
    for (connection, ledger) in ledgers.memcached.iter_mut().enumerate() {
        let writer = MemcachedWriter {
            connection,
            ledger,
            seed: rng.random(),
            may_fail,
            has_failed,
            campaign,
        };
        threads
            .push(scope.spawn(move || writing.unless_dead(writer.write(writing.memcached, dead))));
    }
    if let Some(rows) = &mut ledgers.rows {
        let seed = rng.random();
        threads.push(scope.spawn(move || {
            let pressed = press_until_killed(writing.redis, rows, seed, writing.shrinks, dead);
            writing.unless_dead(pressed)
        }));
    }
    threads
}

/// Lets a server live for a while, with trouble or a checkpoint of the database in a directory
/// after a part of it. What is returned keeps the disk full, and has the files as they were before
/// the checkpoint.
fn live(
    lifetime: Duration,
    delay: Duration,
    address: SocketAddr,
    checkpoint: Option<&Path>,
    trouble: Option<&Trouble>,
) -> Result<(Option<Filler>, Option<Files>), String> {
    thread::sleep(delay);
    let mut full = None;
    if let Some(Trouble::FullDisk { disk, frees }) = trouble {
        let filler = Filler::fill(disk).map_err(|e| format!("filling {}: {e}", disk.display()))?;
        thread::sleep(lifetime - delay);
        full = Some(filler).filter(|_| !frees);
    }
    let before = checkpoint.map(Files::of);
    if checkpoint.is_some()
        && let Ok(mut client) = Client::connect(address)
    {
        let _started = client.call(&[b"BGSAVE"]);
    }
    thread::sleep(lifetime - delay);
    Ok((full, before))
}

/// Judges what was found of one ledger's keys, and starts it anew from that.
fn judge(
    found: State,
    ledger: &mut Ledger,
    promise: Promise,
    report: &mut KillReport,
) -> Result<(), String> {
    let survived = ledger.check(&found)?;
    let (issued, acknowledged) = ledger.counts();
    report.issued += issued;
    report.acknowledged += acknowledged;
    report.failed += ledger.failed();
    report.lost_as_promised += acknowledged.saturating_sub(survived);
    ledger.restart(found, promise);
    Ok(())
}

fn press_until_killed(
    address: SocketAddr,
    rows: &mut Ledger,
    seed: u64,
    shrinks: bool,
    dead: &AtomicBool,
) -> io::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut client = Client::connect(address)?;
    let done = || dead.load(Ordering::SeqCst);
    if shrinks {
        return ballast::shrink(&mut client, rows, &mut rng, done);
    }
    ballast::write(&mut client, rows, seed, &mut rng, done)
}
