//! Where results go: the terminal, and a file of JSON lines if one was named.
//!
//! Each answer is written to the file at once, so that a run that is cut keeps what it has. When
//! an experiment is over its figures, which hold all rounds, take the place of these lines.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hedgerow_lab_report::{Cause, Participant, Record, Run, SCHEMA, Skipped};

use super::arguments::RunArguments;
use super::collect::Collected;
use super::plan::Plan;
use super::terminal;
use crate::{LabError, Result};
use crate::{counters, experiments, machine};

/// The terminal and the file of a run.
pub struct Output {
    file: Option<File>,
    started: Instant,
    /// Where the lines of the experiment that is under way begin in the file.
    begun_at: Option<u64>,
    /// Counters that were asked for and that this machine lacks, with the reasons.
    missing_counters: Vec<(&'static str, String)>,
}

impl Output {
    /// Opens the file and says in it what begins, and by which command.
    pub fn open(arguments: &RunArguments, command: String, plans: &[Plan]) -> Result<Self> {
        let file = arguments.json.as_deref().map(append_alone).transpose()?;
        let mut output = Self {
            file,
            started: Instant::now(),
            begun_at: None,
            missing_counters: match arguments.counters {
                true => counters::missing(),
                false => Vec::new(),
            },
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        output.write(&[Record::Run(Run {
            schema: SCHEMA,
            command,
            started: since_1970.map_or(0, |time| time.as_secs()),
            scale: arguments.scale.to_string(),
            machine: machine::describe(),
            contenders: participants(plans),
        })])?;
        Ok(output)
    }

    /// What is left of a budget of seconds for the whole run.
    pub fn time_left(&self, budget: Option<u64>) -> Option<Duration> {
        let budget = Duration::from_secs(budget?);
        Some(budget.saturating_sub(self.started.elapsed()))
    }

    /// Says that an experiment begins.
    pub fn begin(&mut self, plan: &Plan) -> Result<()> {
        self.write(&[Record::Experiment(experiments::record(&plan.about))])?;
        // A pipe has no length: there the lines of the rounds stay, and readers know what counts.
        let length = self.file.as_ref().and_then(|file| file.metadata().ok());
        self.begun_at = length
            .filter(std::fs::Metadata::is_file)
            .map(|data| data.len());
        Ok(())
    }

    /// Keeps a contender's answer.
    pub fn round(&mut self, answer: &[Record]) -> Result<()> {
        self.write(answer)
    }

    /// Shows and writes what an experiment has come to.
    pub fn end(&mut self, plan: &Plan, collected: &Collected<'_>) -> Result<()> {
        let skipped = plan.skipped.iter().cloned();
        let skipped = skipped.chain(collected.skipped());
        let missing = self.missing_counters.iter().map(|(counter, why)| Skipped {
            experiment: plan.about.name.to_owned(),
            contender: counters::NAME.to_owned(),
            why: format!("{counter}: not available here: {why}"),
            cause: Some(Cause::Missing),
        });
        let skipped: Vec<Skipped> = skipped.chain(missing).collect();
        let figures = collected.figures();
        print!("{}", terminal::render(plan, collected, &figures, &skipped));
        if let (Some(file), Some(length)) = (&self.file, self.begun_at.take()) {
            file.set_len(length)?;
        }
        let skipped = skipped.into_iter().map(Record::Skipped);
        let records = skipped.chain(figures.into_iter().map(Record::Figure));
        let layouts = collected.layouts().iter().cloned().map(Record::Layout);
        self.write(&records.chain(layouts).collect::<Vec<_>>())
    }

    /// Lines in one piece, so that a kill leaves whole ones.
    fn write(&mut self, records: &[Record]) -> Result<()> {
        if let Some(file) = &mut self.file {
            let mut lines = String::new();
            for record in records {
                lines += &serde_json::to_string(record).map_err(LabError::from_display)?;
                lines.push('\n');
            }
            file.write_all(lines.as_bytes())?;
        }
        Ok(())
    }
}

/// Opens a file of results at its end, for this process alone: where an experiment ends its figures
/// take the place of its rounds, and another run's lines among them would go as well.
pub fn append_alone(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(|error| cannot_write(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LabError::Usage(format!(
            "another run writes to {}: name another file with --json",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => match fs::metadata(path) {
            // A pipe has nothing that could be cut off.
            Ok(data) if !data.is_file() => Ok(file),
            _ => Err(cannot_write(path, &error)),
        },
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> LabError {
    LabError::Usage(format!("cannot write {}: {error}", path.display()))
}

/// Everyone who takes part in any of the plans, once.
fn participants(plans: &[Plan]) -> Vec<Participant> {
    let mut all: Vec<Participant> = Vec::new();
    for entry in plans.iter().flat_map(Plan::taking_part) {
        if all.iter().all(|known| known.name != entry.name) {
            all.push(Participant {
                name: entry.name.to_owned(),
                version: entry.version.clone(),
                origin: entry.origin.to_owned(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_do_not_write_to_one_file() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("results.jsonl");
        let first = append_alone(&path).expect("opened");
        let error = append_alone(&path).expect_err("another run has it");
        assert!(error.to_string().contains("--json"), "{error}");
        drop(first);
        // A process that another test starts meanwhile has the file open until it runs its program.
        let deadline = Instant::now() + Duration::from_secs(60);
        while append_alone(&path).is_err() {
            assert!(Instant::now() < deadline, "nobody writes to it any more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
