//! What the experiments of the report share: who takes part, and the workloads.

use crate::contestant::Contestant;
use crate::experiment::{Scale, Settings};
use crate::forms::{best_of_all_and, map_of};
use crate::map_experiment::MapPoint;
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;
use hedgerow_lab_own::Empty;
use hedgerow_lab_report::X;

/// The report's seven workloads, in the order of its Table 2.
pub(super) const WORKLOADS: [&str; 7] = [
    "seq_insert",
    "rand_insert",
    "ycsb_a",
    "rand_delete",
    "mixed",
    "ycsb_b",
    "search_after_churn",
];

/// The report's sizes; the small scale ends after the second.
pub(super) const RECORDS: [usize; 5] = [65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

/// What the report compares with, the fastest of the others for integers, and our other trees:
/// the workloads are many, so not everyone goes through them (`masstree/operations` has all).
const RIVALS: [&str; 8] = [
    "std BTreeMap",
    "std::map",
    "absl::btree_map",
    "blart",
    "JudyL",
    "hedgerow inline",
    "btree adaptive",
    Empty::NAME,
];

/// Our trees whose writes come in batches; the report's workloads write one key at a time.
const BATCHES: &str = "matryoshka flat batches";

/// Our index of byte keys: for keys that are no integers.
const BYTES: &str = "matryoshka index";

/// Our trees for integers in all variants, the index of byte keys, and their rivals.
pub(super) fn rivals_and_batches_and_bytes(registry: &Registry) -> Vec<Contestant> {
    let ours = |name: &str| name.starts_with("matryoshka ");
    let mut maps = best_of_all_and(registry, ours);
    maps.retain(|contestant| {
        let name = contestant.map.entry.name;
        ours(name) || RIVALS.contains(&map_of(name))
    });
    maps
}

/// The same without batches and the index of byte keys.
pub(super) fn rivals(registry: &Registry) -> Vec<Contestant> {
    let mut maps = rivals_and_batches_and_bytes(registry);
    maps.retain(|contestant| ![BATCHES, BYTES].contains(&map_of(contestant.map.entry.name)));
    maps
}

/// The contenders of these names and the empty one.
pub(super) fn chosen(registry: &Registry, names: &[&str]) -> Vec<Contestant> {
    let all = || registry.maps.iter().chain(&registry.sets);
    let names = names.iter().copied().chain([Empty::NAME]);
    let found = names.filter_map(|name| all().find(|map| map.entry.name == name));
    found.cloned().map(Contestant::from).collect()
}

/// A workload of the report's on integers of this many bytes.
pub(super) fn on_integers(
    scale: Scale,
    name: &str,
    records: usize,
    key_bytes: usize,
) -> MixedWorkload {
    let mixed = MixedWorkload {
        // One file asks for five million searches, however few the records.
        most_operations: scale.pick(Some(20_000), Some(300_000), None),
        ..MixedWorkload::new(&format!("matryoshka/{name}"), records)
    };
    let set = mixed.resolve().map(|workload| workload.keys.to_string());
    let wide = set.ok().map(|set| set.replace("u32", "u64"));
    MixedWorkload {
        set: wide.filter(|_| key_bytes == 8),
        ..mixed
    }
}

/// A point of everyone who can, told apart by the number of records and the keys' length.
pub(super) fn point(workload: MixedWorkload, key_bytes: usize) -> MapPoint<MixedWorkload> {
    MapPoint {
        parameters: vec![
            ("keys", workload.records.into()),
            ("key bytes", key_bytes.into()),
        ],
        x: None,
        workload,
        only: &[],
    }
}

/// The workloads side by side, over integers of 4 bytes, at sizes where trees outgrow caches.
pub(super) fn by_workload<const N: usize>(
    settings: &Settings,
    workloads: [&str; N],
) -> Vec<MapPoint<MixedWorkload>> {
    let counts = match settings.keys {
        Some(keys) => vec![keys],
        None => settings.scale.pick(
            vec![2000],
            vec![262_144, 1_048_576],
            vec![4_194_304, 16_777_216],
        ),
    };
    let mut points = Vec::new();
    for records in counts {
        points.extend(workloads.map(|name| MapPoint {
            x: Some(X::Category(name.to_owned())),
            ..point(on_integers(settings.scale, name, records, 4), 4)
        }));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_exist_and_keys_widen() {
        for name in WORKLOADS {
            for key_bytes in [4, 8] {
                let keys = on_integers(Scale::Smoke, name, 100, key_bytes)
                    .keys()
                    .expect(name);
                assert!(keys.iter().all(|key| key.len() == key_bytes), "{name}");
            }
        }
    }
}
