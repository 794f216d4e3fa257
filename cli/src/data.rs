//! One-off work on a closed database: `get put delete scan count`.

use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::ops::{Bound, ControlFlow, Deref};
use std::path::{Path, PathBuf};

use hedgerow::{
    Builder, Db, Direction, IndexKind, Keyspace, MOST_VALUE_BYTES, Row, WriteOptions, prefix_end,
};
use serde_json::{Map, Value, json};

use crate::arguments::{Count, Data, Delete, Get, KeyBounds, Put, Scan, Space};
use crate::error::{Error, Result, reading, writing};
use crate::output::{Output, bytes_bar, print_error};
use crate::readable::{self, Bounds, Missing};
use crate::text;

/// A database for the length of one command. At the end it is closed, but its trees stay where
/// they are: the process ends next, and the system takes memory back faster than we take trees
/// apart.
pub(crate) struct Opened {
    db: ManuallyDrop<Db>,
    /// Directories that were not there before: see [`discard`].
    missing: Vec<PathBuf>,
}

impl Deref for Opened {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A command that wrote, and did what it was to do, has closed it before.
        discard(&self.db, &self.missing);
    }
}

/// Closes the database of a command that failed. One that was made for it and has no rows is
/// removed again, with those directories of [`missing_dirs`] that are empty then.
pub(crate) fn discard(db: &Db, missing: &[PathBuf]) {
    // Why the command failed is said; what is left is no more than an empty database.
    if let Ok(true) = db.discard() {
        let _ = missing.iter().try_for_each(std::fs::remove_dir);
    }
}

/// A directory and those that it is in, as far as they are missing: the innermost first.
pub(crate) fn missing_dirs(dir: &Path) -> Vec<PathBuf> {
    let missing = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
    missing.map(Path::to_path_buf).collect()
}

/// Opens a database that must exist, unless it may be created.
pub(crate) fn open(data: &Data, create: bool, read_only: bool) -> Result<Opened> {
    data.open_by(data.builder().create(create).read_only(read_only))
}

/// Opens a database for writing, made if missing; new keyspaces have this index.
pub(crate) fn open_with(data: &Data, index: Option<IndexKind>) -> Result<Opened> {
    let builder = data.builder();
    data.open_by(match index {
        Some(index) => builder.index(index),
        None => builder,
    })
}

impl Data {
    /// A builder with the memory that was asked for, and with the highest limit of values: the
    /// database, or one that was dumped, may have been served with any.
    pub(crate) fn builder(&self) -> Builder {
        let memory = self.memory;
        Db::builder()
            .memory_limit(memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
            .max_value_bytes(MOST_VALUE_BYTES)
    }

    /// Opens the database, showing recovery's progress if it takes long.
    fn open_by(&self, builder: Builder) -> Result<Opened> {
        let bar = bytes_bar("recovering", 0);
        let progress = bar.clone();
        let missing = missing_dirs(&self.data);
        let opened = builder
            .progress(Box::new(move |state| {
                progress.set_length(state.total_bytes);
                progress.set_position(state.done_bytes);
            }))
            .open(&self.data);
        bar.finish_and_clear();
        let db = ManuallyDrop::new(opened?);
        for damage in db.damaged_checkpoints() {
            print_error(text::passed_over(&damage));
        }
        Ok(Opened { db, missing })
    }
}

/// A keyspace that must exist.
pub(crate) fn open_keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    db.open_keyspace(name).map_err(|error| match error {
        hedgerow::Error::KeyspaceMissing(_) => Error::Failed(match &db.keyspaces()[..] {
            [] => format!("there is no keyspace {name:?}; the database has none yet"),
            names => format!(
                "there is no keyspace {name:?}; --keyspace takes one of {}",
                text::enumerated(names)
            ),
        }),
        error => error.into(),
    })
}

