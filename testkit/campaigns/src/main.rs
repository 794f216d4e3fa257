//! The long campaigns: power cuts, kills, cuts of real disks, file faults, bit rot, churn, the
//! workloads of a report, and planted bugs.
//!
//! ```text
//! cargo run --release -p hedgerow-campaigns -- power-cut --images 100000
//! cargo build --release -p hedgerow-cli && cargo run --release -p hedgerow-campaigns -- kill --kills 500
//! cargo run --release -p hedgerow-campaigns -- kill --kills 100 --failing-disk
//! cargo build --release -p hedgerow-cli && cargo run --release -p hedgerow-campaigns -- disk --cuts 100
//! cargo run --release -p hedgerow-campaigns -- fault
//! cargo run --release -p hedgerow-campaigns -- rot --flips 20000
//! cargo run --release -p hedgerow-campaigns -- power-cut --index btree
//! cargo run --release -p hedgerow-campaigns -- power-cut --transactions
//! cargo run --release -p hedgerow-campaigns -- churn --operations 100000000
//! cargo run --release -p hedgerow-campaigns -- report --keys 16777216
//! cargo run --release -p hedgerow-campaigns -- transactions --histories 1000
//! cargo run --release -p hedgerow-campaigns --features planted-bugs -- plant
//! ```
//!
//! Each prints its seed first and its figures last, and exits with 1 at the first thing that is
//! wrong.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use hedgerow::{IndexKind, Isolation};
use hedgerow_lossy_disk::FileSystem;
use hedgerow_matryoshka::{
    Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast, FlatSuperpage,
    Matryoshka, Plain, Strategy,
};
use hedgerow_testkit::databases::ALL_KINDS;
use hedgerow_testkit::disk_cuts::{self, DiskCampaign, Outcome};
use hedgerow_testkit::faults::{self, FaultCampaign};
use hedgerow_testkit::int_churn::{ChurnCampaign, churn};
use hedgerow_testkit::int_report::{self, ReportWorkload};
use hedgerow_testkit::kill::trouble::{SMALL_DISK_BYTES, SmallDisk};
use hedgerow_testkit::kill::{self, KillCampaign};
use hedgerow_testkit::powercut::{self, DbSubject, LogSubject, PowerCutCampaign, serial_order};
use hedgerow_testkit::rot::{self, RotCampaign};
use hedgerow_testkit::transaction_histories::{self, Histories};

