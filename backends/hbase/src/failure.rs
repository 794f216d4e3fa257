//! What a caller of the engine's interface is told of a failing call to HBase.

use crate::error::Error;

/// A failing call: it did nothing, or that is not known.
pub(crate) fn of(error: Error) -> hedgerow::Error {
    let text = error.to_string().into_boxed_str();
    match error.is_unknown() {
        true => hedgerow::Error::OutcomeUnknown(text),
        false => hedgerow::Error::Backend(text),
    }
}

/// A checked write whose answer was lost, and of which nothing can be said since: another write is
/// there now, before it or after it.
pub(crate) fn overtaken_in_doubt(key: &[u8]) -> hedgerow::Error {
    hedgerow::Error::OutcomeUnknown(
        format!(
            "HBase's answer to a write of {:?} was lost, and another write followed: read the row, \
             and decide whether to write again",
            key.escape_ascii().to_string()
        )
        .into(),
    )
}

/// A checked write whose answers were lost until its deadline.
pub(crate) fn in_doubt(key: &[u8]) -> hedgerow::Error {
    hedgerow::Error::OutcomeUnknown(
        format!(
            "HBase did not answer a write of {:?} in time, which may yet happen: read the row, and \
             decide whether to write again",
            key.escape_ascii().to_string()
        )
        .into(),
    )
}
