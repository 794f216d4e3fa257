//! Why a command fails, as an error reply.

use hedgerow::backend::{Backend, Capability, Unsupported};

/// Why a command failed; becomes an error reply. Nothing was changed.
#[derive(Debug)]
pub(crate) enum Failure {
    WrongType,
    Syntax,
    NotInteger,
    NotFloat,
    Overflow,
    Engine(hedgerow::Error),
    Text(String),
}

impl From<hedgerow::Error> for Failure {
    fn from(error: hedgerow::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    pub(crate) fn text(text: impl Into<String>) -> Failure {
        Failure::Text(text.into())
    }

    /// The error line, with Redis' prefixes where clients look for them.
    pub(crate) fn line(&self) -> String {
        match self {
            Failure::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value".into()
            }
            Failure::Syntax => "ERR syntax error".into(),
            Failure::NotInteger => "ERR value is not an integer or out of range".into(),
            Failure::NotFloat => "ERR value is not a valid float".into(),
            Failure::Overflow => "ERR increment or decrement would overflow".into(),
            Failure::Engine(error) => engine_line(error),
            Failure::Text(text) => text.clone(),
        }
    }
}

/// Fails where the backend lacks what a command needs.
pub(crate) fn needs(db: &impl Backend, capability: Capability) -> Outcome {
    match db.lacks(capability) {
        None => Ok(()),
        Some(because) => {
            let refused = Unsupported {
                capability,
                because,
            };
            Err(Failure::Engine(refused.into()))
        }
    }
}

/// The error line for what the engine refused.
pub(crate) fn engine_line(error: &hedgerow::Error) -> String {
    use hedgerow::Error::{
        DiskFull, OutOfMemory, OutcomeUnknown, Poisoned, ReadOnly, TransactionConflict, Unsupported,
    };
    let prefix = match error {
        OutOfMemory { .. } => "OOM",
        DiskFull | Poisoned(_) => "MISCONF",
        ReadOnly => "READONLY",
        TransactionConflict { .. } => "CONFLICT",
        Unsupported(_) => "UNSUPPORTED",
        OutcomeUnknown(_) => "UNKNOWN",
        _ => "ERR",
    };
    format!("{prefix} {}", in_words_of_clients(error))
}

/// What the engine says, without the names that only programs have for its remedies.
fn in_words_of_clients(error: &hedgerow::Error) -> String {
    use hedgerow::Error::{SnapshotEnded, TransactionTooLarge, TransactionTooOld};
    match error {
        TransactionTooLarge { bytes, limit } => format!(
            "the transaction was rolled back: it remembers {bytes} bytes of keys that it read, the \
             limit is {limit}; read ranges in place of single keys, use BEGIN SNAPSHOT, or raise \
             the limit (`--version-memory`)"
        ),
        SnapshotEnded { .. } | TransactionTooOld { .. } => {
            let text = error.to_string().replace(", `version_memory`", "");
            text.replace(", `memory_limit`", "")
        }
        error => error.to_string(),
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The error of a command with a wrong number of arguments.
pub(crate) fn wrong_arity(name: &str) -> String {
    format!(
        "ERR wrong number of arguments for '{}' command",
        name.to_ascii_lowercase()
    )
}
