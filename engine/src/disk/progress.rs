//! The progress of a recovery, for callers that wait for a database to open.

use std::sync::Arc;

/// What recovery is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecoveryPhase {
    /// Loading the newest checkpoint.
    Checkpoint,
    /// Replaying the logs since then.
    Log,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// What is being read.
    pub phase: RecoveryPhase,
    /// Bytes read of it.
    pub done_bytes: u64,
    /// Bytes to read.
    pub total_bytes: u64,
}

/// Called with the progress, from any thread.
pub(crate) type ProgressCallback = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;
