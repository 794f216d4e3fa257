//! Descents: of lookups, which keep nothing but what they validate, and of updates, which also
//! keep the parent and help what they meet.

use std::cmp;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::hint::select_unpredictable;
use std::sync::atomic::Ordering;

use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::descriptor::Descriptor;
use super::node::{Flag, Node, Search, descriptor_of, flag, is_flagged, is_null};
use crate::form::Form;
use crate::interleave::{Step, prefetch_fields};
use crate::planted::{PlantedBug, planted};
use crate::twin::{Step as Protocol, TreeWord, leaves_out};

/// Where a descent ended.
pub(super) enum End {
    /// At the key, which has this value.
    Found(u64),
    /// At a left link, which is this null.
    Left(u64),
    /// At a right link, which is this null.
    Right(u64),
}

/// A node at which a descent ended, and what it read before the node's links and key.
pub(super) struct Place<'g, F: Form, W: TreeWord> {
    pub(super) parent: &'g Node<F, W>,
    pub(super) parent_op: u64,
    pub(super) node: &'g Node<F, W>,
    pub(super) op: u64,
    pub(super) end: End,
}

/// A lookup under way.
pub(super) struct Lookup<'g, F: Form, W: TreeWord> {
    key: u64,
    node: &'g Node<F, W>,
    op: u64,
    /// The last node at which the lookup went to the right: if a greater key is relocated to it,
    /// the key that is looked up may have gone there.
    right: &'g Node<F, W>,
    right_op: u64,
    next: u64,
    guard: &'g Guard,
}

/// What a step of a lookup led to.
pub(super) enum Sought {
    Pending,
    Is(Option<u64>),
    /// Something changed, or is to be helped: only an update's descent can say.
    Unclear,
}

impl<'g, F: Form, W: TreeWord> Lookup<'g, F, W> {
    /// One node further. One of `MANY` lookups goes there without a branch: a processor would
    /// predict half of them wrongly, which would hold up the others.
    #[inline(always)]
    pub(super) fn step<const MANY: bool>(&mut self) -> Sought {
        if is_null(self.next) {
            let same = self.right.op() == self.right_op && self.node.op() == self.op;
            let valid = same && !is_flagged(self.right_op);
            let unvalidated = leaves_out::<W>(Protocol::MissValidated)
                || planted(PlantedBug::IntLfMissNotValidated);
            return match valid || unvalidated {
                true => Sought::Is(None),
                false => Sought::Unclear,
            };
        }
        // SAFETY: the link was read under the guard.
        let node = unsafe { Node::<F, W>::at(self.next, self.guard) };
        let op = node.op();
        if is_flagged(op) {
            return Sought::Unclear;
        }
        (self.node, self.op) = (node, op);
        let key = node.key();
        if self.key == key {
            let value = node.value(self.guard);
            return match node.op() == op {
                true => Sought::Is(Some(value)),
                false => Sought::Unclear,
            };
        }
        if MANY {
            let (left, right) = (node.left(), node.right());
            self.next = select_unpredictable(self.key > key, right, left);
            self.right = select_unpredictable(self.key > key, node, self.right);
            self.right_op = select_unpredictable(self.key > key, op, self.right_op);
        } else if self.key > key {
            self.next = node.right();
            (self.right, self.right_op) = (node, op);
        } else {
            self.next = node.left();
        }
        Sought::Pending
    }

    /// Asks for what the next step reads: a quarter of the nodes of 48 bytes have that on two
    /// lines.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch_fields::<Search<W>>(self.next as usize + Node::<F, W>::SEARCH_OFFSET);
    }
}

