//! `hedgerow dump`: all rows of a database as text.

use std::io::{BufWriter, StdoutLock, Write};
use std::ops::{Bound, ControlFlow};

use hedgerow::{Db, Direction, Row};
use indicatif::ProgressBar;
use serde_json::json;

use crate::arguments::Dump;
use crate::data::{open, open_keyspace, row_json};
use crate::dump_file::{self, End};
use crate::error::{Error, Result, writing};
use crate::output::{Output, spinner};
use crate::readable::{self, Missing};
use crate::rows;
use crate::text;

/// A dump that is being written.
struct Writer<'a> {
    out: &'a Output,
    lines: BufWriter<StdoutLock<'static>>,
    line: Vec<u8>,
    bar: ProgressBar,
    end: End,
    /// The CRC-32C of all lines so far.
    checksum: u32,
    missing: u64,
}

pub(crate) fn dump(dump: Dump, out: &Output) -> Result<()> {
    let db = open(&dump.data, false, true)?;
    let names = match dump.keyspace {
        Some(name) => vec![open_keyspace(&db, &name)?.name().to_owned()],
        None => db.keyspaces(),
    };
    let mut writer = Writer {
        out,
        lines: out.lines(),
        line: Vec::new(),
        bar: spinner("rows"),
        end: End::default(),
        checksum: 0,
        missing: 0,
    };
    writer.line(|line| dump_file::write_head(names.len() as u64, line))?;
    for name in &names {
        writer.keyspace(&db, name)?;
    }
    writer.finish()
}

impl Writer<'_> {
    /// Writes a line of the text form, which the JSON form has not.
    fn line(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.out.json {
            return Ok(());
        }
        self.line.clear();
        write(&mut self.line);
        self.write_line()
    }

    /// Writes the line that is ready, with its end.
    fn write_line(&mut self) -> Result<()> {
        self.line.push(b'\n');
        self.checksum = crc32c::crc32c_append(self.checksum, &self.line);
        self.lines.write_all(&self.line).map_err(writing)
    }

    fn keyspace(&mut self, db: &Db, name: &str) -> Result<()> {
        let keyspace = db.open_keyspace(name)?;
        let index = keyspace.index_kind()?;
        self.line(|line| dump_file::write_keyspace(name, index, line))?;
        self.end.keyspaces += 1;
        let mut outcome = Ok(());
        let all = (Bound::Unbounded, Bound::Unbounded);
        let missing = readable::scan(&keyspace, all, Direction::Forward, |key, row| {
            outcome = self.row(name, key, &row);
            match outcome {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        outcome?;
        for keys in &missing {
            self.missing(keys)?;
        }
        Ok(())
    }

    fn row(&mut self, keyspace: &str, key: &[u8], row: &Row<'_>) -> Result<()> {
        self.line.clear();
        if self.out.json {
            let mut object = json!({
                "keyspace": keyspace,
                "key": text::shown(key),
                "value": row_json(row),
            });
            if let Some(expiry_ms) = row.expiry_ms() {
                object["expires_ms"] = expiry_ms.into();
            }
            if row.user_flags() != 0 {
                object["flags"] = row.user_flags().into();
            }
            if row.marks() != 0 {
                object["marks"] = row.marks().into();
            }
            self.line.extend_from_slice(object.to_string().as_bytes());
        } else {
            rows::write(key, row, &mut self.line);
        }
        self.end.rows += 1;
        self.bar.inc(1);
        self.write_line()
    }

    fn missing(&mut self, keys: &Missing) -> Result<()> {
        self.missing += 1;
        self.bar.suspend(|| keys.report());
        self.line(|line| dump_file::write_missing(&keys.from, keys.to.as_deref(), line))
    }

    fn finish(mut self) -> Result<()> {
        self.end.complete = self.missing == 0;
        self.end.checksum = Some(self.checksum);
        let end = self.end;
        if self.out.json {
            let object = json!({ "end": {
                "complete": end.complete,
                "keyspaces": end.keyspaces,
                "rows": end.rows,
            }});
            writeln!(self.lines, "{object}").map_err(writing)?;
        }
        self.line(|line| dump_file::write_end(&end, line))?;
        self.lines.flush().map_err(writing)?;
        self.bar.finish_and_clear();
        if end.complete {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the dump is incomplete: {} rows are in it, {} ranges of keys could not be read; \
             restore a backup to have them",
            end.rows, self.missing
        )))
    }
}
