//! Snapshots and transactions: what they cost where nobody is in their way, and where many are.

mod beside;
mod history;
mod interactive;
mod records;
mod short;
mod skew;
mod snapshots;
mod stores;

use crate::experiment::Experiment;

/// All experiments of this module.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(snapshots::Snapshots),
        Box::new(short::Short),
        Box::new(beside::Beside),
        Box::new(interactive::Interactive),
    ]
}
