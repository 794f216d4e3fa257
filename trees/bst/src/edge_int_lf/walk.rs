//! What quiet moments may ask: numbers, soundness, and where everything lies.

use hedgerow_index::Statistics;
use hedgerow_memory::PlacedNode;
use hedgerow_sync::epoch::{self, Guard};

use super::core::Core;
use super::node::{Node, Side, clean, is_flagged, is_null};
use crate::form::Form;
use crate::internal_walk::{Shape, Visited, walk};
use crate::twin::TreeWord;

const SIDES: [Side; 2] = [Side::Left, Side::Right];

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Visits each node below the root before its children.
    fn walk(
        &self,
        guard: &Guard,
        mut visit: impl FnMut(&Node<F, W>, &Visited) -> Result<(), String>,
    ) -> Result<Shape, String> {
        let root = self.root(guard);
        let child = |link: u64| (!is_null(link)).then(|| clean(link));
        // SAFETY: the addresses come from links that were read under the guard.
        let at = |address| unsafe { Node::<F, W>::at(address, guard) };
        let read = |address| {
            let node = at(address);
            (node.key(), SIDES.map(|side| child(node.link(side))))
        };
        walk(
            root.address(),
            child(root.link(Side::Right)),
            read,
            |visited| visit(at(visited.address), visited),
        )
    }

    /// Numbers of nodes, and of what was counted.
    pub(super) fn statistics(&self) -> Statistics {
        let guard = epoch::pin();
        // Concurrent writers may make it end early.
        let shape = self.walk(&guard, |_, _| Ok(())).unwrap_or_default();
        let (helps, retries) = self.counts();
        let mut statistics = Statistics::new();
        // At rest no node is left without its pair.
        statistics.push("keys", shape.nodes as f64, "keys");
        statistics.push("nodes", shape.nodes as f64, "nodes, one for each key");
        statistics.push("height", shape.height as f64, "nodes on the longest path");
        statistics.push("helps", helps as f64, "operations of others helped");
        statistics.push("retries", retries as f64, "descents that began again");
        statistics
    }

    /// The first violated invariant: keys are in order, and at rest no link has a flag.
    pub(super) fn verify(&self) -> Result<(), String> {
        let guard = epoch::pin();
        let root = self.root(&guard);
        if !is_null(root.link(Side::Left)) || is_flagged(root.link(Side::Right)) {
            return Err("the root has a left child, or a flag".to_owned());
        }
        let verified = self.walk(&guard, |node, visited| {
            match SIDES.iter().find(|&&side| is_flagged(node.link(side))) {
                None => Ok(()),
                Some(side) => {
                    let (key, link) = (visited.key, node.link(*side));
                    Err(format!(
                        "the {side:?} link of key {key:#x} has a flag: {link:#x}"
                    ))
                }
            }
        });
        verified.map(drop)
    }

    /// Visits all nodes.
    pub(super) fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let guard = epoch::pin();
        let mut place = |node: &Node<F, W>, parent: Option<u64>| {
            visit(&PlacedNode {
                kind: "edge-int-lf node",
                address: node.address() as usize,
                bytes: size_of::<Node<F, W>>(),
                search_fields: node.search_fields(),
                written_fields: Node::<F, W>::WRITTEN,
                parent: parent.map(|parent| parent as usize),
            });
        };
        place(self.root(&guard), None);
        // Concurrent writers may make it end early.
        let _ = self.walk(&guard, |node, visited| {
            place(node, Some(visited.parent));
            Ok(())
        });
    }
}
