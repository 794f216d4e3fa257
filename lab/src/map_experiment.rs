//! Experiments on ordered maps in memory, declared as data.
//!
//! Most of the sources' figures ask the same of different maps on different keys; such an
//! experiment is a list of maps and a list of workloads.

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_data::KeySet;
use hedgerow_lab_report::X;
use serde_json::Value;

use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings, Stage};
use crate::map_workload::{self, MapWorkload, Phase, Prepared};
use crate::registry::Registry;
use crate::verify::{SCRIPT_KEYS, verify_entry};
use crate::{LabError, Result};

/// A map with the environment that makes it what it is.
#[derive(Clone)]
pub struct Contestant {
    /// Who.
    pub map: MapEntry,
    /// Variables of its process.
    pub environment: Vec<(&'static str, String)>,
}

impl From<MapEntry> for Contestant {
    fn from(map: MapEntry) -> Self {
        Self {
            map,
            environment: Vec::new(),
        }
    }
}

/// One workload of an experiment.
pub struct MapPoint {
    /// What distinguishes its table.
    pub parameters: Vec<(&'static str, Value)>,
    /// The position on the horizontal axis.
    pub x: Option<X>,
    /// What the maps are put through.
    pub workload: MapWorkload,
    /// Only these take part; empty for all that can.
    pub only: &'static [&'static str],
}

/// An experiment that is all data.
pub struct MapExperiment {
    /// What it reproduces.
    pub about: About,
    /// Who takes part.
    pub maps: fn(&Registry) -> Vec<Contestant>,
    /// The workloads.
    pub points: fn(&Settings) -> Vec<MapPoint>,
}

/// All maps of the registry as they are.
#[must_use]
pub fn all_maps(registry: &Registry) -> Vec<Contestant> {
    registry
        .maps
        .iter()
        .cloned()
        .map(Contestant::from)
        .collect()
}

/// Whether a map promises what a workload needs.
#[must_use]
pub fn fits(map: &MapEntry, workload: &MapWorkload) -> bool {
    let promises = &map.entry.promises;
    let threads = workload.threads <= 1 || promises.concurrent;
    let Ok(set) = workload.set.parse::<KeySet>() else {
        return false;
    };
    let longest = match set {
        KeySet::PrefixedDecimal(prefix) => Some(usize::from(prefix) + 8),
        _ => set.integer_bytes(),
    };
    let lengths = promises.variable_keys || longest == Some(8);
    let short = match (promises.longest_key, longest) {
        (Some(limit), Some(longest)) => longest <= limit,
        _ => true,
    };
    threads && lengths && short
}

impl MapExperiment {
    fn contestant(&self, registry: &Registry, name: &str) -> Result<MapEntry> {
        let mut maps = (self.maps)(registry).into_iter();
        let found = maps.find(|contestant| contestant.map.entry.name == name);
        found
            .map(|contestant| contestant.map)
            .ok_or_else(|| LabError::Usage(format!("{name} is not in {}", self.about.name)))
    }
}

impl Experiment for MapExperiment {
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
                named && fits(&contestant.map, &point.workload)
            });
            Ok(Point {
                parameters: parameters
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                x: point.x,
                contenders: fitting
                    .map(|contestant| contestant.map.entry.name)
                    .collect(),
                need: point.workload.need(),
                workload: serde_json::to_value(&point.workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let mut map = self.contestant(registry, &job.contender)?;
        let workload: MapWorkload = job.workload()?;
        let script = MapWorkload {
            keys: workload.keys.min(SCRIPT_KEYS),
            operations: 0,
            ..workload.clone()
        };
        let keys = Prepared::new(&script)?.keys;
        let limits = registry.limits(map.entry.name);
        if let Some(refusal) = limits.refusal(&keys) {
            return Ok(Answer {
                unfit: Some(format!("it cannot hold {refusal}")),
                ..Answer::default()
            });
        }
        // Whose scans these keys would confuse takes part without scans.
        map.entry.promises.ordered &= limits.scan_refusal(&keys).is_none();
        match job.stage {
            Stage::Verify if map.entry.name == crate::contenders::Empty::NAME => {
                Ok(Answer::default())
            }
            Stage::Verify => {
                verify_entry(&map, &keys)?;
                Ok(Answer::default())
            }
            Stage::Measure => map_workload::measure(&map, &workload),
            Stage::Count { column } => {
                let phase = column.and_then(|nth| workload.phases.get(usize::from(nth)));
                if phase == Some(&Phase::Scan) && !map.entry.promises.ordered {
                    return Ok(Answer {
                        unfit: Some("it cannot scan these keys".to_owned()),
                        ..Answer::default()
                    });
                }
                map_workload::slice(&map, &workload, phase.copied())
            }
        }
    }

    fn countable(&self, point: &Point) -> Vec<(String, u64)> {
        let workload: Option<MapWorkload> = serde_json::from_value(point.workload.clone()).ok();
        let phases = workload.into_iter().flat_map(|workload| {
            let slices = workload.phases.clone().into_iter();
            slices.map(move |phase| (phase, map_workload::slice_operations(&workload, phase)))
        });
        phases
            .filter(|(phase, _)| *phase != Phase::Latency)
            .map(|(phase, operations)| (phase.column().to_owned(), operations))
            .collect()
    }
}
