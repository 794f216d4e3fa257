//! Experiments of "B-Trees Are Back" (Müller, Benson, Leis, SIGMOD 2025), and the durable
//! engines that its tree is to be compared with.

mod durable;
mod fig19;

use crate::experiment::Experiment;

/// All of them, in the paper's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(fig19::experiment()),
        Box::new(durable::experiment()),
    ]
}
