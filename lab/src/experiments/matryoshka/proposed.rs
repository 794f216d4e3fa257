//! The six access patterns that the report proposes and does not measure (§11.9), and random
//! inserts, which a contender of ours makes in batches.
//!
//! Keys of 16 and 32 bytes are too long for the report's lines, which hold integers. Of ours the
//! index of byte keys takes them, whose pages have the first eight bytes of a key as an integer
//! (§12.8 proposes indirection), beside Masstree and the B-tree.

use hedgerow_lab_report::X;

use super::points::{on_integers, point, rivals_and_batches_and_bytes};
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

/// Those on integers, in the report's order, behind what they are to be seen beside.
const ON_INTEGERS: [&str; 6] = [
    "rand_insert",
    "zipf_insert",
    "scan_after_insert",
    "lookup_then_insert",
    "shrink",
    "bulk_load",
];

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/proposed",
            title: "Inserts in batches, skewed ones, ranges, lookups before inserts, long keys, \
                    shrinking, bulk loads",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §11.9",
            claim: "Proposed, not measured. The report expects Matryoshka to lead on ranges of \
                    1000 and on bulk loads, to search as well while it shrinks, and to suffer from \
                    longer keys, which suit radix trees.",
            x_label: Some("workload"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: rivals_and_batches_and_bytes,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let records = settings.keys(2000, 131_072, 16_777_216);
    let mut points = Vec::new();
    for key_bytes in [4, 8] {
        points.extend(ON_INTEGERS.map(|name| MapPoint {
            x: Some(X::Category(name.to_owned())),
            ..point(
                on_integers(settings.scale, name, records, key_bytes),
                key_bytes,
            )
        }));
    }
    // Eight digits behind what all keys share: 10^8 keys, which is enough for any scale.
    for key_bytes in [16, 32] {
        let workload = MixedWorkload {
            set: Some(format!("prefixed-decimal:{}", key_bytes - 8)),
            ..MixedWorkload::new("matryoshka/large_keys", records)
        };
        points.push(MapPoint {
            x: Some(X::Category("large_keys".to_owned())),
            ..point(workload, key_bytes)
        });
    }
    points
}
