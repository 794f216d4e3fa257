//! Inserts and removals.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;

use super::{LEFT, Limit, LogInt, NONE, Node, REMOVED, RIGHT};
use crate::form::Form;
use crate::lock::NodeLock;

/// What is locked in the tree for a removal, besides the node.
struct TreeLocks<'g, K, F: Form, W> {
    parent: &'g Node<K, F, W>,
    /// The node's successor, if the node has two children.
    heir: Option<Heir<'g, K, F, W>>,
}

/// A successor that takes the place of a node with two children.
struct Heir<'g, K, F: Form, W> {
    node: &'g Node<K, F, W>,
    /// Its parent, which may be the node that goes.
    parent: &'g Node<K, F, W>,
}

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    fn lock_succ(&self) {
        self.update().succ_lock.lock();
    }

    fn unlock_succ(&self) {
        self.update().succ_lock.unlock();
    }

    fn lock_tree(&self) {
        self.update().tree_lock.lock();
    }

    fn try_lock_tree(&self) -> bool {
        self.update().tree_lock.try_lock()
    }

    fn unlock_tree(&self) {
        self.update().tree_lock.unlock();
    }

    fn set_succ(&self, succ: u64) {
        self.search().succ.store(succ, Ordering::Release);
    }

    fn set_pred(&self, pred: &Self) {
        self.search().pred.store(pred.address(), Ordering::Release);
    }

    fn child_address(&self, side: usize) -> u64 {
        self.search().links[side].load(Ordering::Acquire)
    }

    /// Links a child, or none; the caller has this node's tree lock, and that of the child's former
    /// parent.
    fn set_child(&self, side: usize, child: Option<&Self>) {
        let address = child.map_or(NONE, Self::address);
        if let Some(child) = child {
            let parent = &child.update().parent;
            parent.store(self.address(), Ordering::Release);
        }
        self.search().links[side].store(address, Ordering::Release);
    }

    /// Puts `new` in the place of the child `old`; as [`set_child`](Self::set_child).
    fn replace_child(&self, old: &Self, new: Option<&Self>) {
        let side = usize::from(self.child_address(LEFT) != old.address());
        debug_assert!(self.child_address(side) == old.address());
        self.set_child(side, new);
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> LogInt<K, F, W> {
    /// Counts an attempt that was in vain, and waits a moment.
    fn retry(&self, rounds: &mut u32) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        W::pause(rounds);
    }

    /// Locks the gap below `key` or at it: returns the nodes on both sides, of which the first
    /// one's *succ* is locked; a search of the tree ended at `start`.
    fn lock_gap<'g>(
        &self,
        start: &'g Node<K, F, W>,
        key: K,
    ) -> (&'g Node<K, F, W>, &'g Node<K, F, W>) {
        let (mut start, mut rounds) = (start, 0);
        loop {
            let (pred, _) = self.around(start, Limit::Below(key));
            pred.lock_succ();
            let succ = pred.succ();
            if !pred.is_removed() && self.is_above(succ, Limit::Below(key)) {
                return (pred, succ);
            }
            pred.unlock_succ();
            start = pred;
            self.retry(&mut rounds);
        }
    }

    pub(super) fn insert_node(&self, key: K, word: u64) -> Option<u64> {
        let guard = epoch::pin();
        let (end, _) = self.descend(key, &guard);
        if let Some(word) = self.look_up_in_list(end, key) {
            return Some(word);
        }
        let place = self.nodes.place(Node::new(MaybeUninit::new(key), word));
        let (pred, succ) = self.lock_gap(end, key);
        if self.key(succ) == Some(key) {
            let found = succ.search().word;
            pred.unlock_succ();
            // SAFETY: it came from this pool just now, and nobody else got its address.
            unsafe { self.nodes.free(place) };
            return Some(found);
        }
        // SAFETY: the node is initialised and, once it is linked, protected by the guard.
        let node: &Node<K, F, W> = unsafe { place.as_ref() };
        let (parent, side) = self.lock_parent_for(pred, succ, end);
        node.set_succ(succ.address());
        node.set_pred(pred);
        // The gap after the new node has two ends to link: nobody else may change them meanwhile.
        node.lock_succ();
        // Now the key is in the map.
        pred.set_succ(node.address());
        succ.set_pred(node);
        parent.set_child(side, Some(node));
        parent.unlock_tree();
        node.unlock_succ();
        pred.unlock_succ();
        None
    }

    /// Whether the node is the lower end of the list, which is not in the tree.
    fn is_least(&self, node: &Node<K, F, W>) -> bool {
        std::ptr::eq(node, self.least.as_ptr())
    }

    /// Locks the one node of two neighbours that has room for a child between them.
    fn lock_parent_for<'g>(
        &self,
        pred: &'g Node<K, F, W>,
        succ: &'g Node<K, F, W>,
        end: &Node<K, F, W>,
    ) -> (&'g Node<K, F, W>, usize) {
        let mut below_pred = !self.is_least(pred) && !end.is(succ);
        let mut rounds = 0;
        loop {
            let (parent, side) = match below_pred {
                true => (pred, RIGHT),
                false => (succ, LEFT),
            };
            parent.lock_tree();
            if parent.child_address(side) == NONE {
                return (parent, side);
            }
            parent.unlock_tree();
            below_pred = !below_pred && !self.is_least(pred);
            W::pause(&mut rounds);
        }
    }

    pub(super) fn remove_node(&self, key: K) -> Option<u64> {
        let guard = epoch::pin();
        let (end, _) = self.descend(key, &guard);
        self.look_up_in_list(end, key)?;
        let (pred, node) = self.lock_gap(end, key);
        if self.key(node) != Some(key) {
            pred.unlock_succ();
            return None;
        }
        node.lock_succ();
        let locks = self.lock_around(node);
        let succ = node.succ();
        // Now the key is gone.
        node.set_succ(succ.address() | REMOVED);
        pred.set_succ(succ.address());
        succ.set_pred(pred);
        unlink_from_tree(node, &locks);
        node.unlock_succ();
        pred.unlock_succ();
        let word = node.search().word;
        // SAFETY: no node in the list or the tree leads to it any more; the thread that marked it
        // retires it.
        unsafe { self.nodes.retire(&guard, NonNull::from(node)) };
        Some(word)
    }

    /// Takes the tree locks for the removal of a node whose gaps on both sides are locked.
    fn lock_around<'g>(&self, node: &'g Node<K, F, W>) -> TreeLocks<'g, K, F, W> {
        let mut rounds = 0;
        loop {
            node.lock_tree();
            let parent = lock_parent(node);
            let children = [LEFT, RIGHT].map(|side| node.child_address(side));
            if children.contains(&NONE) {
                return TreeLocks { parent, heir: None };
            }
            if let Some(heir) = try_lock_heir(node) {
                let heir = Some(heir);
                return TreeLocks { parent, heir };
            }
            parent.unlock_tree();
            node.unlock_tree();
            self.retry(&mut rounds);
        }
    }
}

