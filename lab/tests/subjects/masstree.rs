//! What figures of the Masstree paper are about.

use std::path::Path;

use hedgerow_lab::process::find_program;

use super::{Subject, of, owned};

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

/// Our servers, where ours is built beside the lab.
fn ours(names: &[&str]) -> Vec<String> {
    match Path::new(env!("CARGO_BIN_EXE_hedgerow-lab"))
        .with_file_name("hedgerow")
        .is_file()
    {
        true => owned(names),
        false => {
            println!("skipped: no hedgerow beside the lab (cargo build -p hedgerow-cli)");
            Vec::new()
        }
    }
}

/// Redis, where it is installed.
fn redis() -> Vec<String> {
    let found = find_program("redis-server");
    found.map(|_| "redis".to_owned()).into_iter().collect()
}

pub fn all() -> Vec<Subject> {
    let played = &["pipelined", "50 connections", "latency p50", "memory"];
    vec![
        of("masstree/fig8", owned(&FIG_8), &["insert", "get"]),
        of(
            "masstree/fig9",
            owned(&["B-tree +permuter", "pkB-tree", "hedgerow inline"]),
            &["insert", "get"],
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
            places: &["mycsb-a", "mycsb-b", "mycsb-c", "mycsb-e"],
            ..of("masstree/columns", ours(&["hedgerow server"]), played)
        },
        Subject {
            places: &["mycsb-a", "mycsb-b", "mycsb-c"],
            ..of("masstree/columns", redis(), played)
        },
    ]
}
