//! Plants one bug after the other and shows that a campaign finds it: power cuts for what logs and
//! recovery promise, race tests for the concurrency of the trees and of commits, kills of servers,
//! cuts of real file systems, file faults and bit rot for what no modelled power cut shows.
//!
//! A planted bug may do what bugs do: a writer that missed a replacement puts a value where others
//! read a pointer, and the process dies of it before any campaign has a word to say. So each bug
//! has a process of its own, [`campaign plant --only NAME`](search), and its death of what it did
//! counts as a complaint. Nothing else does: a process that somebody killed, or that fails in
//! another way, is an error of [`run`]. The servers that a campaign kills are processes, too: they
//! are [`campaign serve`](serve), and learn of the bug by the environment.

mod server;

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

use hedgerow::{IndexKind, Isolation};
use hedgerow_lossy_disk::{Error, FileSystem, LossyDisk};

use crate::bst_races;
use crate::bwtree_races;
use crate::db_races;
use crate::disk_cuts::{self, DiskCampaign};
use crate::faults::{self, FaultCampaign};
use crate::kill::{self, KillCampaign};
use crate::matryoshka_races;
use crate::powercut::{self, DbSubject, LogSubject, PowerCutCampaign};
use crate::rot::{self, RotCampaign};
use crate::transaction_histories::{self, Histories};
use crate::tree_races::{self, RaceTest};

/// Images after which a bug counts as unnoticed: ten times what the rarest one needs on average.
const MAX_IMAGES: usize = 400_000;

/// The environment variable that names the bug for the processes that a campaign starts.
const BUG_OF_SERVERS: &str = "HEDGEROW_PLANTED";

/// What [`search`]'s process says of a bug that it found, before the complaint.
const FOUND: &str = "found: ";
/// What it says of one that went unnoticed.
const UNNOTICED: &str = "unnoticed";

/// Signals that a process gets for what it did: of Linux, ill instruction, trap, abort, bus error,
/// floating point, and a page that is not there.
const OWN_FAULT: [i32; 6] = [4, 5, 6, 7, 8, 11];

/// A bug, and with its crate's feature the means to have it.
#[derive(Debug, Clone, Copy)]
enum Plant {
    Vfs(hedgerow_vfs::PlantedBug),
    Log(hedgerow_log::PlantedBug),
    Engine(hedgerow::PlantedBug),
    Bst(hedgerow_bst::PlantedBug),
    Bwtree(hedgerow_bwtree::PlantedBug),
    Masstree(hedgerow_masstree::PlantedBug),
    Matryoshka(hedgerow_matryoshka::PlantedBug),
}

/// `masstree/SplitNotCounted`: two crates may have a bug of one name.
impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plant::Vfs(bug) => write!(f, "vfs/{bug:?}"),
            Plant::Log(bug) => write!(f, "log/{bug:?}"),
            Plant::Engine(bug) => write!(f, "engine/{bug:?}"),
            Plant::Bst(bug) => write!(f, "bst/{bug:?}"),
            Plant::Bwtree(bug) => write!(f, "bwtree/{bug:?}"),
            Plant::Masstree(bug) => write!(f, "masstree/{bug:?}"),
            Plant::Matryoshka(bug) => write!(f, "matryoshka/{bug:?}"),
        }
    }
}

impl Plant {
    fn all() -> impl Iterator<Item = Plant> {
        let vfs = hedgerow_vfs::PlantedBug::ALL.iter();
        let log = hedgerow_log::PlantedBug::ALL.iter();
        let engine = hedgerow::PlantedBug::ALL.iter();
        let bst = hedgerow_bst::PlantedBug::ALL.iter();
        let bwtree = hedgerow_bwtree::PlantedBug::ALL.iter();
        let masstree = hedgerow_masstree::PlantedBug::ALL.iter();
        let matryoshka = hedgerow_matryoshka::PlantedBug::ALL.iter();
        vfs.map(|&bug| Plant::Vfs(bug))
            .chain(log.map(|&bug| Plant::Log(bug)))
            .chain(engine.map(|&bug| Plant::Engine(bug)))
            .chain(bst.map(|&bug| Plant::Bst(bug)))
            .chain(bwtree.map(|&bug| Plant::Bwtree(bug)))
            .chain(masstree.map(|&bug| Plant::Masstree(bug)))
            .chain(matryoshka.map(|&bug| Plant::Matryoshka(bug)))
    }

