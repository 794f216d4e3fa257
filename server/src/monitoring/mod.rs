//! What the server counts and logs, for `INFO`, memcached's `stats`, `/metrics` and the log.

pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod survey;
pub(crate) mod totals;
