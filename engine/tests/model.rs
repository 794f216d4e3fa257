//! The whole engine beside a `BTreeMap`: random operations, compared after each, with closing
//! and opening, checkpoints and a hand-turned clock in between.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{
    Action, Db, Direction, Error, IndexKind, Keyspace, Locks, Row, RowBuilder, Transaction,
    WriteOptions,
};
use hedgerow_testkit::databases::builder_of;
use hedgerow_vfs::MemoryVfs;
use proptest::collection::vec;
use proptest::prelude::*;

type Key = Vec<u8>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Plain(Vec<u8>),
    Columns(BTreeMap<Vec<u8>, Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelRow {
    content: Content,
    expiry_ms: Option<u64>,
    user_flags: u32,
}

impl ModelRow {
    fn of(row: Row<'_>) -> ModelRow {
        let content = match row.value() {
            Some(value) => Content::Plain(value.to_vec()),
            None => {
                let columns = row.columns().map(|(n, v)| (n.to_vec(), v.to_vec()));
                Content::Columns(columns.collect())
            }
        };
        ModelRow {
            content,
            expiry_ms: row.expiry_ms(),
            user_flags: row.user_flags(),
        }
    }
}

type Model = [BTreeMap<Key, ModelRow>; 2];

/// A change of one key, possible alone, in a batch and in a transaction.
#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>),
    PutWith(Vec<u8>, Option<u64>, u32),
    PutColumns(Vec<(Vec<u8>, Vec<u8>)>),
    Remove,
}

/// A change that depends on the row; not possible in a batch.
#[derive(Clone, Debug)]
enum Edit {
    Append(Vec<u8>),
    SetColumn(Vec<u8>, Vec<u8>),
    RemoveColumn(Vec<u8>),
    Expire(Option<u64>),
    SetAll(Vec<u8>, Option<u64>, u32),
    Keep,
    RemoveIfPlain,
}

type Bounds = (Bound<Key>, Bound<Key>);

#[derive(Clone, Debug)]
enum Step {
    Change(usize, Key, Change),
    Edit(usize, Key, Edit),
    RemoveColumns(usize, Key, Vec<Vec<u8>>),
    CompareAndSwap(usize, Key, bool, Vec<u8>),
    Persist(usize, Key),
    DeleteRange(usize, Bounds),
    Batch(Vec<(usize, Key, Change)>),
    Transact {
        all: bool,
        changes: Vec<(usize, Key, Change)>,
        then: End,
    },
    Iterate(usize, Bounds, Vec<bool>),
    GetMany(usize, Vec<Key>),
    Clear(usize),
    Advance(u64),
    Sweep,
    Checkpoint,
    Reopen {
        workers: usize,
        read_only_first: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    RollBack,
    Fail,
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => vec(prop::sample::select(vec![0u8, b'a', 255]), 0..3),
        2 => (8u32..13).prop_map(|n| n.to_string().into_bytes()),
        1 => (0usize..4).prop_map(|n| [vec![b'p'; 24], vec![b'q'; n]].concat()),
        1 => (0u8..3).prop_map(|n| vec![n; 300]),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![8 => vec(any::<u8>(), 0..20), 1 => (200usize..3000).prop_map(|n| vec![7; n])]
}

fn expiry() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (1000u64..1400).prop_map(Some)]
}

