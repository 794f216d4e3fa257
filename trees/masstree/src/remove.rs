//! Removing keys, and the nodes that become empty (§4.6.5).
//!
//! **A key** goes by one store of the permutation. Its slot keeps its contents, because a
//! reader may be between finding the slot and reading it; `removed` records the slot, and
//! reusing it counts as an insert, so that validation fails for such a reader.
//!
//! **An empty border node** `D` is unlinked, unless it is its tree's leftmost, which stays as
//! long as the tree. Its range falls to its left sibling `P`. The latches, in the order taken:
//!
//! ```text
//!  D  ──►  P = D.prev  ──►  D's parent  ──►  …  ──►  A, the ancestor where the path to D
//!  │       │                │                        is not the first child
//!  │       │ next := D.next │ drop D                 │
//!  deleted │ (next.prev:=P) │                        │ separator := new lowest slice
//! ```
//!
//! 1. `D` is marked deleted (and splitting, so that readers wait rather than spin through
//!    restarts). Nobody inserts into a deleted node: writers check after latching.
//! 2. `P` is latched. `D.prev` is protected by `P`'s latch, so it is read again after
//!    latching. With `P` and `D` latched, `P.next` and `D.next.prev` are ours to change.
//! 3. Climbing: where `D` (or the ancestor emptied with it) is not the first child, it and the
//!    separator to its left are dropped, and the left neighbour's range grows: done. A parent
//!    without other children is deleted too, and we climb on. Where it is the *first* child of
//!    a parent `Q` that has others, `Q`'s range shrinks from the left: its lowest slice
//!    becomes its first separator, and that must be written into the ancestor `A` whose separator
//!    names `Q`'s old lowest slice. Every node on the way whose range shrinks is marked
//!    *splitting*, lower ones first, and stays latched until `A` is changed: a reader that
//!    used the old separator finds a changed split counter on the way and restarts; one
//!    that comes later finds `A` marked or changed.
//! 4. All are unlatched, `A` first, and the deleted nodes retired: parent, siblings and
//!    separators name them no more, so only operations begun before can hold them.
//!
//! `P` stays latched until the end, so it cannot split and put a separator into a parent that
//! still routes part of its new range to `D`. A key in `D`'s old range may reach `P` before
//! the parents are changed (through `P.next`), and is inserted there rightly; readers that
//! come through the parent wait for `D` and start again.
//!
//! **No deadlock.** Latches are taken right to left among border nodes (nobody who holds a
//! border node waits for one to its right), then upwards within the tree; the collapse of
//! layers holds a border node of a layer above and goes down layer by layer. So every wait goes
//! from right to left, up, or into a deeper layer, and never back.

use std::sync::atomic::Ordering;

