//! `hedgerow load`: rows from lines of text, or from a dump.

use std::time::Instant;

use hedgerow::{IndexKind, KeySpan, Keyspace, KeyspaceOptions};
use serde_json::json;

use crate::arguments::Load;
use crate::data::{Opened, open_with};
use crate::dump_file::{self, End, Head, Line};
use crate::error::{Error, Result};
use crate::lines::{Event, First, Interruption, Lines};
use crate::output::{Output, print_error};
use crate::rows::Stored;

/// Rows that are stored together: their misses in the tree overlap.
const BATCH_ROWS: usize = 64;
/// Damaged parts of the database that are named one by one.
const MAX_REPORTED: usize = 64;

/// What the lines of a file are.
enum Form {
    /// Each line is a key.
    Keys,
    /// Key, tab, value.
    Tsv,
    /// A dump: its first line, and its last one, once that was read.
    Dump { head: Head, end: Option<End> },
}

/// Why a line was not taken.
enum Trouble {
    /// What is wrong with it.
    Line(String),
    /// Rows before it could not be stored.
    Failed(Error),
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble::Line(what)
    }
}

/// A load that is under way.
struct Loader<'a> {
    load: &'a Load,
    lines: &'a Lines,
    db: &'a Opened,
    form: Form,
    /// Where rows go now.
    keyspace: Option<Keyspace>,
    /// Rows to be stored, with their lines' numbers.
    rows: Vec<(u64, Stored)>,
    /// Lines read.
    number: u64,
    /// The last line whose row is stored, or that needs nothing.
    stored: u64,
    /// Of a dump: what was read of it.
    read: End,
    /// The CRC-32C of the lines before this one.
    checksum: u32,
    /// Rows that could not be stored, since a page of theirs cannot be read.
    refused: u64,
    reported: Vec<KeySpan>,
}

pub(crate) fn load(load: Load, out: &Output) -> Result<()> {
    let mut lines = Lines::open(&load.file)?;
    // Before the database is made: nothing is left behind by what cannot be loaded.
    let first = lines.first()?;
    check_beginning(&load, &lines.name, first.as_ref())?;
    let first = first.map(|first| first.text);
    let form = form(&load, &lines.name, first.as_deref()).map_err(Error::Usage)?;
    let interruption = Interruption::watch()?;
    let db = open_with(&load.data, load.index)?;
    let rows_before = rows(&db);
    let began = Instant::now();
    let mut loader = Loader {
        load: &load,
        lines: &lines,
        db: &db,
        form,
        keyspace: None,
        rows: Vec::with_capacity(BATCH_ROWS),
        number: 0,
        stored: 0,
        read: End::default(),
        checksum: 0,
        refused: 0,
        reported: Vec::new(),
    };
    let loaded = loader.run(&interruption);
    let (number, keyspaces) = (loader.number, loader.read.keyspaces);
    // Whatever came to pass: what is stored is made durable before anything is said of it.
    let synced = db.sync();
    let seconds = began.elapsed().as_secs_f64();
    lines.bar.finish_and_clear();
    match (loaded, synced) {
        (Ok(()), Ok(())) => {}
        (Err(error), Ok(())) => return Err(error),
        (Ok(()), Err(error)) => return Err(error.into()),
        (Err(error), Err(sync)) => {
            return Err(Error::Failed(format!(
                "{error}; but nothing of it is known to be on the disk: {sync}"
            )));
        }
    }
    if !load.no_checkpoint {
        db.checkpoint()?;
    }
    let added = rows(&db).saturating_sub(rows_before);
    db.close()?;
    let skipped = load.skip.min(number);
    let lines = number - skipped;
    let json = json!({
        "lines": lines, "skipped": skipped, "keyspaces": keyspaces, "new_keys": added,
        "seconds": seconds,
    });
    out.print(json, || {
        let rate = lines as f64 / seconds.max(1e-9);
        let mut text = format!(
            "loaded {lines} lines ({added} new keys) in {seconds:.1} s, {rate:.0} a second"
        );
        if skipped > 0 {
            text += &format!("; skipped {skipped} lines");
        }
        text
    })
}

fn rows(db: &Opened) -> u64 {
    db.statistics().get("rows").unwrap_or(0.0) as u64
}

/// Refuses what is left of a dump that was cut off before the end of its first line: nothing, or
/// the beginning of the words that dumps begin with. Flags that dumps do not take say that it is
/// none.
fn check_beginning(load: &Load, name: &str, first: Option<&First>) -> Result<()> {
    if load.raw || load.tsv || load.value.is_some() {
        return Ok(());
    }
    let what = match first {
        None => "is empty",
        Some(first) if first.is_cut && dump_file::is_cut_head(&first.text) => {
            "ends within the first line of a dump"
        }
        Some(_) => return Ok(()),
    };
    Err(Error::Failed(format!(
        "{name} {what}: nothing is loaded; make the dump again, or give --raw if these lines are \
         keys"
    )))
}

