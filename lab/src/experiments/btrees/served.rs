//! The B-tree as the index of a server, beside Masstree as the index of the same server and beside
//! Redis: which index a server should have when nobody chooses one.
//!
//! How it is asked is in [`ServedIndex`]. Redis has no range over its keys; its sorted sets are in
//! `masstree/server-scans`.

use hedgerow_lab_data::KeySet;

use super::key_sets;
use crate::Result;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::registry::Registry;
use crate::served_index::ServedIndex;
use crate::servers::{named, participant};

/// Who takes part: both indexes with a log that is synced periodically, and Redis without
/// persistence and with what is about the same promise.
const CONTENDERS: [&str; 4] = [
    "hedgerow btree periodic",
    "hedgerow masstree periodic",
    "redis",
    "redis aof",
];

/// The experiment.
pub struct Served;

/// A key set, by what the axis calls it.
fn sets(settings: &Settings) -> Vec<(&'static str, String, usize)> {
    let made = settings.keys(2000, 1_000_000, 10_000_000);
    let prefixed = KeySet::PrefixedDecimal(8).to_string();
    let mut sets = vec![
        ("16 bytes", prefixed, made),
        ("decimals", KeySet::Decimal.to_string(), made),
    ];
    let [_, _, texts @ ..] = key_sets::four(settings);
    sets.extend(texts.map(|keys| (keys.label, keys.set.to_owned(), keys.records)));
    sets
}

impl Experiment for Served {
    fn about(&self) -> About {
        About {
            name: "btrees/served",
            title: "The index of a server: B-tree beside Masstree",
            source: "ours; keys of 16 bytes and those of Masstree, §6.1, and B-Trees Are Back, §4",
            claim: "A B-tree on pages can be as fast as what is in memory alone.",
            x_label: Some("keys"),
            x_log: false,
            baseline: "hedgerow masstree periodic",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        named(&CONTENDERS).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let points = sets(settings).into_iter().map(|(label, set, records)| {
            let asked = ServedIndex {
                set,
                records,
                seconds: settings.scale.pick(0.05, 0.4, 2.0),
                ranges: true,
            };
            asked.point(label, &CONTENDERS)
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        ServedIndex::perform(job)
    }
}
