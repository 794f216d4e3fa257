//! Cutting the key space into parts of similar numbers of keys.
//!
//! Nodes do not count the keys below them, and a slice may lead to one key or to a layer of
//! millions. So the number below a node is estimated: of the children on one way down each is taken
//! for as large as those beside it (D. Knuth, Estimating the efficiency of backtrack programs,
//! 1975). The part that seems largest is opened next: an inner node becomes its children, a page
//! its slices, and a slice's layer the root of that layer. What is opened corrects the estimate.
//! This ends when no part stands out, or after so many nodes: the work does not grow with the
//! number of keys.

use std::collections::BinaryHeap;

use hedgerow_sync::epoch;

use super::entry::{Entry, entry};
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::scan::least_key;
use crate::served::Capacity;
use crate::served::tree::Node;

/// A part is opened if it seems larger than one of so many of each part that is wanted.
const OVERSAMPLING: u64 = 8;
/// Nodes that an estimate looks at.
const DEEPEST: usize = 64;

/// A piece of the key space.
struct Part<'g> {
    /// No key of it is lower.
    from: Vec<u8>,
    /// How many there seem to be; 0 of a part whose pieces are parts of their own.
    keys: u64,
    /// The node that holds them, and what they begin with; `None` if it cannot be opened.
    node: Option<(Node<u64>, &'g [u8])>,
}

/// The parts that the key space is cut into so far.
#[derive(Default)]
struct Parts<'g> {
    parts: Vec<Part<'g>>,
    /// Those that can be opened: how large each seems, and its place in `parts`.
    closed: BinaryHeap<(u64, usize)>,
    /// How many keys there seem to be.
    keys: u64,
}

impl<'g> Parts<'g> {
    fn add(&mut self, part: Part<'g>) {
        if part.node.is_some() {
            self.closed.push((part.keys, self.parts.len()));
        }
        self.keys = self.keys.saturating_add(part.keys);
        self.parts.push(part);
    }

    /// Puts the pieces of a part in its place.
    ///
    /// # Safety
    ///
    /// The part's node was linked under a guard that lasts for `'g`.
    unsafe fn open<C: Capacity>(&mut self, at: usize) {
        let part = &mut self.parts[at];
        let Some((node, prefix)) = part.node.take() else {
            return;
        };
        if let Some((separators, children)) = node.branches() {
            let (from, keys) = (std::mem::take(&mut part.from), part.keys);
            self.forget(at);
            let froms = separators
                .iter()
                .map(|&separator| least_key(prefix, separator.saturating_add(1)));
            let share = (keys / children.len() as u64).max(1);
            for (from, &child) in std::iter::once(from).chain(froms).zip(&children) {
                let (keys, node) = (share, Some((child, prefix)));
                self.add(Part { from, keys, node });
            }
        } else if let Some(pairs) = node.pairs() {
            self.forget(at);
            for (slice, word) in pairs {
                // SAFETY: read and validated just now, under the caller's guard.
                let (keys, layer) = unsafe { contents::<C>(word) };
                if keys > 0 {
                    let (from, node) = (least_key(prefix, slice), None);
                    self.add(Part { from, keys, node });
                }
                if let Some(layer) = layer
                    && let Some(top) = layer.tree.top()
                {
                    // SAFETY: as the caller promises.
                    let keys = unsafe { estimate::<C>(top) };
                    let (from, node) = (layer.prefix.to_vec(), Some((top, layer.prefix)));
                    self.add(Part { from, keys, node });
                }
            }
        }
    }

    fn forget(&mut self, at: usize) {
        let keys = std::mem::take(&mut self.parts[at].keys);
        self.keys = self.keys.saturating_sub(keys);
    }

    /// Up to `wanted - 1` keys at which parts begin, with similar numbers of keys in between.
    fn cuts(mut self, wanted: u64) -> Vec<Vec<u8>> {
        self.parts.retain(|part| part.keys > 0);
        self.parts
            .sort_unstable_by(|one, other| one.from.cmp(&other.from));
        let total: u128 = self.parts.iter().map(|part| u128::from(part.keys)).sum();
        let (mut cuts, mut before, mut cut_at) = (Vec::new(), 0, 0);
        for part in self.parts {
            let share = before * u128::from(wanted) / total;
            if share > cut_at && cuts.last() != Some(&part.from) {
                cuts.push(part.from);
                cut_at = share;
            }
            before += u128::from(part.keys);
        }
        cuts
    }
}

/// What the word of a slice names: so many items, and the layer of longer keys.
///
/// # Safety
///
/// As for [`entry`].
unsafe fn contents<'g, C: Capacity>(word: u64) -> (u64, Option<Layer<'g, C>>) {
    // SAFETY: as the caller promises; a linked bucket names a linked layer.
    unsafe {
        match entry::<C>(word) {
            Entry::Item(_) => (1, None),
            Entry::Layer(layer) => (0, Some(layer)),
            Entry::Bucket(bucket) => {
                let layer = (bucket.layer != 0).then(|| Layer::load(bucket.layer));
                (bucket.heads.len() as u64, layer)
            }
        }
    }
}

/// How many keys there seem to be below a node, by one way down.
///
/// # Safety
///
/// The node was linked under a guard of the caller's, which still lasts.
unsafe fn estimate<C: Capacity>(mut node: Node<u64>) -> u64 {
    // Nodes taken for as large as this one, and keys of those above.
    let (mut alike, mut keys) = (1_u64, 0_u64);
    for _ in 0..DEEPEST {
        if let Some((_, children)) = node.branches() {
            alike = alike.saturating_mul(children.len() as u64);
            node = children[children.len() / 2];
            continue;
        }
        let (mut items, mut layers) = (0, Vec::new());
        for (_, word) in node.pairs().unwrap_or_default() {
            // SAFETY: read and validated just now, under the caller's guard.
            let (count, layer) = unsafe { contents::<C>(word) };
            items += count;
            layers.extend(layer);
        }
        keys = keys.saturating_add(alike.saturating_mul(items));
        alike = alike.saturating_mul(layers.len() as u64);
        match layers
            .get(layers.len() / 2)
            .and_then(|layer| layer.tree.top())
        {
            Some(top) => node = top,
            None => break,
        }
    }
    keys.max(1)
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Up to `parts - 1` ascending keys that cut the key space into parts of similar numbers of
    /// keys, in whatever layers they are.
    pub(crate) fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let guard = epoch::pin();
        let mut cut = Parts::default();
        let Some(top) = self.tree.top() else {
            return Vec::new();
        };
        cut.add(Part {
            from: Vec::new(),
            // SAFETY: linked a moment ago, under the guard.
            keys: unsafe { estimate::<C>(top) },
            node: Some((top, &[])),
        });
        let pieces = parts as u64 * OVERSAMPLING;
        // Nodes on the ways to these pieces are opened, too.
        for _ in 0..4 * pieces {
            let largest = cut.closed.pop();
            let Some((_, at)) = largest.filter(|(keys, _)| *keys > cut.keys / pieces) else {
                break;
            };
            // SAFETY: reached from the top, under the guard.
            unsafe { cut.open::<C>(at) };
        }
        drop(guard);
        cut.cuts(parts as u64)
    }
}
