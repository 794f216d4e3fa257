//! How a pool is opened.

/// How to open a [`Pool`](crate::Pool).
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for pages and what belongs to them, in bytes: a hard limit, but for recovery on a
    /// full disk ([`Pool::exceed_budget`](crate::Pool::exceed_budget)).
    pub budget_bytes: u64,
    /// Address space for this many pages is reserved: no more will fit the file. Where the
    /// kernel refuses that (`ulimit -v`), it is half of that, and so on, down to 2²⁰ pages and
    /// twice what the file has.
    pub most_pages: u32,
    /// The database that the file belongs to. Written when the file is created, compared when it
    /// is opened.
    pub database: u64,
    /// Change nothing in the file: pages that are changed and evicted go to a scratch file, which
    /// is gone when the pool is dropped.
    pub read_only: bool,
    /// Open a damaged file to read what is left of it: pages that are lost are errors when they
    /// are asked for.
    pub salvage: bool,
}

impl Options {
    /// A budget, room for 2²⁸ pages (a tebibyte of 4 KiB), and the database 0.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            most_pages: 1 << 28,
            database: 0,
            read_only: false,
            salvage: false,
        }
    }
}
