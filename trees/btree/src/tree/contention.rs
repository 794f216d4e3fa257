//! Leaves that writers wait for are split (§7.3).
//!
//! A latch covers a whole leaf, so threads that often write neighbouring keys wait for each other.
//! As in LeanStore, one write in 128 is sampled: did it wait for its leaf? If a thirtieth of the
//! sampled writes of a leaf waited, the leaf is split at the key that is being written. A split
//! does not help a single key that is written often, so the sampled write before must have been of
//! another key.
//!
//! The samples are not part of the page, and are lost when two leaves use the same tracker. A write
//! that is not sampled costs one step of a random number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hedgerow_pages::{PageId, Pages, Pool, Result};

use super::read::chance;
use super::{BTreeIndex, CONTENTION_SPLITS, image};
use crate::configuration::Configuration;

/// How probably a write is looked at, of 2³².
const SAMPLED: u32 = 1 << (32 - 7);

/// Writes to a leaf that are looked at before it is decided, and how many of them must have waited.
const WINDOW: u64 = 120;
const WAITED: u64 = WINDOW / 30;

const TRACKERS: usize = 64;

/// Of some leaves, how many writes were looked at.
///
/// ```text
///  63        32 31        16 15      8 7       0
/// ┌────────────┬────────────┬─────────┬─────────┐
/// │ page       │ key's hash │ sampled │ waited  │
/// └────────────┴────────────┴─────────┴─────────┘
/// ```
pub(super) struct Contention([AtomicU64; TRACKERS]);

impl Contention {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Whether to look at a write.
    #[inline(always)]
    pub(super) fn samples() -> bool {
        chance(SAMPLED)
    }

    /// Counts a write, and says whether its leaf should be split.
    #[cold]
    pub(super) fn count(&self, page: PageId, key: &[u8], waited: bool) -> bool {
        let tracker = &self.0[page.0 as usize % TRACKERS];
        // Threads may overwrite each other's counts: they are samples.
        let old = tracker.load(Relaxed);
        let old = if old >> 32 == u64::from(page.0) {
            old
        } else {
            0
        };
        let hash = key.iter().fold(key.len() as u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }) >> 48;
        let sampled = (old >> 8 & 0xff) + 1;
        let have_waited = (old & 0xff) + u64::from(waited);
        let begin = u64::from(page.0) << 32 | hash << 16;
        if sampled < WINDOW {
            tracker.store(begin | sampled << 8 | have_waited, Relaxed);
            return false;
        }
        tracker.store(begin, Relaxed);
        have_waited >= WAITED && old >> 16 & 0xffff != hash
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Splits the leaf of a key. Nobody needs that: whatever is in the way prevents it.
    #[cold]
    pub(super) fn split_contended(&self, key: &[u8]) {
        let _ = self.try_split_contended(key);
    }

    fn try_split_contended(&self, key: &[u8]) -> Result<()> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut layers = self.layers_of(key)?;
        let (root, cut) = layers.pop().expect("a key is in a layer");
        let (path, leaf) = self.path(root, cut.key_prefix)?;
        let operation = pool.begin();
        let Some(step) = path.last() else {
            let latch = pool.upgrade(&leaf.at.snapshot)?;
            if image(&latch).count() < 2 {
                return Ok(());
            }
            let page = image(&latch).clone();
            return self.restructure(&operation, |nodes| nodes.raise_root(latch, page));
        };
        let splits = self.restructure(&operation, |nodes| {
            nodes.split_near(step, leaf.at.id, cut.key_prefix)?;
            Ok(nodes.splits)
        })?;
        if splits > 0 {
            self.events.count(CONTENTION_SPLITS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hedgerow_pages::Options;
    use hedgerow_vfs::{MemoryVfs, Vfs};

    use super::*;
    use crate::configuration::{Adaptive, Baseline, Fingerprint, FullyDense, Hints, SemiDense};

    /// Counts so many writes of two keys in turn; how often the leaf was to be split.
    fn splits(writes: u64, waits: impl Fn(u64) -> bool, keys: u64) -> u64 {
        let contention = Contention::new();
        let splits = |n: &u64| contention.count(PageId(7), &[(n % keys) as u8], waits(*n));
        (0..writes).filter(splits).count() as u64
    }

    #[test]
    fn a_thirtieth_of_the_writes_must_have_waited_and_not_all_for_one_key() {
        assert_eq!(splits(10 * WINDOW, |n| n % 30 == 0, 7), 10);
        assert_eq!(splits(10 * WINDOW, |n| n % 41 == 0, 7), 0);
        assert_eq!(splits(10 * WINDOW, |_| true, 1), 0);
        // Fewer than are needed to decide.
        assert_eq!(splits(WINDOW - 1, |_| true, 7), 0);
    }

    #[test]
    fn another_leaf_begins_anew() {
        let contention = Contention::new();
        let other = PageId(7 + TRACKERS as u32);
        for n in 0..10 * WINDOW {
            assert!(!contention.count(PageId(7), &[n as u8], true));
            assert!(!contention.count(other, &[n as u8], true));
        }
    }

    /// Splits leaves of a tree of numbers and of names wherever asked to.
    fn splits_contended<C: Configuration>() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20)).unwrap();
        let tree = BTreeIndex::<C, 1024>::create(Arc::new(pool)).unwrap();
        let keys: Vec<Vec<u8>> = (0..600_u32)
            .map(|n| match n % 2 {
                0 => (n / 2).to_be_bytes().to_vec(),
                _ => format!("name/{:x}", n.wrapping_mul(0x9e37_79b9)).into_bytes(),
            })
            .collect();
        for key in &keys {
            tree.insert(key, key).unwrap();
        }
        for (n, key) in keys.iter().enumerate() {
            if n % 7 == 0 {
                tree.split_contended(key);
                tree.verify().unwrap();
            }
        }
        let split = tree.statistics().get("contention_splits").unwrap();
        assert!(split > 20.0, "{} split {split} leaves", C::NAME);
        for key in &keys {
            let right = tree.get(key, |value| value == key).unwrap();
            assert_eq!(right, Some(true), "{} {key:?}", C::NAME);
        }
    }

    #[test]
    fn leaves_of_each_kind_are_split() {
        splits_contended::<Baseline>();
        splits_contended::<Hints>();
        splits_contended::<Fingerprint>();
        splits_contended::<SemiDense>();
        splits_contended::<FullyDense>();
        splits_contended::<Adaptive>();
    }

    #[test]
    fn a_root_gets_a_level_first_and_a_lone_record_stays() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(64 << 20)).unwrap();
        let tree = BTreeIndex::<Adaptive, 1024>::create(Arc::new(pool)).unwrap();
        tree.insert(b"a", b"1").unwrap();
        tree.split_contended(b"a");
        assert_eq!(tree.pool().statistics().live, 1);
        tree.insert(b"b", b"2").unwrap();
        tree.split_contended(b"b");
        tree.split_contended(b"b");
        tree.verify().unwrap();
        assert_eq!(tree.statistics().get("contention_splits"), Some(1.0));
        tree.split_contended(b"b");
        assert_eq!(tree.statistics().get("contention_splits"), Some(1.0));
    }
}
