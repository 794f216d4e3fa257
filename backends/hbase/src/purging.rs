//! The thread that takes tombstones away whose time is over.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow::{Error, Result};

use crate::cluster::Cluster;
use crate::retry::Repeat;
use crate::rows::Check;
use crate::stored_row::{self, FAMILY, HEADER};
use crate::tombstones::Tombstone;

/// How long it waits where none is due.
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// The thread that takes tombstones away. Ends when this is dropped.
pub(crate) struct Purging {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Purging {
    pub(crate) fn start(cluster: &Arc<Cluster>) -> Result<Purging> {
        let (stop, stopped) = channel();
        let cluster = Arc::clone(cluster);
        let run = move || {
            let mut pause = Duration::ZERO;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let is_idle = purge_some(&cluster) == 0;
                pause = if is_idle { IDLE_PAUSE } else { Duration::ZERO };
            }
        };
        let thread = std::thread::Builder::new().name("hbase-tombstones".into());
        let thread = thread.spawn(run).map_err(|error| {
            Error::Backend(format!("could not start a thread: {error}; see the limits").into())
        })?;
        Ok(Purging {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Purging {
    /// Waits for the step that is under way.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by then.
            let _ = thread.join();
        }
    }
}

/// Takes away tombstones whose time is over, some of them; how many were due.
fn purge_some(cluster: &Cluster) -> usize {
    let due = cluster.tombstones.take_due();
    for tombstone in &due {
        let Tombstone {
            table,
            key,
            header,
            version,
            ..
        } = tombstone;
        let check = Check::equals(key, FAMILY, HEADER, header);
        let mutations = stored_row::purge(key, *version);
        let unsent = Repeat::OnlyIfUnsent;
        // Where it fails, the tombstone stays.
        let _ = cluster.call(|calls| calls.check_and_mutate(table, &check, &mutations, unsent));
    }
    due.len()
}