fn column() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b""[..], b"a", b"b", b"name", b"other"]).prop_map(<[u8]>::to_vec)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => value().prop_map(Change::Put),
        2 => (value(), expiry(), 0u32..3).prop_map(|(v, e, f)| Change::PutWith(v, e, f)),
        3 => vec((column(), value()), 0..4).prop_map(Change::PutColumns),
        2 => Just(Change::Remove),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        value().prop_map(Edit::Append),
        (column(), value()).prop_map(|(name, value)| Edit::SetColumn(name, value)),
        column().prop_map(Edit::RemoveColumn),
        expiry().prop_map(Edit::Expire),
        (column(), expiry(), 0u32..2).prop_map(|(name, e, flags)| Edit::SetAll(name, e, flags)),
        Just(Edit::Keep),
        Just(Edit::RemoveIfPlain),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Key>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || vec((0usize..2, key(), change()), 0..6);
    let end = prop::sample::select(vec![End::Commit, End::Commit, End::RollBack, End::Fail]);
    prop_oneof![
        20 => (0usize..2, key(), change()).prop_map(|(k, key, c)| Step::Change(k, key, c)),
        8 => (0usize..2, key(), edit()).prop_map(|(k, key, e)| Step::Edit(k, key, e)),
        2 => (0usize..2, key(), vec(column(), 0..3))
            .prop_map(|(k, key, names)| Step::RemoveColumns(k, key, names)),
        3 => (0usize..2, key(), any::<bool>(), value())
            .prop_map(|(k, key, right, value)| Step::CompareAndSwap(k, key, right, value)),
        1 => (0usize..2, key()).prop_map(|(k, key)| Step::Persist(k, key)),
        1 => (0usize..2, (bound(), bound())).prop_map(|(k, b)| Step::DeleteRange(k, b)),
        4 => changes().prop_map(Step::Batch),
        4 => (any::<bool>(), changes(), end)
            .prop_map(|(all, changes, then)| Step::Transact { all, changes, then }),
        6 => (0usize..2, (bound(), bound()), vec(any::<bool>(), 0..8))
            .prop_map(|(k, b, ends)| Step::Iterate(k, b, ends)),
        2 => (0usize..2, vec(key(), 0..8)).prop_map(|(k, keys)| Step::GetMany(k, keys)),
        1 => (0usize..2).prop_map(Step::Clear),
        2 => (0u64..50).prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        1 => Just(Step::Checkpoint),
        2 => (1usize..4, any::<bool>())
            .prop_map(|(workers, read_only_first)| Step::Reopen { workers, read_only_first }),
    ]
}

struct World {
    index: IndexKind,
    vfs: Arc<MemoryVfs>,
    clock: Arc<AtomicU64>,
    db: Option<Db>,
    keyspaces: Vec<Keyspace>,
    model: Model,
}

const DIR: &str = "/data";
/// Rows that do not fit the memory of a B-tree, so that pages come and go.
const BALLAST: u32 = 1_200;

impl World {
    fn new(index: IndexKind) -> World {
        let mut world = World {
            index,
            vfs: Arc::new(MemoryVfs::new()),
            clock: Arc::new(AtomicU64::new(1000)),
            db: None,
            keyspaces: Vec::new(),
            model: Model::default(),
        };
        world.open(1, false);
        if index == IndexKind::BTree {
            let ballast = world.db().keyspace("ballast").unwrap();
            for n in 0..BALLAST {
                ballast.put(&n.to_be_bytes(), &[n as u8; 1_000]).unwrap();
            }
        }
        world
    }

