//! Many rows in and out: `load` and `dump`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use hedgerow::{Direction, Keyspace};
use indicatif::ProgressBar;
use serde_json::json;

use crate::arguments::{Dump, Load};
use crate::data::row_json;
use crate::error::{Error, Result, reading, writing};
use crate::output::{Output, bytes_bar, spinner};
use crate::rows::{self, Stored};
use crate::text;

/// Rows per turn: their misses in the tree overlap.
const BATCH_ROWS: usize = 64;

/// Where lines come from, and how far they are.
struct Source {
    reader: Box<dyn BufRead>,
    bar: ProgressBar,
    /// Whether the bar counts bytes (of a file) or rows (of standard input).
    counts_bytes: bool,
    name: String,
}

impl Source {
    fn open(load: &Load) -> Result<Source> {
        if load.file.as_os_str() == "-" {
            return Ok(Source {
                reader: Box::new(BufReader::with_capacity(1 << 20, std::io::stdin())),
                bar: spinner("rows"),
                counts_bytes: false,
                name: "standard input".into(),
            });
        }
        let failed = |source| Error::File {
            operation: "read",
            file: load.file.clone(),
            source,
        };
        let file = File::open(&load.file).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Source {
            reader: Box::new(BufReader::with_capacity(1 << 20, file)),
            bar: bytes_bar("loading", bytes),
            counts_bytes: true,
            name: load.file.display().to_string(),
        })
    }

    /// Reads one line, without its end; false at the end of the input.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let bytes = self.reader.read_until(b'\n', line).map_err(reading)?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        self.bar
            .inc(if self.counts_bytes { bytes as u64 } else { 1 });
        Ok(bytes > 0)
    }
}

/// The row of a line.
fn row(load: &Load, line: &[u8], number: u64) -> std::result::Result<Stored, String> {
    if load.tsv {
        return Stored::read(line, load.space.raw);
    }
    let value = load.value.clone().unwrap_or_else(|| number.to_string());
    Ok(Stored::plain(line.to_vec(), value.into_bytes()))
}

fn store(keyspace: &Keyspace, rows: &[Stored]) -> Result<()> {
    let keys = rows
        .iter()
        .map(|row| row.key.as_slice())
        .collect::<Vec<_>>();
    keyspace.prefetch_many(&keys);
    // One sync at the end covers all.
    for row in rows {
        row.store(keyspace)?;
    }
    Ok(())
}

pub(crate) fn load(load: Load, out: &Output) -> Result<()> {
    let mut source = Source::open(&load)?;
    let (db, keyspace) = load.space.open_to_write()?;
    let before = keyspace.len();
    let began = Instant::now();
    let mut line = Vec::new();
    let mut rows = Vec::with_capacity(BATCH_ROWS);
    let mut number = 0;
    while source.line(&mut line)? {
        number += 1;
        let row = row(&load, &line, number).map_err(|what| {
            Error::Failed(format!(
                "{} line {number}: {what}; the {} lines before it are loaded",
                source.name,
                number - 1 - rows.len() as u64
            ))
        })?;
        rows.push(row);
        if rows.len() == BATCH_ROWS {
            store(&keyspace, &rows)?;
            rows.clear();
        }
    }
    store(&keyspace, &rows)?;
    db.sync()?;
    source.bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    if !load.no_checkpoint {
        db.checkpoint()?;
    }
    let added = keyspace.len() - before;
    db.close()?;
    out.print(
        json!({ "lines": number, "new_keys": added, "seconds": seconds }),
        || {
            let rate = number as f64 / seconds.max(1e-9);
            format!(
                "loaded {number} lines ({added} new keys) in {seconds:.1} s, {rate:.0} a second"
            )
        },
    )
}

pub(crate) fn dump(dump: Dump, out: &Output) -> Result<()> {
    let (_db, keyspace) = dump.space.open_to_read()?;
    let bar = spinner("rows");
    let mut lines = out.lines();
    let mut line = Vec::new();
    let mut outcome = Ok(());
    let mut left_out = 0u64;
    keyspace.scan(.., Direction::Forward, |key, row| {
        line.clear();
        match row.value() {
            _ if out.json => {
                let mut object = json!({ "key": text::shown(key), "value": row_json(&row) });
                if let Some(expiry_ms) = row.expiry_ms() {
                    object["expires_ms"] = expiry_ms.into();
                }
                if row.user_flags() != 0 {
                    object["flags"] = row.user_flags().into();
                }
                line.extend_from_slice(object.to_string().as_bytes());
            }
            Some(value) if dump.space.raw => {
                for part in [key, b"\t", value] {
                    line.extend_from_slice(part);
                }
            }
            None if dump.space.raw => {
                left_out += 1;
                return ControlFlow::Continue(());
            }
            _ => rows::write(key, &row, &mut line),
        }
        line.push(b'\n');
        outcome = lines.write_all(&line);
        bar.inc(1);
        if outcome.is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    bar.finish_and_clear();
    outcome.and_then(|()| lines.flush()).map_err(writing)?;
    if left_out > 0 {
        eprintln!(
            "hedgerow: left out {left_out} rows that have columns; without --raw they are in"
        );
    }
    Ok(())
}
