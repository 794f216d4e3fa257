//! `copy`: every row arrives as it was, a copy that ended early goes on, and a comparison finds
//! what differs.

use std::collections::BTreeMap;

use hedgerow::Db;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::dump::{Contents, bytes, content, contents, store};
use crate::process::{done, fails, hedgerow, no_forks, spawn};

/// Fills a database.
fn fill(dir: &std::path::Path, rows: usize, seed: u64) {
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let _alone = no_forks();
    let db = Db::open(dir).unwrap();
    for name in ["default", "db1", "ein \"Raum\"\twith\n\\all", "empty"] {
        db.keyspace(name).unwrap();
        for _ in 0..if name == "empty" { 0 } else { rows } {
            store(&db, name, &bytes(&mut random), &content(&mut random));
        }
    }
    db.close().unwrap();
}

#[test]
fn every_kind_of_row_of_every_keyspace_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fill(&dir.join("from"), 300, rand::random());
    let before = contents(&dir.join("from"));
    let words = ["copy", "--from", "from", "--to", "to", "--verify"];
    let text = done(hedgerow(dir, &words));
    let rows: usize = before.values().map(|rows| rows.len()).sum();
    let expected = format!("{rows} rows of 4 keyspaces copied, {rows} compared and equal\n");
    assert_eq!(text, expected);
    assert_eq!(contents(&dir.join("to")), before);
    let words = ["copy", "--from", "from", "--to", "alone", "--exclusive"];
    done(hedgerow(dir, &words));
    assert_eq!(contents(&dir.join("alone")), before);
    let one = ["copy", "--from", "from", "--to", "one", "--keyspace", "db1"];
    done(hedgerow(dir, &one));
    let copied = contents(&dir.join("one"));
    assert_eq!(copied.keys().collect::<Vec<_>>(), ["db1"]);
    assert_eq!(copied["db1"], before["db1"]);
}

#[test]
fn a_comparison_names_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["put", "--data", "from", "a", "1"]));
    done(hedgerow(dir, &["put", "--data", "from", "b", "2"]));
    done(hedgerow(dir, &["copy", "--from", "from", "--to", "to"]));
    let compare = || {
        hedgerow(
            dir,
            &["copy", "--from", "from", "--to", "to", "--verify-only"],
        )
    };
    assert!(done(compare()).contains("2 compared and equal"));
    done(hedgerow(dir, &["put", "--data", "to", "b", "3"]));
    fails(compare(), 1, &["\"b\" differs", "copy it again"]);
    done(hedgerow(
        dir,
        &["put", "--data", "to", "b", "2", "--ttl", "1h"],
    ));
    fails(compare(), 1, &["\"b\" differs"]);
    done(hedgerow(dir, &["copy", "--from", "from", "--to", "to"]));
    done(compare());
    done(hedgerow(dir, &["put", "--data", "to", "c", "3"]));
    fails(compare(), 1, &["\"c\" is in the target alone"]);
    done(hedgerow(dir, &["delete", "--data", "to", "c"]));
    let other = ["put", "--data", "to", "--keyspace", "other", "d", "4"];
    done(hedgerow(dir, &other));
    fails(compare(), 1, &["\"other\" is in the target alone"]);
    let words = ["copy", "--from", "from", "--to", "to", "--verify-only"];
    done(hedgerow(
        dir,
        &[&words[..], &["--keyspace", "default"]].concat(),
    ));
    done(hedgerow(
        dir,
        &["keyspace", "drop", "--data", "to", "other"],
    ));
    done(hedgerow(dir, &["delete", "--data", "to", "a"]));
    fails(compare(), 1, &["\"a\" is missing in the target"]);
    done(hedgerow(dir, &["put", "--data", "to", "a", "1"]));
    // A keyspace that the target lacks has no rows there.
    let create = ["keyspace", "create", "--data", "from", "new"];
    done(hedgerow(dir, &create));
    done(compare());
    let put = ["put", "--data", "from", "--keyspace", "new", "e", "5"];
    done(hedgerow(dir, &put));
    fails(compare(), 1, &["\"e\" is missing in the target"]);
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    killed_and_run_again(&[]);
}

