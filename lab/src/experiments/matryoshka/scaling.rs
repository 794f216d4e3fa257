//! The seven workloads as keys are added (§4 to §6, the even figures from 2 to 14; Tables 7, 8
//! and 11 are some of the same sizes).

use hedgerow_lab_report::X;

use super::points::{RECORDS, WORKLOADS, on_integers, point, rivals};
use crate::experiment::{About, Scale, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "matryoshka/scaling",
            title: "Inserts, deletes and searches as keys are added",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §4 to §6, Figs. 2 to 14",
            claim: "From 4,194,304 to 16,777,216 keys, random inserts lose 18 % in Matryoshka with \
                    fence keys (1.19 to 0.97 Mop/s), 23 % in Abseil's B-tree (1.11 to 0.85) and \
                    22 % in std::set (0.36 to 0.28).",
            x_label: Some("keys"),
            x_log: true,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: rivals,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let counts = match (settings.keys, settings.scale) {
        (Some(keys), _) => vec![keys],
        (None, Scale::Smoke) => vec![1000, 2000],
        (None, Scale::Small) => RECORDS[..2].to_vec(),
        (None, Scale::Paper) => RECORDS.to_vec(),
    };
    // The source's keys have 4 bytes; 8 are what most maps here hold.
    let widths = settings.scale.pick(vec![8], vec![4], vec![4, 8]);
    let mut points = Vec::new();
    for name in WORKLOADS {
        for &key_bytes in &widths {
            points.extend(counts.iter().map(|&records| MapPoint {
                parameters: vec![("workload", name.into()), ("key bytes", key_bytes.into())],
                x: Some(X::Number(records as f64)),
                ..point(
                    on_integers(settings.scale, name, records, key_bytes),
                    key_bytes,
                )
            }));
        }
    }
    points
}