impl<F: Form, W: TreeWord> Node<F, W> {
    /// The value beside the key.
    #[inline(always)]
    pub(super) fn value(&self, guard: &Guard) -> u64 {
        match self.rest().moved.load(Ordering::Acquire) {
            0 => self.rest().value,
            // SAFETY: `moved` names its descriptor.
            moved => unsafe { Descriptor::<W>::at(moved, guard) }.value,
        }
    }
}

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Begins a lookup.
    #[inline(always)]
    pub(super) fn lookup<'g>(&self, key: u64, guard: &'g Guard) -> Lookup<'g, F, W> {
        let root = self.root(guard);
        let op = root.op();
        Lookup {
            key,
            node: root,
            op,
            right: root,
            right_op: op,
            next: root.right(),
            guard,
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: u64, guard: &Guard) -> Option<u64> {
        if !F::LIGHT_LOOKUPS {
            return self.get_by_seek(key, guard);
        }
        let mut lookup = self.lookup(key, guard);
        loop {
            match lookup.step::<false>() {
                Sought::Pending => {}
                Sought::Is(value) => return value,
                Sought::Unclear => return self.get_by_seek(key, guard),
            }
        }
    }

    /// As [`get`](Self::get), by the descent of updates.
    fn get_by_seek(&self, key: u64, guard: &Guard) -> Option<u64> {
        match self.seek(key, guard).end {
            End::Found(value) => Some(value),
            End::Left(_) | End::Right(_) => None,
        }
    }

    /// A step of one of many lookups.
    pub(super) fn step_of_many(&self, lookup: &mut Lookup<'_, F, W>) -> Step {
        if !F::LIGHT_LOOKUPS {
            return Step::Found(self.get_by_seek(lookup.key, lookup.guard));
        }
        match lookup.step::<true>() {
            Sought::Pending => {
                lookup.prefetch();
                Step::Pending
            }
            Sought::Is(value) => Step::Found(value),
            Sought::Unclear => Step::Found(self.get_by_seek(lookup.key, lookup.guard)),
        }
    }

    /// Finds a key, or the link where it belongs. Helps whatever is under way on the path, so no
    /// marked node is on it when it returns.
    pub(super) fn seek<'g>(&self, key: u64, guard: &'g Guard) -> Place<'g, F, W> {
        loop {
            if let Some(place) = self.try_seek(|other| key.cmp(&other), guard) {
                return place;
            }
            self.count_retry();
        }
    }

    /// A descent to where a node stands whose key `key` was relocated: behind the present one.
    pub(super) fn seek_behind(&self, key: u64, guard: &Guard) {
        let behind = |other| if other <= key { Greater } else { Less };
        while self.try_seek(behind, guard).is_none() {
            self.count_retry();
        }
    }

    /// One descent, by how the key compares with those of nodes; `None` if something changed, or
    /// was helped.
    fn try_seek<'g>(
        &self,
        compare: impl Fn(u64) -> cmp::Ordering,
        guard: &'g Guard,
    ) -> Option<Place<'g, F, W>> {
        let root = self.root(guard);
        let root_op = root.op();
        if is_flagged(root_op) {
            self.help((root, root_op), (root, root_op), guard);
            return None;
        }
        let (mut node, mut op) = (root, root_op);
        let (mut parent, mut parent_op) = (root, root_op);
        let (mut right, mut right_op) = (root, root_op);
        let mut next = root.right();
        let mut end = End::Right(next);
        while !is_null(next) {
            (parent, parent_op) = (node, op);
            // SAFETY: the link was read under the guard.
            node = unsafe { Node::at(next, guard) };
            op = node.op();
            if is_flagged(op) {
                self.help((parent, parent_op), (node, op), guard);
                return None;
            }
            match compare(node.key()) {
                Less => {
                    next = node.left();
                    end = End::Left(next);
                }
                Greater => {
                    next = node.right();
                    end = End::Right(next);
                    (right, right_op) = (node, op);
                }
                Equal => {
                    end = End::Found(node.value(guard));
                    break;
                }
            }
        }
        let found = matches!(end, End::Found(_));
        let same = node.op() == op && (found || right.op() == right_op);
        same.then_some(Place {
            parent,
            parent_op,
            node,
            op,
            end,
        })
    }

    /// The node with the least key to the right of `node`, whose `op` is still `op`; `None` if
    /// something changed, or was helped.
    pub(super) fn next_greater<'g>(
        &self,
        (node, op): (&'g Node<F, W>, u64),
        guard: &'g Guard,
    ) -> Option<Place<'g, F, W>> {
        let (mut parent, mut parent_op) = (node, op);
        let mut link = node.right();
        loop {
            if is_null(link) {
                return None;
            }
            // SAFETY: the link was read under the guard.
            let least: &Node<F, W> = unsafe { Node::at(link, guard) };
            let least_op = least.op();
            if is_flagged(least_op) {
                self.help((parent, parent_op), (least, least_op), guard);
                return None;
            }
            link = least.left();
            if is_null(link) {
                let same = least.op() == least_op && node.op() == op;
                return same.then_some(Place {
                    parent,
                    parent_op,
                    node: least,
                    op: least_op,
                    end: End::Left(link),
                });
            }
            (parent, parent_op) = (least, least_op);
        }
    }

    /// Completes what the `op` word of a node says, which the descent met below `parent`.
    fn help(
        &self,
        (parent, parent_op): (&Node<F, W>, u64),
        (node, op): (&Node<F, W>, u64),
        guard: &Guard,
    ) {
        self.count_help();
        let described = descriptor_of(op);
        match flag(op) {
            Flag::None => {}
            Flag::Mark => {
                self.unlink((parent, parent_op), node, guard);
            }
            Flag::ChildCas => {
                // SAFETY: the node's `op` named the descriptor.
                let descriptor = unsafe { Descriptor::at(described, guard) };
                self.change_link(descriptor, node, guard);
            }
            Flag::Relocate => {
                // SAFETY: as above.
                let descriptor = unsafe { Descriptor::at(described, guard) };
                self.relocate(descriptor, (parent, parent_op), node, guard);
            }
        }
    }
}
