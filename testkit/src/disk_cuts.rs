//! Power cuts under a real server on a real file system: `hedgerow serve` on a [`LossyDisk`],
//! writers and their histories outside of it.
//!
//! Each round starts the server, reads everything back and judges it, lets the writers write for a
//! random while, cuts the disk under the server, ends that, and mounts the disk again. What was
//! acknowledged after the cut began may be lost: the kernel may say that a sync is done whose
//! blocks it then drops. Of everything before it,
//!
//! * with `--durability sync` nothing acknowledged is lost;
//! * with `--durability periodic` what is lost is the end of the history, over all writers
//!   together: no commit is kept that a client issued after a lost one was acknowledged.
//!
//! Where the server left an older checkpoint behind the newest, the newest one is damaged before
//! every second start, and the same holds.

mod history;

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::IndexKind;
use hedgerow_lossy_disk::{Error, FileSystem, LossyDisk};
use hedgerow_vfs::SystemVfs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::damage::damage_newest;
use crate::kill::client::{Client, Reply};
use crate::kill::mixture::{self, Form};
use crate::kill::server::Server;
use crate::kill::start::MIXED_MEMORY;
use crate::pressure::LEAST_MEMORY;
use history::{History, key};

/// Commits that each writer has acknowledged before a disk is cut.
const LEAST_COMMITS: usize = 20;

/// How long that may take, on a machine that has much else to do.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct DiskCampaign {
    /// The `hedgerow` binary.
    pub program: PathBuf,
    /// The file system that is cut.
    pub system: FileSystem,
    /// The index of the database; of a mixed one that of keyspaces that are made later.
    pub index: IndexKind,
    /// Keyspaces of all kinds of indexes beside each other, and transactions that change several.
    pub mixed: bool,
    /// How often to cut.
    pub cuts: usize,
    /// Concurrent connections that write.
    pub writers: usize,
    /// Seed of workloads and options; the moments of the cuts are the machine's.
    pub seed: u64,
}

impl DiskCampaign {
    /// An index all of whose keys are keys of every keyspace.
    fn keys_of(&self) -> IndexKind {
        match self.mixed {
            true => IndexKind::Bst,
            false => self.index,
        }
    }
}

/// What a campaign did and saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// Disks cut.
    pub cuts: usize,
    /// Of those, under servers that sync each commit.
    pub cuts_of_synced: usize,
    /// Of those, while a checkpoint had been asked for.
    pub cuts_in_checkpoint: usize,
    /// Of those, with the newest checkpoint damaged before the next start.
    pub damaged: usize,
    /// Commits sent.
    pub issued: usize,
    /// Commits acknowledged.
    pub acknowledged: usize,
    /// Commits acknowledged before a cut and lost, as periodic durability may.
    pub lost_as_promised: usize,
}

/// How a campaign ended that found nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done.
    Done(DiskReport),
    /// This machine does not allow such disks: why.
    Skipped(String),
}

/// Runs the campaign; the error names round, seed and what was lost.
pub fn run(campaign: &DiskCampaign) -> Result<Outcome, String> {
    let disk = match LossyDisk::create(campaign.system) {
        Ok(disk) => disk,
        Err(Error::Unavailable(why)) => return Ok(Outcome::Skipped(why)),
        Err(error) => return Err(error.to_string()),
    };
    let mut run = Run {
        campaign,
        disk,
        rng: StdRng::seed_from_u64(campaign.seed),
        histories: vec![History::default(); campaign.writers],
        was_synced: false,
        cut: Instant::now(),
        report: DiskReport::default(),
    };
    if campaign.mixed {
        mixture::create_keyspaces(&campaign.program, &run.data())?;
    }
    // The last round reads back what the last cut left, and writes nothing.
    for round in 0..=campaign.cuts {
        // In turns, so that few rounds have both.
        let is_synced = round % 2 == 0;
        run.round(is_synced, round == campaign.cuts)
            .map_err(|what| {
                let durability = if is_synced { "sync" } else { "periodic" };
                let seed = campaign.seed;
                format!("round {round} (seed {seed}), {durability}, {campaign:?}: {what}")
            })?;
    }
    Ok(Outcome::Done(run.report))
}

/// A campaign under way.
struct Run<'a> {
    campaign: &'a DiskCampaign,
    disk: LossyDisk,
    rng: StdRng,
    histories: Vec<History>,
    /// Whether the last server synced each commit.
    was_synced: bool,
    /// When the last cut began.
    cut: Instant,
    report: DiskReport,
}

