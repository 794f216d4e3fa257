//! The bulk load of byte keys: ascending pairs become a trie from below, and appear at once.
//!
//! All items are stored first. Then each tree is built from its slices and their words, the deepest
//! first, with a stack of trees that have begun: keys of 64 KiB may lead thousands of layers down.
//! Nobody else knows of any of it until the first tree takes the place of the empty index's page.

use std::ops::Range;

use hedgerow_index::NotAscending;
use hedgerow_sync::epoch;

use super::entry::is_long;
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use super::update::{entry_word, layer_offset};
use crate::served::tree::Tree;
use crate::served::{Capacity, LoadError};

/// Items that nobody else knows of, ascending by key; given back unless they are taken.
struct Items(Vec<u64>);

impl Drop for Items {
    fn drop(&mut self) {
        for &word in &self.0 {
            // SAFETY: stored by `push` and linked nowhere, so that this is the last use.
            unsafe { Item::release(word) }
        }
    }
}

impl Items {
    fn key(&self, at: usize) -> &[u8] {
        // SAFETY: stored by `push`, and released only when `self` goes.
        unsafe { Item::load(self.0[at]) }.key
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), NotAscending> {
        let position = self.0.len();
        if position > 0 && self.key(position - 1) >= key {
            return Err(NotAscending { position });
        }
        self.0.push(Item::store(key, value));
        Ok(())
    }

    /// The word for some of them and perhaps a layer.
    fn entry_word(&self, some: Range<usize>, layer: u64) -> u64 {
        // SAFETY: live items, ascending, and at least one where there is no layer.
        unsafe { entry_word(&self.0[some], layer) }
    }

    /// How many of the items from `some.start` on have the same slice at `offset`.
    fn same_slice_count(&self, some: &Range<usize>, offset: usize) -> usize {
        let first = slice(self.key(some.start), offset);
        let same = |at: &usize| slice(self.key(*at), offset) == first;
        some.clone().take_while(same).count()
    }
}

/// A tree of which some entries are built.
struct PartialTree {
    /// Items that have no word yet.
    rest: Range<usize>,
    /// Where their slices begin.
    offset: usize,
    /// Slices and their words so far.
    pairs: Vec<(u64, u64)>,
    /// Items beside it, whose keys end within the slice that leads to it.
    short: Range<usize>,
}

/// The slices and words of the first tree of these items.
fn build<C: Capacity>(items: &Items) -> Vec<(u64, u64)> {
    let start = |rest, offset, short| PartialTree {
        rest,
        offset,
        pairs: Vec::new(),
        short,
    };
    let mut above: Vec<PartialTree> = Vec::new();
    let mut tree = start(0..items.0.len(), 0, 0..0);
    loop {
        if tree.rest.is_empty() {
            let Some(parent) = above.pop() else {
                return tree.pairs;
            };
            // The first item behind those beside it is the first of its own.
            let first = items.key(tree.short.end);
            let prefix = &first[..tree.offset];
            let layer = Layer::store(prefix, Tree::<C>::built(tree.pairs));
            let word = items.entry_word(tree.short, layer);
            let at = slice(first, parent.offset);
            tree = parent;
            tree.pairs.push((at, word));
            continue;
        }
        let from = tree.rest.start;
        let group = from..from + items.same_slice_count(&tree.rest, tree.offset);
        tree.rest.start = group.end;
        // Longer keys of one slice sort behind shorter ones.
        let is_short = |at: &usize| !is_long(items.key(*at), tree.offset);
        let short = from..from + group.clone().take_while(is_short).count();
        if group.len() <= C::BUCKET || short.end == group.end {
            let at = slice(items.key(from), tree.offset);
            tree.pairs.push((at, items.entry_word(group, 0)));
            continue;
        }
        let long = short.end..group.end;
        let offset = layer_offset(items.key(long.start), items.key(long.end - 1));
        let layer = start(long, offset, short);
        above.push(std::mem::replace(&mut tree, layer));
    }
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Fills an empty index with pairs whose keys ascend strictly, in one pass from below: much
    /// faster than inserts, and nodes are left an eighth of their room. Other threads find no pair
    /// before some moment, and every pair after it. Takes up to 24 bytes a
    /// key until then, and what vectors have in reserve.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the keys do not ascend, or when there are keys at that moment and keys to
    /// load; the index stays as it was.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), LoadError> {
        let mut items = Items(Vec::new());
        for (key, value) in pairs {
            let pushed = items.push(key.as_ref(), value.as_ref());
            pushed.map_err(LoadError::NotAscending)?;
        }
        if items.0.is_empty() {
            return Ok(());
        }
        // All of it goes with this index, should it come to nothing.
        let built = Self::of_tree(Tree::built(build::<C>(&items)), self.level);
        items.0.clear();
        let guard = epoch::pin();
        if self.tree.take_contents_of(&built.tree, &guard) {
            Ok(())
        } else {
            Err(LoadError::NotEmpty)
        }
    }
}
