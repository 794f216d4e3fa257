//! `dump` and `load`: what goes out comes in again, and nothing is lost without a word.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;

use hedgerow::{Action, Db, Direction, IndexKind, WriteOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::process::{
    command, done, fails, fails_with_lines, hedgerow, hedgerow_with, no_forks, spawn,
};

/// All that a row is, but for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    value: Option<Vec<u8>>,
    columns: Vec<(Vec<u8>, Vec<u8>)>,
    expiry_ms: Option<u64>,
    user_flags: u32,
    marks: u8,
}

pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Content>>;

/// Everything in a database.
pub fn contents(dir: &Path) -> Contents {
    let _alone = no_forks();
    let db = Db::builder().read_only(true).open(dir).unwrap();
    let mut all = Contents::new();
    for name in db.keyspaces() {
        let mut rows = BTreeMap::new();
        let keyspace = db.open_keyspace(&name).unwrap();
        let visit = |key: &[u8], row: hedgerow::Row<'_>| {
            let columns = row.columns().map(|(n, v)| (n.to_vec(), v.to_vec()));
            let content = Content {
                value: row.value().map(<[u8]>::to_vec),
                columns: columns.collect(),
                expiry_ms: row.expiry_ms(),
                user_flags: row.user_flags(),
                marks: row.marks(),
            };
            rows.insert(key.to_vec(), content);
            ControlFlow::Continue(())
        };
        keyspace.scan(.., Direction::Forward, visit).unwrap();
        all.insert(name, rows);
    }
    all
}

pub fn store(db: &Db, keyspace: &str, key: &[u8], content: &Content) {
    let keyspace = db.keyspace(keyspace).unwrap();
    let stored = keyspace.update(key, &WriteOptions::default(), |_, new| {
        match &content.value {
            Some(value) => {
                new.set_value(value).set_marks(content.marks);
            }
            None => {
                new.clear_columns();
                for (name, value) in &content.columns {
                    new.set_column(name, value);
                }
            }
        }
        new.set_expiry_ms(content.expiry_ms)
            .set_user_flags(content.user_flags);
        Action::Put(())
    });
    stored.unwrap();
}

/// Bytes of all kinds: what is escaped, what looks like a dump's own words, nothing at all.
pub fn bytes(random: &mut SmallRng) -> Vec<u8> {
    const WORDS: &[&[u8]] = &[
        b"\n",
        b"\t",
        b"\r",
        b"\\",
        b"=",
        b"\\columns",
        b"\\expires=1",
        b"\\end",
        b"\\hedgerow-dump",
        b"\\keyspace\t",
        b"\0",
        b"\xff\xfe",
        "größe".as_bytes(),
        b"plain",
    ];
    let parts = random.random_range(0..5);
    (0..parts)
        .flat_map(|_| WORDS[random.random_range(0..WORDS.len())].to_vec())
        .collect()
}

pub fn content(random: &mut SmallRng) -> Content {
    let is_value = random.random_bool(0.6);
    let columns: BTreeMap<_, _> = (0..random.random_range(1..5))
        .map(|_| (bytes(random), bytes(random)))
        .collect();
    let far = 4_000_000_000_000;
    Content {
        value: is_value.then(|| bytes(random)),
        columns: columns.into_iter().filter(|_| !is_value).collect(),
        expiry_ms: random
            .random_bool(0.3)
            .then(|| far + random.random_range(0..1000)),
        user_flags: if random.random_bool(0.3) {
            random.random()
        } else {
            0
        },
        marks: if is_value && random.random_bool(0.3) {
            random.random_range(1..4)
        } else {
            0
        },
    }
}

