//! Inserting and removing.

use std::sync::atomic::Ordering;

use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::descriptor::{Descriptor, LEFT, RIGHT};
use super::help::Relocated;
use super::node::{Flag, Node, is_null, with_flag};
use super::seek::{End, Place};
use crate::atomic_word::compare_and_swap;
use crate::form::Form;
use crate::twin::{Step, TreeWord, leaves_out};

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Inserts a pair whose key is absent; returns the value of one that is present.
    pub(super) fn insert(&self, key: u64, value: u64, guard: &Guard) -> Option<u64> {
        loop {
            let place = self.seek(key, guard);
            let (side, null) = match place.end {
                End::Found(value) => return Some(value),
                End::Left(null) => (LEFT, null),
                End::Right(null) => (RIGHT, null),
            };
            let leaf = self.nodes.place(Node::leaf(key, value, null));
            let link = leaf.as_ptr() as usize as u64;
            let change = Descriptor::of_link(side, null, link);
            if self.install_change((place.node, place.op), change, guard) {
                return None;
            }
            // SAFETY: the change was not installed, so nobody saw the leaf.
            unsafe { self.nodes.free(leaf) };
            self.count_retry();
        }
    }

    /// Removes a key; returns its value.
    pub(super) fn remove(&self, key: u64, guard: &Guard) -> Option<u64> {
        loop {
            let place = self.seek(key, guard);
            let End::Found(value) = place.end else {
                return None;
            };
            let one_child = is_null(place.node.left()) || is_null(place.node.right());
            let removed = match one_child {
                true => self.mark(&place, key, guard),
                false => self.replace_pair(&place, key, guard),
            };
            if removed {
                return Some(value);
            }
            self.count_retry();
        }
    }

    /// Removes a node with at most one child, unless it changed.
    fn mark(&self, place: &Place<'_, F, W>, key: u64, guard: &Guard) -> bool {
        let marked = with_flag(place.op, Flag::Mark);
        if compare_and_swap(&place.node.search().op, place.op, marked).is_err() {
            return false;
        }
        if !self.unlink((place.parent, place.parent_op), place.node, guard) {
            // A descent unlinks the marked nodes that it meets.
            if !leaves_out::<W>(Step::MarkedUnlinked) {
                self.seek(key, guard);
            }
        }
        true
    }

    /// Removes the key of a node with two children: the next greater pair takes its place, and its
    /// node is unlinked. Not if the node changed.
    fn replace_pair(&self, place: &Place<'_, F, W>, key: u64, guard: &Guard) -> bool {
        let Some(next) = self.next_greater((place.node, place.op), guard) else {
            return false;
        };
        let moved = place.node.rest().moved.load(Ordering::Acquire);
        let (next_key, next_value) = (next.node.key(), next.node.value(guard));
        let relocation = Descriptor::of_relocation(
            (place.node.address(), place.op, moved),
            key,
            (next_key, next_value),
        );
        let parent = (next.parent, next.parent_op);
        match self.begin_relocation(relocation, parent, (next.node, next.op), guard) {
            Relocated::No => return false,
            // A descent unlinks the marked nodes that it meets.
            Relocated::Marked if leaves_out::<W>(Step::MarkedUnlinked) => {}
            Relocated::Marked => self.seek_behind(next_key, guard),
            Relocated::Unlinked => {}
        }
        true
    }
}
