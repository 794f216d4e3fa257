//! `hedgerow keyspace`.

use crate::process::{done, fails, hedgerow, hedgerow_with};

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
            "masstree, matryoshka, bwtree and btree",
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
    let nameless = ["keyspace", "create", ""];
    fails(hedgerow(dir, &nameless), 1, &["1 to 255 bytes"]);
}