#[test]
fn a_copy_of_what_changed_that_was_killed_goes_on() {
    killed_and_run_again(&["--changed-since", "empty"]);
}

fn killed_and_run_again(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(
        dir,
        &["keyspace", "create", "--data", "empty", "default"],
    ));
    {
        let _alone = no_forks();
        let db = Db::open(dir.join("from")).unwrap();
        let rows = db.keyspace("default").unwrap();
        for i in 0..40_000 {
            rows.put(format!("key {i:06}").as_bytes(), b"value")
                .unwrap();
        }
        db.close().unwrap();
    }
    let words = [
        "copy", "--from", "from", "--to", "to", "--resume", "at.json",
    ];
    let words = [&words[..], flags].concat();
    // The first page takes two seconds.
    let slow = [&words[..], &["--rows-per-second", "2000"]].concat();
    let mut child = spawn(&mut crate::process::command(dir, &slow));
    let file = dir.join("at.json");
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = std::fs::read_to_string(&file).unwrap();
    assert!(reached.contains("key 0"), "{reached}");
    let other = [
        "copy", "--from", "to", "--to", "third", "--resume", "at.json",
    ];
    fails(
        hedgerow(dir, &other),
        2,
        &["is about a copy from from to to"],
    );
    let text = done(hedgerow(dir, &[&words[..], &["--verify"]].concat()));
    assert!(text.contains("40000 compared and equal"), "{text}");
    let copied: u64 = text.split(' ').next().unwrap().parse().unwrap();
    assert!(
        copied < 40_000,
        "it went on, and did not begin anew: {text}"
    );
    // The source may change, and the same command copies that, too.
    done(hedgerow(
        dir,
        &["put", "--data", "from", "key 000000", "new"],
    ));
    let text = done(hedgerow(dir, &[&words[..], &["--verify"]].concat()));
    assert!(text.starts_with("40000 rows "), "{text}");
    assert!(!file.exists());
}

/// What a copy has passed may have changed once somebody writes to what it reads.
#[test]
fn a_copy_does_not_go_on_over_what_was_written_to_since() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for place in ["from", "before", "to"] {
        done(hedgerow(dir, &["put", "--data", place, "a", "1"]));
        let put = ["put", "--data", place, "--keyspace", "copied", "x", "1"];
        done(hedgerow(dir, &put));
    }
    done(hedgerow(dir, &["put", "--data", "from", "b", "2"]));
    done(hedgerow(dir, &["put", "--data", "to", "c", "3"]));
    let words = [
        "copy",
        "--from",
        "from",
        "--changed-since",
        "before",
        "--to",
        "to",
        "--resume",
        "at.json",
        "--verify",
    ];
    let copy = || hedgerow(dir, &words);
    // The first keyspace is copied, and the second one is not.
    fails(copy(), 1, &["\"c\" is in the target alone"]);
    let file = dir.join("at.json");
    for place in ["from", "before"] {
        fails(copy(), 1, &["\"c\" is in the target alone"]);
        done(hedgerow(dir, &["put", "--data", place, "a", "1"]));
        let since = format!("and {place} has been written to since");
        fails(copy(), 2, &[&since, "remove the file"]);
        std::fs::remove_file(&file).unwrap();
        fails(copy(), 1, &["\"c\" is in the target alone"]);
    }
    // Nor into another target.
    std::fs::rename(dir.join("to"), dir.join("moved")).unwrap();
    fails(copy(), 2, &["to is not the database", "remove the file"]);
    assert!(!dir.join("to").exists(), "none is made for nothing");
    std::fs::rename(dir.join("moved"), dir.join("to")).unwrap();
    done(hedgerow(dir, &["delete", "--data", "to", "c"]));
    done(copy());
}

