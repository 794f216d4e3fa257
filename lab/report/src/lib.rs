//! Results of the lab.
//!
//! A run of the lab writes JSON lines, one [`Record`] each: what ran where, what each
//! experiment claims to reproduce, every figure, and every contender that had to be left out.
//! Files of several runs can be concatenated. This crate holds the records, so that what the
//! lab writes and what its readers expect cannot drift apart.

#![forbid(unsafe_code)]

mod read;
mod record;

pub use read::{ExperimentResults, ReadError, Results, RunResults, read, read_files};
pub use record::{
    Better, Experiment, Figure, Machine, Participant, Record, Run, SCHEMA, Skipped, X,
};
