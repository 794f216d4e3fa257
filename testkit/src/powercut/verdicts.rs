//! Which states a power cut may leave of a finished process run, and what is wrong with another.
//!
//! [`Oracle::seal`] computes the content hashes of each keyspace after each epoch once. A recovered
//! database is compared with those hashes, and only one that fits none is explained row by row.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::oracle::{Content, Contents, Oracle, Row, Rows};

impl Oracle {
    /// Ends the process run: computes every state that a cut may leave, as seen at time `now_ms`.
    pub fn seal(mut self, now_ms: u64) -> Verdicts {
        // The sort is stable: commits of one epoch stay in the order in which they were issued,
        // which is the order of each key.
        self.commits.sort_by_key(|commit| commit.epoch);
        let mut rows = self.base.clone();
        let mut hashes: Vec<u64> = rows
            .iter()
            .map(|rows| hash_rows(rows.iter(), now_ms))
            .collect();
        let mut boundaries = vec![Boundary {
            commits: 0,
            hashes: hashes.clone(),
        }];
        for (i, commit) in self.commits.iter().enumerate() {
            for change in &commit.changes {
                let rows = &mut rows[change.incarnation];
                let hash = &mut hashes[change.incarnation];
                let old = match &change.row {
                    Some(row) => {
                        *hash ^= hash_row(&change.key, row, now_ms);
                        rows.insert(change.key.clone(), row.clone())
                    }
                    None => rows.remove(&change.key),
                };
                if let Some(old) = old {
                    *hash ^= hash_row(&change.key, &old, now_ms);
                }
            }
            let next = self.commits.get(i + 1);
            if next.is_none_or(|next| next.epoch != commit.epoch) {
                boundaries.push(Boundary {
                    commits: i + 1,
                    hashes: hashes.clone(),
                });
            }
        }
        Verdicts {
            oracle: self,
            boundaries,
            now_ms,
        }
    }
}

/// The state after one epoch: how many commits (in epoch order) and the content hash of each
/// keyspace incarnation.
#[derive(Debug, Clone)]
struct Boundary {
    commits: usize,
    hashes: Vec<u64>,
}

/// Judges recovered databases against a finished process run.
#[derive(Debug, Clone)]
pub struct Verdicts {
    oracle: Oracle,
    boundaries: Vec<Boundary>,
    now_ms: u64,
}

impl Verdicts {
    /// The number of commits of this process run.
    pub fn commits(&self) -> usize {
        self.oracle.commits.len()
    }

    /// Checks what was recovered after a cut behind the first `operations` file operations.
    pub fn check(&self, operations: usize, contents: &Contents) -> Result<(), String> {
        self.check_between(operations, operations, contents)
    }

    /// Checks a state that was taken at some moment between two counts of file operations (a
    /// backup): it includes what was acknowledged by `from`, and nothing begun after `to` of
    /// the keyspace changes. Epochs of the process run that contradict real time make any state
    /// wrong.
    pub fn check_between(&self, from: usize, to: usize, contents: &Contents) -> Result<(), String> {
        if let Some(out_of_order) = &self.oracle.out_of_order {
            return Err(out_of_order.clone());
        }
        let recovered: BTreeMap<&str, u64> = contents
            .iter()
            .map(|(name, rows)| (name.as_str(), hash_rows(rows.iter(), self.now_ms)))
            .collect();
        let by_cut = |at: Option<usize>| at.is_some_and(|at| at <= from);
        let events = &self.oracle.events;
        let acknowledged = events
            .iter()
            .filter(|event| by_cut(event.acknowledged_at))
            .count();
        let started = events.iter().filter(|event| event.started_at <= to).count();

        let names_match = |names: &BTreeMap<&str, usize>| {
            names.len() == recovered.len() && names.keys().all(|n| recovered.contains_key(n))
        };
        let mut named = false;
        for prefix in acknowledged..=started {
            let alive = self.alive_after(prefix);
            if !names_match(&alive) {
                continue;
            }
            named = true;
            let needed = self.needed(from, prefix);
            let eligible = self.boundaries.iter().filter(|b| b.commits >= needed);
            for boundary in eligible {
                if alive
                    .iter()
                    .all(|(name, &i)| boundary.hashes[i] == recovered[name])
                {
                    return Ok(());
                }
            }
        }
        Err(if named {
            self.explain(contents, from, acknowledged, started)
        } else {
            format!(
                "keyspaces {:?} instead of those after {acknowledged} to {started} of the changes \
                 {events:?}",
                recovered.keys()
            )
        })
    }