/// Fails if a part of what was asked for could not be read, having said which.
fn check_none_missing(missing: &[Missing]) -> Result<()> {
    missing.iter().for_each(Missing::report);
    match missing.len() {
        0 => Ok(()),
        count => Err(Error::Failed(format!(
            "{count} ranges of keys could not be read; all other rows are there"
        ))),
    }
}

impl Space {
    /// Opens the keyspace for reading; it must exist.
    pub(crate) fn open_to_read(&self) -> Result<(Opened, Keyspace)> {
        let db = open(&self.data, false, true)?;
        let keyspace = open_keyspace(&db, &self.keyspace)?;
        Ok((db, keyspace))
    }

    /// Opens the keyspace for writing; database and keyspace are made if missing.
    pub(crate) fn open_to_write(&self) -> Result<(Opened, Keyspace)> {
        let db = open(&self.data, true, false)?;
        let keyspace = db.keyspace(&self.keyspace)?;
        Ok((db, keyspace))
    }

    /// The bytes that a word of the command line means.
    pub(crate) fn bytes(&self, word: &str) -> Result<Vec<u8>> {
        if self.raw {
            return Ok(word.as_bytes().to_vec());
        }
        text::unescape(word.as_bytes()).map_err(Error::Usage)
    }

    /// How bytes are printed.
    pub(crate) fn show(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.raw {
            out.extend_from_slice(bytes)
        } else {
            text::escape(bytes, out)
        }
    }
}

/// A row as JSON: a string, or an object of columns.
pub(crate) fn row_json(row: &Row<'_>) -> Value {
    match row.value() {
        Some(value) => text::shown(value).into(),
        None => {
            let columns = row
                .columns()
                .map(|(name, value)| (text::shown(name), Value::from(text::shown(value))));
            Value::Object(columns.collect::<Map<_, _>>())
        }
    }
}

/// A row as text: the value, or `name=value` pairs separated by tabs.
fn row_text(space: &Space, row: &Row<'_>, out: &mut Vec<u8>) {
    match row.value() {
        Some(value) => space.show(value, out),
        None => {
            for (i, (name, value)) in row.columns().enumerate() {
                if i > 0 {
                    out.push(b'\t');
                }
                space.show(name, out);
                out.push(b'=');
                space.show(value, out);
            }
        }
    }
}

pub(crate) fn get(get: Get, out: &Output) -> Result<()> {
    let (_db, keyspace) = get.space.open_to_read()?;
    let key = get.space.bytes(&get.key)?;
    let column = get
        .column
        .as_deref()
        .map(|name| get.space.bytes(name))
        .transpose()?;
    let found = keyspace.read(&key, |row| {
        let mut line = Vec::new();
        let json = match &column {
            None => {
                row_text(&get.space, &row, &mut line);
                row_json(&row)
            }
            Some(name) => {
                let value = row.column(name)?;
                get.space.show(value, &mut line);
                text::shown(value).into()
            }
        };
        Some((line, json))
    })?;
    let Some((line, value)) = found.flatten() else {
        let what = get
            .column
            .map_or_else(String::new, |name| format!("column {name} of "));
        return Err(Error::Failed(format!(
            "there is no {what}key {}",
            text::shown(&key)
        )));
    };
    if out.json {
        return out.print(
            json!({ "key": text::shown(&key), "value": value }),
            String::new,
        );
    }
    let mut lines = out.lines();
    lines.write_all(&line).map_err(writing)?;
    if !get.space.raw {
        lines.write_all(b"\n").map_err(writing)?;
    }
    lines.flush().map_err(writing)
}

