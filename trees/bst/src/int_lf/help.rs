//! The steps of operations, which any thread may take.

use std::ptr::NonNull;

use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::descriptor::{Descriptor, LEFT, ONGOING, RIGHT, SUCCESSFUL};
use super::node::{Flag, Node, is_flagged, is_null, null, null_after, with_flag};
use crate::atomic_word::compare_and_swap;
use crate::form::Form;
use crate::twin::{Step, TreeWord, leaves_out};

/// What became of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relocated {
    /// It does not take place: its target changed before.
    No,
    /// The target has the pair, but the source may be linked still.
    Marked,
    /// The target has the pair, and this thread unlinked the source.
    Unlinked,
}

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Changes a link of `node`, whose `op` had no flag when it was `op` and has not changed since.
    /// Returns whether it had not.
    pub(super) fn install_change(
        &self,
        (node, op): (&Node<F, W>, u64),
        change: Descriptor<W>,
        guard: &Guard,
    ) -> bool {
        let place = self.descriptors.place(change);
        let address = place.as_ptr() as usize as u64;
        let installed = with_flag(address, Flag::ChildCas);
        if self.replace_op(node, op, installed, guard).is_err() {
            // SAFETY: nobody saw the descriptor.
            unsafe { self.descriptors.free(place) };
            return false;
        }
        // SAFETY: the node's `op` named the descriptor under the guard.
        let change = unsafe { Descriptor::at(address, guard) };
        self.change_link(change, node, guard);
        true
    }

    /// Completes a change of a link of `node`. Whoever ends it retires the node that it unlinks:
    /// until then others may find the change, and compare with the address of that node.
    pub(super) fn change_link(&self, change: &Descriptor<W>, node: &Node<F, W>, guard: &Guard) {
        let search = node.search();
        let link = match change.state() {
            RIGHT => &search.right,
            _ => &search.left,
        };
        // Fails if another thread was first: this link does not get the old value again.
        let _ = compare_and_swap(link, change.expected, change.new);
        let under_way = with_flag(change.address(), Flag::ChildCas);
        let ended = compare_and_swap(&search.op, under_way, with_flag(under_way, Flag::None));
        if ended.is_ok() && !is_null(change.expected) {
            self.retire(change.expected, guard);
        }
    }

    /// Completes a relocation that the `op` word of `node` names: of its source, or of its target.
    pub(super) fn relocate(
        &self,
        relocation: &Descriptor<W>,
        (parent, parent_op): (&Node<F, W>, u64),
        node: &Node<F, W>,
        guard: &Guard,
    ) -> Relocated {
        // SAFETY: the target was linked under the pin of the thread that described the
        // relocation, which was pinned still when this one found it under the guard.
        let target = unsafe { Node::at(relocation.target, guard) };
        let under_way = with_flag(relocation.address(), Flag::Relocate);
        let ended = with_flag(under_way, Flag::None);
        let takes_place = self.lock_target(relocation, target, guard);
        if takes_place {
            self.move_pair(relocation, target, guard);
            let _ = compare_and_swap(&target.search().op, under_way, ended);
        }
        if !takes_place {
            let _ = compare_and_swap(&node.search().op, under_way, ended);
            return Relocated::No;
        }
        if relocation.target == node.address() {
            return Relocated::Marked;
        }
        let marked = with_flag(under_way, Flag::Mark);
        let _ = compare_and_swap(&node.search().op, under_way, marked);
        // The descent read the target's `op` before it was locked.
        let parent_op = match relocation.target == parent.address() {
            true => ended,
            false => parent_op,
        };
        match self.unlink((parent, parent_op), node, guard) {
            true => Relocated::Unlinked,
            false => Relocated::Marked,
        }
    }

    /// Locks the target of a relocation, if its `op` has not changed since it was chosen. Returns
    /// whether the relocation takes place.
    fn lock_target(&self, relocation: &Descriptor<W>, target: &Node<F, W>, guard: &Guard) -> bool {
        let state = relocation.state();
        if state != ONGOING {
            return state >= SUCCESSFUL;
        }
        let locked = with_flag(relocation.address(), Flag::Relocate);
        let takes_place = match self.replace_op(target, relocation.target_op, locked, guard) {
            Ok(()) => true,
            Err(seen) => seen == locked || leaves_out::<W>(Step::TargetCompared),
        };
        relocation.decide(takes_place)
    }

    /// Gives the target of a relocation its pair, while its `op` is locked: what is late changes
    /// nothing, since neither word gets an old value again.
    fn move_pair(&self, relocation: &Descriptor<W>, target: &Node<F, W>, guard: &Guard) {
        let moved = &target.rest().moved;
        if compare_and_swap(moved, relocation.moved, relocation.address()).is_ok() {
            self.drop_name(relocation.moved, guard);
        }
        let _ = compare_and_swap(&target.search().key, relocation.expected, relocation.new);
    }

    /// Unlinks a marked node from its parent, unless that changed since its `op` was `parent_op`.
    /// Returns whether it did it.
    pub(super) fn unlink(
        &self,
        (parent, parent_op): (&Node<F, W>, u64),
        node: &Node<F, W>,
        guard: &Guard,
    ) -> bool {
        if is_flagged(parent_op) || parent.op() != parent_op {
            return false;
        }
        let side = if parent.left() == node.address() {
            LEFT
        } else if parent.right() == node.address() {
            RIGHT
        } else {
            return false;
        };
        let (left, right) = (node.left(), node.right());
        let rest = match (is_null(left), is_null(right)) {
            (true, true) if leaves_out::<W>(Step::NullsNumbered) => null(0),
            (true, true) => null_after(left, right),
            (true, false) => right,
            (false, _) => left,
        };
        let change = Descriptor::of_link(side, node.address(), rest);
        self.install_change((parent, parent_op), change, guard)
    }

    /// Begins a relocation from `source`, whose `op` was `op`, and completes it.
    pub(super) fn begin_relocation(
        &self,
        relocation: Descriptor<W>,
        (parent, parent_op): (&Node<F, W>, u64),
        (source, op): (&Node<F, W>, u64),
        guard: &Guard,
    ) -> Relocated {
        let place: NonNull<_> = self.descriptors.place(relocation);
        let address = place.as_ptr() as usize as u64;
        let locked = with_flag(address, Flag::Relocate);
        if self.replace_op(source, op, locked, guard).is_err() {
            // SAFETY: nobody saw the descriptor.
            unsafe { self.descriptors.free(place) };
            return Relocated::No;
        }
        // SAFETY: the source's `op` named the descriptor under the guard.
        let relocation = unsafe { Descriptor::at(address, guard) };
        self.relocate(relocation, (parent, parent_op), source, guard)
    }
}
