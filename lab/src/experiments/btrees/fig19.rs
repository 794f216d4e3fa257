//! Larger than memory: lookups by many threads as the cache shrinks (§7.2, Fig. 19).
//!
//! The data stays the same and the cache is a first to an eighth of it. Only engines whose cache
//! can be limited take part. Most read through the system's page cache: their files begin outside
//! of it, a control group limits it where there are such groups, and a column says how much was
//! read from storage.

use hedgerow_lab_contender::{StoreEntry, Unavailable};
use hedgerow_lab_report::X;

use crate::experiment::{About, Scale, Settings};
use crate::registry::Registry;
use crate::stores::{Commits, Leg, StoreExperiment, StorePoint, StoreWorkload, unlimited};

/// Key sets, with the mean length of a key.
const SETS: [(&str, usize); 3] = [("dense-u64", 8), ("sparse-u64", 8), ("path", 64)];

/// How many times as large as the cache the data is.
const RATIOS: [u64; 4] = [1, 2, 4, 8];

/// The source's values are 8 bytes; larger ones need fewer records for as many pages.
const VALUE_BYTES: usize = 112;

/// Seconds for the lookups of one kind: a slow disk must not make a round of minutes.
const LONGEST_SECONDS: f64 = 1.5;

pub fn experiment() -> StoreExperiment {
    StoreExperiment {
        about: About {
            name: "btrees/fig19",
            title: "Lookups in data larger than the cache",
            source: "B-Trees Are Back, §7.2, Fig. 19",
            claim: "Throughput drops sharply where lookups need evicted pages; from there space \
                    efficiency decides. With 256 threads and the smallest pool 661,000 to \
                    777,000 pages are read per second, 61 to 72 % of what fio reads.",
            x_label: Some("data / cache"),
            x_log: true,
            baseline: "redb",
            here: None,
            compared_to: None,
        },
        stores,
        points,
    }
}

/// All engines; who has no limit to its cache is there with the reason.
fn stores(registry: &Registry) -> Vec<StoreEntry> {
    let mut stores = registry.stores.clone();
    for store in &mut stores {
        if let Some((why, remedy)) = unlimited(store.entry.name) {
            store.open = Err(Unavailable {
                why: why.to_owned(),
                remedy: remedy.to_owned(),
            });
        }
    }
    stores
}

fn points(settings: &Settings) -> Vec<StorePoint> {
    let data_bytes: u64 = settings.scale.pick(6 << 20, 128 << 20, 8 << 30);
    let threads = settings.scale.pick(4, 32, 256);
    let mut points = Vec::new();
    let (sets, ratios): (&[_], &[u64]) = match settings.scale {
        // Our own cache has at least 2 MiB; and a cache that small is slow to load through.
        Scale::Smoke => (&SETS[1..2], &RATIOS[..2]),
        Scale::Small => (&SETS[1..], &[1, 8]),
        Scale::Paper => (&SETS, &RATIOS),
    };
    for &(set, key_bytes) in sets {
        let whole = data_bytes as usize / (key_bytes + VALUE_BYTES);
        let records = settings.keys.unwrap_or(whole);
        let data_bytes = (records * (key_bytes + VALUE_BYTES)) as u64;
        points.extend(ratios.iter().map(|&ratio| {
            // Commits are never synced, as one engine takes nothing else; only reads are timed.
            let workload = StoreWorkload::new(set, records, VALUE_BYTES, Commits::Never);
            let mut workload = workload.beyond_cache(data_bytes, ratio);
            workload.threads = threads;
            workload.operations = settings.scale.pick(1000, 25_000, 10_000_000);
            workload.legs = vec![Leg::Get, Leg::ZipfGet];
            workload.longest_reading_seconds = match settings.scale {
                Scale::Smoke | Scale::Small => Some(LONGEST_SECONDS),
                Scale::Paper => Some(60.0),
            };
            let mut parameters = vec![
                ("key set", set.into()),
                ("records", records.into()),
                ("threads", threads.into()),
            ];
            parameters.extend(workload.memory_parameter());
            StorePoint {
                parameters,
                x: Some(X::Number(ratio as f64)),
                workload,
            }
        }));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_lab_data::KeySet;

    #[test]
    fn keys_are_as_long_as_the_data_is_said_to_be() {
        for (name, key_bytes) in SETS {
            let set: KeySet = name.parse().expect(name);
            let keys = set.keys(20_000).expect(name);
            let mean = keys.total_bytes() / keys.len();
            assert!(mean.abs_diff(key_bytes) <= 2, "{name}: {mean} bytes a key");
        }
    }
}
