//! Single requests of different connections at the same time: for a backend where each of them
//! waits for round trips.
//!
//! Requests of different connections have no order among themselves, and those of one connection
//! run one behind the other. What a backend gets at the same time it can send as one call.

use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use hedgerow::backend::Backend;

use super::requests::{ConnectionSlots, Tick, TickWaits};
use super::singles::{SinglesOf, Sums};
use super::stopwatch::Stopwatch;
use crate::monitoring::metrics::TickCounts;
use crate::protocol::request::{Request, Span};
use crate::shared::Shared;

/// Connections of a worker whose requests run at once.
const SIMULTANEOUS: usize = 32;

/// What a thread's part of the requests adds up to, beside the bytes of large replies.
#[derive(Default)]
struct PartialSums {
    awaited: TickWaits,
    counts: TickCounts,
    stopwatch: Stopwatch,
}

impl Tick {
    /// Runs the leading single requests of each connection, those of several connections at once.
    pub(super) fn run_singles_at_once<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        slots: &mut ConnectionSlots<'_, B>,
    ) {
        self.stopwatch.others_ran();
        let ready = ready(&mut self.requests, &mut self.active, slots);
        let threads = ready.len().min(SIMULTANEOUS);
        let large_bytes = AtomicUsize::new(self.order.large_bytes);
        let large = Mutex::new(());
        let (ready, stopwatch) = (Mutex::new(ready.into_iter()), &self.stopwatch);
        let work = || {
            run_ready(
                shared,
                &self.spans,
                &ready,
                &large_bytes,
                &large,
                stopwatch.another(),
            )
        };
        let sums: Vec<PartialSums> = std::thread::scope(|scope| {
            // Where the operating system has no more threads, those that there are do the work.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads).map_while(spawn).collect();
            let own = work();
            let others = others.into_iter().map(|thread| match thread.join() {
                Ok(sums) => sums,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            std::iter::once(own).chain(others).collect()
        });
        self.order.large_bytes = large_bytes.into_inner();
        for sums in sums {
            self.awaited.add_all(&sums.awaited);
            self.counts.protocol_errors += sums.counts.protocol_errors;
            self.counts.looked_up.add(sums.counts.looked_up);
            self.stopwatch.add_slow(sums.stopwatch);
        }
    }
}

/// The connections whose next request runs by itself.
fn ready<'t, B: Backend>(
    requests: &'t mut [Request],
    active: &'t mut [super::requests::Active],
    slots: &'t mut ConnectionSlots<'_, B>,
) -> Vec<SinglesOf<'t, B>> {
    let mut by_slot: Vec<_> = slots
        .sessions
        .iter_mut()
        .zip(&mut *slots.outputs)
        .map(Some)
        .collect();
    let mut rest = requests;
    let mut ready = Vec::new();
    for (place, active) in active.iter_mut().enumerate() {
        // Each connection's requests lie behind those of the one before.
        let (own, behind) = std::mem::take(&mut rest).split_at_mut(active.end - active.first);
        rest = behind;
        let Some((Some(session), output)) = by_slot[active.slot].take() else {
            continue;
        };
        let connection = SinglesOf {
            is_first: place == 0,
            input: slots.inputs[active.slot].bytes(),
            first: active.first,
            requests: own,
            active,
            session,
            output,
        };
        if connection.is_ready() {
            ready.push(connection);
        }
    }
    ready
}

/// Runs one connection's requests after the other's until none is left.
fn run_ready<'t, B: Backend>(
    shared: &Shared<B>,
    spans: &[Span],
    ready: &Mutex<impl Iterator<Item = SinglesOf<'t, B>>>,
    large_bytes: &AtomicUsize,
    large: &Mutex<()>,
    stopwatch: Stopwatch,
) -> PartialSums {
    let mut sums = PartialSums {
        stopwatch,
        ..PartialSums::default()
    };
    loop {
        let next = ready.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(mut connection) = next else {
            return sums;
        };
        let PartialSums {
            awaited,
            counts,
            stopwatch,
        } = &mut sums;
        stopwatch.others_ran();
        let mut sums = Sums {
            large_bytes,
            awaited,
            counts,
            stopwatch,
        };
        // One that may get a large reply may take what all clients have left: no two at once. A
        // connection whose last reply was small is taken to ask for a small one.
        let _alone = (!connection.output.had_small)
            .then(|| large.lock().unwrap_or_else(PoisonError::into_inner));
        connection.run(shared, spans, &mut sums);
    }
}
