//! Inserts and removals.

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::node::{Node, Side};
use super::search::{Place, Stop};
use super::{OccAvl, UNLINKS, Validation};
use crate::form::Form;

/// What an update does with a word.
pub(crate) enum Change {
    /// Nothing.
    Keep,
    /// Stores another one.
    Put(u64),
    /// Removes it, if there is one.
    Remove,
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    /// Stores `word` under `key` if the key is absent; returns the word that it has otherwise.
    pub(super) fn insert_new(&self, key: K::Encoded, word: u64, guard: &Guard) -> Option<u64> {
        self.search(key, guard, |place| match place {
            Place::Gap(gap) => {
                let filled = self.fill_gap(gap, key, guard, || Some(word));
                filled.then_some(None)
            }
            Place::Node { node, .. } => match node.word() {
                None => Self::insert_into_router(node, word),
                found => Some(found),
            },
        })
    }

    /// Puts a leaf into the gap, if there is a word for it; says whether the gap was still there.
    /// `word` is called with the gap locked.
    fn fill_gap(
        &self,
        gap: Stop<'_, K, F, W>,
        key: K::Encoded,
        guard: &Guard,
        word: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let locked = gap.node.lock();
        if !gap.node.is_at(gap.version) || gap.node.link(gap.side) != 0 {
            return false;
        }
        let Some(word) = word() else {
            return true;
        };
        let leaf = self.pool.place(Node::leaf(key, word, gap.node));
        let address = leaf.as_ptr().expose_provenance() as u64;
        gap.node.set_link(gap.side, address);
        drop(locked);
        self.repair(gap.node, guard);
        true
    }

    /// Lets `decide` look at the word of `key` and change it, once, while nobody else can. Returns
    /// the word that was replaced or removed.
    pub(crate) fn update_word(
        &self,
        key: K::Encoded,
        guard: &Guard,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Option<u64> {
        self.search(key, guard, |place| match place {
            Place::Gap(gap) => {
                let word = || match decide(None) {
                    Change::Put(word) => Some(word),
                    Change::Keep | Change::Remove => None,
                };
                self.fill_gap(gap, key, guard, word).then_some(None)
            }
            Place::Node { node, .. } => self.change_word(node, guard, &mut decide),
        })
    }

    /// What [`update_word`](Self::update_word) returns, or `None` if the node has left.
    fn change_word<'g>(
        &'g self,
        node: &'g Node<K, F, W>,
        guard: &'g Guard,
        decide: &mut impl FnMut(Option<u64>) -> Change,
    ) -> Option<Option<u64>> {
        let locked = node.lock();
        if node.is_unlinked() {
            return None;
        }
        let found = node.word();
        match (decide(found), found) {
            (Change::Keep, _) | (Change::Remove, None) => return Some(None),
            (Change::Put(word), Some(_)) => node.replace_word(word),
            (Change::Put(word), None) => node.set_word(Some(word)),
            (Change::Remove, Some(_)) => {
                node.set_word(None);
                drop(locked);
                // Unlinks a router that lacks a child.
                self.repair(node, guard);
            }
        }
        Some(found)
    }

    /// Makes a router an item again: what an insert returns, or `None` if the router has left.
    fn insert_into_router(node: &Node<K, F, W>, word: u64) -> Option<Option<u64>> {
        let _locked = node.lock();
        if node.is_unlinked() {
            return None;
        }
        let found = node.word();
        if found.is_none() {
            node.set_word(Some(word));
        }
        Some(found)
    }

    /// Removes `key`; returns its word.
    pub(super) fn remove_key(&self, key: K::Encoded, guard: &Guard) -> Option<u64> {
        self.search(key, guard, |place| match place {
            Place::Gap(_) => Some(None),
            Place::Node { node, .. } if !node.is_present() => Some(None),
            Place::Node { node, .. } if has_two_children(node) => Self::remove_word(node),
            Place::Node { parent, node } => self.remove_node(parent, node, guard),
        })
    }

    /// Makes an item with two children a router: what a removal returns, or `None` if the node has
    /// fewer by now.
    fn remove_word(node: &Node<K, F, W>) -> Option<Option<u64>> {
        let _locked = node.lock();
        if node.is_unlinked() || !has_two_children(node) {
            return None;
        }
        let found = node.word();
        if found.is_some() {
            node.set_word(None);
        }
        Some(found)
    }

    /// Removes an item and unlinks its node, or makes it a router if it has two children by now:
    /// what a removal returns, or `None` if the parent is another by now.
    fn remove_node<'g>(
        &self,
        parent: &'g Node<K, F, W>,
        node: &'g Node<K, F, W>,
        guard: &'g Guard,
    ) -> Option<Option<u64>> {
        let parent_locked = parent.lock();
        if parent.is_unlinked() || node.is_unlinked() || !node.has_parent(parent) {
            return None;
        }
        let locked = node.lock();
        let found = node.word();
        if found.is_none() {
            return Some(None);
        }
        node.set_word(None);
        if has_two_children(node) {
            return Some(found);
        }
        Self::splice(parent, node, guard);
        drop((locked, parent_locked));
        self.retire(node, guard);
        self.repair(parent, guard);
        Some(found)
    }

    /// Puts the only child of a router, if any, into its place. The caller holds the locks of
    /// both, and retires the node.
    pub(super) fn splice(parent: &Node<K, F, W>, node: &Node<K, F, W>, guard: &Guard) {
        debug_assert!(!node.is_present() && !has_two_children(node));
        let side = parent.side_of(node);
        let left = node.child(Side::Left, guard);
        let child = left.or_else(|| node.child(Side::Right, guard));
        node.mark_unlinked();
        parent.adopt(side, child);
    }

    /// Frees an unlinked node once nobody can be looking at it.
    pub(super) fn retire(&self, node: &Node<K, F, W>, guard: &Guard) {
        self.counters.count(UNLINKS);
        // SAFETY: the node came from this pool, and the thread that spliced it out is the only one
        // to retire it: under the locks of both it was in the tree, and now it is not. Nothing in
        // the tree names it any more, neither its parent nor its child (see the module's
        // documentation), so who pins from now on does not reach it.
        unsafe { self.pool.retire(guard, node.pointer()) };
    }
}

/// Whether removing the item leaves a router.
fn has_two_children<K: IntKey, F: Form, W: Word + 'static>(node: &Node<K, F, W>) -> bool {
    node.link(Side::Left) != 0 && node.link(Side::Right) != 0
}
