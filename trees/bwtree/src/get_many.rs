//! Many lookups at once, their cache misses overlapped.
//!
//! The keys of a batch descend together, a level at a time. Each step has three parts, and each
//! part runs over all keys before the next begins: ask for the mapping table's entries; load them
//! and ask for the newest records and for what the search in the base node reads first; search.
//! So a level costs a batch about two misses, not two for each key. In the leaves, the batch first
//! finds the place of each key and asks for its item, and then reads the items.

use hedgerow_memory::prefetch_line;

use crate::configuration::Configuration;
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::mapping_table::{NodeId, ROOT};
use crate::node::Kind;
use crate::node::base::prefetch_base;
use crate::node::route::{Located, Target};
use crate::tree::{BwTree, Guard, Node};

/// Keys that descend together: about as many misses as a core has under way at once.
const BATCH: usize = 16;

impl<C: Configuration> BwTree<C> {
    /// Looks up all keys as [`hedgerow_index::Index::get_many`] does.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        let guard = self.epochs.pin();
        for (batch, keys) in keys.chunks(BATCH).enumerate() {
            let leaves = self.leaves_of(keys, &guard);
            let mut located = [None; BATCH];
            for ((place, key), leaf) in located.iter_mut().zip(keys).zip(leaves) {
                *place = leaf.map(|leaf| leaf.head.locate(key));
                place.iter().for_each(Located::prefetch_item);
            }
            for (index, place) in located[..keys.len()].iter().enumerate() {
                let value = place.and_then(|place| place.lookup().value);
                read(
                    batch * BATCH + index,
                    value.as_ref().map(|value| value.get()),
                );
            }
            for (leaf, key) in leaves.into_iter().flatten().zip(keys) {
                self.count_lookup(leaf, key, &guard);
            }
        }
    }

    /// Brings the leaves of keys into the cache.
    pub fn prefetch_many(&self, keys: &[&[u8]]) {
        let guard = self.epochs.pin();
        for keys in keys.chunks(BATCH) {
            self.leaves_of(keys, &guard);
        }
    }

    /// The leaves of at most [`BATCH`] keys.
    fn leaves_of<'g>(&self, keys: &[&[u8]], guard: &'g Guard<C>) -> [Option<Node<'g>>; BATCH] {
        let mut ids: [NodeId; BATCH] = [ROOT; BATCH];
        let mut leaves = [None; BATCH];
        let mut open = keys.len();
        let mut lines = const { Self::base_lines(1) };
        while open > 0 {
            let mut nodes: [Option<Node<'g>>; BATCH] = [None; BATCH];
            for index in 0..keys.len() {
                if leaves[index].is_none() {
                    prefetch_base(self.table.load(ids[index]), lines);
                    let node = self.node(ids[index], guard);
                    prefetch_line(node.head.address().as_ptr());
                    nodes[index] = Some(node);
                }
            }
            for (index, key) in keys.iter().enumerate() {
                let Some(node) = nodes[index] else {
                    continue;
                };
                match self.step(node, Target::At(key), guard) {
                    Ok(leaf) => {
                        leaves[index] = Some(leaf);
                        open -= 1;
                    }
                    Err(id) => {
                        if node.head.header().level == 1 {
                            lines = const { Self::base_lines(0) };
                        }
                        self.prefetch_entry(id, lines);
                        ids[index] = id;
                    }
                }
            }
        }
        leaves
    }

    /// One step of a descent: the leaf, or the next node.
    #[inline]
    fn step<'g>(
        &self,
        node: Node<'g>,
        target: Target<'_>,
        guard: &'g Guard<C>,
    ) -> Result<Node<'g>, NodeId> {
        let header = node.head.header();
        if header.kind == Kind::Remove {
            let leaf = self.find_from(node.id, target, 0, Help::Least, guard);
            let leaf = leaf.unwrap_or_else(|| self.find_leaf(target, Help::Least, guard));
            return Ok(leaf);
        }
        if target.is_beyond(node.head.high()) {
            return Err(node.head.right());
        }
        if header.level == 0 {
            return Ok(node);
        }
        Err(node.head.child_of(target))
    }
}
