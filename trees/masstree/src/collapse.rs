//! Collapsing layers that became empty or hold a single key (§4.6.5).
//!
//! Normal operations latch within one layer at a time; taking a layer away needs its nodes
//! and the entry above it. So a remove that leaves a layer with no key, or with one key that
//! is no layer itself, collapses the layer when it holds no latch any more. It looks the layer's
//! prefix up again, so an outdated prefix does no harm.
//!
//! Two keys that alone share many slices made as many layers, all but the last of which have one
//! entry. These go together, so a removal pays for all that its key's insert made: the collapse
//! begins at the *top*, the lowest layer above that has more than one entry (or is the first).
//! It latches the entry's border node `B` there, then the first border node `L` of the layer
//! below. If `L` has no siblings and at most one entry, then it is the whole layer (its latch
//! keeps it so: siblings come by splitting `L`, and an unlinking in progress would hold `L`'s
//! latch too, as the left sibling's), and its ancestors have one child each. While that entry
//! is a layer, the collapse goes on with the first border node of that.
//!
//! All these nodes are marked deleted, with the ancestors of each `L` up to its layer's root, so
//! that operations in them restart at the root. Nobody else has latched these: a writer that has
//! is about to add or remove a second child below, so that `L` would have a sibling. Then
//! * if the last layer is empty, the entry is removed from `B` like a key (which may empty `B` in
//!   turn);
//! * if it has a single key, the entry becomes a suffix again: the slot goes *unstable*, suffix
//!   and value are stored, then *suffix*. This direction marks `B` as inserting, because a reader
//!   that met the slot as suffix before it ever was a layer could otherwise mistake the layer
//!   pointer for a value.
//!
//! The layer of `B` may now hold a single key in turn: the same removal then collapses that. Where
//! writers change layers again and again while a removal latches them, it gives up after
//! [`ATTEMPTS`] and leaves the prefix to later removals.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use hedgerow_simd::{Kernel, Task};

use crate::configuration::{Configuration, Latch};
use crate::descend::{Found, LayerEntry};
use crate::key::{Key, LONG, class_of};
use crate::node::border::{LAYER, SUFFIX, UNSTABLE};
use crate::node::{Border, Interior, Node, ReplacedBag};
use crate::split::lock_parent;
use crate::statistics::Event;
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// How often one removal tries to collapse layers, most of which need one attempt or two.
const ATTEMPTS: usize = 64;

/// Prefixes beyond this many, or of more bytes in all, are dropped: an uncollapsed layer only
/// costs memory.
const MAX_WAITING: usize = 1 << 16;
const MAX_WAITING_BYTES: usize = 1 << 22;

/// Prefixes of layers that may have to be collapsed.
#[derive(Default)]
pub(crate) struct CollapseQueue {
    /// How many; read without the lock.
    waiting: AtomicUsize,
    prefixes: Mutex<Prefixes>,
}

#[derive(Default)]
struct Prefixes {
    queue: VecDeque<Box<[u8]>>,
    /// Of all prefixes.
    bytes: usize,
}

impl CollapseQueue {
    fn lock(&self) -> MutexGuard<'_, Prefixes> {
        self.prefixes
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[cold]
    fn push(&self, prefix: &[u8]) {
        let mut prefixes = self.lock();
        let bytes = prefixes.bytes + prefix.len();
        let is_full = prefixes.queue.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES;
        if is_full || prefixes.queue.back().is_some_and(|last| **last == *prefix) {
            return;
        }
        prefixes.queue.push_back(prefix.into());
        prefixes.bytes = bytes;
        self.waiting.store(prefixes.queue.len(), Ordering::Relaxed);
    }

    fn pop(&self) -> Option<Box<[u8]>> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut prefixes = self.lock();
        let prefix = prefixes.queue.pop_front();
        prefixes.bytes -= prefix.as_ref().map_or(0, |prefix| prefix.len());
        self.waiting.store(prefixes.queue.len(), Ordering::Relaxed);
        prefix
    }
}