/// Locks the parent of a node whose own lock the caller has.
fn lock_parent<K: IntKey, F: Form, W: Word>(node: &Node<K, F, W>) -> &Node<K, F, W> {
    let mut rounds = 0;
    loop {
        // Every node but the root has one, and nobody removes the root.
        if let Some(parent) = node.parent() {
            parent.lock_tree();
            if node.parent().is_some_and(|now| now.is(parent)) {
                return parent;
            }
            parent.unlock_tree();
        }
        W::pause(&mut rounds);
    }
}

/// Locks the successor of a node with two children, and the successor's parent, if nobody else has
/// these locks. The caller has the node's locks.
fn try_lock_heir<K: IntKey, F: Form, W: Word>(node: &Node<K, F, W>) -> Option<Heir<'_, K, F, W>> {
    let heir = node.succ();
    let parent = heir.parent()?;
    if !parent.is(node) && !parent.try_lock_tree() {
        return None;
    }
    let is_parent = heir.parent().is_some_and(|now| now.is(parent));
    if is_parent && heir.try_lock_tree() {
        return Some(Heir { node: heir, parent });
    }
    if !parent.is(node) {
        parent.unlock_tree();
    }
    None
}

/// Takes a node out of the tree, and gives its tree locks back.
fn unlink_from_tree<K: IntKey, F: Form, W: Word>(
    node: &Node<K, F, W>,
    locks: &TreeLocks<'_, K, F, W>,
) {
    match &locks.heir {
        None => {
            let child = node.child(LEFT).or_else(|| node.child(RIGHT));
            locks.parent.replace_child(node, child);
        }
        Some(heir) => {
            // Searches for the heir may miss it in the tree now; the list has it.
            if !heir.parent.is(node) {
                heir.parent.replace_child(heir.node, heir.node.child(RIGHT));
                heir.node.set_child(RIGHT, node.child(RIGHT));
            }
            heir.node.set_child(LEFT, node.child(LEFT));
            locks.parent.replace_child(node, Some(heir.node));
            heir.node.unlock_tree();
            if !heir.parent.is(node) {
                heir.parent.unlock_tree();
            }
        }
    }
    locks.parent.unlock_tree();
    node.unlock_tree();
}
