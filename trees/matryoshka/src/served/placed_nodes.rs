//! Where the nodes of a map lie, for whoever inspects layouts.

use std::collections::HashMap;

use hedgerow_index::IntKey;
use hedgerow_memory::{PlacedNode, VisitNodes};
use hedgerow_sync::epoch;

use super::capacity::Capacity;
use super::map::SharedMatryoshka;
use super::node::inner::Inner;
use super::node::node_key::SharedNodeKey;

/// Pages, of which a search reads the lines of the header and the routing before one leaf line, and
/// inner nodes.
impl<K: IntKey<Encoded: SharedNodeKey>, C: Capacity> VisitNodes for SharedMatryoshka<K, C> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let _guard = epoch::pin();
        let mut parents: HashMap<usize, usize> = HashMap::new();
        // Children come after their parents.
        for node in self.tree().nodes() {
            let parent = parents.remove(&node.address);
            let (kind, bytes, read_bytes, written_fields) = match node.page() {
                Some(page) => (
                    "page",
                    page.bytes(),
                    page.bytes_before_leaves(),
                    page.written_fields(),
                ),
                None => (
                    "inner",
                    size_of::<Inner<K::Encoded>>(),
                    Inner::<K::Encoded>::ROUTING_BYTES,
                    Inner::<K::Encoded>::WRITTEN,
                ),
            };
            visit(&PlacedNode {
                kind,
                address: node.address,
                bytes,
                search_fields: 0..read_bytes,
                written_fields,
                parent,
            });
            let children = node.inner().map(Inner::children).unwrap_or_default();
            parents.extend(children.into_iter().map(|child| (child, node.address)));
        }
    }
}
