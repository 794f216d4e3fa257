//! Why a call did not do what it was asked to, with the remedy.
//!
//! One distinction matters more than all others to callers that write: after [`Error::Unknown`] the
//! write may or may not have been applied, after every other error it was not.

use std::time::Duration;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Of a write, every error but [`Error::Unknown`] means that it was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL that names no cluster.
    #[error(
        "{url:?} names no HBase cluster: {why}; write hbase://HOST:PORT/NAMESPACE with the \
         address of a Thrift2 gateway, or of several with commas between, as in \
         hbase://gateway1:9090,gateway2:9090/hedgerow"
    )]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong about it.
        why: String,
    },
    /// A name that no table or namespace of HBase can have.
    #[error("{name:?} cannot name a {what} of HBase: {why}; choose another name")]
    BadName {
        /// What was given.
        name: String,
        /// `table` or `namespace`.
        what: &'static str,
        /// What is wrong about it.
        why: &'static str,
    },
    /// An option of the gateways is out of range.
    #[error("invalid option of HBase gateways: {0}")]
    InvalidOption(&'static str),
    /// The operating system refused the thread that watches the gateways.
    #[error(
        "could not start the thread that checks gateways: {0}; check the limits of this process"
    )]
    NoThread(String),
    /// No gateway could be used for as long as the call might wait, or each attempt failed.
    #[error(
        "{call}: no HBase gateway could be used ({gateways}): {why}; see that they run \
         (hbase thrift2 start --framed) and can be reached from here"
    )]
    Unreachable {
        /// The method of the gateway.
        call: &'static str,
        /// Their addresses, with commas between.
        gateways: String,
        /// The last failure.
        why: String,
    },
    /// The deadline passed before an answer came.
    #[error(
        "{call}: no answer before the deadline: {why}; allow more time, or see what keeps HBase \
         busy"
    )]
    Deadline {
        /// The method of the gateway.
        call: &'static str,
        /// What the call waited for.
        why: String,
    },
    /// A write was sent, and nothing says whether it was applied. It may still be applied later.
    #[error(
        "{call}: whether the write was applied is unknown: {cause}; read the rows that it concerns \
         before it is repeated"
    )]
    Unknown {
        /// The method of the gateway.
        call: &'static str,
        /// What kept the answer away, or said too little.
        cause: Box<Error>,
    },
    /// HBase or its gateway refused the call.
    #[error("{call}: HBase refused: {refusal}")]
    Refused {
        /// The method of the gateway.
        call: &'static str,
        /// What it said.
        refusal: Refusal,
    },
    /// A gateway answered with what is no answer.
    #[error(
        "{call}: {gateway} did not answer as an HBase Thrift2 gateway does: {why}; see that the \
         address is that of one that was started with framed transport and the binary protocol \
         (hbase thrift2 start --framed)"
    )]
    Protocol {
        /// The method of the gateway.
        call: &'static str,
        /// The gateway's address.
        gateway: String,
        /// What is wrong about the answer.
        why: String,
    },
    /// A request is longer than gateways accept. Nothing was sent.
    #[error(
        "{call}: the request has {bytes} bytes, over the limit of {limit}; write smaller batches \
         or values, or raise the limit here and in the gateways \
         (hbase.regionserver.thrift.framed.max_frame_size_in_mb)"
    )]
    RequestTooLong {
        /// The method of the gateway.
        call: &'static str,
        /// The length of the request's frame.
        bytes: usize,
        /// What was allowed.
        limit: usize,
    },
    /// An answer is longer than this side accepts. It was not read.
    #[error(
        "{call}: the answer of {gateway} has {bytes} bytes, over the limit of {limit}; ask for \
         fewer rows at once, or raise the limit"
    )]
    ReplyTooLong {
        /// The method of the gateway.
        call: &'static str,
        /// The gateway's address.
        gateway: String,
        /// The announced length of the answer's frame.
        bytes: usize,
        /// What was allowed.
        limit: usize,
    },
}

