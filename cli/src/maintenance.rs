//! Care for a database: numbers, verification, checkpoints, copies; and the command's own papers.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::CommandFactory;
use clap_complete::Shell;
use hedgerow::{CheckReport, Db, Statistics};
use serde_json::{Map, Value, json};

use crate::arguments::{Arguments, Backup, Data, Restore, Stats};
use crate::data::{Opened, open};
use crate::error::{Error, Result, writing};
use crate::output::{Output, print_error, working};
use crate::serve_arguments;
use crate::size::{show_bytes, show_count, show_share};
use crate::text;

pub(crate) fn stats(stats: Stats, out: &Output) -> Result<()> {
    let db = open(&stats.data, false, true)?;
    let groups = groups(&db, stats.index)?;
    let json = groups.iter().map(|group| {
        let mut fields: Map<_, _> = [(group.index.label.to_owned(), json!(group.index.name))]
            .into_iter()
            .collect();
        let numbers = group.numbers.iter();
        fields.extend(numbers.map(|entry| (entry.name.to_owned(), number(entry.value))));
        (group.title.clone(), Value::Object(fields))
    });
    out.print(Value::Object(json.collect()), || {
        let mut lines = String::new();
        for group in &groups {
            lines += &format!("{}\n", text::shown(group.title.as_bytes()));
            let IndexName { label, name, help } = &group.index;
            lines += &format!("  {label:<32} {name:>16}  {help}\n");
            for entry in group.numbers.iter() {
                let value = show(entry.name, entry.value);
                lines += &format!("  {:<32} {value:>16}  {}\n", entry.name, entry.help);
            }
        }
        lines.trim_end().to_owned()
    })
}

/// What `stats` prints under one title.
struct Group {
    title: String,
    index: IndexName,
    numbers: Statistics,
}

/// The line of a group that names an index.
struct IndexName {
    label: &'static str,
    name: &'static str,
    help: &'static str,
}

/// The numbers of the database, then those of each keyspace; with `walks`, of its tree, too.
fn groups(db: &Db, walks: bool) -> Result<Vec<Group>> {
    let mut groups = vec![Group {
        title: "database".to_owned(),
        index: IndexName {
            label: "default_index",
            name: db.default_index().name(),
            help: "The index of keyspaces that are made without naming one.",
        },
        numbers: db.statistics(),
    }];
    for name in db.keyspaces() {
        let keyspace = db.open_keyspace(&name)?;
        let numbers = match walks {
            true => keyspace.index_statistics()?,
            false => {
                let mut rows = Statistics::new();
                rows.push(
                    "rows",
                    keyspace.len() as f64,
                    "Rows, expired ones until swept.",
                );
                rows
            }
        };
        groups.push(Group {
            title: format!("keyspace {name}"),
            index: IndexName {
                label: "index",
                name: keyspace.index_kind()?.name(),
                help: "The index it was made with.",
            },
            numbers,
        });
    }
    Ok(groups)
}

/// A number as JSON: an integer where it is one.
pub(crate) fn number(value: f64) -> Value {
    // Up to here, a double tells all integers apart.
    const EXACT: f64 = (1u64 << 53) as f64;
    match value {
        _ if value.fract() != 0.0 || value.abs() > EXACT => json!(value),
        _ if value < 0.0 => json!(value as i64),
        _ => json!(value as u64),
    }
}

/// A number of statistics for people: the unit stands at the end of its name.
fn show(name: &str, value: f64) -> String {
    if name == "memory_limit_bytes" && value == 0.0 {
        return "none".into();
    }
    let name = name.strip_suffix("_total").unwrap_or(name);
    if name.ends_with("_bytes") || name == "bytes" {
        return show_bytes(value as u64);
    }
    if name.ends_with("_ms") {
        return format!("{} ms", show_count(value as u64));
    }
    if value.fract() == 0.0 && value >= 0.0 {
        return show_count(value as u64);
    }
    format!("{value:.3}")
}

