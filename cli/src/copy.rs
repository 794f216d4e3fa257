//! `hedgerow copy`: the rows of one place into another, in order: a directory, or a backend that a
//! URL names.
//!
//! Rows go page by page. With `--resume FILE` the file says behind which key of which keyspace the
//! copy has arrived; a copy that ended early goes on there. A row is written as it is in the
//! source, whatever the target has under its key, so a page that is written twice does no harm.
//! With `--exclusive` the target's backend may send many rows in a call, unchecked.

mod copied_row;
mod place;
mod progress;
mod verify;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hedgerow::backend::{Backend, BackendKeyspace, Put};
use hedgerow::{Action, Commit, Direction, WriteOptions};
use indicatif::ProgressBar;
use serde_json::json;

use crate::arguments::Copy;
use crate::error::{Error, Result};
use crate::output::{Output, spinner};
use copied_row::{CopiedRow, page};
use place::{Access, Place, Use};
use progress::Progress;

/// Writes rows; the last of the commits.
fn write_page<K: BackendKeyspace>(keyspace: &K, rows: &[CopiedRow]) -> Result<Option<Commit>> {
    let options = WriteOptions::default();
    let mut last = None;
    let puts: Vec<Put<'_>> = rows.iter().filter_map(CopiedRow::as_put).collect();
    let mut outcome = Ok(());
    keyspace.put_many(&puts, &options, |_, done| {
        if outcome.is_ok() {
            outcome = done.map(|commit| last = last.max(Some(commit)));
        }
    });
    outcome?;
    for row in rows.iter().filter(|row| row.as_put().is_none()) {
        let ((), commit) = keyspace.update(&row.key, &options, |_, new| {
            row.write(new);
            Action::Put(())
        })?;
        last = last.max(commit);
    }
    Ok(last)
}

/// Writes rows, as the only writer of the keyspace; the last of the commits.
fn load_page<K: BackendKeyspace>(keyspace: &K, rows: &[CopiedRow]) -> Result<Option<Commit>> {
    let keys: Vec<&[u8]> = rows.iter().map(|row| row.key.as_slice()).collect();
    let options = WriteOptions::default();
    Ok(keyspace.load(&keys, &options, |i, new| rows[i].write(new))?)
}

