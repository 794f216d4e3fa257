//! Experiments on ordered maps in memory, declared as data.
//!
//! Most of the sources' figures ask the same of different maps on different keys; such an
//! experiment is a list of maps and a list of workloads.

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Cause, X};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::contestant::Contestant;
use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::forms;
use crate::map_workload::{self, MapWorkload, Phase, Prepared};
use crate::mixed_workload::{self, MixedWorkload};
use crate::registry::Registry;
use crate::verify::{SCRIPT_KEYS, verify_entry};
use crate::{LabError, Result};

/// What maps can be put through: phases of one operation each, or mixed operations.
pub trait Course: Serialize + DeserializeOwned + Sync + 'static {
    /// The name of the key set.
    ///
    /// # Errors
    ///
    /// A workload that does not exist.
    fn set(&self) -> Result<KeySet>;

    /// How many threads work on the map.
    fn threads(&self) -> usize;

    /// Whether sets can take part: nothing depends on a value that was stored.
    fn suits_sets(&self) -> bool;

    /// What a round needs.
    fn need(&self) -> Need;

    /// At most [`SCRIPT_KEYS`] of the keys, for verification.
    ///
    /// # Errors
    ///
    /// Keys that cannot be had.
    fn script_keys(&self) -> Result<Keys>;

    /// What verification depends on (see [`Point::verified_by`]).
    fn verified_by(&self) -> Value;

    /// What verification asks beyond the script of single operations.
    ///
    /// # Errors
    ///
    /// A wrong answer, or a map that cannot be had.
    fn verify(&self, map: &MapEntry) -> Result<Answer>;

    /// One round.
    ///
    /// # Errors
    ///
    /// As in verification.
    fn measure(&self, map: &MapEntry) -> Result<Answer>;

    /// The columns that can be simulated, with the operations of a slice of each.
    fn countable(&self) -> Vec<(String, u64)>;

    /// Prepares a slice and runs it, or leaves it out.
    ///
    /// # Errors
    ///
    /// As in verification.
    fn count(&self, map: &MapEntry, column: Option<u8>) -> Result<Answer>;
}

impl Course for MapWorkload {
    fn suits_sets(&self) -> bool {
        false
    }

    fn set(&self) -> Result<KeySet> {
        Ok(self.set.parse()?)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn need(&self) -> Need {
        self.need()
    }

    fn script_keys(&self) -> Result<Keys> {
        let script = Self {
            keys: self.keys.min(SCRIPT_KEYS),
            operations: 0,
            ..self.clone()
        };
        Ok(Prepared::new(&script)?.keys)
    }

    fn verified_by(&self) -> Value {
        json!([self.set, self.keys.min(SCRIPT_KEYS)])
    }

    fn verify(&self, _: &MapEntry) -> Result<Answer> {
        Ok(Answer::default())
    }

    fn measure(&self, map: &MapEntry) -> Result<Answer> {
        map_workload::measure(map, self)
    }

    fn countable(&self) -> Vec<(String, u64)> {
        let columns = self.countable_phases().map(|phase| {
            let operations = map_workload::slice_operations(self, phase);
            (phase.column().to_owned(), operations)
        });
        columns.collect()
    }

    fn count(&self, map: &MapEntry, column: Option<u8>) -> Result<Answer> {
        let phase = column.and_then(|nth| self.countable_phases().nth(usize::from(nth)));
        if phase == Some(Phase::Scan) && !map.entry.promises.ordered {
            let why = "it cannot scan these keys".to_owned();
            return Ok(Answer::of_unfit(Cause::Limits, why));
        }
        map_workload::slice(map, self, phase)
    }
}

impl Course for MixedWorkload {
    fn suits_sets(&self) -> bool {
        true
    }

