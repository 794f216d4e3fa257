//! Reads in key order.
//!
//! A search for a key compares it with the keys of inner nodes alone. So whatever it meets, it is
//! at the same time the search of all keys that compare the same: those from the greatest key at
//! which it went right to the least key at which it went left, which is excluded. Its leaf answers
//! for all of them at once. A scan puts such intervals side by side, in order, without gap and
//! overlap: no key is visited twice or missed between them.
//!
//! The scan need not go back to the root for the next interval. It remembers the inner nodes where
//! it went to the near side (left, if forward), and reads the far edge of the last of them next.
//! To the keys of the far side that is what their own searches would do, had they read the nodes
//! above when the scan did and paused there. These are searches that began after the scan and end
//! before it, and they are linearizable however slow they are: a key that is there all the time is
//! found, one that never was is not. So a step costs a few nodes, not a descent.
//!
//! The nodes above may be unlinked meanwhile; the guard keeps their memory. A long scan would
//! delay reclamation, so every [`LEAVES_PER_PIN`] leaves it pins anew and descends from the root,
//! past the last key that it visited.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use hedgerow_index::{Direction, IntKey, OrderedIntMap};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::node::Node;
use super::{EdgeExtLf, NOTHING};
use crate::form::Form;
use crate::tagged_link::{is_leaf, node};

/// Leaves that a scan reads under one pin.
const LEAVES_PER_PIN: usize = 128;

/// Inner nodes that a scan remembers: those of a tree of random keys, and of a taller one the
/// deepest.
const REMEMBERED: usize = 48;

/// The inner nodes whose far side is still to be read, the last ones of them.
struct Path<'g, N> {
    nodes: [Option<&'g N>; REMEMBERED],
    /// Nodes pushed less nodes popped; the first ones may be forgotten.
    depth: usize,
    /// The depth below which nodes are forgotten.
    forgotten: usize,
}

impl<'g, N> Path<'g, N> {
    fn new() -> Self {
        Self {
            nodes: [None; REMEMBERED],
            depth: 0,
            forgotten: 0,
        }
    }

    fn push(&mut self, node: &'g N) {
        self.nodes[self.depth % REMEMBERED] = Some(node);
        self.depth += 1;
        self.forgotten = self.forgotten.max(self.depth.saturating_sub(REMEMBERED));
    }

    fn pop(&mut self) -> Option<&'g N> {
        if self.depth == self.forgotten {
            return None;
        }
        self.depth -= 1;
        self.nodes[self.depth % REMEMBERED]
    }
}

/// What a scan did under one pin.
enum Pinned<K> {
    /// All keys are read, or the visitor has enough.
    Ended,
    /// It read up to this bound, which is where it goes on.
    ReadTo(Bound<K>),
}

/// Whether the path to the first key from a bound on goes left at an inner node.
#[inline]
fn goes_left<K: Ord>(from: &Bound<K>, direction: Direction, key: &K) -> bool {
    match (from, direction) {
        (Bound::Included(from), _) | (Bound::Excluded(from), Direction::Forward) => from < key,
        (Bound::Excluded(from), Direction::Reverse) => from <= key,
        (Bound::Unbounded, direction) => direction == Direction::Forward,
    }
}

/// Whether a scan from a bound on visits a key.
#[inline]
fn is_within<K: Ord>(from: &Bound<K>, direction: Direction, key: &K) -> bool {
    match (from, direction) {
        (Bound::Included(from), Direction::Forward) => key >= from,
        (Bound::Excluded(from), Direction::Forward) => key > from,
        (Bound::Included(from), Direction::Reverse) => key <= from,
        (Bound::Excluded(from), Direction::Reverse) => key < from,
        (Bound::Unbounded, _) => true,
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> EdgeExtLf<K, F, W> {
    /// Visits pairs from a bound on, under one pin.
    fn scan_pinned(
        &self,
        mut from: Bound<K>,
        direction: Direction,
        guard: &Guard,
        visit: &mut impl FnMut(K, u64) -> ControlFlow<()>,
    ) -> Pinned<K> {
        let mut path = Path::new();
        let mut link = self.first(guard);
        for _ in 0..LEAVES_PER_PIN {
            while !is_leaf(link) {
                // SAFETY: the link was read under the guard from a node that was reachable under
                // it.
                let inner = unsafe { node::<Node<K, F, W>>(link, guard) };
                let left = goes_left(&from, direction, &inner.key());
                if left == (direction == Direction::Forward) {
                    path.push(inner);
                }
                let edge = if left { inner.left() } else { inner.right() };
                link = edge.load(Ordering::Acquire);
            }
            if link == NOTHING {
                return Pinned::Ended;
            }
            // SAFETY: as above.
            let leaf = unsafe { node::<Node<K, F, W>>(link, guard) };
            // The first leaf may be outside.
            if is_within(&from, direction, &leaf.key()) {
                if visit(leaf.key(), leaf.word()).is_break() {
                    return Pinned::Ended;
                }
                from = Bound::Excluded(leaf.key());
            }
            let Some(inner) = path.pop() else {
                return match path.forgotten {
                    0 => Pinned::Ended,
                    _ => Pinned::ReadTo(from),
                };
            };
            let far = match direction {
                Direction::Forward => inner.right(),
                Direction::Reverse => inner.left(),
            };
            link = far.load(Ordering::Acquire);
        }
        Pinned::ReadTo(from)
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> OrderedIntMap<K> for EdgeExtLf<K, F, W> {
    fn scan(
        &self,
        mut from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, u64) -> ControlFlow<()>,
    ) {
        let mut guard = epoch::pin();
        while let Pinned::ReadTo(bound) = self.scan_pinned(from, direction, &guard, &mut visit) {
            from = bound;
            epoch::repin(&mut guard);
        }
    }
}
