//! The experiments, one module each: what is measured, against whom, and why so.

pub mod recovery;
pub mod search;
pub mod server;
pub mod tree;
