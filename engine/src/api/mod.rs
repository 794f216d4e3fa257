//! What users call: databases, keyspaces, batches, transactions, ranges. Nothing below uses it.

pub(crate) mod batch;
pub(crate) mod db;
pub(crate) mod files_state;
pub(crate) mod iterate;
pub(crate) mod keyspace;
pub(crate) mod keyspace_options;
#[cfg(test)]
mod nested_calls;
pub(crate) mod open;
pub(crate) mod optimistic;
pub(crate) mod random_key;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod statistics;
pub(crate) mod transaction;
pub(crate) mod watch;
