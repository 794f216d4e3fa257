//! Words of our own making for which databases have one already: none comes back, neither in the
//! names of the code nor in comments and documents.

use crate::workspace::{Source, assert_none, files};

/// Words that stand nowhere, and what to say instead.
const NOWHERE: &[Instead] = &[
    instead("bury buries buried", "drop retired"),
    instead("coin coins", "sampler"),
    instead("duel duels", "race test"),
    instead("gather gathers gathered", "copy values, collect"),
    instead("glance glances", "optimistic lookup"),
    instead("going range", "closed range"),
    instead("lend lends lent", "reserve memory, borrow"),
    instead("loan loans", "memory reservation"),
    instead("patience", "timeout, backoff"),
    instead("rack racks", "shared overflow page"),
    instead(
        "settle settles settled settling",
        "apply_deferred, wait_durable, end_tick",
    ),
    instead("stem stems", "key prefix"),
    instead("survey surveys surveyed", "statistics"),
    instead("tender tenders", "page cleaner"),
    instead("uninstall uninstalls uninstalled", "remove row"),
    instead("unite unites united uniting", "merge"),
    instead("vacate vacates vacated vacating", "free"),
    instead("vacancy vacancies", "pending frees"),
    instead("wish wishes", "prefetch queue"),
];

/// Words that are plain English in prose, but tell nothing as names of types, constants, modules
/// and functions. Functions with names that are sentences (tests) may have them.
const NO_NAMES: &[Instead] = &[
    instead("aim", "search target"),
    instead("carried", "replayed"),
    instead("held", "resident, allocated, locked, reserved"),
    instead("life lives", "process run, workload, history"),
    instead("kept", "reserved, retained"),
    instead("lane lanes", "slots"),
    instead("lots", "parking slots"),
    instead("note notes", "record, version snapshot"),
    instead("reach reaches", "subrange, extent"),
    instead("told", "reported, or what was decided"),
    instead("noted", "version snapshot"),
    instead("tell", "notify, report, wake"),
    instead("turn turns", "tick, round"),
];

/// A function's name of more words than this is a sentence.
const MOST_WORDS_OF_A_NAME: usize = 4;

/// Where a banned word is right. The list is exact: it can only get shorter.
const EXCEPTED: &[Exception] = &[
    excepted("lab/comparison-trees/src/static_tree.rs", "lane", VECTOR),
    excepted("trees/matryoshka/src/node_key.rs", "lanes", VECTOR),
];

const VECTOR: &str = "an element of a vector register";

/// Here the words are named.
const THIS_FILE: &str = "testkit/tests/tidy/words.rs";

struct Instead {
    /// One in its forms, or one of several parts.
    words: &'static str,
    say: &'static str,
}

const fn instead(words: &'static str, say: &'static str) -> Instead {
    Instead { words, say }
}

struct Exception {
    path: &'static str,
    word: &'static str,
    why: &'static str,
}

const fn excepted(path: &'static str, word: &'static str, why: &'static str) -> Exception {
    Exception { path, word, why }
}

#[test]
fn nothing_is_said_in_words_of_our_own() {
    let mut problems = Vec::new();
    let mut used = vec![false; EXCEPTED.len()];
    for extension in ["rs", "md"] {
        for Source { path, text } in files(extension) {
            // Results are records: they name what ran then as it was called then.
            if path == THIS_FILE || path.starts_with("results/") {
                continue;
            }
            for found in find(&text, extension == "rs") {
                let is_it = |e: &Exception| e.path == path && e.word == found.word;
                match EXCEPTED.iter().position(is_it) {
                    Some(excepted) => used[excepted] = true,
                    None => problems.push(format!(
                        "{path}:{}: {:?}: say {}",
                        found.line, found.word, found.say
                    )),
                }
            }
        }
    }
    let unused = EXCEPTED.iter().zip(used).filter(|(_, used)| !used);
    problems.extend(unused.map(|(e, _)| {
        let Exception { path, word, why } = e;
        format!("{path} has no {word:?} any more ({why}): take it from the list")
    }));
    assert_none(&problems, "databases have words for these");
}

