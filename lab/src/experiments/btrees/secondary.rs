//! Lookups of integers in a secondary index (§6.1, "Benchmarking Secondary Indexes").
//!
//! A secondary index maps a key to the identifier of a tuple that is stored elsewhere, and what is
//! timed is the way to the identifier, not to the tuple. Here the values of all maps are such
//! identifiers, of 8 bytes, and no tuple is retrieved. The source repeats an experiment of another
//! paper, in which keys have 64 bits instead of 32: so there is a point for integers of either
//! width, the first of them that of `btrees/fig15`. There keys are their own identifiers; here they
//! are not.

use hedgerow_lab_report::X;

use crate::experiment::{About, Settings};
use crate::forms::best_of_all_and_the_baseline;
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::MixedWorkload;

pub fn experiment() -> MapExperiment<MixedWorkload> {
    MapExperiment {
        about: About {
            name: "btrees/secondary",
            title: "Lookups of tuple identifiers by integers of 32 and 64 bits",
            source: "B-Trees Are Back, §6.1, Benchmarking Secondary Indexes",
            claim: "Without the retrieval of tuples, with 64-bit keys and half as many records, \
                    HOT is 39 % slower than ART instead of 52 %.",
            x_label: Some("keys"),
            x_log: false,
            baseline: "std BTreeMap",
            here: None,
            compared_to: None,
        },
        maps: best_of_all_and_the_baseline,
        points,
    }
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let most: u64 = settings.scale.pick(5000, 80_000, 5_000_000);
    let records = settings.keys(3600, 100_000, 25_000_000);
    let sets = [("32 bits", "sparse-u32"), ("64 bits", "sparse-u64")];
    let points = sets.map(|(label, set)| MapPoint {
        parameters: vec![("operation", "zipf lookup".into())],
        x: Some(X::Category(label.to_owned())),
        workload: MixedWorkload {
            set: Some(set.to_owned()),
            most_operations: Some(most),
            ..MixedWorkload::new("btrees/lookup", records)
        },
        only: &[],
    });
    points.into()
}
