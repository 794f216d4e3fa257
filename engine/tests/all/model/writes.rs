//! Every way to write, alone, together and depending on what is there, in the database and in the
//! model.

use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow::{
    Action, Direction, Error, Keyspace, Locks, Row, RowBuilder, Transaction, WriteOptions,
};

use super::rows::{Content, Key, ModelRow};
use super::steps::{Change, Edit, End};
use super::world::World;

impl World {
    pub(crate) fn change(&self, keyspace: usize, key: &Key, change: &Change) {
        let there = self.live(keyspace, key).is_some();
        let keyspace = &self.keyspaces[keyspace];
        match change {
            Change::Put(value) => drop(keyspace.put(key, value).unwrap()),
            Change::PutWith(value, expiry_ms, user_flags) => {
                let options = until(*expiry_ms, *user_flags);
                keyspace.put_with(key, value, &options).unwrap();
            }
            Change::PutColumns(columns) => {
                let columns = borrowed(columns);
                keyspace.put_columns(key, &columns).unwrap();
            }
            Change::Remove => assert_eq!(keyspace.remove(key).unwrap(), there),
        }
    }

    pub(crate) fn edit(&mut self, keyspace: usize, key: &Key, edit: &Edit) {
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

    pub(crate) fn remove_columns(&mut self, keyspace: usize, key: &Key, names: &[Vec<u8>]) {
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

    pub(crate) fn compare_and_swap(
        &mut self,
        keyspace: usize,
        key: &Key,
        right: bool,
        value: &[u8],
    ) {
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

    pub(crate) fn batch(&mut self, changes: &[(usize, Key, Change)]) {
        let mut batch = self.db().batch();
        for (keyspace, key, change) in changes {
            let keyspace = &self.keyspaces[*keyspace];
            match change {
                Change::Put(value) => batch.put(keyspace, key, value),
                Change::PutWith(value, expiry_ms, user_flags) => {
                    let options = until(*expiry_ms, *user_flags);
                    batch.put_with(keyspace, key, value, &options)
                }
                Change::PutColumns(columns) => {
                    let columns = borrowed(columns);
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

    pub(crate) fn transact(&mut self, all: bool, changes: &[(usize, Key, Change)], then: End) {
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
            let options = until(*expiry_ms, *user_flags);
            tx.put_with(keyspace, key, value, &options)
        }
        Change::PutColumns(columns) => {
            let columns = borrowed(columns);
            tx.put_columns(keyspace, key, &columns)
        }
        Change::Remove => tx.remove(keyspace, key).map(drop),
    }
}

/// The options of a put that sets these two.
fn until(expiry_ms: Option<u64>, user_flags: u32) -> WriteOptions {
    WriteOptions {
        expiry_ms,
        user_flags,
        ..WriteOptions::default()
    }
}

fn borrowed(columns: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let pairs = columns.iter();
    pairs.map(|(n, v)| (n.as_slice(), v.as_slice())).collect()
}