    /// How many commits (in epoch order) must be there where the first `prefix` keyspace events
    /// are: those acknowledged by `from`, and those that had returned before one of the events
    /// began.
    fn needed(&self, from: usize, prefix: usize) -> usize {
        let last = self.oracle.commits.iter().rposition(|commit| {
            commit.acknowledged_at.is_some_and(|at| at <= from)
                || commit.events_before.is_some_and(|before| before < prefix)
        });
        last.map_or(0, |last| last + 1)
    }

    fn alive_after(&self, prefix: usize) -> BTreeMap<&str, usize> {
        let oracle = &self.oracle;
        let start = oracle.alive_at_start.iter();
        let mut alive: BTreeMap<&str, usize> = start.map(|(n, &i)| (n.as_str(), i)).collect();
        for event in &oracle.events[..prefix] {
            match event.alive {
                Some(incarnation) => alive.insert(&event.name, incarnation),
                None => alive.remove(event.name.as_str()),
            };
        }
        alive
    }

    /// Finds the acceptable state that is nearest to what was recovered, and says how it differs.
    fn explain(&self, contents: &Contents, cut: usize, from: usize, to: usize) -> String {
        let mut best: Option<(usize, String)> = None;
        for prefix in from..=to {
            let alive = self.alive_after(prefix);
            let needed = self.needed(cut, prefix);
            for boundary in self.boundaries.iter().filter(|b| b.commits >= needed) {
                let mut differences = Vec::new();
                for (name, &incarnation) in &alive {
                    let rows = self.rows_at(boundary.commits, incarnation);
                    let empty = Rows::new();
                    let found = contents.get(*name).unwrap_or(&empty);
                    differences.extend(self.differences(name, &rows, found));
                }
                if best
                    .as_ref()
                    .is_none_or(|(count, _)| differences.len() < *count)
                {
                    let shown: Vec<&str> = differences.iter().take(6).map(String::as_str).collect();
                    best = Some((
                        differences.len(),
                        format!(
                            "not a state at an epoch boundary from commit {needed} (acknowledged, \
                             or \
                             before keyspace event {prefix}) to {}; nearest is after commit {} \
                             (epoch {}), where {} keys differ: \
                             {}",
                            self.commits(),
                            boundary.commits,
                            boundary
                                .commits
                                .checked_sub(1)
                                .map_or(0, |i| self.oracle.commits[i].epoch),
                            differences.len(),
                            shown.join("; ")
                        ),
                    ));
                }
            }
        }
        best.map_or_else(
            || "no acceptable state at all".to_owned(),
            |(_, message)| message,
        )
    }

    fn rows_at(&self, commits: usize, incarnation: usize) -> Rows {
        let mut rows = self.oracle.base[incarnation].clone();
        let changes = self.oracle.commits[..commits]
            .iter()
            .flat_map(|commit| &commit.changes);
        for change in changes.filter(|change| change.incarnation == incarnation) {
            match &change.row {
                Some(row) => rows.insert(change.key.clone(), row.clone()),
                None => rows.remove(&change.key),
            };
        }
        rows.retain(|_, row| visible(row, self.now_ms));
        rows
    }

