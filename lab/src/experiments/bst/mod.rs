//! Experiments of "Getting to the Root of Concurrent Binary Search Tree Performance" (Arbel-Raviv,
//! Brown and Morrison, USENIX ATC 2018).

mod microbenchmark;

use crate::experiment::Experiment;

/// All of them.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(microbenchmark::experiment())]
}
