//! A latency histogram: 64 powers of two of nanoseconds, each in 32 steps, so within 3 %.

use std::time::Duration;

const STEPS_LOG2: u32 = 5;
const STEPS: usize = 1 << STEPS_LOG2;

/// Counts of times.
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram {
            buckets: vec![0; 64 * STEPS],
            total: 0,
        }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.buckets
            .iter_mut()
            .zip(&other.buckets)
            .for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    /// The time that `percent` of the recorded ones do not exceed, rounded up to a bucket's end.
    pub(crate) fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_ns(i);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    let step = (ns >> (exponent - STEPS_LOG2)) as usize - STEPS;
    (exponent - STEPS_LOG2 + 1) as usize * STEPS + step
}

fn upper_ns(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    (((bucket % STEPS + STEPS + 1) as u64) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_tight_and_in_order() {
        let mut last = 0;
        for ns in (0..5000).chain([u64::from(u32::MAX), 1 << 50, u64::MAX >> 1]) {
            let i = bucket(ns);
            assert!(i >= last);
            last = i;
            let upper = upper_ns(i);
            assert!(upper >= ns && upper - ns <= ns / 32, "{ns}: {upper}");
        }
    }

    #[test]
    fn percentiles_count() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|us| histogram.record(Duration::from_micros(us)));
        let p50 = histogram.percentile_ns(50.0);
        assert!((500_000..=520_000).contains(&p50), "{p50}");
        assert!(histogram.percentile_ns(99.9) >= 999_000);
        assert_eq!(Histogram::new().percentile_ns(50.0), 0);
    }
}
