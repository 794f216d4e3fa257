//! Layouts of one tree, compared (§4.1 to §4.5 and §5.2, Figures 7, 8 and 14): the B-tree's
//! configurations on the four key sets, and no one else.

use hedgerow_lab_report::X;

use super::{fig15, key_sets};
use crate::contestant::Contestant;
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;

/// The named maps, in this order.
fn named(registry: &Registry, names: &[&str]) -> Vec<Contestant> {
    let maps = names.iter().filter_map(|name| registry.map(name));
    maps.cloned().map(Contestant::from).collect()
}

fn about(
    name: &'static str,
    title: &'static str,
    source: &'static str,
    claim: &'static str,
    baseline: &'static str,
) -> About {
    About {
        name,
        title,
        source,
        claim,
        x_label: Some("key set"),
        x_log: false,
        baseline,
        here: None,
        compared_to: None,
    }
}

/// Prefix truncation, heads and hints, each on top of the one before.
pub fn fig7() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: about(
            "btrees/fig7",
            "Prefix truncation, heads and hints",
            "B-Trees Are Back, §4.1 to §4.3, Fig. 7",
            "Prefix truncation changes little but on URLs; heads add 16 to 64 % to lookups and \
             insertions, 3 to 12 % to scans; hints 25 % to lookups of integers and up to 6 % to \
             those of strings.",
            "btree baseline",
        ),
        maps: |registry| {
            let names = [
                "btree baseline",
                "btree prefix",
                "btree heads",
                "btree hints",
                "btree wide heads",
                "btree wide hints",
            ];
            named(registry, &names)
        },
        points: fig15::points,
    }
}

/// What separates two reasons why scans of fingerprints are slow: leaves are sorted lazily, and
/// have no heads. Before *warm* scans all leaves are sorted; YCSB's workload E inserts now and
/// then, and has leaves sorted again.
const SCANS: [(&str, &str, bool); 2] = [
    ("btrees/scan", "warm zipf scan of 1 to 50", true),
    ("btrees/ycsb-e", "YCSB-E: scans with 5 % insertions", false),
];

fn fig8_points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let most: u64 = settings.scale.pick(5000, 80_000, 5_000_000);
    let sets = key_sets::four(settings);
    let mut points = fig15::points(settings);
    for (file, operation, scanned) in SCANS {
        points.extend(sets.iter().map(|keys| MapPoint {
            parameters: vec![("operation", operation.into())],
            x: Some(X::Category(keys.label.to_owned())),
            workload: MixedWorkload {
                set: Some(keys.set.to_owned()),
                most_operations: Some(most),
                scanned,
                ..MixedWorkload::new(file, keys.records)
            },
            only: &[],
        }));
    }
    points
}

/// Fingerprints against heads and hints.
pub fn fig8() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: about(
            "btrees/fig8",
            "Fingerprints against heads and hints",
            "B-Trees Are Back, §4.5, Fig. 8",
            "Fingerprints add 13 to 22 % to lookups of strings, take about 10 % from those of \
             integers, and slow all scans down: warm ones most where keys are integers.",
            "btree hints",
        ),
        maps: |registry| named(registry, &["btree hints", "btree fingerprint"]),
        points: fig8_points,
    }
}

/// The adaptive tree against what it chooses from.
pub fn fig14() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: about(
            "btrees/fig14",
            "The adaptive tree against its own forms",
            "B-Trees Are Back, §5.2, Fig. 14",
            "The adaptive tree has at least 98 % of the throughput of the better of fully dense \
             leaves and fingerprints, but for scans of titles, where 8 % are missing as it has \
             not adapted completely.",
            "btree adaptive",
        ),
        maps: |registry| {
            let names = [
                "btree adaptive",
                "btree baseline",
                "btree prefix",
                "btree heads",
                "btree hints",
                "btree fingerprint",
                "btree semi dense",
                "btree fully dense",
            ];
            named(registry, &names)
        },
        points: fig15::points,
    }
}
