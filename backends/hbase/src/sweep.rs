//! The thread that looks through all rows, now and then, and takes those away that have been dead
//! for long: tombstones, and rows that have expired. Several servers of one namespace do so beside
//! each other: who comes second finds nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow::{Error, Result};

use crate::clock::now_ms;
use crate::cluster::Cluster;
use crate::keyspace::HbaseKeyspace;

/// Rows that are looked at between two pauses, so that a sweep leaves time for requests.
const ROWS_PER_PAUSE: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);

/// The keyspaces that are known, by name.
pub(crate) type Keyspaces = Arc<Mutex<BTreeMap<String, HbaseKeyspace>>>;

/// The thread. It ends when this is dropped.
pub(crate) struct Sweeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(crate) fn start(cluster: &Arc<Cluster>, keyspaces: &Keyspaces) -> Result<Sweeper> {
        let (stop, stopped) = channel();
        let (cluster, keyspaces) = (Arc::clone(cluster), Arc::clone(keyspaces));
        let run = move || {
            let interval = cluster.options.sweep_interval;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                for keyspace in known(&keyspaces) {
                    sweep(&cluster, &keyspace, &stopped);
                }
            }
        };
        let thread = std::thread::Builder::new().name("hbase-sweep".into());
        let thread = thread.spawn(run).map_err(|error| {
            Error::Backend(format!("could not start a thread: {error}; see the limits").into())
        })?;
        Ok(Sweeper {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Sweeper {
    /// Waits for the call that is under way.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by then.
            let _ = thread.join();
        }
    }
}

fn known(keyspaces: &Keyspaces) -> Vec<HbaseKeyspace> {
    let known = keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
    known.values().cloned().collect()
}

/// Looks through a keyspace. What fails is tried again by the next sweep.
fn sweep(cluster: &Cluster, keyspace: &HbaseKeyspace, stopped: &Receiver<()>) {
    let kept_ms = cluster.options.keep_dead.as_millis() as u64;
    let mut rows = 0;
    let _ = keyspace.scan_states(|key, state| {
        rows += 1;
        if rows % ROWS_PER_PAUSE == 0 {
            std::thread::sleep(PAUSE);
        }
        if stopped.try_recv() != Err(TryRecvError::Empty) {
            return ControlFlow::Break(());
        }
        if state.is_due(now_ms(), kept_ms) && keyspace.purge(key, &state) {
            cluster.purged.fetch_add(1, Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    });
}
