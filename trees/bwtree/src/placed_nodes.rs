//! Where the nodes of a tree lie, for whoever inspects layouts.

use std::collections::HashMap;

use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};

use crate::chunk;
use crate::configuration::Configuration;
use crate::epochs::Epochs;
use crate::mapping_table::{NodeId, ROOT};
use crate::node::Kind;
use crate::node::view::View;
use crate::tree::{BwTree, WordOf};

/// The chunks of nodes: a base node behind room for its delta records. Of the base node a search
/// reads the beginning and a part; the delta records that it reads first are wherever the chain has
/// grown to. Long values, and delta records in blocks of their own (for comparison), are no nodes.
impl<C: Configuration> VisitNodes for BwTree<C> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let guard = self.epochs.pin();
        let root = self.node(ROOT, &guard);
        // The nodes of a level, with the chunks of their parents.
        let mut level: Vec<(NodeId, Option<usize>)> = vec![(ROOT, None)];
        for depth in (0..=root.head.header().level).rev() {
            let mut below = HashMap::new();
            let mut order = Vec::new();
            for (id, parent) in level {
                let node = self.node(id, &guard);
                let header = node.head.header();
                // Beside writers: a child that was merged, or a root that shrank.
                if header.kind == Kind::Remove || header.level != depth {
                    continue;
                }
                let base = node.head.base();
                let base_at = chunk::delta_bytes::<WordOf<C>>(base);
                let bytes = chunk::size_bytes::<WordOf<C>>(base);
                let address = base.record().address().addr().get() - base_at;
                let written = chunk::written_bytes::<WordOf<C>>(base);
                visit(&PlacedNode {
                    kind: if depth == 0 { "leaf" } else { "inner" },
                    address,
                    bytes,
                    search_fields: base_at..bytes,
                    written_fields: WrittenFields::NONE.and(0..written),
                    parent,
                });
                if depth > 0 {
                    let view = View::of(node.head, None);
                    for child in view.items.iter().map(|item| item.value.child()) {
                        if below.insert(child, address).is_none() {
                            order.push(child);
                        }
                    }
                }
            }
            let with_parent = |id: NodeId| (id, below.get(&id).copied());
            level = order.into_iter().map(with_parent).collect();
        }
    }
}
