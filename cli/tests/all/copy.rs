//! `copy`: every row arrives as it was, a copy that ended early goes on, and a comparison finds
//! what differs.

use hedgerow::Db;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::dump::{bytes, content, contents, store};
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
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
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
    let slow = [&words[..], &["--rows-per-second", "20000"]].concat();
    let mut child = spawn(&mut crate::process::command(dir, &slow));
    let file = dir.join("at.json");
    while !file.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = std::fs::read_to_string(&file).unwrap();
    assert!(reached.contains("key 0"), "{reached}");
    let text = done(hedgerow(dir, &[&words[..], &["--verify"]].concat()));
    assert!(text.contains("40000 compared and equal"), "{text}");
    let copied: u64 = text.split(' ').next().unwrap().parse().unwrap();
    assert!(
        copied < 40_000,
        "it went on, and did not begin anew: {text}"
    );
    let text = done(hedgerow(dir, &words));
    assert!(text.starts_with("0 rows "), "{text}");
    let other = [
        "copy", "--from", "to", "--to", "third", "--resume", "at.json",
    ];
    fails(
        hedgerow(dir, &other),
        2,
        &["is about a copy from from to to"],
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let copy = |words: &[&str]| hedgerow(dir, &[&["copy"], words].concat());
    fails(copy(&["--from", "a", "--to", "a"]), 2, &["the same place"]);
    fails(
        copy(&["--from", "none", "--to", "b"]),
        1,
        &["no database in none"],
    );
    done(hedgerow(dir, &["put", "--data", "a", "k", "v"]));
    let words = ["--from", "a", "--to", "b", "--rows-per-second", "0"];
    fails(copy(&words), 2, &["--rows-per-second"]);
    let words = ["--from", "a", "--to", "b", "--keyspace", "x"];
    fails(copy(&words), 1, &["no keyspace \"x\"", "it has default"]);
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