impl Error {
    /// What HBase or its gateway said, if the call failed by that: also where it left the outcome
    /// of a write unknown.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused { refusal, .. } => Some(refusal),
            Error::Unknown { cause, .. } => cause.refusal(),
            _ => None,
        }
    }

    /// Whether a write that failed with this may have been applied.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Error::Unknown { .. })
    }

    /// Whether nobody answered.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Deadline { .. } => true,
            Error::Unknown { cause, .. } => cause.is_unreachable(),
            _ => false,
        }
    }

    pub(crate) fn unknown(call: &'static str, cause: Error) -> Error {
        match cause {
            Error::Unknown { .. } => cause,
            _ => Error::Unknown {
                call,
                cause: Box::new(cause),
            },
        }
    }

    pub(crate) fn waited(call: &'static str, time: Duration, what: &str) -> Error {
        Error::Deadline {
            call,
            why: format!("waited {} ms for {what}", time.as_millis()),
        }
    }
}

/// What HBase or its gateway said instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", class.as_deref().map(|class| format!("{class}: ")).unwrap_or_default())]
pub struct Refusal {
    /// The Java class of the exception without its package, where the message names one. Gateways
    /// pass on messages alone, and not every message names the class.
    pub class: Option<String>,
    /// The beginning of the message: what stands before the stack trace, in one line.
    pub message: String,
    /// Whether HBase says that the same call may succeed later (`canRetry`).
    pub can_retry: bool,
    /// Who refused.
    pub origin: Origin,
}

/// Who refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// HBase, by a `TIOError`: the client within the gateway got or made an `IOException`.
    Hbase,
    /// The gateway, by a `TIllegalArgument`: an unknown scanner.
    Arguments,
    /// The gateway, which knows no such method.
    UnknownMethod,
    /// The gateway, where something failed that is no `IOException`.
    Internal,
}

/// Exceptions that do not go away by themselves.
const PERMANENT: &[&str] = &[
    "AccessDeniedException",
    "DoNotRetryIOException",
    "FailedSanityCheckException",
    "InvalidFamilyOperationException",
    "NamespaceExistException",
    "NamespaceNotFoundException",
    "NoSuchColumnFamilyException",
    "TableExistsException",
    "TableNotDisabledException",
    "TableNotEnabledException",
    "TableNotFoundException",
];

/// The exception of a write that HBase refuses because it has seen it before: the client within the
/// gateway repeated a call whose first answer it lost.
const APPLIED_BEFORE: &str = "OperationConflictException";

/// What a gateway says of a region that is being split or moved: a `NoServerForRegionException`,
/// which the message does not name. The gateway calls it not worth retrying, but a moment later the
/// region is served.
const NO_SERVER_YET: &str = "No server address listed in hbase:meta for region";

/// The longest message that is shown, in characters.
const MESSAGE_CHARS: usize = 300;

impl Refusal {
    /// Of a `TIOError`.
    pub(crate) fn of_hbase(message: Option<&str>, can_retry: Option<bool>) -> Refusal {
        let message = message.unwrap_or("no reason given");
        Refusal {
            class: java_class(message),
            message: beginning(message),
            can_retry: can_retry.unwrap_or(true),
            origin: Origin::Hbase,
        }
    }

    /// Of the gateway itself.
    pub(crate) fn of_gateway(message: &str, origin: Origin) -> Refusal {
        Refusal {
            class: java_class(message),
            message: beginning(message),
            can_retry: false,
            origin,
        }
    }

    /// Whether the exception is of this class, by its name without the package.
    pub fn is(&self, class: &str) -> bool {
        self.class.as_deref() == Some(class)
    }

    /// Whether the same call would be refused again.
    pub(crate) fn is_permanent(&self) -> bool {
        if self.message.starts_with(NO_SERVER_YET) {
            return false;
        }
        let class = self.class.as_deref();
        !self.can_retry || class.is_some_and(|class| PERMANENT.contains(&class))
    }

    /// Whether the refusal says for certain that the write was not applied. An exception that may
    /// be retried does not: a timeout is one. Nor does one of the gateway's own, which may have
    /// come up after the write, nor does a region without a server, which a gateway that sends
    /// again by itself may have found at its second try.
    pub(crate) fn rules_out_effects(&self) -> bool {
        match self.origin {
            Origin::Hbase if self.message.starts_with(NO_SERVER_YET) => false,
            Origin::Hbase => !self.can_retry && !self.is(APPLIED_BEFORE),
            Origin::Arguments | Origin::UnknownMethod => true,
            Origin::Internal => false,
        }
    }
}

