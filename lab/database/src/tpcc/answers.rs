//! What transactions tell the terminal, as far as anybody looks at it.

/// What order-status tells of a customer (clause 2.6.3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The customer's number.
    pub(crate) customer: u64,
    /// What the customer has, in cents.
    pub(crate) balance: i64,
    /// The number of the newest order; 0 if there is none.
    pub(crate) order: u64,
    /// Its lines.
    pub(crate) lines: u64,
    /// What they cost, in cents.
    pub(crate) amount: u64,
}
