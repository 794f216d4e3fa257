//! Experiments of the Masstree paper (Mao, Kohler, Morris, EuroSys 2012).

mod fig10;
mod operations;

use crate::experiment::Experiment;

/// All of them, in the paper's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(operations::experiment()),
        Box::new(fig10::experiment()),
    ]
}
