//! What quiet moments may ask: numbers, soundness, and where everything lies.

use std::sync::atomic::Ordering;

use hedgerow_index::Statistics;
use hedgerow_memory::PlacedNode;
use hedgerow_sync::epoch::{self, Guard};

use super::core::Core;
use super::descriptor::{Descriptor, FAILED, RIGHT};
use super::node::{Node, descriptor_of, is_flagged, is_null};
use crate::form::Form;
use crate::internal_walk::{Shape, Visited, walk};
use crate::twin::TreeWord;

impl<F: Form, W: TreeWord> Core<F, W> {
    /// Visits each node below the root before its children.
    fn walk(
        &self,
        guard: &Guard,
        mut visit: impl FnMut(&Node<F, W>, &Visited) -> Result<(), String>,
    ) -> Result<Shape, String> {
        let root = self.root(guard);
        let child = |link: u64| (!is_null(link)).then_some(link);
        // SAFETY: the addresses come from links that were read under the guard.
        let at = |address| unsafe { Node::<F, W>::at(address, guard) };
        let read = |address| {
            let node = at(address);
            (node.key(), [node.left(), node.right()].map(child))
        };
        walk(root.address(), child(root.right()), read, |visited| {
            visit(at(visited.address), visited)
        })
    }

    /// Numbers of nodes, and of what was counted.
    pub(super) fn statistics(&self) -> Statistics {
        let guard = epoch::pin();
        let mut descriptors = 0;
        let walked = self.walk(&guard, |node, _| {
            descriptors += descriptors_of(node).count();
            Ok(())
        });
        // Concurrent writers may make it end early.
        let Shape { nodes, height } = walked.unwrap_or_default();
        let (helps, retries) = self.counts();
        let mut statistics = Statistics::new();
        // A removal returns when its node is unlinked, so at rest each node has a key.
        statistics.push("keys", nodes as f64, "keys");
        statistics.push("nodes", nodes as f64, "nodes, one for each key");
        statistics.push(
            "descriptors",
            descriptors as f64,
            "descriptors that nodes name",
        );
        statistics.push("height", height as f64, "nodes on the longest path");
        statistics.push("helps", helps as f64, "operations of others helped");
        statistics.push("retries", retries as f64, "descents that began again");
        statistics
    }

    /// The first violated invariant.
    pub(super) fn verify(&self) -> Result<(), String> {
        let guard = epoch::pin();
        let root = self.root(&guard);
        verify_node(root, &guard)?;
        if !is_null(root.left()) {
            return Err("the root has a left child".to_owned());
        }
        self.walk(&guard, |node, _| verify_node(node, &guard))
            .map(drop)
    }

    /// Visits nodes, and the descriptors that they name.
    pub(super) fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let guard = epoch::pin();
        let mut place = |node: &Node<F, W>, parent: Option<u64>| {
            let address = node.address() as usize;
            let search = std::ptr::from_ref(node.search()) as usize - address;
            visit(&PlacedNode {
                kind: "int-lf node",
                address,
                bytes: size_of::<Node<F, W>>(),
                search_fields: search..search + size_of_val(node.search()),
                written_fields: Node::<F, W>::WRITTEN,
                parent: parent.map(|parent| parent as usize),
            });
            for descriptor in descriptors_of(node) {
                visit(&PlacedNode {
                    kind: "int-lf descriptor",
                    address: descriptor as usize,
                    bytes: size_of::<Descriptor<W>>(),
                    search_fields: 0..0,
                    written_fields: Descriptor::<W>::WRITTEN,
                    parent: Some(address),
                });
            }
        };
        place(self.root(&guard), None);
        // Concurrent writers may make it end early.
        let _ = self.walk(&guard, |node, visited| {
            place(node, Some(visited.parent));
            Ok(())
        });
    }
}

/// The addresses of the descriptors that a node names, each once.
fn descriptors_of<F: Form, W: TreeWord>(node: &Node<F, W>) -> impl Iterator<Item = u64> {
    let op = descriptor_of(node.op());
    let moved = node.rest().moved.load(Ordering::Acquire);
    let moved = (moved != op).then_some(moved);
    [Some(op), moved]
        .into_iter()
        .flatten()
        .filter(|&word| word != 0)
}

/// At rest nothing is under way, nothing is marked, and a relocation is named by those two words
/// of its target that say so.
fn verify_node<F: Form, W: TreeWord>(node: &Node<F, W>, guard: &Guard) -> Result<(), String> {
    let (key, op) = (node.key(), node.op());
    if is_flagged(op) {
        return Err(format!(
            "an operation is under way, or a mark left, at key {key:#x}"
        ));
    }
    for address in descriptors_of(node) {
        // SAFETY: the node names it.
        let descriptor = unsafe { Descriptor::<W>::at(address, guard) };
        let state = descriptor.state();
        if state <= RIGHT || state == FAILED {
            continue;
        }
        let names = [descriptor_of(op), node.rest().moved.load(Ordering::Acquire)];
        let names = names.iter().filter(|&&word| word == address).count();
        if descriptor.names() != Some(names as u64) || descriptor.target != node.address() {
            return Err(format!(
                "a relocation to key {key:#x} is named {names} times, but counts {state}"
            ));
        }
    }
    Ok(())
}
