//! One job in a process of its own.
//!
//! A fresh process has fresh memory: no contender finds what an earlier one left warm or
//! fragmented, each pays for its own pages, and one that crashes takes nothing down but itself.

use std::process::Command;

use super::plan::Plan;
use crate::counters;
use crate::experiment::{Answer, Job, Settings, Stage};
use crate::experiments;
use crate::process::{SUBCOMMAND, performed_by};
use crate::registry::Registry;
use crate::{LabError, Result};

/// A job for this point and contender.
pub fn job(plan: &Plan, point: usize, contender: &str, stage: Stage) -> Job {
    Job {
        experiment: plan.about.name.to_owned(),
        contender: contender.to_owned(),
        stage,
        workload: plan.points[point].workload.clone(),
    }
}

/// Starts this program again for one job and waits for its answer.
pub fn ask(
    plan: &Plan,
    point: usize,
    contender: &str,
    stage: Stage,
    settings: &Settings,
) -> Result<Answer> {
    let job = job(plan, point, contender, stage);
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(who) = plan.participant(contender) {
        command.envs(who.environment.iter().map(|(name, value)| (name, value)));
    }
    if settings.counters {
        command.env(counters::VARIABLE, "1");
    }
    if let Some(directory) = &settings.directory {
        // Where temporary files go, in this process and in those that it starts.
        command.env("TMPDIR", directory);
    }
    performed_by(command.arg(SUBCOMMAND), &job)
}

/// What the process does: the job given as an argument.
///
/// # Errors
///
/// Whatever the experiment reports.
pub fn perform(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)
        .map_err(|error| LabError::Usage(format!("not a job of this lab: {error}")))?;
    let experiment = experiments::find(&job.experiment)?;
    let answer = experiment.perform(&Registry::new(), &job)?;
    println!("{}", serde_json::json!(answer));
    Ok(())
}
