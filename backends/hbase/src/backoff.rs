//! Pauses that double, and that differ from client to client.

use std::time::Duration;

/// The pause after so many failures in a row (from 1): `min` doubled with each further one, at most
/// `max`, and then up to a quarter more or less by chance.
pub(crate) fn backoff(min: Duration, max: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let pause = min.saturating_mul(1 << doublings).min(max);
    pause.mul_f64(rand::random_range(0.75..=1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_limit() {
        let min = Duration::from_millis(100);
        let max = Duration::from_secs(5);
        for (failures, expected) in [(0, 100), (1, 100), (2, 200), (4, 800), (7, 5000)] {
            let pause = backoff(min, max, failures);
            let expected = Duration::from_millis(expected);
            assert!(pause >= expected.mul_f64(0.74), "{failures}: {pause:?}");
            assert!(pause <= expected.mul_f64(1.26), "{failures}: {pause:?}");
        }
        assert!(backoff(min, max, u32::MAX) <= max.mul_f64(1.26));
        assert!(backoff(Duration::MAX, Duration::from_secs(1), 9) < max);
    }
}
