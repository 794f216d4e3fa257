//! `hedgerow copy`: the rows of one place into another, in order: a directory, or a backend that a
//! URL names.
//!
//! Rows go page by page. With `--resume FILE` the file says behind which key of which keyspace the
//! copy has arrived; a copy that ended early goes on there. A row is written as it is in the
//! source, whatever the target has under its key, so a page that is written twice does no harm.
//! With `--exclusive` the target's backend may send many rows in a call, unchecked. With
//! `--changed-since PLACE` the source is compared with that place, and only what differs goes to
//! the target.

mod copied_row;
mod differences;
mod place;
mod progress;
mod split_keys;
mod verify;
mod writes;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hedgerow::Direction;
use hedgerow::backend::{Backend, BackendKeyspace};
use indicatif::ProgressBar;
use serde_json::json;

use crate::arguments::Copy;
use crate::error::{Error, Result};
use crate::output::{Output, spinner};
use copied_row::{CopiedRow, PAGE_BYTES, PAGE_ROWS, behind, page};
use differences::{Difference, Differences};
use place::{Access, Place, Use, is_same, is_within};
use progress::{Progress, State, States};
use split_keys::split_keys;

/// Keeps a copy from being faster than it may. Time in which nothing was written, as between two
/// keyspaces or where nothing differs, is not made up for.
struct Throttle {
    rows_per_second: Option<u64>,
    /// When the next page may be written.
    next: Instant,
}

impl Throttle {
    fn new(rows_per_second: Option<u64>) -> Throttle {
        Throttle {
            rows_per_second,
            next: Instant::now(),
        }
    }

    /// The most rows of a page: those of a tenth of a second, or one.
    fn page_rows(&self) -> usize {
        let of_a_tenth = self.rows_per_second.unwrap_or(u64::MAX) / 10;
        of_a_tenth.clamp(1, PAGE_ROWS as u64) as usize
    }

    /// When a page of so many rows may be written of which somebody asks now.
    fn due(&mut self, now: Instant, rows: u64) -> Instant {
        let Some(most) = self.rows_per_second else {
            return now;
        };
        let due = self.next.max(now);
        self.next = due + Duration::from_secs_f64(rows as f64 / most as f64);
        due
    }

    /// Returns once a page of so many rows may be written.
    fn wait(&mut self, rows: u64) {
        let now = Instant::now();
        std::thread::sleep(self.due(now, rows).saturating_duration_since(now));
    }
}

/// What was copied and compared.
#[derive(Default)]
struct Report {
    keyspaces: u64,
    copied: u64,
    removed: u64,
    verified: u64,
}

/// What the target is to get, of some keys in order.
#[derive(Default)]
struct Page {
    rows: Vec<CopiedRow>,
    removed: Vec<Vec<u8>>,
    bytes: usize,
}

impl Page {
    /// All rows.
    fn of_rows(rows: Vec<CopiedRow>) -> Page {
        Page {
            rows,
            ..Page::default()
        }
    }

    fn count(&self) -> usize {
        self.rows.len() + self.removed.len()
    }

    fn add(&mut self, difference: Difference) {
        match difference {
            Difference::First(row) | Difference::Both(row) => {
                self.bytes += row.bytes();
                self.rows.push(row);
            }
            Difference::Second(key) => {
                self.bytes += key.len();
                self.removed.push(key);
            }
        }
    }

    fn is_full(&self, most_rows: usize) -> bool {
        self.count() >= most_rows || self.bytes >= PAGE_BYTES
    }

    /// The last of all keys.
    fn last_key(&self) -> Option<&[u8]> {
        let row = self.rows.last().map(|row| row.key.as_slice());
        row.max(self.removed.last().map(Vec::as_slice))
    }
}

