//! Visiting keys in order, through all layers, and cutting the key space into parts.
//!
//! A stack of trees, one for each layer that the scan is in; nothing is latched, and nothing is
//! allocated before the first layer. Until the first key beyond the bound, layers whose prefix says
//! that they lie before it are passed over, and the one that the bound leads into is entered at the
//! bound's slice.
//!
//! A layer may fold while the scan is in it: its keys, which may have come to lie in any tree
//! above, are then looked for from the top, with a bound where the scan stood.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::Direction;
use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::epoch::{self, Guard};

use super::bucket::Bucket;
use super::entry::{Entry, entry, prefetch};
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use crate::served::Capacity;
use crate::served::SharedLane;
use crate::served::tree::Tree;

/// `scan`, for a kernel.
pub(crate) struct Scan<'a, C: Capacity, F>(
    pub(crate) &'a MatryoshkaIndex<C>,
    pub(crate) Bound<&'a [u8]>,
    pub(crate) Direction,
    pub(crate) &'a Guard,
    pub(crate) F,
);

/// A tree that the scan is in.
struct Frame<'g, C: Capacity> {
    tree: &'g Tree<C>,
    /// What all keys of the tree begin with.
    prefix: &'g [u8],
    /// The next slice; `None` when all have been seen.
    cursor: Option<u64>,
    /// A bucket whose items come after its layer's, in the reverse direction.
    pending: Option<Bucket<'g>>,
}

/// Why the scan of one tree pauses.
enum Pause<'g, C: Capacity> {
    /// The visitor broke the scan.
    Finished,
    /// A layer begins, at this slice.
    Descend(u64, Layer<'g, C>, Option<Bucket<'g>>),
}

/// Keys from a bound on, in a direction.
struct Visitor<'a, F> {
    from: Bound<Cow<'a, [u8]>>,
    direction: Direction,
    /// Whether a key beyond the bound was seen: then all that follow are.
    inside: bool,
    visit: F,
}

impl<F: FnMut(Item<'_>) -> ControlFlow<()>> Visitor<'_, F> {
    #[inline(always)]
    fn show<'g, C: Capacity>(&mut self, item: Item<'_>) -> ControlFlow<Pause<'g, C>> {
        if !self.inside {
            self.inside = match (self.from.as_ref().map(AsRef::as_ref), self.direction) {
                (Bound::Unbounded, _) => true,
                (Bound::Included(key), Direction::Forward) => item.key >= key,
                (Bound::Excluded(key), Direction::Forward) => item.key > key,
                (Bound::Included(key), Direction::Reverse) => item.key <= key,
                (Bound::Excluded(key), Direction::Reverse) => item.key < key,
            };
        }
        if self.inside && (self.visit)(item).is_break() {
            return ControlFlow::Break(Pause::Finished);
        }
        ControlFlow::Continue(())
    }

    fn show_bucket<'g, C: Capacity>(&mut self, bucket: &Bucket<'_>) -> ControlFlow<Pause<'g, C>> {
        let count = bucket.heads.len();
        for number in 0..count {
            let at = match self.direction {
                Direction::Forward => number,
                Direction::Reverse => count - 1 - number,
            };
            self.show(bucket.item(at))?;
        }
        ControlFlow::Continue(())
    }

    /// The first slice of a tree at `offset` whose keys begin with `prefix`; `None` when all of
    /// them lie before the bound.
    fn start(&self, prefix: &[u8]) -> Option<u64> {
        let whole = match self.direction {
            Direction::Forward => 0,
            Direction::Reverse => u64::MAX,
        };
        let key: &[u8] = match &self.from {
            Bound::Included(key) | Bound::Excluded(key) if !self.inside => key,
            _ => return Some(whole),
        };
        if key.starts_with(prefix) {
            return Some(slice(key, prefix.len()));
        }
        let ahead = match self.direction {
            Direction::Forward => prefix > key,
            Direction::Reverse => prefix < key,
        };
        ahead.then_some(whole)
    }

    /// Restarts the scan at the keys of a tree from slice `cursor` on, wherever they are now.
    fn restart_at(&mut self, prefix: &[u8], cursor: u64) {
        if !self.inside {
            return;
        }
        self.inside = false;
        self.from = match self.direction {
            // All keys go on after the prefix, and one that ends there was shown before.
            Direction::Forward if cursor == 0 => Bound::Excluded(Cow::Owned(prefix.to_vec())),
            Direction::Forward => Bound::Included(Cow::Owned(least_key(prefix, cursor))),
            Direction::Reverse => match key_beyond_slice(prefix, cursor) {
                Some(key) => Bound::Excluded(Cow::Owned(key)),
                None => Bound::Unbounded,
            },
        };
    }

    /// Shows what a word names; pauses where a layer begins.
    #[inline(always)]
    fn show_entry<'g, C: Capacity>(&mut self, slice: u64, word: u64) -> ControlFlow<Pause<'g, C>> {
        // SAFETY: read and validated just now, under the scan's guard.
        let bucket = match unsafe { entry::<C>(word) } {
            Entry::Item(item) => return self.show(item),
            Entry::Layer(layer) => return ControlFlow::Break(Pause::Descend(slice, layer, None)),
            Entry::Bucket(bucket) => bucket,
        };
        if bucket.layer == 0 {
            return self.show_bucket(&bucket);
        }
        // SAFETY: the bucket names the layer; the same guard keeps both.
        let layer = unsafe { Layer::load(bucket.layer) };
        // Keys that end within the slice come before those that go on.
        match self.direction {
            Direction::Forward => {
                self.show_bucket(&bucket)?;
                ControlFlow::Break(Pause::Descend(slice, layer, None))
            }
            Direction::Reverse => ControlFlow::Break(Pause::Descend(slice, layer, Some(bucket))),
        }
    }
}

