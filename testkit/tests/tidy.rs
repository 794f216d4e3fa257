//! Style as a test: the direction of dependencies, where `unsafe` may live and that it is
//! justified, honest citations, and no growing giants. Rules are in ARCHITECTURE.md ("The
//! rooms") and CONTRIBUTING.md; exceptions are listed here, each with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate's folder and the crates of ours that its normal dependencies may name.
const ROOMS: &[(&str, &str, &[&str])] = &[
    ("trees/index", "hedgerow-index", &[]),
    ("trees/simd", "hedgerow-simd", &[]),
    ("storage/sync", "hedgerow-sync", &[]),
    ("storage/memory", "hedgerow-memory", &[]),
    ("storage/vfs", "hedgerow-vfs", &[]),
    (
        "storage/log",
        "hedgerow-log",
        &["hedgerow-vfs", "hedgerow-planted"],
    ),
    (
        "storage/pages",
        "hedgerow-pages",
        &["hedgerow-vfs", "hedgerow-sync", "hedgerow-memory"],
    ),
    (
        "trees/masstree",
        "hedgerow-masstree",
        &[
            "hedgerow-index",
            "hedgerow-simd",
            "hedgerow-sync",
            "hedgerow-memory",
            "hedgerow-planted",
        ],
    ),
    (
        "trees/btree",
        "hedgerow-btree",
        &[
            "hedgerow-index",
            "hedgerow-simd",
            "hedgerow-sync",
            "hedgerow-memory",
            "hedgerow-pages",
        ],
    ),
    (
        "trees/matryoshka",
        "hedgerow-matryoshka",
        &[
            "hedgerow-index",
            "hedgerow-simd",
            "hedgerow-sync",
            "hedgerow-memory",
            "hedgerow-planted",
        ],
    ),
    (
        "engine",
        "hedgerow",
        &[
            "hedgerow-btree",
            "hedgerow-index",
            "hedgerow-pages",
            "hedgerow-masstree",
            "hedgerow-matryoshka",
            "hedgerow-memory",
            "hedgerow-vfs",
            "hedgerow-log",
            "hedgerow-planted",
        ],
    ),
    ("server", "hedgerow-server", &["hedgerow"]),
    ("cli", "hedgerow-cli", &["hedgerow", "hedgerow-server"]),
    ("testkit/planted", "hedgerow-planted", &[]),
    ("testkit/modelled", "hedgerow-modelled", &["hedgerow-sync"]),
    ("testkit/lossy-disk", "hedgerow-lossy-disk", &[]),
    ("testkit", "hedgerow-testkit", EVERYTHING),
    (
        "testkit/campaigns",
        "hedgerow-campaigns",
        &[
            "hedgerow",
            "hedgerow-lossy-disk",
            "hedgerow-matryoshka",
            "hedgerow-testkit",
        ],
    ),
    ("lab/data", "hedgerow-lab-data", &[]),
    (
        "lab/contender",
        "hedgerow-lab-contender",
        &["hedgerow-lab-data"],
    ),
    ("lab/report", "hedgerow-lab-report", &[]),
    (
        "lab/own",
        "hedgerow-lab-own",
        &[
            "hedgerow",
            "hedgerow-btree",
            "hedgerow-index",
            "hedgerow-lab-contender",
            "hedgerow-lab-data",
            "hedgerow-masstree",
            "hedgerow-matryoshka",
            "hedgerow-memory",
            "hedgerow-simd",
            "hedgerow-sync",
        ],
    ),
    (
        "lab/peers",
        "hedgerow-lab-peers",
        &["hedgerow-lab-contender", "hedgerow-lab-data"],
    ),
    ("lab", "hedgerow-lab", EVERYTHING),
];

const EVERYTHING: &[&str] = &[
    "hedgerow-index",
    "hedgerow-simd",
    "hedgerow-sync",
    "hedgerow-memory",
    "hedgerow-vfs",
    "hedgerow-log",
    "hedgerow-pages",
    "hedgerow-masstree",
    "hedgerow-matryoshka",
    "hedgerow-btree",
    "hedgerow",
    "hedgerow-server",
    "hedgerow-planted",
    "hedgerow-lossy-disk",
    "hedgerow-lab-data",
    "hedgerow-lab-contender",
    "hedgerow-lab-report",
    "hedgerow-lab-own",
    "hedgerow-lab-peers",
];

/// Crates whose roots must forbid unsafe code.
const SAFE_ROOTS: &[&str] = &[
    "storage/log/src/lib.rs",
    "engine/src/lib.rs",
    "server/src/lib.rs",
    "cli/src/main.rs",
    "lab/data/src/lib.rs",
    "lab/contender/src/lib.rs",
    "lab/report/src/lib.rs",
    "lab/own/src/lib.rs",
    "lab/src/lib.rs",
    "testkit/planted/src/lib.rs",
    "testkit/modelled/src/lib.rs",
    "testkit/src/lib.rs",
    "testkit/campaigns/src/main.rs",
];

/// Names that say nothing about what a file holds.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "misc", "helper", "helpers", "manager",
];

const MAX_LINES: usize = 700;

fn root() -> PathBuf {
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
        if name.starts_with('.') || name == "target" || name == "corpus" || name == "artifacts" {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Source and documentation files of the workspace as (path from the root, text).
fn files(extension: &str) -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let named = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == extension));
    named
        .map(|path| {
            let relative = path.strip_prefix(&root).expect("walked from the root");
            let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{relative:?}: {e}"));
            (relative.display().to_string(), text)
        })
        .collect()
}

