//! Bugs on purpose in the engine (`hedgerow-planted` says how and why); `plants` in the testkit
//! selects them one after the other, and each must turn a checker red.

hedgerow_planted::bugs! {
    /// A commit of several keys becomes two log records.
    BatchSplit,
    /// A checkpoint is published before the epochs that it saw are durable.
    CheckpointTooEarly,
    /// Where a database has a page file, rows in memory are scanned before the logs are rotated.
    RowsBeforeRotation,
    /// Where a database has a page file, the manifest names a checkpoint whose pages are not
    /// published yet.
    ManifestBeforePages,
    /// A recovery from an older checkpoint replays the logs since the newest alone.
    OlderLogsForgotten,
    /// Recovery forgets when rows expire.
    ExpiryIgnored,
    /// Recovery forgets that a range was removed.
    RangeForgotten,
    /// A commit of several keys does not wait for the batches of reads under way.
    BatchesNotAwaited,
    /// A batch of reads begins although a commit of several keys is under way.
    CommitsNotAwaited,
    /// A snapshot's moment is before the last commit that was acknowledged.
    SnapshotMissesCommits,
    /// A snapshot's moment is after commits that have not happened yet.
    SnapshotSeesLaterCommits,
    /// When a snapshot closes, versions go that an older one can see.
    VersionFreedTooEarly,
    /// Nothing tells a transaction that a key which was absent has got a row.
    AbsenceNotKept,
    /// A snapshot judges what has expired by the time of the read, not by its own.
    SnapshotExpiresLate,
    /// A transaction does not validate the ranges that it read.
    RangesNotValidated,
    /// A transaction announces its writes after it has validated its reads.
    IntentsAfterValidation,
    /// A transaction does not wait for the commits under way that began in an earlier epoch.
    GuardsNotAwaited,
    /// A transaction that is run again reads at the moment of its first run.
    RetryReadsStale,
}
