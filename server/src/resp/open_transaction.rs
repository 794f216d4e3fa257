//! The transaction that a connection has open, or that ended without its doing.

use std::time::{Duration, Instant};

use hedgerow::backend::{Backend, InteractiveTransaction};

/// A connection's transaction between `BEGIN` and its end.
pub(crate) enum Interactive<B: Backend> {
    Open {
        transaction: Box<B::Interactive>,
        /// When the connection's last request had run.
        used: Instant,
    },
    /// It was rolled back: why.
    Failed(String),
}

impl<B: Backend> Interactive<B> {
    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Interactive::Open { transaction, .. } => transaction.memory_bytes(),
            Interactive::Failed(why) => why.capacity(),
        }
    }

    /// A request of the connection has run, or came in part.
    pub(crate) fn touch(&mut self) {
        if let Interactive::Open { used, .. } = self {
            *used = Instant::now();
        }
    }

    /// When it is to be rolled back if no request comes until then.
    pub(crate) fn due_at(&self, longest: Duration) -> Option<Instant> {
        match self {
            Interactive::Open { used, .. } => used.checked_add(longest),
            Interactive::Failed(_) => None,
        }
    }

    /// Rolls the transaction back if no request came for so long; whether it did.
    pub(crate) fn end_if_idle(&mut self, now: Instant, longest: Duration) -> bool {
        if self.due_at(longest).is_some_and(|at| at <= now) {
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
