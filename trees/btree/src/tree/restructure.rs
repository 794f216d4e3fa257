//! Splits and merges under latches: [restructurings](crate::restructure) of the pool's pages.

use hedgerow_pages::{Operation, Pages, Pool, Result};

use super::{BTreeIndex, MERGES, SPLITS};
use crate::configuration::Configuration;
use crate::node::layout::Payload;
use crate::restructure::NodeRef;
use crate::restructure::Restructuring;

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Restructures within an operation, and counts what came of it.
    pub(super) fn restructure<'p, R>(
        &'p self,
        operation: &Operation<'p>,
        what: impl FnOnce(&mut Restructuring<'_, C, PAGE, &'p Pool<PAGE>>) -> Result<R>,
    ) -> Result<R> {
        let mut pool: &'p Pool<PAGE> = &self.pool;
        let mut restructuring = Restructuring::new(&mut pool, operation);
        let result = what(&mut restructuring);
        let Restructuring { splits, merges, .. } = restructuring;
        self.conversions().absorb(&restructuring.conversions);
        (0..splits).for_each(|_| self.events.count(SPLITS));
        (0..merges).for_each(|_| self.events.count(MERGES));
        result
    }

    /// Makes room on the path to `key` from a root. To be called, by a thread that has no latch,
    /// until the leaf takes the record.
    #[cold]
    pub(super) fn make_room(&self, root: NodeRef, key: &[u8], payload: Payload<'_>) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        self.restructure(&pool.begin(), |nodes| {
            nodes.make_room(&path, leaf.at, key, payload)
        })
    }

    /// Merges nodes of one layer on the path to a key, from its leaf upwards.
    pub(super) fn merge_towards(&self, root: NodeRef, key: &[u8]) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let (path, leaf) = self.path(root, key)?;
        self.restructure(&pool.begin(), |nodes| nodes.merge_path(&path, leaf.at))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::{Bound, ControlFlow};
    use std::path::Path;
    use std::sync::Arc;

    use hedgerow_index::Direction;
    use hedgerow_pages::{Options, Stop};
    use hedgerow_vfs::{MemoryVfs, Vfs};

    use super::*;
    use crate::configuration::{Adaptive, Baseline, Fingerprint, FullyDense, SemiDense};
    use crate::node::layout::Kind;
    use crate::restructure::NodePath;

    /// What a descent found, for a writer that is slow to make room there.
    struct OldPath {
        key: Vec<u8>,
        path: NodePath,
        leaf: NodeRef,
    }

    /// What became of attempts to make room.
    #[derive(Default)]
    struct Attempts {
        done: u32,
        restarted: u32,
    }

    /// Inserts keys that ascend, and makes room by paths that are old then: each led to where the
    /// key would come that is so far ahead, and leaves and nodes above them were split since. There
    /// are few of them, so that their own splits leave most leaves as full as insertions did.
    fn make_room_by_old_paths<C: Configuration>(
        lengths: usize,
        ahead: u32,
        age: usize,
        attempts: &mut Attempts,
    ) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20)).unwrap();
        let tree = BTreeIndex::<C, 1024>::create(Arc::new(pool)).unwrap();
        let pool: &Pool<1024> = &tree.pool;
        let kind = Kind::Inline;
        let key = |n: u32| [&n.to_be_bytes()[..], &[1, 2][..n as usize % lengths]].concat();
        let mut old = VecDeque::new();
        for n in 0..KEYS {
            tree.insert(&key(n), &[7; 4]).unwrap();
            if n % APART != 0 {
                continue;
            }
            let key = key(n + ahead);
            let root = tree.snapshot_root().unwrap();
            let (path, leaf) = tree.path(root, &key).unwrap();
            let leaf = leaf.at;
            old.push_back(OldPath { key, path, leaf });
            if old.len() > age / APART as usize {
                let OldPath { key, path, leaf } = old.pop_front().expect("more than none");
                // As the others, or so much that the leaf has no room for it.
                let bytes = &[7; 240][..if (n / APART).is_multiple_of(2) {
                    4
                } else {
                    240
                }];
                let above = path.last();
                let is_old = above.is_some_and(|step| pool.validate(&step.0.snapshot).is_err());
                let made = tree.restructure(&pool.begin(), |nodes| {
                    nodes.make_room(&path, leaf, &key, Payload { kind, bytes })
                });
                match made {
                    Ok(()) => {
                        assert!(!is_old, "the leaf need not be the key's any more");
                        attempts.done += 1;
                    }
                    Err(Stop::Restart) => attempts.restarted += 1,
                    Err(Stop::Failed(error)) => panic!("{error}"),
                }
            }
        }
        let name = (C::NAME, lengths, ahead, age);
        tree.verify()
            .unwrap_or_else(|wrong| panic!("{name:?}: {wrong}"));
        let mut found = 0;
        tree.scan(Bound::Unbounded, Direction::Forward, |_, _| {
            found += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, KEYS, "{name:?}");
    }

    const KEYS: u32 = 8_000;
    const APART: u32 = 23;

    fn in_all_ages<C: Configuration>() {
        let mut attempts = Attempts::default();
        for ahead in [1, 40] {
            for age in [1, 300, 2_500] {
                for lengths in [1, 3] {
                    make_room_by_old_paths::<C>(lengths, ahead, age, &mut attempts);
                }
            }
        }
        let Attempts { done, restarted } = attempts;
        assert!(done > 100 && restarted > 100, "{done}, {restarted}");
    }

    #[test]
    fn room_is_made_only_in_leaves_that_are_still_the_ones_of_their_keys() {
        in_all_ages::<Baseline>();
        in_all_ages::<Fingerprint>();
        in_all_ages::<SemiDense>();
        in_all_ages::<FullyDense>();
        in_all_ages::<Adaptive>();
    }
}
