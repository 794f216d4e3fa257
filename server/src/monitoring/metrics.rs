//! Counters of the server, cheap enough to be always on: each worker adds to its own, once per
//! tick of its event loop.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tick latencies are counted in powers of two of a microsecond, up to about 8 s.
const BUCKETS: usize = 24;

/// Adds to a counter of a worker. Only that worker adds: a plain load and a plain store will do.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
    counter.store(sum, Ordering::Relaxed);
}

/// One worker's counters.
#[derive(Default)]
pub(crate) struct WorkerMetrics {
    pub(crate) ticks: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) batched_reads: AtomicU64,
    pub(crate) read_batches: AtomicU64,
    pub(crate) batched_puts: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    /// Receives and sends that were not calls of their own.
    pub(crate) batched_transfers: AtomicU64,
    /// Whether its ring has failed: 0 or 1.
    pub(crate) failed_rings: AtomicU64,
    /// Requests that came by UDP.
    pub(crate) datagrams: AtomicU64,
    /// Datagrams that were not answered, and those of replies that could not be sent.
    pub(crate) lost_datagrams: AtomicU64,
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) commands: CommandCounters,
    latency: [AtomicU64; BUCKETS],
    latency_sum_ns: AtomicU64,
}

/// Rows that were looked up by their keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookUps {
    /// Those that were there.
    pub(crate) hits: u64,
    /// Those that were not.
    pub(crate) misses: u64,
}

impl LookUps {
    pub(crate) fn add(&mut self, more: LookUps) {
        self.hits += more.hits;
        self.misses += more.misses;
    }
}

/// Counts an error reply by its code: what it begins with in capital letters, as in `WRONGTYPE …`.
pub(crate) fn count_error_by_code(counts: &mut BTreeMap<String, u64>, reply: &[u8]) {
    let end = reply.iter().position(|byte| !byte.is_ascii_uppercase());
    let code = &reply[..end.unwrap_or(reply.len())];
    let code = std::str::from_utf8(code).unwrap_or_default();
    match counts.get_mut(code) {
        Some(count) => *count += 1,
        None => drop(counts.insert(code.to_owned(), 1)),
    }
}

/// How often each RESP command ran, by its number in the table, and for how long.
#[derive(Default)]
pub(crate) struct CommandCounters(Box<[CommandCounter]>);

#[derive(Default)]
struct CommandCounter {
    calls: AtomicU64,
    duration_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// How often a RESP command ran, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandTotal {
    pub(crate) calls: u64,
    pub(crate) duration_ns: u64,
    /// Refused before it ran: no call.
    pub(crate) rejected: u64,
    /// Of the calls, those that replied an error.
    pub(crate) failed: u64,
}