/// The message in one line: up to the stack trace, at most 300 characters.
fn beginning(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty());
    let mut first = lines.next().unwrap_or("no reason given").to_owned();
    // The first line of a summary ("Failed after attempts=4, exceptions:") says nothing yet.
    if first.ends_with(':')
        && let Some(second) = lines.next()
    {
        first.push(' ');
        first.push_str(second);
    }
    match first.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &first[..end]),
        None => first,
    }
}

/// The first Java class in a message that is an exception's, without its package. Summaries of
/// several failures name the classes behind them.
fn java_class(message: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._$".contains(c);
    let mut words = message.split(|c| !is_part(c));
    words.find_map(|word| {
        let name = word.trim_matches('.').rsplit(['.', '$']).next()?;
        let starts_a_class = name.starts_with(|c: char| c.is_ascii_uppercase());
        let names_a_failure = name.ends_with("Exception") || name.ends_with("Error");
        (starts_a_class && names_a_failure).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_before_its_stack_trace() {
        let message = "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column \
                       family x does not exist\n\tat org.apache.hadoop.hbase.HRegion.check(H.java)";
        let refusal = Refusal::of_hbase(Some(message), Some(false));
        assert_eq!(
            refusal.class.as_deref(),
            Some("NoSuchColumnFamilyException")
        );
        assert!(refusal.message.ends_with("family x does not exist"));
        assert!(refusal.is_permanent() && refusal.rules_out_effects());
    }

    #[test]
    fn a_summary_shows_its_first_failure() {
        let message = "Failed after attempts=4, exceptions:\n2025-01-01T00:00:00Z, \
                       java.net.SocketTimeoutException: callTimeout=1200000\n\n\tat a.B.c(B.java)";
        let refusal = Refusal::of_hbase(Some(message), Some(true));
        assert!(refusal.is("SocketTimeoutException"));
        assert!(refusal.message.contains("exceptions: 2025-01-01"));
        assert!(!refusal.is_permanent() && !refusal.rules_out_effects());
    }

    #[test]
    fn a_region_in_transition_is_worth_another_try() {
        let message =
            "No server address listed in hbase:meta for region a:b,,1.0. containing row r";
        let refusal = Refusal::of_hbase(Some(message), Some(false));
        assert!(!refusal.is_permanent() && !refusal.rules_out_effects());
    }

    #[test]
    fn a_refusal_says_no_more_than_it_knows() {
        let silent = Refusal::of_hbase(None, None);
        assert_eq!(silent.to_string(), "no reason given");
        assert!(!silent.rules_out_effects());
        let named = Refusal::of_hbase(Some("hedgerow:rows"), Some(false));
        assert_eq!((named.class.as_deref(), named.is_permanent()), (None, true));
        let conflict = "org.apache.hadoop.hbase.exceptions.OperationConflictException: nonce";
        let conflict = Refusal::of_hbase(Some(conflict), Some(false));
        assert!(conflict.is_permanent() && !conflict.rules_out_effects());
        let internal = Refusal::of_gateway("Internal error processing get", Origin::Internal);
        assert!(!internal.rules_out_effects());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let refusal = Refusal::of_hbase(Some(&"ä".repeat(1000)), None);
        assert_eq!(refusal.message.chars().count(), MESSAGE_CHARS + 1);
    }

    #[test]
    fn an_unknown_outcome_shows_what_hbase_said() {
        let refused = Error::Refused {
            call: "put",
            refusal: Refusal::of_hbase(Some("RegionTooBusyException"), Some(true)),
        };
        let unknown = Error::unknown("put", refused.clone());
        assert!(unknown.is_unknown() && !refused.is_unknown());
        assert_eq!(unknown.refusal(), refused.refusal());
        assert_eq!(Error::unknown("put", unknown.clone()), unknown);
    }
}
