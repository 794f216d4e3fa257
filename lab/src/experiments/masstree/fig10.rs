//! Scaling with threads: gets and puts of 1-to-10-byte decimals (§6.5, Fig. 10).
//!
//! The figure's ideal is a horizontal line of throughput per core; here the total is shown, so
//! the ideal is a straight line through the origin.

use hedgerow_lab_report::X;

use crate::experiment::{About, Settings};
use crate::forms::concurrent_best;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "masstree/fig10",
            title: "Throughput as threads are added",
            source: "Masstree, §6.5, Fig. 10",
            claim: "On 16 cores Masstree does 12.7 times the gets and 12.5 times the puts of one \
                    core; the limit of gets is the rising cost of fetching from memory.",
            x_label: Some("threads"),
            x_log: false,
            baseline: "hedgerow inline",
            here: None,
            compared_to: None,
        },
        maps: concurrent_best,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(20_000, 1_000_000, 140_000_000);
    let point = |threads: usize| MapPoint {
        parameters: vec![("keys", keys.into()), ("key set", "decimal".into())],
        x: Some(X::Number(threads as f64)),
        workload: MapWorkload {
            set: "decimal".to_owned(),
            keys,
            operations: keys,
            threads,
            phases: vec![Phase::Insert, Phase::Get],
        },
        only: &[],
    };
    let counts = settings.thread_counts(16).into_iter();
    counts.map(point).collect()
}
