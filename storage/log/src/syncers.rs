//! Threads that help the flusher when several shards are dirty, so that their syncs overlap.
//!
//! They start when they are first needed: a database with one shard, or one busy shard, never
//! has them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::output::Unsynced;
use crate::planted::{PlantedBug, planted};

/// What came of syncing a shard's file.
pub(crate) struct Synced {
    pub(crate) shard: usize,
    /// Bytes of the file that are durable now.
    pub(crate) length: io::Result<u64>,
}

// More syncs than this at once do not make a disk faster.
const MOST_THREADS: usize = 15;

pub(crate) struct Syncers {
    most: usize,
    // One channel each: dropping them ends the threads.
    jobs: Vec<Sender<Unsynced>>,
    done: (Sender<Synced>, Receiver<Synced>),
}

fn sync(job: &Unsynced) -> Synced {
    let shard = job.shard;
    if planted(PlantedBug::SyncLeftOut) {
        let length = Ok(job.length);
        return Synced { shard, length };
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| job.file.sync()))
        .unwrap_or_else(|_| Err(io::Error::other("the file layer panicked")));
    let length = outcome.map(|()| job.length);
    Synced { shard, length }
}

impl Syncers {
    /// Threads for a log of this many shards.
    pub(crate) fn new(shards: usize) -> Syncers {
        Syncers {
            most: (shards - 1).min(MOST_THREADS),
            jobs: Vec::new(),
            done: channel(),
        }
    }

    /// Syncs these files, overlapping; returns all outcomes.
    pub(crate) fn sync(&mut self, files: Vec<Unsynced>) -> Vec<Synced> {
        let mut sent = 0;
        let mut own = Vec::new();
        for (index, file) in files.into_iter().enumerate() {
            // The first one is for the calling thread.
            let thread = index.checked_sub(1).and_then(|index| self.thread(index));
            let Some(thread) = thread else {
                own.push(file);
                continue;
            };
            match thread.send(file) {
                Ok(()) => sent += 1,
                Err(unsent) => own.push(unsent.0),
            }
        }
        let mut outcomes: Vec<Synced> = own.iter().map(sync).collect();
        outcomes.extend(self.done.1.iter().take(sent));
        outcomes
    }

    /// The thread for the `index`-th file, started if need be; `None` if that fails.
    fn thread(&mut self, index: usize) -> Option<&Sender<Unsynced>> {
        let index = index % self.most.max(1);
        if index >= self.jobs.len() && self.jobs.len() < self.most {
            let (jobs, inbox) = channel::<Unsynced>();
            let done = self.done.0.clone();
            let work = move || {
                for job in inbox {
                    // The flusher is gone if the outcome is not received.
                    let _ = done.send(sync(&job));
                }
            };
            let name = format!("hedgerow-sync-{}", self.jobs.len());
            thread::Builder::new().name(name).spawn(work).ok()?;
            self.jobs.push(jobs);
        }
        self.jobs.get(index)
    }
}