    fn set(&self) -> Result<KeySet> {
        Ok(self.resolve()?.keys)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn need(&self) -> Need {
        self.need()
    }

    fn script_keys(&self) -> Result<Keys> {
        self.script().keys()
    }

    fn verified_by(&self) -> Value {
        json!(self.script())
    }

    fn verify(&self, map: &MapEntry) -> Result<Answer> {
        mixed_workload::verify(map, self)
    }

    fn measure(&self, map: &MapEntry) -> Result<Answer> {
        mixed_workload::measure(map, self)
    }

    fn countable(&self) -> Vec<(String, u64)> {
        let operations = self.slice_operations().unwrap_or(0);
        vec![(mixed_workload::COLUMN.to_owned(), operations)]
    }

    fn count(&self, map: &MapEntry, column: Option<u8>) -> Result<Answer> {
        mixed_workload::slice(map, self, column.is_some())
    }
}

/// One workload of an experiment.
pub struct MapPoint<W = MapWorkload> {
    /// What distinguishes its table.
    pub parameters: Vec<(&'static str, Value)>,
    /// The position on the horizontal axis.
    pub x: Option<X>,
    /// What the maps are put through.
    pub workload: W,
    /// Only these take part; empty for all that can.
    pub only: &'static [&'static str],
}

/// An experiment that is all data.
pub struct MapExperiment<W = MapWorkload> {
    /// What it reproduces.
    pub about: About,
    /// Who takes part.
    pub maps: fn(&Registry) -> Vec<Contestant>,
    /// The workloads.
    pub points: fn(&Settings) -> Vec<MapPoint<W>>,
}

/// Whether a map promises what a workload needs.
#[must_use]
pub fn fits(map: &MapEntry, workload: &impl Course) -> bool {
    let promises = &map.entry.promises;
    let threads = workload.threads() <= 1 || promises.concurrent;
    let Ok(set) = workload.set() else {
        return false;
    };
    let longest = longest_key(&set);
    let lengths = promises.variable_keys || longest == Some(promises.longest_key.unwrap_or(8));
    let short = match (promises.longest_key, longest) {
        (Some(limit), Some(longest)) => longest <= limit,
        // Keys from outside may be longer than those that are held in place.
        (Some(limit), None) => limit >= LEAST_LIMIT_OF_TEXTS,
        (None, _) => true,
    };
    let holds = !promises.keys_only || workload.suits_sets();
    threads && lengths && short && holds
}

/// Maps whose keys are shorter than this do not take part in sets of unknown lengths.
const LEAST_LIMIT_OF_TEXTS: usize = 64;

/// The longest key of a set that is made, in bytes; its only length where it has but one.
fn longest_key(set: &KeySet) -> Option<usize> {
    match set {
        KeySet::PrefixedDecimal(prefix) => Some(usize::from(*prefix) + 8),
        KeySet::Decimal => Some(10),
        KeySet::Letters => Some(8),
        KeySet::Ycsb => Some(24),
        set => set.integer_bytes(),
    }
}

impl<W: Course> MapExperiment<W> {
    fn contestant(&self, registry: &Registry, name: &str) -> Result<MapEntry> {
        let mut maps = (self.maps)(registry).into_iter();
        let found = maps.find(|contestant| contestant.map.entry.name == name);
        found
            .map(|contestant| contestant.map)
            .ok_or_else(|| LabError::Usage(format!("{name} is not in {}", self.about.name)))
    }
}

impl<W: Course> Experiment for MapExperiment<W> {
    fn about(&self) -> About {
        self.about
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let maps = (self.maps)(registry).into_iter();
        maps.map(|contestant| Participant {
            available: contestant
                .map
                .build
                .as_ref()
                .map(|_| ())
                .map_err(Clone::clone),
            entry: contestant.map.entry,
            environment: contestant.environment,
        })
        .collect()
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let maps = (self.maps)(registry);
        let points = (self.points)(settings).into_iter().map(|point| {
            let parameters = point.parameters.into_iter();
            let fitting = maps.iter().filter(|contestant| {
                let name = contestant.map.entry.name;
                let named = point.only.is_empty() || point.only.contains(&name);
                let here = contestant.map.build.is_ok() || !contestant.only_if_best;
                named && here && fits(&contestant.map, &point.workload)
            });
            let fitting: Vec<&Contestant> = fitting.collect();
            let names: Vec<_> = fitting.iter().map(|one| one.map.entry.name).collect();
            let staying = fitting.iter().filter(|contestant| {
                let name = contestant.map.entry.name;
                !contestant.only_if_best
                    || name == self.about.baseline
                    || forms::suits_best(name, &names)
            });
            Ok(Point {
                parameters: parameters
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                x: point.x,
                contenders: staying
                    .map(|contestant| contestant.map.entry.name)
                    .collect(),
                need: point.workload.need(),
                verified_by: point.workload.verified_by(),
                workload: serde_json::to_value(&point.workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let mut map = self.contestant(registry, &job.contender)?;
        let workload: W = job.workload()?;
        let keys = workload.script_keys()?;
        let limits = registry.limits(map.entry.name);
        if let Some(refusal) = limits.refusal(&keys) {
            let why = format!("it cannot hold {refusal}");
            return Ok(Answer::of_unfit(Cause::Limits, why));
        }
        // Whose scans these keys would confuse takes part without scans.
        map.entry.promises.ordered &= limits.scan_refusal(&keys).is_none();
        match job.stage {
            Stage::Verify if map.entry.name == hedgerow_lab_own::Empty::NAME => {
                Ok(Answer::default())
            }
            Stage::Verify => {
                verify_entry(&map, &keys)?;
                workload.verify(&map)
            }
            Stage::Measure => workload.measure(&map),
            Stage::Count { column } => workload.count(&map, column),
        }
    }

    fn countable(&self, point: &Point) -> Vec<(String, u64)> {
        let workload = serde_json::from_value::<W>(point.workload.clone());
        workload.map_or_else(|_| Vec::new(), |workload| workload.countable())
    }
}
