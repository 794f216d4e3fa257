//! Where random inserts spend cycles and misses, by function (§8, Table 3; §9, Table 4; §12.4.5,
//! Table 10; §12.4.7, Table 13; §12.5, Tables 15 and 16).
//!
//! In kind: callgrind simulates what the report samples. One run has what the six tables have:
//! shares of cycles (Table 3), of cache misses (4, 10, 13, 16) and cycles an operation (15), of
//! each form beside the report's baseline. The report's tree of 16,777,216 keys had a last-level
//! cache of 24 MiB; here that is smaller as the tree is, and so are only the misses of the last
//! level.

use hedgerow_lab_report::X;

use super::points::{chosen, on_integers, point};
use crate::contestant::Contestant;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings, Stage};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::mixed_workload::{self, MixedWorkload};
use crate::profile::{self, Tools};
use crate::registry::Registry;
use crate::{LabError, Result};

/// Who takes part: the report's baseline, its fence keys before and after mass prefetch, what it
/// did with superpages, and ours.
const FORMS: [&str; 5] = [
    "matryoshka set plain u32",
    "matryoshka set fence without mass prefetch u32",
    "matryoshka set fence u32",
    "matryoshka set fence superpage u32",
    "matryoshka set flat u32",
];

/// How many times as long a process takes under callgrind.
const SLOWER: f64 = 150.0;

/// Profiles of the forms.
pub struct Profiles(MapExperiment<MixedWorkload>);

pub fn experiment() -> Profiles {
    Profiles(MapExperiment {
        about: About {
            name: "matryoshka/profiles",
            title: "Cycles and cache misses of random inserts by function, simulated",
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §8, §9, §12.4.5, \
                     §12.4.7 and §12.5, Tables 3, 4, 10, 13, 15 and 16",
            claim: "With 16,777,216 keys and fences, the search within a page takes 37 % of 1,106 \
                    cycles and 44 % of the misses, the insert into a line 25 and 35 %, nodes above \
                    pages 22 and 14 %. Fences take 9 % of all misses from inner lines.",
            x_label: Some("function"),
            x_log: false,
            baseline: FORMS[0],
            here: None,
            compared_to: None,
        },
        maps,
        points,
    })
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let mut maps = chosen(registry, &FORMS);
    maps.retain(|contestant| FORMS.contains(&contestant.map.entry.name));
    maps
}

fn points(settings: &Settings) -> Vec<MapPoint<MixedWorkload>> {
    let records = settings.keys(2000, 262_144, 4_194_304);
    let mixed = MixedWorkload {
        most_operations: None,
        ..on_integers(settings.scale, "rand_insert", records, 4)
    };
    vec![MapPoint {
        x: Some(X::Category(profile::ALL.to_owned())),
        parameters: vec![
            ("workload", "rand_insert".into()),
            ("keys", records.into()),
            ("last level KiB", (last_bytes(&mixed) >> 10).into()),
        ],
        ..point(mixed, 4)
    }]
}

/// The simulated last-level cache: 24 MiB for 16,777,216 keys as in the report, rounded up to what
/// can be simulated.
fn last_bytes(mixed: &MixedWorkload) -> u64 {
    (mixed.records * 3 / 2).next_power_of_two().max(64 << 10)
}

impl Experiment for Profiles {
    fn about(&self) -> About {
        self.0.about
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let mut all = self.0.participants(registry);
        if let Err(missing) = Tools::find() {
            all.iter_mut()
                .for_each(|who| who.available = Err(missing.clone()));
        }
        all
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let mut points = self.0.points(registry, settings)?;
        for point in &mut points {
            point.need.own_seconds *= SLOWER;
            point.need.shared_seconds *= SLOWER;
        }
        Ok(points)
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        let mixed: MixedWorkload = job.workload()?;
        match job.stage {
            Stage::Verify => self.0.perform(registry, job),
            Stage::Measure => {
                let tools = Tools::find().map_err(|why| LabError::unavailable(&why))?;
                let simulated = Job {
                    stage: Stage::Count { column: Some(0) },
                    ..job.clone()
                };
                let rows = profile::rows(&tools, &simulated, mixed.records, last_bytes(&mixed))?;
                Ok(Answer {
                    rows,
                    ..Answer::default()
                })
            }
            Stage::Count { .. } => {
                let maps = maps(registry);
                let entry = maps.iter().map(|one| &one.map);
                let mut named = entry.filter(|map| map.entry.name == job.contender);
                let entry = named
                    .next()
                    .ok_or_else(|| LabError::Usage(format!("{} has no profile", job.contender)))?;
                mixed_workload::profiled(entry, &mixed)
            }
        }
    }
}
