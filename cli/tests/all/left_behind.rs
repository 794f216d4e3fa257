//! What a command leaves behind that fails before it has stored a row: no database that it made.

use std::path::Path;

use crate::process::{done, fails, hedgerow, hedgerow_with};

/// A name that no keyspace can have.
fn long_name() -> String {
    "n".repeat(256)
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// Commands that fail at their input, with what they read and what they say.
fn failing_loads() -> Vec<(Vec<String>, Vec<u8>, &'static str)> {
    let words = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.collect()
    };
    let key = vec![b'k'; 70_000];
    let dump = b"\\hedgerow-dump\t3\tkeyspaces=1\n".to_vec();
    let without_keyspace = [&dump[..], b"key\tvalue\n"].concat();
    let empty = [&dump[..], b"\\keyspace\tk\tindex=btree\n"].concat();
    vec![
        (words(&["load", "missing.txt"]), vec![], "missing.txt"),
        (
            words(&["load", "--tsv"]),
            b"no tab\n".to_vec(),
            "line 1: there is no tab",
        ),
        (words(&["load", "--raw"]), key.clone(), "65536"),
        (
            words(&["load", "--index", "bst"]),
            b"abc\n".to_vec(),
            "keys of 8 bytes",
        ),
        (
            words(&["load", "--keyspace", &long_name()]),
            b"key\n".to_vec(),
            "255 bytes",
        ),
        (words(&["load"]), without_keyspace, "names a keyspace"),
        (words(&["load"]), empty, "without its last line"),
        (
            words(&["put", &String::from_utf8(key).unwrap(), "value"]),
            vec![],
            "65536",
        ),
        (
            words(&["put", "--keyspace", &long_name(), "key", "value"]),
            vec![],
            "255 bytes",
        ),
        (
            words(&["keyspace", "create", &long_name()]),
            vec![],
            "255 bytes",
        ),
    ]
}

#[test]
fn what_cannot_be_stored_makes_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("there")).unwrap();
    for (words, input, said) in failing_loads() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for data in ["new", "new/below/it", "there"] {
            let at = [&words[..], &["--data", data]].concat();
            fails(hedgerow_with(dir, &at, &input), 1, &[said]);
            assert!(!dir.join("new").exists(), "{said}: {data}");
            assert!(is_empty(&dir.join("there")), "{said}");
        }
    }
}

#[test]
fn what_was_there_or_was_stored_stays() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["keyspace", "create", "mine"]));
    let load = |input: &[u8]| hedgerow_with(dir, &["load", "--tsv"], input);
    fails(load(b"no tab\n"), 1, &["nothing is loaded"]);
    assert!(done(hedgerow(dir, &["keyspace", "list"])).contains("mine"));
    let load = ["load", "--tsv", "--data", "new"];
    let load = hedgerow_with(dir, &load, b"a\t1\nno tab\n");
    fails(load, 1, &["first 1 lines are loaded"]);
    let count = hedgerow(dir, &["count", "--data", "new"]);
    assert_eq!(done(count), "1\n");
}

#[test]
fn a_copy_that_is_refused_makes_no_target() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["put", "--data", "from", "key", "value"]));
    std::fs::write(dir.join("text"), "no progress").unwrap();
    for (flags, code, said) in [
        (&["--keyspace", "other"][..], 1, "no keyspace"),
        (&["--resume", "text"], 2, "how far a copy has come"),
        (&["--resume", "missing/at.json"], 1, "missing/at.json"),
        (&["--changed-since", "missing"], 1, "no database in missing"),
        (&["--index", "bst"], 1, "keys of 8 bytes"),
    ] {
        let words = ["copy", "--from", "from", "--to", "new/below/it"];
        let copied = hedgerow(dir, &[&words[..], flags].concat());
        fails(copied, code, &[said]);
        assert!(!dir.join("new").exists(), "{flags:?}");
    }
    let words = ["copy", "--from", "from", "--to", "new/below/it"];
    done(hedgerow(dir, &words));
    let count = hedgerow(dir, &["count", "--data", "new/below/it"]);
    assert_eq!(done(count), "1\n");
}
