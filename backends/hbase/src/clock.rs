//! Versions of rows: the time at which they were written, made to grow.
//!
//! ```text
//! bits 62 … 20   milliseconds since the Unix epoch (until the year 2109, with room above)
//! bits 19 … 0    counts the writes of one millisecond
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow::Timestamp;

const COUNT_BITS: u32 = 20;

/// Gives versions that grow, whatever the system's clock does.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: AtomicU64,
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// When a version was given, in milliseconds since the Unix epoch.
pub(crate) fn written_ms(version: Timestamp) -> u64 {
    version.raw() >> COUNT_BITS
}

impl Clock {
    /// A version above all that this clock has given, and above one that was seen.
    pub(crate) fn version_above(&self, seen: Timestamp) -> Timestamp {
        let least = (now_ms() << COUNT_BITS).max(seen.raw().saturating_add(1));
        let order = Ordering::Relaxed;
        let next = |last: u64| Some(last.saturating_add(1).max(least));
        let before = self.last.fetch_update(order, order, next);
        let before = before.unwrap_or_else(|before| before);
        Timestamp::from_raw(before.saturating_add(1).max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_beyond_what_was_given_and_seen() {
        let clock = Clock::default();
        let mut last = Timestamp::ZERO;
        for _ in 0..10_000 {
            let next = clock.version_above(Timestamp::ZERO);
            assert!(next > last);
            last = next;
        }
        assert!(last.raw() >> COUNT_BITS <= now_ms() + 1);
        let ahead = Timestamp::from_raw(last.raw() + (1 << 40));
        assert!(clock.version_above(ahead) > ahead);
        assert!(
            clock.version_above(Timestamp::ZERO) > ahead,
            "also from now on"
        );
    }
}
