//! What all keyspaces of one HBase namespace share: the gateways, and who writes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::clock::{Clock, now_ms};
use crate::error::Result;
use crate::gateways::Gateways;
use crate::options::Options;
use crate::semaphore::Semaphore;

/// The deadline of requests right behind one that found nobody, and for how long.
const SHORT_DEADLINE: Duration = Duration::from_millis(100);
const SHORT_DEADLINE_FOR_MS: u64 = 1000;
/// How often such a deadline doubles, if requests go on failing.
const MOST_DOUBLINGS: u32 = 5;

/// How long a call may take at most for which there is another way.
const TRY_FOR: Duration = Duration::from_secs(2);
/// The part of a request's time that such a call may take at most: more is left for the other way.
const TRY_PART: u32 = 8;

/// How a [`Hbase`](crate::Hbase) behaves.
#[derive(Clone, Debug)]
pub struct HbaseOptions {
    /// Of the connections to gateways.
    pub gateways: Options,
    /// After so long a request fails.
    pub deadline: Duration,
    /// The longest value, or columns with their names, in bytes.
    pub max_value_bytes: usize,
    /// How long a row that is removed, or has expired, stays in HBase: longer than the clocks of
    /// servers differ.
    pub keep_dead: Duration,
    /// How often all rows are looked through for those whose time is over.
    pub sweep_interval: Duration,
    /// Whether the namespace and tables are made where there are none.
    pub create: bool,
}

impl Default for HbaseOptions {
    fn default() -> HbaseOptions {
        HbaseOptions {
            // Regions of a server that died are elsewhere after some seconds.
            gateways: Options {
                attempts: 30,
                max_backoff: Duration::from_secs(1),
                ..Options::default()
            },
            deadline: Duration::from_secs(30),
            // What fits a request of 2 MiB, which is what gateways take.
            max_value_bytes: 3 << 19,
            keep_dead: Duration::from_secs(3600),
            sweep_interval: Duration::from_secs(1800),
            create: true,
        }
    }
}

/// Requests that found no gateway, or got no answer, since the last one that did.
#[derive(Default)]
struct Silence {
    /// When the last of them failed, in milliseconds since the Unix epoch; 0 if there is none.
    failed_ms: AtomicU64,
    /// When the last of them failed that counts.
    counted_ms: AtomicU64,
    /// How many there are, those at the same time counted once.
    failed: AtomicU32,
}

/// Whether a failure is so recent that requests that begin now get a short deadline.
fn is_recent(failed_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(failed_ms) < SHORT_DEADLINE_FOR_MS
}

impl Silence {
    /// How long a request may take at this time that has so long by itself. Each that fails gives
    /// the next one twice its time, as HBase may be slow, and no more.
    fn timeout(&self, deadline: Duration, now_ms: u64) -> Duration {
        if !is_recent(self.failed_ms.load(Ordering::Relaxed), now_ms) {
            return deadline;
        }
        let doublings = self.failed.load(Ordering::Relaxed).saturating_sub(1);
        (SHORT_DEADLINE * (1 << doublings.min(MOST_DOUBLINGS))).min(deadline)
    }

    /// A request failed that began at that time.
    fn record(&self, began_ms: u64, now_ms: u64) {
        let order = Ordering::Relaxed;
        self.failed_ms.store(now_ms, order);
        let counted_ms = self.counted_ms.load(order);
        let counts = began_ms >= counted_ms
            && self
                .counted_ms
                .compare_exchange(counted_ms, now_ms, order, order)
                .is_ok();
        if counts {
            self.failed.fetch_add(1, order);
        }
    }

    /// A request failed for which there is another way. It does not count; but if it had a short
    /// deadline, which may be longer than failures stay recent, the request that takes its place
    /// has one, too.
    fn prolong(&self, began_ms: u64, now_ms: u64) {
        let later = |failed_ms| is_recent(failed_ms, began_ms).then_some(now_ms);
        let order = Ordering::Relaxed;
        // Where no failure is recent there is nothing to prolong.
        let _ = self.failed_ms.fetch_update(order, order, later);
    }

    fn end(&self) {
        self.failed_ms.store(0, Ordering::Relaxed);
        self.counted_ms.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}

/// What keyspaces share.
pub(crate) struct Cluster {
    pub(crate) gateways: Gateways,
    pub(crate) clock: Clock,
    /// Drawn when the cluster was opened.
    pub(crate) writer: u64,
    silence: Silence,
    /// Of first tries of what may be away, after a call that failed.
    pub(crate) alone: Semaphore,
    /// Of calls for what is away. Half of the connections have neither these nor first tries.
    pub(crate) away: Semaphore,
    /// Dead rows that were taken away.
    pub(crate) purged: AtomicU64,
    pub(crate) options: HbaseOptions,
}

/// How many of the connections are for first tries of what may be away, and how many for what is:
/// a quarter each, and one at least.
fn permits(connections: usize) -> (usize, usize) {
    let half = connections / 2;
    let away = half / 2;
    ((half - away).max(1), away.max(1))
}

impl Cluster {
    pub(crate) fn new(gateways: Gateways, options: HbaseOptions) -> Cluster {
        let (alone, away) = permits(gateways.count() * options.gateways.connections);
        Cluster {
            gateways,
            clock: Clock::default(),
            writer: rand::random(),
            silence: Silence::default(),
            alone: Semaphore::new(alone),
            away: Semaphore::new(away),
            purged: AtomicU64::new(0),
            options,
        }
    }

