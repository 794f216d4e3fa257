//! Whether the tree matters behind network and log (§6.3): a server over a binary search tree
//! beside the same server over Masstree.
//!
//! How it is asked is in [`ServedIndex`]: gets and puts, pipelined, over a log that is synced
//! periodically. The binary tree is the one that `--index bst` serves keyspaces from, for keys of
//! exactly 8 bytes; so both get decimals of 8 digits, where the paper has 1 to 10. That tree is an
//! AVL tree with optimistic locks, balanced; the paper's is unbalanced and lock-free.

use hedgerow_lab_data::KeySet;

use crate::Result;
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::registry::Registry;
use crate::served_index::ServedIndex;
use crate::servers::{named, participant};

const BINARY: &str = "hedgerow bst periodic";
const MASSTREE: &str = "hedgerow masstree periodic";

/// The experiment.
pub struct Served;

impl Experiment for Served {
    fn about(&self) -> About {
        About {
            name: "masstree/served",
            title: "A binary tree and Masstree behind network and log",
            source: "Masstree, §6.3",
            claim: "With logging and clients over the network, Masstree does 1.90 times the gets \
                    and 1.53 times the puts of the fastest binary tree.",
            x_label: Some("keys"),
            x_log: false,
            baseline: BINARY,
            here: Some("One server core, where the paper has 16."),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let servers = named(&[BINARY, MASSTREE]);
        servers.iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let asked = ServedIndex {
            set: KeySet::PrefixedDecimal(0).to_string(),
            records: settings.keys(2000, 1_000_000, 50_000_000),
            seconds: settings.scale.pick(0.05, 0.4, 2.0),
            ranges: false,
        };
        Ok(vec![asked.point("8 digits", &[BINARY, MASSTREE])?])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        ServedIndex::perform(job)
    }
}