#[derive(Debug, PartialEq)]
struct Found {
    /// From 1.
    line: usize,
    word: &'static str,
    say: &'static str,
}

/// The banned words of a file, with the name rules if it is code.
fn find(text: &str, is_code: bool) -> Vec<Found> {
    let mut found = Vec::new();
    // A phrase may go on behind the end of a line.
    let mut before = Vec::new();
    for (line, nth) in text.lines().zip(1..) {
        let mut words = before.split_off(before.len().saturating_sub(1));
        let carried_over = words.len();
        words.extend(words_of(line));
        for Instead { words: forms, say } in NOWHERE {
            if let Some(word) = first_of(forms, &words, carried_over) {
                found.push(Found {
                    line: nth,
                    word,
                    say,
                });
            }
        }
        before = words;
        let Some(name) = declared(line).filter(|_| is_code) else {
            continue;
        };
        let parts: Vec<String> = parts_of(name).collect();
        for Instead { words: forms, say } in NO_NAMES {
            if parts.len() <= MOST_WORDS_OF_A_NAME
                && let Some(word) = first_of(forms, &parts, 0)
            {
                found.push(Found {
                    line: nth,
                    word,
                    say,
                });
            }
        }
    }
    found
}

/// Which of `forms` (or which phrase of two) the words have, not all in the first `old`.
fn first_of(forms: &'static str, words: &[String], old: usize) -> Option<&'static str> {
    let is_phrase = forms == "going range";
    if is_phrase {
        let has = words.windows(2).any(|pair| pair.join(" ") == forms);
        return has.then_some(forms);
    }
    let new = words.iter().skip(old);
    let mut forms = forms.split(' ');
    forms.find(|form| new.clone().any(|word| word == form))
}

/// The words of a line in small letters; of an identifier, its parts. `file_stem` is the standard
/// library's.
fn words_of(line: &str) -> impl Iterator<Item = String> {
    let tokens = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    tokens
        .filter(|token| *token != "file_stem")
        .flat_map(parts_of)
}

/// `PageTender`, `page_tender` and `PAGE_TENDER` are "page" and "tender".
fn parts_of(token: &str) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for c in token.chars() {
        if c == '_' || (c.is_uppercase() && was_small) {
            parts.push(String::new());
        }
        if c != '_' {
            parts
                .last_mut()
                .expect("one at least")
                .extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    parts.into_iter().filter(|part| !part.is_empty())
}

/// The name of the item that a line of code begins to declare.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split([' ', '(']);
    let kinds = [
        "fn", "struct", "enum", "trait", "type", "const", "static", "mod",
    ];
    let qualifiers = ["pub", "crate)", "super)", "unsafe", "async"];
    let mut kind = words.next()?;
    while qualifiers.contains(&kind) || (kind == "const" && line.contains("const fn")) {
        kind = words.next()?;
    }
    let name = words.next().filter(|_| kinds.contains(&kind))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
}

#[test]
fn words_are_found_in_names_comments_and_phrases() {
    let text = "struct PageTender;\n// It vacates a slot of a\n// going\n// range, as Racks do.\n\
                let page_loan = path.file_stem();\nlet tendered = attendant;\n";
    let found: Vec<(usize, &str)> = find(text, true).iter().map(|f| (f.line, f.word)).collect();
    let expected = [
        (1, "tender"),
        (2, "vacates"),
        (4, "going range"),
        (4, "racks"),
        (5, "loan"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn some_words_are_found_in_names_alone() {
    let text = "    pub(crate) struct Aim<K> {\n// the aim, lots\nfn carried(aim: u8) {}\n\
                fn what_a_reader_carried_is_true() {}\npub const fn aim() {}\n\
                const LOTS: u8 = 1;\n";
    let found: Vec<(usize, &str)> = find(text, true).iter().map(|f| (f.line, f.word)).collect();
    assert_eq!(found, [(1, "aim"), (3, "carried"), (5, "aim"), (6, "lots")]);
    assert!(find(text, false).is_empty(), "documents have no names");
}
