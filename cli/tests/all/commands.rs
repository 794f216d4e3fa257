//! The command as a user meets it: a process, its output, its exit code.

use crate::process::{done, fails, hedgerow, hedgerow_with};

#[test]
fn rows_go_in_and_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["put", "a", "1"]));
    done(hedgerow(dir, &["put", "b\\x00", "two\\nlines"]));
    done(hedgerow_with(dir, &["put", "c", "-"], b"\xff\x00raw"));
    done(hedgerow(dir, &["put", "h", "x", "--column", "f"]));
    assert_eq!(done(hedgerow(dir, &["get", "a"])), "1\n");
    assert_eq!(done(hedgerow(dir, &["get", "b\\x00"])), "two\\nlines\n");
    assert_eq!(hedgerow(dir, &["get", "c", "--raw"]).stdout, b"\xff\x00raw");
    assert_eq!(done(hedgerow(dir, &["get", "h"])), "f=x\n");
    assert_eq!(done(hedgerow(dir, &["get", "h", "--column", "f"])), "x\n");
    assert_eq!(done(hedgerow(dir, &["count"])), "4\n");
    assert_eq!(
        done(hedgerow(dir, &["scan", "--to", "c"])),
        "a\t1\nb\\x00\ttwo\\nlines\n"
    );
    assert_eq!(
        done(hedgerow(
            dir,
            &["scan", "--reverse", "--limit", "1", "--keys"]
        )),
        "h\n"
    );
    assert_eq!(
        done(hedgerow(dir, &["scan", "--prefix", "b", "--keys"])),
        "b\\x00\n"
    );
    let json = done(hedgerow(dir, &["get", "h", "--json"]));
    assert_eq!(json, "{\"key\":\"h\",\"value\":{\"f\":\"x\"}}\n");
    assert_eq!(done(hedgerow(dir, &["delete", "a", "nope"])), "deleted 1\n");
    fails(hedgerow(dir, &["get", "a"]), 1, &["no key a"]);
}

#[test]
fn dump_and_load_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..5000)
        .map(|i| format!("/usr/share/{i:05}/file\n"))
        .collect();
    done(hedgerow_with(dir, &["load", "-"], lines.as_bytes()));
    assert_eq!(
        done(hedgerow(dir, &["count", "--prefix", "/usr/share/0001"])),
        "10\n"
    );
    assert_eq!(
        done(hedgerow(dir, &["get", "/usr/share/00041/file"])),
        "42\n"
    );
    done(hedgerow(dir, &["put", "odd\\t\\\\\\x01", "v\\xfe"]));
    let dump = done(hedgerow(dir, &["dump"]));
    assert_eq!(dump.lines().count(), 5001 + 3);
    done(hedgerow_with(
        dir,
        &["load", "--data", "copy"],
        dump.as_bytes(),
    ));
    assert_eq!(done(hedgerow(dir, &["dump", "--data", "copy"])), dump);
    let hash = &["put", "ha\\tsh", "v\\nalue", "--column", "na=me"][..];
    done(hedgerow(dir, hash));
    done(hedgerow(dir, &["put", "ha\\tsh", "=", "--column", ""]));
    done(hedgerow(dir, &["put", "expires", "soon", "--ttl", "1h"]));
    let dump = done(hedgerow(dir, &["dump"]));
    assert!(
        dump.contains("ha\\tsh\t\\columns\t==\tna\\x3dme=v\\nalue\n"),
        "{dump}"
    );
    assert!(dump.contains("expires\t\\expires="), "{dump}");
    let args = &["load", "--data", "whole"][..];
    // In place of whatever is there.
    done(hedgerow(
        dir,
        &["put", "ha\\tsh", "x", "--column", "old", "--data", "whole"],
    ));
    done(hedgerow_with(dir, args, dump.as_bytes()));
    assert_eq!(done(hedgerow(dir, &["dump", "--data", "whole"])), dump);
    let json = done(hedgerow(dir, &["dump", "--json"]));
    assert!(
        json.contains("\"value\":{\"\":\"=\",\"na=me\":\"v\\\\nalue\"}"),
        "{json}"
    );
    std::fs::write(dir.join("wrong.tsv"), "a\t1\nno tab\n").unwrap();
    fails(
        hedgerow(dir, &["load", "--tsv", "wrong.tsv"]),
        1,
        &["wrong.tsv line 2", "no tab"],
    );
    fails(hedgerow(dir, &["load", "missing.txt"]), 1, &["missing.txt"]);
}

