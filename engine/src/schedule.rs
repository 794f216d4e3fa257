//! When a database takes a checkpoint by itself. A checkpoint of an index in memory writes all
//! rows, so only the length of the log makes one due. A checkpoint of a page file writes changed
//! pages, and frees the space of removed rows. So it is also due when much of the file is dead,
//! some time after the first change that the last one lacks, and when no commit has come for a
//! while. Without a change no checkpoint is due.

use std::time::Duration;

/// Dead space below this much, or below twice what is live, is no reason for a checkpoint: where
/// rows are only replaced, each page has an old place at most.
const LEAST_DEAD_BYTES: u64 = 64 << 20;
/// Checkpoints that follow one another while nobody writes: a file that is mostly free becomes
/// short by those that move what lies at its end.
const MOST_FOLLOWING: u32 = 4;

/// What a checkpoint waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointLimits {
    pub(crate) log_bytes: u64,
    /// Without commits.
    pub(crate) idle: Option<Duration>,
    /// Since the first change that the last checkpoint lacks.
    pub(crate) interval: Option<Duration>,
}

/// The blocks of a page file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSpace {
    /// Needed by the last checkpoint alone: the next one frees them.
    pub(crate) dead_bytes: u64,
    pub(crate) live_bytes: u64,
    /// Whether most of the file is free.
    pub(crate) is_sparse: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CheckpointState {
    /// Since the database was opened.
    pub(crate) now: Duration,
    /// Commits and keyspaces dropped since then.
    pub(crate) changes: u64,
    /// Log since the rotation of the last checkpoint that has not failed, and of earlier openings.
    pub(crate) log_bytes: u64,
    /// Of that, the log of earlier openings.
    pub(crate) replayed_bytes: u64,
    /// Checkpoints since the database was opened, and the size of the last one.
    pub(crate) checkpoints: u64,
    pub(crate) checkpoint_bytes: u64,
    /// Of `changes`, those that there were before the last checkpoint's rotation.
    pub(crate) covered_changes: u64,
    /// Of the last checkpoint, the rows of keyspaces in memory.
    pub(crate) part_bytes: u64,
    /// `None` for indexes in memory.
    pub(crate) file: Option<FileSpace>,
}

/// What is remembered from one call of is_due to the next.
#[derive(Debug)]
pub(crate) struct Schedule {
    limits: CheckpointLimits,
    last: CheckpointState,
    /// When something was changed last, and when the first change was seen that the last checkpoint
    /// lacks.
    changed_at: Duration,
    behind_since: Option<Duration>,
    /// The changes that the last checkpoint has.
    covered: u64,
    /// Checkpoints since the last change.
    following: u32,
}

impl Schedule {
    pub(crate) fn new(limits: CheckpointLimits) -> Schedule {
        Schedule {
            limits,
            last: CheckpointState::default(),
            changed_at: Duration::ZERO,
            behind_since: None,
            covered: 0,
            following: 0,
        }
    }

    /// Whether a checkpoint is due.
    pub(crate) fn is_due(&mut self, state: CheckpointState) -> bool {
        if state.checkpoints != self.last.checkpoints {
            // Perhaps somebody else's.
            self.covered = self.covered.max(state.covered_changes);
            self.behind_since = None;
        }
        if state.changes != self.last.changes {
            self.changed_at = state.now;
            self.following = 0;
        }
        self.last = state;
        // Never more often than the log grows to what a checkpoint writes.
        let is_long = state.log_bytes >= self.limits.log_bytes.max(state.checkpoint_bytes);
        if is_long && self.is_behind(&state) {
            return true;
        }
        let Some(file) = state.file else { return false };
        // A checkpoint of the pages writes the rows in memory, too.
        if state.log_bytes < state.part_bytes {
            return false;
        }
        let has_passed = |limit: Option<Duration>, since: Duration| {
            limit.is_some_and(|limit| state.now.saturating_sub(since) >= limit)
        };
        let is_idle = has_passed(self.limits.idle, self.changed_at);
        if self.is_behind(&state) {
            let since = *self.behind_since.get_or_insert(state.now);
            let is_dead = file.dead_bytes >= LEAST_DEAD_BYTES.max(2 * file.live_bytes);
            return is_idle || is_dead || has_passed(self.limits.interval, since);
        }
        is_idle && file.is_sparse && self.following < MOST_FOLLOWING
    }

    /// Whether there is something that the last checkpoint lacks.
    fn is_behind(&self, state: &CheckpointState) -> bool {
        state.changes > self.covered || state.replayed_bytes > 0
    }

