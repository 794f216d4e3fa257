//! What each optimisation does to lookups (§4.7, Table 1): the tree with it beside the tree without
//! it, in one process, by turns.
//!
//! A contender is an optimisation. Each comes on top of those before it, and each layout of leaves
//! on top of the first three, as in the source.

use hedgerow_lab_contender::{MapEntry, Promises};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};

use super::key_sets;
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::map_experiment::Course;
use crate::mixed_workload::{self, MixedWorkload};
use crate::registry::Registry;
use crate::verify::verify_entry;
use crate::{LabError, Result};

/// The experiment.
pub struct Table1;

/// Optimisations: their names, the tree without and the tree with each.
const OPTIMISATIONS: [(&str, &str, &str); 6] = [
    ("prefix truncation", "btree baseline", "btree prefix"),
    ("heads", "btree prefix", "btree heads"),
    ("hints", "btree heads", "btree hints"),
    ("fingerprints", "btree hints", "btree fingerprint"),
    ("semi dense leaves", "btree hints", "btree semi dense"),
    ("fully dense leaves", "btree hints", "btree fully dense"),
];

/// Two trees of which one has an optimisation more.
struct Pair {
    without: MapEntry,
    with: MapEntry,
}

impl Pair {
    fn of(registry: &Registry, optimisation: &str) -> Result<Self> {
        let pairs = OPTIMISATIONS.iter();
        let mut pairs = pairs.filter(|(name, ..)| *name == optimisation);
        let missing = || LabError::Usage(format!("{optimisation} is no optimisation"));
        let (_, without, with) = pairs.next().ok_or_else(missing)?;
        let map = |name: &str| registry.map(name).cloned().ok_or_else(missing);
        Ok(Self {
            without: map(without)?,
            with: map(with)?,
        })
    }

    /// Million lookups a second without and with it, each the better of two rounds, of which the
    /// outer ones are without.
    fn measure(&self, workload: &MixedWorkload) -> Result<[f64; 2]> {
        let mut best = [0.0_f64; 2];
        for with in [false, true, true, false] {
            let map = if with { &self.with } else { &self.without };
            let answer = mixed_workload::measure(map, workload)?;
            let rate = answer.figures.first().map_or(0.0, |figure| figure.figure);
            let best = &mut best[usize::from(with)];
            *best = best.max(rate);
        }
        Ok(best)
    }
}

impl Experiment for Table1 {
    fn about(&self) -> About {
        About {
            name: "btrees/table1",
            title: "What each optimisation does to lookups",
            source: "B-Trees Are Back, §4.7, Table 1",
            claim: "Prefix truncation helps URLs; heads help all, most the other key sets; hints \
                    help integers; fingerprints help strings much and cost integers a little; \
                    dense leaves help dense integers most of all.",
            x_label: Some("key set"),
            x_log: false,
            baseline: OPTIMISATIONS[0].0,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            ordered: true,
            variable_keys: true,
            ..Promises::default()
        };
        let all = OPTIMISATIONS.iter().map(|(name, ..)| Participant {
            entry: own(name, promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        all.collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let most: u64 = settings.scale.pick(5000, 400_000, 5_000_000);
        let points = key_sets::four(settings).into_iter().map(|keys| {
            let workload = MixedWorkload {
                set: Some(keys.set.to_owned()),
                most_operations: Some(most),
                ..MixedWorkload::new("btrees/lookup", keys.records)
            };
            let need = workload.need();
            Ok(Point {
                parameters: [("operation".to_owned(), "zipf lookup".into())].into(),
                x: Some(X::Category(keys.label.to_owned())),
                contenders: OPTIMISATIONS.iter().map(|(name, ..)| *name).collect(),
                need: Need {
                    own_seconds: 4.0 * need.own_seconds,
                    shared_seconds: 4.0 * need.shared_seconds,
                    verify_seconds: 2.0 * need.verify_seconds,
                    ..need
                },
                verified_by: workload.verified_by(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: MixedWorkload = job.workload()?;
        let pair = Pair::of(registry, &job.contender)?;
        if job.stage == Stage::Verify {
            for map in [&pair.without, &pair.with] {
                verify_entry(map, &workload.script_keys()?)?;
                mixed_workload::verify(map, &workload)?;
            }
            return Ok(Answer::default());
        }
        let [without, with] = pair.measure(&workload)?;
        let mut answer = Answer::default();
        let ratio = with / without.max(1e-9);
        answer.push("lookups, with ÷ without", "of 1", Better::Higher, ratio);
        answer.push("lookups without", "Mops/s", Better::Higher, without);
        answer.push("lookups with", "Mops/s", Better::Higher, with);
        Ok(answer)
    }
}