fn assert_none(problems: &[String], rule: &str) {
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn dependencies_point_down_the_table() {
    let mut problems = Vec::new();
    let workspace = manifest(".");
    let members = workspace["workspace"]["members"]
        .as_array()
        .expect("members is a list");
    let rooms: BTreeMap<_, _> = ROOMS
        .iter()
        .map(|(folder, name, uses)| (*folder, (name, uses)))
        .collect();
    for member in members {
        let folder = member.as_str().expect("members are strings");
        let Some((name, allowed)) = rooms.get(folder) else {
            problems.push(format!("{folder} is not in this test's table: add it"));
            continue;
        };
        let manifest = manifest(folder);
        assert_eq!(manifest["package"]["name"].as_str(), Some(**name));
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for dependency in table.keys().filter(|d| d.starts_with("hedgerow")) {
                if !allowed.contains(&dependency.as_str()) {
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
    let missing: Vec<String> = SAFE_ROOTS
        .iter()
        .filter(|path| {
            let text = fs::read_to_string(root().join(path)).expect("a crate root");
            !text.contains("#![forbid(unsafe_code)]")
        })
        .map(|path| format!("{path} lacks #![forbid(unsafe_code)]"))
        .collect();
    assert_none(
        &missing,
        "unsafe code lives in trees, simd, memory, sync, pages and one module of vfs only",
    );
}

#[test]
fn every_unsafe_block_is_justified() {
    let mut problems = Vec::new();
    for (path, text) in files("rs") {
        if path == "testkit/tests/tidy.rs" {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            // The comment stands above the statement; a statement may begin a few lines earlier.
            let above = &lines[i.saturating_sub(12)..=i];
            if opens && !above.iter().any(|l| l.contains("SAFETY:")) {
                problems.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert_none(
        &problems,
        "each unsafe block names the invariant and who upholds it",
    );
}

#[test]
fn names_say_what_files_hold() {
    let empty: Vec<String> = files("rs")
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| {
            let mut parts = Path::new(path).components().map(|part| {
                let part = Path::new(part.as_os_str());
                part.file_stem()
                    .and_then(|stem| stem.to_str())
                    .unwrap_or_default()
                    .to_owned()
            });
            parts.any(|part| EMPTY_NAMES.contains(&part.as_str()))
        })
        .collect();
    assert_none(
        &empty,
        "no file or module is called utils, common, misc, helpers or manager",
    );
}

#[test]
fn files_stay_readable() {
    let mut problems = Vec::new();
    for (path, text) in files("rs") {
        let lines = text.lines().count();
        if lines > MAX_LINES {
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

/// Flags are fields of the command line's definition; commands that errors advise are words there.
#[test]
fn errors_name_flags_that_exist() {
    let sources = files("rs");
    let of = |path: &str| sources.iter().find(|(file, _)| file == path);
    let (_, arguments) = of("cli/src/arguments.rs").expect("the command line is defined there");
    let mut problems = Vec::new();
    let mut named = 0;
    for (file, text) in &sources {
        if !["engine/src/", "storage/"]
            .iter()
            .any(|room| file.starts_with(room))
        {
            continue;
        }
        for flag in text.split("`--").skip(1) {
            let flag = flag.split(['`', ' ']).next().unwrap_or_default();
            named += 1;
            if !arguments.contains(&format!(" {}:", flag.replace('-', "_"))) {
                problems.push(format!("{file} names --{flag}"));
            }
        }
    }
    assert!(named > 3, "there are flags in errors");
    assert_none(&problems, "an error names a flag that exists");
}

#[test]
fn papers_md_cites_only_what_exists() {
    let root = root();
    let mut problems = Vec::new();
    for (path, text) in files("md") {
        if path != "docs/papers.md" {
            continue;
        }
        let dir = root
            .join(&path)
            .parent()
            .expect("a file has a directory")
            .to_path_buf();
        for target in relative_links(&text) {
            if !dir.join(&target).exists() {
                problems.push(format!("{path} links to {target}"));
            }
        }
        for cited in cited_paths(&text) {
            if !root.join(&cited).exists() {
                problems.push(format!("{path} cites {cited}"));
            }
        }
    }
    assert_none(&problems, "links and cited source paths exist");
}

/// Targets of `[text](target)` that are neither URLs nor anchors.
fn relative_links(text: &str) -> Vec<String> {
    let parts = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    parts
        .map(|target| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .collect()
}

/// Backticked words that name a file of ours: they begin with a crate's folder (or `docs`,
/// `fuzz`, `.ci`) and hold no placeholder. A `::item` or `:line` behind the path is ignored.
fn cited_paths(text: &str) -> Vec<String> {
    let mut cited = Vec::new();
    for quoted in text.split('`').skip(1).step_by(2) {
        let path = quoted
            .split(':')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        let ours = ROOMS
            .iter()
            .map(|(folder, ..)| *folder)
            .chain(["docs", "fuzz", ".ci"]);
        let mut starts = ours.map(|folder| path.strip_prefix(folder));
        let is_ours = starts.any(|rest| rest.is_some_and(|r| r.starts_with('/')));
        let plain = path
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if is_ours && plain {
            cited.push(path.to_owned());
        }
    }
    cited
}

#[test]
fn the_citation_finder_finds() {
    let text = "see [x](docs/a.md#b), [y](https://e.org) and `engine/src/lib.rs::Db`, `a/b`, \
                `trees/…`, `cli/`";
    assert_eq!(relative_links(text), ["docs/a.md"]);
    assert_eq!(cited_paths(text), ["engine/src/lib.rs"]);
}