    /// A checkpoint was taken after the last call.
    pub(crate) fn taken(&mut self) {
        self.covered = self.last.changes;
        self.behind_since = None;
        self.following += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn schedule() -> Schedule {
        Schedule::new(CheckpointLimits {
            log_bytes: 256 * MIB,
            idle: Some(Duration::from_secs(10)),
            interval: Some(Duration::from_secs(300)),
        })
    }

    fn state_at(seconds: u64, changes: u64) -> CheckpointState {
        CheckpointState {
            now: Duration::from_secs(seconds),
            changes,
            log_bytes: changes,
            file: Some(FileSpace::default()),
            ..CheckpointState::default()
        }
    }

    #[test]
    fn an_idle_database_takes_one_checkpoint_of_what_was_written_and_none_of_nothing() {
        let mut schedule = schedule();
        assert!((0..1_000).all(|now| !schedule.is_due(state_at(now, 0))));
        assert!((1_000..1_010).all(|now| !schedule.is_due(state_at(now, 1))));
        assert!(schedule.is_due(state_at(1_010, 1)));
        schedule.taken();
        let after = |now| CheckpointState {
            checkpoints: 1,
            ..state_at(now, 1)
        };
        assert!((1_011..9_000).all(|now| !schedule.is_due(after(now))));
    }

    #[test]
    fn a_database_that_is_always_written_to_takes_one_now_and_then() {
        let mut schedule = schedule();
        assert!((0..300).all(|now| !schedule.is_due(state_at(now, 1 + now))));
        assert!(schedule.is_due(state_at(300, 301)));
        schedule.taken();
        let after = |now| CheckpointState {
            checkpoints: 1,
            ..state_at(now, 1 + now)
        };
        assert!((301..600).all(|now| !schedule.is_due(after(now))));
        assert!(schedule.is_due(after(601)));
        // Of an index in memory it would write all rows.
        let mut schedule = self::schedule();
        let in_memory = |now| CheckpointState {
            file: None,
            ..state_at(now, now)
        };
        assert!((0..9_000).all(|now| !schedule.is_due(in_memory(now))));
    }

    #[test]
    fn a_log_without_a_commit_is_no_reason_whatever_the_limit() {
        let mut schedule = Schedule::new(CheckpointLimits {
            log_bytes: 0,
            idle: None,
            interval: None,
        });
        // A checkpoint leaves a block in the log, which names the manifest.
        let state = |seconds, changes| CheckpointState {
            log_bytes: 100,
            ..state_at(seconds, changes)
        };
        assert!(!schedule.is_due(state(1, 0)) && schedule.is_due(state(2, 1)));
        schedule.taken();
        let after = |seconds, changes| CheckpointState {
            checkpoints: 1,
            ..state(seconds, changes)
        };
        assert!((3..1_000).all(|now| !schedule.is_due(after(now, 1))));
        assert!(schedule.is_due(after(1_000, 2)));
    }

    #[test]
    fn a_checkpoint_of_somebody_else_hides_nothing_that_was_written_behind_its_cut() {
        let mut schedule = Schedule::new(CheckpointLimits {
            log_bytes: 100,
            idle: None,
            interval: None,
        });
        let state = |seconds, changes, log_bytes, checkpoint_bytes| CheckpointState {
            log_bytes,
            checkpoint_bytes,
            ..state_at(seconds, changes)
        };
        assert!(!schedule.is_due(state(1, 10, 50, 1_000)));
        assert!(!schedule.is_due(state(2, 100, 900, 1_000)));
        let ended = |covered_changes| CheckpointState {
            checkpoints: 1,
            covered_changes,
            ..state(3, 100, 900, 50)
        };
        let mut of_all = Schedule {
            last: schedule.last,
            ..Schedule::new(schedule.limits)
        };
        assert!(schedule.is_due(ended(10)));
        assert!(!of_all.is_due(ended(100)));
    }

    #[test]
    fn a_long_log_and_dead_space_are_reasons_at_once() {
        let long = |log_mib, checkpoint_mib, file| {
            schedule().is_due(CheckpointState {
                log_bytes: log_mib * MIB,
                checkpoint_bytes: checkpoint_mib * MIB,
                file,
                ..state_at(1, 1)
            })
        };
        assert!(long(256, 0, None) && !long(255, 0, None));
        assert!(!long(256, 1_000, None), "no more often than it writes");
        let dead = |dead_mib, live_mib, changes| {
            let file = FileSpace {
                dead_bytes: dead_mib * MIB,
                live_bytes: live_mib * MIB,
                is_sparse: false,
            };
            schedule().is_due(CheckpointState {
                file: Some(file),
                ..state_at(1, changes)
            })
        };
        assert!(dead(357, 0, 1) && !dead(63, 0, 1));
        assert!(dead(500, 250, 1) && !dead(500, 251, 1));
        assert!(!dead(357, 0, 0), "nobody wrote");
    }

    #[test]
    fn a_mostly_free_file_is_made_short_by_a_few_and_then_left_alone() {
        let mut schedule = schedule();
        let sparse = CheckpointState {
            file: Some(FileSpace {
                is_sparse: true,
                ..FileSpace::default()
            }),
            ..state_at(0, 1)
        };
        let mut taken = 0;
        for now in 0..10_000 {
            let now = CheckpointState {
                now: Duration::from_secs(now),
                checkpoints: taken,
                ..sparse
            };
            if schedule.is_due(now) {
                schedule.taken();
                taken += 1;
            }
        }
        assert_eq!(taken, u64::from(MOST_FOLLOWING));
    }

    #[test]
    fn what_an_earlier_opening_left_is_written_once() {
        let mut schedule = schedule();
        let replayed = |now, replayed_bytes| CheckpointState {
            replayed_bytes,
            ..state_at(now, 0)
        };
        assert!(!schedule.is_due(replayed(9, 5)) && schedule.is_due(replayed(10, 5)));
        schedule.taken();
        assert!((11..5_000).all(|now| !schedule.is_due(replayed(now, 0))));
    }
}
