//! A consistent copy of a border node, which is what a scan visits.
//!
//! The order, slices, lengths, values, suffixes and the siblings' pointers are copied out and then
//! validated: a copy that a writer disturbed is taken again. What it names
//! stays alive under the scan's guard (`'g`).

use hedgerow_index::Direction;

use crate::configuration::{Configuration, Latch};
use crate::key::LONG;
use crate::node::border::{SUFFIX, UNSTABLE};
use crate::node::{Border, Node, Permutation, WIDTH, prefetch};
use crate::value::Value;

/// One key of a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'g> {
    pub(crate) slice: u64,
    pub(crate) value: u64,
    pub(crate) length: u8,
    /// Read only of a slot with a suffix. All of an empty entry is zero, so that a
    /// new snapshot is one clearing of memory.
    suffix: Option<&'g [u8]>,
}

const NO_ENTRY: Entry<'static> = Entry {
    slice: 0,
    value: 0,
    length: 0,
    suffix: None,
};

impl<'g> Entry<'g> {
    /// The suffix, if the entry has one.
    #[inline(always)]
    pub(crate) fn suffix_or_empty(&self) -> &'g [u8] {
        match self.suffix {
            Some(suffix) if self.length == SUFFIX => suffix,
            _ => &[],
        }
    }
}

/// A consistent copy of a border node.
pub(crate) struct Snapshot<'g> {
    pub(crate) node: Option<&'g Border>,
    pub(crate) next: *mut Border,
    pub(crate) prev: *mut Border,
    pub(crate) count: usize,
    pub(crate) entries: [Entry<'g>; WIDTH],
}

/// The scan cannot go on from this node: it must look its position up from the root.
pub(crate) struct PositionLost;

impl<'g> Snapshot<'g> {
    pub(crate) fn empty() -> Self {
        Self {
            node: None,
            next: std::ptr::null_mut(),
            prev: std::ptr::null_mut(),
            count: 0,
            entries: [NO_ENTRY; WIDTH],
        }
    }

    /// Copies `node`; an error when it is deleted.
    #[inline(always)]
    pub(crate) fn take<V: Value, C: Configuration, const VALUES: bool>(
        &mut self,
        node: &'g Border,
        direction: Direction,
    ) -> Result<(), PositionLost> {
        let mut rounds = 0;
        loop {
            let version = Latch::<C>::stable(&node.version);
            if version.is_deleted() {
                return Err(PositionLost);
            }
            self.next = node.next();
            self.prev = node.prev();
            let ahead = match direction {
                Direction::Forward => self.next,
                Direction::Reverse => self.prev,
            };
            prefetch(ahead.cast::<Node>());
            let steady = self.copy_entries::<V, VALUES>(node, node.permutation());
            let steady = steady && self.has_one_range(node, direction);
            if steady && Latch::<C>::validate(&node.version, version) {
                self.node = Some(node);
                return Ok(());
            }
            rounds = Latch::<C>::pause(rounds);
        }
    }

    /// Whether `node`'s range is the one that it had when its neighbours were copied. A node that
    /// takes over the range of its emptied right neighbour learns its new one and gets keys of that
    /// range without its version changing. To a scan in reverse, which has visited that range, they
    /// must look like the new neighbour's.
    #[inline(always)]
    fn has_one_range(&self, node: &Border, direction: Direction) -> bool {
        // After the acquiring load of the order, which such a key is published by.
        direction == Direction::Forward || node.next() == self.next
    }

