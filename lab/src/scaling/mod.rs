//! `hedgerow-lab model`: on paper, what Hedgerow on HBase does on up to a thousand servers.
//!
//! Nobody here has a thousand servers. The lab measures on one machine what processors an operation
//! takes of each role, and how long one client waits for it (`scale/hbase`); a model multiplies
//! that, under assumptions that it prints beside the result. So the table is a computation, and no
//! measurement: it says which role needs how many machines, and which limit comes first.
//!
//! * `constants`: what was measured, from a file of results.
//! * `model`: the arithmetic, and its assumptions.
//! * `table`: the result as text.

mod constants;
mod model;
mod table;

use std::path::PathBuf;

use crate::Result;
use constants::Constants;
use model::Assumptions;

/// What to compute.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArguments {
    /// Results of `run scale/hbase`; of several runs the last one counts.
    file: PathBuf,
    /// Only these workloads of YCSB, such as A,C.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Numbers of region servers.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 10, 100, 1000],
        value_parser = clap::value_parser!(u32).range(1..))]
    servers: Vec<u32>,
    #[command(flatten)]
    assumptions: Assumptions,
}

/// Prints a table for each workload, and the assumptions.
///
/// # Errors
///
/// A file without the results of `scale/hbase`, or assumptions that make no sense.
pub fn run(arguments: &ModelArguments) -> Result<()> {
    arguments.assumptions.check()?;
    let mut all = Constants::read(&arguments.file)?;
    if !arguments.workloads.is_empty() {
        let wanted = &arguments.workloads;
        all.retain(|one| {
            wanted
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&one.workload))
        });
    }
    print!("{}", table::assumptions(&arguments.assumptions));
    for constants in &all {
        print!(
            "{}",
            table::of(constants, &arguments.assumptions, &arguments.servers)
        );
    }
    Ok(())
}
