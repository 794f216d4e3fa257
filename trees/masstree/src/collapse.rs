//! Collapsing layers that became empty or hold a single key (§4.6.5).
//!
//! Normal operations latch within one layer at a time; taking a layer away needs its nodes
//! and the entry above it. So a remove that leaves a layer with no key, or with one key that
//! is no layer itself, only enqueues the layer's prefix. That operation (or a later remove)
//! collapses the layer when it holds no latch any more. It looks the prefix up again, so an
//! outdated prefix does no harm.
//!
//! The collapse latches the entry's border node `B`, then the layer's first border node `L`,
//! then `L`'s ancestors up to the layer's root. If `L` has no siblings and at most one key,
//! then it is the whole layer (its latch keeps it so: siblings come by splitting `L`, and an
//! unlinking in progress would hold `L`'s latch too, as the left sibling's), and its
//! ancestors have one child each. All of them are marked deleted, so that operations in
//! them restart at the root, and
//! * an empty layer's entry is removed from `B` like a key (which may empty `B` in turn);
//! * a single key's entry becomes a suffix again: the slot goes *unstable*, suffix and value
//!   are stored, then *suffix*. This direction marks `B` as inserting, because a reader that
//!   met the slot as suffix before it ever was a layer could otherwise mistake the layer
//!   pointer for a value.
//!
//! Collapses cascade: the layer above may now hold a single key in turn, and is enqueued.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Prefixes of layers that may have to be collapsed.
#[derive(Default)]
pub(crate) struct CollapseQueue {
    waiting: AtomicUsize,
    prefixes: Mutex<VecDeque<Box<[u8]>>>,
}

/// Prefixes beyond this many are dropped: an uncollapsed layer only costs memory.
const LIMIT: usize = 1 << 16;

impl CollapseQueue {
    pub fn push(&self, prefix: &[u8]) {
        let mut prefixes = self
            .prefixes
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if prefixes.len() < LIMIT {
            prefixes.push_back(prefix.into());
            self.waiting.store(prefixes.len(), Ordering::Relaxed);
        }
    }

    fn pop(&self) -> Option<Box<[u8]>> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut prefixes = self
            .prefixes
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let prefix = prefixes.pop_front();
        self.waiting.store(prefixes.len(), Ordering::Relaxed);
        prefix
    }
}

struct Collapse<'t, 'g, V: Value, C: Configuration> {
    tree: &'t Masstree<V, C>,
    guard: &'t C::Guard<'g>,
    prefix: &'t [u8],
}

impl<V: Value, C: Configuration> Task for Collapse<'_, '_, V, C> {
    type Output = ();

