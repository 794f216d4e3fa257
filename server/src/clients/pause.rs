//! `CLIENT PAUSE`: for a time all requests of all clients wait, or those that write. The state is
//! one word, so a tick without a pause costs one load. A worker reads it when it parses requests:
//! those that have begun to run end as usual.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Which requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Writes,
}

/// The pause, if there is one.
#[derive(Debug)]
pub(crate) struct Pause {
    since: Instant,
    /// Milliseconds after `since` when it ends, times two, plus one if only writes wait; zero
    /// without a pause.
    state: AtomicU64,
}

/// The latest end that the word can hold.
const LATEST_MS: u64 = u64::MAX >> 2;

impl Pause {
    pub(crate) fn new() -> Pause {
        Pause {
            since: Instant::now(),
            state: AtomicU64::new(0),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    /// Begins a pause. One that is on lasts until the later of both ends, and the stricter holds.
    pub(crate) fn begin(&self, timeout: Duration, scope: Scope) {
        let now_ms = self.elapsed_ms();
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(LATEST_MS);
        let end_ms = now_ms.saturating_add(timeout_ms).min(LATEST_MS);
        let writes_only = u64::from(scope == Scope::Writes);
        let _ = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                let (on_until_ms, only_writes) = (state >> 1, state & 1);
                Some(if on_until_ms > now_ms {
                    end_ms.max(on_until_ms) << 1 | (writes_only & only_writes)
                } else {
                    end_ms << 1 | writes_only
                })
            });
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Which requests wait now.
    #[inline]
    pub(crate) fn scope(&self) -> Option<Scope> {
        match self.state.load(Ordering::Acquire) {
            0 => None,
            state => self.unless_over(state),
        }
    }

    #[cold]
    fn unless_over(&self, state: u64) -> Option<Scope> {
        if state >> 1 <= self.elapsed_ms() {
            // Nobody needs to look at the clock any more, unless another pause has begun.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.state.compare_exchange(state, 0, order.0, order.1);
            return None;
        }
        Some(if state & 1 == 1 {
            Scope::Writes
        } else {
            Scope::All
        })
    }

    /// When whoever waits is to look again: at the end, after `longest` if no clock can say that,
    /// or now if there is no pause any more.
    pub(crate) fn next_look(&self, now: Instant, longest: Duration) -> Instant {
        let end_ms = self.state.load(Ordering::Acquire) >> 1;
        if end_ms == 0 {
            return now;
        }
        let end = self.since.checked_add(Duration::from_millis(end_ms));
        end.unwrap_or(now + longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn pauses_extend_each_other_and_the_stricter_holds() {
        let pause = Pause::new();
        let now = Instant::now();
        let next_look = || pause.next_look(now, 9 * HOUR);
        assert_eq!((pause.scope(), next_look()), (None, now));
        pause.begin(Duration::ZERO, Scope::All);
        assert_eq!(pause.scope(), None, "over at once");
        pause.begin(HOUR, Scope::Writes);
        assert_eq!(pause.scope(), Some(Scope::Writes));
        let end = next_look();
        assert!(end > now + HOUR / 2 && end < now + 9 * HOUR);
        pause.begin(HOUR / 2, Scope::All);
        assert_eq!((pause.scope(), next_look()), (Some(Scope::All), end));
        pause.begin(HOUR * 2, Scope::Writes);
        assert_eq!(pause.scope(), Some(Scope::All));
        assert!(next_look() > end);
        pause.end();
        assert_eq!((pause.scope(), next_look()), (None, now), "at once");
        pause.begin(Duration::MAX, Scope::Writes);
        assert_eq!(pause.scope(), Some(Scope::Writes));
    }
}
