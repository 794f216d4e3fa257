//! The transaction that a connection has open, or that ended without its doing.

use std::time::{Duration, Instant};

use hedgerow::OptimisticTransaction;

/// A connection's transaction between `BEGIN` and its end.
pub(crate) enum Interactive {
    Open {
        transaction: Box<OptimisticTransaction>,
        /// When its last command ran.
        used: Instant,
    },
    /// It was rolled back: why.
    Failed(String),
}

impl Interactive {
    /// Rolls the transaction back if no command ran for so long.
    pub(crate) fn end_if_idle(&mut self, now: Instant, longest: Duration) {
        if let Interactive::Open { used, .. } = self
            && now.saturating_duration_since(*used) > longest
        {
            let longest_ms = longest.as_millis();
            *self = Interactive::Failed(format!(
                "ERR the transaction was rolled back: no command came for {longest_ms} ms; \
                 ROLLBACK, then BEGIN again"
            ));
        }
    }
}
