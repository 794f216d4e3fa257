//! Bugs on purpose, one for each step of the concurrency protocol that only other threads can
//! miss (`hedgerow-planted` says how and why). `tree_races` in the testkit must find each.

hedgerow_planted::bugs! {
    /// A slot whose removed key a reader may still see is reused without counting an insert.
    ReuseNotCounted,
    /// A border node gives keys to a new sibling without counting a split.
    SplitNotCounted,
    /// An empty border node is unlinked without being marked deleted.
    DeletedNotMarked,
    /// `get_many` believes what it read of a parent that has changed since.
    GetManyNotValidated,
    /// A slot becomes a layer without being unstable in between.
    LayerNotUnstable,
    /// A narrow border node is replaced by a wider one without counting a split.
    WideningNotCounted,
}
