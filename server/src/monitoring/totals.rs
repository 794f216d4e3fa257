//! The sums of the workers' counters, as plain numbers. Counters only grow: Prometheus takes a
//! counter that falls for a restart. So `CONFIG RESETSTAT` and memcached's `stats reset` store the
//! totals of their moment, and `INFO` and `stats` show the difference. Each protocol has its own:
//! neither's reset changes what the other shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hedgerow::backend::Backend;

use crate::monitoring::metrics::{CommandTotal, Metrics, WorkerMetrics};

/// Everything that a reset sets back to zero.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) batched_reads: u64,
    pub(crate) read_batches: u64,
    pub(crate) batched_puts: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) protocol_errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) expired_rows: u64,
    /// Of memcached clients, like the next three.
    pub(crate) stores: u64,
    pub(crate) touches: u64,
    pub(crate) flushes: u64,
    pub(crate) meta: u64,
    /// By the command's number in the table.
    pub(crate) commands: Vec<CommandTotal>,
    /// Error replies by their code.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Totals {
    /// All that was counted since the server's start.
    pub(crate) fn now(metrics: &Metrics, db: &impl Backend) -> Totals {
        let sum = |counter: fn(&WorkerMetrics) -> &AtomicU64| metrics.sum(counter);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let expired = db.statistics().get("expired_rows_total");
        Totals {
            requests: sum(|worker| &worker.requests),
            batched_reads: sum(|worker| &worker.batched_reads),
            read_batches: sum(|worker| &worker.read_batches),
            batched_puts: sum(|worker| &worker.batched_puts),
            received_bytes: sum(|worker| &worker.received_bytes),
            sent_bytes: sum(|worker| &worker.sent_bytes),
            protocol_errors: sum(|worker| &worker.protocol_errors),
            hits: sum(|worker| &worker.hits),
            misses: sum(|worker| &worker.misses),
            accepted: load(&metrics.accepted),
            refused: load(&metrics.refused),
            expired_rows: expired.unwrap_or(0.0) as u64,
            stores: load(&metrics.memcached.stores),
            touches: load(&metrics.memcached.touches),
            flushes: load(&metrics.memcached.flushes),
            meta: load(&metrics.memcached.meta),
            commands: metrics.command_totals(),
            errors: metrics.errors().clone(),
        }
    }

    /// What was counted since `earlier`.
    fn since(mut self, earlier: &Totals) -> Totals {
        for (now, then) in self.numbers_mut().into_iter().zip(earlier.numbers()) {
            *now = now.saturating_sub(then);
        }
        for (now, then) in self.commands.iter_mut().zip(&earlier.commands) {
            *now = now.since(*then);
        }
        self.errors.retain(|code, count| {
            *count = count.saturating_sub(earlier.errors.get(code).copied().unwrap_or(0));
            *count > 0
        });
        self
    }

    fn numbers_mut(&mut self) -> [&mut u64; 16] {
        [
            &mut self.requests,
            &mut self.batched_reads,
            &mut self.read_batches,
            &mut self.batched_puts,
            &mut self.received_bytes,
            &mut self.sent_bytes,
            &mut self.protocol_errors,
            &mut self.hits,
            &mut self.misses,
            &mut self.accepted,
            &mut self.refused,
            &mut self.expired_rows,
            &mut self.stores,
            &mut self.touches,
            &mut self.flushes,
            &mut self.meta,
        ]
    }

    /// The same in the same order.
    fn numbers(&self) -> [u64; 16] {
        [
            self.requests,
            self.batched_reads,
            self.read_batches,
            self.batched_puts,
            self.received_bytes,
            self.sent_bytes,
            self.protocol_errors,
            self.hits,
            self.misses,
            self.accepted,
            self.refused,
            self.expired_rows,
            self.stores,
            self.touches,
            self.flushes,
            self.meta,
        ]
    }

    /// The RESP commands that ran or were refused, by name; `names` are those of all commands, by
    /// their numbers.
    pub(crate) fn named_commands<'a>(
        &'a self,
        names: &'a [&'static str],
    ) -> impl Iterator<Item = (&'static str, CommandTotal)> + 'a {
        let named = names.iter().zip(&self.commands);
        named
            .filter(|(_, total)| total.calls > 0 || total.rejected > 0)
            .map(|(name, total)| (*name, *total))
    }
}

/// The moment from which one protocol's statistics count.
#[derive(Default)]
pub(crate) struct LastReset(Mutex<Totals>);

impl LastReset {
    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on.
    pub(crate) fn set(&self, metrics: &Metrics, db: &impl Backend) {
        let now = Totals::now(metrics, db);
        *self.totals() = now;
    }

    /// What was counted since the last reset, or the server's start.
    pub(crate) fn since(&self, metrics: &Metrics, db: &impl Backend) -> Totals {
        let now = Totals::now(metrics, db);
        now.since(&self.totals())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_counts_from_the_reset() {
        let filled = |number: u64| {
            let mut totals = Totals::default();
            for (i, place) in totals.numbers_mut().into_iter().enumerate() {
                *place = number + i as u64;
            }
            totals.commands = vec![CommandTotal {
                calls: number,
                duration_ns: number,
                rejected: number,
                failed: number,
            }];
            totals.errors = BTreeMap::from([("ERR".to_owned(), number)]);
            totals
        };
        let expected = {
            let mut totals = Totals::default();
            totals
                .numbers_mut()
                .into_iter()
                .for_each(|place| *place = 7);
            totals.commands = filled(7).commands;
            totals.errors = filled(7).errors;
            totals
        };
        assert_eq!(filled(12).since(&filled(5)), expected);
        let nothing = filled(5).since(&filled(5));
        assert!(
            nothing.errors.is_empty(),
            "a code that did not occur is not listed"
        );
        assert_eq!(nothing.named_commands(&["GET"]).count(), 0);
        assert_eq!(filled(7).since(&Totals::default()), filled(7));
    }
}
