//! What a row store costs when it grows beyond one machine: Hedgerow on an HBase cluster, beside
//! HBase's own client and beside Hedgerow with its own storage.

mod cluster;
mod hbase;
mod java_client;
mod operations;
mod resp_client;
mod values;

use crate::experiment::Experiment;

pub use hbase::{JAVA, ON_HBASE};
pub use operations::WORKLOADS;

/// All of them.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(hbase::Ycsb)]
}
