//! When a leaf's chain is consolidated: at a fixed length, or at one that adapts to how often the
//! leaf is read.
//!
//! A chain costs its readers: a lookup that the filter does not answer walks it, a scan puts it in
//! order. A consolidation costs the writer that does it. A **fixed** threshold weighs the two in
//! the same way for every leaf. With the **adaptive** one, writers append while the chunk has room,
//! and readers consolidate what they pay for: each thread adds up the records that its lookups and
//! scans walk, and when they have cost it as much as a consolidation, it consolidates the chain
//! that it is at, and begins at zero.
//!
//! So a chain's chance to be consolidated is its share of all walks. Of a leaf with `r` lookups for
//! each write, a chain of `n` records has been walked for `r n² / 2` of them, which reaches the
//! cost `c` of a consolidation at about `n = √(2c / r)`. That is the length at which the two costs
//! together, `c / n + r n / 2` for each write, are lowest. A leaf that is only written has chains
//! as long as its chunk permits, and one that is only read soon has none.
//!
//! No leaf has a counter, and a lookup that walks no chain does no more than before: the sum is the
//! thread's, over all trees, and only walks add to it.

use std::cell::Cell;

use crate::configuration::{Configuration, Threshold};
use crate::events::Event;
use crate::mapping_table::ROOT;
use crate::node::Kind;
use crate::tree::{BwTree, Guard, Node};

/// What a scan spends on a record of a chain, in records that a lookup walks: it puts them in order
/// by their keys.
const RECORDS_OF_SCAN: u32 = 4;

thread_local! {
    /// Records that this thread's reads have walked since they last consolidated a chain.
    static WALKED: Cell<u32> = const { Cell::new(0) };
}

impl<C: Configuration> BwTree<C> {
    /// The most deltas that a writer puts on a chain of a level, if its chunk has room for them.
    #[inline(always)]
    pub(crate) const fn longest_chain(level: u8) -> u16 {
        match (level, C::THRESHOLD) {
            (0, Threshold::Fixed) => C::LEAF_CHAIN,
            (0, Threshold::Adaptive { .. }) => 2 * C::LEAF_CHAIN,
            _ => C::INNER_CHAIN,
        }
    }

    /// Counts what a lookup of a key walked in a leaf.
    #[inline(always)]
    pub(crate) fn count_lookup(&self, leaf: Node<'_>, key: &[u8], guard: &Guard<C>) {
        if let Threshold::Adaptive { walked } = C::THRESHOLD
            && leaf.head.may_have_delta_of(key)
        {
            let records = u32::from(leaf.head.header().depth);
            self.count_walk(leaf, records, walked, guard);
        }
    }

    /// Counts what a scan walks in a leaf.
    #[inline]
    pub(crate) fn count_scan(&self, leaf: Node<'_>, guard: &Guard<C>) {
        let depth = u32::from(leaf.head.header().depth);
        if let Threshold::Adaptive { walked } = C::THRESHOLD
            && depth > 0
        {
            self.count_walk(leaf, RECORDS_OF_SCAN * depth, walked, guard);
        }
    }

    /// Adds walked records; consolidates the leaf if they are as many as pay for it.
    #[inline]
    fn count_walk(&self, leaf: Node<'_>, records: u32, enough: u32, guard: &Guard<C>) {
        let walked = WALKED.get() + records;
        if walked < enough {
            WALKED.set(walked);
        } else {
            WALKED.set(0);
            self.consolidate_for_readers(leaf, guard);
        }
    }

    /// Consolidates a chain that readers have paid for, if it still is as it was; merges the leaf
    /// if deletes left it underfull, as a writer that consolidates does.
    #[cold]
    fn consolidate_for_readers(&self, leaf: Node<'_>, guard: &Guard<C>) {
        debug_assert_ne!(leaf.head.kind(), Kind::Remove);
        if !self.rebuild(leaf, None, guard) {
            return;
        }
        self.counters.count(Event::ReadConsolidations as usize);
        if leaf.id != ROOT && Self::is_underfull(leaf.head) {
            self.merge_underfull(0, leaf.head.low(), guard);
        }
    }
}