/// The least key that begins with `prefix` and has this slice behind it: keys are padded with zeros
/// to slices, so that it is the one without any at its end.
fn least_key(prefix: &[u8], slice: u64) -> Vec<u8> {
    let bytes = slice.to_be_bytes();
    let zeros = (slice.trailing_zeros() / 8) as usize;
    [prefix, &bytes[..bytes.len() - zeros]].concat()
}

/// A key above all that begin with `prefix` and have this slice or a lower one behind it, and not
/// above any other; `None` when no key is.
fn key_beyond_slice(prefix: &[u8], slice: u64) -> Option<Vec<u8>> {
    if let Some(next) = slice.checked_add(1) {
        return Some(least_key(prefix, next));
    }
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

impl<'a, C, F> Task for Scan<'a, C, F>
where
    C: Capacity,
    F: FnMut(Item<'_>) -> ControlFlow<()>,
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(index, from, direction, _guard, visit) = self;
        let mut visitor = Visitor {
            from: from.map(Cow::Borrowed),
            direction,
            inside: false,
            visit,
        };
        let mut above: Vec<Frame<'a, C>> = Vec::new();
        let first = |visitor: &Visitor<'_, F>| Frame {
            tree: &index.tree,
            prefix: &[],
            cursor: visitor.start(&[]),
            pending: None,
        };
        let mut frame = first(&visitor);
        loop {
            if let Some(bucket) = frame.pending.take()
                && visitor.show_bucket::<C>(&bucket).is_break()
            {
                return;
            }
            let outcome = match frame.cursor {
                Some(cursor) => {
                    frame
                        .tree
                        .scan::<N, _>(cursor, direction, &index.events, |pairs| {
                            pairs.iter().for_each(|pair| prefetch(pair.1));
                            pairs
                                .iter()
                                .try_for_each(|&(slice, word)| visitor.show_entry(slice, word))
                        })
                }
                None => Ok(ControlFlow::Continue(())),
            };
            match outcome {
                Err(cursor) => {
                    visitor.restart_at(frame.prefix, cursor);
                    above.clear();
                    frame = first(&visitor);
                }
                Ok(ControlFlow::Break(Pause::Finished)) => return,
                Ok(ControlFlow::Break(Pause::Descend(slice, layer, pending))) => {
                    frame.cursor = slice.beyond(direction);
                    frame.pending = pending;
                    above.push(frame);
                    frame = Frame {
                        tree: layer.tree,
                        prefix: layer.prefix,
                        cursor: visitor.start(layer.prefix),
                        pending: None,
                    };
                }
                Ok(ControlFlow::Continue(())) => match above.pop() {
                    Some(before) => frame = before,
                    None => return,
                },
            }
        }
    }
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Keys that cut the first tree with more than one slice into parts of similar numbers of
    /// leaf lines.
    pub(crate) fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let _guard = epoch::pin();
        let (mut tree, mut prefix) = (&self.tree, Vec::new());
        loop {
            let pages = tree.nodes().into_iter().filter_map(|node| node.page());
            let lines: Vec<u64> = pages
                .flat_map(|page| (0..page.lines()).map(|line| page.leaf(line).key(0)))
                .collect();
            let wanted = parts.saturating_sub(1).min(lines.len().saturating_sub(1));
            let mut split_keys: Vec<Vec<u8>> = (1..=wanted)
                .map(|cut| lines[cut * lines.len() / (wanted + 1)])
                .map(|slice| [&prefix[..], &slice.to_be_bytes()].concat())
                .collect();
            // Writers may have moved lines while they were listed.
            split_keys.sort_unstable();
            split_keys.dedup();
            let Some(layer) = self.only_layer(tree).filter(|_| split_keys.is_empty()) else {
                return split_keys;
            };
            (tree, prefix) = (layer.tree, layer.prefix.to_vec());
        }
    }

    /// The layer that holds all of a tree, if one does.
    pub(crate) fn only_layer<'g>(&'g self, tree: &'g Tree<C>) -> Option<Layer<'g, C>> {
        let pages = tree.nodes().into_iter().filter_map(|node| node.page());
        let words: Vec<u64> = pages
            .flat_map(|page| page.pairs())
            .map(|pair| pair.1)
            .collect();
        match words[..] {
            // SAFETY: read under the caller's guard, from a place that was in use.
            [word] => match unsafe { entry::<C>(word) } {
                Entry::Layer(layer) => Some(layer),
                _ => None,
            },
            _ => None,
        }
    }
}
