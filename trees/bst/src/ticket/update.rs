//! Inserts and removals.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::edge_locks::Side;
use super::{EMPTY, Edge, Found, Inner, Leaf, Parent, Ticket, link_to_inner, link_to_leaf};
use crate::form::Form;
use crate::planted::{PlantedBug, planted};

impl<K: IntKey, F: Form, W: Word + 'static> Ticket<K, F, W> {
    /// The leaf where `key` is or would be, with the links above it and the versions they had.
    pub(super) fn find<'g>(&'g self, key: K, guard: &'g Guard) -> Found<'g, K, F, W> {
        let mut parent = None;
        let mut edge = Edge {
            link: &self.head.link,
            locks: &self.head.locks,
            side: Side::Left,
            seen: self.head.locks.versions(),
        };
        let mut link = edge.link.load(Ordering::Acquire);
        // SAFETY: each link was read in this tree under the guard.
        while let Some(inner) = unsafe { self.inner(link, guard) } {
            // Reads the versions before the link: who locks that version has the link as read.
            let below = inner.edge(inner.side(key));
            link = below.link.load(Ordering::Acquire);
            parent = Some(Parent {
                node: inner,
                above: edge,
            });
            edge = below;
        }
        // SAFETY: as above; the loop ended at a link with the leaf's bit.
        let leaf = unsafe { self.leaf(link, guard) };
        Found { parent, edge, leaf }
    }

    /// Counts a search that was in vain, and waits a moment.
    fn retry(&self, rounds: &mut u32) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        W::pause(rounds);
    }

    pub(super) fn insert_leaf(&self, key: K, word: u64) -> Option<u64> {
        let guard = epoch::pin();
        let mut rounds = 0;
        loop {
            let found = self.find(key, &guard);
            if let Some(leaf) = found.leaf.filter(|leaf| leaf.key == key) {
                return Some(leaf.word);
            }
            if self.insert_beside(key, word, &found) {
                return None;
            }
            self.retry(&mut rounds);
        }
    }

    /// Puts a new leaf beside the one that was found; `false` if its link changed since.
    fn insert_beside(&self, key: K, word: u64, found: &Found<'_, K, F, W>) -> bool {
        let line = F::Line::default();
        let leaf = self.leaves.place(Leaf { key, word, line });
        let inner = found.leaf.map(|old| {
            let old_link = link_to_leaf(NonNull::from(old));
            let node = match key < old.key {
                true => Inner::new(old.key, [link_to_leaf(leaf), old_link]),
                false => Inner::new(key, [old_link, link_to_leaf(leaf)]),
            };
            self.inners.place(node)
        });
        if found.edge.try_lock() {
            let link = inner.map_or(link_to_leaf(leaf), link_to_inner);
            found.edge.replace(link);
            return true;
        }
        // SAFETY: both came from these pools just now, and nobody else got their addresses.
        unsafe {
            self.leaves.free(leaf);
            inner.into_iter().for_each(|inner| self.inners.free(inner));
        }
        false
    }

    pub(super) fn remove_leaf(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        let mut rounds = 0;
        loop {
            let found = self.find(key, &guard);
            let leaf = found.leaf.filter(|leaf| leaf.key == key)?;
            if Self::unlink(&found) {
                let word = leaf.word;
                // SAFETY: no link in the tree leads to the leaf or to its parent any more, and none
                // will: the parent stays locked. Only the thread that locked it comes here.
                unsafe {
                    self.leaves.retire(&guard, NonNull::from(leaf));
                    if let Some(parent) = found.parent {
                        self.inners.retire(&guard, NonNull::from(parent.node));
                    }
                }
                return Some(word);
            }
            self.retry(&mut rounds);
        }
    }

    /// Takes the leaf that was found out of the tree, with its parent; `false` if a link to or from
    /// the parent changed since.
    fn unlink(found: &Found<'_, K, F, W>) -> bool {
        let Some(Parent { node, above }) = &found.parent else {
            // The head stays, with an empty link.
            let locked = found.edge.try_lock();
            if locked {
                found.edge.replace(EMPTY);
            }
            return locked;
        };
        if !above.try_lock() {
            return false;
        }
        let seen = match planted(PlantedBug::TicketParentNotCompared) {
            true => node.locks().versions(),
            false => found.edge.seen,
        };
        if !node.locks().try_lock_both(seen) {
            above.locks.unlock_unchanged(above.side);
            return false;
        }
        let sibling = node.link(found.edge.side.other()).load(Ordering::Acquire);
        above.replace(sibling);
        true
    }
}
