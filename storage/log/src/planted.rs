//! Bugs on purpose, each one that logs have really had (`hedgerow-planted` says how and why).
//! `plants` in the testkit selects them one after the other, and each must turn a campaign red.

hedgerow_planted::bugs! {
    /// Group commit does not sync the log files.
    SyncLeftOut,
    /// Waiters hear of an epoch's durability before its blocks are written.
    AcknowledgeBeforeSync,
    /// Recovery does not compare the checksums of blocks.
    ChecksumIgnored,
    /// Recovery takes all valid blocks of every shard, whatever the others have.
    CutoffIgnored,
    /// The directory of new log files is not synced.
    DirectorySyncMissing,
    /// The manifest is renamed into place before it is synced.
    ManifestNotSynced,
    /// Old logs and checkpoints are removed before the new manifest's name is durable.
    ManifestNameNotSynced,
    /// Recovery applies one shard's commits after the other's instead of by timestamp.
    TimestampOrderIgnored,
    /// Commits are acknowledged that only the process's buffers have.
    WriteOutLeftOut,
    /// A log that failed, and said so, accepts commits again and drops them.
    FailureForgotten,
    /// A block that could not be written counts as written.
    WriteErrorIgnored,
    /// A full disk stops the log for good, as a broken one does.
    FullDiskTakenForFailure,
    /// The checksums of a checkpoint's blocks are not compared.
    CheckpointChecksumIgnored,
    /// A manifest that is older than the logs beside it is not recognised.
    ManifestAgeIgnored,
}