fn round_trip(seed: u64, to: &str) {
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let alone = no_forks();
    let db = Db::open(dir.join("from")).unwrap();
    for name in ["default", "db1", "ein \"Raum\"\twith\n\\all", "empty"] {
        db.keyspace(name).unwrap();
        let rows = if name == "empty" { 0 } else { 300 };
        for _ in 0..rows {
            store(&db, name, &bytes(&mut random), &content(&mut random));
        }
    }
    db.close().unwrap();
    drop((db, alone));
    let before = contents(&dir.join("from"));
    assert_eq!(before.len(), 4);
    let dump = done(hedgerow(dir, &["dump", "--data", "from"]));
    std::fs::write(dir.join("all.dump"), &dump).unwrap();
    let words = ["load", "--data", "to", "--index", to, "all.dump"];
    done(hedgerow(dir, &words));
    assert_eq!(contents(&dir.join("to")), before);
    let again = done(hedgerow(dir, &["dump", "--data", "to"]));
    let lines = |dump: &str| {
        let lines = dump.lines().filter(|line| !line.starts_with("\\end\t"));
        let lines = lines.map(|line| match line.starts_with("\\keyspace\t") {
            true => line.replace("\tindex=masstree", &format!("\tindex={to}")),
            false => line.to_owned(),
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(lines(&again), lines(&dump));
    let stats = done(hedgerow(dir, &["stats", "--data", "to"]));
    let has_pages = stats.contains("pages_budget_bytes");
    assert_eq!(has_pages, to == "btree", "{stats}");
}

#[test]
fn every_kind_of_row_of_every_keyspace_round_trips() {
    let seed = std::env::var("HEDGEROW_SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("HEDGEROW_SEED is a number"),
    );
    for index in ["masstree", "btree"] {
        round_trip(seed, index);
    }
}

#[test]
fn keyspaces_of_a_dump_get_the_indexes_that_they_had() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let indexes = ["masstree", "matryoshka", "bwtree", "bst", "btree"];
    for index in indexes {
        let create = ["keyspace", "create", index, "--index", index];
        done(hedgerow(dir, &create));
        let load = ["load", "--keyspace", index, "--value", index];
        done(hedgerow_with(dir, &load, b"number 1\nnumber 2\nnumber 3\n"));
    }
    let dump = done(hedgerow(dir, &["dump"]));
    let list = done(hedgerow(dir, &["keyspace", "list"]));
    std::fs::write(dir.join("all.dump"), &dump).unwrap();
    let to = |words: &[&str]| done(hedgerow(dir, &[words, &["--data", "to"]].concat()));
    to(&["load", "all.dump"]);
    assert_eq!(to(&["keyspace", "list"]), list);
    assert_eq!(to(&["dump"]), dump);
    // One that is there keeps its own, unless another one is asked for.
    to(&["keyspace", "drop", "bwtree"]);
    to(&["keyspace", "create", "bwtree", "--index", "btree"]);
    to(&["load", "all.dump"]);
    let kept = list.replace("bwtree\tbwtree", "bwtree\tbtree");
    assert_eq!(to(&["keyspace", "list"]), kept);
    let words = ["load", "--data", "to", "--index", "matryoshka", "all.dump"];
    fails(
        hedgerow(dir, &words),
        1,
        &["\"bst\" has the index bst", "leave out --index"],
    );
}

/// A database of two keyspaces in `data`, and its dump.
fn dumped(dir: &Path) -> String {
    for (keyspace, rows) in [("default", 40), ("db1", 20)] {
        let lines: String = (0..rows)
            .map(|i| format!("key{i:03}\tvalue {i}\n"))
            .collect();
        let words = ["load", "--tsv", "--keyspace", keyspace, "--data", "data"];
        done(hedgerow_with(dir, &words, lines.as_bytes()));
    }
    done(hedgerow(dir, &["dump", "--data", "data"]))
}

#[test]
fn a_dump_that_was_cut_off_anywhere_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    assert!(
        dump.starts_with("\\hedgerow-dump\t3\tkeyspaces=2\n"),
        "{dump}"
    );
    assert!(
        dump.contains("\n\\end\tcomplete\tkeyspaces=2\trows=60\tcrc32c="),
        "{dump}"
    );
    let head = dump.find('\n').unwrap() + 1;
    let last_line = dump[..dump.len() - 1].rfind('\n').unwrap() + 1;
    let mut cuts: Vec<usize> = (last_line - 20..dump.len() - 1).collect();
    cuts.extend((head..last_line).step_by(97));
    let whole = contents(&dir.join("data"));
    for cut in cuts {
        let to = format!("cut{cut}");
        let words = ["load", "--no-checkpoint", "--data", &to];
        let output = hedgerow_with(dir, &words, &dump.as_bytes()[..cut]);
        assert_eq!(output.status.code(), Some(1), "cut at {cut}");
        fails_with_lines(output, 1, &["standard input", "dump"]);
        if !dir.join(&to).exists() {
            // Not one row was whole.
            continue;
        }
        // What is there is as it was: no value that was cut short.
        for (keyspace, rows) in contents(&dir.join(&to)) {
            for (key, content) in rows {
                assert_eq!(whole[&keyspace][&key], content, "cut at {cut}");
            }
        }
        std::fs::remove_dir_all(dir.join(&to)).unwrap();
    }
}

#[test]
fn a_dump_that_was_cut_in_its_first_line_is_not_taken_for_keys() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    let head = dump.find('\n').unwrap();
    for cut in 0..head {
        let part = &dump.as_bytes()[..cut];
        let output = hedgerow_with(dir, &["load", "--data", "to"], part);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "cut at {cut}");
        assert!(said.contains("dump again"), "cut at {cut}: {said}");
        assert!(!dir.join("to").exists(), "cut at {cut}: nothing is made");
    }
}

