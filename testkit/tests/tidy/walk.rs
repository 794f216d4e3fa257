//! ARCHITECTURE.md's walk from socket to page: the functions that it names exist in the files
//! beside them, and each of its arrows is a call.

use std::fs;

use crate::readable::functions;
use crate::workspace::{Source, assert_none, root};

const SECTION: &str = "\n## From socket to page\n";

const ARROW: char = '►';

#[test]
fn the_walk_can_be_followed() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map of the code");
    let (_, section) = document.split_once(SECTION).expect("the walk");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = rows(section);
    let mut problems = Vec::new();
    let mut arrows = 0;
    let mut sources = Vec::new();
    for row in &rows {
        let files: Vec<Source> = row.files.iter().map(|path| source(path)).collect();
        for chain in &row.chains {
            problems.extend(chain.iter().filter_map(|name| undeclared(name, &files)));
            arrows += chain.len() - 1;
            problems.extend(chain.windows(2).filter_map(|pair| uncalled(pair, &files)));
        }
        sources.extend(files);
    }
    for pair in drawn_arrows(section) {
        arrows += 1;
        problems.extend(uncalled(&pair, &sources));
    }
    assert!(rows.len() > 20 && arrows > 40, "the walk is whole");
    assert_none(
        &problems,
        "a reader can follow the walk from socket to page",
    );
}

/// A row of the walk's tables.
#[derive(Debug, PartialEq)]
struct Row {
    /// Functions that call each other, the caller first.
    chains: Vec<Vec<String>>,
    files: Vec<String>,
}

/// The rows whose second cell names files of code.
fn rows(section: &str) -> Vec<Row> {
    let cells = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.next()?))
    });
    let rows = cells.map(|(calls, files)| Row {
        chains: chains(calls),
        files: quoted(files).filter(|file| file.ends_with(".rs")).collect(),
    });
    rows.filter(|row| !row.files.is_empty()).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The names of a cell, in chains that arrows join.
fn chains(cell: &str) -> Vec<Vec<String>> {
    let mut chains: Vec<Vec<String>> = Vec::new();
    let mut parts = cell.split('`');
    while let (Some(between), Some(name)) = (parts.next(), parts.next()) {
        match chains.last_mut().filter(|_| between.contains(ARROW)) {
            Some(chain) => chain.push(name.to_owned()),
            None => chains.push(vec![name.to_owned()]),
        }
    }
    chains
}

/// Caller and callee of each arrow between two names of a line of the drawing.
fn drawn_arrows(section: &str) -> Vec<[String; 2]> {
    let drawing = section.split("```").nth(1).unwrap_or_default();
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut arrows = Vec::new();
    for line in drawing.lines() {
        let parts: Vec<&str> = line.split(ARROW).collect();
        for pair in parts.windows(2) {
            let caller = pair[0].split_whitespace().next_back().filter(is_name);
            let callee = pair[1].split_whitespace().next().filter(is_name);
            if let (Some(caller), Some(callee)) = (caller, callee) {
                arrows.push([caller, callee].map(|name| name.trim_end_matches(',').to_owned()));
            }
        }
    }
    arrows
}

fn source(path: &str) -> Source {
    let text = fs::read_to_string(root().join(path));
    Source {
        text: text.unwrap_or_else(|e| panic!("ARCHITECTURE.md names {path}: {e}")),
        path: path.to_owned(),
    }
}

/// The function of `Type::function` or `module::function`, and what it belongs to.
fn parts_of(name: &str) -> (Option<&str>, &str) {
    match name.rsplit_once("::") {
        Some((owner, function)) => (Some(owner), function),
        None => (None, name),
    }
}

/// What is wrong if no file declares a function of this name, beside its owner.
fn undeclared(name: &str, files: &[Source]) -> Option<String> {
    let (owner, function) = parts_of(name);
    let declares = |file: &Source| {
        let has_owner = owner.is_none_or(|o| file.text.contains(o) || file.path.contains(o));
        has_owner
            && file.text.contains(function)
            && functions(&file.text).iter().any(|f| f.name == function)
    };
    (!files.iter().any(declares)).then(|| format!("{name} is in none of its row's files"))
}

/// What is wrong if no function with the caller's name calls one with the callee's.
fn uncalled(pair: &[String], files: &[Source]) -> Option<String> {
    let (_, caller) = parts_of(&pair[0]);
    let (_, callee) = parts_of(&pair[1]);
    let calls_it = |file: &Source| {
        if !file.text.contains(caller) || !file.text.contains(callee) {
            return false;
        }
        let lines: Vec<&str> = file.text.lines().collect();
        let bodies = functions(&file.text);
        let mut bodies = bodies.iter().filter(|function| function.name == caller);
        bodies.any(|body| {
            let body = &lines[body.line..body.line + body.lines - 1];
            body.iter().any(|line| calls(line, callee))
        })
    };
    let found = files.iter().any(calls_it);
    (!found).then(|| format!("{} does not call {}", pair[0], pair[1]))
}

/// Whether a line of code has `function(` or `function::<`.
fn calls(line: &str, function: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(function).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let behind = &code[at + function.len()..];
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            && (behind.starts_with('(') || behind.starts_with("::<"))
    })
}

#[test]
fn what_cannot_be_followed_is_found() {
    let section = "```\nsocket\n │ A::run ► tick, x\n        ► parse\n```\n\
                   | call | file | what |\n|---|---|---|\n\
                   | `A::run` ► `tick`; `gone` | `a.rs` | `z` |\n";
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>()
    };
    let row = Row {
        chains: vec![names(&["A::run", "tick"]), names(&["gone"])],
        files: names(&["a.rs"]),
    };
    assert_eq!(rows(section), [row]);
    assert_eq!(
        drawn_arrows(section),
        [["A::run", "tick"].map(str::to_owned)]
    );
    let text = "impl A {\n    fn run(&self) {\n        self.tick(1);\n    }\n}\n\
                fn tick() {\n    // run()\n    rerun();\n}\n";
    let files = [Source {
        path: "a.rs".to_owned(),
        text: text.to_owned(),
    }];
    assert_eq!(undeclared("A::run", &files), None);
    assert!(undeclared("B::run", &files).is_some() && undeclared("gone", &files).is_some());
    assert_eq!(uncalled(&names(&["A::run", "tick"]), &files), None);
    assert!(uncalled(&names(&["tick", "A::run"]), &files).is_some());
}