/// What the lines are, judged by the first one.
fn form(load: &Load, name: &str, first: Option<&[u8]>) -> std::result::Result<Form, String> {
    let head = dump_file::read_head(first.unwrap_or(b""));
    let head = head.map_err(|what| format!("{name}: {what}"))?;
    let Some(head) = head else {
        return Ok(if load.tsv { Form::Tsv } else { Form::Keys });
    };
    if load.raw || load.value.is_some() {
        return Err(format!(
            "{name} is a dump, whose rows have values and escapes; leave out --raw and --value"
        ));
    }
    if load.keyspace.is_some() && head.keyspaces > 1 {
        return Err(format!(
            "{name} is a dump of {} keyspaces; leave out --keyspace, or dump one of them \
             with dump --keyspace",
            head.keyspaces
        ));
    }
    let end = None;
    Ok(Form::Dump { head, end })
}

impl Loader<'_> {
    fn run(&mut self, interruption: &Interruption) -> Result<()> {
        if !matches!(self.form, Form::Dump { .. }) {
            let name = self.load.keyspace.as_deref().unwrap_or("default");
            self.keyspace = Some(self.open(name, None)?);
            self.read.keyspaces = 1;
        }
        loop {
            if interruption.is_asked_for() {
                self.store()?;
                return Err(self.stopped(format!("interrupted in {}", self.lines.name)));
            }
            match self.lines.next() {
                Event::Lines(lines) => lines.iter().try_for_each(|line| self.line(line))?,
                Event::Nothing => {}
                Event::Failed(source) => {
                    self.store()?;
                    let name = &self.lines.name;
                    return Err(self.stopped(format!("could not read {name} further: {source}")));
                }
                Event::End => break,
            }
        }
        self.store()?;
        self.check_end()?;
        if self.refused > 0 {
            return Err(Error::Failed(format!(
                "{} rows of {} could not be stored, as pages of theirs are damaged; all others are \
                 loaded; restore a backup, or load a dump into a new directory",
                self.refused, self.lines.name
            )));
        }
        Ok(())
    }

    /// Opens a keyspace. One that is made gets the index that was asked for, or else that of the
    /// dump; one that exists keeps its own, which must be the one that was asked for.
    fn open(&self, name: &str, of_dump: Option<IndexKind>) -> hedgerow::Result<Keyspace> {
        let asked = self.load.index;
        match self.db.open_keyspace(name) {
            Ok(keyspace) if asked.is_none() => Ok(keyspace),
            _ => {
                let index = asked.or(of_dump);
                self.db.keyspace_with(name, KeyspaceOptions { index })
            }
        }
    }

    /// Takes a line, with its end.
    fn line(&mut self, line: &[u8]) -> Result<()> {
        self.number += 1;
        let (with_end, whole) = (line, line.strip_suffix(b"\n"));
        let is_cut = whole.is_none();
        let line = whole.unwrap_or(line);
        match self.take(line, is_cut) {
            Ok(Some(row)) if self.number > self.load.skip => self.rows.push((self.number, row)),
            Ok(_) => {}
            Err(Trouble::Failed(error)) => return Err(error),
            Err(Trouble::Line(what)) => {
                let number = self.number;
                self.number -= 1;
                self.store()?;
                return Err(self.stopped(format!("{} line {number}: {what}", self.lines.name)));
            }
        }
        if matches!(self.form, Form::Dump { end: None, .. }) {
            self.checksum = crc32c::crc32c_append(self.checksum, with_end);
        }
        if self.rows.len() >= BATCH_ROWS {
            self.store()?;
        }
        Ok(())
    }

    /// The row of a line, if it has one; `is_cut` if the line has no end.
    fn take(&mut self, line: &[u8], is_cut: bool) -> std::result::Result<Option<Stored>, Trouble> {
        match &self.form {
            Form::Tsv => Ok(Some(Stored::read(line, self.load.raw)?)),
            Form::Keys => {
                let value = &self.load.value;
                let value = value.clone().unwrap_or_else(|| self.number.to_string());
                Ok(Some(Stored::plain(line.to_vec(), value.into_bytes())))
            }
            Form::Dump { end: Some(_), .. } => Err(Trouble::Line(
                "the dump ends before it; load one dump at a time".into(),
            )),
            // The first line was looked at before.
            Form::Dump { .. } if self.number == 1 => Ok(None),
            Form::Dump { head, .. } => {
                let head = *head;
                self.take_of_dump(line, is_cut, head)
            }
        }
    }

    fn take_of_dump(
        &mut self,
        line: &[u8],
        is_cut: bool,
        head: Head,
    ) -> std::result::Result<Option<Stored>, Trouble> {
        let cut = || {
            Err(Trouble::Line(
                "the dump is cut off here; make it again".into(),
            ))
        };
        let read = match dump_file::read(line) {
            Err(_) if is_cut => return cut(),
            read => read?,
        };
        match read {
            // It ends with its checksum.
            Line::End(end) if is_cut && end.checksum.is_some() != head.has_checksum => cut(),
            Line::End(end) => {
                let end = Some(end);
                self.form = Form::Dump { head, end };
                Ok(None)
            }
            // Nobody knows how the line went on.
            _ if is_cut => cut(),
            Line::Missing(keys) => {
                let of = self.keyspace.as_ref().map_or("", Keyspace::name);
                let reported = format!("the dump lacks {keys} of keyspace {of:?}");
                self.lines.bar.suspend(|| print_error(reported));
                Ok(None)
            }
            Line::Keyspace(name, index) => {
                self.store().map_err(Trouble::Failed)?;
                let name = self.load.keyspace.as_deref().unwrap_or(&name);
                let keyspace = self.open(name, index);
                self.keyspace = Some(keyspace.map_err(|error| Error::from(error).to_string())?);
                self.read.keyspaces += 1;
                Ok(None)
            }
            Line::Row(row) if self.keyspace.is_some() => {
                let row = Stored::read(row, false)?;
                self.read.rows += 1;
                Ok(Some(row))
            }
            Line::Row(_) => Err(Trouble::Line(
                "there is no line before it that names a keyspace".into(),
            )),
        }
    }

    /// Stores the rows read so far, to be synced later.
    fn store(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if let Some(keyspace) = &self.keyspace {
            let keys: Vec<&[u8]> = rows.iter().map(|(_, row)| row.key.as_slice()).collect();
            keyspace.prefetch_many(&keys);
            for (number, row) in &rows {
                match row.store(keyspace) {
                    Ok(()) => {}
                    Err(hedgerow::Error::Index(error)) if error.keys().is_some() => {
                        self.refused += 1;
                        let keys = error.keys().cloned().unwrap_or_default();
                        if self.reported.len() < MAX_REPORTED && !self.reported.contains(&keys) {
                            self.lines.bar.suspend(|| print_error(&error));
                            self.reported.push(keys);
                        }
                    }
                    Err(error) => {
                        self.stored = number - 1;
                        let (name, error) = (&self.lines.name, Error::from(error));
                        return Err(self.stopped(format!("{name} line {number}: {error}")));
                    }
                }
            }
        }
        self.stored = self.number;
        Ok(())
    }

    /// Judges whether a dump was whole.
    fn check_end(&self) -> Result<()> {
        let Form::Dump { head, end } = &self.form else {
            return Ok(());
        };
        let (name, rows) = (&self.lines.name, self.read.rows);
        let incomplete = |what: String| {
            Err(Error::Failed(format!(
                "the dump {name} is incomplete: {what}; the {rows} rows that it has are loaded"
            )))
        };
        let Some(end) = end else {
            return incomplete(format!(
                "it stops behind line {} without its last line, which begins with \\end; make the \
                 dump again",
                self.number
            ));
        };
        if (end.rows, end.keyspaces) != (rows, self.read.keyspaces)
            || end.keyspaces != head.keyspaces
        {
            return incomplete(format!(
                "its last line says {} rows in {} keyspaces, and there are {rows} in {}; make the \
                 dump again",
                end.rows, end.keyspaces, self.read.keyspaces
            ));
        }
        let expected = head.has_checksum.then_some(self.checksum);
        if end.checksum != expected {
            let shown =
                |sum: Option<u32>| sum.map_or("none".to_owned(), |sum| format!("{sum:08x}"));
            return Err(Error::Failed(format!(
                "the dump {name} was changed since it was made: its last line says checksum {}, \
                 and \
                 that of its lines is {}; its {rows} rows are loaded, and some of them may be \
                 wrong; \
                 load another copy of it, or make it again, into a new directory",
                shown(end.checksum),
                shown(expected)
            )));
        }
        if !end.complete {
            return incomplete("rows could not be read when it was made".into());
        }
        Ok(())
    }

    /// An error that says how far the load came.
    fn stopped(&self, what: String) -> Error {
        Error::Failed(match self.stored {
            0 => format!("{what}; nothing is loaded"),
            stored => format!(
                "{what}; the first {stored} lines are loaded, and --skip {stored} goes on behind \
                 them"
            ),
        })
    }
}
