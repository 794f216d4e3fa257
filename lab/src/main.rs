//! `hedgerow-lab`: comparisons with peers, interleaved in one run.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use hedgerow_lab::experiments::{recovery, search, server, tree};
use hedgerow_lab::fetch;

/// Hedgerow measured beside its peers.
#[derive(Debug, Parser)]
#[command(name = "hedgerow-lab", version)]
enum Experiment {
    /// Obtain real key sets from Debian's archive.
    Fetch(fetch::FetchArguments),
    /// Trees: insert, get, get_many, update, scan, remove, bytes per key.
    Tree(tree::TreeArguments),
    /// Search within a node: linear, binary, scalar, vectors.
    Search(search::SearchArguments),
    /// Servers on loopback: ours, redis-server and memcached.
    Server(server::ServerArguments),
    /// Reopening after a kill, and loading beside a checkpoint.
    Recovery(recovery::RecoveryArguments),
}

fn main() -> ExitCode {
    let result = match Experiment::parse() {
        Experiment::Fetch(arguments) => fetch::run(&arguments),
        Experiment::Tree(arguments) => tree::run(&arguments),
        Experiment::Search(arguments) => search::run(&arguments),
        Experiment::Server(arguments) => server::run(&arguments),
        Experiment::Recovery(arguments) => recovery::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hedgerow-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
