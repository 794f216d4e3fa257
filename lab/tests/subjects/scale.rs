//! What figures of `scale/hbase` are about.

use std::path::Path;

use super::{Subject, of, owned};

/// The places: the load, and YCSB's workloads.
const PLACES: &[&str] = &["LOAD", "A", "B", "C", "D", "E", "F"];

/// Our server with its own storage, where ours is built beside the lab. On HBase it takes part
/// where `HEDGEROW_HBASE_DIR` names a cluster; results say why it does not elsewhere.
fn ours() -> Vec<String> {
    let lab = Path::new(env!("CARGO_BIN_EXE_hedgerow-lab"));
    if !lab.with_file_name("hedgerow").is_file() {
        println!("skipped: no hedgerow beside the lab (cargo build -p hedgerow-cli)");
        return Vec::new();
    }
    owned(&["hedgerow, own storage"])
}

/// HBase's own client and our server, where there is a cluster.
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
            ..of("scale/hbase", ours(), columns)
        },
        Subject {
            places: PLACES,
            ..of("scale/hbase", on_hbase(), columns)
        },
    ]
}
