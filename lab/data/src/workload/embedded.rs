//! The workload files that are part of the program.

use super::{Workload, WorkloadError};

/// Name and text of each file.
const FILES: &[(&str, &str)] = &[
    (
        "bst/lookup-100",
        include_str!("../../workloads/bst/lookup-100.toml"),
    ),
    (
        "bst/lookup-50",
        include_str!("../../workloads/bst/lookup-50.toml"),
    ),
    (
        "bst/lookup-70",
        include_str!("../../workloads/bst/lookup-70.toml"),
    ),
    (
        "bst/lookup-90",
        include_str!("../../workloads/bst/lookup-90.toml"),
    ),
    (
        "btrees/half-scans",
        include_str!("../../workloads/btrees/half-scans.toml"),
    ),
    (
        "btrees/insert",
        include_str!("../../workloads/btrees/insert.toml"),
    ),
    (
        "btrees/lookup",
        include_str!("../../workloads/btrees/lookup.toml"),
    ),
    (
        "btrees/partitioned-insert",
        include_str!("../../workloads/btrees/partitioned-insert.toml"),
    ),
    (
        "btrees/scan",
        include_str!("../../workloads/btrees/scan.toml"),
    ),
    (
        "btrees/skew",
        include_str!("../../workloads/btrees/skew.toml"),
    ),
    (
        "btrees/ycsb-e",
        include_str!("../../workloads/btrees/ycsb-e.toml"),
    ),
    (
        "bwtree/delete",
        include_str!("../../workloads/bwtree/delete.toml"),
    ),
    (
        "bwtree/delete-monotone",
        include_str!("../../workloads/bwtree/delete-monotone.toml"),
    ),
    (
        "bwtree/insert",
        include_str!("../../workloads/bwtree/insert.toml"),
    ),
    (
        "bwtree/insert-monotone",
        include_str!("../../workloads/bwtree/insert-monotone.toml"),
    ),
    (
        "bwtree/read",
        include_str!("../../workloads/bwtree/read.toml"),
    ),
    (
        "bwtree/read-monotone",
        include_str!("../../workloads/bwtree/read-monotone.toml"),
    ),
    (
        "bwtree/read-update",
        include_str!("../../workloads/bwtree/read-update.toml"),
    ),
    (
        "bwtree/read-update-monotone",
        include_str!("../../workloads/bwtree/read-update-monotone.toml"),
    ),
    (
        "bwtree/update",
        include_str!("../../workloads/bwtree/update.toml"),
    ),
    (
        "bwtree/update-monotone",
        include_str!("../../workloads/bwtree/update-monotone.toml"),
    ),
    (
        "masstree/get",
        include_str!("../../workloads/masstree/get.toml"),
    ),
    (
        "masstree/mycsb-a",
        include_str!("../../workloads/masstree/mycsb-a.toml"),
    ),
    (
        "masstree/mycsb-b",
        include_str!("../../workloads/masstree/mycsb-b.toml"),
    ),
    (
        "masstree/mycsb-c",
        include_str!("../../workloads/masstree/mycsb-c.toml"),
    ),
    (
        "masstree/mycsb-e",
        include_str!("../../workloads/masstree/mycsb-e.toml"),
    ),
    (
        "masstree/put",
        include_str!("../../workloads/masstree/put.toml"),
    ),
    (
        "masstree/put-existing",
        include_str!("../../workloads/masstree/put-existing.toml"),
    ),
    (
        "matryoshka/batch_insert",
        include_str!("../../workloads/matryoshka/batch_insert.toml"),
    ),
    (
        "matryoshka/bulk_load",
        include_str!("../../workloads/matryoshka/bulk_load.toml"),
    ),
    (
        "matryoshka/large_keys",
        include_str!("../../workloads/matryoshka/large_keys.toml"),
    ),
    (
        "matryoshka/lookup_then_insert",
        include_str!("../../workloads/matryoshka/lookup_then_insert.toml"),
    ),
    (
        "matryoshka/mixed",
        include_str!("../../workloads/matryoshka/mixed.toml"),
    ),
    (
        "matryoshka/rand_delete",
        include_str!("../../workloads/matryoshka/rand_delete.toml"),
    ),
    (
        "matryoshka/rand_insert",
        include_str!("../../workloads/matryoshka/rand_insert.toml"),
    ),
    (
        "matryoshka/scan_after_insert",
        include_str!("../../workloads/matryoshka/scan_after_insert.toml"),
    ),
    (
        "matryoshka/search_after_churn",
        include_str!("../../workloads/matryoshka/search_after_churn.toml"),
    ),
    (
        "matryoshka/seq_insert",
        include_str!("../../workloads/matryoshka/seq_insert.toml"),
    ),
    (
        "matryoshka/shrink",
        include_str!("../../workloads/matryoshka/shrink.toml"),
    ),
    (
        "matryoshka/ycsb_a",
        include_str!("../../workloads/matryoshka/ycsb_a.toml"),
    ),
    (
        "matryoshka/ycsb_b",
        include_str!("../../workloads/matryoshka/ycsb_b.toml"),
    ),
    (
        "matryoshka/zipf_insert",
        include_str!("../../workloads/matryoshka/zipf_insert.toml"),
    ),
    ("ycsb/a", include_str!("../../workloads/ycsb/a.toml")),
    ("ycsb/b", include_str!("../../workloads/ycsb/b.toml")),
    ("ycsb/c", include_str!("../../workloads/ycsb/c.toml")),
    ("ycsb/d", include_str!("../../workloads/ycsb/d.toml")),
    ("ycsb/e", include_str!("../../workloads/ycsb/e.toml")),
    ("ycsb/f", include_str!("../../workloads/ycsb/f.toml")),
];

impl Workload {
    /// The names of the workloads that are part of the program.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// When there is none of this name.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let unknown = || WorkloadError::UnknownName {
            name: name.to_owned(),
        };
        let (name, text) = FILES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(unknown)?;
        Self::parse(text, name)
    }
}
