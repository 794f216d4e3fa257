//! What crates may do: depend on crates below them, and hold unsafe code that is justified.

use std::fs;
use std::path::Path;

use crate::workspace::{Source, assert_none, files, manifest, rooms, root};

#[test]
fn the_table_of_crates_is_complete_and_in_order() {
    let rooms = rooms();
    let mut problems = Vec::new();
    let workspace = manifest(".");
    let members = workspace["workspace"]["members"].as_array();
    for member in members.expect("members is a list") {
        let folder = member.as_str().expect("members are strings");
        if !rooms.iter().any(|room| room.folder == folder) {
            problems.push(format!("{folder} has no row"));
        }
    }
    for (row, room) in rooms.iter().enumerate() {
        let below = &rooms[row + 1..];
        for used in &room.may_use {
            let everything = room.may_use.len() == rooms.len() - 1;
            if !everything && !below.iter().any(|other| other.folder == *used) {
                problems.push(format!(
                    "{} may use {used}, which is not below it",
                    room.folder
                ));
            }
        }
    }
    assert!(rooms.len() > 20, "the table was found");
    assert_none(
        &problems,
        "the table of crates in ARCHITECTURE.md is complete and in order",
    );
}

#[test]
fn dependencies_point_down_the_table() {
    let rooms = rooms();
    let mut problems = Vec::new();
    for (row, room) in rooms.iter().enumerate() {
        let folder = &room.folder;
        let manifest = manifest(folder);
        assert_eq!(
            manifest["package"]["name"].as_str(),
            Some(room.crate_name.as_str())
        );
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for dependency in table.keys().filter(|d| d.starts_with("hedgerow")) {
                let below = rooms[row + 1..]
                    .iter()
                    .find(|r| r.crate_name == *dependency);
                if !below.is_some_and(|other| room.may_use.contains(&other.folder)) {
                    problems.push(format!("{folder}/Cargo.toml [{section}] uses {dependency}"));
                }
            }
        }
    }
    assert_none(
        &problems,
        "dependencies point strictly down the table in ARCHITECTURE.md",
    );
}

#[test]
fn crates_without_unsafe_say_so() {
    let mut problems = Vec::new();
    for room in rooms() {
        let sources = root().join(&room.folder).join("src");
        let roots = [sources.join("lib.rs"), sources.join("main.rs")];
        for path in roots.iter().filter(|path| path.exists()) {
            let text = fs::read_to_string(path).expect("a crate root");
            if text.contains("#![forbid(unsafe_code)]") != room.forbids_unsafe {
                problems.push(path.display().to_string());
            }
        }
    }
    assert_none(
        &problems,
        "a crate root has #![forbid(unsafe_code)] where ARCHITECTURE.md's table says \"forbidden\"",
    );
}

#[test]
fn unsafe_md_has_a_row_for_each_crate_with_unsafe_code() {
    let text = fs::read_to_string(root().join("UNSAFE.md")).expect("UNSAFE.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut rows: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let rooms = rooms();
    let allowed = rooms.iter().filter(|room| !room.forbids_unsafe);
    let mut allowed: Vec<&str> = allowed.map(|room| room.folder.as_str()).collect();
    rows.sort_unstable();
    allowed.sort_unstable();
    assert_eq!(
        rows, allowed,
        "UNSAFE.md explains the crates that ARCHITECTURE.md's table lets have unsafe code"
    );
}

#[test]
fn every_unsafe_block_is_justified() {
    let mut problems = Vec::new();
    for file in files("rs") {
        if Path::new(&file.path).starts_with("testkit/tests/tidy") {
            continue;
        }
        let lines: Vec<&str> = file.text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            // The comment stands above the statement; a statement may begin a few lines earlier.
            let above = &lines[i.saturating_sub(12)..=i];
            if opens && !above.iter().any(|l| l.contains("SAFETY:")) {
                problems.push(format!("{}:{}: {}", file.path, i + 1, line.trim()));
            }
        }
    }
    assert_none(
        &problems,
        "each unsafe block names the invariant and who upholds it",
    );
}

/// Callers of the engine have no name for the errors of the crates below it, so its documentation
/// shows no conversion from them.
#[test]
fn the_engine_shows_no_error_that_callers_cannot_name() {
    let mut problems = Vec::new();
    for Source { path, text } in files("rs") {
        if path != "engine/src/error.rs" {
            continue;
        }
        let mut before = "";
        for line in text.lines() {
            let converts = line.starts_with("impl From<hedgerow_") || line.contains("#[from]");
            if converts && before != "#[doc(hidden)]" {
                problems.push(format!("{path}: {line}"));
            }
            before = line;
        }
    }
    assert_none(
        &problems,
        "conversions within the engine are #[doc(hidden)]",
    );
}

/// New kinds of errors break no caller's build.
#[test]
fn error_enums_are_non_exhaustive() {
    let mut problems = Vec::new();
    for Source { path, text } in files("rs") {
        let mut says_so = false;
        for line in text.lines() {
            let name = line.strip_prefix("pub enum ");
            let name = name.and_then(|rest| rest.split([' ', '<']).next());
            if name.is_some_and(|name| name.ends_with("Error")) && !says_so {
                problems.push(format!("{path}: {line}"));
            }
            says_so = line == "#[non_exhaustive]" || (says_so && line.starts_with("#["));
        }
    }
    assert_none(&problems, "error enums are #[non_exhaustive]");
}
