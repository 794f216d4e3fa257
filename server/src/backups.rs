//! What a server knows of the backups that clients ask for: the one under way, and how the last one
//! ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow::BackupReport;

/// How a backup ended.
#[derive(Clone)]
pub(crate) struct EndedBackup {
    pub(crate) name: String,
    /// Unix time.
    pub(crate) ended_s: u64,
    /// Why there is none, or how large it is.
    pub(crate) outcome: Result<BackupReport, String>,
}

#[derive(Default)]
struct State {
    under_way: Option<String>,
    last: Option<EndedBackup>,
}

/// The backup under way, and the last one.
#[derive(Default)]
pub(crate) struct Backups(Mutex<State>);

impl Backups {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A backup of this name is under way.
    pub(crate) fn begin(&self, name: &str) {
        self.state().under_way = Some(name.to_owned());
    }

    /// None is under way any more, nor a checkpoint that a client asked for; how it ended, if it
    /// had begun.
    pub(crate) fn end(&self, ended: Option<EndedBackup>, saving: &AtomicBool) {
        let mut state = self.state();
        state.under_way = None;
        state.last = ended.or(state.last.take());
        // Before anybody can see that no backup is under way.
        saving.store(false, Ordering::Release);
    }

    /// The name of the backup under way.
    pub(crate) fn under_way(&self) -> Option<String> {
        self.state().under_way.clone()
    }

    /// The last one that has ended.
    pub(crate) fn last(&self) -> Option<EndedBackup> {
        self.state().last.clone()
    }
}
