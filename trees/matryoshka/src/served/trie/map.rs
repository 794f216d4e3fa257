//! The index: what it owns, and how it is the engine's [`Index`].

use std::ops::ControlFlow;

use hedgerow_index::{
    Decide, Decision, Index, IndexError, ScanRange, Statistics, StatisticsKind, ValuePart, Visit,
};
use hedgerow_memory::Placement;
use hedgerow_simd::Level;
use hedgerow_sync::epoch;

use super::entry::{Entry, entry, release};
use super::find::{Find, FindMany};
use super::item::Item;
use super::scan::Scan;
use super::update::Update;
use crate::served::tree::verify::push_events;
use crate::served::tree::{Events, Tree};
use crate::served::{Capacity, Change, Full};

/// An ordered map from byte strings to byte strings that any number of threads read and write at
/// once: a trie of Matryoshkas.
pub struct MatryoshkaIndex<C: Capacity = Full> {
    pub(crate) tree: Tree<C>,
    pub(crate) level: Level,
    pub(crate) events: Events,
}

impl<C: Capacity> Default for MatryoshkaIndex<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// An empty index that searches with the best kernel of this processor.
    #[must_use]
    pub fn new() -> Self {
        Self::with_level(Level::detect())
    }

    /// An empty index that searches with this kernel.
    #[must_use]
    pub fn with_level(level: Level) -> Self {
        Self::of_tree(Tree::of(Placement::Merged, &[]), level)
    }

    /// The index of a first tree, and of all that its words name.
    pub(crate) fn of_tree(tree: Tree<C>, level: Level) -> Self {
        const { assert!(C::BUCKET >= 1 && C::BUCKET <= 16) };
        Self {
            tree,
            level,
            events: Events::new(),
        }
    }
}

/// The operations of [`Index`] with their callbacks compiled in.
impl<C: Capacity> MatryoshkaIndex<C> {
    /// Runs `read` on the value of `key`, or returns `None` when absent.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let _guard = epoch::pin();
        let found = self.level.run(Find(self, key));
        // SAFETY: an item that was linked when it was found, under the guard held here.
        found.map(|word| read(unsafe { Item::load(word) }.value))
    }

    /// Looks up all `keys` together and calls `read(i, value)` once for each.
    #[inline]
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        let guard = epoch::pin();
        self.level.run(FindMany(
            self,
            keys,
            &guard,
            |at, item: Option<Item<'_>>| {
                read(at, item.map(|item| item.value));
            },
        ));
    }

    /// Atomically replaces, inserts or removes one key; returns what `decide` returned.
    #[inline]
    pub fn update_with<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        let guard = epoch::pin();
        let decide = |present: Option<&[u8]>| {
            new.clear();
            match decide(present, new) {
                Decision::Keep(result) => Change::Keep(result),
                Decision::Remove(result) => Change::Remove(result),
                Decision::Put(result) => Change::Put(Item::store(key, new), result),
            }
        };
        self.level.run(Update(self, key, &guard, decide))
    }

    /// Visits the pairs of a range in key order until `visit` breaks.
    #[inline]
    pub fn scan_range(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        let guard = epoch::pin();
        self.level.run(Scan {
            index: self,
            range: *range,
            guard: &guard,
            visit: |item: Item<'_>| visit(item.key, item.value),
        });
    }
}

/// Values lie in memory, so a head is all of its value.
impl<C: Capacity> Index for MatryoshkaIndex<C> {
    fn get(
        &self,
        key: &[u8],
        _part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        self.get_with(key, read);
        Ok(())
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.get_many(keys, read);
        Ok(())
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        let guard = epoch::pin();
        self.level
            .run(FindMany(self, keys, &guard, |_, _: Option<Item<'_>>| {}));
    }

    fn update(
        &self,
        key: &[u8],
        _part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.update_with(key, new, decide);
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        self.scan_range(range, visit);
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        Ok(self.split_keys(parts))
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        Ok(match kind {
            StatisticsKind::All => self.numbers(),
            StatisticsKind::Counters => {
                let mut statistics = Statistics::new();
                push_events(&mut statistics, &self.events);
                statistics
            }
        })
    }

    fn verify(&self) -> Result<(), String> {
        self.check()
    }
}

impl<C: Capacity> Drop for MatryoshkaIndex<C> {
    fn drop(&mut self) {
        // A stack and not recursion: layers may be thousands deep.
        let mut layers: Vec<u64> = Vec::new();
        let give_back = |tree: &Tree<C>, layers: &mut Vec<u64>| {
            let pages = tree.nodes().into_iter().filter_map(|node| node.page());
            for (_, word) in pages.flat_map(|page| page.pairs()) {
                // SAFETY: `&mut self` says that nobody else uses the index; every block is named
                // once, so that this is its last use.
                unsafe {
                    match entry::<C>(word) {
                        Entry::Layer(_) => layers.push(word),
                        Entry::Item(_) => release::<C>(word),
                        Entry::Bucket(bucket) => {
                            bucket
                                .words()
                                .into_iter()
                                .for_each(|item| release::<C>(item));
                            layers.extend(Some(bucket.layer).filter(|&layer| layer != 0));
                            release::<C>(word);
                        }
                    }
                }
            }
        };
        give_back(&self.tree, &mut layers);
        while let Some(word) = layers.pop() {
            // SAFETY: as above; the layer's nodes go with it, after what they name.
            unsafe {
                if let Entry::Layer(layer) = entry::<C>(word) {
                    give_back(layer.tree, &mut layers);
                }
                release::<C>(word);
            }
        }
    }
}