    fn open(&mut self, workers: usize, read_only: bool) {
        let clock = Arc::clone(&self.clock);
        let db = builder_of(Some(self.index))
            .vfs(Arc::clone(&self.vfs) as Arc<dyn hedgerow_vfs::Vfs>)
            .workers(workers)
            .sweep_interval(None)
            .read_only(read_only)
            .now(Box::new(move || clock.load(Ordering::Relaxed)))
            .open(Path::new(DIR))
            .unwrap();
        self.keyspaces = ["zero", "one"]
            .iter()
            .map(|name| db.keyspace(name).unwrap())
            .collect();
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn live(&self, keyspace: usize, key: &[u8]) -> Option<&ModelRow> {
        let row = self.model[keyspace].get(key)?;
        row.expiry_ms
            .is_none_or(|expiry_ms| expiry_ms > self.now())
            .then_some(row)
    }

    fn live_rows(&self, keyspace: usize, bounds: &Bounds) -> Vec<(Key, ModelRow)> {
        if inverted(bounds) {
            return Vec::new();
        }
        let rows = self.model[keyspace].range(bounds.clone());
        let live = rows.filter(|(_, row)| row.expiry_ms.is_none_or(|e| e > self.now()));
        live.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    fn model_change(&mut self, keyspace: usize, key: &Key, change: &Change) {
        let live = self.live(keyspace, key).cloned();
        let rows = &mut self.model[keyspace];
        let plain = |value: &Vec<u8>, expiry_ms, user_flags| ModelRow {
            content: Content::Plain(value.clone()),
            expiry_ms,
            user_flags,
        };
        match change {
            Change::Put(value) => drop(rows.insert(key.clone(), plain(value, None, 0))),
            Change::PutWith(value, expiry_ms, flags) => {
                rows.insert(key.clone(), plain(value, *expiry_ms, *flags));
            }
            Change::PutColumns(columns) if columns.is_empty() => {}
            Change::PutColumns(columns) => {
                let mut row = live.unwrap_or_else(|| plain(&Vec::new(), None, 0));
                let mut all = match row.content {
                    Content::Columns(all) => all,
                    Content::Plain(_) => BTreeMap::new(),
                };
                all.extend(columns.iter().cloned());
                row.content = Content::Columns(all);
                rows.insert(key.clone(), row);
            }
            Change::Remove => drop(rows.remove(key)),
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Change(keyspace, key, change) => {
                self.change(*keyspace, key, change);
                self.model_change(*keyspace, key, change);
            }
            Step::Edit(keyspace, key, edit) => self.edit(*keyspace, key, edit),
            Step::RemoveColumns(keyspace, key, names) => {
                self.remove_columns(*keyspace, key, names);
            }
            Step::CompareAndSwap(keyspace, key, right, value) => {
                self.compare_and_swap(*keyspace, key, *right, value);
            }
            Step::Persist(keyspace, key) => {
                let had = self
                    .live(*keyspace, key)
                    .is_some_and(|row| row.expiry_ms.is_some());
                assert_eq!(self.keyspaces[*keyspace].persist(key).unwrap(), had);
                if had {
                    self.model[*keyspace].get_mut(key).unwrap().expiry_ms = None;
                }
            }
            Step::DeleteRange(keyspace, bounds) => {
                let gone = self.live_rows(*keyspace, bounds);
                let deleted = self.keyspaces[*keyspace]
                    .delete_range(bounds.clone())
                    .unwrap();
                assert_eq!(deleted, gone.len() as u64);
                // Rows that have expired go too.
                self.model[*keyspace].retain(|key, _| !bounds.contains(key));
            }
            Step::Batch(changes) => self.batch(changes),
            Step::Transact { all, changes, then } => self.transact(*all, changes, *then),
            Step::Iterate(keyspace, bounds, ends) => self.iterate(*keyspace, bounds, ends),
            Step::GetMany(keyspace, keys) => self.get_many(*keyspace, keys),
            Step::Clear(keyspace) => {
                let name = self.keyspaces[*keyspace].name().to_owned();
                self.db().clear_keyspace(&name).unwrap();
                self.model[*keyspace].clear();
            }
            Step::Advance(ms) => drop(self.clock.fetch_add(*ms, Ordering::Relaxed)),
            Step::Sweep => self.sweep(),
            Step::Checkpoint => drop(self.db().checkpoint().unwrap()),
            Step::Reopen {
                workers,
                read_only_first,
            } => {
                self.db().close().unwrap();
                self.db = None;
                if *read_only_first {
                    self.open(*workers, true);
                    self.compare();
                    self.db = None;
                }
                self.open(*workers, false);
            }
        }
    }

    fn change(&self, keyspace: usize, key: &Key, change: &Change) {
        let there = self.live(keyspace, key).is_some();
        let keyspace = &self.keyspaces[keyspace];
        match change {
            Change::Put(value) => drop(keyspace.put(key, value).unwrap()),
            Change::PutWith(value, expiry_ms, user_flags) => {
                let (expiry_ms, user_flags) = (*expiry_ms, *user_flags);
                let options = WriteOptions {
                    expiry_ms,
                    user_flags,
                    ..WriteOptions::default()
                };
                keyspace.put_with(key, value, &options).unwrap();
            }
            Change::PutColumns(columns) => {
                let columns: Vec<(&[u8], &[u8])> = columns
                    .iter()
                    .map(|(n, v)| (n.as_slice(), v.as_slice()))
                    .collect();
                keyspace.put_columns(key, &columns).unwrap();
            }
            Change::Remove => assert_eq!(keyspace.remove(key).unwrap(), there),
        }
    }

    fn edit(&mut self, keyspace: usize, key: &Key, edit: &Edit) {
        let expected = self.live(keyspace, key).cloned();
        let (seen, commit) = self.keyspaces[keyspace]
            .update(key, &WriteOptions::default(), |row, new| {
                let seen = row.map(ModelRow::of);
                match apply_edit(row, new, edit) {
                    Action::Keep(()) => Action::Keep(seen),
                    Action::Put(()) => Action::Put(seen),
                    Action::Remove(()) => Action::Remove(seen),
                }
            })
            .unwrap();
        assert_eq!(seen, expected);
        let mut row = expected.unwrap_or(ModelRow {
            content: Content::Plain(Vec::new()),
            expiry_ms: None,
            user_flags: 0,
        });
        let columns = |row: &mut ModelRow| match std::mem::replace(
            &mut row.content,
            Content::Plain(Vec::new()),
        ) {
            Content::Columns(columns) => columns,
            Content::Plain(_) => BTreeMap::new(),
        };
        let mut changed = true;
        match edit {
            Edit::Append(more) => {
                let mut value = match row.content {
                    Content::Plain(value) => value,
                    Content::Columns(_) => Vec::new(),
                };
                value.extend_from_slice(more);
                row.content = Content::Plain(value);
            }
            Edit::SetColumn(name, value) => {
                let mut all = columns(&mut row);
                all.insert(name.clone(), value.clone());
                row.content = Content::Columns(all);
            }
            Edit::RemoveColumn(name) => {
                let mut all = columns(&mut row);
                all.remove(name);
                row.content = Content::Columns(all);
            }
            Edit::Expire(expiry_ms) => row.expiry_ms = *expiry_ms,
            Edit::SetAll(name, expiry_ms, user_flags) => {
                let mut all = columns(&mut row);
                all.insert(name.clone(), b"x".to_vec());
                row.content = Content::Columns(all);
                row.expiry_ms = *expiry_ms;
                row.user_flags = *user_flags;
            }
            Edit::Keep => changed = false,
            Edit::RemoveIfPlain if matches!(row.content, Content::Plain(_)) => {
                self.model[keyspace].remove(key);
                return;
            }
            Edit::RemoveIfPlain => changed = false,
        }
        assert_eq!(commit.is_some(), changed);
        if changed {
            self.model[keyspace].insert(key.clone(), row);
        }
    }

    fn remove_columns(&mut self, keyspace: usize, key: &Key, names: &[Vec<u8>]) {
        let mut expected = 0;
        if let Some(ModelRow {
            content: Content::Columns(all),
            ..
        }) = self.live(keyspace, key)
        {
            let mut all = all.clone();
            expected = names
                .iter()
                .filter(|name| all.remove(*name).is_some())
                .count();
            if all.is_empty() && expected > 0 {
                self.model[keyspace].remove(key);
            } else if let Some(row) = self.model[keyspace].get_mut(key) {
                row.content = Content::Columns(all);
            }
        }
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        assert_eq!(
            self.keyspaces[keyspace]
                .remove_columns(key, &names)
                .unwrap(),
            expected
        );
    }

    fn compare_and_swap(&mut self, keyspace: usize, key: &Key, right: bool, value: &[u8]) {
        let handle = &self.keyspaces[keyspace];
        let version = handle.version(key).unwrap();
        assert_eq!(version.is_some(), self.live(keyspace, key).is_some());
        let expected = if right {
            version
        } else {
            Some(hedgerow::Timestamp::new(1, 77))
        };
        match handle.compare_and_swap(key, expected, value) {
            Ok(commit) => {
                assert!(right);
                assert_eq!(handle.version(key).unwrap(), Some(commit.timestamp));
                assert!(version.is_none_or(|before| before < commit.timestamp));
                self.model_change(keyspace, key, &Change::Put(value.to_vec()));
            }
            Err(Error::Conflict { found, .. }) => {
                assert!(!right);
                assert_eq!(found, version);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn batch(&mut self, changes: &[(usize, Key, Change)]) {
        let mut batch = self.db().batch();
        for (keyspace, key, change) in changes {
            let keyspace = &self.keyspaces[*keyspace];
            match change {
                Change::Put(value) => batch.put(keyspace, key, value),
                Change::PutWith(value, expiry_ms, user_flags) => {
                    let (expiry_ms, user_flags) = (*expiry_ms, *user_flags);
                    let options = WriteOptions {
                        expiry_ms,
                        user_flags,
                        ..Default::default()
                    };
                    batch.put_with(keyspace, key, value, &options)
                }
                Change::PutColumns(columns) => {
                    let columns: Vec<(&[u8], &[u8])> = columns
                        .iter()
                        .map(|(n, v)| (n.as_slice(), v.as_slice()))
                        .collect();
                    batch.put_columns(keyspace, key, &columns)
                }
                Change::Remove => batch.remove(keyspace, key),
            };
        }
        assert_eq!(batch.len(), changes.len());
        batch.commit(WriteOptions::default()).unwrap();
        for (keyspace, key, change) in changes {
            self.model_change(*keyspace, key, change);
        }
    }

    fn transact(&mut self, all: bool, changes: &[(usize, Key, Change)], then: End) {
        let before = self.model.clone();
        let keyspaces = self.keyspaces.clone();
        let keys: Vec<(&Keyspace, &[u8])> = changes
            .iter()
            .map(|(k, key, _)| (&keyspaces[*k], key.as_slice()))
            .collect();
        let locks = if all { Locks::All } else { Locks::Keys(&keys) };
        let db = self.db.take().unwrap();
        let outcome = db.transact(locks, &WriteOptions::default(), |tx| {
            for (k, key, change) in changes {
                let there = tx.contains(&keyspaces[*k], key)?;
                assert_eq!(there, self.live(*k, key).is_some());
                stage(tx, &keyspaces[*k], key, change)?;
                self.model_change(*k, key, change);
                let seen = tx.read(&keyspaces[*k], key, ModelRow::of)?;
                assert_eq!(seen.as_ref(), self.live(*k, key));
            }
            for (k, keyspace) in keyspaces.iter().enumerate() {
                let everything = (Bound::Unbounded, Bound::Unbounded);
                let mut expected = self.live_rows(k, &everything);
                for direction in [Direction::Forward, Direction::Reverse] {
                    let mut seen = Vec::new();
                    tx.scan(keyspace, .., direction, |key, row| {
                        seen.push((key.to_vec(), ModelRow::of(row)));
                        std::ops::ControlFlow::Continue(())
                    })?;
                    assert_eq!(seen, expected, "own writes in a {direction:?} scan");
                    expected.reverse();
                }
            }
            match then {
                End::Commit => {}
                End::RollBack => tx.rollback(),
                End::Fail => return Err(Error::InvalidOption("on purpose".into())),
            }
            Ok(())
        });
        self.db = Some(db);
        assert_eq!(outcome.is_err(), matches!(then, End::Fail));
        if !matches!(then, End::Commit) {
            self.model = before;
        }
    }

    fn iterate(&self, keyspace: usize, bounds: &Bounds, ends: &[bool]) {
        let handle = &self.keyspaces[keyspace];
        let mut expected = self.live_rows(keyspace, bounds);
        assert_eq!(handle.count(bounds.clone()).unwrap(), expected.len() as u64);
        let pair = |entry: hedgerow::Result<hedgerow::Entry>| {
            let entry = entry.unwrap();
            (entry.key().to_vec(), ModelRow::of(entry.row()))
        };
        let mut rows = handle.range(bounds.clone()).unwrap();
        for from_front in ends {
            let (seen, want) = if *from_front {
                (
                    rows.next(),
                    (!expected.is_empty()).then(|| expected.remove(0)),
                )
            } else {
                (rows.next_back(), expected.pop())
            };
            assert_eq!(seen.map(pair), want);
        }
        let rest: Vec<_> = rows.map(pair).collect();
        assert_eq!(rest, expected);
        let mut reverse: Vec<_> = handle
            .range(bounds.clone())
            .unwrap()
            .rev()
            .map(pair)
            .collect();
        reverse.reverse();
        assert_eq!(reverse, self.live_rows(keyspace, bounds));
        if let Bound::Included(prefix) = &bounds.0 {
            let seen: Vec<_> = handle.prefix(prefix).unwrap().map(pair).collect();
            let all = self.live_rows(keyspace, &(Bound::Unbounded, Bound::Unbounded));
            let want: Vec<_> = all
                .into_iter()
                .filter(|(key, _)| key.starts_with(prefix))
                .collect();
            assert_eq!(seen, want);
        }
    }

    fn get_many(&self, keyspace: usize, keys: &[Key]) {
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut seen = vec![None; keys.len()];
        let handle = &self.keyspaces[keyspace];
        handle.prefetch_many(&slices);
        handle
            .get_many(&slices, |i, row| {
                assert!(seen[i].is_none(), "each key once");
                seen[i] = Some(row.map(ModelRow::of));
            })
            .unwrap();
        let expected = keys
            .iter()
            .map(|key| Some(self.live(keyspace, key).cloned()));
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    fn sweep(&mut self) {
        let now = self.now();
        let before: usize = self.model.iter().map(BTreeMap::len).sum();
        for rows in &mut self.model {
            rows.retain(|_, row| row.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now));
        }
        let after: usize = self.model.iter().map(BTreeMap::len).sum();
        assert_eq!(self.db().sweep_expired().unwrap(), (before - after) as u64);
        for (keyspace, rows) in self.keyspaces.iter().zip(&self.model) {
            assert_eq!(
                keyspace.len(),
                rows.len() as u64,
                "nothing that expired is left"
            );
        }
    }

    /// Everything, key by key and as a whole.
    fn compare(&self) {
        if self.index == IndexKind::BTree {
            let ballast = self.db().keyspace("ballast").unwrap();
            let mut rows = 0;
            for entry in ballast.range(..).unwrap() {
                let entry = entry.unwrap();
                let n = u32::from_be_bytes(entry.key().try_into().unwrap());
                assert_eq!(entry.value(), Some(&[n as u8; 1_000][..]));
                rows += 1;
            }
            assert_eq!(rows, BALLAST);
        }
        for (i, keyspace) in self.keyspaces.iter().enumerate() {
            let bounds = (Bound::Unbounded, Bound::Unbounded);
            let expected = self.live_rows(i, &bounds);
            let rows = keyspace.range(..).unwrap();
            let seen: Vec<_> = rows
                .map(|entry| {
                    let entry = entry.unwrap();
                    (entry.key().to_vec(), ModelRow::of(entry.row()))
                })
                .collect();
            assert_eq!(seen, expected);
            for (key, row) in &expected {
                assert_eq!(
                    keyspace.read(key, ModelRow::of).unwrap().as_ref(),
                    Some(row)
                );
            }
            // Expired rows that were not swept count, the model keeps them too.
            assert_eq!(keyspace.len(), self.model[i].len() as u64);
        }
        let rows = self.model.iter().flat_map(BTreeMap::values);
        let expiring = rows.filter(|row| row.expiry_ms.is_some()).count();
        assert_eq!(
            self.db().statistics().get("expiring_rows"),
            Some(expiring as f64)
        );
        self.db().verify().unwrap();
    }
}

fn inverted((start, end): &Bounds) -> bool {
    match (start, end) {
        (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
        _ => false,
    }
}

fn apply_edit(row: Option<Row<'_>>, new: &mut RowBuilder<'_>, edit: &Edit) -> Action<()> {
    match edit {
        Edit::Append(more) => {
            let old = row.and_then(|row| row.value()).unwrap_or_default();
            new.set_value_owned([old, more].concat());
        }
        Edit::SetColumn(name, value) => drop(new.set_column(name, value)),
        Edit::RemoveColumn(name) => drop(new.remove_column(name)),
        Edit::Expire(expiry_ms) => drop(new.set_expiry_ms(*expiry_ms)),
        Edit::SetAll(name, expiry_ms, user_flags) => {
            new.set_column(name, b"x")
                .set_expiry_ms(*expiry_ms)
                .set_user_flags(*user_flags);
        }
        Edit::Keep => return Action::Keep(()),
        Edit::RemoveIfPlain if row.is_some_and(|row| row.is_columns()) => return Action::Keep(()),
        Edit::RemoveIfPlain => return Action::Remove(()),
    }
    Action::Put(())
}

fn stage(
    tx: &mut Transaction<'_>,
    keyspace: &Keyspace,
    key: &[u8],
    change: &Change,
) -> hedgerow::Result<()> {
    match change {
        Change::Put(value) => tx.put(keyspace, key, value),
        Change::PutWith(value, expiry_ms, user_flags) => {
            let (expiry_ms, user_flags) = (*expiry_ms, *user_flags);
            let options = WriteOptions {
                expiry_ms,
                user_flags,
                ..WriteOptions::default()
            };
            tx.put_with(keyspace, key, value, &options)
        }
        Change::PutColumns(columns) => {
            let columns: Vec<(&[u8], &[u8])> = columns
                .iter()
                .map(|(n, v)| (n.as_slice(), v.as_slice()))
                .collect();
            tx.put_columns(keyspace, key, &columns)
        }
        Change::Remove => tx.remove(keyspace, key).map(drop),
    }
}

fn agrees(index: IndexKind, steps: &[Step]) {
    let mut world = World::new(index);
    for (i, step) in steps.iter().enumerate() {
        world.run(step);
        if i % 8 == 0 {
            world.compare();
        }
    }
    world.run(&Step::Reopen {
        workers: 2,
        read_only_first: true,
    });
    world.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_model(steps in vec(step(), 1..120)) {
        agrees(IndexKind::Masstree, &steps);
    }

    #[test]
    fn the_engine_over_matryoshka_agrees_with_the_model(steps in vec(step(), 1..120)) {
        agrees(IndexKind::Matryoshka, &steps);
    }

    /// If this passes and the other fails, look at the tree first.
    #[test]
    fn the_engine_over_a_locked_map_agrees_with_the_model(steps in vec(step(), 1..120)) {
        agrees(IndexKind::LockedMap, &steps);
    }
}

proptest! {
    // Each writes and reads more than fits its memory.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_over_a_page_file_agrees_with_the_model(steps in vec(step(), 1..120)) {
        agrees(IndexKind::BTree, &steps);
    }
}