/// A copy: what differs between `from` and `since` goes `to` the target, or, without `since`, all
/// that is in `from`.
struct Copier<'a, F, S, T> {
    copy: &'a Copy,
    from: &'a F,
    since: Option<&'a S>,
    to: &'a T,
    names: BTreeSet<String>,
    progress: Progress,
    throttle: Throttle,
    bar: ProgressBar,
    report: Report,
}

/// The keyspaces to copy: those that were asked for, or all.
fn names<F: Backend, S: Backend>(
    copy: &Copy,
    from: &F,
    since: Option<&S>,
) -> Result<BTreeSet<String>> {
    let mut existing: BTreeSet<String> = from.keyspaces()?.into_iter().collect();
    if let Some(since) = since {
        existing.extend(since.keyspaces()?);
    }
    let named = &copy.keyspace;
    if named.is_empty() {
        return Ok(existing);
    }
    match named.iter().find(|name| !existing.contains(*name)) {
        None => Ok(named.iter().cloned().collect()),
        Some(name) => Err(Error::Failed(format!(
            "there is no keyspace {name:?} in {}; it has {}",
            copy.from,
            from.keyspaces()?.join(", ")
        ))),
    }
}

impl<F: Backend, S: Backend, T: Backend> Copier<'_, F, S, T> {
    fn run(&mut self) -> Result<()> {
        let compares = self.copy.verify || self.copy.verify_only;
        for name in std::mem::take(&mut self.names) {
            let from = existing(self.from, &name)?;
            let to = match from {
                Some(ref from) if !self.copy.verify_only => Some(self.target(&name, from)?),
                _ => existing(self.to, &name)?,
            };
            if from.is_none() && to.is_none() {
                continue;
            }
            self.report.keyspaces += 1;
            if let Some(to) = to.as_ref().filter(|_| !self.copy.verify_only) {
                self.keyspace(&name, from.as_ref(), to)?;
            }
            if compares {
                let compared = verify::compare(&name, from.as_ref(), to.as_ref(), &self.bar)?;
                if let Some(difference) = compared.difference {
                    // The same command copies it again.
                    self.progress.forget(&name)?;
                    return Err(Error::Failed(difference));
                }
                self.report.verified += compared.rows;
            }
        }
        if compares {
            self.find_others()?;
        }
        self.progress.finish()
    }

    /// The keyspace of the target, made if there is none.
    fn target(&self, name: &str, from: &F::Keyspace) -> Result<T::Keyspace> {
        let parts = match self.copy.regions {
            Some(parts) if existing(self.to, name)?.is_none() => parts,
            _ => {
                let index = match self.copy.index {
                    Some(index) => index.name(),
                    None => from.index_name()?,
                };
                return Ok(self.to.keyspace_of_index(name, index)?);
            }
        };
        let keys = split_keys(from, parts)?;
        self.to.split_keyspace(name, &keys).map_err(|error| {
            Error::Failed(format!(
                "keyspace {name:?} is not made of {parts} regions: {error}; without --regions it \
                 would begin with one"
            ))
        })
    }

    /// Fails if the target has rows in a keyspace that the source lacks, and all are compared.
    fn find_others(&self) -> Result<()> {
        if !self.copy.keyspace.is_empty() {
            return Ok(());
        }
        let existing = self.from.keyspaces()?;
        for name in self.to.keyspaces()? {
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

    /// Copies a keyspace; `from` is `None` for one that the source had once.
    fn keyspace(&mut self, name: &str, from: Option<&F::Keyspace>, to: &T::Keyspace) -> Result<()> {
        let Some(after) = self.progress.begin(name) else {
            // It was copied before.
            return Ok(());
        };
        let most_rows = self.throttle.page_rows();
        match (self.since, from) {
            (Some(since), _) => {
                let since = existing(since, name)?;
                let range = behind(after.as_deref());
                let mut differences = Differences::new(from, since.as_ref(), range);
                loop {
                    let mut page = Page::default();
                    while !page.is_full(most_rows)
                        && let Some(difference) = differences.next(&self.bar)?
                    {
                        page.add(difference);
                    }
                    if page.count() == 0 {
                        break;
                    }
                    self.page(name, to, &page)?;
                }
            }
            (None, Some(from)) => {
                let mut after = after;
                loop {
                    let page = Page::of_rows(page(from, behind(after.as_deref()), most_rows)?);
                    let Some(last) = page.last_key() else {
                        break;
                    };
                    self.page(name, to, &page)?;
                    self.bar.inc(page.count() as u64);
                    after = Some(last.to_vec());
                }
            }
            (None, None) => {}
        }
        self.progress.end(name)
    }

    /// Writes a page to the target.
    fn page(&mut self, name: &str, to: &T::Keyspace, page: &Page) -> Result<()> {
        self.throttle.wait(page.count() as u64);
        let options = writes::options::<T>(self.copy.resume.is_some());
        let written = match self.copy.exclusive {
            true => writes::load_page::<T>(to, &page.rows, &options),
            false => writes::write_page::<T>(to, &page.rows, &options),
        };
        let written = written.and_then(|last| {
            let last = last.max(writes::remove::<T>(to, &page.removed, &options)?);
            match self.copy.resume {
                // The file must not say more than the target keeps.
                Some(_) => writes::await_durable(self.to, last),
                None => Ok(()),
            }
        });
        written.map_err(|error| self.stopped(name, &error))?;
        self.report.copied += page.rows.len() as u64;
        self.report.removed += page.removed.len() as u64;
        self.progress
            .arrived(name, page.last_key().unwrap_or_default())
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

/// A keyspace, if there is one of this name.
fn existing<B: Backend>(db: &B, name: &str) -> Result<Option<B::Keyspace>> {
    match db.keyspaces()?.iter().any(|existing| existing == name) {
        true => Ok(Some(db.keyspace(name)?)),
        false => Ok(None),
    }
}

/// The source and what it is compared with are open, the target is to be.
struct OpenTarget<'a, F, S> {
    copy: &'a Copy,
    from: &'a F,
    since: Option<&'a S>,
    names: BTreeSet<String>,
    /// How far an earlier copy has come.
    earlier: Option<State>,
    out: &'a Output,
}

impl<F: Backend, S: Backend> Use for OpenTarget<'_, F, S> {
    fn with<T: Backend>(self, to: &T) -> Result<()> {
        let states = States::new(
            self.from.files_state(),
            self.since.and_then(Backend::files_state),
            to.files_state(),
        );
        let mut copier = Copier {
            copy: self.copy,
            from: self.from,
            since: self.since,
            to,
            names: self.names,
            progress: Progress::new(self.copy, self.earlier, states)?,
            throttle: Throttle::new(self.copy.rows_per_second),
            bar: spinner("rows"),
            report: Report::default(),
        };
        let outcome = copier.run();
        copier.bar.finish_and_clear();
        outcome?;
        let Report {
            keyspaces,
            copied,
            removed,
            verified,
        } = copier.report;
        let json = json!({
            "keyspaces": keyspaces, "copied": copied, "removed": removed, "verified": verified,
        });
        self.out.print(json, || {
            let removed = match self.since {
                Some(_) => format!(", {removed} removed"),
                None => String::new(),
            };
            format!(
                "{copied} rows of {keyspaces} keyspaces copied{removed}, {verified} compared and \
                 equal"
            )
        })
    }
}

/// Opens the target, once everything else is known to be in order: it is made if missing.
fn open_target<F: Backend, S: Backend>(
    copy: &Copy,
    from: &F,
    since: Option<&S>,
    out: &Output,
) -> Result<()> {
    let target = OpenTarget {
        copy,
        from,
        since,
        names: names(copy, from, since)?,
        earlier: State::read(copy)?,
        out,
    };
    let access = match copy.verify_only {
        true => Access::Read,
        false => Access::Write,
    };
    Place::of(&copy.to).open(access, target)
}

/// The source is open; what it is compared with is to be, and then the target.
struct OpenSince<'a, F> {
    copy: &'a Copy,
    from: &'a F,
    out: &'a Output,
}

