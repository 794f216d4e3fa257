//! The report's workloads once more, with superpages for every contender (§7.1).
//!
//! The report's own tree has an arena of huge pages; it mentions none for other libraries. Our
//! trees ask the kernel for superpages as well, each form of Matryoshka whatever its name: so
//! `sets` and `scaling` compare them with contenders in small pages. Here glibc's allocator asks
//! for superpages, in every contender's process, ours and the empty one among them.

use super::{scaling, sets};
use crate::Result;
use crate::contestant::ALLOCATOR_SUPERPAGES;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::map_experiment::MapExperiment;
use crate::mixed_workload::MixedWorkload;
use crate::registry::Registry;

/// The report on superpages.
const CLAIM: &str = "With 16,777,216 keys Matryoshka, whose arena has huge pages, misses the data \
                     TLB 2.6 times in 1,000 operations, std::set 65.8 times. The report \
                     mentions no such pages for other libraries.";

/// The parameter of every point.
const PARAMETER: (&str, &str) = ("superpages", "by the allocator");

/// An experiment with superpages by the allocator for all of its contenders.
pub struct Superpages(MapExperiment<MixedWorkload>);

/// [`sets`] with superpages for all.
pub fn of_sets() -> Superpages {
    Superpages::of(
        sets::experiment(),
        "matryoshka/sets-superpages",
        "Sets of 4-byte integers, with superpages for every contender",
    )
}

/// [`scaling`] with superpages for all.
pub fn of_scaling() -> Superpages {
    Superpages::of(
        scaling::experiment(),
        "matryoshka/scaling-superpages",
        "Maps of integers as keys are added, with superpages for every contender",
    )
}

impl Superpages {
    fn of(
        small: MapExperiment<MixedWorkload>,
        name: &'static str,
        title: &'static str,
    ) -> Superpages {
        let about = About {
            name,
            title,
            source: "Matryoshka B+ Tree: Insert/Delete Performance Report, §3 to §7.1, Figs. 1 to \
                     14",
            claim: CLAIM,
            ..small.about
        };
        Superpages(MapExperiment { about, ..small })
    }
}

impl Experiment for Superpages {
    fn about(&self) -> About {
        self.0.about
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let (name, value) = ALLOCATOR_SUPERPAGES;
        let mut all = self.0.participants(registry);
        for who in &mut all {
            who.environment.push((name, value.to_owned()));
        }
        all
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let (name, value) = PARAMETER;
        let mut points = self.0.points(registry, settings)?;
        for point in &mut points {
            point.parameters.insert(name.to_owned(), value.into());
        }
        Ok(points)
    }

    fn perform(&self, registry: &Registry, job: &Job) -> Result<Answer> {
        self.0.perform(registry, job)
    }

    fn countable(&self, point: &Point) -> Vec<(String, u64)> {
        self.0.countable(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_the_setting_and_every_point_says_so() {
        let registry = Registry::new();
        let settings = Settings::smoke(1);
        let setting = (ALLOCATOR_SUPERPAGES.0, ALLOCATOR_SUPERPAGES.1.to_owned());
        for (small, given) in [
            (sets::experiment(), of_sets()),
            (scaling::experiment(), of_scaling()),
        ] {
            let all = given.participants(&registry);
            assert_eq!(all.len(), small.participants(&registry).len());
            assert!(all.iter().all(|who| who.environment.contains(&setting)));
            let before = small.points(&registry, &settings).expect("points");
            let points = given.points(&registry, &settings).expect("points");
            assert_eq!(points.len(), before.len());
            for (point, before) in points.iter().zip(before) {
                assert_eq!(point.parameters[PARAMETER.0], PARAMETER.1);
                assert_eq!(point.parameters.len(), before.parameters.len() + 1);
                assert_eq!(point.contenders, before.contenders);
                assert_eq!(point.workload, before.workload);
            }
        }
    }
}
