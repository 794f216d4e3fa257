//! What figures of `scale/hbase` are about.

use super::{Subject, of, ours, owned};

/// The places: the load, and YCSB's workloads.
const PLACES: &[&str] = &["LOAD", "A", "B", "C", "D", "E", "F"];

/// HBase's own client and our server, where `HEDGEROW_HBASE_DIR` names a cluster; results say why
/// they take no part elsewhere.
fn on_hbase() -> Vec<String> {
    if std::env::var_os("HEDGEROW_HBASE_DIR").is_none() {
        println!("skipped: no HBase cluster (HEDGEROW_HBASE_DIR names one; see .ci/hbase)");
        return Vec::new();
    }
    owned(&["HBase's Java client", "hedgerow on HBase"])
}

pub fn all() -> Vec<Subject> {
    let columns = &[
        "operations",
        "mean",
        "p50",
        "p95",
        "p99",
        "processor time, all",
    ];
    vec![
        Subject {
            places: PLACES,
            ..of("scale/hbase", ours(&["hedgerow, own storage"]), columns)
        },
        Subject {
            places: PLACES,
            ..of("scale/hbase", on_hbase(), columns)
        },
    ]
}
