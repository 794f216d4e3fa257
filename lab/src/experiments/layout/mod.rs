//! Experiments of our own on how nodes lie in memory.

mod trees;

use crate::experiment::Experiment;

/// All of them.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(trees::experiment())]
}
