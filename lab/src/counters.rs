//! Counters of the processor and the kernel around timed runs, through Linux's perf events.
//!
//! What a tree does to the caches and to the branch predictor explains its speed, and many
//! machines can count it at almost no cost. Many rented ones cannot: a counter that is missing is
//! said to be, with the kernel's reason, and the others are still recorded. A run is counted with
//! all the threads that it starts, in user space only.

use std::cell::RefCell;

#[cfg(target_os = "linux")]
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};

/// The variable that tells a process to count.
pub const VARIABLE: &str = "HEDGEROW_LAB_COUNTERS";

/// Who is skipped where a counter is not to be had.
pub const NAME: &str = "(counters)";

/// What one run counted: a counter's name, and how often.
pub type Counts = Vec<(&'static str, u64)>;

thread_local! {
    /// The counts of the last run that this thread started.
    static LAST: RefCell<Counts> = const { RefCell::new(Vec::new()) };
}

/// The counts of the last run, once.
#[must_use]
pub fn take() -> Counts {
    LAST.take()
}

/// Runs `body`, counting if this process was told to.
pub fn during<R>(body: impl FnOnce() -> R) -> R {
    if std::env::var_os(VARIABLE).is_none() {
        return body();
    }
    let mut group = open();
    group.iter_mut().for_each(start);
    let result = body();
    LAST.set(group.into_iter().filter_map(stop).collect());
    result
}

/// The counters that this machine lacks, each with the kernel's reason.
#[must_use]
pub fn missing() -> Vec<(&'static str, String)> {
    tries()
        .into_iter()
        .filter_map(|(name, counter)| Some((name, counter.err()?)))
        .collect()
}

#[cfg(target_os = "linux")]
type Counter = perf_event::Counter;
#[cfg(not(target_os = "linux"))]
enum Counter {}

/// A counter of the kernel that could be opened.
struct Open {
    name: &'static str,
    counter: Counter,
}

fn open() -> Vec<Open> {
    let opened = tries().into_iter().filter_map(|(name, counter)| {
        let counter = counter.ok()?;
        Some(Open { name, counter })
    });
    opened.collect()
}

#[cfg(target_os = "linux")]
fn tries() -> Vec<(&'static str, Result<Counter, String>)> {
    use perf_event::Builder;
    let missed = |which| Cache {
        which,
        operation: CacheOp::READ,
        result: CacheResult::MISS,
    };
    let counter = |mut builder: Builder<'_>| {
        let counter = builder.inherit(true).build();
        counter.map_err(|error| error.to_string())
    };
    vec![
        ("cycles", counter(Builder::new(Hardware::CPU_CYCLES))),
        (
            "instructions",
            counter(Builder::new(Hardware::INSTRUCTIONS)),
        ),
        ("L1 misses", counter(Builder::new(missed(CacheId::L1D)))),
        (
            "last-level misses",
            counter(Builder::new(Hardware::CACHE_MISSES)),
        ),
        (
            "branch misses",
            counter(Builder::new(Hardware::BRANCH_MISSES)),
        ),
        ("dTLB misses", counter(Builder::new(missed(CacheId::DTLB)))),
        ("page faults", counter(Builder::new(Software::PAGE_FAULTS))),
        (
            "context switches",
            counter(Builder::new(Software::CONTEXT_SWITCHES)),
        ),
    ]
}

#[cfg(not(target_os = "linux"))]
fn tries() -> Vec<(&'static str, Result<Counter, String>)> {
    vec![("perf events", Err("they are Linux's".to_owned()))]
}

#[cfg(target_os = "linux")]
fn start(open: &mut Open) {
    // One that does not start counts nothing, and `stop` leaves it out.
    let _ = open.counter.enable();
}

/// The count, scaled up where the kernel let counters take turns.
#[cfg(target_os = "linux")]
fn stop(mut open: Open) -> Option<(&'static str, u64)> {
    open.counter.disable().ok()?;
    let counted = open.counter.read_count_and_time().ok()?;
    if counted.time_running == 0 {
        return None;
    }
    let share = counted.time_enabled as f64 / counted.time_running as f64;
    Some((open.name, (counted.count as f64 * share) as u64))
}

#[cfg(not(target_os = "linux"))]
fn start(_: &mut Open) {}

#[cfg(not(target_os = "linux"))]
fn stop(open: Open) -> Option<(&'static str, u64)> {
    match open.counter {}
}