impl Run<'_> {
    fn round(&mut self, is_synced: bool, is_last: bool) -> Result<(), String> {
        if self.rng.random_bool(0.5) {
            let damaged = damage_newest(&SystemVfs, &self.data(), &mut self.rng)?;
            self.report.damaged += usize::from(damaged.is_some());
        }
        let mut server = self.start(is_synced)?;
        let mut client = server.connect().map_err(|e| e.to_string())?;
        self.read_back(&mut client)
            .map_err(|e| format!("after the cut: {e}"))?;
        self.was_synced = is_synced;
        if is_last {
            return server.kill().map_err(|e| e.to_string());
        }
        self.write_and_cut(&mut server, client)?;
        self.report.cuts += 1;
        self.report.cuts_of_synced += usize::from(is_synced);
        self.disk.mount_again().map_err(|e| e.to_string())
    }

    fn data(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    fn start(&mut self, is_synced: bool) -> Result<Server, String> {
        let workers = self.rng.random_range(1..=3).to_string();
        let durability = if is_synced { "sync" } else { "periodic" };
        let checkpoint = ["64KiB", "1MiB", "16MiB"][self.rng.random_range(0..3)];
        let memory = match self.campaign.mixed {
            true => MIXED_MEMORY,
            false => LEAST_MEMORY,
        };
        let memory = memory.to_string();
        let mut flags = vec!["--workers", &workers, "--durability", durability];
        flags.extend(["--checkpoint-log", checkpoint]);
        flags.extend(["--index", self.campaign.index.name()]);
        if self.campaign.mixed || self.campaign.index == IndexKind::BTree {
            flags.extend(["--memory", &memory]);
        }
        Server::spawn(&self.campaign.program, &self.data(), &flags).map_err(|e| e.to_string())
    }

    /// Reads all keys, judges them and begins new histories with what is there.
    fn read_back(&mut self, client: &mut Client) -> Result<(), String> {
        let (mut newest_kept, mut oldest_lost) = (None, None);
        let mut histories = Vec::new();
        for (writer, history) in self.histories.iter().enumerate() {
            let keys = history::keys(self.campaign.keys_of(), writer);
            let found = match self.campaign.mixed {
                true => mixture::read_values(client, keys)?,
                false => client.read_values(&keys)?,
            };
            let promised = history.acknowledged_before(self.cut);
            let least = if self.was_synced { promised } else { 0 };
            let survivors = history
                .survivors(least, &found)
                .map_err(|e| format!("writer {writer}: {e}"))?;
            self.report.issued += history.len();
            self.report.acknowledged += promised;
            self.report.lost_as_promised += promised.saturating_sub(*survivors.end());
            newest_kept = newest_kept.max(history.last_issued(*survivors.start()));
            let lost = history.next_acknowledged(*survivors.end());
            oldest_lost = [oldest_lost, lost].into_iter().flatten().min();
            histories.push(History::of(found));
        }
        self.histories = histories;
        match (newest_kept, oldest_lost) {
            (Some(kept), Some(lost)) if lost < kept => Err(format!(
                "a commit was lost that had been acknowledged {:?} before one was issued that is \
                 there",
                kept - lost
            )),
            _ => Ok(()),
        }
    }

    /// Lets all writers write for a while, cuts the disk under the server and ends it.
    fn write_and_cut(&mut self, server: &mut Server, mut client: Client) -> Result<(), String> {
        let is_cut = AtomicBool::new(false);
        let commits: Vec<AtomicUsize> =
            self.histories.iter().map(|_| AtomicUsize::new(0)).collect();
        let (address, mixed) = (server.address(), self.campaign.mixed);
        let keys_of = self.campaign.keys_of();
        let mut histories = std::mem::take(&mut self.histories);
        let outcome = thread::scope(|scope| {
            let is_cut = &is_cut;
            let writers: Vec<_> = histories
                .iter_mut()
                .zip(&commits)
                .enumerate()
                .map(|(writer, (history, commits))| {
                    let seed = self.rng.random();
                    scope.spawn(move || {
                        let mut writer = Writer {
                            number: writer,
                            history,
                            rng: StdRng::seed_from_u64(seed),
                            seed,
                            keys_of,
                            mixed,
                        };
                        let written = writer.write(address, commits, is_cut);
                        // The cut is what ends a writer; its server may well say so first.
                        match written {
                            Err(error) if !is_cut.load(Ordering::SeqCst) => Err(error),
                            _ => Ok(()),
                        }
                    })
                })
                .collect();
            let has_ended = || writers.iter().any(thread::ScopedJoinHandle::is_finished);
            let cut = self.cut_when_written(&mut client, &commits, has_ended, is_cut);
            is_cut.store(true, Ordering::SeqCst);
            // Sometimes the server has time to meet the failing disk, sometimes it has not.
            thread::sleep(Duration::from_micros(self.rng.random_range(0..20_000)));
            server.kill().map_err(|e| e.to_string())?;
            for writer in writers {
                let written = writer.join().expect("a writer panicked");
                written.map_err(|e| format!("a writer: {e}"))?;
            }
            cut
        });
        self.histories = histories;
        outcome
    }

    /// Waits until every writer has written enough, and a while longer; then cuts the disk.
    fn cut_when_written(
        &mut self,
        client: &mut Client,
        commits: &[AtomicUsize],
        has_ended: impl Fn() -> bool,
        is_cut: &AtomicBool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        let is_enough = |count: &AtomicUsize| count.load(Ordering::Relaxed) >= LEAST_COMMITS;
        while !commits.iter().all(is_enough) && !has_ended() {
            if Instant::now() > deadline {
                return Err("the writers do not get on".to_owned());
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(self.rng.random_range(0..300)));
        if self.rng.random_range(0..3) == 0 {
            self.write_back_some();
        }
        if self.rng.random_range(0..3) == 0 {
            let reply = client.call(&[b"BGSAVE"]);
            reply.map_err(|e| format!("BGSAVE: {e}"))?;
            self.report.cuts_in_checkpoint += 1;
            thread::sleep(Duration::from_micros(self.rng.random_range(0..30_000)));
        }
        is_cut.store(true, Ordering::SeqCst);
        self.cut = Instant::now();
        self.disk.cut().map_err(|e| e.to_string())
    }

    /// Writes some of the server's files to the disk, as the kernel does by itself at times.
    fn write_back_some(&mut self) {
        let mut files = Vec::new();
        list(&self.data(), &mut files);
        for path in files {
            if self.rng.random_bool(0.5) {
                // A file that is gone by now needs no writing.
                let _ = File::open(path).and_then(|file| file.sync_data());
            }
        }
    }
}

/// The files of a folder and of those in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    // What cannot be listed, because it went just now, has no files.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// One connection that writes its own keys until the disk is cut.
struct Writer<'h> {
    number: usize,
    history: &'h mut History,
    rng: StdRng,
    seed: u64,
    /// An index that can have the keys.
    keys_of: IndexKind,
    /// Whether the keys are in several databases.
    mixed: bool,
}