/// What came of an attempt to collapse a layer.
enum Outcome {
    /// It is collapsed, or there is no need any more.
    Done,
    /// It is collapsed, and the layer whose prefix has so many bytes is to be collapsed too.
    Above(usize),
    /// Another writer changed the way to it: try again.
    Changed,
}

/// A latched layer of one border node.
struct OnlyNode<'g> {
    /// What the entry above names.
    root: *mut Node,
    border: &'g Border,
}

struct Collapse<'t, 'g, V: Value, C: Configuration> {
    tree: &'t Masstree<V, C>,
    guard: &'t C::Guard<'g>,
    prefix: &'t [u8],
}

impl<V: Value, C: Configuration> Task for Collapse<'_, '_, V, C> {
    type Output = Outcome;

    fn run<K: Kernel>(self) -> Outcome {
        self.tree.collapse::<K>(self.guard, self.prefix)
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Collapses the layer that a removal says it emptied, by prefix, and a little of what waits.
    /// The caller holds no latch.
    #[inline(always)]
    pub(crate) fn collapse_after_removal(&self, guard: &C::Guard<'_>, emptied: Option<&[u8]>) {
        if emptied.is_some() || self.deferred.waiting.load(Ordering::Relaxed) != 0 {
            self.collapse_emptied_and_deferred(guard, emptied);
        }
    }

    #[cold]
    #[inline(never)]
    fn collapse_emptied_and_deferred(&self, guard: &C::Guard<'_>, emptied: Option<&[u8]>) {
        if let Some(prefix) = emptied {
            self.collapse_upwards(guard, prefix);
        }
        for _ in 0..2 {
            let Some(prefix) = self.deferred.pop() else {
                return;
            };
            self.collapse_upwards(guard, &prefix);
        }
    }

    /// Collapses every layer that waits for it. A removal collapses what it empties itself, but
    /// leaves layers behind that other writers kept changing; later removals do these a few at a
    /// time. Call this to have it done now.
    pub fn collapse_deferred(&self) {
        let guard = C::write(&self.entry);
        while let Some(prefix) = self.deferred.pop() {
            self.collapse_upwards(&guard, &prefix);
        }
    }

    /// Collapses a layer, and then those above for which that is a reason.
    fn collapse_upwards(&self, guard: &C::Guard<'_>, prefix: &[u8]) {
        let (mut prefix, mut rounds) = (prefix, 0);
        for _ in 0..ATTEMPTS {
            let collapse = Collapse {
                tree: self,
                guard,
                prefix,
            };
            match self.level.run(collapse) {
                Outcome::Done => return,
                Outcome::Above(bytes) => prefix = &prefix[..bytes],
                Outcome::Changed => rounds = Latch::<C>::pause(rounds),
            }
        }
        self.deferred.push(prefix);
    }

    /// Latches the border node, in the lowest layer that is to stay, with the entry on the way to
    /// the layer that `path` (prefix and one more byte) leads to; returns the entry and its key.
    fn latch_top<'k, 'g, K: Kernel>(
        &self,
        path: &'k [u8],
    ) -> Result<(LayerEntry<'g>, Key<'k>), Outcome> {
        let mut key = Key::new(path);
        let mut root = self.root();
        let mut top = None;
        let (node, version, key) = loop {
            let (node, version) = self
                .find_border::<K>(root, key.slice())
                .ok_or(Outcome::Changed)?;
            let (layer, entry) = match self.examine::<K>(node, version, &key) {
                Found::Layer(layer, entry) => (layer, entry),
                Found::Missing | Found::Value(_) => return Err(Outcome::Done),
                Found::Restart => return Err(Outcome::Changed),
            };
            // Only a guess until the nodes are latched.
            let here = (node, version, key);
            let above = *top.get_or_insert(here);
            let at = if is_alone(entry.node, 1) { above } else { here };
            if path.len() - key.offset() <= LONG.into() {
                break at;
            }
            top = Some(at);
            root = layer;
            key = key.descend();
        };
        let node = self
            .latch_responsible(node, version, key.slice())
            .ok_or(Outcome::Changed)?;
        let permutation = node.permutation();
        let slot = (0..permutation.count())
            .map(|index| permutation.slot(index))
            .find(|&slot| node.slice(slot) == key.slice() && node.length(slot) == LAYER);
        let Some(slot) = slot else {
            Latch::<C>::unlock(&node.version);
            return Err(Outcome::Done);
        };
        Ok((LayerEntry { node, slot }, key))
    }

    fn collapse<K: Kernel>(&self, guard: &C::Guard<'_>, prefix: &[u8]) -> Outcome {
        let path = [prefix, &[0]].concat();
        let (entry, key) = match self.latch_top::<K>(&path) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let LayerEntry { node: above, slot } = entry;
        let mut layers = Vec::new();
        if !latch_layers::<C>(layer_root(above.value(slot)), &mut layers) {
            unlatch_layers::<C>(&layers);
            Latch::<C>::unlock(&above.version);
            // With a layer on the way that got a second entry, the top is another one now.
            return if key.offset() + 8 * layers.len() < prefix.len() {
                Outcome::Changed
            } else {
                Outcome::Done
            };
        }
        let mut ancestors = Vec::new();
        for layer in &layers {
            delete_with_ancestors::<C>(layer.border, &mut ancestors);
        }
        let rest = remainder(&layers);
        let folded = rest.map(|(rest, word)| self.fold(entry, &key, &rest, word));
        for ancestor in &ancestors {
            Latch::<C>::unlock(&ancestor.version);
        }
        unlatch_layers::<C>(&layers);
        let (replaced, collapsible) =
            folded.unwrap_or_else(|| (None, self.remove_slot(guard, above, slot, &key)));
        self.counters
            .add(Event::LayerCollapse as usize, layers.len() as i64);
        for OnlyNode { root, border } in layers {
            self.retire_forwarding(guard, root, border.as_node());
            self.retire_node(guard, border.as_node());
        }
        for ancestor in ancestors {
            self.retire_node(guard, std::ptr::from_ref(ancestor).cast_mut().cast());
        }
        self.retire_bag(guard, replaced);
        if collapsible {
            Outcome::Above(key.offset())
        } else {
            Outcome::Done
        }
    }

    /// Makes the entry a long key with this rest and value, and unlatches the entry's node. Returns
    /// the bag of suffixes that this replaced, and whether the layer is now to be collapsed.
    fn fold(
        &self,
        entry: LayerEntry<'_>,
        key: &Key<'_>,
        rest: &[u8],
        word: u64,
    ) -> (Option<ReplacedBag>, bool) {
        let LayerEntry { node: above, slot } = entry;
        debug_assert_eq!(class_of(8 + rest.len()), LONG);
        Latch::<C>::mark_inserting(&above.version);
        above.set_length(slot, UNSTABLE);
        let replaced = self.store_suffix(above, slot, rest);
        above.set_value(slot, word);
        above.set_length(slot, SUFFIX);
        let collapsible = key.offset() > 0 && is_alone(above, 1);
        Latch::<C>::unlock(&above.version);
        (replaced, collapsible)
    }
}

/// Whether a border node is the only one of its layer, with at most so many entries. True for good
/// only while it is latched.
fn is_alone(border: &Border, entries: usize) -> bool {
    border.prev().is_null() && border.next().is_null() && border.permutation().count() <= entries
}

/// Latches the only border nodes of the layer of `root` and of each layer that is the only entry
/// of the one before. Says whether they end in a layer with no key or one; what is latched is in
/// `layers` in any case.
fn latch_layers<'g, C: Configuration>(root: *mut Node, layers: &mut Vec<OnlyNode<'g>>) -> bool {
    let mut root = root;
    loop {
        let Some(border) = latch_first::<C>(root) else {
            return false;
        };
        layers.push(OnlyNode { root, border });
        if !is_alone(border, 1) {
            return false;
        }
        let permutation = border.permutation();
        let only = permutation.slot(0);
        if permutation.count() == 0 || border.length(only) != LAYER {
            return true;
        }
        root = layer_root(border.value(only));
    }
}

