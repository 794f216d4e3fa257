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

/// The thresholds of the adaptive tree, its own first.
const THRESHOLDS: [&str; 9] = [
    "btree adaptive",
    "equal heads 1/64",
    "equal heads 2/64",
    "equal heads 8/64",
    "equal heads 16/64",
    "counted x 0.5",
    "counted x 2",
    "counter to 5",
    "counter to 8",
];

/// Trees whose leaves are split where writers wait, the same without, and Masstree.
const CONTENDED: [&str; 9] = [
    "btree fingerprint",
    "btree fingerprint, no splits",
    "btree adaptive",
    "btree adaptive, no splits",
    "btree hints",
    "btree hints, no splits",
    "btree baseline",
    "btree baseline, no splits",
    "hedgerow inline",
];

/// The operations of §4, as tables call them.
const OPERATIONS: &[&str] = &[
    "operation \"insert the last tenth\"",
    "operation \"zipf lookup\"",
    "operation \"zipf scan of 1 to 50\"",
];

pub fn all() -> Vec<Subject> {
    let by_keys = |name, contenders: &[&str], columns| Subject {
        places: KEY_SETS,
        ..of(name, owned(contenders), columns)
    };
    let by_operations = |name, contenders: &[&str]| Subject {
        parameters: OPERATIONS,
        ..by_keys(name, contenders, &["operations"])
    };
    vec![
        by_keys(
            "btrees/fan-out",
            &LAYOUTS,
            &[
                "fan-out",
                "fan-out above leaves",
                "leaf",
                "space",
                "space, all records",
            ],
        ),
        by_operations("btrees/thresholds", &THRESHOLDS),
        of("btrees/contention", owned(&CONTENDED), &["updates"]),
    ]
}