#[test]
fn a_dump_that_was_changed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    let load = |name: &str, dump: &[u8]| {
        hedgerow_with(dir, &["load", "--no-checkpoint", "--data", name], dump)
    };
    // Digits of keys and values, names of keyspaces, ends of lines: any byte.
    for at in (0..dump.len() - 1).step_by(23) {
        let mut changed = dump.clone().into_bytes();
        changed[at] ^= 1;
        let name = format!("flip{at}");
        let output = load(&name, &changed);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A first line that is none of a dump's makes the file one of keys, to all appearances.
        let is_head = at < "\\hedgerow-dump\t".len();
        assert!(is_head || !output.status.success(), "byte {at}: {said}");
    }
    let changed = dump.replacen("value 7\n", "value 8\n", 1);
    assert_ne!(changed, dump);
    let said = ["checksum", "may be wrong", "standard input"];
    fails(load("value", changed.as_bytes()), 1, &said);
    let last = dump.replacen("crc32c=", "crc32c=0", 1);
    fails(load("last", last.as_bytes()), 1, &["last line", "damaged"]);
}

#[test]
fn dumps_of_the_version_without_checksums_load() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    let (lines, _) = dump.rsplit_once("\tcrc32c=").unwrap();
    let older = format!("{lines}\n").replacen("dump\t3", "dump\t1", 1);
    let older = older.replace("\tindex=masstree", "");
    done(hedgerow_with(
        dir,
        &["load", "--data", "to"],
        older.as_bytes(),
    ));
    assert_eq!(contents(&dir.join("to")), contents(&dir.join("data")));
    // A checksum cannot be taken away from a dump that has one.
    let without = format!("{lines}\n");
    let output = hedgerow_with(dir, &["load", "--data", "without"], without.as_bytes());
    fails(output, 1, &["checksum none"]);
}

#[test]
fn a_dump_with_lines_too_few_or_too_many_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    let load =
        |name: &str, dump: &str| hedgerow_with(dir, &["load", "--data", name], dump.as_bytes());
    let without = dump.replacen("key007\tvalue 7\n", "", 1);
    fails(load("few", &without), 1, &["60 rows", "59", "incomplete"]);
    let twice = format!("{dump}{dump}");
    fails(load("twice", &twice), 1, &["line 65", "one dump at a time"]);
    let newer = dump.replacen("dump\t3", "dump\t4", 1);
    fails(load("newer", &newer), 2, &["version 4", "newer program"]);
    assert!(!dir.join("newer").exists());
    let incomplete = dump.replacen("\\end\tcomplete", "\\end\tincomplete", 1);
    let said = [
        "incomplete",
        "could not be read when it was made",
        "60 rows",
    ];
    fails(load("incomplete", &incomplete), 1, &said);
    assert_eq!(
        done(hedgerow(dir, &["count", "--data", "incomplete"])),
        "40\n"
    );
}

