//! Heights, rotations, and routers that are no longer needed.
//!
//! A node is *sound* if its height is one more than the greater of its children's, these differ by
//! at most one, and it has a word or two children. The rule that keeps the tree balanced: **who
//! writes what a node's soundness depends on looks at the node afterwards**, behind a fence, and
//! repairs it if need be. That is the node itself after its links or height changed, and the parent
//! after a child's height did. So of several threads that write around a node, the last one sees
//! what all of them wrote; and when all have returned, every node is sound and the tree is an AVL
//! tree.
//!
//! The published algorithm trusts a thread that found a node sound, or has just corrected its
//! height, to owe it nothing more. But heights of children are read without their locks: one thread
//! may read a child's old height, another one change it and find the parent's height right, and
//! then the first one writes a height made from the old one, and nobody is left to notice. So here
//! a thread looks again after it wrote.

use std::sync::atomic::Ordering;

use hedgerow_index::IntKey;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::node::{Node, Side};
use super::{DOUBLE_ROTATIONS, OccAvl, ROTATIONS, Validation};
use crate::form::Form;

/// What is wrong with a node, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Sound,
    /// This would be its height.
    WrongHeight(u64),
    /// The child on that side is too high for the other one.
    Unbalanced(Side),
    /// A router that lacks a child.
    Superfluous,
}

/// What a thread must look at after it changed links. Those in `below` first.
struct Touched<'g, K: IntKey, F: Form, W: Word> {
    below: [Option<&'g Node<K, F, W>>; 3],
    above: &'g Node<K, F, W>,
}

/// The condition of a node, from one reading of it and its children without locks.
pub(super) fn condition<K: IntKey, F: Form, W: Word + 'static>(
    node: &Node<K, F, W>,
    guard: &Guard,
) -> Condition {
    let (left, right) = (
        node.child(Side::Left, guard),
        node.child(Side::Right, guard),
    );
    if !node.is_present() && (left.is_none() || right.is_none()) {
        return Condition::Superfluous;
    }
    let height = |child: Option<&Node<K, F, W>>| child.map_or(0, Node::height);
    let (left, right) = (height(left), height(right));
    let wanted = 1 + left.max(right);
    if left > right + 1 {
        Condition::Unbalanced(Side::Left)
    } else if right > left + 1 {
        Condition::Unbalanced(Side::Right)
    } else if wanted != node.height() {
        Condition::WrongHeight(wanted)
    } else {
        Condition::Sound
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    /// Looks at a node whose surroundings this thread has changed, and repairs what is wrong with
    /// it and, as far as that changes them, with the nodes above.
    pub(super) fn repair<'g>(&'g self, node: &'g Node<K, F, W>, guard: &'g Guard) {
        let mut node = node;
        // Whether this thread changed the node's height, so that it must look at the parent.
        let mut height_changed = false;
        let mut rounds = 0;
        loop {
            // Orders what this thread wrote before what it reads now, on all processors.
            W::fence(Ordering::SeqCst);
            let Some(parent) = node.parent(guard) else {
                return;
            };
            if node.is_unlinked() {
                // Who unlinked it looks at its parent.
                return;
            }
            match condition(node, guard) {
                Condition::Sound if height_changed => {
                    height_changed = false;
                    node = parent;
                }
                Condition::Sound => return,
                Condition::WrongHeight(_) => {
                    height_changed |= Self::correct_height(node, guard);
                    if height_changed && !V::LOOKS_AGAIN {
                        height_changed = false;
                        node = parent;
                    }
                }
                Condition::Unbalanced(_) | Condition::Superfluous => {
                    let Some(touched) = self.restructure(parent, node, guard) else {
                        W::pause(&mut rounds);
                        continue;
                    };
                    for below in touched.below.into_iter().flatten() {
                        self.repair(below, guard);
                    }
                    node = touched.above;
                }
            }
        }
    }

    /// Corrects the height, if that is what is wrong; says whether it did.
    fn correct_height(node: &Node<K, F, W>, guard: &Guard) -> bool {
        let _locked = node.lock();
        match condition(node, guard) {
            Condition::WrongHeight(height) if !node.is_unlinked() => {
                node.set_height(height);
                true
            }
            _ => false,
        }
    }

    /// Unlinks or rotates a node, unless it has another parent or needs neither by now. What must
    /// be looked at afterwards.
    fn restructure<'g>(
        &self,
        parent: &'g Node<K, F, W>,
        node: &'g Node<K, F, W>,
        guard: &'g Guard,
    ) -> Option<Touched<'g, K, F, W>> {
        let parent_locked = parent.lock();
        if parent.is_unlinked() || node.is_unlinked() || !node.has_parent(parent) {
            return None;
        }
        let locked = node.lock();
        match condition(node, guard) {
            Condition::Superfluous => {
                Self::splice(parent, node, guard);
                drop((locked, parent_locked));
                self.retire(node, guard);
                Some(Touched {
                    below: [None; 3],
                    above: parent,
                })
            }
            Condition::Unbalanced(side) => self.rebalance(parent, node, side, guard),
            Condition::Sound | Condition::WrongHeight(_) => None,
        }
    }

    /// Rotates `node` away from its higher child. The caller holds the locks of `node` and of its
    /// parent.
    fn rebalance<'g>(
        &self,
        parent: &'g Node<K, F, W>,
        node: &'g Node<K, F, W>,
        high: Side,
        guard: &'g Guard,
    ) -> Option<Touched<'g, K, F, W>> {
        let low = high.other();
        let child = node.child(high, guard)?;
        let _child_locked = child.lock();
        if child.height() <= node.height_of(low, guard) + 1 {
            return None;
        }
        let outer = child.height_of(high, guard);
        let single = || {
            self.counters.count(ROTATIONS);
            rotate(parent, node, child, high, guard);
            Some(Touched {
                below: [Some(node), Some(child), None],
                above: parent,
            })
        };
        let Some(inner) = child.child(low, guard) else {
            return single();
        };
        if outer >= inner.height() {
            return single();
        }
        let inner_locked = inner.lock();
        if outer >= inner.height() {
            drop(inner_locked);
            return single();
        }
        let taken = inner.height_of(high, guard);
        if outer.abs_diff(taken) > 1 {
            // The rotation would leave the child unbalanced, so `child` or `inner` is by now: what
            // is wrong below comes first.
            return Some(Touched {
                below: [Some(inner), Some(child), None],
                above: node,
            });
        }
        self.counters.count(DOUBLE_ROTATIONS);
        rotate_twice(parent, node, child, inner, high, guard);
        Some(Touched {
            below: [Some(node), Some(child), Some(inner)],
            above: parent,
        })
    }
}

