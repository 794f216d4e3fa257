//! Experiments of the Matryoshka B+ tree's report (2026).
//!
//! Its workloads are files under `lab/data/workloads/matryoshka`. They put integers of 4 bytes into
//! sets: `sets` does so, too. Elsewhere they go into maps to 8-byte values, and 8-byte integers
//! follow in tables of their own, as many maps hold no others. Every map of the registry that holds
//! such keys takes part, so an index over integers joins by being a contender.

mod lookups;
mod points;
mod profiles;
mod proposed;
mod scaling;
mod sets;
mod superpages;
mod table11;
mod table18;
mod table5;

use crate::experiment::Experiment;

/// All of them, in the report's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(scaling::experiment()),
        Box::new(table5::experiment()),
        Box::new(sets::experiment()),
        Box::new(superpages::of_sets()),
        Box::new(superpages::of_scaling()),
        Box::new(table11::experiment()),
        Box::new(table18::experiment()),
        Box::new(proposed::experiment()),
        Box::new(lookups::experiment()),
        Box::new(profiles::experiment()),
    ]
}
