//! The report's trees for one writer: every strategy beside oracles.

mod batches;
mod churn;
mod model;
mod report;