impl Writer<'_> {
    /// Writes until the connection fails, an error is answered, or the disk is full or cut.
    fn write(
        &mut self,
        address: SocketAddr,
        commits: &AtomicUsize,
        is_cut: &AtomicBool,
    ) -> io::Result<()> {
        let mut client = Client::connect(address)?;
        while !is_cut.load(Ordering::SeqCst) {
            let pipeline = self.rng.random_range(1..=8);
            let replies: Vec<usize> = (0..pipeline)
                .map(|_| self.queue_commit(&mut client))
                .collect();
            client.send()?;
            for replies in replies {
                for _ in 0..replies {
                    match client.receive()? {
                        // How soon a small disk is full is up to the machine: the cut comes all
                        // the same.
                        Reply::Error(message) if message.contains("the disk is full") => {
                            return Ok(());
                        }
                        Reply::Error(message) => return Err(io::Error::other(message)),
                        _ => {}
                    }
                }
                self.history.acknowledge();
                commits.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn key(&self, number: usize) -> Vec<u8> {
        key(self.keys_of, self.number, number)
    }

    /// Queues a commit of a random kind; returns how many replies it has.
    fn queue_commit(&mut self, client: &mut Client) -> usize {
        let mut value = format!("{:x}-{}", self.seed, self.history.len()).into_bytes();
        let length = [0, 10, 100, 600, 2000][self.rng.random_range(0..5)];
        value.resize(value.len() + length, b'.');
        let first = self.rng.random_range(0..history::KEYS);
        let second = (first + self.rng.random_range(1..history::KEYS)) % history::KEYS;
        let (a, b) = (self.key(first), self.key(second));
        let changes = match self.rng.random_range(0..8) {
            0 => vec![(a, None)],
            1 | 2 => vec![(a, Some(value.clone())), (b, Some(value))],
            _ => vec![(a, Some(value))],
        };
        let replies = match (&changes[..], self.mixed) {
            (_, true) => mixture::queue_changes(client, Form::any(&mut self.rng), &changes),
            ([(a, Some(value)), (b, _)], false) => {
                client.queue(&[b"MSET", a, value, b, value]);
                1
            }
            ([(a, Some(value)), ..], false) => {
                client.queue(&[b"SET", a, value]);
                1
            }
            ([(a, None), ..], false) => {
                client.queue(&[b"DEL", a]);
                1
            }
            ([], false) => 0,
        };
        self.history.issue(changes);
        replies
    }
}