#[test]
fn a_dump_goes_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let dump = dumped(dir);
    let into = ["load", "--data", "to", "--keyspace", "other"];
    let output = hedgerow_with(dir, &into, dump.as_bytes());
    fails(output, 2, &["2 keyspaces", "--keyspace"]);
    assert!(!dir.join("to").exists());
    let one = done(hedgerow(
        dir,
        &["dump", "--data", "data", "--keyspace", "db1"],
    ));
    done(hedgerow_with(dir, &into, one.as_bytes()));
    let count = ["count", "--data", "to", "--keyspace", "other"];
    assert_eq!(done(hedgerow(dir, &count)), "20\n");
    let missing = ["dump", "--data", "data", "--keyspace", "db7"];
    fails(hedgerow(dir, &missing), 1, &["db7", "db1, default"]);
    let raw = ["load", "--data", "to", "--raw"];
    fails(hedgerow_with(dir, &raw, dump.as_bytes()), 2, &["--raw"]);
}

#[test]
fn plain_lines_and_rows_of_tsv_stay_loadable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Without an end of the last line, too: nobody says that there must be one.
    done(hedgerow_with(dir, &["load"], b"/usr/bin\n/usr/lib"));
    assert_eq!(done(hedgerow(dir, &["get", "/usr/lib"])), "2\n");
    done(hedgerow_with(dir, &["load", "--tsv"], b"a\\x00\t1\nb\t2"));
    assert_eq!(done(hedgerow(dir, &["get", "b"])), "2\n");
    done(hedgerow_with(dir, &["load", "--raw"], b""));
    done(hedgerow_with(dir, &["load", "--raw"], b"\\hedge"));
    done(hedgerow_with(dir, &["load"], b"\\hedge\n"));
    // What an interrupted load stored is left out, and numbers stay what they were.
    done(hedgerow_with(
        dir,
        &["load", "--skip", "2", "--data", "rest"],
        b"x\ny\nz\n",
    ));
    assert_eq!(done(hedgerow(dir, &["count", "--data", "rest"])), "1\n");
    assert_eq!(done(hedgerow(dir, &["get", "z", "--data", "rest"])), "3\n");
    let dump = dumped(dir);
    let rest = ["load", "--skip", "30", "--data", "behind"];
    done(hedgerow_with(dir, &rest, dump.as_bytes()));
    assert_eq!(done(hedgerow(dir, &["count", "--data", "behind"])), "33\n");
}

