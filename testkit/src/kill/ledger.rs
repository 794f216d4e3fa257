//! The record of one writer, kept outside the process that gets killed.
//!
//! A writer owns its keys and one connection, so its commits have one order, and what survives
//! a kill must be the state after some prefix of them, in which each commit that got an error, or
//! whose error the kill may have swallowed, may be missing. The prefix must reach at least the last
//! commit that was acknowledged, if the server promised to keep those, and in any case the last one
//! that it said to be durable.

use std::collections::BTreeMap;

/// What a reply promises about a kill that comes after it. One that says that commits are durable
/// promises them in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// What was acknowledged is there after it.
    Acknowledged,
    /// Nothing but order.
    Nothing,
}

/// Keys and their values.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Acknowledged,
    /// An error: the commit was refused, or was applied and is not known to be on disk.
    Failed,
    /// None, from a server that may have refused the commit and could not say so.
    Lost,
}

#[derive(Debug, Clone)]
struct Write {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    answer: Answer,
}

/// The values that each key may have: one, and those of failed commits after it.
struct Allowed<'l>(BTreeMap<&'l [u8], Vec<Option<&'l [u8]>>>);

/// Everything one writer issued since its keys were last read back.
#[derive(Debug, Clone)]
pub struct Ledger {
    base: State,
    writes: Vec<Write>,
    next_answer: usize,
    /// Commits, from the first, that are durable by the server's own words.
    durable_upto: usize,
    promise: Promise,
}

impl Ledger {
    /// A writer whose keys are all absent.
    pub fn new() -> Self {
        let promise = Promise::Nothing;
        Ledger {
            base: State::new(),
            writes: Vec::new(),
            next_answer: 0,
            durable_upto: 0,
            promise,
        }
    }

    /// A server that makes `promise` has started and the keys were read back as `state`.
    pub fn restart(&mut self, state: State, promise: Promise) {
        *self = Ledger {
            base: state,
            writes: Vec::new(),
            next_answer: 0,
            durable_upto: 0,
            promise,
        };
    }

    /// What was read back at the last restart.
    pub fn base(&self) -> &State {
        &self.base
    }

    /// A commit is being sent: each key with its new value, or `None` for its removal.
    pub fn issue(&mut self, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let answer = Answer::None;
        self.writes.push(Write { changes, answer });
    }

    /// The reply to the oldest unanswered commit arrived.
    pub fn acknowledge(&mut self) {
        self.answer(Answer::Acknowledged);
    }

    /// The oldest unanswered commit got an error: it may have happened or not.
    pub fn fail(&mut self) {
        self.answer(Answer::Failed);
    }

    /// The server says that all commits are durable which it has answered so far on this
    /// connection; of those that got an error it says nothing.
    pub fn durable(&mut self) {
        self.durable_upto = self.next_answer;
    }

    /// The server, which may refuse commits, was killed: of the commits that it did not answer each
    /// may have happened or not, whatever became of those behind it.
    pub fn lose_answers(&mut self) {
        for write in &mut self.writes[self.next_answer..] {
            write.answer = Answer::Lost;
        }
        self.next_answer = self.writes.len();
    }

    fn answer(&mut self, answer: Answer) {
        self.writes[self.next_answer].answer = answer;
        self.next_answer += 1;
    }

    fn answered(&self, answer: Answer) -> usize {
        let writes = self.writes.iter();
        writes.filter(|write| write.answer == answer).count()
    }

    /// Commits issued and acknowledged since the last restart.
    pub fn counts(&self) -> (usize, usize) {
        (self.writes.len(), self.answered(Answer::Acknowledged))
    }

    /// Commits that got an error since the last restart.
    pub fn failed(&self) -> usize {
        self.answered(Answer::Failed)
    }

    /// How many commits, of which failed ones may be missing, must have survived a kill.
    fn promised(&self) -> usize {
        let mut writes = self.writes.iter();
        let last = writes.rposition(|write| write.answer == Answer::Acknowledged);
        let acknowledged = match self.promise {
            Promise::Acknowledged => last.map_or(0, |last| last + 1),
            Promise::Nothing => 0,
        };
        acknowledged.max(self.durable_upto)
    }

