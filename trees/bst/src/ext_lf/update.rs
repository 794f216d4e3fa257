//! Insertions and removals, and their steps, which any thread may take.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::descriptor::{
    INSERTING, Insertion, MARKED, REMOVING, Removal, is_clean, next_version, state, version,
};
use super::node::{Inner, Leaf};
use super::search::{Passed, Search};
use super::{ExtLf, HELPS, RETRIES, keeps_memory, nothing};
use crate::form::Form;
use crate::node_pool::NodePool;
use crate::planted::{PlantedBug, planted};
use crate::tagged_link::{LEAF, exchange, link_to, node, pointer};

impl<K: IntKey, F: Form, W: Word + 'static> ExtLf<K, F, W> {
    /// Inserts a key that is absent; the word of one that is present.
    pub(super) fn insert_leaf(&self, key: K, word: u64, guard: &Guard) -> Option<u64> {
        loop {
            let Search { parent, leaf, .. } = self.search(key, guard);
            let present = leaf.and_then(|leaf| Self::word_in(leaf, key, guard));
            if present.is_some() {
                return present;
            }
            let now = if is_clean(parent.seen) {
                let Err(now) = self.insert_below(&parent, leaf, key, word, guard) else {
                    return None;
                };
                now
            } else {
                parent.seen
            };
            self.counters.count(RETRIES);
            self.help(now, guard);
        }
    }

    /// Replaces the leaf below a clean parent (or nothing) by an inner node over a copy of it and a
    /// new leaf; what the parent's update word was if the parent is not as it was seen.
    fn insert_below(
        &self,
        parent: &Passed<'_, W>,
        leaf: Option<u64>,
        key: K,
        word: u64,
        guard: &Guard,
    ) -> Result<(), u64> {
        let clean = next_version(parent.seen);
        let new = self.place_leaf(key, word);
        let (inner, copy) = if let Some(leaf) = leaf {
            // SAFETY: the link to a leaf was read under the guard from a reachable node.
            let old = unsafe { node::<Leaf<K, F>>(leaf, guard) };
            let copy = self.place_leaf(old.key, old.word);
            let inner = if key < old.key {
                Inner::new(old.key, new, copy)
            } else {
                Inner::new(key, copy, new)
            };
            (inner, Some(copy))
        } else {
            (Inner::new(key, new, nothing(version(clean))), None)
        };
        let inner = self.inner_nodes.place(inner);
        let insertion = self.insertions.place(Insertion {
            owner: NonNull::from(parent.update),
            edge: NonNull::from(parent.edge),
            old: parent.link,
            new: link_to(inner),
            clean,
        });
        let flag = link_to(insertion) | INSERTING;
        let flagged = exchange(parent.update, parent.seen, flag);
        if flagged.is_ok() {
            self.complete_insertion(flag, guard);
            return Ok(());
        }
        // SAFETY: nobody else knows them.
        unsafe {
            self.insertions.free(insertion);
            self.inner_nodes.free(inner);
            for leaf in [Some(new), copy].into_iter().flatten() {
                self.leaves.free(NonNull::new_unchecked(pointer(leaf)));
            }
        }
        flagged
    }

    /// The link to a new leaf.
    fn place_leaf(&self, key: K, word: u64) -> u64 {
        let line = F::Line::default();
        link_to(self.leaves.place(Leaf { key, word, line })) | LEAF
    }

    /// Removes a key that is present, and returns its word.
    pub(super) fn remove_leaf(&self, key: K, guard: &Guard) -> Option<u64> {
        loop {
            let search = self.search(key, guard);
            let word = Self::word_in(search.leaf?, key, guard)?;
            let now = if !is_clean(search.grandparent.seen) {
                search.grandparent.seen
            } else if !is_clean(search.parent.seen) {
                search.parent.seen
            } else {
                match self.remove_below(&search, guard) {
                    Ok(true) => return Some(word),
                    // The removal's flag is gone already.
                    Ok(false) => search.grandparent.seen,
                    Err(now) => now,
                }
            };
            self.counters.count(RETRIES);
            self.help(now, guard);
        }
    }

    /// Removes the leaf below a clean parent and grandparent; whether the parent was as it was
    /// seen, or what the grandparent's update word was if that was not.
    fn remove_below(&self, search: &Search<'_, W>, guard: &Guard) -> Result<bool, u64> {
        let Search {
            grandparent,
            parent,
            ..
        } = search;
        let removal = self.removals.place(Removal {
            owner: NonNull::from(grandparent.update),
            edge: NonNull::from(grandparent.edge),
            parent: grandparent.link,
            parent_seen: parent.seen,
            leaf_edge: NonNull::from(parent.edge),
            clean: next_version(grandparent.seen),
        });
        let flag = link_to(removal) | REMOVING;
        match exchange(grandparent.update, grandparent.seen, flag) {
            Ok(()) => Ok(self.complete_removal(flag, guard)),
            Err(now) => {
                // SAFETY: nobody else knows it.
                unsafe { self.removals.free(removal) };
                Err(now)
            }
        }
    }

    /// Takes the steps that are left of the update that an update word names, if it names one.
    fn help(&self, update: u64, guard: &Guard) {
        match state(update) {
            INSERTING => self.complete_insertion(update, guard),
            REMOVING => {
                self.complete_removal(update, guard);
            }
            MARKED => self.unlink_marked(update, guard),
            _ => return,
        }
        self.counters.count(HELPS);
    }

    /// Replaces the leaf, and makes the parent clean.
    fn complete_insertion(&self, update: u64, guard: &Guard) {
        // SAFETY: the update word was read, or set, under the guard, while it named the descriptor.
        // That is retired when it is named no more, and its owner is unlinked later still.
        let (insertion, owner, edge) = unsafe {
            let insertion = node::<Insertion<W>>(descriptor(update), guard);
            (insertion, insertion.owner.as_ref(), insertion.edge.as_ref())
        };
        // It fails if somebody else did it.
        let _ = exchange(edge, insertion.old, insertion.new);
        let flag = descriptor(update) | INSERTING;
        if exchange(owner, flag, insertion.clean).is_err() {
            return;
        }
        // SAFETY: this exchange ended the insertion.
        unsafe {
            if !ptr::eq(edge, &raw const self.top.edge) {
                retire(&self.leaves, insertion.old, guard);
            }
            retire(&self.insertions, update, guard);
        }
    }

    /// Marks the parent and unlinks it; or, if the parent changed, makes the grandparent clean.
    /// Whether the leaf is removed.
    fn complete_removal(&self, update: u64, guard: &Guard) -> bool {
        // SAFETY: as in `complete_insertion`. The parent is retired after the descriptor's flag is
        // gone, as is the descriptor.
        let (removal, owner, parent) = unsafe {
            let removal = node::<Removal<W>>(descriptor(update), guard);
            let parent = node::<Inner<K, F, W>>(removal.parent, guard);
            (removal, removal.owner.as_ref(), parent)
        };
        let mark = descriptor(update) | MARKED;
        let marked = planted(PlantedBug::ExtLfParentNotMarked)
            || match exchange(parent.update(), removal.parent_seen, mark) {
                Ok(()) => true,
                Err(now) if now == mark => true,
                Err(now) => {
                    self.help(now, guard);
                    false
                }
            };
        if marked {
            self.unlink_marked(mark, guard);
        } else if exchange(owner, descriptor(update) | REMOVING, removal.clean).is_ok() {
            // SAFETY: this exchange ended the removal.
            unsafe { retire(&self.removals, update, guard) };
        }
        marked
    }

    /// Replaces the marked parent by the leaf's sibling, and makes the grandparent clean.
    fn unlink_marked(&self, update: u64, guard: &Guard) {
        // SAFETY: as in `complete_removal`.
        let (removal, owner, edge, leaf_edge, parent) = unsafe {
            let removal = node::<Removal<W>>(descriptor(update), guard);
            let parent = node::<Inner<K, F, W>>(removal.parent, guard);
            let [owner, edge, leaf_edge] =
                [removal.owner, removal.edge, removal.leaf_edge].map(|word| word.as_ref());
            (removal, owner, edge, leaf_edge, parent)
        };
        let stays = parent.other(leaf_edge).load(Ordering::Acquire);
        let leaf = leaf_edge.load(Ordering::Acquire);
        // It fails if somebody else did it.
        let _ = exchange(edge, removal.parent, stays);
        let flag = descriptor(update) | REMOVING;
        if exchange(owner, flag, removal.clean).is_err() {
            return;
        }
        // SAFETY: this exchange ended the removal.
        unsafe {
            retire(&self.leaves, leaf, guard);
            retire(&self.inner_nodes, removal.parent, guard);
            retire(&self.removals, update, guard);
        }
    }
}

/// The link to the descriptor that an update word names.
fn descriptor(update: u64) -> u64 {
    update & !3
}

/// Retires what a link leads to.
///
/// # Safety
///
/// It is a node of this pool, unlinked, and the caller alone retires it.
unsafe fn retire<N: 'static>(pool: &NodePool<N>, link: u64, guard: &Guard) {
    if keeps_memory() {
        return;
    }
    if let Some(node) = NonNull::new(pointer::<N>(link)) {
        // SAFETY: the caller's promise.
        unsafe { pool.retire(guard, node) };
    }
}