pub(crate) fn put(put: Put, out: &Output) -> Result<()> {
    if put.ttl.is_some_and(|ttl| ttl.is_zero()) {
        return Err(Error::Usage(
            "--ttl must be at least 1ms: a row that expires at once is none; to remove one, use \
             hedgerow delete"
                .into(),
        ));
    }
    let key = put.space.bytes(&put.key)?;
    let value = if put.value == "-" {
        let mut value = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut value)
            .map_err(reading)?;
        value
    } else {
        put.space.bytes(&put.value)?
    };
    let (db, keyspace) = put.space.open_to_write()?;
    match &put.column {
        Some(column) => {
            let column = put.space.bytes(column)?;
            keyspace.put_columns(&key, &[(&column, &value)])?;
        }
        None => {
            let expiry_ms = put
                .ttl
                .map(|ttl| now_ms().saturating_add(ttl.as_millis() as u64));
            let options = WriteOptions {
                expiry_ms,
                ..WriteOptions::default()
            };
            keyspace.put_with(&key, &value, &options)?;
        }
    }
    db.close()?;
    out.print(json!({ "stored": text::shown(&key) }), || "stored".into())
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

pub(crate) fn delete(delete: Delete, out: &Output) -> Result<()> {
    let keys = delete
        .keys
        .iter()
        .map(|key| delete.space.bytes(key))
        .collect::<Result<Vec<_>>>()?;
    let db = open(&delete.space.data, false, false)?;
    let keyspace = open_keyspace(&db, &delete.space.keyspace)?;
    let mut deleted = 0;
    for key in &keys {
        deleted += u64::from(keyspace.remove(key)?);
    }
    db.close()?;
    out.print(json!({ "deleted": deleted }), || {
        format!("deleted {deleted}")
    })
}

impl KeyBounds {
    fn range(&self, space: &Space) -> Result<Bounds> {
        if let Some(prefix) = &self.prefix {
            let prefix = space.bytes(prefix)?;
            let end = prefix_end(&prefix);
            return Ok((Bound::Included(prefix), end));
        }
        let bound = |key: &Option<String>| key.as_deref().map(|key| space.bytes(key)).transpose();
        Ok((
            bound(&self.from)?.map_or(Bound::Unbounded, Bound::Included),
            bound(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }
}

pub(crate) fn scan(scan: Scan, out: &Output) -> Result<()> {
    let (_db, keyspace) = scan.space.open_to_read()?;
    let range = scan.bounds.range(&scan.space)?;
    let direction = if scan.reverse {
        Direction::Reverse
    } else {
        Direction::Forward
    };
    let mut left = scan.limit.unwrap_or(usize::MAX);
    let mut lines = out.lines();
    let mut line = Vec::new();
    let mut outcome = Ok(());
    let mut missing = Vec::new();
    if left > 0 {
        missing = readable::scan(&keyspace, range, direction, |key, row| {
            line.clear();
            if out.json {
                let mut object = json!({ "key": text::shown(key) });
                if !scan.keys {
                    object["value"] = row_json(&row);
                }
                line.extend_from_slice(object.to_string().as_bytes());
            } else {
                scan.space.show(key, &mut line);
                if !scan.keys {
                    line.push(b'\t');
                    row_text(&scan.space, &row, &mut line);
                }
            }
            line.push(b'\n');
            outcome = lines.write_all(&line);
            left -= 1;
            if left == 0 || outcome.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    outcome.and_then(|()| lines.flush()).map_err(writing)?;
    check_none_missing(&missing)
}

pub(crate) fn count(count: Count, out: &Output) -> Result<()> {
    let (_db, keyspace) = count.space.open_to_read()?;
    let range = count.bounds.range(&count.space)?;
    let (rows, missing) = match keyspace.count(range.clone()) {
        Ok(rows) => (rows, Vec::new()),
        Err(hedgerow::Error::Index(_)) => count_readable(&keyspace, range)?,
        Err(error) => return Err(error.into()),
    };
    out.print(json!({ "count": rows }), || rows.to_string())?;
    check_none_missing(&missing)
}

fn count_readable(keyspace: &Keyspace, range: Bounds) -> Result<(u64, Vec<Missing>)> {
    let mut rows = 0;
    let missing = readable::scan(keyspace, range, Direction::Forward, |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    Ok((rows, missing))
}
