//! What the rules look at: the workspace's files, and the table of crates in ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that a program writes, by commands that stand beside what they are written from. They look
/// as that program wants, so the rules for sources leave them out.
const GENERATED: &[&str] = &["backends/hbase/src/thrift2.rs"];

/// A file of the workspace.
pub struct Source {
    /// From the workspace's root, with `/` between its parts.
    pub path: String,
    pub text: String,
}

/// A row of the table of crates in ARCHITECTURE.md.
pub struct Room {
    /// The crate's folder, without a slash at its end.
    pub folder: String,
    pub crate_name: String,
    /// Folders whose crates it may depend on.
    pub may_use: Vec<String>,
    /// Whether its root must forbid unsafe code.
    pub forbids_unsafe: bool,
}

pub fn root() -> PathBuf {
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
    testkit
        .parent()
        .expect("testkit lies in the workspace")
        .to_path_buf()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("a readable directory").path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name.starts_with('.') || ["target", "corpus", "artifacts", "golden"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The workspace's files whose names end in `.extension`, in the order of their paths, without
/// generated ones.
pub fn files(extension: &str) -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let is_generated = |path: &Path| GENERATED.iter().any(|generated| path.ends_with(generated));
    let named = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == extension) && !is_generated(path));
    named
        .map(|path| {
            let relative = path.strip_prefix(&root).expect("walked from the root");
            let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{relative:?}: {e}"));
            Source {
                path: relative.display().to_string(),
                text,
            }
        })
        .collect()
}

/// The `Cargo.toml` in a folder.
pub fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table of crates in ARCHITECTURE.md, from its first row to its last.
pub fn rooms() -> Vec<Room> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    parse_rooms(&text)
}

/// Reads the rows of the form ``| `folder` | `crate` | … | may use | unsafe |``.
pub fn parse_rooms(text: &str) -> Vec<Room> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, crate_name, _, may_use, unsafe_code] = cells[..] else {
            continue;
        };
        let crate_name = crate_name.trim_matches('`');
        if !crate_name.starts_with("hedgerow") {
            continue;
        }
        let folder = folder.trim_matches('`').trim_end_matches('/');
        rows.push((folder.to_owned(), crate_name, may_use, unsafe_code));
    }
    let folders: Vec<String> = rows.iter().map(|(folder, ..)| folder.clone()).collect();
    rows.into_iter()
        .map(|(folder, crate_name, may_use, unsafe_code)| Room {
            may_use: named_folders(may_use, &folders, &folder),
            folder,
            crate_name: crate_name.to_owned(),
            forbids_unsafe: unsafe_code == "forbidden",
        })
        .collect()
}

/// The folders that a cell of the column "may use" names: each word is a folder, the last part of
/// one, or what several begin with; "everything" is all but `own`, a dash is none.
fn named_folders(cell: &str, folders: &[String], own: &str) -> Vec<String> {
    let mut named = Vec::new();
    for word in cell.split(',').map(str::trim).filter(|word| *word != "–") {
        let matches = folders.iter().filter(|folder| {
            word == "everything"
                || *folder == word
                || folder.ends_with(&format!("/{word}"))
                || folder.starts_with(&format!("{word}/"))
        });
        let matches: Vec<String> = matches.filter(|folder| *folder != own).cloned().collect();
        assert!(
            !matches.is_empty(),
            "ARCHITECTURE.md: {own} may use {word}, which no row is"
        );
        named.extend(matches);
    }
    named
}

/// Fails with all `problems` if there are any.
pub fn assert_none(problems: &[String], rule: &str) {
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}
