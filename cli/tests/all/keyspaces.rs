//! `hedgerow keyspace`.

use std::io::BufRead;

use crate::process::{done, fails, fails_with_lines, hedgerow, hedgerow_with};

#[test]
fn keyspaces_are_made_listed_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(
        done(hedgerow(dir, &["keyspace", "create", "a"])),
        "keyspace \"a\" is made; its index is masstree\n"
    );
    let create = ["keyspace", "create", "b", "--index", "matryoshka", "--json"];
    assert_eq!(
        done(hedgerow(dir, &create)),
        "{\"index\":\"matryoshka\",\"keyspace\":\"b\"}\n"
    );
    let load = ["load", "--keyspace", "b", "--value", "v"];
    done(hedgerow_with(dir, &load, b"one\ntwo\n"));
    assert_eq!(
        done(hedgerow(dir, &["keyspace", "list"])),
        "a\tmasstree\t0 rows\nb\tmatryoshka\t2 rows\n"
    );
    let json = done(hedgerow(dir, &["keyspace", "list", "--json"]));
    let second = json.lines().nth(1).unwrap();
    assert_eq!(
        second,
        "{\"index\":\"matryoshka\",\"keyspace\":\"b\",\"rows\":2}"
    );
    let stats = done(hedgerow(dir, &["stats"]));
    assert!(
        stats.contains("\nkeyspace b\n  index ") && stats.contains("matryoshka"),
        "{stats}"
    );
    let stats = done(hedgerow(dir, &["stats", "--json"]));
    let part = "\"keyspace b\":{\"index\":\"matryoshka\",\"rows\":2}";
    assert!(stats.contains(part), "{stats}");
    assert!(stats.contains("\"default_index\":\"masstree\""), "{stats}");
    assert_eq!(
        done(hedgerow(dir, &["keyspace", "drop", "b"])),
        "dropped \"b\" and its 2 rows\n"
    );
    assert_eq!(
        done(hedgerow(dir, &["keyspace", "list"])),
        "a\tmasstree\t0 rows\n"
    );
}

#[test]
fn keyspaces_of_all_kinds_are_in_one_database() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let indexes = ["masstree", "matryoshka", "bwtree", "bst", "btree"];
    for default in indexes {
        let data = format!("of-{default}");
        let run = |words: &[&str]| done(hedgerow(dir, &[words, &["--data", &data]].concat()));
        run(&["keyspace", "create", "first", "--index", default]);
        for index in indexes {
            let said = run(&["keyspace", "create", index, "--index", index]);
            assert!(said.ends_with(&format!("its index is {index}\n")), "{said}");
            run(&["put", "some key", "value", "--keyspace", index]);
        }
        let list = run(&["keyspace", "list", "--bytes"]);
        for line in list.lines().filter(|line| !line.starts_with("first")) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, index, rows, bytes] = fields[..] else {
                panic!("{line}");
            };
            assert!(name == index && rows == "1 rows", "{line}");
            assert!(bytes.ends_with("iB") || bytes.ends_with(" B"), "{line}");
        }
        let json = run(&["keyspace", "list", "--bytes", "--json"]);
        assert!(
            json.lines().all(|line| line.contains("\"bytes\":")),
            "{json}"
        );
        run(&["check"]);
        run(&["keyspace", "drop", "btree"]);
        assert_eq!(run(&["get", "some key", "--keyspace", "bwtree"]), "value\n");
    }
}

#[test]
fn a_server_says_that_keyspaces_keep_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let create = ["keyspace", "create", "default", "--index", "matryoshka"];
    done(hedgerow(
        dir.path(),
        &[&create[..], &["--data", "data"]].concat(),
    ));
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_hedgerow"))
        .args(["serve", "--index", "btree", "--resp", "127.0.0.1:0"])
        .args(["--memcached", "none", "--http", "none", "--data"])
        .arg(&data)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(server.stdout.take().unwrap());
    let kept = said.lines().map_while(Result::ok);
    let kept = kept.take(6).find(|line| line.contains("stays matryoshka"));
    server.kill().unwrap();
    server.wait().unwrap();
    let kept = kept.expect("it says so");
    for words in [
        "btree for new keyspaces",
        "keyspace drop",
        "load --index btree",
    ] {
        assert!(kept.contains(words), "{kept}");
    }
}

