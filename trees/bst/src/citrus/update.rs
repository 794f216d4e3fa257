//! Inserts and removals.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::{Citrus, LEFT, MARKED, NONE, Node, RIGHT, TAGS};
use crate::form::Form;
use crate::grace_period::GracePeriods;
use crate::lock::NodeLock;
use crate::planted::{PlantedBug, planted};

/// Where a search ended.
pub(super) struct Found<'g, K, F: Form, W> {
    /// The node with the key.
    pub(super) node: Option<&'g Node<K, F, W>>,
    /// The node above it, and the side of its link.
    parent: &'g Node<K, F, W>,
    side: usize,
    /// The parent's state within the search's section.
    state: u64,
}

/// What an update took out of the tree beside the node that it removed.
enum Unlinked<'g, K, F: Form, W> {
    Nothing,
    /// The old successor, of which the tree has a copy.
    Successor(&'g Node<K, F, W>),
}

/// A successor that takes the place of a node with two children.
struct Heir<'g, K, F: Form, W> {
    node: &'g Node<K, F, W>,
    /// Its parent, which may be the node that goes.
    parent: &'g Node<K, F, W>,
    side: usize,
}

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    fn lock(&self) {
        self.update().lock.lock();
    }

    fn unlock(&self) {
        self.update().lock.unlock();
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// Marks the node as removed; the caller has its lock.
    fn mark(&self) {
        let state = self.state() | MARKED;
        self.update().state.store(state, Ordering::Release);
    }

    /// Links a child, or none; the caller has the lock.
    fn set_child(&self, side: usize, address: u64) {
        self.search().links[side].store(address, Ordering::Release);
        if address == NONE {
            let (bits, one) = TAGS[side];
            let state = self.state();
            let tag = state.wrapping_add(one) & bits;
            let state = (state & !bits) | tag;
            self.update().state.store(state, Ordering::Release);
        }
    }

    /// Whether the node is in the tree, with this child. The caller has its lock.
    fn has_child(&self, side: usize, child: &Self) -> bool {
        self.state() & MARKED == 0 && self.child_address(side) == child.address()
    }

    /// Whether the node is in the tree, and the link of `side` has been empty since a search saw it
    /// so, with this state. The caller has its lock.
    fn is_still_empty(&self, side: usize, seen: u64) -> bool {
        let state = self.state();
        let same_tag = (state ^ seen) & TAGS[side].0 == 0;
        state & MARKED == 0 && same_tag && self.child_address(side) == NONE
    }
}

