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
    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Interactive::Open { transaction, .. } => transaction.memory_bytes(),
            Interactive::Failed(why) => why.capacity(),
        }
    }

    /// Rolls the transaction back if no command ran for so long; whether it did.
    pub(crate) fn end_if_idle(&mut self, now: Instant, longest: Duration) -> bool {
        if let Interactive::Open { used, .. } = self
            && now.saturating_duration_since(*used) > longest
        {
            let longest_ms = longest.as_millis();
            *self = Interactive::Failed(format!(
                "ERR the transaction was rolled back: no command came for {longest_ms} ms \
                 (`--transaction-idle-timeout`); ROLLBACK, then BEGIN again"
            ));
            return true;
        }
        false
    }

    /// Rolls the transaction back if it takes more memory than it may.
    pub(crate) fn end_if_large(&mut self, most_bytes: usize) {
        let bytes = self.memory();
        if matches!(self, Interactive::Open { .. }) && bytes > most_bytes {
            *self = Interactive::Failed(format!(
                "ERR the transaction was rolled back: what it wrote and read takes {bytes} bytes, \
                 the limit is {most_bytes}, half of `--client-memory`; ROLLBACK, then BEGIN a \
                 smaller one"
            ));
        }
    }
}