/// Wherever an index is named: on the command line, in the environment, in a file.
#[test]
fn an_unknown_index_is_refused_in_one_line_wherever_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("config.toml"), "index = \"hash\"\n").unwrap();
    let serve = [
        "serve",
        "--resp",
        "127.0.0.1:0",
        "--memcached",
        "none",
        "--http",
        "none",
    ];
    let named: [&[&str]; 4] = [
        &["keyspace", "create", "a", "--index", "hash"],
        &["load", "--index", "hash"],
        &["serve", "--index", "hash"],
        &[&serve[..], &["--config", "config.toml"]].concat(),
    ];
    for words in named {
        let said = fails_with_lines(hedgerow(dir, words), 2, &["no index \"hash\"", "bwtree"]);
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
        assert!(said.starts_with("hedgerow: "), "{said}");
    }
    let nothing_is_made = !dir.join("hedgerow-data").exists();
    assert!(nothing_is_made);
}

/// Names are any text; what is printed of them is one line.
#[test]
fn names_of_any_text_stay_on_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let name = "two\nlines\tand \x1b[31mred";
    done(hedgerow(
        dir,
        &["keyspace", "create", name, "--index", "bwtree"],
    ));
    let shown = "two\\nlines\\tand \\x1b[31mred";
    let list = done(hedgerow(dir, &["keyspace", "list"]));
    assert_eq!(list, format!("{shown}\tbwtree\t0 rows\n"));
    let list = done(hedgerow(dir, &["keyspace", "list", "--bytes"]));
    assert!(
        list.starts_with(&format!("{shown}\tbwtree\t0 rows\t")),
        "{list}"
    );
    let stats = done(hedgerow(dir, &["stats"]));
    assert!(
        stats
            .lines()
            .any(|line| line == format!("keyspace {shown}")),
        "{stats}"
    );
    fails(
        hedgerow(dir, &["get", "key"]),
        1,
        &["no keyspace \"default\"", shown],
    );
    let drop = ["keyspace", "drop", "default"];
    fails(hedgerow(dir, &drop), 1, &["keyspace list", shown]);
    for number in 0..30 {
        let name = format!("number{number}");
        done(hedgerow(dir, &["keyspace", "create", &name]));
    }
    fails(hedgerow(dir, &drop), 1, &["number0, ", " and 11 more"]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let list = ["keyspace", "list"];
    fails(hedgerow(dir, &list), 1, &["no database"]);
    let unknown = ["keyspace", "create", "a", "--index", "hash"];
    fails(
        hedgerow(dir, &unknown),
        2,
        &[
            "no index \"hash\"",
            "choose masstree, matryoshka, bwtree, bst or btree",
        ],
    );
    done(hedgerow(dir, &["keyspace", "create", "a"]));
    fails(
        hedgerow(dir, &["keyspace", "create", "a"]),
        1,
        &["\"a\" exists already", "hedgerow keyspace drop"],
    );
    fails(
        hedgerow(dir, &["keyspace", "drop", "b"]),
        1,
        &["no keyspace \"b\"", "keyspace list", "exist: a"],
    );
    let load = ["load", "--keyspace", "a", "--index", "btree"];
    fails(
        hedgerow_with(dir, &load, b"key\n"),
        1,
        &[
            "\"a\" has the index masstree, not btree",
            "leave out --index",
            "dump",
        ],
    );
    let too_long = "k".repeat(65_537);
    for index in ["masstree", "matryoshka", "bwtree", "bst", "btree"] {
        let create = ["keyspace", "create", index, "--index", index];
        done(hedgerow(dir, &create));
        let put = ["put", &too_long, "v", "--keyspace", index];
        fails(
            hedgerow(dir, &put),
            1,
            &["65537 bytes", "65536", "shorter key"],
        );
    }
    let small = ["keyspace", "create", "p", "--index", "btree"];
    let small = [&small[..], &["--data", "small", "--memory", "64KiB"]].concat();
    done(hedgerow(
        dir,
        &["keyspace", "create", "m", "--data", "small"],
    ));
    fails(hedgerow(dir, &small), 1, &["--memory"]);
    let nameless = ["keyspace", "create", ""];
    fails(hedgerow(dir, &nameless), 1, &["1 to 255 bytes"]);
}
