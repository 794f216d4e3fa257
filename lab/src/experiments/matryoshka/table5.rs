//! The seven workloads with many keys (§3 and §10, Table 5).
//!
//! A predecessor search is a search for the next key at or after one that need not be there.
//! As in the report, a map without order looks the key itself up instead, which is easier; such
//! figures stand in a column of their own.

use hedgerow_lab_report::X;

use super::points::{WORKLOADS, on_integers, point, rivals};
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/table5",
            title: "Inserts, deletes and searches of integers",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §3 and §10, Table 5",
            claim: "With 16,777,216 keys of 4 bytes, Matryoshka with fence keys does 0.6 (appends) \
                    to 1.2 times (deletes and searches) what Abseil's B-tree does, 1.14 times on \
                    random inserts, and 3.0 to 5.2 times what std::set does.",
            x_label: Some("workload"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: rivals,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let paper = [4_194_304, 16_777_216];
    let counts = match settings.keys {
        Some(keys) => vec![keys],
        None => settings
            .scale
            .pick(vec![2000], vec![262_144], paper.to_vec()),
    };
    let mut points = Vec::new();
    for records in counts {
        for key_bytes in [4, 8] {
            points.extend(WORKLOADS.map(|name| MapPoint {
                x: Some(X::Category(name.to_owned())),
                ..point(
                    on_integers(settings.scale, name, records, key_bytes),
                    key_bytes,
                )
            }));
        }
    }
    points
}