impl<F: Backend> Use for OpenSince<'_, F> {
    fn with<S: Backend>(self, since: &S) -> Result<()> {
        open_target(self.copy, self.from, Some(since), self.out)
    }
}

/// All are to be opened.
struct OpenSource<'a> {
    copy: &'a Copy,
    out: &'a Output,
}

impl Use for OpenSource<'_> {
    fn with<F: Backend>(self, from: &F) -> Result<()> {
        let OpenSource { copy, out } = self;
        if let Some(place) = &copy.changed_since {
            return Place::of(place).open(Access::Read, OpenSince { copy, from, out });
        }
        open_target(copy, from, None::<&F>, out)
    }
}

/// Refuses places that are one, or within one another.
fn check_places(copy: &Copy) -> Result<()> {
    let since = copy.changed_since.as_deref();
    let places = [
        ("--from", Some(copy.from.as_str())),
        ("--to", Some(copy.to.as_str())),
        ("--changed-since", since),
    ];
    if let Some((flag, _)) = places.iter().find(|(_, place)| *place == Some("")) {
        return Err(Error::Usage(format!(
            "{flag} is empty; name a directory or a URL"
        )));
    }
    if is_same(&copy.from, &copy.to) {
        return Err(Error::Usage(
            "--from and --to name the same place; copy to another one".into(),
        ));
    }
    if let Some(since) = &copy.changed_since {
        for (flag, place) in [("--from", &copy.from), ("--to", &copy.to)] {
            if is_same(since, place) {
                return Err(Error::Usage(format!(
                    "--changed-since and {flag} name the same place; give --changed-since a backup \
                     that was copied before"
                )));
            }
        }
    }
    for (flag, place) in [
        ("--from", Some(copy.from.as_str())),
        ("--changed-since", since),
    ] {
        if place.is_some_and(|place| is_within(&copy.to, place)) {
            return Err(Error::Usage(format!(
                "--to is within the directory that {flag} names; copy to another one"
            )));
        }
    }
    Ok(())
}