impl CommandTotal {
    /// What was counted since `earlier`.
    pub(crate) fn since(self, earlier: CommandTotal) -> CommandTotal {
        CommandTotal {
            calls: self.calls.saturating_sub(earlier.calls),
            duration_ns: self.duration_ns.saturating_sub(earlier.duration_ns),
            rejected: self.rejected.saturating_sub(earlier.rejected),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

impl CommandCounters {
    fn new(commands: usize) -> CommandCounters {
        let counters = std::iter::repeat_with(CommandCounter::default);
        CommandCounters(counters.take(commands).collect())
    }

    /// Adds the commands of a tick, by their numbers; each that has a counter gets an equal share
    /// of its duration.
    pub(crate) fn add(&self, codes: &[u32], duration_ns: u64) {
        let counters = || codes.iter().filter_map(|&code| self.0.get(code as usize));
        let share_ns = duration_ns / (counters().count() as u64).max(1);
        for counter in counters() {
            add(&counter.calls, 1);
            add(&counter.duration_ns, share_ns);
        }
    }

    /// Adds those of a tick's commands that failed.
    pub(crate) fn add_failed(&self, codes: &[u32]) {
        for counter in codes.iter().filter_map(|&code| self.0.get(code as usize)) {
            add(&counter.failed, 1);
        }
    }

    /// Adds commands that were refused before they ran.
    pub(crate) fn add_rejected(&self, codes: &[u32]) {
        for counter in codes.iter().filter_map(|&code| self.0.get(code as usize)) {
            add(&counter.rejected, 1);
        }
    }
}

/// What one tick adds.
#[derive(Default)]
pub(crate) struct TickCounts {
    pub(crate) requests: u64,
    pub(crate) batched_reads: u64,
    pub(crate) read_batches: u64,
    pub(crate) batched_puts: u64,
    pub(crate) received_bytes: u64,
    /// Of batched reads, those that found a row.
    pub(crate) hits: u64,
    /// By other requests.
    pub(crate) looked_up: LookUps,
    pub(crate) protocol_errors: u64,
}

impl WorkerMetrics {
    /// Adds a tick that took `duration_ns`; every request of it waited that long at most.
    pub(crate) fn add(&self, counts: &TickCounts, duration_ns: u64) {
        add(&self.ticks, 1);
        add(&self.requests, counts.requests);
        add(&self.batched_reads, counts.batched_reads);
        add(&self.read_batches, counts.read_batches);
        add(&self.batched_puts, counts.batched_puts);
        add(&self.received_bytes, counts.received_bytes);
        add(&self.hits, counts.hits + counts.looked_up.hits);
        add(&self.protocol_errors, counts.protocol_errors);
        let misses = counts.batched_reads - counts.hits;
        add(&self.misses, misses + counts.looked_up.misses);
        let bucket = (64 - (duration_ns / 1000).leading_zeros()) as usize;
        add(&self.latency[bucket.min(BUCKETS - 1)], counts.requests);
        add(&self.latency_sum_ns, duration_ns * counts.requests);
    }
}

/// All counters of a server.
pub(crate) struct Metrics {
    pub(crate) workers: Vec<WorkerMetrics>,
    /// The names of the RESP commands, by their numbers in the table.
    pub(crate) command_names: Vec<&'static str>,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) memcached: MemcachedCounters,
    pub(crate) closed_for_memory: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

/// What memcached clients did beyond `get` and plain `set`, which workers count.
#[derive(Default)]
pub(crate) struct MemcachedCounters {
    pub(crate) stores: AtomicU64,
    pub(crate) touches: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) meta: AtomicU64,
}

impl Metrics {
    /// No counts yet, of RESP commands with these names.
    pub(crate) fn new(workers: usize, command_names: Vec<&'static str>) -> Metrics {
        let worker = || WorkerMetrics {
            commands: CommandCounters::new(command_names.len()),
            ..WorkerMetrics::default()
        };
        Metrics {
            workers: std::iter::repeat_with(worker).take(workers).collect(),
            command_names,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            memcached: MemcachedCounters::default(),
            closed_for_memory: AtomicU64::new(0),
            errors: Mutex::default(),
        }
    }

    /// How often each RESP command ran, and for how long, by its number in the table.
    pub(crate) fn command_totals(&self) -> Vec<CommandTotal> {
        let sum = |code: usize, word: fn(&CommandCounter) -> &AtomicU64| -> u64 {
            let counters = self.workers.iter().map(|worker| &worker.commands.0[code]);
            counters
                .map(|counter| word(counter).load(Ordering::Relaxed))
                .sum()
        };
        let codes = 0..self.command_names.len();
        codes
            .map(|code| CommandTotal {
                calls: sum(code, |counter| &counter.calls),
                duration_ns: sum(code, |counter| &counter.duration_ns),
                rejected: sum(code, |counter| &counter.rejected),
                failed: sum(code, |counter| &counter.failed),
            })
            .collect()
    }

    /// Counts a reply of RESP, if it is an error.
    #[inline]
    pub(crate) fn count_if_error(&self, reply: &[u8]) {
        if let Some((b'-', error)) = reply.split_first() {
            count_error_by_code(&mut self.errors(), error);
        }
    }

    /// Adds error replies that were counted by their codes.
    pub(crate) fn add_errors(&self, counts: BTreeMap<String, u64>) {
        if counts.is_empty() {
            return;
        }
        let mut errors = self.errors();
        for (code, count) in counts {
            *errors.entry(code).or_default() += count;
        }
    }

    /// How many error replies there were, by code.
    pub(crate) fn errors(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A counter summed over all workers.
    pub(crate) fn sum(&self, counter: impl Fn(&WorkerMetrics) -> &AtomicU64) -> u64 {
        self.workers
            .iter()
            .map(|worker| counter(worker).load(Ordering::Relaxed))
            .sum()
    }

    /// Everything in Prometheus' text format.
    pub(crate) fn write_prometheus(&self, text: &mut String) {
        let counters = self.worker_counters().into_iter();
        for (name, help, value) in counters.chain(self.connection_counters()) {
            let _ = writeln!(
                text,
                "# HELP hedgerow_{name} {help}\n# TYPE hedgerow_{name} counter"
            );
            let _ = writeln!(text, "hedgerow_{name} {value}");
        }
        self.write_latencies(text);
    }

    /// The counters of the workers: their names, what they are, their values.
    fn worker_counters(&self) -> [(&'static str, &'static str, u64); 12] {
        [
            ("requests_total", "Requests run.", self.sum(|w| &w.requests)),
            (
                "turns_total",
                "Turns of the event loops that ran requests.",
                self.sum(|w| &w.ticks),
            ),
            (
                "batched_reads_total",
                "Keys read in batches.",
                self.sum(|w| &w.batched_reads),
            ),
            (
                "read_batches_total",
                "Batches of reads.",
                self.sum(|w| &w.read_batches),
            ),
            (
                "batched_puts_total",
                "Puts applied in batches.",
                self.sum(|w| &w.batched_puts),
            ),
            (
                "received_bytes_total",
                "Bytes received.",
                self.sum(|w| &w.received_bytes),
            ),
            (
                "sent_bytes_total",
                "Bytes sent.",
                self.sum(|w| &w.sent_bytes),
            ),
            (
                "batched_transfers_total",
                "Receives and sends in batches of io_uring.",
                self.sum(|w| &w.batched_transfers),
            ),
            (
                "failed_rings_total",
                "Workers that io_uring has failed, and that go on with single calls.",
                self.sum(|w| &w.failed_rings),
            ),
            (
                "datagrams_total",
                "Datagrams with requests (memcached by UDP).",
                self.sum(|w| &w.datagrams),
            ),
            (
                "lost_datagrams_total",
                "Datagrams that were not answered, and those of replies that could not be sent.",
                self.sum(|w| &w.lost_datagrams),
            ),
            (
                "protocol_errors_total",
                "Malformed requests.",
                self.sum(|w| &w.protocol_errors),
            ),
        ]
    }

    /// The same of the counters of connections.
    fn connection_counters(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            (
                "connections_accepted_total",
                "Accepted.",
                self.accepted.load(Ordering::Relaxed),
            ),
            (
                "connections_refused_total",
                "Over the limit.",
                self.refused.load(Ordering::Relaxed),
            ),
            (
                "connections_timed_out_total",
                "Idle.",
                self.timed_out.load(Ordering::Relaxed),
            ),
            (
                "connections_closed_for_memory_total",
                "Closed for the memory that they held.",
                self.closed_for_memory.load(Ordering::Relaxed),
            ),
        ]
    }

    /// The histogram of latencies.
    fn write_latencies(&self, text: &mut String) {
        let name = "hedgerow_request_turn_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} Duration of the tick that answered a request."
        );
        let _ = writeln!(text, "# TYPE {name} histogram");
        let mut count = 0;
        for bucket in 0..BUCKETS {
            count += self.sum(|worker| &worker.latency[bucket]);
            let limit_s = (1u64 << bucket) as f64 / 1e6;
            let limit = if bucket == BUCKETS - 1 {
                "+Inf".into()
            } else {
                limit_s.to_string()
            };
            let _ = writeln!(text, "{name}_bucket{{le=\"{limit}\"}} {count}");
        }
        let sum_s = self.sum(|worker| &worker.latency_sum_ns) as f64 / 1e9;
        let _ = writeln!(text, "{name}_sum {sum_s}\n{name}_count {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_counts_requests_and_is_cumulative() {
        let metrics = Metrics::new(2, vec!["GET", "SET"]);
        let counts = |requests| TickCounts {
            requests,
            ..TickCounts::default()
        };
        metrics.workers[0].add(&counts(3), 900);
        metrics.workers[1].add(&counts(4), 1_500);
        metrics.workers[1].add(&counts(5), u64::MAX / 1000);
        let mut text = String::new();
        metrics.write_prometheus(&mut text);
        for line in [
            "hedgerow_requests_total 12",
            "hedgerow_request_turn_seconds_bucket{le=\"0.000001\"} 3",
            "hedgerow_request_turn_seconds_bucket{le=\"0.000002\"} 7",
            "hedgerow_request_turn_seconds_bucket{le=\"+Inf\"} 12",
            "hedgerow_request_turn_seconds_count 12",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
