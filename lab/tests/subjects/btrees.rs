//! What experiments of "B-Trees Are Back" are about.

use super::{Subject, of, ours, owned};

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

/// The same, each for many threads.
const SHARED_LAYOUTS: [&str; 8] = [
    "btree shared baseline",
    "btree shared prefix",
    "btree shared heads",
    "btree shared hints",
    "btree shared fingerprint",
    "btree shared semi dense",
    "btree shared fully dense",
    "btree shared adaptive",
];

/// Semi dense leaves with options.
const SEMI_DENSE: [&str; 4] = [
    "semi dense, vectors",
    "semi dense, over-commit",
    "semi dense, ends",
    "semi dense, all options",
];

/// What is measured beside other maps.
const BESIDE_OTHERS: [&str; 3] = ["btree baseline", "btree adaptive", "std BTreeMap"];

/// The rows of Table 1.
const OPTIMISATIONS: [&str; 6] = [
    "prefix truncation",
    "heads",
    "hints",
    "fingerprints",
    "semi dense leaves",
    "fully dense leaves",
];

/// The groups of Fig. 8.
const FIG_8: &[&str] = &[
    "operation \"insert the last tenth\"",
    "operation \"zipf lookup\"",
    "operation \"zipf scan of 1 to 50\"",
    "operation \"warm zipf scan of 1 to 50\"",
    "operation \"YCSB-E: scans with 5 % insertions\"",
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

/// The operations and key sets of values by length.
const PAYLOADS: &[&str] = &[
    "operation \"insert the last tenth\"",
    "operation \"zipf lookup\"",
    "operation \"zipf scan of 1 to 50\"",
    "keys \"dense\"",
    "keys \"sparse\"",
];

fn secondary() -> Subject {
    Subject {
        places: &["32 bits", "64 bits"],
        ..of("btrees/secondary", owned(&BESIDE_OTHERS), &["operations"])
    }
}

/// What each contender has on each of the key sets.
fn by_keys(name: &'static str, contenders: &[&str], columns: &'static [&'static str]) -> Subject {
    Subject {
        places: KEY_SETS,
        ..of(name, owned(contenders), columns)
    }
}

/// The same under each of the operations.
fn by_operations(name: &'static str, contenders: &[&str]) -> Subject {
    Subject {
        parameters: OPERATIONS,
        ..by_keys(name, contenders, &["operations"])
    }
}

fn payloads() -> Subject {
    let layouts = owned(&["btree hints", "btree fingerprint", "btree adaptive"]);
    Subject {
        parameters: PAYLOADS,
        ..of("btrees/payloads", layouts, &["operations"])
    }
}

fn fan_out() -> [Subject; 2] {
    let counted = &[
        "fan-out",
        "fan-out ÷ before",
        "fan-out above leaves",
        "leaf",
        "space",
        "space ÷ before",
        "space, all records",
    ];
    [
        by_keys("btrees/fan-out", &LAYOUTS, counted),
        by_keys("btrees/fan-out", &["btree hints"], &["hinted range"]),
    ]
}

/// What is counted of leaves, after each phase or up to it.
fn forms_of_leaves() -> [Subject; 2] {
    [
        by_keys(
            "btrees/fig12",
            &["btree adaptive"],
            &[
                "to dense up to insertions",
                "to fingerprint by keys up to insertions",
                "to fingerprint by counter up to lookups",
                "to comparison by counter up to scans",
            ],
        ),
        by_keys(
            "btrees/fig13",
            &["btree adaptive"],
            &[
                "comparison after insertions",
                "fingerprint after lookups",
                "fully dense after scans",
            ],
        ),
    ]
}

fn beyond_threads_and_memory() -> Vec<Subject> {
    vec![
        Subject {
            parameters: &[
                "key set \"dense\"",
                "key set \"sparse\"",
                "key set \"paths\"",
                "key set \"words\"",
            ],
            ..of("btrees/fig18", owned(&SHARED_LAYOUTS), &["operations"])
        },
        of(
            "btrees/fig19",
            owned(&["hedgerow btree"]),
            &["get", "get zipf"],
        ),
        of(
            "btrees/reads",
            owned(&["pread", "file batches", "pool faults", "pool batches"]),
            &["pages read"],
        ),
        of(
            "btrees/durable",
            owned(&["hedgerow", "hedgerow btree"]),
            &["load", "get", "update", "ycsb/a", "reopen after kill -9"],
        ),
        Subject {
            parameters: &["data / cache 0.5", "data / cache 2.0"],
            ..of(
                "btrees/durable",
                owned(&["hedgerow btree"]),
                &["get", "ycsb/a"],
            )
        },
        Subject {
            places: &["16 bytes", "decimals", "paths", "words"],
            ..of(
                "btrees/served",
                ours(&["hedgerow btree periodic", "hedgerow masstree periodic"]),
                &["GET", "SET, overwriting", "SET, inserting", "RANGE of 50"],
            )
        },
    ]
}

pub fn all() -> Vec<Subject> {
    let mut all = of_times();
    all.extend(fan_out());
    all.extend(forms_of_leaves());
    all.extend(beyond_threads_and_memory());
    all.push(payloads());
    all
}

fn of_times() -> Vec<Subject> {
    vec![
        by_operations("btrees/fig7", &LAYOUTS[..4]),
        Subject {
            parameters: FIG_8,
            ..by_keys(
                "btrees/fig8",
                &["btree hints", "btree fingerprint"],
                &["operations"],
            )
        },
        of(
            "btrees/fig9",
            [owned(&LAYOUTS), owned(&SEMI_DENSE)].concat(),
            &["insert", "memory", "get", "scan 50"],
        ),
        of(
            "btrees/fig11",
            [owned(&LAYOUTS), owned(&SEMI_DENSE)].concat(),
            &["insert", "memory"],
        ),
        by_keys(
            "btrees/table1",
            &OPTIMISATIONS,
            &["lookups, with ÷ without"],
        ),
        by_operations("btrees/fig14", &LAYOUTS),
        by_operations("btrees/fig15", &BESIDE_OTHERS),
        secondary(),
        by_keys("btrees/fig16", &BESIDE_OTHERS, &["memory"]),
        of("btrees/fig17", owned(&BESIDE_OTHERS), &["operations"]),
        by_operations("btrees/thresholds", &THRESHOLDS),
        Subject {
            places: &["differ", "are equal"],
            ..of(
                "btrees/background",
                owned(&["left alone", "adapted in the background", "filled anew"]),
                &["fingerprints", "lookup", "scan of 25"],
            )
        },
        of("btrees/contention", owned(&CONTENDED), &["updates"]),
        of(
            "btrees/fig19-trees",
            owned(&["btree baseline", "btree adaptive"]),
            &["lookups", "pages read", "space"],
        ),
    ]
}
