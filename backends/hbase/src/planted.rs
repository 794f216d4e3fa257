//! Bugs on purpose: what a client does wrong when the answer to a checked write is lost
//! (`hedgerow-planted` says how and why). `tests/lost_replies` must find each.

hedgerow_planted::bugs! {
    /// A write whose answer is lost is reported as done, without a look at the row.
    LostReplyTakenForSuccess,
    /// A write whose answer is lost is reported as not done, without a look at the row.
    LostReplyTakenForFailure,
    /// A change whose answer is lost is computed again from the row that is there, without
    /// comparing its header: it may be the change's own.
    HeaderNotCompared,
    /// A write whose answer is lost is sent again whatever the row is by then.
    SentAgainUnchecked,
}
