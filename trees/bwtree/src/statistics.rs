//! What the tree looks like and what happened in it, as numbers.
//!
//! The shape is found by walking the leaves and the mapping table; events are counted as they
//! happen, in striped counters and only on rare paths.

use hedgerow_index::Statistics;

use crate::chunk;
use crate::configuration::{Configuration, Deltas};
use crate::delta_blocks;
use crate::epochs::Epochs;
use crate::events::EVENT_NAMES;
use crate::mapping_table::{Entries, NONE, ROOT};
use crate::node::Kind;
use crate::node::route::Target;
use crate::node::view::View;
use crate::region;
use crate::release::retired_and_released;
use crate::tree::{BwTree, WordOf};

/// The shape of a tree at rest.
#[derive(Debug, Default, Clone, Copy)]
struct Shape {
    keys: usize,
    leaves: usize,
    inner_nodes: usize,
    height: usize,
    deltas: usize,
    longest_chain: usize,
    chunk_bytes: usize,
    delta_bytes: usize,
    value_bytes: usize,
}

impl<C: Configuration> BwTree<C> {
    /// The counters alone: no walk.
    pub fn counters(&self) -> Statistics {
        let mut statistics = Statistics::new();
        self.push_counters(&mut statistics);
        statistics
    }

    fn push_counters(&self, statistics: &mut Statistics) {
        for (index, (name, help)) in EVENT_NAMES.into_iter().enumerate() {
            statistics.push(name, self.counters.sum(index) as f64, help);
        }
        let recycled = self.table.recycled() as f64;
        statistics.push(
            "ids_recycled",
            recycled,
            "Ids that a new node took from a removed one.",
        );
        let (retired, released) = retired_and_released();
        statistics.push(
            "garbage_retired",
            retired as f64,
            "Chunks, long values and ids that all Bw-trees of the process have retired.",
        );
        statistics.push(
            "garbage_released",
            released as f64,
            "Of these, those that were released; the others wait for the end of an epoch.",
        );
        let ids = self.table.ever_used() as f64;
        statistics.push(
            "ids_ever_used",
            ids,
            "Entries of the mapping table that have memory.",
        );
        if C::Entries::DIRECT {
            statistics.push(
                "region_bytes",
                region::ever_used_bytes() as f64,
                "Bytes that chunks of all trees without a mapping table have ever used.",
            );
        }
    }

    /// Everything, with a walk of the whole tree.
    pub fn statistics(&self) -> Statistics {
        let shape = self.shape();
        let mut statistics = Statistics::new();
        let per_key = |bytes: usize| bytes as f64 / shape.keys.max(1) as f64;
        let nodes = (shape.leaves + shape.inner_nodes).max(1) as f64;
        for (name, value, help) in [
            ("keys", shape.keys as f64, "Keys in the tree."),
            ("leaves", shape.leaves as f64, "Leaves."),
            ("inner_nodes", shape.inner_nodes as f64, "Inner nodes."),
            ("height", shape.height as f64, "Levels."),
            (
                "deltas",
                shape.deltas as f64,
                "Delta records on all chains.",
            ),
            (
                "deltas_per_node",
                shape.deltas as f64 / nodes,
                "Delta records on a chain.",
            ),
            (
                "longest_chain",
                shape.longest_chain as f64,
                "Delta records on the longest chain.",
            ),
            (
                "node_bytes",
                shape.chunk_bytes as f64,
                "Bytes of all chunks.",
            ),
            (
                "delta_bytes",
                shape.delta_bytes as f64,
                "Of these, room for delta records.",
            ),
            (
                "value_bytes",
                shape.value_bytes as f64,
                "Bytes of long values.",
            ),
            (
                "bytes_per_key",
                per_key(shape.chunk_bytes + shape.value_bytes),
                "Bytes of chunks and long values for each key.",
            ),
        ] {
            statistics.push(name, value, help);
        }
        self.push_counters(&mut statistics);
        statistics
    }

    fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        let guard = self.epochs.pin();
        let root = self.node(ROOT, &guard).head.header().level;
        shape.height = usize::from(root) + 1;
        drop(guard);
        (0..=root).for_each(|level| self.add_level(level, &mut shape));
        shape
    }

    /// Adds what the nodes of a level have, each as it is when the walk comes to it.
    fn add_level(&self, level: u8, shape: &mut Shape) {
        let mut position = Vec::new();
        loop {
            let guard = self.epochs.pin();
            let Some(node) = self.find(Target::At(&position), level, &guard) else {
                return;
            };
            let header = node.head.header();
            let base = node.head.base();
            let size_bytes = chunk::size_bytes::<WordOf<C>>(base);
            shape.deltas += usize::from(header.depth);
            shape.longest_chain = shape.longest_chain.max(usize::from(header.depth));
            shape.chunk_bytes += self.placement.block_bytes(size_bytes);
            shape.delta_bytes += chunk::delta_bytes::<WordOf<C>>(base);
            if matches!(C::DELTAS, Deltas::InBlocks) {
                let bytes = delta_blocks::bytes::<WordOf<C>>(node.head, self.placement);
                shape.chunk_bytes += bytes;
                shape.delta_bytes += bytes;
            }
            if level == 0 {
                shape.keys += header.size as usize;
                shape.leaves += 1;
                let view = View::of(node.head, None);
                let blocks = view.items.iter().filter_map(|item| item.value.block());
                shape.value_bytes += blocks.map(|block| block.length()).sum::<usize>();
            } else {
                shape.inner_nodes += 1;
            }
            debug_assert_ne!(header.kind, Kind::Remove);
            match node.head.high() {
                Some(high) if node.head.right() != NONE => position = high.to_vec(),
                _ => return,
            }
        }
    }
}
