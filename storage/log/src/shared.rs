//! What writers, waiters and the flusher of an open log share.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hedgerow_sync::CachePadded;

use crate::block::Identity;
use crate::error::Error;
use crate::health::Space;
use crate::log_state::LogState;
use crate::options::LogOptions;
use crate::output::{Fault, Output};
use crate::requests::Requests;
use crate::segment::SegmentWriter;
use crate::shard::Shard;

/// What writers, waiters and the flusher share.
pub(crate) struct Shared {
    pub(crate) state: LogState,
    pub(crate) shards: Box<[CachePadded<Shard>]>,
    /// Taken before any shard's mutex.
    pub(crate) output: Mutex<Output>,
    /// Signalled when a rotation has switched to new files.
    pub(crate) switched: Condvar,
    pub(crate) requests: Mutex<Requests>,
    pub(crate) flusher_done: AtomicBool,
}

impl Shared {
    /// What is shared at the start of an incarnation, whose files are `writers`.
    pub(crate) fn new(
        options: LogOptions,
        identity: &Identity,
        writers: Vec<SegmentWriter>,
        first_epoch: u64,
    ) -> Shared {
        Shared {
            shards: (0..options.shards)
                .map(|_| CachePadded::new(Shard::new(first_epoch)))
                .collect(),
            state: LogState::new(options, identity, first_epoch),
            output: Mutex::new(Output::new(writers, first_epoch)),
            switched: Condvar::new(),
            requests: Mutex::default(),
            flusher_done: AtomicBool::new(false),
        }
    }

    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes writers that wait for room, or for a rotation, look at the health again.
    pub(crate) fn wake_writers(&self) {
        drop(self.output());
        self.switched.notify_all();
        for shard in &self.shards {
            let waiters = shard.lock().waiters();
            shard.wake_waiters(waiters);
        }
    }

    /// Reports a failed write to everybody, and has the flusher deal with it. The caller
    /// has let go of the output.
    pub(crate) fn fail(&self, fault: Fault) -> Error {
        let (news, error) = match fault {
            Fault::Full => {
                let news = self.state.status.check_reserve().is_ok();
                self.state.set_space(Space::None);
                (news, Error::DiskFull)
            }
            Fault::Failed(reason) => (self.state.status.poison(&reason), Error::Poisoned(reason)),
        };
        if news {
            self.wake_writers();
            self.state.wake_flusher();
        }
        error
    }
}