/// Sets a height from the children's. The caller holds the lock.
fn derive_height<K: IntKey, F: Form, W: Word + 'static>(node: &Node<K, F, W>, guard: &Guard) {
    let (left, right) = (Side::Left, Side::Right);
    let height = node
        .height_of(left, guard)
        .max(node.height_of(right, guard));
    node.set_height(1 + height);
}

/// ```text
///       parent                parent          `node` loses the keys of `outer` and `child` to its
///         │                     │             range: it shrinks. `child` gains those of `node` and
///        node       ───►      child           `low`. Readers in `child` are right either way.
///        ╱  ╲                 ╱   ╲
///     child  low          outer   node
///     ╱   ╲                       ╱  ╲
///  outer  inner               inner  low
/// ```
///
/// The caller holds the locks of all three.
fn rotate<K: IntKey, F: Form, W: Word + 'static>(
    parent: &Node<K, F, W>,
    node: &Node<K, F, W>,
    child: &Node<K, F, W>,
    high: Side,
    guard: &Guard,
) {
    let low = high.other();
    let place = parent.side_of(node);
    node.begin_shrinking();
    node.adopt(high, child.child(low, guard));
    child.adopt(low, Some(node));
    parent.adopt(place, Some(child));
    derive_height(node, guard);
    derive_height(child, guard);
    node.end_shrinking();
}

/// ```text
///       parent                     parent          `node` and `child` shrink; `inner` gains the
///         │                          │             ranges of both.
///        node        ───►          inner
///        ╱  ╲                     ╱     ╲
///     child  low              child      node
///     ╱   ╲                   ╱   ╲      ╱  ╲
///  outer  inner           outer  taken given low
///         ╱   ╲
///      taken  given
/// ```
///
/// The caller holds the locks of all four.
fn rotate_twice<K: IntKey, F: Form, W: Word + 'static>(
    parent: &Node<K, F, W>,
    node: &Node<K, F, W>,
    child: &Node<K, F, W>,
    inner: &Node<K, F, W>,
    high: Side,
    guard: &Guard,
) {
    let low = high.other();
    let place = parent.side_of(node);
    node.begin_shrinking();
    child.begin_shrinking();
    node.adopt(high, inner.child(low, guard));
    child.adopt(low, inner.child(high, guard));
    inner.adopt(high, Some(child));
    inner.adopt(low, Some(node));
    parent.adopt(place, Some(inner));
    derive_height(node, guard);
    derive_height(child, guard);
    derive_height(inner, guard);
    node.end_shrinking();
    child.end_shrinking();
}