#[test]
fn databases_are_checked_copied_and_described() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow_with(dir, &["load", "--value", "v"], b"a\nb\nc\n"));
    assert!(done(hedgerow(dir, &["check"])).contains("whole"));
    assert!(done(hedgerow(dir, &["checkpoint"])).contains("3 rows"));
    done(hedgerow(dir, &["backup", "copy"]));
    fails(hedgerow(dir, &["backup", "copy"]), 1, &["not empty"]);
    done(hedgerow(dir, &["restore", "copy", "--data", "again"]));
    assert_eq!(done(hedgerow(dir, &["count", "--data", "again"])), "3\n");
    let stats = done(hedgerow(dir, &["stats", "--index", "--json"]));
    assert!(stats.contains("\"rows\":3"), "{stats}");
}

#[test]
fn a_backup_of_a_damaged_page_fails_and_leaves_no_copy() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..2_000).map(|n| format!("key{n:05}\n")).collect();
    let load = ["load", "--index", "btree", "--value", "a value", "-"];
    done(hedgerow_with(dir, &load, lines.as_bytes()));
    done(hedgerow(dir, &["backup", "good"]));
    let pages = dir.join("hedgerow-data/pages.hdg");
    let mut bytes = std::fs::read(&pages).unwrap();
    let needle = b"a value";
    let found = bytes.windows(needle.len()).enumerate();
    let places: Vec<usize> = found
        .filter(|(_, window)| window == needle)
        .map(|(at, _)| at)
        .collect();
    assert!(places.len() >= 2_000, "{}", places.len());
    // Every leaf, so that pages are among them that are in use.
    places.iter().for_each(|&at| bytes[at] ^= 1);
    std::fs::write(&pages, &bytes).unwrap();
    let said = ["pages.hdg", "no copy was made", "keep the backups"];
    fails(hedgerow(dir, &["backup", "bad"]), 1, &said);
    let left = std::fs::read_dir(dir.join("bad"));
    assert_eq!(left.map_or(0, Iterator::count), 0, "something was left");
    done(hedgerow(dir, &["restore", "good", "--data", "again"]));
    assert_eq!(done(hedgerow(dir, &["count", "--data", "again"])), "2000\n");
}

#[test]
fn bad_input_gets_one_line_and_the_right_code() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fails(hedgerow(dir, &["frobnicate"]), 2, &["frobnicate"]);
    fails(hedgerow(dir, &["get"]), 2, &["KEY"]);
    fails(
        hedgerow(dir, &["get", "k", "--nonsense"]),
        2,
        &["--nonsense"],
    );
    fails(
        hedgerow(dir, &["get", "k"]),
        1,
        &["no database", "hedgerow-data"],
    );
    fails(hedgerow(dir, &["put", "bad\\q", "v"]), 2, &["escape"]);
    done(hedgerow(dir, &["put", "k", "v"]));
    let long = "k".repeat(65 * 1024);
    fails(
        hedgerow(dir, &["put", &long, "v"]),
        1,
        &["65536", "shorter"],
    );
    fails(
        hedgerow(dir, &["scan", "--keyspace", "nope"]),
        1,
        &["keyspace", "nope"],
    );
    fails(
        hedgerow(dir, &["bench", "--data", "b", "--workload", "z"]),
        2,
        &["YCSB"],
    );
    fails(
        hedgerow(dir, &["serve", "--resp", "nowhere"]),
        2,
        &["127.0.0.1:7379"],
    );
    fails(hedgerow(dir, &["serve", "--workers", "0"]), 2, &["workers"]);
    fails(
        hedgerow(dir, &["serve", "--in-memory", "--data", "d"]),
        2,
        &["--in-memory", "--data"],
    );
    for (more, flags) in [
        ("", &["--data", "d"][..]),
        ("", &["--durability", "sync"]),
        ("data = \"d\"\n", &[]),
        ("keep-checkpoints = 3\n", &[]),
    ] {
        std::fs::write(dir.join("c.toml"), format!("in-memory = true\n{more}")).unwrap();
        let serve = hedgerow(dir, &[&["serve", "--config", "c.toml"], flags].concat());
        fails(serve, 2, &["in-memory = true", "take one of the two away"]);
        assert!(!dir.join("d").exists());
    }
    std::fs::write(dir.join("c.toml"), "data = \"x\"\nwrokers = 3\n").unwrap();
    fails(
        hedgerow(dir, &["serve", "--config", "c.toml"]),
        2,
        &["c.toml line 2", "wrokers"],
    );
    std::fs::create_dir(dir.join("foreign")).unwrap();
    std::fs::write(dir.join("foreign/readme.txt"), "mine").unwrap();
    fails(
        hedgerow(dir, &["put", "k", "v", "--data", "foreign"]),
        1,
        &["foreign"],
    );
}

