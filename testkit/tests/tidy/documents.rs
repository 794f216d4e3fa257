//! What documents may say: paths that exist, flags and commands that exist.

use std::fs;
use std::path::Path;

use crate::workspace::{Source, assert_none, files, rooms, root};

/// Flags are fields of the command line's definition; commands that errors advise are words there.
#[test]
fn errors_name_flags_that_exist() {
    let sources = files("rs");
    let defines = ["cli/src/arguments.rs", "cli/src/serve_arguments.rs"];
    let defining = sources.iter();
    let defining = defining.filter(|file| defines.contains(&file.path.as_str()));
    let arguments: String = defining.map(|file| file.text.as_str()).collect();
    assert!(!arguments.is_empty(), "the command line is defined there");
    let mut problems = Vec::new();
    let mut named = 0;
    for Source { path, text } in &sources {
        if !path.starts_with("engine/src/") && !path.starts_with("storage/") {
            continue;
        }
        for flag in text.split("`--").skip(1) {
            let flag = flag.split(['`', ' ']).next().unwrap_or_default();
            named += 1;
            let field = format!(" {}:", flag.replace('-', "_"));
            if !arguments.contains(&field) {
                problems.push(format!("{path} names --{flag}"));
            }
        }
    }
    assert!(named > 3, "there are flags in errors");
    assert_none(&problems, "an error names a flag that exists");
}

#[test]
fn documents_cite_only_what_exists() {
    let root = root();
    let folders = our_folders();
    let mut problems = Vec::new();
    for Source { path, text } in files("md") {
        let text = without_code_blocks(&text);
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for target in relative_links(&text) {
            if !root.join(folder).join(&target).exists() {
                problems.push(format!("{path} links to {target}"));
            }
        }
        for cited in cited_paths(&text, &folders) {
            if !root.join(&cited).exists() {
                problems.push(format!("{path} cites {cited}"));
            }
        }
    }
    assert_none(&problems, "links and cited source paths exist");
}

#[test]
fn tables_are_whole() {
    let mut problems = Vec::new();
    for Source { path, text } in files("md") {
        let text = without_code_blocks(&text);
        let rows = rows_without_head(&text);
        problems.extend(rows.iter().map(|row| format!("{path}: {row}")));
    }
    assert_none(&problems, "a table begins with a head and a line of dashes");
}

/// First rows of tables that no line of dashes follows: an empty line cut their table in two.
fn rows_without_head(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |at: usize| lines.get(at).is_some_and(|line| line.starts_with('|'));
    let is_dashes = |at: usize| {
        let line = lines.get(at).copied().unwrap_or_default();
        line.contains('-') && line.chars().all(|c| "|-: ".contains(c))
    };
    (0..lines.len())
        .filter(|&at| is_row(at) && !(at > 0 && is_row(at - 1)) && !is_dashes(at + 1))
        .map(|at| lines[at])
        .collect()
}

#[test]
fn a_table_cut_in_two_is_found() {
    let whole = "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n";
    assert!(rows_without_head(whole).is_empty());
    let cut = whole.replace("| 3", "\n| 3");
    assert_eq!(rows_without_head(&cut), ["| 3 | 4 |"]);
}

#[test]
fn links_to_sections_find_them() {
    let root = root();
    let mut problems = Vec::new();
    let mut followed = 0;
    for Source { path, text } in files("md") {
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for (target, anchor) in links_to_sections(&without_code_blocks(&text)) {
            let document = match target.as_str() {
                "" => root.join(&path),
                target => root.join(folder).join(target),
            };
            let document = fs::read_to_string(document).unwrap_or_default();
            followed += 1;
            if !anchors(&document).contains(&anchor) {
                problems.push(format!("{path} links to {target}#{anchor}"));
            }
        }
    }
    assert!(followed > 20, "there are links to sections");
    assert_none(&problems, "a link to a section names one that exists");
}

/// What a cited path of ours may begin with.
fn our_folders() -> Vec<String> {
    let rooms = rooms().into_iter().map(|room| room.folder);
    let others = ["docs", "fuzz", "results", ".ci"].map(str::to_owned);
    rooms.chain(others).collect()
}

/// A document without what stands between lines of three backticks.
pub fn without_code_blocks(text: &str) -> String {
    let mut outside = true;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            outside = !outside;
        } else if outside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
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

/// Document (none for the same one) and anchor of `[text](document#anchor)`.
fn links_to_sections(text: &str) -> Vec<(String, String)> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next()?.split_once('#'));
    targets
        .filter(|(document, _)| !document.contains("://"))
        .map(|(document, anchor)| (document.to_owned(), anchor.to_owned()))
        .collect()
}

/// The anchors that a document's headings make: small letters, blanks as dashes, and of all else
/// only digits, dashes and underscores.
fn anchors(text: &str) -> Vec<String> {
    let text = without_code_blocks(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let kept = line
            .trim_start_matches('#')
            .trim()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c => c.is_alphanumeric().then_some(c),
            });
        kept.collect::<String>().to_lowercase()
    };
    headings.map(anchor).collect()
}

/// Backticked words that name a file of ours: they begin with one of `folders` and hold no
/// placeholder. A `::item` or `:line` behind the path is ignored.
fn cited_paths(text: &str, folders: &[String]) -> Vec<String> {
    let mut cited = Vec::new();
    for quoted in text.split('`').skip(1).step_by(2) {
        let path = quoted.split(':').next().unwrap_or_default();
        let path = path.trim_end_matches('/');
        let is_ours = folders.iter().any(|folder| {
            let rest = path.strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        let is_plain = path
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if is_ours && is_plain {
            cited.push(path.to_owned());
        }
    }
    cited
}

#[test]
fn the_citation_finder_finds() {
    let text = "see [x](docs/a.md#b), [y](https://e.org) and `engine/src/lib.rs::Db`, `a/b`, \
                `trees/…`, `cli/`\n```\n`engine/none`\n```\n";
    assert_eq!(relative_links(text), ["docs/a.md"]);
    assert_eq!(
        links_to_sections(text),
        [("docs/a.md".to_owned(), "b".to_owned())]
    );
    assert_eq!(anchors("# A `b`, or c?\n```\n# no\n```\n"), ["a-b-or-c"]);
    let folders = ["engine".to_owned(), "cli".to_owned()];
    let text = without_code_blocks(text);
    assert_eq!(cited_paths(&text, &folders), ["engine/src/lib.rs"]);
}
