//! What the server counts and logs, for `INFO`, memcached's `stats`, `/metrics` and the log.

pub(crate) mod events;
pub(crate) mod index_statistics;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod totals;
