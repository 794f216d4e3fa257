//! What a run will do and need, before it does it.

use std::collections::BTreeSet;

use hedgerow_lab_contender::Entry;
use hedgerow_lab_report::{Cause, Skipped};

use super::wanted::Wanted;
use crate::experiment::{About, Experiment, Participant, Point, Settings};
use crate::machine::{self, available_memory_bytes};
use crate::pace;
use crate::registry::Registry;
use crate::{LabError, Result};
use hedgerow_lab_own::Empty;

/// One experiment of a run: its points with only those who can and should take part.
pub struct Plan {
    pub about: About,
    pub points: Vec<Point>,
    pub participants: Vec<Participant>,
    /// Who cannot be had here.
    pub skipped: Vec<Skipped>,
    /// By point, the columns that can be counted by simulation, with a slice's operations.
    pub countable: Vec<Vec<(String, u64)>>,
}

/// One process of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The point, by its number.
    pub point: usize,
    /// Who is measured there.
    pub contender: &'static str,
}

/// Who of `count` has this turn in a round.
fn turned(turn: usize, round: usize, count: usize) -> usize {
    let forwards = round.is_multiple_of(2);
    let turn = if forwards { turn } else { count - 1 - turn };
    (turn + round / 2) % count
}

impl Plan {
    pub fn new(
        experiment: &dyn Experiment,
        registry: &Registry,
        settings: &Settings,
        wanted: &Wanted,
    ) -> Result<Self> {
        let about = experiment.about();
        let mut participants = experiment.participants(registry);
        participants.retain(|who| wanted.lets_through(&who.entry, about.baseline));
        let mut points = experiment.points(registry, settings)?;
        points.retain(|point| wanted.has_point(point));
        let can = |name: &&'static str| {
            let mut who = participants.iter();
            who.any(|who| who.entry.name == *name && who.available.is_ok())
        };
        for point in &mut points {
            point.contenders.retain(can);
        }
        let skipped = participants.iter().filter_map(|who| {
            let why = who.available.as_ref().err()?;
            Some(Skipped {
                experiment: about.name.to_owned(),
                contender: who.entry.name.to_owned(),
                why: why.to_string(),
                cause: Some(Cause::Missing),
            })
        });
        Ok(Self {
            about,
            countable: points
                .iter()
                .map(|point| experiment.countable(point))
                .collect(),
            points,
            skipped: skipped.collect(),
            participants,
        })
    }

    /// Processes per round.
    pub fn visits(&self) -> usize {
        self.points.iter().map(|point| point.contenders.len()).sum()
    }

    /// The processes of a round, in their order; who begins changes from round to round, and every
    /// other round runs backwards, so that nobody always comes behind the same one: what a process
    /// leaves of the machine (free memory that is backed or not, say) would be a bias of the next.
    /// What is compared is neighbouring: the contenders of a point, or the points of a contender
    /// where the experiment compares those.
    pub fn order(&self, round: usize) -> Vec<Visit> {
        let mut visits = Vec::with_capacity(self.visits());
        for (point, here) in self.points.iter().enumerate() {
            let count = here.contenders.len();
            let turns = (0..count).map(|turn| here.contenders[turned(turn, round, count)]);
            visits.extend(turns.map(|contender| Visit { point, contender }));
        }
        if self.about.compared_to.is_some() {
            let mut names: Vec<&str> = visits.iter().map(|visit| visit.contender).collect();
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(*name));
            let count = self.points.len();
            let turns: Vec<usize> = (0..count).map(|turn| turned(turn, round, count)).collect();
            visits.sort_by_key(|visit| {
                let name = names.iter().position(|name| *name == visit.contender);
                (name, turns.iter().position(|point| *point == visit.point))
            });
        }
        visits
    }

    /// Whether nobody is left but the empty contender.
    pub fn is_empty(&self) -> bool {
        let mut names = self.points.iter().flat_map(|point| &point.contenders);
        names.all(|name| *name == Empty::NAME)
    }

    /// The contender of this name.
    pub fn participant(&self, name: &str) -> Option<&Participant> {
        self.participants.iter().find(|who| who.entry.name == name)
    }

    /// Who is measured at one point at least.
    pub fn taking_part(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.participants.iter().map(|who| &who.entry);
        entries.filter(|entry| {
            let mut points = self.points.iter();
            points.any(|point| point.contenders.contains(&entry.name))
        })
    }

    fn announce_counting(&self) {
        let columns: usize = self.countable.iter().map(Vec::len).sum();
        if columns == 0 {
            println!("{}: has nothing that can be counted", self.about.name);
            return;
        }
        let points = self.countable.iter().zip(&self.points);
        let runs = points.map(|(columns, point)| (columns.len() + 1) * point.contenders.len());
        let runs: usize = runs.sum();
        println!(
            "{}: {runs} runs under cachegrind, about {}",
            self.about.name,
            duration(runs as f64 * 4.0)
        );
    }

    fn memory_bytes(&self) -> u64 {
        let needs = self.points.iter().map(|point| point.need.memory_bytes);
        needs.max().unwrap_or(0)
    }

    fn disk_bytes(&self) -> u64 {
        let needs = self.points.iter().map(|point| point.need.disk_bytes);
        needs.max().unwrap_or(0)
    }

    /// Seconds that this is likely to take.
    pub fn seconds(&self, rounds: u32) -> f64 {
        let verifying = self.verifications().into_iter();
        let verifying =
            verifying.map(|one| pace::verify_seconds(one.contender, &self.points[one.point].need));
        let points = self.points.iter();
        let round = points.flat_map(|point| {
            let names = point.contenders.iter();
            names.map(|name| pace::round_seconds(name, &point.need))
        });
        verifying.sum::<f64>() + round.sum::<f64>() * f64::from(rounds)
    }

    /// Who must be verified where.
    pub fn verifications(&self) -> Vec<Verification> {
        let mut all: Vec<Verification> = Vec::new();
        for (index, point) in self.points.iter().enumerate() {
            for &contender in &point.contenders {
                let before = all.iter_mut().find(|one| {
                    one.contender == contender
                        && self.points[one.point].verified_by == point.verified_by
                });
                match before {
                    Some(before) => before.also.push(index),
                    None => all.push(Verification {
                        point: index,
                        contender,
                        also: Vec::new(),
                    }),
                }
            }
        }
        all
    }
}