pub(crate) fn check(data: Data, out: &Output) -> Result<()> {
    let dir = &data.data;
    let report = check_with_progress(&data)?;
    for problem in &report.problems {
        print_error(problem);
    }
    let json = json!({
        "files": report.files,
        "size_bytes": report.size_bytes,
        "records": report.records,
        "rows": report.rows,
        "torn_bytes": report.torn_bytes,
        "problems": report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let found = report.problems.len();
    if found > 0 {
        let printed = match out.json {
            true => out.print(json, String::new),
            false => Ok(()),
        };
        let found = Error::Failed(format!("{found} problems in {}", dir.display()));
        // They are problems also where nobody reads of them.
        return Err(match printed {
            Err(error) if !error.is_broken_pipe() => error,
            _ => found,
        });
    }
    out.print(json, || {
        let size = show_bytes(report.size_bytes);
        let mut text = format!(
            "{}: {} files ({size}) are whole, {} records, {} rows",
            dir.display(),
            report.files,
            report.records,
            report.rows
        );
        if report.torn_bytes > 0 {
            text += &format!(
                "; a crash tore the last {} bytes of a log, as crashes do",
                report.torn_bytes
            );
        }
        text
    })
}

/// First the files are verified, then the trees are built from them and verified.
fn check_with_progress(data: &Data) -> Result<CheckReport> {
    let bar = working("verifying files");
    let progress = bar.clone();
    let report = data
        .builder()
        .progress(Box::new(move |state| {
            progress.set_message(match state.done_bytes < state.total_bytes {
                true => format!(
                    "building the trees: {}",
                    show_share(state.done_bytes, state.total_bytes)
                ),
                false => "verifying the trees".into(),
            });
        }))
        .check(&data.data);
    bar.finish_and_clear();
    Ok(report?)
}

pub(crate) fn checkpoint(data: Data, out: &Output) -> Result<()> {
    let db = open(&data, false, false)?;
    let report = db.checkpoint()?;
    db.close()?;
    let json = json!({
        "records": report.records,
        "size_bytes": report.size_bytes,
        "duration_ms": report.duration_ms,
    });
    out.print(json, || {
        let size = show_bytes(report.size_bytes);
        format!(
            "{} rows, {size}, in {} ms",
            report.records, report.duration_ms
        )
    })
}

fn copied(to: &Path, report: hedgerow::BackupReport, out: &Output) -> Result<()> {
    let json = json!({
        // A path need not be UTF-8.
        "dir": to.display().to_string(),
        "files": report.files,
        "size_bytes": report.size_bytes,
    });
    out.print(json, || {
        let size = show_bytes(report.size_bytes);
        format!("{} files, {size}, in {}", report.files, to.display())
    })
}

pub(crate) fn backup(backup: Backup, out: &Output) -> Result<()> {
    let db = open_to_copy(&backup.data)?;
    let log_dirs = db.log_dirs();
    let whole = bytes_in(&backup.data.data) + bytes_in_all(&log_dirs);
    let report = with_copying_shown(std::slice::from_ref(&backup.to), whole, || {
        db.backup(&backup.to).map_err(|error| match error {
            hedgerow::Error::ReadOnly => Error::Failed(format!(
                "{} cannot be written, and was not closed or is open elsewhere: a backup has to \
                 recover it first; stop whoever has it open, or change its permissions",
                backup.data.data.display()
            )),
            error => error.into(),
        })
    })?;
    db.close()?;
    copied(&backup.to, report, out)
}

/// Opens a database to copy it, for reading only where nothing can be written.
fn open_to_copy(data: &Data) -> Result<Opened> {
    match open(data, false, false) {
        Err(Error::Engine(hedgerow::Error::ReadOnlyDirectory { .. })) => open(data, false, true),
        opened => opened,
    }
}

pub(crate) fn restore(restore: Restore, out: &Output) -> Result<()> {
    let to = &restore.data.data;
    let log_dirs = serve_arguments::log_dirs(restore.log_dir.unwrap_or_default());
    let log_dirs = log_dirs.map_err(Error::Usage)?;
    let builder = restore.data.builder().log_dirs(&log_dirs);
    let whole = bytes_in(&restore.from);
    let targets = [std::slice::from_ref(to), &log_dirs[..]].concat();
    let restored = with_copying_shown(&targets, whole, || Ok(builder.restore(&restore.from, to)));
    let report = restored?.map_err(|error| match error {
        hedgerow::Error::Missing { dir } => Error::Failed(format!(
            "there is no backup in {}; name a directory that hedgerow backup wrote",
            dir.display()
        )),
        error => error.into(),
    })?;
    copied(to, report, out)
}

/// Shows how much is in some directories while something is copied into them, and the share of what
/// it is copied from. A copy has no free blocks of a page file, so it may end before all of that.
fn with_copying_shown<R>(
    to: &[PathBuf],
    whole: u64,
    copy: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let bar = working("preparing the copy");
    if bar.is_hidden() {
        return copy();
    }
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            let often = Duration::from_millis(200);
            while ended.recv_timeout(often) == Err(RecvTimeoutError::Timeout) {
                match bytes_in_all(to) {
                    0 => {}
                    bytes => {
                        let share = show_share(bytes.min(whole), whole);
                        bar.set_message(format!("copying: {share}"));
                    }
                }
            }
        });
        let copied = copy();
        drop(done);
        bar.finish_and_clear();
        copied
    })
}

/// [`bytes_in`] of several directories.
fn bytes_in_all(dirs: &[PathBuf]) -> u64 {
    dirs.iter().map(|dir| bytes_in(dir)).sum()
}

/// Bytes of the files in a directory and those below; what cannot be looked at counts nothing.
fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_in(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "hedgerow", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script).map_err(writing)
}

pub(crate) fn man(dir: PathBuf) -> Result<()> {
    let failed = |source| Error::File {
        operation: "write man pages into",
        file: dir.clone(),
        source,
    };
    std::fs::create_dir_all(&dir).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), &dir).map_err(failed)
}
