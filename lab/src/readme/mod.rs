//! The README's tables, from results of the lab.
//!
//! A table stands in the README between two comments. The first names the table and the file of
//! results that it is made from, so that the README can be checked at any time:
//!
//! ```text
//! <!-- table: maps from results/readme.jsonl -->
//! …
//! <!-- end of table -->
//! ```
//!
//! `tables` says what each row shows, `figures` finds it in the results, `markdown` writes it and
//! `markers` puts it in its place. `runs` are the runs that all rows need.

mod figures;
mod markdown;
mod markers;
mod runs;
mod table;
mod tables;

use std::path::{Path, PathBuf};

use hedgerow_lab_report::{Results, read_files};

use crate::{LabError, Result};

pub use runs::{GROUP, PARTS, Part};

/// Arguments of `hedgerow-lab readme`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReadmeArguments {
    /// The results that all tables are made from; without it, each is made from the file that its
    /// comment names.
    results: Option<PathBuf>,
    /// The document with the tables.
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    file: PathBuf,
    /// Change nothing, and fail if the document and the results disagree.
    #[arg(long)]
    check: bool,
}

/// Writes the tables of the document anew, or compares them.
///
/// # Errors
///
/// A file that cannot be read or written, a comment that is not whole, a figure that the results
/// lack, and, where it only checks, a table that is not what the results say.
pub fn run(arguments: &ReadmeArguments) -> Result<()> {
    let document = &arguments.file;
    let text =
        std::fs::read_to_string(document).map_err(|error| cannot("read", document, error))?;
    let folder = match document.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let from = arguments.results.as_deref();
    let from = from.map(|file| within(folder, file)).transpose()?;
    let name = document.display().to_string();
    let rewritten = rewritten(&text, folder, from.as_deref())
        .map_err(|problem| LabError::Usage(format!("{name}: {problem}")))?;
    if !arguments.check {
        return Ok(std::fs::write(document, rewritten)?);
    }
    let mut lines = text.lines().zip(rewritten.lines()).enumerate();
    match lines.find(|(_, (is, should_be))| is != should_be) {
        None if text == rewritten => Ok(()),
        None => Err(differs(&name, text.lines().count(), "")),
        Some((at, (_, should_be))) => Err(differs(&name, at + 1, should_be)),
    }
}

fn differs(document: &str, line: usize, should_be: &str) -> LabError {
    LabError::Usage(format!(
        "{document}:{line}: not what the results say (`hedgerow-lab readme` writes it anew): \
         {should_be}"
    ))
}

fn cannot(what: &str, file: &Path, error: std::io::Error) -> LabError {
    LabError::Usage(format!("cannot {what} {}: {error}", file.display()))
}

/// A file's path as a document in `folder` names it.
fn within(folder: &Path, file: &Path) -> Result<String> {
    let full = |path: &Path| path.canonicalize().map_err(|e| cannot("find", path, e));
    let inside = full(file)?;
    let inside = inside.strip_prefix(full(folder)?).map_err(|_| {
        LabError::Usage(format!(
            "{} is not in the document's folder, so the document cannot name it",
            file.display()
        ))
    })?;
    Ok(inside.display().to_string())
}

/// The document with its tables made anew: from the results `from`, or from those that each
/// table's comment names.
fn rewritten(text: &str, folder: &Path, from: Option<&str>) -> std::result::Result<String, String> {
    let mut known: Vec<(String, Results)> = Vec::new();
    let mut missing: Vec<&str> = tables::ALL.iter().map(|table| table.name).collect();
    let rewritten = markers::replaced(text, |name, named| {
        let table = tables::ALL.iter().find(|table| table.name == name);
        let table = table.ok_or_else(|| {
            let names: Vec<&str> = tables::ALL.iter().map(|table| table.name).collect();
            format!(
                "no table is called `{name}`; there are {}",
                names.join(", ")
            )
        })?;
        missing.retain(|other| *other != name);
        let file = from.unwrap_or(named);
        if !known.iter().any(|(of, _)| of == file) {
            let read = read_files(&[folder.join(file)]).map_err(|error| error.to_string())?;
            known.push((file.to_owned(), read));
        }
        let (_, results) = known
            .iter()
            .find(|(of, _)| of == file)
            .expect("it was read");
        let lines = markdown::lines(table, results, file)
            .map_err(|problem| format!("table `{name}` from {file}: {problem}"))?;
        Ok((file.to_owned(), lines))
    })?;
    match missing.as_slice() {
        [] => Ok(rewritten),
        [first, ..] => Err(format!("there is no `<!-- table: {first} from FILE -->`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn readme() -> String {
        std::fs::read_to_string(Path::new(ROOT).join("README.md")).expect("a README")
    }

    #[test]
    fn the_readme_says_what_the_committed_results_say() {
        let arguments = ReadmeArguments {
            results: None,
            file: Path::new(ROOT).join("README.md"),
            check: true,
        };
        run(&arguments).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn a_figure_that_was_changed_by_hand_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let copied = folder.path().join("README.md");
        let results = Path::new(ROOT)
            .canonicalize()
            .expect("the root")
            .join("results");
        let named = readme().replace(" from results/", &format!(" from {}/", results.display()));
        std::fs::write(&copied, named).expect("a copy");
        let with = |check| ReadmeArguments {
            results: None,
            file: copied.clone(),
            check,
        };
        run(&with(false)).expect("the tables of the same results");
        run(&with(true)).expect("what was just written");
        let text = std::fs::read_to_string(&copied).expect("a copy");
        let changed = text.replacen(
            "| ratio |\n|---|---|---|---|\n",
            "| ratio |\n|-|-|-|-|\n",
            1,
        );
        std::fs::write(&copied, changed).expect("a copy");
        let error = run(&with(true)).expect_err("a difference").to_string();
        assert!(error.contains("not what the results say"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let rewritten = |text: &str, from| rewritten(text, Path::new(ROOT), from);
        let other = Some("results/masstree-persistence-10m.jsonl");
        let error = rewritten(&readme(), other).expect_err("no such experiment");
        assert!(
            error.contains("table `maps`") && error.contains("no run of masstree"),
            "{error}"
        );
        let fewer = Some("results/masstree-operations-10m.jsonl");
        let error = rewritten(&readme(), fewer).expect_err("no such contender");
        let said = "masstree/operations has no `get` of matryoshka flat u64";
        assert!(error.contains(said), "{error}");
        let without = readme().replace("<!-- table: servers from", "<!-- servers from");
        let error = rewritten(&without, None).expect_err("a table less");
        assert!(error.contains("a table ends that did not begin"), "{error}");
        let unknown = readme().replace("<!-- table: servers from", "<!-- table: server from");
        let error = rewritten(&unknown, None).expect_err("no such table");
        assert!(error.contains("no table is called `server`"), "{error}");
    }
}