    /// Everything in this process has the bug from now on.
    fn select(self) {
        match self {
            Plant::Vfs(bug) => hedgerow_vfs::plant(Some(bug)),
            Plant::Log(bug) => hedgerow_log::plant(Some(bug)),
            Plant::Engine(bug) => hedgerow::plant(Some(bug)),
            Plant::Bst(bug) => hedgerow_bst::plant(Some(bug)),
            Plant::Bwtree(bug) => hedgerow_bwtree::plant(Some(bug)),
            Plant::Masstree(bug) => hedgerow_masstree::plant(Some(bug)),
            Plant::Matryoshka(bug) => hedgerow_matryoshka::plant(Some(bug)),
        }
    }

    /// The campaign that must turn red.
    fn campaign(self) -> Campaign {
        use hedgerow::PlantedBug::{
            AbsenceNotKept, BatchesNotAwaited, CommitsNotAwaited, GuardsNotAwaited,
            IntentsAfterValidation, ManifestBeforePages, RangesNotValidated, RetryReadsStale,
            RowsBeforeRotation, SnapshotExpiresLate, SnapshotMissesCommits,
            SnapshotSeesLaterCommits, VersionFreedTooEarly,
        };
        use hedgerow_log::PlantedBug::{
            CheckpointChecksumIgnored, FailureForgotten, FullDiskTakenForFailure,
            ManifestAgeIgnored, WriteErrorIgnored, WriteOutLeftOut,
        };
        match self {
            Plant::Vfs(_) => Campaign::CutsOfDisks,
            Plant::Log(WriteOutLeftOut) => Campaign::Kills,
            Plant::Log(FailureForgotten) => Campaign::KillsOnFailingDisks,
            Plant::Log(WriteErrorIgnored | FullDiskTakenForFailure) => Campaign::Faults,
            Plant::Log(CheckpointChecksumIgnored | ManifestAgeIgnored) => Campaign::Rot,
            Plant::Log(_) => Campaign::CutsOfLog,
            Plant::Engine(BatchesNotAwaited | CommitsNotAwaited) => Campaign::RacesOfEngine,
            Plant::Engine(RowsBeforeRotation | ManifestBeforePages) => Campaign::CutsOfMixture,
            Plant::Engine(GuardsNotAwaited) => Campaign::CutsOfTransactions,
            Plant::Engine(
                AbsenceNotKept
                | IntentsAfterValidation
                | RangesNotValidated
                | RetryReadsStale
                | SnapshotExpiresLate
                | SnapshotMissesCommits
                | SnapshotSeesLaterCommits
                | VersionFreedTooEarly,
            ) => Campaign::Transactions,
            Plant::Engine(_) => Campaign::CutsOfEngine,
            Plant::Bst(_) => Campaign::RacesOfBst,
            Plant::Bwtree(_) => Campaign::RacesOfBwtree,
            Plant::Masstree(_) => Campaign::RacesOfMasstree,
            Plant::Matryoshka(_) => Campaign::RacesOfMatryoshka,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Campaign {
    CutsOfLog,
    CutsOfEngine,
    CutsOfMixture,
    CutsOfTransactions,
    RacesOfEngine,
    RacesOfBst,
    RacesOfBwtree,
    RacesOfMasstree,
    RacesOfMatryoshka,
    Transactions,
    Kills,
    KillsOnFailingDisks,
    CutsOfDisks,
    Faults,
    Rot,
}

impl Campaign {
    const ALL: [Campaign; 15] = [
        Campaign::CutsOfLog,
        Campaign::CutsOfEngine,
        Campaign::CutsOfMixture,
        Campaign::CutsOfTransactions,
        Campaign::RacesOfEngine,
        Campaign::RacesOfBst,
        Campaign::RacesOfBwtree,
        Campaign::RacesOfMasstree,
        Campaign::RacesOfMatryoshka,
        Campaign::Transactions,
        Campaign::Kills,
        Campaign::KillsOnFailingDisks,
        Campaign::CutsOfDisks,
        Campaign::Faults,
        Campaign::Rot,
    ];

    fn name(self) -> &'static str {
        match self {
            Campaign::CutsOfLog => "power cuts, log",
            Campaign::CutsOfEngine => "power cuts, engine",
            Campaign::CutsOfMixture => "power cuts, keyspaces of all kinds",
            Campaign::CutsOfTransactions => "power cuts, transactions that meet",
            Campaign::RacesOfEngine => "races, engine",
            Campaign::RacesOfBst => "races, binary search trees",
            Campaign::RacesOfBwtree => "races, Bw-tree",
            Campaign::RacesOfMasstree => "races, tree",
            Campaign::RacesOfMatryoshka => "races, matryoshka",
            Campaign::Transactions => "histories of transactions",
            Campaign::Kills => "kills of servers",
            Campaign::KillsOnFailingDisks => "kills of servers, failing disks",
            Campaign::CutsOfDisks => "cuts of real file systems",
            Campaign::Faults => "file faults and full disks",
            Campaign::Rot => "bit rot and old files",
        }
    }

    /// As long as it takes to see that all is well without a bug. `program` is the binary
    /// `campaign` of this build.
    fn without_bug(self, seed: u64, program: &Path) -> Result<(), String> {
        match self {
            Campaign::CutsOfLog => power_cuts_of_log(seed, 500),
            Campaign::CutsOfEngine => power_cuts_of_engine(seed, 500),
            Campaign::CutsOfMixture => power_cuts_of_mixture(seed, 500),
            Campaign::CutsOfTransactions => power_cuts_of_transactions(seed, 500),
            Campaign::RacesOfEngine => races_of_db(20),
            Campaign::RacesOfBst => race_tests(&bst_races::RACE_TESTS, &[100]),
            Campaign::RacesOfBwtree => race_tests(&bwtree_races::RACE_TESTS, &[100]),
            Campaign::RacesOfMasstree => race_tests(&tree_races::RACE_TESTS, &[100]),
            Campaign::RacesOfMatryoshka => race_tests(&matryoshka_races::RACE_TESTS, &[100]),
            Campaign::Transactions => transactions(seed, 6),
            Campaign::Kills => kills(seed, 6, false, program),
            Campaign::KillsOnFailingDisks => kills(seed, 4, true, program),
            Campaign::CutsOfDisks => cuts_of_disks(seed, 2, program),
            Campaign::Faults => file_faults(seed, 24),
            Campaign::Rot => rot(seed, 200),
        }
    }

    /// As long as a bug may take to show.
    fn with_bug(self, seed: u64, program: &Path) -> Result<(), String> {
        match self {
            Campaign::CutsOfLog => power_cuts_of_log(seed, MAX_IMAGES),
            Campaign::CutsOfEngine => power_cuts_of_engine(seed, MAX_IMAGES),
            Campaign::CutsOfMixture => power_cuts_of_mixture(seed, MAX_IMAGES),
            Campaign::CutsOfTransactions => power_cuts_of_transactions(seed, MAX_IMAGES / 20),
            Campaign::RacesOfEngine => races_of_db(500),
            Campaign::RacesOfBst => race_tests(&bst_races::RACE_TESTS, &[100, 10, 1]),
            Campaign::RacesOfBwtree => race_tests(&bwtree_races::RACE_TESTS, &[100, 10, 1]),
            Campaign::RacesOfMasstree => race_tests(&tree_races::RACE_TESTS, &[100, 10, 1]),
            Campaign::RacesOfMatryoshka => race_tests(&matryoshka_races::RACE_TESTS, &[100, 10, 1]),
            Campaign::Transactions => transactions(seed, 300),
            Campaign::Kills => kills(seed, 100, false, program),
            Campaign::KillsOnFailingDisks => kills(seed, 60, true, program),
            Campaign::CutsOfDisks => cuts_of_disks(seed, 20, program),
            Campaign::Faults => file_faults(seed, 12),
            Campaign::Rot => rot(seed, 2_000),
        }
    }
}

/// The campaign that must turn red, and what it said.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The bug, behind its crate: `masstree/SplitNotCounted`.
    pub bug: String,
    /// The campaign.
    pub campaign: &'static str,
    /// Its first complaint; `None` if the bug went unnoticed.
    pub complaint: Option<String>,
}

/// Runs each campaign without a bug (it must be green), in this process, and then with each of its
/// bugs, each in a process of `program`, the binary `campaign` of this build. Where no real file
/// system can be cut, the bugs that only this finds are left out; it says so.
///
/// # Errors
///
/// What a campaign found without a bug; or a process that could not be started, or ended otherwise
/// than [`search`] does.
pub fn run(seed: u64, program: &Path) -> Result<Vec<Finding>, String> {
    for campaign in Campaign::ALL {
        let complaint = campaign.without_bug(seed, program);
        complaint.map_err(|complaint| format!("{}: {complaint}", campaign.name()))?;
    }
    let no_disks = match LossyDisk::create(FileSystem::Ext4) {
        Err(Error::Unavailable(why)) => Some(why),
        _ => None,
    };
    if let Some(why) = &no_disks {
        println!("skipped: {} ({why})", Campaign::CutsOfDisks.name());
    }
    let is_left_out = |plant: &Plant| matches!(plant, Plant::Vfs(_)) && no_disks.is_some();
    Plant::all()
        .filter(|plant| !is_left_out(plant))
        .map(|plant| finding(plant, seed, program))
        .collect()
}

/// Plants the bug of this name in this process, runs its campaign, and prints what it said on one
/// line for [`run`].
///
/// # Errors
///
/// There is no bug of this name, or this program cannot be started again.
pub fn search(name: &str, seed: u64) -> Result<(), String> {
    let plant = Plant::all().find(|plant| plant.to_string() == name);
    let plant = plant.ok_or_else(|| {
        let all: Vec<String> = Plant::all().map(|plant| plant.to_string()).collect();
        format!("no bug is named {name}; there are {}", all.join(", "))
    })?;
    let program = std::env::current_exe().map_err(|e| format!("where am I: {e}"))?;
    let found = if std::env::var(BUG_OF_SERVERS).as_deref() == Ok(name) {
        plant.select();
        complaint(|| plant.campaign().with_bug(seed, &program))
    } else {
        // Servers that this process started would be without the bug.
        finding(plant, seed, &program)?.complaint
    };
    match found {
        Some(said) => println!("{FOUND}{}", said.replace('\n', " ")),
        None => println!("{UNNOTICED}"),
    }
    Ok(())
}

/// Serves as flags of `hedgerow serve` say, with the bug that [`search`] planted, if it did.
///
/// # Errors
///
/// A flag is missing or makes no sense; the database cannot be opened, or the server not started.
pub fn serve(flags: &[String]) -> Result<(), String> {
    let named = std::env::var(BUG_OF_SERVERS).ok();
    let plant = named.and_then(|name| Plant::all().find(|plant| plant.to_string() == name));
    if let Some(plant) = plant {
        plant.select();
    }
    server::serve(flags)
}

fn complaint(run: impl FnOnce() -> Result<(), String> + UnwindSafe) -> Option<String> {
    match catch_unwind(run) {
        Ok(outcome) => outcome.err(),
        Err(_) => Some("a panic (its message is above)".to_owned()),
    }
}

/// What a process that has the bug says of it, or dies of.
fn finding(plant: Plant, seed: u64, program: &Path) -> Result<Finding, String> {
    let seed = seed.to_string();
    let output = Command::new(program)
        .args(["plant", "--only", &plant.to_string(), "--seed", &seed])
        .env(BUG_OF_SERVERS, plant.to_string())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("starting {}: {e}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let died = output
        .status
        .signal()
        .filter(|signal| OWN_FAULT.contains(signal));
    let complaint = if died.is_some() {
        Some(format!("died: {}", output.status))
    } else if let Some(said) = said.lines().find_map(|line| line.strip_prefix(FOUND)) {
        Some(said.to_owned())
    } else if said.lines().any(|line| line == UNNOTICED) {
        None
    } else {
        return Err(format!("{plant}: {}: {said}", output.status));
    };
    Ok(Finding {
        bug: plant.to_string(),
        campaign: plant.campaign().name(),
        complaint,
    })
}

fn campaign(seed: u64, images: usize) -> PowerCutCampaign {
    PowerCutCampaign {
        images,
        threads: 2,
        cuts_per_life: None,
        seed,
        failures: None,
    }
}

fn power_cuts_of_log(seed: u64, images: usize) -> Result<(), String> {
    powercut::run(&campaign(seed, images), LogSubject::default).map(drop)
}

fn power_cuts_of_engine(seed: u64, images: usize) -> Result<(), String> {
    powercut::run(&campaign(seed, images), DbSubject::default).map(drop)
}

fn power_cuts_of_mixture(seed: u64, images: usize) -> Result<(), String> {
    powercut::run(&campaign(seed, images), DbSubject::mixed).map(drop)
}

fn power_cuts_of_transactions(seed: u64, images: usize) -> Result<(), String> {
    powercut::serial_order::run(images, seed).map(drop)
}

fn transactions(seed: u64, histories: usize) -> Result<(), String> {
    let index = IndexKind::Masstree;
    transaction_histories::time_of_a_snapshot(index)?;
    transaction_histories::second_run(index)?;
    transaction_histories::counters(index, 500)?;
    let campaign = Histories {
        index,
        isolation: Isolation::Serializable,
        histories,
        operations: 4_000,
        seed,
    };
    transaction_histories::run(&campaign).map(drop)
}

fn kills(seed: u64, kills: usize, limits_files: bool, program: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| format!("a temporary directory: {e}"))?;
    let campaign = KillCampaign {
        program: program.to_path_buf(),
        data: dir.path().join("data"),
        kills,
        writers: 3,
        seed,
        index: None,
        mixed: false,
        log_dirs: false,
        under_pressure: false,
        small_disk: None,
        limits_files,
    };
    kill::run(&campaign).map(drop)
}

fn cuts_of_disks(seed: u64, cuts: usize, program: &Path) -> Result<(), String> {
    let campaign = DiskCampaign {
        program: program.to_path_buf(),
        system: FileSystem::Ext4,
        index: IndexKind::Masstree,
        mixed: false,
        cuts,
        writers: 3,
        seed,
    };
    disk_cuts::run(&campaign).map(drop)
}

fn file_faults(seed: u64, stride: usize) -> Result<(), String> {
    let campaign = FaultCampaign {
        seed,
        stride,
        first: 0,
        cuts: 0,
        index: None,
        under_pressure: false,
        mixed: false,
        log_dirs: false,
    };
    faults::run(&campaign).map(drop)
}

fn rot(seed: u64, flips: usize) -> Result<(), String> {
    let campaign = RotCampaign {
        flips,
        seed,
        index: None,
        under_pressure: false,
        mixed: false,
        log_dirs: false,
    };
    rot::run(&campaign).map(drop)
}

fn races_of_db(rounds: usize) -> Result<(), String> {
    db_races::commit_during_a_batch(rounds)?;
    db_races::batch_during_a_commit(rounds)
}

/// Every race test, with its rounds divided by each of `parts` in turn.
fn race_tests(race_tests: &[RaceTest], parts: &[usize]) -> Result<(), String> {
    for part in parts {
        for race_test in race_tests {
            let outcome = (race_test.run)(race_test.rounds.div_ceil(*part));
            outcome.map_err(|complaint| format!("{}: {complaint}", race_test.name))?;
        }
    }
    Ok(())
}