#[derive(Parser)]
#[command(about = "Crash, kill and corrupt Hedgerow databases on purpose, and judge the outcome")]
struct Arguments {
    /// Seed of all random choices; random if not given.
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// The index of the database, such as btree; not for churn [default: any of those in memory].
    #[arg(long, global = true, value_parser = index)]
    index: Option<IndexKind>,
    /// Keyspaces of all kinds of indexes beside each other; for power-cut, kill, disk, fault and
    /// rot.
    #[arg(long, global = true, conflicts_with = "index")]
    mixed: bool,
    /// Logs and checkpoints in several directories; for power-cut, kill, fault and rot.
    #[arg(long, global = true)]
    log_dirs: bool,
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Cut the power between file operations and recover the images.
    PowerCut(PowerCutFlags),
    /// Kill `hedgerow serve` while clients write, and check what survived.
    Kill(KillFlags),
    /// Cut a real file system under `hedgerow serve`, and check what survived (needs root).
    Disk(DiskFlags),
    /// Let every file call of a scripted workload fail, and fill the disk at every step.
    Fault {
        /// Run every n-th case only.
        #[arg(long, default_value_t = 1)]
        stride: usize,
        /// Which of every n cases: to divide the campaign.
        #[arg(long, default_value_t = 0)]
        first: usize,
        /// Power cuts after each case.
        #[arg(long, default_value_t = 3)]
        cuts: usize,
    },
    /// Flip bits of databases at rest.
    Rot {
        /// Bits to flip.
        #[arg(long, default_value_t = 20_000)]
        flips: usize,
    },
    /// Fill and empty the trees of integers, again and again, against an array.
    Churn {
        /// Changes of each tree, half with scattered keys, half with dense ones.
        #[arg(long, default_value_t = 100_000_000)]
        operations: u64,
        /// Different keys.
        #[arg(long, default_value_t = 16_777_216)]
        keys: u32,
        /// Only the strategy of this name, or those whose names contain it.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// The Matryoshka report's seven workloads on each of its variants and ours, then everything
    /// deleted.
    Report {
        /// Keys.
        #[arg(long, default_value_t = 16_777_216)]
        keys: u32,
        /// Only the strategy of this name, or those whose names contain it.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Record histories of transactions over each index, at each isolation, and check that each has
    /// a serial order, or shows what its isolation allows.
    Transactions {
        /// Histories for each index and isolation.
        #[arg(long, default_value_t = 1_000)]
        histories: usize,
        /// Operations of each, about.
        #[arg(long, default_value_t = 10_000)]
        operations: usize,
    },
    /// Plant bugs, each in a process of its own, and show which campaign finds each.
    #[cfg(feature = "planted-bugs")]
    Plant {
        /// Only the bug of this name, such as masstree/SplitNotCounted, in this process.
        #[arg(long)]
        only: Option<String>,
    },
}

#[derive(clap::Args)]
struct PowerCutFlags {
    /// Images to recover.
    #[arg(long, default_value_t = 100_000)]
    images: usize,
    /// Chains of process runs at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The log alone instead of the whole engine.
    #[arg(long)]
    log_only: bool,
    /// Transactions that meet in few keys, in Masstrees: what survives is a prefix of their order.
    #[arg(long, conflicts_with_all = ["log_only", "threads", "cuts_per_life", "failures"])]
    transactions: bool,
    /// Cut so many of a process run's boundaries at random [default: all; 60 with B-trees, whose
    /// process runs have thousands].
    #[arg(long)]
    cuts_per_life: Option<usize>,
    /// Where to keep an image that was recovered wrongly.
    #[arg(long, default_value = "target/power-cut-failure")]
    failures: PathBuf,
}

#[derive(clap::Args)]
struct KillFlags {
    /// Processes to kill.
    #[arg(long, default_value_t = 500)]
    kills: usize,
    /// Writing connections.
    #[arg(long, default_value_t = 3)]
    writers: usize,
    /// Fill the disk, or have writes fail, in every other process run. As root: a small file
    /// system is mounted for it.
    #[arg(long)]
    failing_disk: bool,
    /// The binary; default: `hedgerow` beside this program.
    #[arg(long)]
    program: Option<PathBuf>,
}

#[derive(clap::Args)]
struct DiskFlags {
    /// Disks to cut, for each file system and index.
    #[arg(long, default_value_t = 100)]
    cuts: usize,
    /// Writing connections.
    #[arg(long, default_value_t = 3)]
    writers: usize,
    /// ext4 or xfs [default: both].
    #[arg(long, value_parser = file_system)]
    file_system: Option<FileSystem>,
    /// The binary; default: `hedgerow` beside this program.
    #[arg(long)]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    #[cfg(feature = "planted-bugs")]
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let start = Instant::now();
    let kind = Kind {
        index: arguments.index,
        mixed: arguments.mixed,
        log_dirs: arguments.log_dirs,
    };
    let outcome = run(arguments.campaign, seed, kind);
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(figures) => {
            println!("{figures}\ngreen after {seconds:.1} s");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("red after {seconds:.1} s: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Is the server that a campaign with a planted bug kills. Its flags are those of `hedgerow serve`.
#[cfg(feature = "planted-bugs")]
fn serve() -> ExitCode {
    let flags: Vec<String> = std::env::args().skip(2).collect();
    match hedgerow_testkit::plants::serve(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn index(name: &str) -> Result<IndexKind, String> {
    IndexKind::from_name(name).ok_or_else(|| format!("there is no index {name:?}"))
}

fn file_system(name: &str) -> Result<FileSystem, String> {
    FileSystem::from_name(name).ok_or_else(|| format!("{name:?} is neither ext4 nor xfs"))
}

/// What databases a campaign makes.
#[derive(Clone, Copy)]
struct Kind {
    index: Option<IndexKind>,
    mixed: bool,
    log_dirs: bool,
}

fn run(campaign: Campaign, seed: u64, kind: Kind) -> Result<String, String> {
    let Kind {
        index,
        mixed,
        log_dirs,
    } = kind;
    let under_pressure = index == Some(IndexKind::BTree);
    match campaign {
        Campaign::PowerCut(flags) => cut_power(flags, seed, kind),
        Campaign::Kill(flags) => kill_servers(flags, seed, kind),
        Campaign::Disk(flags) => cut_disks(flags, seed, index, mixed),
        Campaign::Fault {
            stride,
            first,
            cuts,
        } => {
            let campaign = FaultCampaign {
                seed,
                stride,
                first,
                cuts,
                index,
                under_pressure,
                mixed,
                log_dirs,
            };
            Ok(format!("{:#?}", faults::run(&campaign)?))
        }
        Campaign::Rot { flips } => {
            let campaign = RotCampaign {
                flips,
                seed,
                index,
                under_pressure,
                mixed,
                log_dirs,
            };
            Ok(format!("{:#?}", rot::run(&campaign)?))
        }
        Campaign::Churn {
            operations,
            keys,
            only,
        } => {
            let campaign = ChurnCampaign {
                operations: operations / 2,
                keys,
                verify_every: (operations / 64).max(1),
                seed,
            };
            churn_all(&campaign, &only)
        }
        Campaign::Report { keys, only } => report_all(keys, seed, &only),
        Campaign::Transactions {
            histories,
            operations,
        } => check_transactions(histories, operations, seed, index),
        #[cfg(feature = "planted-bugs")]
        Campaign::Plant { only: None } => plant(seed),
        #[cfg(feature = "planted-bugs")]
        Campaign::Plant { only: Some(bug) } => {
            hedgerow_testkit::plants::search(&bug, seed).map(|()| bug)
        }
    }
}

fn check_transactions(
    histories: usize,
    operations: usize,
    seed: u64,
    index: Option<IndexKind>,
) -> Result<String, String> {
    let all = ALL_KINDS.into_iter().chain([IndexKind::Bst]);
    let mut said = String::new();
    for index in all.filter(|kind| index.is_none_or(|index| index == *kind)) {
        for isolation in [Isolation::Serializable, Isolation::Snapshot] {
            let ran = transaction_histories::run(&Histories {
                index,
                isolation,
                histories,
                operations,
                seed,
            })?;
            said += &format!("{index:?}, {isolation:?}: {ran:?}\n");
        }
    }
    Ok(said)
}

fn cut_power(flags: PowerCutFlags, seed: u64, kind: Kind) -> Result<String, String> {
    let Kind {
        index,
        mixed,
        log_dirs,
    } = kind;
    let PowerCutFlags {
        images,
        threads,
        log_only,
        transactions,
        cuts_per_life,
        failures,
    } = flags;
    if transactions {
        if index.is_some() || mixed || log_dirs {
            let said = "--transactions has one kind of database: leave out --index, --mixed and \
                        --log-dirs";
            return Err(said.to_owned());
        }
        return Ok(format!("{:#?}", serial_order::run(images, seed)?));
    }
    let under_pressure = index == Some(IndexKind::BTree) && !log_only;
    let campaign = PowerCutCampaign {
        images,
        threads,
        cuts_per_life: cuts_per_life.or(under_pressure.then_some(60)),
        seed,
        failures: Some(failures),
    };
    let placed = |subject: DbSubject| match log_dirs {
        true => subject.in_directories(),
        false => subject,
    };
    let report = if log_only {
        powercut::run(&campaign, LogSubject::default)
    } else if mixed {
        powercut::run(&campaign, || placed(DbSubject::mixed()))
    } else if under_pressure {
        // A quarter of the images are of process runs that abandon checkpoints, which those whose
        // memory is scarce cannot.
        let abandoning = PowerCutCampaign {
            images: images / 4,
            cuts_per_life,
            ..campaign.clone()
        };
        let report = powercut::run(&abandoning, || {
            placed(DbSubject::of_index(IndexKind::BTree))
        })?;
        println!("{report:#?}");
        let under_pressure = PowerCutCampaign {
            images: images - images / 4,
            ..campaign
        };
        powercut::run(&under_pressure, || placed(DbSubject::under_pressure()))
    } else {
        powercut::run(&campaign, || {
            placed(index.map_or_else(DbSubject::default, DbSubject::of_index))
        })
    };
    Ok(format!("{:#?}", report?))
}

fn kill_servers(flags: KillFlags, seed: u64, kind: Kind) -> Result<String, String> {
    let Kind {
        index,
        mixed,
        log_dirs,
    } = kind;
    let KillFlags {
        kills,
        writers,
        program,
        failing_disk,
    } = flags;
    let program = program.map_or_else(beside_this, Ok)?;
    let dir = tempfile::tempdir().map_err(|e| format!("a temporary directory: {e}"))?;
    let data = dir.path().join("data");
    let disk = failing_disk.then(|| SmallDisk::mount(dir.path(), SMALL_DISK_BYTES));
    let disk = disk.and_then(|disk| {
        let no_mount = |e| println!("skipped: full disks, since no small one can be mounted: {e}");
        disk.map_err(no_mount).ok()
    });
    let campaign = KillCampaign {
        program,
        data,
        kills,
        writers,
        seed,
        index,
        mixed,
        log_dirs,
        under_pressure: index == Some(IndexKind::BTree) && !failing_disk,
        small_disk: disk.as_ref().map(|_| dir.path().to_path_buf()),
        limits_files: failing_disk,
    };
    Ok(format!("{:#?}", kill::run(&campaign)?))
}

/// Cuts disks of each file system and under each index, or of the one that is named.
fn cut_disks(
    flags: DiskFlags,
    seed: u64,
    index: Option<IndexKind>,
    mixed: bool,
) -> Result<String, String> {
    let program = flags.program.map_or_else(beside_this, Ok)?;
    let systems = flags
        .file_system
        .map_or(FileSystem::ALL.to_vec(), |system| vec![system]);
    let indexes = match index {
        Some(index) => vec![index],
        None if mixed => vec![IndexKind::BwTree],
        None => vec![IndexKind::Masstree, IndexKind::BTree],
    };
    let mut figures = Vec::new();
    for &system in &systems {
        for &index in &indexes {
            let campaign = DiskCampaign {
                program: program.clone(),
                system,
                index,
                mixed,
                cuts: flags.cuts,
                writers: flags.writers,
                seed,
            };
            let said = match disk_cuts::run(&campaign)? {
                Outcome::Done(report) => format!("{report:?}"),
                Outcome::Skipped(why) => format!("skipped: {why}"),
            };
            let kind = if mixed { "all kinds" } else { index.name() };
            figures.push(format!("{}, {kind}: {said}", system.name()));
        }
    }
    Ok(figures.join("\n"))
}

/// Whether `--only` asks for this strategy: by its whole name where one has it, else by a part.
fn is_wanted(name: &str, only: &str, exact: bool) -> bool {
    if exact {
        name == only
    } else {
        name.contains(only)
    }
}

/// Churns a tree of each strategy.
fn churn_all(campaign: &ChurnCampaign, only: &str) -> Result<String, String> {
    type Run = fn(&ChurnCampaign, bool) -> Result<String, String>;
    fn run<S: Strategy>(campaign: &ChurnCampaign, scattered: bool) -> Result<String, String> {
        let mut tree: Matryoshka<u64, u64, S> = Matryoshka::new();
        churn(&mut tree, campaign, scattered).map(|report| format!("{report:?}"))
    }
    let runs: [(&str, Run); 8] = [
        ("plain", run::<Plain>),
        ("fence", run::<Fence>),
        (
            "fence without mass prefetch",
            run::<FenceWithoutMassPrefetch>,
        ),
        ("eytzinger", run::<Eytzinger>),
        ("flat", run::<Flat>),
        ("flat fast", run::<FlatFast>),
        ("fence superpage", run::<FenceSuperpage>),
        ("flat superpage", run::<FlatSuperpage>),
    ];
    let exact = runs.iter().any(|run| run.0 == only);
    for (name, run) in runs.iter().filter(|run| is_wanted(run.0, only, exact)) {
        for scattered in [true, false] {
            let keys = if scattered { "scattered" } else { "dense" };
            let said = run(campaign, scattered);
            println!(
                "{name}, {keys}: {}",
                said.map_err(|e| format!("{name}, {keys}: {e}"))?
            );
        }
    }
    Ok("every tree answered as the array does".to_owned())
}

/// The report's workloads on a set of 32-bit keys, as there, and on a map of words.
fn report_all(keys: u32, seed: u64, only: &str) -> Result<String, String> {
    type Run = fn(ReportWorkload, u32, u64) -> Result<(), String>;
    fn set<S: Strategy>(workload: ReportWorkload, keys: u32, seed: u64) -> Result<(), String> {
        int_report::run(&mut Matryoshka::<i32, (), S>::new(), workload, keys, seed)
    }
    fn map<S: Strategy>(workload: ReportWorkload, keys: u32, seed: u64) -> Result<(), String> {
        int_report::run(&mut Matryoshka::<u64, u64, S>::new(), workload, keys, seed)
    }
    let runs: [(&str, Run, Run); 8] = [
        ("plain", set::<Plain>, map::<Plain>),
        ("fence", set::<Fence>, map::<Fence>),
        (
            "fence without mass prefetch",
            set::<FenceWithoutMassPrefetch>,
            map::<FenceWithoutMassPrefetch>,
        ),
        ("eytzinger", set::<Eytzinger>, map::<Eytzinger>),
        ("flat", set::<Flat>, map::<Flat>),
        ("flat fast", set::<FlatFast>, map::<FlatFast>),
        (
            "fence superpage",
            set::<FenceSuperpage>,
            map::<FenceSuperpage>,
        ),
        ("flat superpage", set::<FlatSuperpage>, map::<FlatSuperpage>),
    ];
    let exact = runs.iter().any(|run| run.0 == only);
    for (name, set, map) in runs.iter().filter(|run| is_wanted(run.0, only, exact)) {
        for (kind, run) in [("i32 set", set), ("u64 map", map)] {
            for workload in ReportWorkload::ALL {
                let (what, start) = (workload.name(), Instant::now());
                run(workload, keys, seed).map_err(|e| format!("{name}, {kind}, {what}: {e}"))?;
                let seconds = start.elapsed().as_secs_f64();
                println!("{name}, {kind}, {what}: ended empty after {seconds:.1} s");
            }
        }
    }
    Ok("every workload ended with an empty, sound tree".to_owned())
}

fn beside_this() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|e| format!("where am I: {e}"))?;
    let program = this.with_file_name("hedgerow");
    if program.exists() {
        return Ok(program);
    }
    Err(format!(
        "{} is missing: build it (cargo build --release -p hedgerow-cli) or name it with --program",
        program.display()
    ))
}

#[cfg(feature = "planted-bugs")]
fn plant(seed: u64) -> Result<String, String> {
    let this = std::env::current_exe().map_err(|e| format!("where am I: {e}"))?;
    let mut unnoticed = Vec::new();
    for finding in hedgerow_testkit::plants::run(seed, &this)? {
        let said = finding
            .complaint
            .as_deref()
            .map(|said| said.chars().take(120).collect());
        let said: String = said.unwrap_or_else(|| "UNNOTICED".to_owned());
        println!("{} | {} | {said}", finding.bug, finding.campaign);
        if finding.complaint.is_none() {
            unnoticed.push(finding.bug);
        }
    }
    if unnoticed.is_empty() {
        return Ok("every planted bug was found".to_owned());
    }
    Err(format!("unnoticed: {unnoticed:?}"))
}