    /// Judges the state read back after a kill; says how many commits survived.
    pub fn check(&self, found: &State) -> Result<usize, String> {
        let promised = self.promised();
        let mut allowed = Allowed::new(&self.base);
        let mut best: Option<(usize, usize)> = None;
        for survived in 0..=self.writes.len() {
            if survived > 0 {
                allowed.apply(&self.writes[survived - 1]);
            }
            if survived < promised {
                continue;
            }
            let distance = allowed.differing(found).count();
            if distance == 0 {
                return Ok(survived);
            }
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
        let mut allowed = Allowed::new(&self.base);
        let writes = self.writes[..survived].iter();
        writes.for_each(|write| allowed.apply(write));
        let show = |value: Option<&[u8]>| {
            value.map(|v| String::from_utf8_lossy(&v[..v.len().min(24)]).into_owned())
        };
        let differing = allowed.differing(found).take(4).map(|key| {
            let expected = allowed.of(key).iter().map(|value| show(*value));
            format!(
                "{}: expected one of {:?}, found {:?}; its last commits: {}",
                String::from_utf8_lossy(key),
                expected.collect::<Vec<_>>(),
                show(found.get(key).map(Vec::as_slice)),
                self.last_commits_of(key)
            )
        });
        differing.collect::<Vec<_>>().join("; ")
    }

    /// Number, kind and answer of the last commits that changed a key, and how the last commits of
    /// all keys were answered.
    fn last_commits_of(&self, key: &[u8]) -> String {
        let commits = self
            .writes
            .iter()
            .enumerate()
            .filter_map(|(number, write)| {
                let (_, value) = write.changes.iter().rfind(|(changed, _)| changed == key)?;
                let kind = if value.is_some() { "put" } else { "removal" };
                Some(format!("{} {kind} {:?}", number + 1, write.answer))
            });
        let commits: Vec<_> = commits.collect();
        let shown = commits.len().saturating_sub(8);
        let from = self.writes.len().saturating_sub(40);
        let answers = self.writes[from..].iter().map(|write| match write.answer {
            Answer::None => '.',
            Answer::Acknowledged => '+',
            Answer::Failed => '-',
            Answer::Lost => '?',
        });
        let answers: String = answers.collect();
        format!(
            "{}; answers from {} on: {answers}",
            commits[shown..].join(", "),
            from + 1
        )
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new()
    }
}

impl<'l> Allowed<'l> {
    fn new(base: &'l State) -> Self {
        let of = |(key, value): (&'l Vec<u8>, &'l Vec<u8>)| (&key[..], vec![Some(&value[..])]);
        Allowed(base.iter().map(of).collect())
    }

    fn apply(&mut self, write: &'l Write) {
        for (key, value) in &write.changes {
            let value = value.as_deref();
            if matches!(write.answer, Answer::Failed | Answer::Lost) {
                let values = self.0.entry(key).or_insert_with(|| vec![None]);
                values.push(value);
            } else {
                self.0.insert(key, vec![value]);
            }
        }
    }

    fn of(&self, key: &[u8]) -> &[Option<&'l [u8]>] {
        self.0.get(key).map_or(&[None], Vec::as_slice)
    }

    /// The keys of which something else was found.
    fn differing<'a>(&'a self, found: &'a State) -> impl Iterator<Item = &'a [u8]> {
        let unknown = found.keys().map(Vec::as_slice);
        let unknown = unknown.filter(|key| !self.0.contains_key(key));
        let keys = self.0.keys().copied().chain(unknown);
        keys.filter(|key| {
            let found = found.get(*key).map(Vec::as_slice);
            !self.of(key).contains(&found)
        })
    }
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
        let ledger = three_writes(Promise::Acknowledged);
        let check = |pairs: &[(&str, &str)]| ledger.check(&state(pairs));
        assert_eq!(check(&[("old", "0"), ("a", "1"), ("b", "1")]), Ok(1));
        assert_eq!(check(&[("a", "3"), ("b", "1")]), Ok(3));
        check(&[("old", "0")]).expect_err("an acknowledged commit is gone");
        check(&[("a", "1"), ("b", "1")]).expect_err("half a commit");
        check(&[("old", "0"), ("a", "3"), ("b", "1")]).expect_err("a gap");
        check(&[]).expect_err("all is gone");
    }

