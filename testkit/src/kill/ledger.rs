//! The record of one writer, kept outside the process that gets killed.
//!
//! A writer owns its keys and one connection, so its commits have one order, and what survives
//! a kill must be the state after some prefix of them. The prefix must reach at least the last
//! commit that was promised.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a reply promises about a kill that comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Durable when acknowledged.
    Sync,
    /// Durable at most this long after the acknowledgement.
    Within(Duration),
    /// Nothing but order.
    Nothing,
}

/// Keys and their values.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
struct Write {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    acknowledged: Option<Instant>,
}

/// Everything one writer issued since its keys were last read back.
#[derive(Debug, Clone)]
pub struct Ledger {
    base: State,
    writes: Vec<Write>,
    next_acknowledgement: usize,
    promise: Promise,
}

impl Ledger {
    /// A writer whose keys are all absent.
    pub fn new() -> Self {
        let promise = Promise::Nothing;
        Ledger {
            base: State::new(),
            writes: Vec::new(),
            next_acknowledgement: 0,
            promise,
        }
    }

    /// A server that makes `promise` has started and the keys were read back as `state`.
    pub fn restart(&mut self, state: State, promise: Promise) {
        *self = Ledger {
            base: state,
            writes: Vec::new(),
            next_acknowledgement: 0,
            promise,
        };
    }

    /// What was read back at the last restart.
    pub fn base(&self) -> &State {
        &self.base
    }

    /// A commit is being sent: each key with its new value, or `None` for its removal.
    pub fn issue(&mut self, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        self.writes.push(Write {
            changes,
            acknowledged: None,
        });
    }

    /// The reply to the oldest unanswered commit arrived.
    pub fn acknowledge(&mut self) {
        self.writes[self.next_acknowledgement].acknowledged = Some(Instant::now());
        self.next_acknowledgement += 1;
    }

    /// Commits issued and acknowledged since the last restart.
    pub fn counts(&self) -> (usize, usize) {
        (self.writes.len(), self.next_acknowledgement)
    }

    /// How many commits must have survived a kill at `killed`.
    fn promised(&self, killed: Instant) -> usize {
        match self.promise {
            Promise::Sync => self.next_acknowledgement,
            Promise::Nothing => 0,
            Promise::Within(window) => self.writes[..self.next_acknowledgement]
                .iter()
                .rposition(|write| {
                    write
                        .acknowledged
                        .is_some_and(|at| killed.duration_since(at) > window)
                })
                .map_or(0, |last| last + 1),
        }
    }

    /// Judges the state read back after a kill; says how many commits survived.
    pub fn check(&self, killed: Instant, found: &State) -> Result<usize, String> {
        let promised = self.promised(killed);
        let mut state = self.base.clone();
        let mut best: Option<(usize, usize)> = None;
        for survived in 0..=self.writes.len() {
            if survived > 0 {
                apply(&mut state, &self.writes[survived - 1]);
            }
            if survived < promised {
                continue;
            }
            if state == *found {
                return Ok(survived);
            }
            let distance = distance(&state, found);
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, survived));
            }
        }
        let (distance, nearest) = best.expect("promised never exceeds issued");
        Err(format!(
            "no prefix of {} commits from {promised} (promised, {:?}) on explains what was read \
             back; nearest is after {nearest}, where {distance} keys differ: {}",
            self.writes.len(),
            self.promise,
            self.describe(nearest, found)
        ))
    }

    fn describe(&self, survived: usize, found: &State) -> String {
        let mut state = self.base.clone();
        self.writes[..survived]
            .iter()
            .for_each(|write| apply(&mut state, write));
        let keys = state
            .keys()
            .chain(found.keys().filter(|key| !state.contains_key(*key)));
        let show = |value: Option<&Vec<u8>>| {
            value.map(|v| String::from_utf8_lossy(&v[..v.len().min(24)]).into_owned())
        };
        let differing = keys
            .filter(|key| state.get(*key) != found.get(*key))
            .take(4)
            .map(|key| {
                let (expected, found) = (show(state.get(key)), show(found.get(key)));
                format!(
                    "{}: expected {expected:?}, found {found:?}",
                    String::from_utf8_lossy(key)
                )
            });
        differing.collect::<Vec<_>>().join("; ")
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new()
    }
}

fn apply(state: &mut State, write: &Write) {
    for (key, value) in &write.changes {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

fn distance(a: &State, b: &State) -> usize {
    let changed = a
        .iter()
        .filter(|(key, value)| b.get(*key) != Some(value))
        .count();
    changed + b.keys().filter(|key| !a.contains_key(*key)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> (Vec<u8>, Option<Vec<u8>>) {
        (key.into(), Some(value.into()))
    }

    fn state(pairs: &[(&str, &str)]) -> State {
        pairs
            .iter()
            .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()))
            .collect()
    }

    fn three_writes(promise: Promise) -> Ledger {
        let mut ledger = Ledger::new();
        ledger.restart(state(&[("old", "0")]), promise);
        ledger.issue(vec![set("a", "1"), set("b", "1")]);
        ledger.issue(vec![set("a", "2"), (b"old".to_vec(), None)]);
        ledger.issue(vec![set("a", "3")]);
        ledger.acknowledge();
        ledger
    }

    #[test]
    fn prefixes_from_the_promise_on_are_right() {
        let ledger = three_writes(Promise::Sync);
        let now = Instant::now();
        let check = |pairs: &[(&str, &str)]| ledger.check(now, &state(pairs));
        assert_eq!(check(&[("old", "0"), ("a", "1"), ("b", "1")]), Ok(1));
        assert_eq!(check(&[("a", "3"), ("b", "1")]), Ok(3));
        check(&[("old", "0")]).expect_err("an acknowledged commit is gone");
        check(&[("a", "1"), ("b", "1")]).expect_err("half a commit");
        check(&[("old", "0"), ("a", "3"), ("b", "1")]).expect_err("a gap");
        check(&[]).expect_err("all is gone");
    }

    #[test]
    fn a_window_excuses_only_young_commits() {
        let window = Duration::from_millis(200);
        let ledger = three_writes(Promise::Within(window));
        let lost = state(&[("old", "0")]);
        let acknowledged = Instant::now();
        assert_eq!(ledger.check(acknowledged, &lost), Ok(0));
        let late = acknowledged + window + Duration::from_millis(1);
        ledger.check(late, &lost).expect_err("the window is over");
        let ledger = three_writes(Promise::Nothing);
        assert_eq!(ledger.check(late, &lost), Ok(0));
    }
}
