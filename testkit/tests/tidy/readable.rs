//! What a reader can take in at once: functions of at most 70 lines, lines of at most 100 columns.

use crate::workspace::{Source, assert_none, files};

const MAX_FUNCTION_LINES: usize = 70;

const MAX_COLUMNS: usize = 100;

#[test]
fn functions_stay_readable() {
    let mut problems = Vec::new();
    for Source { path, text } in files("rs") {
        for function in functions(&text) {
            if function.lines > MAX_FUNCTION_LINES {
                let Function { name, line, lines } = function;
                problems.push(format!("{path}:{line}: {name} has {lines} lines"));
            }
        }
    }
    assert_none(&problems, "a function has at most 70 lines");
}

#[test]
fn lines_stay_readable() {
    let mut problems = Vec::new();
    for Source { path, text } in files("rs") {
        let lines = text.lines().zip(1..).zip(are_drawn(&text));
        for ((line, nth), _) in lines.filter(|(_, is_drawn)| !is_drawn) {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                problems.push(format!("{path}:{nth}: {columns} columns"));
            }
        }
    }
    assert_none(&problems, "a line has at most 100 columns");
}

/// For each line whether it is a row of a table or stands in a fenced block of a comment: commands
/// and what programs print cannot be wrapped.
fn are_drawn(text: &str) -> Vec<bool> {
    let mut in_fence = false;
    let lines = text.lines().map(|line| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_fence = false;
            return false;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        let is_fence = comment.starts_with("```");
        let is_code = is_fence && !comment.contains("text") && !in_fence;
        in_fence = (in_fence != is_fence) && !is_code;
        in_fence || comment.starts_with('|')
    });
    lines.collect()
}

#[test]
fn drawn_lines_are_told_apart() {
    let text = "//! prose\n//! | a | b |\n//! ```text\n//! $ run\n//! ```\n//! prose\n//! ```\n\
                //! let a = 1;\n//! ```\n//! prose\nfn a() {}";
    let drawn: Vec<usize> = (0..)
        .zip(are_drawn(text))
        .filter(|(_, d)| *d)
        .map(|(i, _)| i)
        .collect();
    assert_eq!(drawn, [1, 2, 3]);
}

pub struct Function {
    pub name: String,
    /// Where it begins, from 1.
    pub line: usize,
    pub lines: usize,
}

/// The functions with bodies of a file that rustfmt has laid out: from the line with `fn` to the
/// closing brace with the same indentation.
pub fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some(name) = declared_function(code) else {
            continue;
        };
        if code.ends_with(['}', ';']) {
            continue;
        }
        let ends_here = |line: &&&str| {
            let rest = line.strip_prefix(indent);
            rest.is_some_and(|rest| {
                rest.starts_with('}') || !rest.starts_with(' ') && rest.ends_with(';')
            })
        };
        let length = lines[start + 1..]
            .iter()
            .take_while(|l| !ends_here(l))
            .count()
            + 2;
        found.push(Function {
            name: name.to_owned(),
            line: start + 1,
            lines: length,
        });
    }
    found
}

/// The name of the function that a line of code begins to declare.
fn declared_function(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let qualifiers = ["", "pub", "const", "async", "unsafe", "extern", "\"C\""];
    let are_qualifiers = before
        .split(' ')
        .all(|word| qualifiers.contains(&word) || word.starts_with("pub("));
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (are_qualifiers && end > 0).then(|| &after[..end])
}

#[test]
fn the_function_finder_finds() {
    let text = "impl A {\n    pub(crate) unsafe fn long<T>(\n        a: T,\n    ) -> u8 {\n        \
                b\n    }\n    fn short() {}\n}\nfn declared(\n);\nlet fn_pointer: fn (u8);\n";
    let found: Vec<(String, usize, usize)> = functions(text)
        .into_iter()
        .map(|function| (function.name, function.line, function.lines))
        .collect();
    let expected = [("long".to_owned(), 2, 5), ("declared".to_owned(), 9, 2)];
    assert_eq!(found, expected);
}
