//! Replacing a narrow node that overflows by a wider one.
//!
//! A layer begins as a narrow border node (`node::border`), which is its layer's root. When a
//! key finds it full, the holder of its latch builds the next wider node in private, with all
//! keys and the new one, and then publishes it through the narrow node itself:
//!
//! ```text
//!  entry above ──► narrow        entry above ──► narrow         entry above ──┐   narrow
//!                  (root)                        (forwards)                   │  (retired)
//!                                                   └──► wider                └──► wider
//! ```
//!
//! 1. The writer marks the narrow node *splitting*, empties it, stores its replacement in it,
//!    clears its root bit and unlatches it. Operations in the node see a split and go to the right,
//!    which is where the replacement is (its range is the whole layer, as the narrow node's
//!    was); operations from above climb from the old root, as after any split of a root.
//!    So no latch above is needed, and the decision made under the narrow node's latch holds.
//! 2. The entry above is brought up to date by `replace_root`, by this writer or, if a split
//!    has moved the entry meanwhile, by the next one that passes. The entry is the only link
//!    to a node that forwards, and a writer changes it under its node's latch: so this writer,
//!    and no other, retires every forwarding node between the old root and the one it stores.
//!
//! A narrow node that the wider one is in turn replaced by makes a chain, which the same step
//! takes away as a whole. Removing keys never makes a node narrower; a layer that is left with
//! one key is folded (module `collapse`).

use crate::configuration::{Configuration, Latch};
use crate::key::{Key, LONG};
use crate::node::border::SUFFIX;
use crate::node::{Border, Node, NodeBlocks, Permutation, SuffixBag, WIDTH};
use crate::planted::{PlantedBug, planted};
use crate::statistics::Event;
use crate::tree::Masstree;
use crate::value::Value;

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Replaces the latched, full, narrow `node` by a wider one that also holds `key`, which
    /// belongs at `index`, and unlatches `node`.
    #[cold]
    #[inline(never)]
    pub(crate) fn widen(&self, node: &Border, key: &Key<'_>, index: usize, word: u64) {
        let wider = Border::allocate_layer(self.blocks, node.width() + 1);
        // SAFETY: new and ours.
        let new = unsafe { &*wider };
        fill_wider(self.blocks, new, node, (key, index, word));
        if !planted(PlantedBug::WideningNotCounted) {
            Latch::<C>::mark_splitting(&node.version);
        }
        node.set_replacement(wider);
        Latch::<C>::clear_root(&node.version);
        Latch::<C>::unlock(&node.version);
        self.counters.count(Event::Widening as usize);
    }

    /// Retires the nodes that forward from `old`, a layer's former root, as far as `end`. The
    /// caller removed the only link to `old`.
    pub(crate) fn retire_forwarding(&self, guard: &C::Guard<'_>, old: *mut Node, end: *const Node) {
        let mut node = old;
        while !std::ptr::eq(node, end) {
            // SAFETY: a chain that began at a layer's root, all of it pinned.
            let next = unsafe { replacement(node) };
            if next.is_null() {
                return;
            }
            self.retire_node(guard, node);
            node = next;
        }
    }
}

/// What replaced `node`, if that is a narrow node that was replaced; else null.
///
/// # Safety
///
/// `node` is owned or pinned.
pub(crate) unsafe fn replacement(node: *mut Node) -> *mut Node {
    // SAFETY: the caller has the node; its kind never changes.
    unsafe {
        if (*node).version.load().is_border() {
            (*node.cast::<Border>()).replacement().cast()
        } else {
            std::ptr::null_mut()
        }
    }
}

/// Fills the new node with the keys of the latched `node`, and with `key` at `index`.
fn fill_wider(
    blocks: &NodeBlocks,
    wider: &Border,
    node: &Border,
    (key, index, word): (&Key<'_>, usize, u64),
) {
    let permutation = node.permutation();
    let suffix = |slot: Option<usize>| match slot {
        None => (key.class() == LONG).then(|| key.suffix()),
        // SAFETY: the node is latched and pinned.
        Some(slot) if node.length(slot) == SUFFIX => unsafe { node.suffix(slot) },
        Some(_) => None,
    };
    let mut slots: Vec<Option<usize>> = (0..permutation.count())
        .map(|index| Some(permutation.slot(index)))
        .collect();
    slots.insert(index, None);
    let bytes: usize = slots
        .iter()
        .filter_map(|&slot| suffix(slot))
        .map(<[u8]>::len)
        .sum();
    if bytes > 0 {
        let room = bytes + bytes / 2;
        wider.set_bag(SuffixBag::allocate(
            blocks,
            SuffixBag::lines_for(room, WIDTH),
        ));
    }
    for (to, &from) in slots.iter().enumerate() {
        match from {
            None => wider.fill(to, key.slice(), key.class(), word),
            Some(slot) => {
                wider.fill(to, node.slice(slot), node.length(slot), node.value(slot));
            }
        }
        if let Some(suffix) = suffix(from) {
            // SAFETY: the new node's bag is ours alone.
            let fits = unsafe { SuffixBag::append(wider.bag(), to, suffix) };
            assert!(fits, "a new suffix bag is made large enough");
        }
    }
    wider.publish(Permutation::sequential(slots.len()));
}