    /// When a request ends that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        self.gateways.within(self.options.deadline).deadline()
    }

    /// Makes calls that read, within the deadline of a request: a short one right behind a request
    /// that found nobody, so that a queue of requests does not wait as long for each of them. Every
    /// write begins with a read.
    pub(crate) fn read<T>(&self, call: impl FnOnce(&Calls<'_>) -> Result<T>) -> Result<T> {
        self.read_until(self.deadline(), call)
    }

    /// As [`read`](Cluster::read), for a request whose deadline is this.
    pub(crate) fn read_until<T>(
        &self,
        deadline: Instant,
        call: impl FnOnce(&Calls<'_>) -> Result<T>,
    ) -> Result<T> {
        let began_ms = now_ms();
        let allowed = self.silence.timeout(self.options.deadline, began_ms);
        let left = deadline.saturating_duration_since(Instant::now());
        let outcome = call(&self.gateways.within(allowed.min(left)));
        match &outcome {
            // What had little time by its own deadline says nothing about HBase.
            Err(error) if error.is_unreachable() && left < allowed / 2 => {}
            Err(error) if error.is_unreachable() => self.silence.record(began_ms, now_ms()),
            _ => self.silence.end(),
        }
        outcome
    }

    /// The deadline of a request, or an earlier one right behind a request that found nobody.
    pub(crate) fn shortened(&self, deadline: Instant) -> Instant {
        let timeout = self.silence.timeout(self.options.deadline, now_ms());
        deadline.min(self.gateways.within(timeout).deadline())
    }

    /// How many calls can be under way at once.
    pub(crate) fn connections(&self) -> usize {
        self.gateways.count() * self.options.gateways.connections
    }

    /// How long a call may take for which there is another way.
    pub(crate) fn try_for(&self) -> Duration {
        TRY_FOR.min(self.options.deadline / TRY_PART)
    }

    /// Makes a call that is given up soon, as the caller knows another way.
    pub(crate) fn try_read<T>(&self, call: impl FnOnce(&Calls<'_>) -> Result<T>) -> Result<T> {
        let until = Instant::now() + self.try_for();
        self.try_until(self.shortened(until), call)
    }

    /// As [`try_read`](Cluster::try_read), until this time.
    pub(crate) fn try_until<T>(
        &self,
        until: Instant,
        call: impl FnOnce(&Calls<'_>) -> Result<T>,
    ) -> Result<T> {
        let began_ms = now_ms();
        let outcome = call(&self.gateways.until(until));
        match &outcome {
            Ok(_) => self.silence.end(),
            Err(error) if error.is_unreachable() => self.silence.prolong(began_ms, now_ms()),
            Err(_) => {}
        }
        outcome
    }

    /// Makes calls that write, within the deadline of a request.
    pub(crate) fn write<T>(&self, call: impl FnOnce(&Calls<'_>) -> T) -> T {
        self.write_until(self.deadline(), call)
    }

    /// As [`write`](Cluster::write), for a request whose deadline is this.
    pub(crate) fn write_until<T>(
        &self,
        deadline: Instant,
        call: impl FnOnce(&Calls<'_>) -> T,
    ) -> T {
        call(&self.gateways.until(deadline))
    }

    /// For a change that others may overtake.
    pub(crate) fn attempts(&self) -> Attempts {
        Attempts::until(self.deadline())
    }
}

/// The attempts of one change.
pub(crate) struct Attempts {
    until: Instant,
    made: u32,
}

impl Attempts {
    /// Of a change whose request has this deadline.
    pub(crate) fn until(deadline: Instant) -> Attempts {
        Attempts {
            until: deadline,
            made: 0,
        }
    }

    /// The deadline of all attempts together.
    pub(crate) fn deadline(&self) -> Instant {
        self.until
    }

    /// Lets a change that was overtaken try again: soon at first, and later after a random wait, so
    /// that not all come back together.
    ///
    /// # Errors
    /// The deadline is over.
    pub(crate) fn again(&mut self, key: &[u8]) -> hedgerow::Result<()> {
        if Instant::now() >= self.until {
            return Err(hedgerow::Error::Backend(
                format!(
                    "{} attempts to change {:?} were overtaken by others, and nothing happened; \
                     spread these changes over more keys",
                    self.made + 1,
                    key.escape_ascii().to_string()
                )
                .into(),
            ));
        }
        self.made += 1;
        if self.made > 2 {
            let most_us = 500_u64 << self.made.min(6);
            std::thread::sleep(Duration::from_micros(rand::random_range(0..most_us)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::url::ClusterUrl;

    /// A cluster of two connections, which nobody opens.
    fn cluster() -> Cluster {
        let url: ClusterUrl = "hbase://127.0.0.1:1/test".parse().unwrap();
        let mut options = HbaseOptions::default();
        options.gateways.connections = 2;
        let gateways = Gateways::new(&url, options.gateways.clone()).unwrap();
        Cluster::new(gateways, options)
    }

    /// What a call ends in that gets no answer.
    fn no_answer(_: &Calls<'_>) -> Result<()> {
        Err(Error::waited("get", Duration::ZERO, "an answer"))
    }

    fn failures(cluster: &Cluster) -> u32 {
        cluster.silence.failed.load(Ordering::Relaxed)
    }

    #[test]
    fn requests_behind_one_that_found_nobody_get_a_tenth_of_a_second_then_more() {
        const DEADLINE: Duration = Duration::from_secs(30);
        let ms = |silence: &Silence, now_ms| silence.timeout(DEADLINE, now_ms).as_millis();
        let silence = Silence::default();
        assert_eq!(ms(&silence, 5_000_000), 30_000);
        for expected in [100, 200, 400, 800, 1600, 3200, 3200] {
            silence.record(5_000_000, 5_000_000);
            // Those that began before that fail with it.
            silence.record(4_999_999, 5_000_000);
            assert_eq!(ms(&silence, 5_000_999), expected);
            assert_eq!(ms(&silence, 5_001_000), 30_000);
        }
        assert_eq!(
            silence.timeout(Duration::from_millis(50), 5_000_000),
            Duration::from_millis(50)
        );
        silence.end();
        assert_eq!(ms(&silence, 5_000_000), 30_000);
        silence.record(5_000_000, 5_000_000);
        assert_eq!(ms(&silence, 5_000_000), 100);
    }

    #[test]
    fn reads_of_an_outage_have_short_deadlines_though_each_is_tried_before() {
        const DEADLINE: Duration = Duration::from_secs(30);
        let silence = Silence::default();
        let mut now_ms = 5_000_000;
        silence.record(now_ms, now_ms);
        for nth in 0..20 {
            let began_ms = now_ms;
            let tried = silence.timeout(DEADLINE, began_ms).min(TRY_FOR);
            now_ms += tried.as_millis() as u64;
            silence.prolong(began_ms, now_ms);
            let timeout = silence.timeout(DEADLINE, now_ms);
            let longest = SHORT_DEADLINE * (1 << MOST_DOUBLINGS);
            assert!(timeout <= longest, "read {nth}: {timeout:?}");
            let began_ms = now_ms;
            now_ms += timeout.as_millis() as u64;
            silence.record(began_ms, now_ms);
        }
        // What is tried much later begins no silence.
        let began_ms = now_ms + SHORT_DEADLINE_FOR_MS;
        silence.prolong(began_ms, began_ms + 2000);
        assert_eq!(silence.timeout(DEADLINE, began_ms + 2000), DEADLINE);
    }

    #[test]
    fn a_try_without_an_answer_prolongs_the_silence_and_does_not_count() {
        let cluster = cluster();
        let failed_ms = || cluster.silence.failed_ms.load(Ordering::Relaxed);
        assert!(cluster.try_read(no_answer).is_err());
        assert_eq!((failed_ms(), failures(&cluster)), (0, 0));
        assert!(cluster.read(no_answer).is_err());
        // Recent, however slow this machine is.
        let ahead_ms = now_ms() + 60_000;
        cluster.silence.failed_ms.store(ahead_ms, Ordering::Relaxed);
        assert!(cluster.try_read(no_answer).is_err());
        assert!(failed_ms() > 0 && failed_ms() < ahead_ms);
        assert_eq!(failures(&cluster), 1);
    }

    #[test]
    fn a_try_leaves_most_of_a_short_deadline_to_the_other_way() {
        let mut cluster = cluster();
        assert_eq!(cluster.try_for(), TRY_FOR);
        for deadline_ms in [1, 100, 1000, 4000, 60_000] {
            cluster.options.deadline = Duration::from_millis(deadline_ms);
            let try_for = cluster.try_for();
            assert!(!try_for.is_zero() && try_for <= TRY_FOR);
            assert!(try_for * TRY_PART <= cluster.options.deadline);
        }
    }

    #[test]
    fn a_request_with_little_time_left_begins_no_silence() {
        let cluster = cluster();
        let late = cluster.read_until(Instant::now(), no_answer);
        assert!(late.is_err() && failures(&cluster) == 0);
        assert!(cluster.read(no_answer).is_err() && failures(&cluster) == 1);
    }

    #[test]
    fn calls_that_ask_alone_leave_half_of_the_connections_to_others() {
        for connections in 4..100 {
            let (alone, away) = permits(connections);
            assert!(alone.min(away) > 0 && alone + away <= connections / 2);
        }
        for connections in 0..4 {
            assert_eq!(permits(connections), (1, 1));
        }
    }
}
