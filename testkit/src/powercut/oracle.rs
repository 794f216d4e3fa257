//! What a database may look like after a power cut.
//!
//! The oracle hears of every commit when it is issued, learns its epoch when the call returns
//! and at which file operation it was acknowledged as durable. A recovered database is right if
//! it equals the state after *all* commits of the epochs up to some boundary and none later,
//! where the boundary includes every commit acknowledged before the cut. That one rule holds
//! durability, atomic batches, and order (of each key and across keys) at once.
//!
//! The rule trusts the epochs, so the oracle compares those with real time: a commit that was
//! issued after another had returned, of whatever thread, has its epoch or a later one. Otherwise a
//! power cut could keep the second without the first.
//!
//! Creating, dropping and clearing keyspaces goes through the manifest, not the log; those are
//! acknowledged when they return, so the keyspaces present may be those after any prefix of them
//! that includes the acknowledged ones. They have their place in the order of all writes: where
//! one of them survived, so did every commit that had returned before it began.

use std::collections::BTreeMap;

/// What a row holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// A plain value.
    Plain(Vec<u8>),
    /// Named columns.
    Columns(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// A row as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// Value or columns.
    pub content: Content,
    /// Absolute expiry, if any.
    pub expiry_ms: Option<u64>,
}

/// The rows of one keyspace.
pub type Rows = BTreeMap<Vec<u8>, Row>;

/// Everything a recovered database shows, by keyspace name.
pub type Contents = BTreeMap<String, Rows>;

/// One key's new state within a commit; `None` removes it.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which incarnation of which keyspace, as [`Oracle::incarnation`] numbers them.
    pub incarnation: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The row it leaves.
    pub row: Option<Row>,
}

#[derive(Debug, Clone)]
pub(super) struct CommitRecord {
    pub(super) changes: Vec<Change>,
    /// The rows that the changes replaced, in the order of the changes.
    pub(super) replaced: Vec<Option<Row>>,
    /// The newest epoch of the commits that had returned when this one was issued.
    floor: u64,
    pub(super) epoch: u64,
    /// The cut at which this commit must be there: operations done when it was acknowledged.
    pub(super) acknowledged_at: Option<usize>,
    /// How many keyspace events had begun when it returned; `None` before it did.
    pub(super) events_before: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct KeyspaceEvent {
    pub(super) name: String,
    /// The incarnation alive under the name afterwards; `None` after a drop.
    pub(super) alive: Option<usize>,
    pub(super) started_at: usize,
    pub(super) acknowledged_at: Option<usize>,
}

/// What was asked of a database during one process run (from one opening to the power cut).
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    pub(super) names: Vec<String>,
    pub(super) base: Vec<Rows>,
    pub(super) alive_at_start: BTreeMap<String, usize>,
    pub(super) alive: BTreeMap<String, usize>,
    /// The newest state as issued, for workloads that need to know what they overwrite.
    pub(super) current: Vec<Rows>,
    pub(super) events: Vec<KeyspaceEvent>,
    pub(super) commits: Vec<CommitRecord>,
    /// The newest epoch of the commits that have returned.
    returned_epoch: u64,
    /// What is wrong with the first epoch that contradicts real time, if one does.
    pub(super) out_of_order: Option<String>,
}

impl Oracle {
    /// A database that shows `contents` when the process run begins, all of it durable.
    pub fn new(contents: Contents) -> Self {
        let mut oracle = Oracle::default();
        for (name, rows) in contents {
            oracle
                .alive_at_start
                .insert(name.clone(), oracle.names.len());
            oracle.names.push(name);
            oracle.base.push(rows.clone());
            oracle.current.push(rows);
        }
        oracle.alive = oracle.alive_at_start.clone();
        oracle
    }

    /// The incarnation now alive under `name`.
    pub fn incarnation(&self, name: &str) -> Option<usize> {
        self.alive.get(name).copied()
    }

