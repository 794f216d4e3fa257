//! The time of single commands, so that the log names a slow one with its own time.
//!
//! Reading the clock takes about 25 ns, a tenth of what a `GET` takes. So a clock times only
//! commands whose time grows with what they find or are given (ranges, scans, `EXEC`, many keys),
//! and the end of one is the beginning of a next one that follows directly. All others are timed
//! together, with the tick in which they run.

use std::time::{Duration, Instant};

/// Letters of a command's name that are kept.
const NAME_BYTES: usize = 16;

/// A command that took longer than the threshold.
pub(crate) struct SlowCommand {
    /// Its connection.
    pub(crate) slot: usize,
    pub(crate) command: String,
    pub(crate) took: Duration,
}

/// Times commands of one tick.
#[derive(Default)]
pub(crate) struct Stopwatch {
    /// `None`: nothing is timed.
    threshold: Option<Duration>,
    /// When the command that runs began, if it is timed.
    began: Option<Instant>,
    /// When the last command ended, if it was timed: nothing ran since.
    ended: Option<Instant>,
    slow: Vec<SlowCommand>,
}

impl Stopwatch {
    /// A new tick: from now on what takes at least `threshold` is slow.
    pub(crate) fn reset(&mut self, threshold: Option<Duration>) {
        (self.threshold, self.began, self.ended) = (threshold, None, None);
        self.slow.clear();
    }

    /// One for commands that run beside those of this one in the same tick.
    pub(crate) fn another(&self) -> Stopwatch {
        Stopwatch {
            threshold: self.threshold,
            ..Stopwatch::default()
        }
    }

    /// Takes over the slow commands of another one.
    pub(crate) fn add_slow(&mut self, mut other: Stopwatch) {
        self.slow.append(&mut other.slow);
    }

    /// Something else than commands one after the other ran since the last one.
    pub(crate) fn others_ran(&mut self) {
        self.ended = None;
    }

    /// A command begins.
    #[inline]
    pub(crate) fn start(&mut self, is_timed: bool) {
        let ended = self.ended.take();
        self.began =
            (is_timed && self.threshold.is_some()).then(|| ended.unwrap_or_else(Instant::now));
    }

    /// The command ends. Its name is asked for if it was slow.
    #[inline]
    pub(crate) fn stop<'n>(&mut self, slot: usize, name: impl FnOnce() -> Option<&'n [u8]>) {
        let Some(began) = self.began.take() else {
            return;
        };
        let now = Instant::now();
        self.ended = Some(now);
        let took = now.saturating_duration_since(began);
        if self.threshold.is_some_and(|threshold| took >= threshold) {
            let name = name().unwrap_or_default();
            let name = &name[..name.len().min(NAME_BYTES)];
            let command = String::from_utf8_lossy(name).to_uppercase();
            self.slow.push(SlowCommand {
                slot,
                command,
                took,
            });
        }
    }

    /// The commands of this tick that took longer than the threshold.
    pub(crate) fn slow(&self) -> &[SlowCommand] {
        &self.slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_slow_by_their_own_time() {
        let mut watch = Stopwatch::default();
        watch.reset(Some(Duration::from_secs(3600)));
        watch.start(true);
        watch.stop(1, || panic!("an hour is over"));
        watch.reset(Some(Duration::ZERO));
        watch.start(false);
        watch.stop(1, || panic!("it is not timed"));
        watch.start(true);
        watch.stop(2, || Some(b"delRange"));
        let slow = watch.slow();
        assert_eq!((slow.len(), slow[0].slot), (1, 2));
        assert_eq!(slow[0].command, "DELRANGE");
        watch.reset(None);
        watch.start(true);
        watch.stop(1, || panic!("nothing is timed"));
        assert!(watch.slow().is_empty());
    }

    #[test]
    fn one_reading_ends_a_command_and_begins_the_next_unless_others_ran_between() {
        let mut watch = Stopwatch::default();
        watch.reset(Some(Duration::ZERO));
        watch.start(true);
        watch.stop(1, || None);
        let ended = watch.ended;
        watch.start(true);
        assert_eq!(watch.began, ended);
        watch.stop(1, || None);
        watch.start(false);
        watch.stop(1, || None);
        let before = Some(Instant::now());
        watch.start(true);
        assert!(watch.began >= before, "what was not timed does not count");
        watch.stop(1, || None);
        watch.others_ran();
        let before = Some(Instant::now());
        watch.start(true);
        assert!(watch.began >= before);
    }
}
