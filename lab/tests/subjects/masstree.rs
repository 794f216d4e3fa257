//! What experiments of the Masstree paper are about.

use hedgerow_lab::process::find_program;

use super::{Subject, of, ours, owned};

/// The steps of Fig. 8, and the tree of partial keys beside them.
const FIG_8: [&str; 10] = [
    "binary tree",
    "binary +arena",
    "binary +superpage",
    "binary +intcmp",
    "4-tree",
    "B-tree",
    "B-tree +prefetch",
    "B-tree +permuter",
    "pkB-tree",
    "hedgerow inline",
];

/// Redis, where it is installed.
fn redis() -> Vec<String> {
    let found = find_program("redis-server");
    found.map(|_| "redis".to_owned()).into_iter().collect()
}

/// The trees of `masstree/operations` that threads share and that take keys of any length.
const OPERATED: [&str; 5] = [
    "hedgerow inline",
    "hedgerow index",
    "matryoshka index",
    "bwtree",
    "btree shared adaptive",
];

/// What a server is measured by that plays MYCSB.
const PLAYED: &[&str] = &["pipelined", "50 connections", "latency p50", "memory"];

pub fn all() -> Vec<Subject> {
    let mut all = of_trees();
    all.extend(of_operations());
    all.extend(of_columns());
    all.extend(of_servers());
    all
}

fn of_trees() -> Vec<Subject> {
    vec![
        of("masstree/fig8", owned(&FIG_8), &["insert", "get"]),
        of(
            "masstree/fig9",
            owned(&["B-tree +permuter", "pkB-tree", "hedgerow inline"]),
            &["insert", "get"],
        ),
        of(
            "masstree/fig10",
            owned(&["hedgerow inline"]),
            &["insert", "get"],
        ),
        of(
            "masstree/fig11",
            owned(&["hedgerow inline", "hedgerow hard-partitioned"]),
            &["get", "idle"],
        ),
        of(
            "masstree/layers",
            owned(&["hedgerow inline"]),
            &["in layer 1", "keys of a tree of layer 1", "narrow nodes"],
        ),
        Subject {
            places: &["order (letters)"],
            ..of(
                "masstree/flexibility",
                owned(&["hedgerow inline", "hash table"]),
                &["get"],
            )
        },
        of(
            "masstree/retries",
            owned(&["hedgerow inline"]),
            &[
                "insert, at the node",
                "insert, from the root",
                "insert, splits",
                "insert+get, at the node",
                "insert+get, from the root",
            ],
        ),
    ]
}

fn of_operations() -> Vec<Subject> {
    vec![
        Subject {
            places: &["in the cache", "in memory"],
            ..of(
                "masstree/search",
                owned(&["linear", "binary", "scalar"]),
                &["equal", "below", "rank"],
            )
        },
        Subject {
            places: &["sparse-u64", "decimal"],
            ..of(
                "masstree/operations",
                owned(&OPERATED),
                &[
                    "insert",
                    "get",
                    "dependent get",
                    "update",
                    "get+update",
                    "scan 50",
                    "remove",
                ],
            )
        },
        of(
            "masstree/persistence",
            owned(&["hedgerow"]),
            &["load", "reopen", "put", "put beside a checkpoint", "disk"],
        ),
    ]
}

fn of_columns() -> Vec<Subject> {
    vec![
        Subject {
            places: &["mycsb-a", "mycsb-b", "mycsb-c", "mycsb-e"],
            ..of("masstree/columns", ours(&["hedgerow server"]), PLAYED)
        },
        Subject {
            places: &["mycsb-a", "mycsb-b", "mycsb-c"],
            ..of("masstree/columns", redis(), PLAYED)
        },
    ]
}

fn of_servers() -> Vec<Subject> {
    let server = || ours(&["hedgerow server"]);
    let by_memcached = || ours(&["hedgerow server, memcached protocol"]);
    let by_resp = [
        "hedgerow server",
        "hedgerow server on epoll",
        "hedgerow server in memory",
    ];
    let asked = &["GET pipelined", "SET pipelined", "GET x50", "SET x50"];
    let scans = ["hedgerow server", "hedgerow server, keys alone"];
    vec![
        Subject {
            places: &["8 digits"],
            ..of(
                "masstree/served",
                ours(&["hedgerow bst periodic", "hedgerow masstree periodic"]),
                &[
                    "GET",
                    "GET, by server time",
                    "SET, overwriting",
                    "SET, overwriting, by server time",
                    "SET, inserting, by server time",
                ],
            )
        },
        Subject {
            places: &["get", "mycsb-a", "mycsb-e"],
            ..of("masstree/fig13", server(), PLAYED)
        },
        Subject {
            places: &["get"],
            ..of("masstree/fig13", by_memcached(), PLAYED)
        },
        of("masstree/server", ours(&by_resp), asked),
        of("masstree/server-memcached", by_memcached(), asked),
        of(
            "masstree/server-memcached",
            by_memcached(),
            &["GET x50, UDP", "SET x50, UDP"],
        ),
        of(
            "masstree/server-scans",
            ours(&scans),
            &["scan 50 x50", "scan 50 pipelined"],
        ),
        of("masstree/server-idle", server(), &["resident", "memory"]),
    ]
}