#[test]
fn keyspaces_get_the_index_that_they_have_in_the_source_or_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for index in ["btree", "bst", "masstree"] {
        let words = [
            "keyspace", "create", "--data", "from", "--index", index, index,
        ];
        done(hedgerow(dir, &words));
    }
    let put = ["put", "--data", "from", "--keyspace", "btree", "key", "1"];
    done(hedgerow(dir, &put));
    let copy = |to: &str, flags: &[&str]| {
        let words = ["copy", "--from", "from", "--to", to];
        done(hedgerow(dir, &[&words[..], flags].concat()));
        done(hedgerow(dir, &["keyspace", "list", "--data", to]))
    };
    let listed = copy("to", &[]);
    for index in ["btree", "bst", "masstree"] {
        assert!(listed.contains(&format!("{index}\t{index}\t")), "{listed}");
    }
    let listed = copy("other", &["--index", "bwtree"]);
    assert_eq!(listed.matches("\tbwtree\t").count(), 3, "{listed}");
    // What is there keeps its own.
    assert_eq!(copy("other", &["--index", "btree"]), listed);
}

/// What another database needs to be like this one: rows to store, and to remove.
fn differing(new: &Contents, old: &Contents) -> (usize, usize) {
    let rows = |contents: &Contents| {
        let all = contents.clone().into_iter();
        all.flat_map(|(name, rows)| {
            let of = move |(key, content)| ((name.clone(), key), content);
            rows.into_iter().map(of)
        })
        .collect::<BTreeMap<_, _>>()
    };
    let (new, old) = (rows(new), rows(old));
    let stored = new.iter().filter(|(key, row)| old.get(key) != Some(row));
    let removed = old.keys().filter(|key| !new.contains_key(key));
    (stored.count(), removed.count())
}

/// Changes some rows of each keyspace, makes one and drops one.
fn change(dir: &std::path::Path, before: &Contents, seed: u64) {
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let _alone = no_forks();
    let db = Db::open(dir).unwrap();
    for (name, rows) in before {
        let keyspace = db.keyspace(name).unwrap();
        for key in rows.keys() {
            match random.random_range(0..40) {
                0 => drop(keyspace.remove(key).unwrap()),
                1 => store(&db, name, key, &content(&mut random)),
                _ => {}
            }
        }
        store(&db, name, b"behind all others\xff", &content(&mut random));
    }
    store(&db, "new", b"key", &content(&mut random));
    db.drop_keyspace("db1").unwrap();
    db.close().unwrap();
}

#[test]
fn only_what_changed_since_a_backup_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fill(&dir.join("from"), 2000, rand::random());
    done(hedgerow(dir, &["copy", "--from", "from", "--to", "to"]));
    done(hedgerow(dir, &["backup", "--data", "from", "before"]));
    let before = contents(&dir.join("before"));
    change(&dir.join("from"), &before, rand::random());
    let after = contents(&dir.join("from"));
    let (stored, removed) = differing(&after, &before);
    let unchanged = before.values().map(|rows| rows.len()).sum::<usize>() - removed - stored;
    assert!(removed > before["db1"].len() && stored > 10 && unchanged > 1000);
    // A row that the copy does not touch.
    let is_unchanged = |(key, row): &(&Vec<u8>, _)| after["default"].get(*key) == Some(*row);
    let untouched = before["default"].iter().find(is_unchanged).unwrap();
    {
        let _alone = no_forks();
        let db = Db::open(dir.join("to")).unwrap();
        let rows = db.keyspace("default").unwrap();
        rows.put(untouched.0, b"own").unwrap();
        db.close().unwrap();
    }
    let copy = |since: &str, flags: &[&str]| {
        let words = [
            "copy",
            "--from",
            "from",
            "--changed-since",
            since,
            "--to",
            "to",
        ];
        hedgerow(dir, &[&words[..], flags].concat())
    };
    let text = done(copy("before", &[]));
    let expected = format!("{stored} rows of 5 keyspaces copied, {removed} removed, 0 compared");
    assert!(text.starts_with(&expected), "{text} {expected}");
    let mut copied = contents(&dir.join("to"));
    let row = copied.get_mut("default").unwrap().get_mut(untouched.0);
    *row.unwrap() = untouched.1.clone();
    assert_eq!(copied.remove("db1"), Some(BTreeMap::new()), "emptied");
    assert_eq!(copied, after);
    let text = done(copy("before", &["--resume", "at.json"]));
    assert!(
        text.starts_with(&expected),
        "again, as all was done: {text}"
    );
    // A wrong place to compare with is found by a comparison.
    fails(copy("./from", &[]), 2, &["--changed-since", "same place"]);
    done(hedgerow(dir, &["backup", "--data", "from", "later"]));
    fails(copy("later", &["--verify"]), 1, &["differs"]);
}

