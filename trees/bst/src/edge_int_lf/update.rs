//! Inserting and removing.

use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::node::{Flag, Node, Side, clean, flag, is_null, null, null_after, with_flag};
use super::seek::{End, Place};
use crate::atomic_word::compare_and_swap;
use crate::form::Form;
use crate::twin::{Step, TreeWord, leaves_out};

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Inserts a pair whose key is absent; returns the value of one that is present.
    pub(super) fn insert(&self, key: u64, value: u64, guard: &Guard) -> Option<u64> {
        loop {
            let Place { parent, side, end } = self.seek(key, guard);
            let null = match end {
                End::Found(node) => return Some(node.value()),
                End::Absent(null) => null,
            };
            let leaf = self.nodes.place(Node::leaf((key, value), null));
            let link = leaf.as_ptr() as usize as u64;
            if compare_and_swap(parent.word(side), null, link).is_ok() {
                return None;
            }
            // SAFETY: nobody saw the leaf.
            unsafe { self.nodes.free(leaf) };
            self.count_retry();
        }
    }

    /// Removes a key; returns its value.
    pub(super) fn remove(&self, key: u64, guard: &Guard) -> Option<u64> {
        loop {
            let Place { parent, side, end } = self.seek(key, guard);
            let End::Found(node) = end else {
                return None;
            };
            let intent = with_flag(node.address(), Flag::Intent);
            if compare_and_swap(parent.word(side), node.address(), intent).is_ok() {
                if !self.remove_node(parent, side, intent, guard) {
                    // A descent helps what this removal waits for, and the removal.
                    self.seek(key, guard);
                }
                if flag(node.link(Side::Left)) == Flag::Delete
                    || leaves_out::<W>(Step::PromotionNoticed)
                {
                    return Some(node.value());
                }
                // The pair took another one's place before: it is there to be removed.
            }
            self.count_retry();
        }
    }

    /// Takes the steps of the removal of a node, to which `intent` leads. Returns whether it is
    /// unlinked; else its pair was promoted, or a descent has to help something further up.
    pub(super) fn remove_node(
        &self,
        parent: &Node<F, W>,
        side: Side,
        intent: u64,
        guard: &Guard,
    ) -> bool {
        // SAFETY: the link was read under the guard.
        let node: &Node<F, W> = unsafe { Node::at(intent, guard) };
        if !self.freeze(node, Side::Left, guard) || !self.freeze(node, Side::Right, guard) {
            return false;
        }
        let (left, right) = (node.link(Side::Left), node.link(Side::Right));
        if is_null(left) || is_null(right) {
            let child = only_child::<W>(left, right);
            if compare_and_swap(parent.word(side), intent, child).is_ok() {
                self.retire(node, guard);
            }
            return true;
        }
        self.replace_by_next(parent, side, intent, guard)
    }

    /// Freezes a link of a node that is to be unlinked. Not if the node's pair was promoted, or if
    /// something further up has to be helped.
    pub(super) fn freeze(&self, node: &Node<F, W>, side: Side, guard: &Guard) -> bool {
        loop {
            let link = node.link(side);
            let may_freeze = match flag(link) {
                Flag::Delete => return true,
                Flag::Clean => true,
                Flag::Promote if side == Side::Right => {
                    leaves_out::<W>(Step::PromotedUnlinkedFirst)
                }
                _ => false,
            };
            if may_freeze {
                let frozen = with_flag(link, Flag::Delete);
                let _ = compare_and_swap(node.word(side), link, frozen);
                continue;
            }
            let helped = match (flag(link), side) {
                (Flag::Intent, _) => self.remove_node(node, side, link, guard),
                (Flag::Promote, Side::Right) => self.unlink_promoted(node, guard),
                _ => false,
            };
            if !helped {
                return false;
            }
        }
    }
}

/// What takes the place of a node with these links, of which one is null.
pub(super) fn only_child<W: TreeWord>(left: u64, right: u64) -> u64 {
    match (is_null(left), is_null(right)) {
        (true, true) if leaves_out::<W>(Step::NullsNumbered) => null(0),
        (true, true) => null_after(clean(left), clean(right)),
        (true, false) => clean(right),
        (false, _) => clean(left),
    }
}
