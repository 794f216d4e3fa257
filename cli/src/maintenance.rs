//! Care for a database: numbers, verification, checkpoints, copies; and the command's own papers.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::{Map, Value, json};

use crate::arguments::{Arguments, Backup, Data, Restore, Stats};
use crate::data::open;
use crate::error::{Error, Result, writing};
use crate::output::Output;
use crate::size::show_bytes;

pub(crate) fn stats(stats: Stats, out: &Output) -> Result<()> {
    let db = open(&stats.data, false, true)?;
    let mut groups = vec![("database".to_owned(), db.statistics())];
    if stats.index {
        for name in db.keyspaces() {
            let keyspace = db.open_keyspace(&name)?;
            groups.push((format!("keyspace {name}"), keyspace.index_statistics()?));
        }
    }
    let json = groups.iter().map(|(group, list)| {
        let numbers = list
            .iter()
            .map(|entry| (entry.name.to_owned(), json!(entry.value)));
        (group.clone(), Value::Object(numbers.collect::<Map<_, _>>()))
    });
    out.print(Value::Object(json.collect()), || {
        let mut text = String::new();
        for (group, list) in &groups {
            text += &format!("{group}\n");
            for entry in list.iter() {
                text += &format!("  {:<32} {:>16}  {}\n", entry.name, entry.value, entry.help);
            }
        }
        text.trim_end().to_owned()
    })
}

pub(crate) fn check(data: Data, out: &Output) -> Result<()> {
    let dir = &data.data;
    let report = data.builder().check(dir)?;
    for problem in &report.problems {
        eprintln!("hedgerow: {problem}");
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
        if out.json {
            out.print(json, String::new)?;
        }
        return Err(Error::Failed(format!(
            "{found} problems in {}",
            dir.display()
        )));
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
    let json = json!({ "dir": to, "files": report.files, "size_bytes": report.size_bytes });
    out.print(json, || {
        let size = show_bytes(report.size_bytes);
        format!("{} files, {size}, in {}", report.files, to.display())
    })
}

pub(crate) fn backup(backup: Backup, out: &Output) -> Result<()> {
    let db = open(&backup.data, false, false)?;
    let report = db.backup(&backup.to)?;
    db.close()?;
    copied(&backup.to, report, out)
}

pub(crate) fn restore(restore: Restore, out: &Output) -> Result<()> {
    let report = restore
        .data
        .builder()
        .restore(&restore.from, &restore.data.data)?;
    copied(&restore.data.data, report, out)
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
