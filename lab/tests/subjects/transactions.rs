//! What experiments on the engine's transactions and snapshots are about, TPC-C among them.

use super::{Subject, of, ours, owned};

/// The engine's indexes.
const INDEXES: [&str; 5] = ["masstree", "btree", "matryoshka", "bwtree", "bst"];

/// The engine's forms of transactions; all but the last have their rows in memory.
const FORMS: [&str; 4] = [
    "hedgerow serializable",
    "hedgerow snapshot",
    "hedgerow locking",
    BEYOND_MEMORY,
];

const BEYOND_MEMORY: &str = "hedgerow btree serializable";

pub fn all() -> Vec<Subject> {
    let mut all = vec![
        of(
            "transactions/snapshots",
            owned(&INDEXES),
            &[
                "get, at a snapshot",
                "scan of 100, at a snapshot",
                "put, beside one",
                "get of replaced rows, at a snapshot",
                "open and drop",
            ],
        ),
        of(
            "transactions/interactive",
            ours(&["hedgerow server, BEGIN", "hedgerow server, WATCH"]),
            &["zipf 0", "zipf 0.9", "zipf 1.2"],
        ),
        Subject {
            places: &["not synced"],
            ..of(
                "tpcc/engine",
                owned(&INDEXES),
                &["transactions", "begun again", "load"],
            )
        },
    ];
    all.extend(by_memory(
        "transactions/short",
        &[
            "2 reads, 2 writes, zipf 0, 1 threads",
            "2 reads, 2 writes, zipf 1.2, 1 threads",
            "10 reads, 10 writes, zipf 0.9, 1 threads",
            "2 reads, zipf 0, 1 threads",
        ],
    ));
    all.extend(by_memory(
        "transactions/beside",
        &["writes alone", "writes beside", "reader lasted"],
    ));
    all
}

/// Every form in memory, and the one that can have its rows elsewhere beyond it.
fn by_memory(name: &'static str, columns: &'static [&'static str]) -> [Subject; 2] {
    [
        Subject {
            places: &["in memory"],
            ..of(name, owned(&FORMS), columns)
        },
        Subject {
            places: &["beyond"],
            ..of(name, owned(&[BEYOND_MEMORY]), columns)
        },
    ]
}
