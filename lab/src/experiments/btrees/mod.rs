//! Experiments of "B-Trees Are Back" (Müller, Benson, Leis, SIGMOD 2025), and the durable
//! engines that its tree is to be compared with.

mod durable;

use crate::experiment::Experiment;

/// All of them, in the paper's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(durable::experiment())]
}
