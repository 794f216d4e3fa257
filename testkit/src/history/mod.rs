//! Recorded histories of concurrent operations, and what they must satisfy.
//!
//! Each thread owns a [`ThreadHistory`] and notes for every operation when it was called, when
//! it returned and what it answered. Threads share only the clock, so that recording adds no
//! synchronisation that could hide a bug. Afterwards [`check`] asks, for each key, whether some
//! order of the operations explains every answer ([`linearizability`]), and for each scan
//! whether it was ordered, inside its bounds and complete ([`scans`]).

pub mod linearizability;
mod operation;
pub mod scans;

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

pub use operation::{Action, Operation, Violation};
pub use scans::{Scan, ScanBound};

/// The shared clock of a recording: nanoseconds since its creation.
///
/// Each reading is fenced. Without that a store could still wait in its core's buffer when the
/// operation "returned", and a load could run before it was "called": both look like stale
/// reads to a clock that all cores share, and neither is one. Fences order this thread's own
/// accesses; unlike a shared counter they make no two threads wait for each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Clock {
            start: Instant::now(),
        }
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        fence(Ordering::SeqCst);
        let now = self.start.elapsed().as_nanos();
        fence(Ordering::SeqCst);
        u64::try_from(now).expect("a test of under 500 years")
    }
}

/// Everything that one thread did.
#[derive(Debug, Clone)]
pub struct ThreadHistory {
    clock: Clock,
    thread: usize,
    next_value: u64,
    /// Point operations, in program order.
    pub operations: Vec<Operation>,
    /// Scans, in program order.
    pub scans: Vec<Scan>,
}

impl ThreadHistory {
    /// An empty history for thread number `thread`, on the shared clock.
    pub fn new(clock: Clock, thread: usize) -> Self {
        ThreadHistory {
            clock,
            thread,
            next_value: 0,
            operations: Vec::new(),
            scans: Vec::new(),
        }
    }

    /// A value that no other call on any thread of this recording returns.
    pub fn fresh_value(&mut self) -> u64 {
        self.next_value += 1;
        ((self.thread as u64 + 1) << 40) | self.next_value
    }

    /// Runs `operation` and records it under `key` with the action it reports.
    pub fn record<R>(&mut self, key: usize, operation: impl FnOnce() -> (Action, R)) -> R {
        let called_ns = self.clock.now_ns();
        let (action, result) = operation();
        let returned_ns = Some(self.clock.now_ns());
        let thread = self.thread;
        self.operations.push(Operation {
            key,
            thread,
            called_ns,
            returned_ns,
            action,
        });
        result
    }

    /// Runs one call that answers several reads at once (`get_many`): each is an operation over
    /// the whole interval of the call.
    pub fn record_many(&mut self, gets: impl FnOnce() -> Vec<(usize, Option<u64>)>) {
        let called_ns = self.clock.now_ns();
        let found = gets();
        let returned_ns = Some(self.clock.now_ns());
        let thread = self.thread;
        self.operations
            .extend(found.into_iter().map(|(key, found)| Operation {
                key,
                thread,
                called_ns,
                returned_ns,
                action: Action::Get { found },
            }));
    }

    /// Runs `scan`, which returns the visited pairs and whether it ran to the end of the keys.
    pub fn record_scan(
        &mut self,
        bound: ScanBound,
        scan: impl FnOnce() -> (Vec<(Vec<u8>, u64)>, bool),
    ) {
        let called_ns = self.clock.now_ns();
        let (visited, reached_end) = scan();
        let returned_ns = self.clock.now_ns();
        let thread = self.thread;
        self.scans.push(Scan {
            thread,
            called_ns,
            returned_ns,
            bound,
            visited,
            reached_end,
        });
    }
}

/// Checks all threads' histories: every scan by itself, then every key, where a scan counts as
/// one read of each key that it covered.
///
/// `keys` is the table that operations index; `initial(key)` the state before the recording.
pub fn check(
    keys: &[Vec<u8>],
    histories: &[ThreadHistory],
    initial: impl Fn(usize) -> Option<u64>,
) -> Result<(), Violation> {
    let mut by_key: Vec<Vec<Operation>> = vec![Vec::new(); keys.len()];
    for history in histories {
        for operation in &history.operations {
            by_key[operation.key].push(*operation);
        }
        for scan in &history.scans {
            scans::check_shape(scan)?;
            for (key, found) in scans::as_reads(scan, keys)? {
                by_key[key].push(Operation {
                    key,
                    thread: scan.thread,
                    called_ns: scan.called_ns,
                    returned_ns: Some(scan.returned_ns),
                    action: Action::Get { found },
                });
            }
        }
    }
    for (key, operations) in by_key.into_iter().enumerate() {
        linearizability::check_key(initial(key), operations)
            .map_err(|violation| Violation(format!("key {:?}: {violation}", keys[key])))?;
    }
    Ok(())
}
