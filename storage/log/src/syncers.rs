//! Threads that help the flusher when several shards are dirty, so that their syncs overlap.
//!
//! They start when they are first needed: a database with one shard, or one busy shard, never
//! has them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::segment::{SegmentWriter, WriteFault};

type Outcome = (usize, Result<(), WriteFault>);

struct Job {
    index: usize,
    writer: Arc<Mutex<SegmentWriter>>,
    sync: bool,
}

// More syncs than this at once do not make a disk faster.
const MOST_HELPERS: usize = 15;

pub(crate) struct Helpers {
    most: usize,
    // One channel each: dropping them ends the threads.
    jobs: Vec<Sender<Job>>,
    done: (Sender<Outcome>, Receiver<Outcome>),
}

fn run(job: &Job) -> Outcome {
    let work = || {
        job.writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .perform(job.sync)
    };
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(WriteFault::Sync(std::io::Error::other(
            "the file layer panicked",
        )))
    });
    (job.index, outcome)
}

impl Helpers {
    /// Helpers for a log of this many shards.
    pub(crate) fn new(shards: usize) -> Helpers {
        Helpers {
            most: (shards - 1).min(MOST_HELPERS),
            jobs: Vec::new(),
            done: channel(),
        }
    }

    /// Runs `SegmentWriter::perform` for these shards, overlapping; returns all outcomes.
    pub(crate) fn perform(
        &mut self,
        writers: &[Arc<Mutex<SegmentWriter>>],
        shards: &[usize],
        sync: bool,
    ) -> Vec<Outcome> {
        let job = |index: usize| Job {
            index,
            writer: Arc::clone(&writers[index]),
            sync,
        };
        let Some((&first, others)) = shards.split_first() else {
            return Vec::new();
        };
        let mut outcomes = Vec::with_capacity(shards.len());
        let mut sent = 0;
        let mut own = vec![first];
        for (turn, &index) in others.iter().enumerate() {
            match self.helper(turn % self.most.max(1)) {
                Some(helper) if helper.send(job(index)).is_ok() => sent += 1,
                _ => own.push(index),
            }
        }
        outcomes.extend(own.into_iter().map(|index| run(&job(index))));
        outcomes.extend(self.done.1.iter().take(sent));
        outcomes
    }

    /// The `turn`-th helper, started if need be; `None` if that fails.
    fn helper(&mut self, turn: usize) -> Option<&Sender<Job>> {
        if turn >= self.jobs.len() && self.jobs.len() < self.most {
            let (jobs, inbox) = channel::<Job>();
            let done = self.done.0.clone();
            let work = move || {
                for job in inbox {
                    // The flusher is gone if nobody takes the outcome.
                    let _ = done.send(run(&job));
                }
            };
            let name = format!("hedgerow-sync-{}", self.jobs.len());
            thread::Builder::new().name(name).spawn(work).ok()?;
            self.jobs.push(jobs);
        }
        self.jobs.get(turn)
    }
}
