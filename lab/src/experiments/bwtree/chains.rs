//! How long a chain may be, and how large a chunk, before a leaf is consolidated (§2.3).
//!
//! Long chains make writes cheap, as fewer nodes are copied, and reads dear, as more records are
//! walked. Chunks bound what a chain takes: an empty one costs memory, a full one consolidates.

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_report::X;
use serde::{Deserialize, Serialize};

use super::factors::PHASES;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings, Stage};
use crate::map_experiment::Course;
use crate::map_workload::{self, MapWorkload};
use crate::registry::Registry;
use crate::verify::verify_entry;
use crate::{LabError, Result};

const TREE: &str = "bwtree";

/// A limit of a chain and the trees that have it.
pub(super) struct Sweep {
    name: &'static str,
    title: &'static str,
    x_label: &'static str,
    trees: fn() -> Vec<(usize, MapEntry)>,
}

/// By the number of deltas.
pub(super) const CHAINS: Sweep = Sweep {
    name: "bwtree/chains",
    title: "How many deltas a chain may have",
    x_label: "deltas of a leaf's chain",
    trees: hedgerow_lab_own::bwtree_chains,
};

/// By bytes.
pub(super) const CHUNKS: Sweep = Sweep {
    name: "bwtree/chunks",
    title: "How many bytes a chunk has for deltas",
    x_label: "bytes for deltas in a leaf's chunk",
    trees: hedgerow_lab_own::bwtree_chunks,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    limit: usize,
    map: MapWorkload,
}

impl Sweep {
    fn tree(&self, limit: usize) -> Result<MapEntry> {
        let mut trees = (self.trees)().into_iter();
        let found = trees.find(|(known, _)| *known == limit);
        let found = found.map(|(_, tree)| tree);
        found.ok_or_else(|| LabError::Usage(format!("{} has no tree with {limit}", self.name)))
    }
}

impl Experiment for Sweep {
    fn about(&self) -> About {
        About {
            name: self.name,
            title: self.title,
            source: "InnoDB and the Bw-tree, §2.3 and §2.4 (chunks, consolidation)",
            claim: "A longer chain slows down those operations alone that walk all of it without \
                    finding their key; not measured.",
            x_label: Some(self.x_label),
            x_log: true,
            baseline: TREE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, registry: &Registry) -> Vec<Participant> {
        let tree = registry.map(TREE).map(|tree| Participant {
            entry: tree.entry.clone(),
            available: Ok(()),
            environment: Vec::new(),
        });
        tree.into_iter().collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let keys = settings.keys(5000, 1_000_000, 10_000_000);
        let points = (self.trees)().into_iter().map(|(limit, _)| {
            let map = MapWorkload {
                set: "sparse-u64".to_owned(),
                keys,
                operations: keys,
                threads: 1,
                phases: PHASES.to_vec(),
            };
            Ok(Point {
                parameters: [
                    ("keys".to_owned(), keys.into()),
                    ("key set".to_owned(), "sparse-u64".into()),
                ]
                .into(),
                x: Some(X::Number(limit as f64)),
                contenders: vec![TREE],
                need: map.need(),
                verified_by: limit.into(),
                workload: serde_json::to_value(Workload { limit, map })
                    .map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let tree = self.tree(workload.limit)?;
        if job.stage == Stage::Verify {
            verify_entry(&tree, &workload.map.script_keys()?)?;
            return Ok(Answer::default());
        }
        map_workload::measure(&tree, &workload.map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_stands_once() {
        for sweep in [CHAINS, CHUNKS] {
            let limits = (sweep.trees)().into_iter().map(|(limit, _)| limit);
            let limits: Vec<_> = limits.collect();
            assert!(limits.is_sorted_by(|a, b| a < b), "{limits:?}");
            assert!(sweep.tree(limits[0]).is_ok() && sweep.tree(1).is_err());
        }
    }
}