    fn differences(&self, name: &str, expected: &Rows, found: &Rows) -> Vec<String> {
        let keys = expected
            .keys()
            .chain(found.keys().filter(|key| !expected.contains_key(*key)));
        keys.filter(|key| expected.get(*key) != found.get(*key))
            .map(|key| {
                format!(
                    "{name}/{}: expected {}, found {}",
                    String::from_utf8_lossy(key),
                    summary(expected.get(key)),
                    summary(found.get(key))
                )
            })
            .collect()
    }
}

fn summary(row: Option<&Row>) -> String {
    match row {
        None => "nothing".to_owned(),
        Some(Row {
            content: Content::Plain(value),
            expiry_ms,
        }) => {
            let head = String::from_utf8_lossy(&value[..value.len().min(16)]).into_owned();
            format!("{head:?}… ({} bytes, expiry {expiry_ms:?})", value.len())
        }
        Some(row) => format!("{row:?}").chars().take(120).collect(),
    }
}

fn visible(row: &Row, now_ms: u64) -> bool {
    row.expiry_ms.is_none_or(|expiry| expiry > now_ms)
}

/// Order-free content hash: the exclusive or over the visible rows.
fn hash_rows<'a>(rows: impl Iterator<Item = (&'a Vec<u8>, &'a Row)>, now_ms: u64) -> u64 {
    rows.fold(0, |hash, (key, row)| hash ^ hash_row(key, row, now_ms))
}