use crate::configuration::{Configuration, Guard, Latch};
use crate::key::Key;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, Node};
use crate::planted::{PlantedBug, planted};
use crate::split::lock_parent;
use crate::statistics::Event;
use crate::tree::Masstree;
use crate::value::Value;

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Takes the live `slot` out of the latched `node` and unlatches (or unlinks) the node.
    /// What the slot owned is the caller's to retire. Says whether the caller should now collapse
    /// the layer.
    #[must_use]
    pub(crate) fn remove_slot(
        &self,
        guard: &C::Guard<'_>,
        node: &Border,
        slot: usize,
        key: &Key<'_>,
    ) -> bool {
        let permutation = node.permutation();
        let permutation = permutation.remove(permutation.index_of(slot), node.width());
        node.set_removed(node.removed() | (1 << slot));
        node.publish(permutation);
        if permutation.count() == 0 && !node.prev().is_null() {
            return self.unlink(guard, node, key);
        }
        unlock_after_removal::<C>(node, key)
    }

    /// Unlinks the latched, empty `node`, which is not the leftmost of its layer, and retires it.
    /// Says whether the caller should now collapse the layer.
    #[cold]
    #[inline(never)]
    fn unlink(&self, guard: &C::Guard<'_>, node: &Border, key: &Key<'_>) -> bool {
        if !planted(PlantedBug::DeletedNotMarked) {
            Latch::<C>::mark_deleted(&node.version);
        }
        let left = latch_left::<C>(node);
        let next = node.next();
        // SAFETY: the sibling of a latched node is in the tree: its unlinking needs our latch.
        if let Some(next) = unsafe { next.as_ref() } {
            next.set_prev(std::ptr::from_ref(left).cast_mut());
        }
        left.set_next(next);
        let latched = self.remove_from_ancestors(node.as_node());
        for interior in latched.iter().rev() {
            Latch::<C>::unlock(&interior.version);
        }
        let collapsible = unlock_after_removal::<C>(left, key);
        Latch::<C>::unlock(&node.version);
        self.counters.count(Event::NodeDeletion as usize);
        for interior in latched {
            if interior.version.load().is_deleted() {
                self.counters.count(Event::NodeDeletion as usize);
                self.retire_node(guard, std::ptr::from_ref(interior).cast_mut().cast());
            }
        }
        self.retire_node(guard, node.as_node());
        collapsible
    }

    /// Step 3 of the module's protocol: removes `child` from its parent, deleting emptied
    /// ancestors and moving the separator that named its range. Returns the ancestors still
    /// latched, lowest first.
    fn remove_from_ancestors<'g>(&self, child: *mut Node) -> Vec<&'g Interior> {
        let mut latched: Vec<&'g Interior> = Vec::new();
        let mut child = child;
        let mut lowest = None;
        loop {
            // SAFETY: latched by us (the border node or the last of `latched`).
            let parent = lock_parent::<C>(unsafe { &*child })
                .expect("a node with a left sibling has ancestors that part them");
            let index = parent.index_of(child);
            match lowest {
                None if parent.count() == 0 => {
                    Latch::<C>::mark_deleted(&parent.version);
                }
                None if index == 0 => {
                    Latch::<C>::mark_splitting(&parent.version);
                    lowest = Some(parent.slice(0));
                    parent.remove_child(0);
                }
                Some(_) if index == 0 => Latch::<C>::mark_splitting(&parent.version),
                None => {
                    Latch::<C>::mark_inserting(&parent.version);
                    parent.remove_child(index);
                    Latch::<C>::unlock(&parent.version);
                    return latched;
                }
                Some(slice) => {
                    Latch::<C>::mark_inserting(&parent.version);
                    parent.slices[index - 1].store(slice, Ordering::Relaxed);
                    Latch::<C>::unlock(&parent.version);
                    return latched;
                }
            }
            latched.push(parent);
            child = std::ptr::from_ref(parent).cast_mut().cast();
        }
    }

    /// Retires a node that was marked deleted and unlinked.
    pub(crate) fn retire_node(&self, guard: &C::Guard<'_>, node: *mut Node) {
        let (address, blocks) = (node.expose_provenance(), self.blocks);
        // SAFETY: no link names the node any more (the caller unlinked it under all latches
        // that protect such links), so operations that begin now cannot reach it. It lives until
        // it is released.
        unsafe {
            let bytes = crate::release::bag_bytes(node);
            guard.retire(bytes, move || crate::release::release_node(blocks, address));
        }
    }
}

/// Unlatches a border node that lost a key or its right sibling; says whether it is now the only
/// node of a deeper layer and has at most one key, which is no layer.
fn unlock_after_removal<C: Configuration>(node: &Border, key: &Key<'_>) -> bool {
    let permutation = node.permutation();
    let collapsible = key.offset() > 0
        && node.prev().is_null()
        && node.next().is_null()
        && match permutation.count() {
            0 => true,
            1 => node.length(permutation.slot(0)) != LAYER,
            _ => false,
        };
    Latch::<C>::unlock(&node.version);
    collapsible
}

/// Latches the left sibling of the latched, not leftmost `node`.
fn latch_left<'g, C: Configuration>(node: &Border) -> &'g Border {
    loop {
        let left = node.prev();
        // SAFETY: a sibling of a pinned node is a pinned node; a node that has a left sibling
        // always has one, since the leftmost is never unlinked.
        let sibling = unsafe { &*left };
        Latch::<C>::lock(&sibling.version);
        if node.prev() == left && !sibling.version.load().is_deleted() {
            return sibling;
        }
        Latch::<C>::unlock(&sibling.version);
    }
}
