//! Insertions, and removals in their three steps.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::node::Node;
use super::seek::{Seek, unmarked};
use super::{EdgeExtLf, FLAG, HELPS, NOTHING, RETRIES, TAG, keeps_memory};
use crate::form::Form;
use crate::planted::{PlantedBug, planted};
use crate::tagged_link::{LEAF, exchange, is_leaf, link_to, node, pointer};

impl<K: IntKey, F: Form, W: Word + 'static> EdgeExtLf<K, F, W> {
    /// Inserts a key that is absent; the word of one that is present.
    pub(super) fn insert_leaf(&self, key: K, word: u64, guard: &Guard) -> Option<u64> {
        loop {
            let seek = self.seek(key, guard);
            let (edge, found) = match &seek {
                Some(seek) => (seek.edge, seek.unmarked_leaf()),
                None => (&self.root, NOTHING),
            };
            let present = Self::word_in(found, key, guard);
            if present.is_some() {
                return present;
            }
            let Err(now) = self.replace_leaf(edge, found, key, word, guard) else {
                return None;
            };
            self.counters.count(RETRIES);
            if let Some(seek) = seek {
                self.help(&seek, now, guard);
            }
        }
    }

    /// Replaces the leaf (or nothing) that an edge leads to by an inner node over it and a new
    /// leaf; the link that the edge had instead.
    fn replace_leaf(
        &self,
        edge: &W,
        found: u64,
        key: K,
        word: u64,
        guard: &Guard,
    ) -> Result<(), u64> {
        // The order in which the original allocates them.
        let inner = self.pool.allocate();
        let leaf = self.pool.place(Node::leaf(key, word));
        let new = link_to(leaf) | LEAF;
        let node = if found == NOTHING {
            Node::inner(key, new, NOTHING)
        } else {
            // SAFETY: the link was read under the guard from a reachable node.
            let old = unsafe { node::<Node<K, F, W>>(found, guard) }.key();
            if key < old {
                Node::inner(old, new, found)
            } else {
                Node::inner(key, found, new)
            }
        };
        // SAFETY: the memory is fresh, and nobody else knows it.
        unsafe { inner.write(node) };
        exchange(edge, found, link_to(inner)).inspect_err(|_| {
            // SAFETY: nobody else knows them.
            unsafe {
                self.pool.free(leaf);
                self.pool.free(inner);
            }
        })
    }

    /// Removes a key that is present, and returns its word.
    pub(super) fn remove_leaf(&self, key: K, guard: &Guard) -> Option<u64> {
        let mut seek = self.flag(key, guard)?;
        let leaf = seek.unmarked_leaf();
        let word = Self::word_in(leaf, key, guard);
        while !self.clean_up(&seek, guard) {
            // Others may have completed it. The leaf's address is not used again under the guard.
            match self.seek(key, guard) {
                Some(next) if next.unmarked_leaf() == leaf => seek = next,
                _ => break,
            }
        }
        word
    }

    /// Flags the edge to the leaf of a key, which claims its removal; `None` if the key is absent.
    fn flag<'g>(&'g self, key: K, guard: &'g Guard) -> Option<Seek<'g, K, F, W>> {
        loop {
            let seek = self.seek(key, guard)?;
            let leaf = seek.unmarked_leaf();
            Self::word_in(leaf, key, guard)?;
            let Err(now) = exchange(seek.edge, leaf, leaf | FLAG) else {
                return Some(seek);
            };
            self.counters.count(RETRIES);
            self.help(&seek, now, guard);
        }
    }

    /// Completes the removal that marked the edge to the leaf, if that is why it is `now` another.
    fn help(&self, seek: &Seek<'_, K, F, W>, now: u64, guard: &Guard) {
        if unmarked(now) == seek.unmarked_leaf() {
            self.counters.count(HELPS);
            self.clean_up(seek, guard);
        }
    }

    /// Tags the edge to the leaf's sibling and moves it up to the ancestor; whether it succeeded.
    /// One of the parent's edges is flagged.
    fn clean_up(&self, seek: &Seek<'_, K, F, W>, guard: &Guard) -> bool {
        let marked = seek.edge.load(Ordering::Acquire);
        let stays = if marked & FLAG != 0 {
            seek.parent.other(seek.edge)
        } else {
            // It is the sibling whose removal tagged this edge. Without marks, the sibling stays.
            assert!(marked & TAG != 0, "an edge has lost its marks");
            seek.edge
        };
        let link = if planted(PlantedBug::EdgeExtLfSiblingNotTagged) {
            stays.load(Ordering::Acquire)
        } else {
            tag(stays)
        };
        // The flag moves up, the tag does not.
        if exchange(seek.ancestor, seek.successor, link & !TAG).is_err() {
            return false;
        }
        // SAFETY: this exchange unlinked them.
        unsafe { self.retire_chain(seek, seek.parent.other(stays), guard) };
        true
    }

    /// Retires the inner nodes from successor to parent, each with its flagged leaf.
    ///
    /// # Safety
    ///
    /// The caller unlinked them; `gone` is the parent's edge to its flagged leaf.
    unsafe fn retire_chain(&self, seek: &Seek<'_, K, F, W>, gone: &W, guard: &Guard) {
        let mut link = seek.successor;
        loop {
            // SAFETY: the guard protects the chain, whose edges are marked and do not change.
            let inner = unsafe { node::<Node<K, F, W>>(link, guard) };
            let last = ptr::eq(inner, seek.parent);
            let [left, right] =
                [inner.left(), inner.right()].map(|edge| edge.load(Ordering::Acquire));
            let (leaf, next) = if last {
                (gone.load(Ordering::Acquire), 0)
            } else if is_leaf(left) {
                (left, right)
            } else {
                (right, left)
            };
            // SAFETY: they are unlinked, by the caller alone.
            unsafe {
                self.retire(leaf, guard);
                self.retire(link, guard);
            }
            if last {
                return;
            }
            link = next;
        }
    }

    /// Retires a node.
    ///
    /// # Safety
    ///
    /// The caller unlinked it.
    unsafe fn retire(&self, link: u64, guard: &Guard) {
        if keeps_memory() {
            return;
        }
        if let Some(node) = NonNull::new(pointer::<Node<K, F, W>>(link)) {
            // SAFETY: the caller unlinked it, which one thread does.
            unsafe { self.pool.retire(guard, node) };
        }
    }
}

/// Tags an edge, whatever its flag, and returns its link, which is final.
fn tag<W: Word>(edge: &W) -> u64 {
    let mut link = edge.load(Ordering::Acquire);
    while link & TAG == 0 {
        match exchange(edge, link, link | TAG) {
            Ok(()) => link |= TAG,
            Err(now) => link = now,
        }
    }
    link
}