    #[test]
    fn nothing_promised_is_nothing_lost_but_order_is() {
        let ledger = three_writes(Promise::Nothing);
        assert_eq!(ledger.check(&state(&[("old", "0")])), Ok(0));
        let gap = state(&[("a", "2"), ("b", "1"), ("old", "0")]);
        ledger.check(&gap).expect_err("half a commit");
    }

    #[test]
    fn what_the_server_says_to_be_durable_is_promised_in_any_case() {
        for promise in [Promise::Nothing, Promise::Acknowledged] {
            let mut ledger = three_writes(promise);
            ledger.durable();
            let check = |ledger: &Ledger, pairs: &[(&str, &str)]| ledger.check(&state(pairs));
            let first = [("old", "0"), ("a", "1"), ("b", "1")];
            assert_eq!(check(&ledger, &first), Ok(1));
            check(&ledger, &[("old", "0")]).expect_err("a durable commit is gone");
            // Of one that failed it says nothing.
            ledger.fail();
            ledger.durable();
            assert_eq!(check(&ledger, &first), Ok(2));
            assert_eq!(check(&ledger, &[("a", "2"), ("b", "1")]), Ok(2));
            check(&ledger, &[("old", "0")]).expect_err("a durable commit is gone");
            ledger.acknowledge();
            ledger.durable();
            assert_eq!(check(&ledger, &[("a", "3"), ("b", "1")]), Ok(3));
            check(&ledger, &first).expect_err("a durable commit is gone");
            ledger.restart(state(&[("old", "0")]), promise);
            assert_eq!(check(&ledger, &[("old", "0")]), Ok(0));
        }
    }

    #[test]
    fn a_commit_that_failed_may_be_there_or_not() {
        let mut ledger = Ledger::new();
        ledger.restart(State::new(), Promise::Acknowledged);
        for value in ["1", "2", "3"] {
            ledger.issue(vec![set("a", value)]);
        }
        ledger.issue(vec![set("b", "4")]);
        ledger.acknowledge();
        ledger.fail();
        let check = |ledger: &Ledger, pairs: &[(&str, &str)]| ledger.check(&state(pairs));
        assert_eq!(check(&ledger, &[("a", "1")]), Ok(1));
        assert_eq!(check(&ledger, &[("a", "2")]), Ok(2));
        check(&ledger, &[]).expect_err("an acknowledged commit is gone");
        ledger.fail();
        ledger.acknowledge();
        assert_eq!((ledger.counts(), ledger.failed()), ((4, 2), 2));
        for a in ["1", "2", "3"] {
            assert_eq!(check(&ledger, &[("a", a), ("b", "4")]), Ok(4));
        }
        check(&ledger, &[("a", "1")]).expect_err("an acknowledged commit is gone");
        check(&ledger, &[("b", "4")]).expect_err("an acknowledged commit is gone");
    }

    /// A tick on a full disk: the server refuses a `SET`, takes a `DEL` behind it, writes that out,
    /// and is killed before it answers.
    #[test]
    fn a_commit_whose_refusal_the_kill_swallowed_may_be_missing() {
        let mut ledger = Ledger::new();
        let before = state(&[("kept", "0"), ("removed", "0")]);
        ledger.restart(before, Promise::Acknowledged);
        ledger.issue(vec![set("a", "1")]);
        ledger.acknowledge();
        ledger.issue(vec![set("kept", "2")]);
        ledger.issue(vec![(b"removed".to_vec(), None)]);
        let found = state(&[("a", "1"), ("kept", "0")]);
        ledger
            .check(&found)
            .expect_err("a server that refuses nothing");
        ledger.lose_answers();
        assert_eq!(ledger.check(&found), Ok(3));
        assert_eq!((ledger.counts(), ledger.failed()), ((3, 1), 0));
        let lost = state(&[("kept", "2")]);
        ledger
            .check(&lost)
            .expect_err("an acknowledged commit is gone");
    }
}
