//! What source files may look like: names that say what they hold, no file too long to
//! read, and no file that nothing includes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::workspace::{Source, assert_none, files, root};

/// Names that say nothing about what a file holds.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "misc", "helper", "helpers", "manager",
];

const MAX_FILE_LINES: usize = 700;

#[test]
fn names_say_what_files_hold() {
    let is_empty = |path: &str| {
        let mut parts = Path::new(path).components().map(|part| {
            let name = Path::new(part.as_os_str()).file_stem();
            name.and_then(|name| name.to_str()).unwrap_or_default()
        });
        parts.any(|part| EMPTY_NAMES.contains(&part))
    };
    let paths = files("rs").into_iter().map(|file| file.path);
    let empty: Vec<String> = paths.filter(|path| is_empty(path)).collect();
    assert_none(
        &empty,
        "no file or module is called utils, common, misc, helpers or manager",
    );
}

#[test]
fn files_stay_readable() {
    let mut problems = Vec::new();
    for Source { path, text } in files("rs") {
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            problems.push(format!("{path} has {lines} lines"));
        }
        let first = text
            .lines()
            .find(|line| !line.starts_with("#!") && !line.trim().is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            problems.push(format!("{path} does not begin with a //! paragraph"));
        }
    }
    assert_none(
        &problems,
        "files under 700 lines that begin by explaining themselves",
    );
}

/// Every file is a root that cargo builds, or a root names it by `mod`, through others or itself.
#[test]
fn every_file_is_included() {
    let sources = files("rs");
    let paths: BTreeSet<&str> = sources.iter().map(|file| file.path.as_str()).collect();
    let mut included: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = paths
        .iter()
        .filter(|path| is_root(path))
        .map(|path| (*path).to_owned())
        .collect();
    while let Some(path) = open.pop() {
        let file = sources.iter().find(|file| file.path == path);
        open.extend(named_modules(file.expect("a source file"), &paths));
        included.insert(path);
    }
    let orphans: Vec<String> = paths
        .iter()
        .filter(|path| !included.contains(**path))
        .map(|path| (*path).to_owned())
        .collect();
    assert_none(&orphans, "each source file is part of a crate");
}

/// Whether cargo compiles the file by itself: a crate's root, a test, an example, a fuzz target.
fn is_root(path: &str) -> bool {
    let path = Path::new(path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let stands_in = |parent: &Path| {
        parent
            .file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| ["tests", "examples", "benches", "bin", "fuzz_targets"].contains(&n))
    };
    let root_of_crate = folder.ends_with("src") && ["lib.rs", "main.rs"].contains(&name);
    let root_in_folder = name == "main.rs" && folder.parent().is_some_and(stands_in);
    name == "build.rs" || root_of_crate || root_in_folder || stands_in(folder)
}

/// The files of the modules that a file declares (`mod x;`, or by `#[path = "…"]`).
fn named_modules(file: &Source, paths: &BTreeSet<&str>) -> Vec<String> {
    let path = Path::new(&file.path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let module = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    let below = if is_root(&file.path) || module == "mod" {
        folder.to_path_buf()
    } else {
        folder.join(module)
    };
    let mut named = Vec::new();
    let mut given: Option<PathBuf> = None;
    for line in file.text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            given = rest.split('"').next().map(|p| folder.join(p));
            continue;
        }
        let Some(declared) = line.strip_suffix(';').and_then(|l| l.rsplit_once("mod ")) else {
            continue;
        };
        let candidates = match given.take() {
            Some(path) => vec![path],
            None => vec![
                below.join(format!("{}.rs", declared.1)),
                below.join(declared.1).join("mod.rs"),
            ],
        };
        let candidates = candidates.iter().map(|path| without_dots(path));
        named.extend(candidates.filter(|path| paths.contains(path.as_str())));
    }
    named
}

/// A relative path without `..`.
fn without_dots(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().filter_map(|part| part.to_str()) {
        if part == ".." {
            parts.pop();
        } else if part != "." {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[test]
fn paths_lose_their_dots() {
    let path = root().join("engine/../server/./src");
    let path = path.strip_prefix(root()).expect("below the root");
    assert_eq!(without_dots(path), "server/src");
}
