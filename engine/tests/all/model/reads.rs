//! Every way to read, and the comparison of everything.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow::{Direction, IndexKind, Row};

use super::rows::{Key, ModelRow};
use super::steps::Bounds;
use super::world::{BALLAST, World};

impl World {
    pub(crate) fn iterate(&self, keyspace: usize, bounds: &Bounds, ends: &[bool]) {
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
        let all = self.live_rows(keyspace, bounds);
        assert_eq!(reverse, all);
        for limit in [0, 1, 2, all.len() / 2, all.len(), all.len() + 1] {
            self.scan_up_to(keyspace, bounds, limit);
        }
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

    /// A scan with a limit shows so many live rows, however many have expired among them.
    fn scan_up_to(&self, keyspace: usize, bounds: &Bounds, limit: usize) {
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut expected = self.live_rows(keyspace, bounds);
            if direction == Direction::Reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            let mut seen = Vec::new();
            let visit = |key: &[u8], row: Row<'_>| {
                seen.push((key.to_vec(), ModelRow::of(row)));
                ControlFlow::Continue(())
            };
            let handle = &self.keyspaces[keyspace];
            handle
                .scan_up_to(bounds.clone(), direction, limit, visit)
                .unwrap();
            assert_eq!(seen, expected, "{direction:?}, at most {limit}");
        }
    }

    pub(crate) fn get_many(&self, keyspace: usize, keys: &[Key]) {
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

    /// Everything, key by key and as a whole.
    pub(crate) fn compare(&self) {
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