/// A closed database of B-trees with one page damaged; its rows have values of `value`.
fn damaged(dir: &Path) -> u32 {
    const ROWS: u32 = 20_000;
    let data = dir.join("data");
    let alone = no_forks();
    let db = Db::builder().index(IndexKind::BTree).open(&data).unwrap();
    for name in ["default", "db1"] {
        let keyspace = db.keyspace(name).unwrap();
        for n in 0..ROWS {
            let value = format!("{name} {n:06} ").repeat(4);
            keyspace
                .put(format!("{n:06}").as_bytes(), value.as_bytes())
                .unwrap();
        }
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop((db, alone));
    let file = data.join("pages.hdg");
    let mut pages = std::fs::read(&file).unwrap();
    let victim = "default 010000 ".repeat(4).into_bytes();
    let mut found = 0;
    while let Some(at) = pages
        .windows(victim.len())
        .position(|bytes| bytes == victim)
    {
        pages[at] ^= 1;
        found += 1;
    }
    assert!(found > 0, "no page holds the row");
    std::fs::write(&file, pages).unwrap();
    ROWS
}

#[test]
fn dumps_and_loads_go_on_behind_a_damaged_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rows = damaged(dir);
    let output = hedgerow(dir, &["dump", "--data", "data"]);
    let dump = String::from_utf8(output.stdout.clone()).unwrap();
    let said = [
        "default",
        "pages.hdg",
        "page ",
        "keys from \"0",
        "are missing",
        "incomplete",
    ];
    fails_with_lines(output, 1, &said);
    assert!(
        dump.contains("\n\\missing\t0"),
        "which keys is in the dump, too"
    );
    assert!(
        dump.contains("\\end\tincomplete\tkeyspaces=2\trows="),
        "the end says so"
    );
    // Both keyspaces are in it, up to their ends, and all but the page's rows.
    let kept = dump
        .lines()
        .filter(|line| line.contains("\tdefault "))
        .count() as u32;
    assert!(kept > rows - 500 && kept < rows, "{kept} rows");
    assert!(dump.contains("\n000000\tdefault") && dump.contains("\n019999\tdefault"));
    assert_eq!(
        dump.lines().filter(|line| line.contains("\tdb1 ")).count() as u32,
        rows
    );

    let load = ["load", "--data", "copy"];
    let output = hedgerow_with(dir, &load, dump.as_bytes());
    fails_with_lines(output, 1, &["lacks keys from", "incomplete"]);
    assert_eq!(
        done(hedgerow(dir, &["count", "--data", "copy"])),
        format!("{kept}\n")
    );

    let scanned = hedgerow(dir, &["scan", "--data", "data", "--keys", "--reverse"]);
    assert_eq!(
        scanned.stdout.iter().filter(|&&byte| byte == b'\n').count() as u32,
        kept
    );
    fails_with_lines(scanned, 1, &["are missing"]);
    let counted = hedgerow(dir, &["count", "--data", "data"]);
    assert_eq!(counted.stdout, format!("{kept}\n").into_bytes());
    fails_with_lines(counted, 1, &["are missing"]);

    // Into the damaged database: rows of other pages are stored.
    let lines: String = (0..rows)
        .step_by(10)
        .map(|n| format!("{n:06}\tnew\n"))
        .collect();
    let output = hedgerow_with(dir, &["load", "--tsv", "--data", "data"], lines.as_bytes());
    fails_with_lines(output, 1, &["could not be stored", "pages.hdg"]);
    assert_eq!(
        done(hedgerow(dir, &["get", "019990", "--data", "data"])),
        "new\n"
    );
}

#[test]
fn an_interrupted_load_says_how_far_it_came_and_how_to_go_on() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut child = spawn(&mut command(dir, &["load"]));
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = (0..20_000).map(|i| format!("key{i:05}\n")).collect();
    stdin.write_all(lines.as_bytes()).unwrap();
    stdin.flush().unwrap();
    // The pipe stays open: the command waits for more. Once its database is there, it has its
    // signals under watch.
    let manifest = dir.join("hedgerow-data/MANIFEST");
    while !manifest.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut kill = std::process::Command::new("kill");
    kill.args(["-INT", &child.id().to_string()])
        .stdout(Stdio::null());
    assert!(spawn(&mut kill).wait().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    fails(output, 1, &["interrupted", "standard input"]);
    let count = hedgerow(dir, &["count"]);
    let loaded = match error.split_once("--skip ") {
        Some((_, rest)) => rest.split(' ').next().unwrap(),
        None => "0",
    };
    if loaded == "0" {
        assert!(error.contains("nothing is loaded"), "{error}");
    } else {
        assert_eq!(done(count), format!("{loaded}\n"), "{error}");
    }
    done(hedgerow_with(
        dir,
        &["load", "--skip", loaded],
        lines.as_bytes(),
    ));
    assert_eq!(done(hedgerow(dir, &["count"])), "20000\n");
    assert_eq!(done(hedgerow(dir, &["get", "key19999"])), "20000\n");
}
