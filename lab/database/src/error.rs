//! What can go wrong.

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database is not what its transactions must have made of it.
    #[error("the database is inconsistent: {0}")]
    Inconsistent(String),
    /// The engine could not do what was asked.
    #[error(transparent)]
    Engine(#[from] hedgerow::Error),
    /// A parameter has no meaning.
    #[error("{0}")]
    Usage(String),
}

/// The crate's results.
pub type Result<T> = std::result::Result<T, Error>;
