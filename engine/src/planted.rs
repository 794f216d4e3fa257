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
    /// Recovery forgets when rows expire.
    ExpiryIgnored,
    /// Recovery forgets that a range was removed.
    RangeForgotten,
    /// A commit of several keys does not wait for the batches of reads under way.
    BatchesNotAwaited,
    /// A batch of reads begins although a commit of several keys is under way.
    CommitsNotAwaited,
}
