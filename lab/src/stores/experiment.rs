//! Experiments on durable engines, declared as data.

use hedgerow_lab_contender::StoreEntry;
use hedgerow_lab_report::{Cause, X};
use serde_json::Value;

use super::{Part, StoreWorkload, round, verify};
use crate::control_group::MemoryGroup;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings, Stage};
use crate::registry::Registry;
use crate::{LabError, Result};

/// One workload of an experiment.
pub struct StorePoint {
    /// What distinguishes its table.
    pub parameters: Vec<(&'static str, Value)>,
    /// The position on the horizontal axis.
    pub x: Option<X>,
    /// What the engines are put through.
    pub workload: StoreWorkload,
}

/// An experiment that is all data.
pub struct StoreExperiment {
    /// What it reproduces.
    pub about: About,
    /// Who takes part; in the place of [`StoreEntry::open`] of one who cannot, why not.
    pub stores: fn(&Registry) -> Vec<StoreEntry>,
    /// The workloads.
    pub points: fn(&Settings) -> Vec<StorePoint>,
}

impl Experiment for StoreExperiment {
    fn about(&self) -> About {
        self.about
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let stores = (self.stores)(registry).into_iter();
        stores
            .map(|store| Participant {
                available: store.open.as_ref().map(drop).map_err(Clone::clone),
                entry: store.entry,
                environment: Vec::new(),
            })
            .collect()
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let stores = (self.stores)(registry);
        let points = (self.points)(settings).into_iter().map(|point| {
            let parameters = point.parameters.into_iter();
            Ok(Point {
                parameters: parameters
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                x: point.x,
                contenders: stores.iter().map(|store| store.entry.name).collect(),
                need: point.workload.need(),
                verified_by: point.workload.verified_by()?,
                workload: serde_json::to_value(&point.workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let mut stores = (self.stores)(registry).into_iter();
        let entry = stores
            .find(|store| store.entry.name == job.contender)
            .ok_or_else(|| LabError::Usage(format!("{} is no engine here", job.contender)))?;
        let workload: StoreWorkload = job.workload()?;
        match &workload.part {
            Some((Part::Work, folder)) => return round::work(&entry, &workload, folder),
            Some((Part::Reopen, folder)) => return round::reopen(&entry, &workload, folder),
            None => {}
        }
        if let Some(why) = refusal(registry, &entry, &workload)? {
            return Ok(Answer::of_unfit(Cause::Limits, why));
        }
        match job.stage {
            Stage::Verify => {
                if let Some(why) = verify::verify(&entry, &workload)? {
                    return Ok(Answer::of_unfit(Cause::Refusal, why));
                }
                round::whole(&entry, job, &workload.few())
            }
            Stage::Measure => round::whole(&entry, job, &workload),
            Stage::Count { .. } => Ok(Answer::default()),
        }
    }
}

/// Engines that have no cache of a limited size, with why, and what it would take.
const UNLIMITED: [(&str, &str, &str); 2] = [
    (
        "hedgerow",
        "all of its data is in memory, so there is no cache that it could be larger than",
        "`hedgerow btree`, whose trees lie in a page file",
    ),
    (
        "lmdb",
        "its cache is the system's page cache, which has no limit of its own",
        "a system whose control groups can be written to",
    ),
];

/// Why an engine cannot take part beyond its cache, if it cannot, and what would help: in a control
/// group the page cache is limited, too.
pub fn unlimited(name: &str) -> Option<(&'static str, &'static str)> {
    let mut unlimited = UNLIMITED.iter().filter(|(name, ..)| match *name {
        "lmdb" => !MemoryGroup::available(),
        _ => true,
    });
    let found = unlimited.find(|(unlimited, ..)| *unlimited == name);
    found.map(|&(_, why, remedy)| (why, remedy))
}

/// Why an engine cannot take a workload, if it cannot: its cache or the keys are not for it.
fn refusal(
    registry: &Registry,
    entry: &StoreEntry,
    workload: &StoreWorkload,
) -> Result<Option<String>> {
    if workload.cold
        && let Some((why, _)) = unlimited(entry.entry.name)
    {
        return Ok(Some(why.to_owned()));
    }
    let set: hedgerow_lab_data::KeySet = workload.set.parse()?;
    let keys = set.up_to(workload.records.min(10_000))?;
    let refusal = registry.limits(entry.entry.name).refusal(&keys);
    Ok(refusal.map(|what| format!("it cannot hold {what}")))
}
