//! Every strategy beside oracles. One program, so that each kind of tree is compiled once.

mod batches;
mod churn;
mod model;
mod report;
