//! What experiments of "InnoDB and the Bw-tree" are about.

use hedgerow_lab_report::EXECUTION_TIME;

use super::{Subject, of, ours, owned};

/// The server of the figures, as the thesis had it.
const IN_MEMORY: &str = "hedgerow bwtree in memory";

/// The same tree with a log that is synced before each answer.
const SYNCED: &str = "hedgerow bwtree sync";

/// The tree, and its forms without one mechanism.
const FORMS: [&str; 13] = [
    "bwtree",
    "bwtree, no deltas",
    "bwtree, replay consolidation",
    "bwtree, fixed threshold",
    "bwtree, retry from the root",
    "bwtree, centralised epochs",
    "bwtree, no chunks",
    "bwtree, split records",
    "bwtree, no filters",
    "bwtree, no distances",
    "bwtree, inner chains",
    "bwtree, no compare-and-swap",
    "bwtree, no mapping table",
];

/// What a tree by itself is measured by.
const PHASES: &[&str] = &["insert", "get", "update", "get+update", "scan 50", "remove"];

pub fn all() -> Vec<Subject> {
    let mut all = of_servers();
    all.extend(of_trees());
    all
}

fn of_servers() -> Vec<Subject> {
    let figures = [
        "bwtree/fig11",
        "bwtree/fig15",
        "bwtree/fig19",
        "bwtree/fig23",
        "bwtree/table7",
    ];
    let columns = &[EXECUTION_TIME, "throughput", "server time"];
    let figures = figures.map(|name| of(name, ours(&[IN_MEMORY]), columns));
    let mut all = Vec::from(figures);
    all.push(of(
        "bwtree/table5",
        ours(&[IN_MEMORY, SYNCED]),
        &["insert", "read", "update"],
    ));
    all.push(of(
        "bwtree/durability",
        ours(&[IN_MEMORY, SYNCED]),
        &[
            "insert",
            "read",
            "update",
            "write in a transaction",
            "write in a transaction of 10",
            "delete",
        ],
    ));
    all
}

fn of_trees() -> Vec<Subject> {
    vec![
        Subject {
            places: &["sparse-u64"],
            ..of("bwtree/factors", owned(&FORMS), PHASES)
        },
        of("bwtree/chains", owned(&["bwtree"]), PHASES),
        of("bwtree/chunks", owned(&["bwtree"]), PHASES),
        of(
            "bwtree/epochs",
            owned(&["decentralised epochs", "centralised epochs"]),
            &["insert", "get", "update", "remove"],
        ),
        of(
            "bwtree/retries",
            owned(&["bwtree", "bwtree, retry from the root"]),
            &["insert", "update", "read", "insert ascending"],
        ),
    ]
}
