//! The shape of a tree at rest: its numbers, its invariants, and where its nodes lie.

use std::ptr;
use std::sync::atomic::Ordering;

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::node::Node;
use super::{EdgeExtLf, FLAG, HELPS, NOTHING, RETRIES, TAG};
use crate::form::Form;
use crate::tagged_link::{is_leaf, node};

/// A node that a walk came to.
struct Visited<'g, K, F: Form, W> {
    node: &'g Node<K, F, W>,
    leaf: bool,
    /// Nodes above it.
    depth: usize,
    parent: Option<usize>,
    /// Its keys are not below this.
    least: Option<K>,
    /// Its keys are below this.
    bound: Option<K>,
}

impl<K: IntKey, F: Form, W: Word + 'static> EdgeExtLf<K, F, W> {
    /// Visits every node, parents before children and smaller keys before greater ones, until
    /// `visit` fails; it fails of itself at a marked edge, and where there is no node.
    fn walk<'g>(
        &'g self,
        guard: &'g Guard,
        mut visit: impl FnMut(&Visited<'g, K, F, W>) -> Result<(), String>,
    ) -> Result<(), String> {
        let root = self.root.load(Ordering::Acquire);
        if root == NOTHING {
            return Ok(());
        }
        let mut waiting = vec![(root, 0, None, None, None)];
        while let Some((link, depth, parent, least, bound)) = waiting.pop() {
            if link & (FLAG | TAG) != 0 || link == NOTHING {
                return Err(format!("the link {link:#x} at depth {depth}"));
            }
            let visited = Visited {
                // SAFETY: the link was read under the guard from a reachable node.
                node: unsafe { node::<Node<K, F, W>>(link, guard) },
                leaf: is_leaf(link),
                depth,
                parent,
                least,
                bound,
            };
            visit(&visited)?;
            if visited.leaf {
                continue;
            }
            let here = Some(ptr::from_ref(visited.node).addr());
            let left = visited.node.left().load(Ordering::Acquire);
            let right = visited.node.right().load(Ordering::Acquire);
            if depth == 0 {
                if right != NOTHING {
                    return Err(format!("the top node's right link is {right:#x}"));
                }
                waiting.push((left, 1, here, None, None));
            } else {
                let key = Some(visited.node.key());
                waiting.push((right, depth + 1, here, key, bound));
                waiting.push((left, depth + 1, here, least, key));
            }
        }
        Ok(())
    }

    /// As [`hedgerow_index::ConcurrentIntMap::statistics`].
    pub(super) fn shape_statistics(&self) -> Statistics {
        let (mut leaves, mut inner_nodes, mut height) = (0, 0, 0);
        // What writers are at work on is left out.
        let _ = self.walk(&epoch::pin(), |visited| {
            leaves += usize::from(visited.leaf);
            inner_nodes += usize::from(!visited.leaf);
            height = height.max(visited.depth + 1);
            Ok(())
        });
        let mut all = Statistics::new();
        let nodes = leaves + inner_nodes;
        let node_bytes = size_of::<Node<K, F, W>>();
        let helps = self.counters.sum(HELPS);
        let retries = self.counters.sum(RETRIES);
        all.push("keys", leaves as f64, "keys, each in a leaf");
        all.push("nodes", nodes as f64, "leaves and inner nodes");
        all.push("inner_nodes", inner_nodes as f64, "nodes that route");
        all.push("node_bytes", node_bytes as f64, "bytes of a node");
        all.push("height", height as f64, "nodes on the longest path");
        all.push("helps", helps as f64, "removals completed for others");
        all.push("retries", retries as f64, "updates begun again");
        all
    }

    /// As [`hedgerow_index::ConcurrentIntMap::verify`]: no marks, two children for each inner
    /// node but the top, keys where searches look for them.
    pub(super) fn verify_shape(&self) -> Result<(), String> {
        let mut last = None;
        self.walk(&epoch::pin(), |visited| {
            if visited.depth == 0 {
                return match visited.leaf {
                    true => Err("the root leads to a leaf".to_owned()),
                    false => Ok(()),
                };
            }
            let (key, least, bound) = (visited.node.key(), visited.least, visited.bound);
            let below = least.is_some_and(|least| key < least || !visited.leaf && key == least);
            if below || bound.is_some_and(|bound| key >= bound) {
                return Err(format!("key {key:?} between {least:?} and {bound:?}"));
            }
            if visited.leaf {
                if last.is_some_and(|last| last >= key) {
                    return Err(format!("key {key:?} after {last:?}"));
                }
                last = Some(key);
            }
            Ok(())
        })
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> VisitNodes for EdgeExtLf<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        // What writers are at work on is left out.
        let _ = self.walk(&epoch::pin(), |visited| {
            visit(&PlacedNode {
                kind: if visited.leaf { "leaf" } else { "inner node" },
                address: ptr::from_ref(visited.node).addr(),
                bytes: size_of_val(visited.node),
                search_fields: Node::<K, F, W>::search_fields(visited.leaf),
                written_fields: Node::<K, F, W>::written_fields(visited.leaf),
                parent: visited.parent,
            });
            Ok(())
        });
    }
}
