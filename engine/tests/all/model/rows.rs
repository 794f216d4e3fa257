//! The model: what a row holds, what a change makes of it, and what of it is still alive.

use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow::Row;

use super::steps::{Bounds, Change};
use super::world::World;

pub(crate) type Key = Vec<u8>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Plain(Vec<u8>),
    Columns(BTreeMap<Vec<u8>, Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelRow {
    pub(crate) content: Content,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) user_flags: u32,
}

impl ModelRow {
    pub(crate) fn of(row: Row<'_>) -> ModelRow {
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

pub(crate) type Model = [BTreeMap<Key, ModelRow>; 2];

impl World {
    pub(crate) fn live(&self, keyspace: usize, key: &[u8]) -> Option<&ModelRow> {
        let row = self.model[keyspace].get(key)?;
        row.expiry_ms
            .is_none_or(|expiry_ms| expiry_ms > self.now())
            .then_some(row)
    }

    pub(crate) fn live_rows(&self, keyspace: usize, bounds: &Bounds) -> Vec<(Key, ModelRow)> {
        if inverted(bounds) {
            return Vec::new();
        }
        let rows = self.model[keyspace].range(bounds.clone());
        let live = rows.filter(|(_, row)| row.expiry_ms.is_none_or(|e| e > self.now()));
        live.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    pub(crate) fn model_change(&mut self, keyspace: usize, key: &Key, change: &Change) {
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
}

fn inverted((start, end): &Bounds) -> bool {
    match (start, end) {
        (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
        _ => false,
    }
}
