//! What figures of "B-Trees Are Back" are about.

use super::{Subject, of, owned};

/// The key sets at the smallest scale.
const KEY_SETS: &[&str] = &["dense", "sparse", "paths", "words"];

/// The layouts of the paper, each for one thread.
const LAYOUTS: [&str; 8] = [
    "btree baseline",
    "btree prefix",
    "btree heads",
    "btree hints",
    "btree fingerprint",
    "btree semi dense",
    "btree fully dense",
    "btree adaptive",
];

pub fn all() -> Vec<Subject> {
    let by_keys = |name, contenders: &[&str], columns| Subject {
        places: KEY_SETS,
        ..of(name, owned(contenders), columns)
    };
    vec![by_keys(
        "btrees/fan-out",
        &LAYOUTS,
        &[
            "fan-out",
            "fan-out above leaves",
            "leaf",
            "space",
            "space, all records",
        ],
    )]
}
