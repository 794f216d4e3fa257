//! The result of a request, and the lines of error replies.

use hedgerow::Commit;

use crate::connection::reply_buffer::ReplyBuffer;

/// What a command did.
pub(crate) enum Done {
    Nothing,
    Wrote(Option<Commit>),
    /// So many keys are answered, and the others are to be when the client has fetched more.
    Partly {
        commit: Option<Commit>,
        answered_keys: usize,
    },
    Quit,
}

/// Why a command failed.
pub(crate) enum Failure {
    /// The line to answer with.
    Line(&'static str),
    Engine(hedgerow::Error),
}

impl From<hedgerow::Error> for Failure {
    fn from(error: hedgerow::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    pub(super) fn reply(&self, out: &mut ReplyBuffer) {
        match self {
            Failure::Line(line) => {
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Failure::Engine(error) => server_error(error, out),
        }
    }
}

pub(crate) type Outcome = Result<Done, Failure>;

/// The error line for what the engine refused. A key that its keyspace does not take is the
/// client's mistake; clients take other lines for a sick server.
pub(super) fn server_error(error: &hedgerow::Error, out: &mut ReplyBuffer) {
    let text = match error {
        hedgerow::Error::OutOfMemory { .. } => format!("out of memory storing object: {error}"),
        hedgerow::Error::ValueTooLong { .. } => "object too large for cache".to_owned(),
        error => error.to_string(),
    };
    match error {
        hedgerow::Error::KeyWidth { .. } => error_line("CLIENT_ERROR", &text, out),
        _ => server_error_line(&text, out),
    }
}

pub(super) fn server_error_line(text: &str, out: &mut ReplyBuffer) {
    error_line("SERVER_ERROR", text, out);
}

fn error_line(whose: &str, text: &str, out: &mut ReplyBuffer) {
    let text = text.replace(['\r', '\n'], " ");
    out.extend_from_slice(format!("{whose} {text}\r\n").as_bytes());
}

/// Appends a decimal number.
pub(crate) fn put_number(number: u64, out: &mut ReplyBuffer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