    fn run<K: Kernel>(self) {
        self.tree.collapse::<K>(self.guard, self.prefix);
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Does a little of the deferred work; called by removes that hold no latch.
    #[inline(always)]
    pub(crate) fn maintain_some(&self, guard: &C::Guard<'_>) {
        if self.deferred.waiting.load(Ordering::Relaxed) != 0 {
            self.maintain_two(guard);
        }
    }

    #[cold]
    #[inline(never)]
    fn maintain_two(&self, guard: &C::Guard<'_>) {
        for _ in 0..2 {
            let Some(prefix) = self.deferred.pop() else {
                return;
            };
            self.level.run(Collapse {
                tree: self,
                guard,
                prefix: &prefix,
            });
        }
    }

    /// Does all deferred work: collapses every enqueued layer that is empty or single-keyed.
    /// Removes do this a little at a time; call it to have it done now.
    pub fn maintain(&self) {
        let guard = C::write(&self.entry);
        while let Some(prefix) = self.deferred.pop() {
            self.level.run(Collapse {
                tree: self,
                guard: &guard,
                prefix: &prefix,
            });
        }
    }

    /// Latches the border node with the entry of the layer that `path` (prefix and one more
    /// byte) leads to; returns the entry and its key.
    fn latch_entry<'k, 'g, K: Kernel>(&self, path: &'k [u8]) -> Option<(LayerEntry<'g>, Key<'k>)> {
        let mut key = Key::new(path);
        let mut root = self.root();
        loop {
            let (node, version) = self.find_border::<K>(root, key.slice())?;
            let Found::Layer(layer, ..) = self.examine::<K>(node, version, &key) else {
                return None;
            };
            if path.len() - key.offset() > LONG.into() {
                root = layer;
                key = key.descend();
                continue;
            }
            let node = self.latch_responsible(node, version, key.slice())?;
            let permutation = node.permutation();
            let slot = (0..permutation.count())
                .map(|index| permutation.slot(index))
                .find(|&slot| node.slice(slot) == key.slice() && node.length(slot) == LAYER);
            if slot.is_none() {
                Latch::<C>::unlock(&node.version);
            }
            let slot = slot?;
            return Some((LayerEntry { node, slot }, key));
        }
    }

    fn collapse<K: Kernel>(&self, guard: &C::Guard<'_>, prefix: &[u8]) {
        let mut path = prefix.to_vec();
        path.push(0);
        let Some((entry, key)) = self.latch_entry::<K>(&path) else {
            return;
        };
        let LayerEntry { node: above, slot } = entry;
        let layer = layer_root(above.value(slot));
        let Some(first) = latch_first::<C>(layer) else {
            Latch::<C>::unlock(&above.version);
            return;
        };
        let permutation = first.permutation();
        let alone = first.next().is_null() && first.prev().is_null();
        let single = (permutation.count() == 1).then(|| permutation.slot(0));
        let worthwhile = match single {
            Some(only) => first.length(only) != LAYER,
            None => permutation.count() == 0,
        };
        if !alone || !worthwhile {
            Latch::<C>::unlock(&first.version);
            Latch::<C>::unlock(&above.version);
            return;
        }
        let ancestors = delete_with_ancestors::<C>(first);
        let replaced = single.and_then(|only| self.fold(entry, &key, first, only));
        for ancestor in &ancestors {
            Latch::<C>::unlock(&ancestor.version);
        }
        Latch::<C>::unlock(&first.version);
        if single.is_none() {
            self.remove_slot(guard, above, slot, &key);
        }
        self.counters.count(Event::LayerCollapse as usize);
        self.retire_forwarding(guard, layer, first.as_node());
        for ancestor in ancestors {
            self.retire_node(guard, std::ptr::from_ref(ancestor).cast_mut().cast());
        }
        self.retire_node(guard, first.as_node());
        self.retire_bag(guard, replaced);
    }

    /// Makes the layer's only key a suffix of the entry, and unlatches the entry's node. Returns
    /// the bag of suffixes that this replaced.
    fn fold(
        &self,
        entry: LayerEntry<'_>,
        key: &Key<'_>,
        first: &Border,
        only: usize,
    ) -> Option<ReplacedBag> {
        let LayerEntry { node: above, slot } = entry;
        let length = first.length(only);
        let mut suffix = first.slice(only).to_be_bytes()[..usize::from(length.min(8))].to_vec();
        if length == SUFFIX {
            // SAFETY: the node is latched and pinned.
            suffix.extend(unsafe { first.suffix(only) }.into_iter().flatten());
        }
        debug_assert_eq!(class_of(8 + suffix.len()), LONG);
        Latch::<C>::mark_inserting(&above.version);
        above.set_length(slot, UNSTABLE);
        let replaced = self.store_suffix(above, slot, &suffix);
        above.set_value(slot, first.value(only));
        above.set_length(slot, SUFFIX);
        let collapsible = key.offset() > 0
            && above.permutation().count() == 1
            && above.prev().is_null()
            && above.next().is_null();
        Latch::<C>::unlock(&above.version);
        if collapsible {
            self.deferred.push(&key.bytes()[..key.offset()]);
        }
        replaced
    }
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

/// Marks the latched only border node of a layer and all its ancestors deleted; returns the
/// ancestors, latched, lowest first.
fn delete_with_ancestors<'g, C: Configuration>(first: &Border) -> Vec<&'g Interior> {
    let mut ancestors = Vec::new();
    Latch::<C>::mark_deleted(&first.version);
    if first.is_narrow() {
        return ancestors; // it has no parent, and another use for that word
    }
    let mut child = first.as_node();
    // SAFETY: `child` is latched by us.
    while let Some(parent) = lock_parent::<C>(unsafe { &*child }) {
        debug_assert_eq!(parent.count(), 0, "the only border node has no siblings");
        Latch::<C>::mark_deleted(&parent.version);
        ancestors.push(parent);
        child = std::ptr::from_ref(parent).cast_mut().cast();
    }
    ancestors
}