/// A verification of one contender.
pub struct Verification {
    /// The point at which it is verified.
    pub point: usize,
    pub contender: &'static str,
    /// Later points for which this stands, too.
    pub also: Vec<usize>,
}

/// Prints the machine and what each experiment will need.
pub fn announce(plans: &[Plan], rounds: u32, counting: bool) {
    println!("{}", machine_line());
    for plan in plans {
        if counting {
            plan.announce_counting();
            continue;
        }
        let disk = match plan.disk_bytes() {
            0 => String::new(),
            bytes => format!(", {} of disk", mebibytes(bytes)),
        };
        println!(
            "{}: {} points, {} processes a round, {rounds} rounds; about {}, {} of memory{disk}",
            plan.about.name,
            plan.points.len(),
            plan.visits(),
            duration(plan.seconds(rounds)),
            mebibytes(plan.memory_bytes()),
        );
    }
    if plans.len() > 1 && !counting {
        let total: f64 = plans.iter().map(|plan| plan.seconds(rounds)).sum();
        println!("all together: about {}", duration(total));
    }
    if cfg!(debug_assertions) {
        println!("this is a debug build: its figures mean nothing (use --release)");
    }
}

fn machine_line() -> String {
    let machine = machine::describe();
    format!(
        "{} · {} cores · {} · {} GiB · L3 {} · Linux {} · superpages {} · allocator {} · commit {}",
        machine.cpu,
        machine.cores,
        machine.simd.join(" "),
        machine.memory_gib,
        machine.last_cache,
        machine.kernel,
        machine.superpages,
        machine.allocator,
        machine.commit
    )
}

/// Refuses a run that would make the machine swap or kill something.
pub fn refuse_if_short(plans: &[Plan], settings: &Settings) -> Result<()> {
    let Some(available) = available_memory_bytes() else {
        return Ok(());
    };
    let Some(plan) = plans.iter().max_by_key(|plan| plan.memory_bytes()) else {
        return Ok(());
    };
    if plan.memory_bytes() <= available / 10 * 9 {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{} at scale {} wants {} of memory and {} are free here; choose a smaller --scale, or \
         fewer --keys",
        plan.about.name,
        settings.scale,
        mebibytes(plan.memory_bytes()),
        mebibytes(available)
    )))
}

fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        mib if mib >= 10_240 => format!("{} GiB", mib >> 10),
        mib => format!("{mib} MiB"),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Contenders `a` and `b` at two points, and `c` at the last.
#[cfg(test)]
pub fn example(compared_to: Option<&'static str>) -> Plan {
    let point = |contenders: &[&'static str]| Point {
        parameters: [].into(),
        x: None,
        contenders: contenders.to_vec(),
        need: crate::experiment::Need::default(),
        workload: serde_json::Value::Null,
        verified_by: serde_json::Value::Null,
    };
    Plan {
        about: About {
            name: "here/now",
            title: "",
            source: "",
            claim: "",
            x_label: None,
            x_log: false,
            baseline: "a",
            here: None,
            compared_to,
        },
        points: vec![point(&["a", "b"]), point(&[]), point(&["a", "b", "c"])],
        participants: Vec::new(),
        skipped: Vec::new(),
        countable: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(plan: &Plan, round: usize) -> String {
        let visits = plan.order(round).into_iter();
        let words = visits.map(|visit| format!("{}{}", visit.contender, visit.point));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn contenders_are_neighbours_and_take_turns() {
        let plan = example(None);
        assert_eq!(order(&plan, 0), "a0 b0 a2 b2 c2");
        assert_eq!(order(&plan, 1), "b0 a0 c2 b2 a2");
        assert_eq!(order(&plan, 2), "b0 a0 b2 c2 a2");
    }

    #[test]
    fn nobody_always_comes_behind_the_same_one() {
        let plan = example(None);
        for (before, after) in [("a2", "b2"), ("b2", "c2"), ("c2", "a2"), ("c2", "b2")] {
            let behind = (0..6).filter(|round| {
                let order = order(&plan, *round);
                order.contains(&format!("{before} {after}"))
            });
            assert!((1..=3).contains(&behind.count()), "{after} behind {before}");
        }
    }

    #[test]
    fn the_places_of_a_contender_are_neighbours_where_they_are_compared() {
        let plan = example(Some("first"));
        assert_eq!(order(&plan, 0), "a0 a2 b0 b2 c2");
        assert_eq!(order(&plan, 1), "b2 b0 a2 a0 c2");
        assert_eq!(order(&plan, 2), "b2 b0 a2 a0 c2");
        assert_eq!(plan.order(7).len(), plan.visits());
    }
}