    /// The newest row of a key, as issued.
    pub fn current(&self, incarnation: usize, key: &[u8]) -> Option<&Row> {
        self.current[incarnation].get(key)
    }

    /// The keys of a range that have a row, as issued.
    pub fn keys(&self, incarnation: usize, range: std::ops::Range<&[u8]>) -> Vec<Vec<u8>> {
        let rows = self.current[incarnation].range::<[u8], _>((
            std::ops::Bound::Included(range.start),
            std::ops::Bound::Excluded(range.end),
        ));
        rows.map(|(key, _)| key.clone()).collect()
    }

    /// Notes that a commit with these changes is being issued; call before the engine.
    pub fn issue(&mut self, changes: Vec<Change>) -> usize {
        let replaced = changes.iter().map(|change| {
            let rows = &mut self.current[change.incarnation];
            match &change.row {
                Some(row) => rows.insert(change.key.clone(), row.clone()),
                None => rows.remove(&change.key),
            }
        });
        let replaced = replaced.collect();
        self.commits.push(CommitRecord {
            changes,
            replaced,
            floor: self.returned_epoch,
            epoch: u64::MAX,
            acknowledged_at: None,
            events_before: None,
        });
        self.commits.len() - 1
    }

    /// The call returned: its epoch, 0 if it changed nothing (and so is no commit).
    pub fn committed(&mut self, commit: usize, epoch: u64) {
        let record = &mut self.commits[commit];
        record.epoch = epoch;
        record.events_before = Some(self.events.len());
        if epoch == 0 {
            record.changes.clear();
            return;
        }
        let floor = record.floor;
        if epoch < floor {
            self.out_of_order.get_or_insert_with(|| {
                format!(
                    "commit {commit} was issued after one of epoch {floor} had returned, and has \
                     the earlier epoch {epoch}"
                )
            });
        }
        self.returned_epoch = self.returned_epoch.max(epoch);
    }

    /// The call returned an error that says that nothing was changed. No other commit has written
    /// the same keys since.
    pub fn refused(&mut self, commit: usize) {
        let CommitRecord {
            changes, replaced, ..
        } = &mut self.commits[commit];
        for (change, row) in changes.iter().zip(std::mem::take(replaced)).rev() {
            let rows = &mut self.current[change.incarnation];
            match row {
                Some(row) => rows.insert(change.key.clone(), row),
                None => rows.remove(&change.key),
            };
        }
        self.committed(commit, 0);
    }

    /// The commit was acknowledged as durable when `operations` file operations were done.
    pub fn acknowledged(&mut self, commit: usize, operations: usize) {
        self.commits[commit]
            .acknowledged_at
            .get_or_insert(operations);
    }

    /// Everything committed so far was acknowledged as durable (a clean close).
    pub fn all_acknowledged(&mut self, operations: usize) {
        for commit in &mut self.commits {
            commit.acknowledged_at.get_or_insert(operations);
        }
    }

    /// A keyspace is being created (or emptied, which begins a new incarnation); call before the
    /// engine and [`Oracle::keyspace_done`] after.
    pub fn creating(&mut self, name: &str, operations: usize) -> usize {
        let incarnation = self.names.len();
        self.names.push(name.to_owned());
        self.base.push(Rows::new());
        self.current.push(Rows::new());
        self.alive.insert(name.to_owned(), incarnation);
        self.event(name, Some(incarnation), operations)
    }

    /// A keyspace is being dropped.
    pub fn dropping(&mut self, name: &str, operations: usize) -> usize {
        self.alive.remove(name);
        self.event(name, None, operations)
    }

    fn event(&mut self, name: &str, alive: Option<usize>, started_at: usize) -> usize {
        let name = name.to_owned();
        self.events.push(KeyspaceEvent {
            name,
            alive,
            started_at,
            acknowledged_at: None,
        });
        self.events.len() - 1
    }

    /// A creation or drop returned.
    pub fn keyspace_done(&mut self, event: usize, operations: usize) {
        self.events[event].acknowledged_at = Some(operations);
    }
}