impl<K: IntKey, F: Form, W: Word + 'static, G: GracePeriods> Citrus<K, F, W, G> {
    /// Searches for `key`, in a section.
    pub(super) fn find<'g>(&'g self, key: K, guard: &'g Guard) -> Found<'g, K, F, W> {
        let _section = self.sections.enter();
        let (mut parent, mut side) = (self.root(guard), LEFT);
        let mut node = parent.child(side);
        while let Some(child) = node {
            // SAFETY: a child is not the root.
            let child_key = unsafe { child.key() };
            if child_key == key {
                break;
            }
            side = usize::from(key > child_key);
            parent = child;
            node = parent.child(side);
        }
        Found {
            node,
            parent,
            side,
            state: parent.state(),
        }
    }

    /// Counts a search that was in vain, and waits a moment.
    fn retry(&self, rounds: &mut u32) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        W::pause(rounds);
    }

    pub(super) fn insert_node(&self, key: K, word: u64) -> Option<u64> {
        let guard = epoch::pin();
        let mut new = None;
        let mut rounds = 0;
        loop {
            let found = self.find(key, &guard);
            if let Some(node) = found.node {
                if let Some(new) = new {
                    // SAFETY: it came from this pool just now, and nobody else got its address.
                    unsafe { self.nodes.free(new) };
                }
                return Some(node.search().word);
            }
            let make = || Node::new(MaybeUninit::new(key), word, [NONE; 2]);
            let place = *new.get_or_insert_with(|| self.nodes.place(make()));
            found.parent.lock();
            let is_empty = found.parent.is_still_empty(found.side, found.state);
            if is_empty {
                found.parent.set_child(found.side, place.as_ptr() as u64);
            }
            found.parent.unlock();
            if is_empty {
                return None;
            }
            self.retry(&mut rounds);
        }
    }

    pub(super) fn remove_node(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        let mut rounds = 0;
        loop {
            let found = self.find(key, &guard);
            let node = found.node?;
            found.parent.lock();
            node.lock();
            let is_linked = found.parent.has_child(found.side, node) && node.state() & MARKED == 0;
            let unlinked = is_linked.then(|| self.unlink(&found, node)).flatten();
            node.unlock();
            found.parent.unlock();
            if let Some(unlinked) = unlinked {
                // Without locks: what is retired elsewhere may be released here and now.
                self.retire(node, &guard);
                if let Unlinked::Successor(successor) = unlinked {
                    self.retire(successor, &guard);
                }
                return Some(node.search().word);
            }
            self.retry(&mut rounds);
        }
    }

    /// Retires a node that the caller unlinked.
    fn retire(&self, node: &Node<K, F, W>, guard: &Guard) {
        // SAFETY: it left the tree: no link of a node in the tree leads to it, and none will, since
        // it is marked. Only the thread that unlinked it comes here.
        unsafe { self.nodes.retire(guard, NonNull::from(node)) };
    }

    /// Takes a node out of the tree, and says what else left it; `None` if the node's successor
    /// changed meanwhile. The caller has the locks of the node and of its parent, and checked both.
    fn unlink<'g>(
        &'g self,
        found: &Found<'g, K, F, W>,
        node: &'g Node<K, F, W>,
    ) -> Option<Unlinked<'g, K, F, W>> {
        let [left, right] = [LEFT, RIGHT].map(|side| node.child_address(side));
        if left != NONE && right != NONE {
            let successor = self.replace_by_successor(found, node)?;
            return Some(Unlinked::Successor(successor));
        }
        node.mark();
        let child = if left == NONE { right } else { left };
        found.parent.set_child(found.side, child);
        Some(Unlinked::Nothing)
    }

    /// Replaces a node with two children by a copy of its successor, waits for the searches that
    /// may be on their way to the successor, and unlinks that, which it returns.
    fn replace_by_successor<'g>(
        &'g self,
        found: &Found<'g, K, F, W>,
        node: &'g Node<K, F, W>,
    ) -> Option<&'g Node<K, F, W>> {
        let heir = lock_successor(node)?;
        let links = [LEFT, RIGHT].map(|side| node.child_address(side));
        let search = heir.node.search();
        let copy = self.nodes.place(Node::new(search.key, search.word, links));
        // SAFETY: the node is initialised and, once it is linked, protected by the guard.
        let copy: &Node<K, F, W> = unsafe { copy.as_ref() };
        copy.lock();
        node.mark();
        found.parent.set_child(found.side, copy.address());
        if !planted(PlantedBug::CitrusNoGracePeriod) {
            self.sections.wait();
        }
        self.grace_periods.fetch_add(1, Ordering::Relaxed);
        heir.node.mark();
        let above = if heir.parent.is(node) {
            copy
        } else {
            heir.parent
        };
        above.set_child(heir.side, heir.node.child_address(RIGHT));
        copy.unlock();
        heir.unlock(node);
        Some(heir.node)
    }
}

impl<K: IntKey, F: Form, W: Word> Heir<'_, K, F, W> {
    /// Gives back what [`lock_successor`] locked.
    fn unlock(&self, node: &Node<K, F, W>) {
        self.node.unlock();
        if !self.parent.is(node) {
            self.parent.unlock();
        }
    }
}

/// Locks the successor of a node with two children, and the successor's parent; `None` if they
/// changed meanwhile. The caller has the node's lock.
fn lock_successor<K: IntKey, F: Form, W: Word>(node: &Node<K, F, W>) -> Option<Heir<'_, K, F, W>> {
    let (mut parent, mut side) = (node, RIGHT);
    let mut successor = node.child(RIGHT)?;
    while let Some(next) = successor.child(LEFT) {
        (parent, side, successor) = (successor, LEFT, next);
    }
    let heir = Heir {
        node: successor,
        parent,
        side,
    };
    if !parent.is(node) {
        parent.lock();
    }
    successor.lock();
    let is_linked = parent.has_child(side, successor);
    let is_last = successor.state() & MARKED == 0 && successor.child_address(LEFT) == NONE;
    if is_linked && is_last {
        return Some(heir);
    }
    heir.unlock(node);
    None
}
