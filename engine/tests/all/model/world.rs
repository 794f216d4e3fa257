//! The database and the model beside it, and one step of both.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Db, IndexKind, Keyspace};
use hedgerow_testkit::databases::builder_of;
use hedgerow_vfs::MemoryVfs;

use super::rows::Model;
use super::steps::Step;

pub(crate) struct World {
    pub(crate) index: IndexKind,
    pub(crate) vfs: Arc<MemoryVfs>,
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) db: Option<Db>,
    pub(crate) keyspaces: Vec<Keyspace>,
    pub(crate) model: Model,
}

pub(crate) const DIR: &str = "/data";
/// Rows that do not fit the memory of a B-tree, so that pages come and go.
pub(crate) const BALLAST: u32 = 1_200;

impl World {
    pub(crate) fn new(index: IndexKind) -> World {
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

    pub(crate) fn open(&mut self, workers: usize, read_only: bool) {
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

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn run(&mut self, step: &Step) {
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
}
