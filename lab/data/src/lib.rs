//! Key sets for measurements.
//!
//! Two contenders are comparable only if they see the same keys in the same order, today and
//! on another machine. This crate holds such keys ([`Keys`], one arena in operation order, so
//! that walking it costs no cache miss that the processor does not foresee) and makes them
//! ([`KeySet`]), from seeds that never change. Which of them an operation goes to is drawn by a
//! [`Sampler`]; which operations there are, a [`Workload`] says, a small file of its own. What
//! a user's own keys are like, a [`Description`] says.

#![forbid(unsafe_code)]

mod description;
pub mod fetch;
pub mod key_set;
mod keys;
pub mod random;
mod sampler;
pub mod workload;
mod zipf;

pub use description::Description;
pub use key_set::{KeySet, KeySetError};
pub use keys::{KeyBytes, KeyRange, Keys};
pub use sampler::{Distribution, Sampler, UnknownDistribution, YCSB_ALPHA};
pub use workload::{Kind, Operation, Operations, Plan, Workload, WorkloadError};
pub use zipf::Zipf;