fn hash_row(key: &[u8], row: &Row, now_ms: u64) -> u64 {
    if !visible(row, now_ms) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    row.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::oracle::Change;
    use super::*;

    fn plain(text: &str) -> Row {
        Row {
            content: Content::Plain(text.into()),
            expiry_ms: None,
        }
    }

    fn contents(pairs: &[(&str, &str)]) -> Contents {
        let rows = pairs
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), plain(value)));
        Contents::from([("main".to_owned(), rows.collect())])
    }

    fn put(oracle: &mut Oracle, pairs: &[(&str, &str)], epoch: u64, acknowledged: Option<usize>) {
        let incarnation = oracle.incarnation("main").unwrap();
        let changes = pairs.iter().map(|(key, value)| Change {
            incarnation,
            key: key.as_bytes().to_vec(),
            row: Some(plain(value)),
        });
        let commit = oracle.issue(changes.collect());
        oracle.committed(commit, epoch);
        if let Some(operations) = acknowledged {
            oracle.acknowledged(commit, operations);
        }
    }

    fn verdicts() -> Verdicts {
        let mut oracle = Oracle::new(contents(&[("old", "0")]));
        put(&mut oracle, &[("a", "1")], 5, None);
        put(&mut oracle, &[("a", "2"), ("b", "2")], 6, Some(10));
        put(&mut oracle, &[("a", "3")], 7, None);
        put(&mut oracle, &[("b", "4")], 7, None);
        oracle.seal(0)
    }

    #[test]
    fn every_epoch_boundary_after_the_acknowledged_is_right() {
        let verdicts = verdicts();
        verdicts.check(0, &contents(&[("old", "0")])).unwrap();
        verdicts
            .check(9, &contents(&[("old", "0"), ("a", "1")]))
            .unwrap();
        verdicts
            .check(10, &contents(&[("old", "0"), ("a", "2"), ("b", "2")]))
            .unwrap();
        verdicts
            .check(10, &contents(&[("old", "0"), ("a", "3"), ("b", "4")]))
            .unwrap();
    }

    #[test]
    fn losses_tears_and_disorder_are_wrong() {
        let verdicts = verdicts();
        let wrong = |operations, pairs: &[(&str, &str)]| {
            verdicts
                .check(operations, &contents(pairs))
                .expect_err("must be rejected")
        };
        let lost = wrong(10, &[("old", "0"), ("a", "1")]);
        assert!(lost.contains("main/a: expected"), "{lost}");
        wrong(0, &[("old", "0"), ("a", "2")]); // half a batch
        wrong(0, &[("old", "0"), ("a", "3"), ("b", "2")]); // half an epoch
        wrong(0, &[("old", "0"), ("b", "4")]); // a later commit without an earlier
        wrong(0, &[]); // the base is durable
        wrong(0, &[("old", "0"), ("x", "9")]); // out of nowhere
    }

    #[test]
    fn epochs_follow_real_time() {
        let start = contents(&[]);
        let issue = |oracle: &mut Oracle| oracle.issue(Vec::new());
        // Of two at once either may have the later epoch, and one that changes nothing has none.
        let mut oracle = Oracle::new(start.clone());
        let [first, second] = [issue(&mut oracle), issue(&mut oracle)];
        oracle.committed(first, 8);
        let nothing = issue(&mut oracle);
        oracle.committed(second, 7);
        oracle.committed(nothing, 0);
        put(&mut oracle, &[("a", "1")], 8, None);
        let refused = issue(&mut oracle);
        oracle.refused(refused);
        oracle.clone().seal(0).check(0, &start).unwrap();
        // The last of epoch 8 has returned.
        put(&mut oracle, &[("b", "2")], 7, None);
        put(&mut oracle, &[("c", "3")], 6, None);
        let wrong = oracle.seal(0).check(0, &start).unwrap_err();
        assert!(
            wrong.contains("epoch 8") && wrong.contains("epoch 7"),
            "{wrong}"
        );
    }

    #[test]
    fn keyspaces_follow_their_own_order() {
        let mut oracle = Oracle::new(contents(&[]));
        let created = oracle.creating("extra", 3);
        oracle.keyspace_done(created, 6);
        let dropped = oracle.dropping("extra", 8);
        oracle.keyspace_done(dropped, 12);
        let verdicts = oracle.seal(0);
        let without = contents(&[]);
        let mut with = without.clone();
        with.insert("extra".to_owned(), Rows::new());
        verdicts.check(4, &without).unwrap();
        verdicts.check(4, &with).unwrap();
        verdicts.check(7, &without).unwrap_err();
        verdicts.check(7, &with).unwrap();
        verdicts.check(9, &without).unwrap();
        verdicts.check(12, &with).unwrap_err();
    }

    #[test]
    fn a_keyspace_event_does_not_survive_without_the_commits_before_it() {
        let mut oracle = Oracle::new(contents(&[]));
        put(&mut oracle, &[("before", "1")], 3, None);
        let created = oracle.creating("extra", 3);
        put(&mut oracle, &[("beside", "1")], 4, None);
        oracle.keyspace_done(created, 6);
        let verdicts = oracle.seal(0);
        let with = |pairs| {
            let mut contents = contents(pairs);
            contents.insert("extra".to_owned(), Rows::new());
            contents
        };
        verdicts.check(4, &contents(&[])).unwrap();
        verdicts.check(4, &with(&[])).unwrap_err();
        verdicts.check(4, &with(&[("before", "1")])).unwrap();
        verdicts
            .check(6, &with(&[("before", "1"), ("beside", "1")]))
            .unwrap();
    }

    #[test]
    fn expired_rows_are_not_expected_and_live_ones_are() {
        let mut oracle = Oracle::new(contents(&[]));
        let row = Row {
            content: Content::Plain(b"v".to_vec()),
            expiry_ms: Some(50),
        };
        let change = Change {
            incarnation: 0,
            key: b"k".to_vec(),
            row: Some(row.clone()),
        };
        let commit = oracle.issue(vec![change]);
        oracle.committed(commit, 1);
        oracle.acknowledged(commit, 1);
        let mut shown = contents(&[]);
        oracle.clone().seal(50).check(1, &shown).unwrap();
        oracle.clone().seal(49).check(1, &shown).unwrap_err();
        shown.get_mut("main").unwrap().insert(b"k".to_vec(), row);
        oracle.clone().seal(49).check(1, &shown).unwrap();
        let immortal = plain("v");
        shown
            .get_mut("main")
            .unwrap()
            .insert(b"k".to_vec(), immortal);
        oracle.seal(50).check(1, &shown).unwrap_err();
    }
}