#[test]
fn a_copy_that_is_found_wrong_is_made_again_by_the_same_command() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (place, key) in [("from", "a"), ("from", "b"), ("to", "c")] {
        done(hedgerow(dir, &["put", "--data", place, key, "1"]));
    }
    let copy = [
        "copy", "--from", "from", "--to", "to", "--verify", "--resume", "at.json",
    ];
    fails(hedgerow(dir, &copy), 1, &["\"c\" is in the target alone"]);
    done(hedgerow(dir, &["delete", "--data", "to", "c", "a"]));
    let text = done(hedgerow(dir, &copy));
    assert_eq!(text, "2 rows of 1 keyspaces copied, 2 compared and equal\n");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let copy = |words: &[&str]| hedgerow(dir, &[&["copy"], words].concat());
    fails(copy(&["--from", "a", "--to", "a"]), 2, &["the same place"]);
    let missing = copy(&["--from", "none", "--to", "b"]);
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!error.contains("--data"), "{error}");
    fails(missing, 1, &["no database in none"]);
    fails(copy(&["--from", "", "--to", "b"]), 2, &["--from is empty"]);
    fails(copy(&["--from", "a", "--to", ""]), 2, &["--to is empty"]);
    assert!(std::fs::read_dir(dir).unwrap().next().is_none());
    done(hedgerow(dir, &["put", "--data", "a", "k", "v"]));
    std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
    let absolute = dir.join("a").display().to_string();
    for same in ["./a", "link", "link/../a/", &absolute] {
        let said = ["the same place"];
        fails(copy(&["--from", same, "--to", "a"]), 2, &said);
        fails(copy(&["--from", "a", "--to", same]), 2, &said);
    }
    for within in ["a/b", "link/b/c", "a/log"] {
        let copied = copy(&["--from", "a", "--to", within]);
        fails(copied, 2, &["--to is within", "--from"]);
    }
    let words = ["--from", "a", "--to", "b", "--rows-per-second", "0"];
    fails(copy(&words), 2, &["--rows-per-second"]);
    let words = ["--from", "a", "--to", "b", "--regions", "4"];
    fails(copy(&words), 2, &["--regions", "directory"]);
    let words = ["--from", "a", "--to", "hbase://b:1/c", "--index", "btree"];
    fails(copy(&words), 2, &["--index", "directory"]);
    let words = ["--from", "a", "--to", "hbase://b:1/c", "--regions", "1001"];
    fails(copy(&words), 2, &["1 to 1000"]);
    let words = ["--from", "a", "--to", "b", "--keyspace", "x"];
    fails(copy(&words), 1, &["no keyspace \"x\"", "it has default"]);
    assert!(!dir.join("b").exists());
    fails(
        copy(&["--from", "a", "--to", "tikv://b:1/c"]),
        2,
        &["tikv://b:1/c"],
    );
    let serve = ["serve", "--backend", "tikv://b:1/c"];
    fails(hedgerow(dir, &serve), 2, &["tikv://b:1/c"]);
    let serve = ["serve", "--backend", "hbase://b:1/c", "--index", "btree"];
    fails(hedgerow(dir, &serve), 2, &["--index"]);
    std::fs::write(
        dir.join("file"),
        "backend = \"hbase://b:1/c\"\nmemory = \"1GiB\"\n",
    )
    .unwrap();
    fails(
        hedgerow(dir, &["serve", "--config", "file"]),
        2,
        &["memory"],
    );
}