#[test]
fn damage_is_named_and_nothing_else_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..1000).map(|i| format!("key{i}\n")).collect();
    done(hedgerow_with(dir, &["load"], lines.as_bytes()));
    let data = dir.join("hedgerow-data");
    let manifest = std::fs::read(data.join("MANIFEST")).unwrap();
    let mut flipped = manifest.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(data.join("MANIFEST"), &flipped).unwrap();
    fails(hedgerow(dir, &["get", "key1"]), 1, &["MANIFEST"]);
    assert_eq!(hedgerow(dir, &["check"]).status.code(), Some(1));
    std::fs::write(data.join("MANIFEST"), &manifest).unwrap();
    assert_eq!(done(hedgerow(dir, &["get", "key1"])), "2\n");
}

#[test]
fn a_damaged_checkpoint_is_told_of_and_nothing_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..1000).map(|i| format!("key{i}\n")).collect();
    done(hedgerow_with(dir, &["load"], lines.as_bytes()));
    let parts = std::fs::read_dir(dir.join("hedgerow-data/checkpoint")).unwrap();
    let part = parts.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, &bytes).unwrap();
    let name = part.file_name().unwrap().to_str().unwrap();
    let checked = hedgerow(dir, &["check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains(name) && said.contains("1 problems"), "{said}");
    let read = hedgerow(dir, &["get", "key1"]);
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(said.contains(name) && said.contains("all rows"), "{said}");
    assert_eq!(String::from_utf8_lossy(&read.stdout), "2\n");
    assert!(part.exists(), "a reader changes nothing");
    let written = hedgerow(dir, &["checkpoint"]);
    assert!(String::from_utf8_lossy(&written.stderr).contains(name));
    assert!(!part.exists());
    assert!(done(hedgerow(dir, &["check"])).contains("1000 rows"));
    assert_eq!(done(hedgerow(dir, &["count"])), "1000\n");
    let wrong = hedgerow(dir, &["serve", "--keep-checkpoints", "0"]);
    fails(wrong, 2, &["--keep-checkpoints"]);
}

#[test]
fn bench_runs_every_workload_on_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "bench",
        "--data",
        "b",
        "--records",
        "500",
        "--operations",
        "400",
        "--threads",
        "2",
        "--json",
    ];
    let report = done(hedgerow(dir.path(), &words));
    for name in ["load", "a", "b", "c", "d", "e", "f"] {
        assert!(
            report.contains(&format!("\"workload\":\"{name}\"")),
            "{report}"
        );
    }
}

#[test]
fn completions_and_man_pages_are_generated() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        assert!(done(hedgerow(dir.path(), &["completions", shell])).contains("hedgerow"));
    }
    done(hedgerow(dir.path(), &["man", "man"]));
    assert!(dir.path().join("man/hedgerow-serve.1").exists());
}
