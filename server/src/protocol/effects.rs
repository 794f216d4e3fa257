//! The effects of a request that ran.

use std::time::Instant;

use hedgerow::Commit;
use hedgerow::backend::Backend;

use crate::monitoring::metrics::LookUps;
use crate::protocol::request::NO_COMMAND;
use crate::shared::Shared;

/// What running a request led to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects {
    /// The reply must wait until this commit is durable.
    pub(crate) awaits: Option<Commit>,
    /// But not beyond this moment (`WAITAOF`).
    pub(crate) deadline: Option<Instant>,
    /// Something was changed.
    pub(crate) wrote: bool,
    /// The request's command ran, though it may have failed: it was neither refused nor queued.
    pub(crate) called: bool,
    /// The connection ends once its replies are sent.
    pub(crate) close: bool,
    /// Clients are paused from here on: the next request of the connection may have to wait.
    pub(crate) pauses: bool,
    /// The request was none that the protocol knows.
    pub(crate) malformed: bool,
    /// The rows that the request asked for.
    pub(crate) looked_up: LookUps,
    /// So many keys of the request are answered, and the others in a later tick: then the session
    /// runs the request again.
    pub(crate) answered_keys: Option<usize>,
}

impl Effects {
    /// The code under which the request of this code is counted: that of no command if its own did
    /// not run.
    pub(crate) fn counted_code(&self, code: u32) -> u32 {
        if self.called { code } else { NO_COMMAND }
    }

    /// After a write: its reply waits if acknowledged writes are promised to be durable.
    pub(crate) fn wrote<B: Backend>(shared: &Shared<B>, commit: Option<Commit>) -> Effects {
        Effects {
            awaits: commit.filter(|_| shared.is_sync()),
            wrote: commit.is_some(),
            ..Effects::default()
        }
    }
}
