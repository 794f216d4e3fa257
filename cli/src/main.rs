//! The `hedgerow` command: a server, one-off work on a closed database, and care for it.
//!
//! This crate is thin: it turns words into calls of the engine and the server, and their results
//! into text or JSON. Exit codes: 0 done, 1 failed (one line on standard error says why and what
//! to do), 2 the words made no sense.

#![forbid(unsafe_code)]

mod address;
mod arguments;
mod bench;
mod client;
mod copy;
mod data;
mod dump;
mod dump_file;
mod error;
mod examples;
mod keyspaces;
mod lines;
mod load;
mod logging;
mod maintenance;
mod output;
mod readable;
mod rows;
mod serve;
mod serve_arguments;
mod settings;
mod size;
mod stop_signals;
mod text;
mod usage;

use std::process::ExitCode;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = usage::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error::Error::Reported) => ExitCode::FAILURE,
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

fn run(arguments: Arguments) -> error::Result<()> {
    let out = output::Output {
        json: arguments.json,
    };
    match arguments.command {
        Command::Serve(serve) => serve::run(*serve, &out),
        Command::Cli(cli) => client::run(*cli, &out),
        Command::Get(get) => data::get(get, &out),
        Command::Put(put) => data::put(put, &out),
        Command::Delete(delete) => data::delete(delete, &out),
        Command::Scan(scan) => data::scan(scan, &out),
        Command::Count(count) => data::count(count, &out),
        Command::Load(load) => load::load(load, &out),
        Command::Copy(copy) => copy::run(&copy, &out),
        Command::Dump(dump) => dump::dump(dump, &out),
        Command::Keyspace(keyspace) => keyspaces::run(keyspace, &out),
        Command::Stats(stats) => maintenance::stats(stats, &out),
        Command::Check(check) => maintenance::check(check, &out),
        Command::Checkpoint(checkpoint) => maintenance::checkpoint(checkpoint, &out),
        Command::Backup(backup) => maintenance::backup(backup, &out),
        Command::Restore(restore) => maintenance::restore(restore, &out),
        Command::Bench(bench) => bench::run(bench, &out),
        Command::Completions { shell } => maintenance::completions(shell),
        Command::Man { dir } => maintenance::man(dir),
    }
}
