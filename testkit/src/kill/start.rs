//! How one server of a campaign is started.

use std::path::Path;

use hedgerow::IndexKind;
use rand::Rng;
use rand::rngs::StdRng;

use super::campaign::KillCampaign;
use super::ledger::Promise;
use super::server::Server;
use super::trouble::Trouble;
use crate::databases::{ALL_KINDS, IN_MEMORY};
use crate::pressure::LEAST_MEMORY;

/// Memory of a server with keyspaces of all kinds: far more than its rows need.
pub(crate) const MIXED_MEMORY: usize = 128 << 20;

/// The log between checkpoints where files cannot grow: longer than any limit that they have, and
/// so short that a small disk has space for two.
const LONG_LOG: &str = "64MiB";
const LONG_LOG_BYTES: u64 = 64 << 20;

/// Directories of logs, by their numbers: of one start the ones, of the next others.
const LOG_DIRS: [&[u32]; 6] = [&[1, 2], &[1], &[2, 3], &[3, 1, 2], &[2], &[]];

/// The flags that name directories of these numbers beside the data.
fn flags_of(numbers: &[u32], data: &Path) -> Vec<String> {
    let flag = |dir: String| ["--log-dir".to_owned(), dir];
    match numbers {
        [] => flag("none".to_owned()).to_vec(),
        numbers => {
            let dir = |number: &u32| format!("{}-log{number}", data.display());
            numbers
                .iter()
                .flat_map(|number| flag(dir(number)))
                .collect()
        }
    }
}

/// The options of one start.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) workers: u32,
    pub(super) durability: &'static str,
    pub(super) checkpoint_log: &'static str,
    /// The index of keyspaces that are made, which is the default one's only at the first start.
    pub(super) index: IndexKind,
    /// What `--log-dir` names, if it is there: directories beside the data by their numbers.
    pub(super) log_dirs: Option<&'static [u32]>,
    /// What happens to its disk.
    pub(super) trouble: Option<Trouble>,
}

impl Start {
    pub(super) fn random(rng: &mut StdRng, campaign: &KillCampaign, round: usize) -> Self {
        let kinds = match campaign.mixed {
            true => &ALL_KINDS[..],
            false => &IN_MEMORY[..],
        };
        let any = kinds[rng.random_range(0..kinds.len())];
        let start = Start {
            workers: rng.random_range(1..=3),
            durability: ["sync", "sync", "periodic", "periodic", "periodic", "none"]
                [rng.random_range(0..6)],
            checkpoint_log: ["64KiB", "256KiB", "16MiB"][rng.random_range(0..3)],
            index: campaign.index.unwrap_or(any),
            log_dirs: campaign
                .log_dirs
                .then(|| LOG_DIRS[rng.random_range(0..LOG_DIRS.len())]),
            trouble: Trouble::random(rng, campaign, round),
        };
        match start.trouble {
            Some(Trouble::LongestFile(bytes)) if round == campaign.kills / 2 => {
                start.with_long_logs(bytes)
            }
            _ => start,
        }
    }

    /// The same, so that a file of the log soon meets this limit: commits are not synced, and the
    /// log between two checkpoints is as long as the files of all workers may become.
    fn with_long_logs(self, longest_file: u64) -> Self {
        let most_workers = u32::try_from(LONG_LOG_BYTES / longest_file).unwrap_or(u32::MAX);
        Start {
            workers: self.workers.min(most_workers.max(1)),
            durability: "periodic",
            checkpoint_log: LONG_LOG,
            ..self
        }
    }

    /// Starts a server like this.
    pub(super) fn spawn(&self, campaign: &KillCampaign) -> Result<Server, String> {
        let workers = self.workers.to_string();
        let mut flags = vec!["--workers", &workers, "--durability", self.durability];
        flags.extend(["--checkpoint-log", self.checkpoint_log]);
        flags.extend(["--index", self.index.name()]);
        let memory = match campaign.mixed {
            true => MIXED_MEMORY,
            false => LEAST_MEMORY,
        };
        let memory = memory.to_string();
        if campaign.mixed || self.index == IndexKind::BTree {
            flags.extend(["--memory", &memory]);
        }
        let log_dirs = self
            .log_dirs
            .map(|numbers| flags_of(numbers, &campaign.data));
        flags.extend(log_dirs.iter().flatten().map(String::as_str));
        let longest_file = match &self.trouble {
            Some(Trouble::LongestFile(bytes)) => Some(*bytes),
            _ => None,
        };
        Server::spawn_with(&campaign.program, &campaign.data, &flags, longest_file)
            .map_err(|e| e.to_string())
    }

    /// A kill loses nothing that was acknowledged under `periodic` either: replies go out after
    /// the operating system has the commits. The clock matters to power cuts alone.
    pub(super) fn promise(&self) -> Promise {
        match self.durability {
            "sync" | "periodic" => Promise::Acknowledged,
            _ => Promise::Nothing,
        }
    }
}
