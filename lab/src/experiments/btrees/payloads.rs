//! Integer keys with large values (§5.1, "Detecting String Keys").
//!
//! The source names two reasons why fingerprints may suit strings better than integers: heads of
//! integers differ, so that a search among them is fast, and records of integers are short, so that
//! a leaf has many fingerprints to look through. Integers with large values tell the two apart, and
//! which layout is faster there decided that the adaptive tree goes by heads. The source shows
//! neither figures nor the size of its values.
//!
//! Lookups and scans use all bytes of a value.

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_own::{PAYLOAD_BYTES, btree_payloads};
use hedgerow_lab_report::X;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fig15::OPERATIONS;
use crate::contestant::Contestant;
use crate::experiment::{About, Answer, Need, Settings};
use crate::map_experiment::{Course, MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;
use crate::verify::verify_entry;
use crate::{LabError, Result};

/// What is compared: the two layouts, and the tree that chooses between them.
const LAYOUTS: [&str; 3] = ["btree hints", "btree fingerprint", "btree adaptive"];

/// The key sets, with what tables call them.
const KEY_SETS: [(&str, &str); 2] = [("dense", "dense-u32"), ("sparse", "sparse-u32")];

/// Operations on a map whose values have one length.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payloads {
    mixed: MixedWorkload,
    /// The length, one of [`PAYLOAD_BYTES`].
    value_bytes: usize,
}

impl Payloads {
    /// The map with values of that length.
    fn sized(&self, map: &MapEntry) -> Result<MapEntry> {
        let (name, bytes) = (map.entry.name, self.value_bytes);
        let mut all = btree_payloads(bytes).into_iter();
        let sized = all.find(|sized| sized.entry.name == name);
        let sized = sized
            .ok_or_else(|| LabError::Usage(format!("no {name} with values of {bytes} bytes")))?;
        Ok(MapEntry {
            entry: map.entry.clone(),
            ..sized
        })
    }
}

impl Course for Payloads {
    fn set(&self) -> Result<KeySet> {
        self.mixed.set()
    }

    fn threads(&self) -> usize {
        self.mixed.threads()
    }

    fn suits_sets(&self) -> bool {
        false
    }

    fn need(&self) -> Need {
        let need = self.mixed.need();
        let values = self.mixed.records * self.value_bytes as u64;
        Need {
            // Leaves are half full at worst.
            memory_bytes: need.memory_bytes + 2 * values,
            ..need
        }
    }

    fn script_keys(&self) -> Result<Keys> {
        self.mixed.script_keys()
    }

    fn verified_by(&self) -> Value {
        json!([self.mixed.verified_by(), self.value_bytes])
    }

    fn verify(&self, map: &MapEntry) -> Result<Answer> {
        let map = self.sized(map)?;
        verify_entry(&map, &self.script_keys()?)?;
        self.mixed.verify(&map)
    }

    fn measure(&self, map: &MapEntry) -> Result<Answer> {
        self.mixed.measure(&self.sized(map)?)
    }

    fn countable(&self) -> Vec<(String, u64)> {
        self.mixed.countable()
    }

    fn count(&self, map: &MapEntry, column: Option<u8>) -> Result<Answer> {
        self.mixed.count(&self.sized(map)?, column)
    }
}

pub fn experiment() -> MapExperiment<Payloads> {
    MapExperiment {
        about: About {
            name: "btrees/payloads",
            title: "Integer keys with large values: hints against fingerprints",
            source: "B-Trees Are Back, §5.1, Detecting String Keys",
            claim: "With integer keys and large payloads the hint array outperforms fingerprints, \
                    so that a leaf's layout follows from how many of its heads differ.",
            x_label: Some("value bytes"),
            x_log: false,
            baseline: "btree hints",
            here: Some(
                "Nodes have hints from 17 records on, and in pages of 4 KiB a leaf has at most \
                 29 with values of 128 bytes, 15 with 256 and 9 with 400: its heads are searched \
                 without hints then.",
            ),
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let maps = registry.maps_named(&LAYOUTS).into_iter();
    maps.map(Contestant::from).collect()
}

fn points(settings: &Settings) -> Vec<MapPoint<Payloads>> {
    let most: u64 = settings.scale.pick(5000, 80_000, 5_000_000);
    let records = settings.keys(3600, 100_000, 5_000_000);
    let lengths: &[usize] = settings
        .scale
        .pick(&[8, 256], &PAYLOAD_BYTES, &PAYLOAD_BYTES);
    let mut points = Vec::new();
    for (file, operation) in OPERATIONS {
        for (keys, set) in KEY_SETS {
            points.extend(lengths.iter().map(|&value_bytes| MapPoint {
                parameters: vec![("operation", operation.into()), ("keys", keys.into())],
                x: Some(X::Number(value_bytes as f64)),
                workload: Payloads {
                    mixed: MixedWorkload {
                        set: Some(set.to_owned()),
                        most_operations: Some(most),
                        ..MixedWorkload::new(file, records)
                    },
                    value_bytes,
                },
                only: &[],
            }));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use hedgerow_btree::BTree;
    use hedgerow_btree::configuration::Hints;

    use super::*;

    fn payloads(value_bytes: usize) -> Payloads {
        Payloads {
            mixed: MixedWorkload::new("btrees/insert", 2000),
            value_bytes,
        }
    }

    #[test]
    fn every_layout_holds_values_of_every_length() {
        let registry = Registry::new();
        let maps = maps(&registry);
        assert_eq!(maps.len(), LAYOUTS.len());
        for bytes in PAYLOAD_BYTES {
            for contestant in &maps {
                let name = contestant.map.entry.name;
                let answer = payloads(bytes).verify(&contestant.map);
                answer.unwrap_or_else(|error| panic!("{name}, {bytes} bytes: {error}"));
            }
        }
        assert!(payloads(9).sized(&maps[0].map).is_err());
    }

    /// What the experiment says of its machine.
    #[test]
    fn leaves_hold_the_longest_values_themselves_and_as_many_as_stated() {
        for (bytes, most) in [(128, 29), (256, 15), (400, 9)] {
            let mut tree = BTree::<Hints>::default();
            let mut records = 0_u32;
            while tree.statistics().get("depth_levels") == Some(1.0) {
                tree.insert(
                    &records.wrapping_mul(0x9E37_79B1).to_be_bytes(),
                    &vec![7; bytes],
                );
                records += 1;
            }
            assert_eq!(records, most + 1, "{bytes} bytes");
            let statistics = tree.statistics();
            assert_eq!(statistics.get("overflow_pages"), Some(0.0), "{bytes} bytes");
            let shared = statistics.get("shared_overflow_pages");
            assert_eq!(shared, Some(0.0), "{bytes} bytes");
        }
    }
}