fn unlatch_layers<C: Configuration>(layers: &[OnlyNode<'_>]) {
    for layer in layers.iter().rev() {
        Latch::<C>::unlock(&layer.border.version);
    }
}

/// What the key in these latched layers, each of which has one entry, goes on with, and its value
/// word; `None` if the last layer is empty.
fn remainder(layers: &[OnlyNode<'_>]) -> Option<(Vec<u8>, u64)> {
    let mut rest = Vec::new();
    let mut word = None;
    for OnlyNode { border, .. } in layers {
        let permutation = border.permutation();
        let only = (permutation.count() > 0).then(|| permutation.slot(0))?;
        let length = border.length(only);
        let slice = border.slice(only).to_be_bytes();
        rest.extend_from_slice(&slice[..usize::from(length.min(8))]);
        if length == SUFFIX {
            // SAFETY: the node is latched and pinned.
            rest.extend(unsafe { border.suffix(only) }.into_iter().flatten());
        }
        word = Some(border.value(only));
    }
    word.map(|word| (rest, word))
}

/// Latches the first border node of a layer, given any node on its leftmost path.
fn latch_first<'g, C: Configuration>(root: *mut Node) -> Option<&'g Border> {
    // The leftmost path below any node on it ends in the first border node, which lives as long as
    // the layer; the layer lives, since its entry is latched.
    let mut node = root;
    loop {
        // SAFETY: nodes of this path are not deleted before their layer, whose entry we latched.
        let header = unsafe { &*node };
        if !header.version.load().is_border() {
            // SAFETY: as above; the kind was just read.
            node = unsafe { &*node.cast::<Interior>() }.child(0);
            continue;
        }
        // SAFETY: as above.
        let first = unsafe { &*node.cast::<Border>() };
        Latch::<C>::lock(&first.version);
        let replacement = first.replacement();
        if replacement.is_null() && !first.version.load().is_deleted() {
            return Some(first);
        }
        Latch::<C>::unlock(&first.version);
        if replacement.is_null() {
            return None;
        }
        node = replacement.cast();
    }
}

/// Marks the latched only border node of a layer and all its ancestors deleted; adds the
/// ancestors, latched, to `ancestors`.
fn delete_with_ancestors<C: Configuration>(first: &Border, ancestors: &mut Vec<&Interior>) {
    Latch::<C>::mark_deleted(&first.version);
    if first.is_narrow() {
        return; // it has no parent, and another use for that word
    }
    let mut child = first.as_node();
    // SAFETY: `child` is latched by us.
    while let Some(parent) = lock_parent::<C>(unsafe { &*child }) {
        debug_assert_eq!(parent.count(), 0, "the only border node has no siblings");
        Latch::<C>::mark_deleted(&parent.version);
        ancestors.push(parent);
        child = std::ptr::from_ref(parent).cast_mut().cast();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_keeps_no_prefix_twice_in_a_row_and_few_bytes() {
        let queue = CollapseQueue::default();
        for prefix in [b"12345678", b"12345678", b"abcdefgh", b"12345678"] {
            queue.push(prefix);
        }
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected: [&[u8]; 3] = [b"12345678", b"abcdefgh", b"12345678"];
        assert!(popped.iter().map(|prefix| &**prefix).eq(expected));
        let long = |first: u8| [&[first][..], &[0; 65_527]].concat();
        (0..=u8::MAX).for_each(|first| queue.push(&long(first)));
        let count = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!(count, MAX_WAITING_BYTES / 65_528);
        queue.push(b"12345678");
        assert!(queue.pop().is_some() && queue.pop().is_none(), "room again");
    }
}
