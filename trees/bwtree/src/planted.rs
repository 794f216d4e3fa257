//! Bugs on purpose, one for each step of the protocols that only other threads can miss
//! (`hedgerow-planted` says how and why). `bwtree_races` in the testkit must find each.

hedgerow_planted::bugs! {
    /// A consolidation leaves the newest delta out.
    DeltaLost,
    /// The id of a removed node is used again at once.
    IdRecycledEarly,
    /// A merge leaves the separator of the removed node in its parent.
    SeparatorKept,
    /// A parent is changed although an abort is on it.
    AbortIgnored,
    /// A scan goes on at the right neighbour that it saw, whatever became of it.
    ScanSkipsMerge,
    /// A delta is claimed in a chunk that has no room for it, over older ones.
    ChunkOverrun,
}
