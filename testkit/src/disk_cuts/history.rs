//! What one writer sent and when, kept outside the server whose disk is cut.
//!
//! A writer owns its keys and one connection, so its commits have one order, and what a cut leaves
//! must be the state after some of the first of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use hedgerow::IndexKind;

use crate::databases::key_of;

/// Keys of each writer.
pub(super) const KEYS: usize = 12;

/// A key of a writer, of a width that the index takes.
pub(super) fn key(index: IndexKind, writer: usize, number: usize) -> Vec<u8> {
    key_of(
        Some(index),
        format!("w{writer:02}/k{number:03} of this writer"),
    )
}

/// All keys of a writer.
pub(super) fn keys(index: IndexKind, writer: usize) -> Vec<Vec<u8>> {
    let numbers = 0..KEYS;
    numbers.map(|number| key(index, writer, number)).collect()
}

/// Keys and their values.
pub(super) type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and their new values; `None` for a removal.
pub(super) type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

#[derive(Debug, Clone)]
struct Commit {
    changes: Changes,
    issued: Instant,
    acknowledged: Option<Instant>,
}

/// The commits of one writer, since its keys were last read back.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    base: State,
    commits: Vec<Commit>,
    next_acknowledgement: usize,
}

impl History {
    /// One that begins with what was read back.
    pub(super) fn of(base: State) -> Self {
        History {
            base,
            ..History::default()
        }
    }

    /// Commits issued.
    pub(super) fn len(&self) -> usize {
        self.commits.len()
    }

    /// A commit is about to be sent.
    pub(super) fn issue(&mut self, changes: Changes) {
        self.commits.push(Commit {
            changes,
            issued: Instant::now(),
            acknowledged: None,
        });
    }

    /// The reply to the oldest unanswered commit arrived.
    pub(super) fn acknowledge(&mut self) {
        self.commits[self.next_acknowledgement].acknowledged = Some(Instant::now());
        self.next_acknowledgement += 1;
    }

    /// How many commits had been acknowledged at a moment.
    pub(super) fn acknowledged_before(&self, moment: Instant) -> usize {
        self.commits.partition_point(|commit| {
            let at = commit.acknowledged;
            at.is_some_and(|at| at < moment)
        })
    }

    /// The least and the greatest number of commits, `least` or more, after which the keys are as
    /// they were found. There are several where the last of them changed nothing, as the removal of
    /// what was not there.
    pub(super) fn survivors(
        &self,
        least: usize,
        found: &State,
    ) -> Result<RangeInclusive<usize>, String> {
        let mut state = self.base.clone();
        let mut survivors: Option<RangeInclusive<usize>> = None;
        let mut nearest = (usize::MAX, 0);
        for count in 0..=self.commits.len() {
            if count > 0 {
                apply(&mut state, &self.commits[count - 1].changes);
            }
            if count < least {
                continue;
            }
            let differing = distance(&state, found);
            if differing == 0 {
                let first = survivors.map_or(count, |range| *range.start());
                survivors = Some(first..=count);
            }
            nearest = nearest.min((differing, count));
        }
        survivors.ok_or_else(|| {
            let (differing, count) = nearest;
            format!(
                "of {} commits, {least} of them promised, no number explains what was read back; \
                 after {count} of them {differing} keys differ",
                self.commits.len()
            )
        })
    }

    /// When the last of the first `count` commits was issued.
    pub(super) fn last_issued(&self, count: usize) -> Option<Instant> {
        Some(self.commits.get(count.checked_sub(1)?)?.issued)
    }

    /// When the first commit behind the first `count` was acknowledged, if it was.
    pub(super) fn next_acknowledged(&self, count: usize) -> Option<Instant> {
        self.commits.get(count)?.acknowledged
    }
}

fn apply(state: &mut State, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

/// How many keys have different values, or are in one only.
fn distance(a: &State, b: &State) -> usize {
    let changed = a.iter().filter(|(key, value)| b.get(*key) != Some(value));
    let more = b.keys().filter(|key| !a.contains_key(*key));
    changed.count() + more.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pairs: &[(&str, &str)]) -> State {
        let owned = |(key, value): &(&str, &str)| (key.as_bytes().into(), value.as_bytes().into());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn only_what_some_of_the_first_commits_leave_is_right() {
        let mut history = History::of(state(&[("old", "0")]));
        history.issue(vec![(b"a".into(), Some(b"1".into()))]);
        history.issue(vec![(b"absent".into(), None)]);
        history.issue(vec![
            (b"a".into(), Some(b"2".into())),
            (b"old".into(), None),
        ]);
        history.acknowledge();
        let check = |least, pairs: &[(&str, &str)]| history.survivors(least, &state(pairs)).ok();
        assert_eq!(check(0, &[("old", "0")]), Some(0..=0));
        assert_eq!(check(1, &[("old", "0")]), None, "a promised one is gone");
        assert_eq!(check(1, &[("old", "0"), ("a", "1")]), Some(1..=2));
        assert_eq!(check(2, &[("old", "0"), ("a", "1")]), Some(2..=2));
        assert_eq!(check(0, &[("a", "2")]), Some(3..=3));
        assert_eq!(check(0, &[("old", "0"), ("a", "2")]), None, "half a commit");
        assert_eq!(history.acknowledged_before(Instant::now()), 1);
        assert!(history.last_issued(3) >= history.last_issued(1));
        assert!(history.next_acknowledged(0).is_some());
        assert_eq!(
            (history.last_issued(0), history.next_acknowledged(1)),
            (None, None)
        );
    }
}