/// Returns once a commit survives a power cut.
fn await_durable<B: Backend>(db: &B, commit: Option<Commit>) -> Result<()> {
    let Some(commit) = commit else {
        return Ok(());
    };
    db.request_durable(&commit);
    while !db.poll_durable(&commit)? {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Keeps a copy from being faster than it may.
struct Throttle {
    rows_per_second: Option<u64>,
    began: Instant,
    rows: u64,
}

impl Throttle {
    fn pass(&mut self, rows: u64) {
        self.rows += rows;
        let Some(most) = self.rows_per_second else {
            return;
        };
        let due = Duration::from_secs_f64(self.rows as f64 / most as f64);
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }
}

/// What was copied and compared.
#[derive(Default)]
struct Report {
    keyspaces: u64,
    copied: u64,
    verified: u64,
}

struct Copier<'a, F, T> {
    copy: &'a Copy,
    from: &'a F,
    to: &'a T,
    progress: Progress,
    throttle: Throttle,
    bar: ProgressBar,
    report: Report,
}

impl<F: Backend, T: Backend> Copier<'_, F, T> {
    fn names(&self) -> Result<Vec<String>> {
        let existing = self.from.keyspaces();
        if self.copy.keyspace.is_empty() {
            return Ok(existing);
        }
        let missing = self
            .copy
            .keyspace
            .iter()
            .find(|name| !existing.contains(name));
        match missing {
            None => Ok(self.copy.keyspace.clone()),
            Some(name) => Err(Error::Failed(format!(
                "there is no keyspace {name:?} in {}; it has {}",
                self.copy.from,
                existing.join(", ")
            ))),
        }
    }

    fn run(&mut self) -> Result<()> {
        for name in self.names()? {
            let (from, to) = (self.from.keyspace(&name)?, self.to.keyspace(&name)?);
            self.report.keyspaces += 1;
            if !self.copy.verify_only {
                self.keyspace(&name, &from, &to)?;
            }
            if self.copy.verify || self.copy.verify_only {
                self.report.verified += verify::compare(&name, &from, &to, &self.bar)?;
            }
        }
        match self.copy.verify || self.copy.verify_only {
            true => self.find_others(),
            false => Ok(()),
        }
    }

    /// Fails if the target has rows in a keyspace that the source lacks, and all are compared.
    fn find_others(&self) -> Result<()> {
        if !self.copy.keyspace.is_empty() {
            return Ok(());
        }
        let existing = self.from.keyspaces();
        for name in self.to.keyspaces() {
            let mut is_empty = true;
            let visit = |_: &[u8]| {
                is_empty = false;
                ControlFlow::Break(())
            };
            if !existing.contains(&name) {
                let keyspace = self.to.keyspace(&name)?;
                keyspace.scan_keys(.., Direction::Forward, visit)?;
            }
            if !is_empty {
                return Err(Error::Failed(format!(
                    "the keyspace {name:?} is in the target alone, and has rows; --keyspace says \
                     what to compare"
                )));
            }
        }
        Ok(())
    }

    fn keyspace(&mut self, name: &str, from: &F::Keyspace, to: &T::Keyspace) -> Result<()> {
        let Some(mut after) = self.progress.begin(name) else {
            // It was copied before.
            return Ok(());
        };
        loop {
            let rows = page(from, after.as_deref())?;
            let Some(last) = rows.last() else {
                return self.progress.end(name);
            };
            let written = match self.copy.exclusive {
                true => load_page(to, &rows),
                false => write_page(to, &rows),
            };
            let written = written.and_then(|last| match self.copy.resume {
                // The file must not say more than the target keeps.
                Some(_) => await_durable(self.to, last),
                None => Ok(()),
            });
            written.map_err(|error| self.stopped(name, &error))?;
            let count = rows.len() as u64;
            self.report.copied += count;
            self.bar.inc(count);
            self.progress.arrived(name, &last.key)?;
            after = Some(last.key.clone());
            self.throttle.pass(count);
        }
    }

    fn stopped(&self, name: &str, error: &Error) -> Error {
        let again = match &self.copy.resume {
            Some(_) => "run the same command again, which goes on there",
            None => "run it again; with --resume FILE it would go on there",
        };
        Error::Failed(format!(
            "after {} rows, in keyspace {name:?}: {error}; {again}",
            self.report.copied
        ))
    }
}

/// The target is to be opened, the source is.
struct OpenTarget<'a, F> {
    copy: &'a Copy,
    from: &'a F,
    out: &'a Output,
}

impl<F: Backend> Use for OpenTarget<'_, F> {
    fn with<T: Backend>(self, to: &T) -> Result<()> {
        let mut copier = Copier {
            copy: self.copy,
            from: self.from,
            to,
            progress: Progress::open(self.copy)?,
            throttle: Throttle {
                rows_per_second: self.copy.rows_per_second,
                began: Instant::now(),
                rows: 0,
            },
            bar: spinner("rows"),
            report: Report::default(),
        };
        let outcome = copier.run();
        copier.bar.finish_and_clear();
        outcome?;
        let Report {
            keyspaces,
            copied,
            verified,
        } = copier.report;
        let json = json!({ "keyspaces": keyspaces, "copied": copied, "verified": verified });
        self.out.print(json, || {
            format!("{copied} rows of {keyspaces} keyspaces copied, {verified} compared and equal")
        })
    }
}

/// The source is to be opened.
struct OpenSource<'a> {
    copy: &'a Copy,
    out: &'a Output,
}

impl Use for OpenSource<'_> {
    fn with<F: Backend>(self, from: &F) -> Result<()> {
        let target = OpenTarget {
            copy: self.copy,
            from,
            out: self.out,
        };
        let access = match self.copy.verify_only {
            true => Access::Read,
            false => Access::Write,
        };
        Place::of(&self.copy.to).open(access, target)
    }
}

pub(crate) fn run(copy: &Copy, out: &Output) -> Result<()> {
    if copy.from == copy.to {
        return Err(Error::Usage(
            "--from and --to name the same place; copy to another one".into(),
        ));
    }
    if copy.rows_per_second == Some(0) {
        return Err(Error::Usage("--rows-per-second must be at least 1".into()));
    }
    Place::of(&copy.from).open(Access::Read, OpenSource { copy, out })
}
