//! Times of operations, and their percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::{Error, Result};

/// Digits that a percentile is exact to.
const DIGITS: u8 = 3;

/// Counts of times, in nanoseconds.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet. It grows with the longest time.
    pub(crate) fn new() -> Result<Latencies> {
        let histogram = Histogram::new(DIGITS);
        Ok(Latencies(histogram.map_err(|e| failed(&e))?))
    }

    pub(crate) fn record(&mut self, time: Duration) -> Result<()> {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(ns).map_err(|e| failed(&e))
    }

    pub(crate) fn add(&mut self, other: &Latencies) -> Result<()> {
        self.0.add(&other.0).map_err(|e| failed(&e))
    }

    /// The time in microseconds that `percent` of the recorded ones do not exceed; 0 if there are
    /// none.
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1000.0
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::Failed(format!("the latencies cannot be counted: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_what_was_recorded_and_added() {
        let mut latencies = Latencies::new().expect("a histogram");
        assert_eq!(latencies.percentile_us(50.0), 0.0);
        let mut others = Latencies::new().expect("a histogram");
        for us in 1..=500 {
            latencies
                .record(Duration::from_micros(us))
                .expect("counted");
            others
                .record(Duration::from_micros(500 + us))
                .expect("counted");
        }
        latencies.add(&others).expect("added");
        let near = |percent, us: f64| {
            let found = latencies.percentile_us(percent);
            assert!((us..=us * 1.001).contains(&found), "{percent}: {found} us");
        };
        near(50.0, 500.0);
        near(95.0, 950.0);
        near(100.0, 1000.0);
    }

    #[test]
    fn a_time_beyond_an_hour_counts() {
        let mut latencies = Latencies::new().expect("a histogram");
        latencies
            .record(Duration::from_secs(7200))
            .expect("counted");
        assert!(latencies.percentile_us(100.0) >= 7200e6);
    }
}
