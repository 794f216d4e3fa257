//! Descents: of lookups, which keep nothing but what they validate, and of updates, which also
//! keep the parent and help what they meet.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::hint::select_unpredictable;

use hedgerow_memory::prefetch_line;
use hedgerow_sync::epoch::Guard;

use super::core::Core;
use super::node::{Flag, Node, Side, flag, is_flagged, is_null};
use crate::form::Form;
use crate::interleave::Step;
use crate::planted::{PlantedBug, planted};
use crate::twin::{Step as Protocol, TreeWord, leaves_out};

/// Where a descent ended.
pub(super) enum End<'g, F: Form, W: TreeWord> {
    /// At the node that has the key.
    Found(&'g Node<F, W>),
    /// At this null.
    Absent(u64),
}

/// The link at which a descent ended: it leads to the key's node, or is the null where the key
/// belongs, and had no flag.
pub(super) struct Place<'g, F: Form, W: TreeWord> {
    pub(super) parent: &'g Node<F, W>,
    pub(super) side: Side,
    pub(super) end: End<'g, F, W>,
}

/// A lookup under way.
pub(super) struct Lookup<'g, F: Form, W: TreeWord> {
    key: u64,
    /// The last node at which the lookup went to the right: if it is replaced by the next greater
    /// pair, that pair has left the lookup's path.
    anchor: &'g Node<F, W>,
    next: u64,
    guard: &'g Guard,
}

/// What a step of a lookup led to.
pub(super) enum Sought {
    Pending,
    Is(Option<u64>),
    /// Something changed: only an update's descent can say.
    Unclear,
}

impl<'g, F: Form, W: TreeWord> Lookup<'g, F, W> {
    /// One node further. One of `MANY` lookups goes there without a branch: a processor would
    /// predict half of them wrongly, which would hold up the others.
    #[inline(always)]
    pub(super) fn step<const MANY: bool>(&mut self) -> Sought {
        if is_null(self.next) {
            let valid = !is_flagged(self.next) && is_in_tree(self.anchor);
            let unvalidated = leaves_out::<W>(Protocol::MissValidated)
                || planted(PlantedBug::EdgeIntLfMissNotValidated);
            return match valid || unvalidated {
                true => Sought::Is(None),
                false => Sought::Unclear,
            };
        }
        // SAFETY: the link was read under the guard.
        let node = unsafe { Node::<F, W>::at(self.next, self.guard) };
        let key = node.key();
        if self.key == key {
            // A node has its pair as long as it is linked, and this one was since the lookup
            // began.
            return Sought::Is(Some(node.value()));
        }
        if MANY {
            let (left, right) = (node.link(Side::Left), node.link(Side::Right));
            self.next = select_unpredictable(self.key > key, right, left);
            self.anchor = select_unpredictable(self.key > key, node, self.anchor);
        } else if self.key > key {
            self.next = node.link(Side::Right);
            self.anchor = node;
        } else {
            self.next = node.link(Side::Left);
        }
        Sought::Pending
    }

    /// Asks for the node of the next step.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch_line(self.next as usize as *const u8);
    }
}

/// Whether nothing has taken the place of a node yet: its right link is frozen before.
#[inline(always)]
fn is_in_tree<F: Form, W: TreeWord>(node: &Node<F, W>) -> bool {
    flag(node.link(Side::Right)) != Flag::Delete
}

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Begins a lookup.
    #[inline(always)]
    pub(super) fn lookup<'g>(&self, key: u64, guard: &'g Guard) -> Lookup<'g, F, W> {
        let root = self.root(guard);
        Lookup {
            key,
            anchor: root,
            next: root.link(Side::Right),
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
            End::Found(node) => Some(node.value()),
            End::Absent(_) => None,
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
    /// link of the path had a flag when it returns.
    pub(super) fn seek<'g>(&self, key: u64, guard: &'g Guard) -> Place<'g, F, W> {
        loop {
            if let Some(place) = self.try_seek(key, guard) {
                return place;
            }
            self.count_retry();
        }
    }

    /// One descent; `None` if something changed, or was helped.
    fn try_seek<'g>(&self, key: u64, guard: &'g Guard) -> Option<Place<'g, F, W>> {
        let (mut parent, mut side) = (self.root(guard), Side::Right);
        let mut anchor = parent;
        loop {
            let link = parent.link(side);
            if is_flagged(link) {
                self.help(parent, side, link, guard);
                return None;
            }
            if is_null(link) {
                return is_in_tree(anchor).then_some(Place {
                    parent,
                    side,
                    end: End::Absent(link),
                });
            }
            // SAFETY: the link was read under the guard.
            let node: &Node<F, W> = unsafe { Node::at(link, guard) };
            let below = match key.cmp(&node.key()) {
                Less => Side::Left,
                Greater => {
                    anchor = node;
                    Side::Right
                }
                Equal => {
                    return Some(Place {
                        parent,
                        side,
                        end: End::Found(node),
                    });
                }
            };
            (parent, side) = (node, below);
        }
    }

    /// Completes what a link that a descent met says, if that can be done from here. Frozen links
    /// belong to nodes whose removal the next descent meets further up.
    fn help(&self, parent: &Node<F, W>, side: Side, link: u64, guard: &Guard) {
        self.count_help();
        match (flag(link), side) {
            (Flag::Intent, _) => {
                self.remove_node(parent, side, link, guard);
            }
            (Flag::Promote, Side::Right) => {
                self.unlink_promoted(parent, guard);
            }
            _ => {}
        }
    }
}
