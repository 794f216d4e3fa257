//! `hedgerow-lab`: comparisons with peers, interleaved in one run.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hedgerow_lab::{LabError, advise, bare_server, fetch, layout, list, readme, runner, scaling};

/// What `--placement system` measures.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static STANDARD: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What `--placement system` measures.
#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static STANDARD: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hedgerow measured beside its peers.
#[derive(Debug, Parser)]
#[command(name = "hedgerow-lab", version)]
enum Command {
    /// Who can be measured, and the experiments with their sources' claims.
    List,
    /// Run experiments and report ratios to each one's baseline.
    Run(runner::RunArguments),
    /// Recommend a map for your own keys and mix of operations.
    Advise(advise::AdviseArguments),
    /// Make Markdown tables, plots and one page from files of results.
    Report {
        /// What `run --json` wrote; several files are one report.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The folder for report.md, report.html and an .svg for each plot.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Make the README's tables from results.
    Readme(readme::ReadmeArguments),
    /// Compute what Hedgerow on HBase does on up to a thousand servers, from what was measured on
    /// one machine.
    Model(scaling::ModelArguments),
    /// Show how the nodes of a tree lie in memory.
    Layout(layout::LayoutArguments),
    /// Obtain real key sets from Debian's archive.
    Fetch(fetch::FetchArguments),
    /// Do one round of advise (used internally).
    #[command(hide = true)]
    AdviseRound {
        /// The job as JSON.
        job: String,
    },
    /// Do one job of a run (used internally).
    #[command(hide = true)]
    Perform {
        /// The job as JSON.
        job: String,
    },
    /// Serve as little as a server can (used internally).
    #[command(hide = true)]
    BareServer {
        /// Where to listen.
        address: SocketAddr,
    },
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::List => {
            print!("{}", list::text());
            Ok(())
        }
        Command::Run(arguments) => runner::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Report { files, out } => hedgerow_lab_report::write_report(&files, &out)
            .map(|written| println!("{}", written[0].display()))
            .map_err(LabError::from_display),
        Command::Readme(arguments) => readme::run(&arguments),
        Command::Model(arguments) => scaling::run(&arguments),
        Command::Layout(arguments) => layout::run(&arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::AdviseRound { job } => advise::perform(&job),
        Command::Perform { job } => runner::perform(&job),
        Command::BareServer { address } => bare_server::serve(address),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hedgerow-lab: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