pub(crate) fn run(copy: &Copy, out: &Output) -> Result<()> {
    check_places(copy)?;
    if copy.regions.is_some() && !copy.to.contains("://") {
        return Err(Error::Usage(
            "--regions is about tables of HBase, and --to names a directory; leave it out".into(),
        ));
    }
    if copy.index.is_some() && copy.to.contains("://") {
        return Err(Error::Usage(
            "--index is about keyspaces of a directory, and --to names another place; leave it out"
                .into(),
        ));
    }
    if copy.rows_per_second == Some(0) {
        return Err(Error::Usage("--rows-per-second must be at least 1".into()));
    }
    Place::of(&copy.from).open(Access::Read, OpenSource { copy, out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nothing_was_written_is_not_made_up_for() {
        let mut throttle = Throttle::new(Some(1000));
        assert_eq!(throttle.page_rows(), 100);
        let began = throttle.next;
        let after = |seconds: f64| began + Duration::from_secs_f64(seconds);
        // Pages follow one another at the rate.
        assert_eq!(throttle.due(began, 100), began);
        assert_eq!(throttle.due(began, 100), after(0.1));
        assert_eq!(throttle.due(after(0.15), 100), after(0.2));
        // Behind a minute of nothing, too.
        assert_eq!(throttle.due(after(60.0), 100), after(60.0));
        assert_eq!(throttle.due(after(60.0), 100), after(60.1));
        let mut unlimited = Throttle::new(None);
        assert_eq!(unlimited.page_rows(), PAGE_ROWS);
        assert_eq!(unlimited.due(began, 1 << 40), began);
        assert_eq!(Throttle::new(Some(3)).page_rows(), 1);
    }
}
