//! What gateways were asked and how they fared, counted since they were opened.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::url::GatewayAddress;

/// What gateways were asked and how they fared, since they were opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Calls begun. Each of several calls that are sent at once counts.
    pub calls: u64,
    /// Calls that ended in an error, a refusal by HBase included.
    pub failures: u64,
    /// Those among them that left the outcome of a write unknown.
    pub unknown_outcomes: u64,
    /// Times that a call was sent again.
    pub retries: u64,
    /// Times that a call went to another gateway, as the one before had failed or refused.
    pub failovers: u64,
    /// Connections opened, those for checks of gateways included.
    pub connections_opened: u64,
    /// Each gateway, in the order of the URL.
    pub gateways: Vec<GatewayStatistics>,
}

/// The state of one gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayStatistics {
    /// Where it is.
    pub address: GatewayAddress,
    /// Whether calls go to it. One that has failed is healthy again when it has answered a check.
    pub is_healthy: bool,
    /// Why it is not healthy.
    pub why: Option<String>,
    /// Times that it failed: in calls and in checks.
    pub failures: u64,
    /// Connections that are open or being opened, used or not.
    pub open_connections: usize,
    /// Those among them that nobody uses.
    pub idle_connections: usize,
}

/// The counters of [`Statistics`]. Their order does not matter to anyone.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) calls: Counter,
    pub(crate) failures: Counter,
    pub(crate) unknown_outcomes: Counter,
    pub(crate) retries: Counter,
    pub(crate) failovers: Counter,
    pub(crate) connections_opened: Counter,
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Everything that is counted, with the state of the gateways.
    pub(crate) fn statistics(&self, gateways: Vec<GatewayStatistics>) -> Statistics {
        Statistics {
            calls: self.calls.get(),
            failures: self.failures.get(),
            unknown_outcomes: self.unknown_outcomes.get(),
            retries: self.retries.get(),
            failovers: self.failovers.get(),
            connections_opened: self.connections_opened.get(),
            gateways,
        }
    }
}