    /// Copies what `order` names; whether no slot was met in the middle of a change.
    #[inline(always)]
    fn copy_entries<V: Value, const VALUES: bool>(
        &mut self,
        node: &'g Border,
        order: Permutation,
    ) -> bool {
        self.count = order.count();
        for (index, entry) in self.entries[..self.count].iter_mut().enumerate() {
            let slot = order.slot(index) % WIDTH;
            let length = node.length(slot);
            entry.slice = node.slice(slot);
            entry.value = node.value(slot);
            entry.length = length;
            if VALUES && length <= SUFFIX {
                V::prefetch(entry.value);
            }
            if length < LONG {
                continue;
            }
            if length == SUFFIX {
                // SAFETY: reached under the scan's guard, which lives for `'g`; see `renew`.
                entry.suffix = unsafe { node.suffix(slot) };
                if entry.suffix.is_none() {
                    return false;
                }
            }
            // As in `probe`: the class must be the same on both sides of the value's load.
            if length == UNSTABLE || node.length(slot) != length {
                return false;
            }
        }
        true
    }

    /// The first entry at or above (`slice`, `class`).
    pub(crate) fn lower_bound(&self, slice: u64, class: u8) -> usize {
        self.entries[..self.count]
            .iter()
            .position(|entry| (entry.slice, entry.length.min(LONG)) >= (slice, class))
            .unwrap_or(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Interior;
    use crate::tree::Masstree;

    /// A removal and an insert into another slot let a reader's version stand, even when the insert
    /// moves all suffixes: the bag then has none for the slot that the reader knows.
    #[test]
    fn a_removed_key_whose_suffix_was_left_behind_is_no_entry() {
        let _pin = hedgerow_sync::epoch::pin();
        let tree: Masstree<u64> = Masstree::new();
        tree.put(b"12345678zz", 1);
        // SAFETY: the only node of the tree, which outlives it.
        let node = unsafe { &*tree.root().cast::<Border>() };
        let (version, order, bag) = (node.version.stable(), node.permutation(), node.bag());
        tree.remove(b"12345678zz");
        tree.put(&[b'a'; 200], 2);
        assert!(node.version.validate(version) && node.bag() != bag);
        let mut snapshot = Snapshot::empty();
        assert!(
            !snapshot.copy_entries::<u64, true>(node, order),
            "a key that never was: 12345678"
        );
        assert!(snapshot.copy_entries::<u64, true>(node, node.permutation()));
        assert_eq!(snapshot.entries[0].suffix_or_empty(), [b'a'; 192]);
    }

    /// A scan in reverse that has visited the right one of two nodes copies the left one's
    /// neighbours; then the right one is emptied and unlinked, and a key of its range comes back,
    /// to the left one. The scan must not visit it again.
    #[test]
    fn a_range_that_was_taken_over_is_not_visited_twice() {
        let _pin = hedgerow_sync::epoch::pin();
        let tree: Masstree<u64> = Masstree::new();
        // The last one in the middle, so that the split leaves both halves room.
        for key in (0..15).map(|n| 2 * n).chain([15]) {
            tree.put(&u64::to_be_bytes(key), key);
        }
        // SAFETY: the root of a tree of two border nodes, which outlives it.
        let root = unsafe { &*tree.root().cast::<Interior>() };
        // SAFETY: the epoch's pin keeps both nodes.
        let [left, right] = [0, 1].map(|at| unsafe { &*root.child(at).cast::<Border>() });
        let order = right.permutation();
        let keys: Vec<u64> = (0..order.count())
            .map(|index| right.slice(order.slot(index)))
            .collect();
        let mut snapshot = Snapshot::empty();
        let version = left.version.stable();
        snapshot.next = left.next();
        for key in &keys {
            tree.remove(&key.to_be_bytes());
        }
        tree.put(&keys[0].to_be_bytes(), 9);
        assert!(left.version.validate(version), "nothing else says so");
        assert!(snapshot.copy_entries::<u64, true>(left, left.permutation()));
        let last = snapshot.entries[snapshot.count - 1].slice;
        assert_eq!(last, keys[0], "the left node has a key of the right one");
        assert!(!snapshot.has_one_range(left, Direction::Reverse));
        snapshot.next = left.next();
        assert!(snapshot.has_one_range(left, Direction::Reverse));
    }
}
