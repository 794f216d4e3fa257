//! Replacing a node by one with the next greater pair, and unlinking the node that had that pair.

use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::node::{Flag, Node, Side, clean, flag, is_null, with_flag};
use super::update::only_child;
use crate::atomic_word::compare_and_swap;
use crate::form::Form;
use crate::twin::{Step, TreeWord, leaves_out};

/// The least node below a link, and the two links above it.
struct Least<'g, F: Form, W: TreeWord> {
    node: &'g Node<F, W>,
    /// Its left link, which is null.
    left: u64,
    /// Its parent, and the parent's link to it.
    parent: &'g Node<F, W>,
    link: u64,
    /// The parent's parent, with side and link; the topmost node twice if that is the parent.
    outer: (&'g Node<F, W>, Side, u64),
}

/// The least node below the right link of `top`, which is `right`.
fn least_below<'g, F: Form, W: TreeWord>(
    top: &'g Node<F, W>,
    right: u64,
    guard: &'g Guard,
) -> Least<'g, F, W> {
    let mut outer = (top, Side::Right, right);
    let mut parent = (top, Side::Right, right);
    loop {
        // SAFETY: the link was read under the guard.
        let node: &Node<F, W> = unsafe { Node::at(parent.2, guard) };
        let left = node.link(Side::Left);
        if is_null(left) {
            return Least {
                node,
                left,
                parent: parent.0,
                link: parent.2,
                outer,
            };
        }
        outer = parent;
        parent = (node, Side::Left, left);
    }
}

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Replaces a node, to which `intent` leads, and whose links are frozen and lead to children,
    /// by one with the next greater pair. As [`remove_node`](Self::remove_node).
    pub(super) fn replace_by_next(
        &self,
        parent: &Node<F, W>,
        side: Side,
        intent: u64,
        guard: &Guard,
    ) -> bool {
        // SAFETY: the link was read under the guard.
        let node: &Node<F, W> = unsafe { Node::at(intent, guard) };
        loop {
            let least = least_below(node, node.link(Side::Right), guard);
            // Once the node is replaced, the least node below its links is another one's affair.
            if parent.link(side) != intent && !leaves_out::<W>(Step::RemovedStillLinked) {
                return true;
            }
            match flag(least.left) {
                Flag::Promote => {
                    return self.freeze(least.node, Side::Right, guard)
                        && self.replace((parent, side, intent), &least, guard);
                }
                Flag::Delete => {
                    let removed = flag(least.link) != Flag::Intent
                        || self.remove_node(least.parent, Side::Left, least.link, guard);
                    if !removed {
                        return false;
                    }
                }
                _ => {
                    // Fails if another node has become the least one.
                    let promoted = with_flag(least.left, Flag::Promote);
                    let left = least.node.word(Side::Left);
                    let _ = compare_and_swap(left, least.left, promoted);
                }
            }
        }
    }

    /// Puts a node with the pair of `least`, which is frozen, in the place of the one to which
    /// `intent` leads, unless another thread did.
    fn replace(
        &self,
        (parent, side, intent): (&Node<F, W>, Side, u64),
        least: &Least<'_, F, W>,
        guard: &Guard,
    ) -> bool {
        // SAFETY: the link was read under the guard.
        let node: &Node<F, W> = unsafe { Node::at(intent, guard) };
        let (left, right) = (clean(node.link(Side::Left)), clean(node.link(Side::Right)));
        let is_child = right == least.node.address();
        let right = if is_child {
            only_child::<W>(least.left, least.node.link(Side::Right))
        } else {
            with_flag(right, Flag::Promote)
        };
        let pair = (least.node.key(), least.node.value());
        let place = self.nodes.place(Node::new(pair, left, right));
        let link = place.as_ptr() as usize as u64;
        if compare_and_swap(parent.word(side), intent, link).is_err() {
            // SAFETY: nobody saw the new node.
            unsafe { self.nodes.free(place) };
            return true;
        }
        self.retire(node, guard);
        if is_child {
            self.retire(least.node, guard);
        } else {
            // SAFETY: the node was linked under the guard.
            let replacement = unsafe { Node::at(link, guard) };
            while !self.unlink_promoted(replacement, guard) {
                // A descent helps what is further up.
                self.seek(pair.0, guard);
            }
        }
        true
    }

    /// Unlinks the node below the right link of `node` that had its pair before, if that is linked
    /// still. Returns whether it is not; else a descent has to help something further up.
    pub(super) fn unlink_promoted(&self, node: &Node<F, W>, guard: &Guard) -> bool {
        loop {
            let right = node.link(Side::Right);
            if flag(right) != Flag::Promote {
                return true;
            }
            let least = least_below(node, right, guard);
            if least.node.key() != node.key() {
                // Fails if another thread was first.
                let _ = compare_and_swap(node.word(Side::Right), right, clean(right));
                return true;
            }
            if flag(least.link) == Flag::Delete {
                let (outer, side, link) = least.outer;
                let removed =
                    flag(link) != Flag::Intent || self.remove_node(outer, side, link, guard);
                if !removed {
                    return false;
                }
                continue;
            }
            // With an intent, its removal finds that its pair has moved.
            let child = only_child::<W>(least.left, least.node.link(Side::Right));
            let link = least.parent.word(Side::Left);
            if compare_and_swap(link, least.link, child).is_ok() {
                self.retire(least.node, guard);
            }
        }
    }
}
