//! Bugs on purpose, one for each step of the concurrency protocol of `shared` that only other
//! threads can miss (`hedgerow-planted` says how and why). `matryoshka_races` in the testkit must
//! find each.

hedgerow_planted::bugs! {
    /// A page that others replace is not marked as deleted.
    ReplacedNotMarked,
    /// A writer that waited for a page's latch does not look whether it is still the right page.
    LatchNotValidated,
    /// Keys move within a page without a mark.
    ChangeNotMarked,
    /// A lookup believes what it read of a page that has changed since.
    GetNotValidated,
    /// `get_many` reads the leaf line that was right before the page changed.
    GetManyNotValidated,
    /// A scan goes on from line to line of a page that has changed since.
    ScanNotValidated,
    /// A page's memory goes to others while readers may still be looking at it.
    ReleasedAtOnce,
}
