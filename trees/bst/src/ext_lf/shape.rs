//! The shape of a tree at rest: its numbers, its invariants, and where its nodes lie.

use std::ptr;
use std::sync::atomic::Ordering;

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::descriptor::is_clean;
use super::node::{Inner, Leaf};
use super::{ExtLf, HELPS, RETRIES};
use crate::form::Form;
use crate::tagged_link::{is_leaf, node};

/// A node that a walk came to.
struct Visited<'g, K, F: Form, W> {
    node: Node<'g, K, F, W>,
    /// Nodes above it.
    depth: usize,
    parent: Option<usize>,
    /// Its keys are not below this.
    least: Option<K>,
    /// Its keys are below this.
    bound: Option<K>,
}

enum Node<'g, K, F: Form, W> {
    Inner(&'g Inner<K, F, W>),
    Leaf(&'g Leaf<K, F>),
}

impl<K: IntKey, F: Form, W: Word + 'static> ExtLf<K, F, W> {
    /// Visits every node, parents before children and smaller keys before greater ones, until
    /// `visit` fails; it fails of itself at an update under way.
    fn walk<'g>(
        &'g self,
        guard: &'g Guard,
        mut visit: impl FnMut(&Visited<'g, K, F, W>) -> Result<(), String>,
    ) -> Result<(), String> {
        let check = |update: &W| match update.load(Ordering::Acquire) {
            clean if is_clean(clean) => Ok(()),
            update => Err(format!("the update word {update:#x}")),
        };
        check(&self.top.update)?;
        let top = self.top.edge.load(Ordering::Acquire);
        if is_leaf(top) {
            return Ok(());
        }
        let mut waiting = vec![(top, 0, None, None, None)];
        while let Some((link, depth, parent, least, bound)) = waiting.pop() {
            let node = match is_leaf(link) {
                // SAFETY: the link was read under the guard from a reachable node; right links of
                // the first inner node are not among them.
                true => Node::Leaf(unsafe { node(link, guard) }),
                // SAFETY: as above.
                false => Node::Inner(unsafe { node(link, guard) }),
            };
            let visited = Visited {
                node,
                depth,
                parent,
                least,
                bound,
            };
            visit(&visited)?;
            let Node::Inner(inner) = visited.node else {
                continue;
            };
            check(inner.update())?;
            let here = Some(ptr::from_ref(inner).addr());
            let [left, right] =
                [inner.left(), inner.right()].map(|edge| edge.load(Ordering::Acquire));
            if depth == 0 {
                if !is_leaf(right) {
                    return Err(format!("the first inner node's right link is {right:#x}"));
                }
                waiting.push((left, 1, here, None, None));
            } else {
                let key = Some(inner.key());
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
            match visited.node {
                Node::Leaf(_) => leaves += 1,
                Node::Inner(_) => inner_nodes += 1,
            }
            height = height.max(visited.depth + 1);
            Ok(())
        });
        let mut all = Statistics::new();
        let helps = self.counters.sum(HELPS);
        let retries = self.counters.sum(RETRIES);
        let bytes = [size_of::<Leaf<K, F>>(), size_of::<Inner<K, F, W>>()];
        all.push("keys", f64::from(leaves), "keys, each in a leaf");
        all.push(
            "nodes",
            f64::from(leaves + inner_nodes),
            "leaves and inner nodes",
        );
        all.push("inner_nodes", f64::from(inner_nodes), "nodes that route");
        all.push("leaf_bytes", bytes[0] as f64, "bytes of a leaf");
        all.push(
            "inner_node_bytes",
            bytes[1] as f64,
            "bytes of an inner node",
        );
        all.push("height", height as f64, "nodes on the longest path");
        all.push("helps", helps as f64, "updates of others that were helped");
        all.push("retries", retries as f64, "updates begun again");
        all
    }

    /// As [`hedgerow_index::ConcurrentIntMap::verify`]: no update under way, two children for each
    /// inner node but the first, keys where searches look for them.
    pub(super) fn verify_shape(&self) -> Result<(), String> {
        let mut last = None;
        self.walk(&epoch::pin(), |visited| {
            let (least, bound) = (visited.least, visited.bound);
            let key = match visited.node {
                Node::Inner(_) if visited.depth == 0 => return Ok(()),
                Node::Inner(inner) if least.is_some_and(|least| inner.key() == least) => {
                    return Err(format!("two inner nodes of key {least:?}"));
                }
                Node::Inner(inner) => inner.key(),
                Node::Leaf(leaf) => {
                    if last.is_some_and(|last| last >= leaf.key) {
                        return Err(format!("key {:?} after {last:?}", leaf.key));
                    }
                    last = Some(leaf.key);
                    leaf.key
                }
            };
            let below = least.is_some_and(|least| key < least);
            if below || bound.is_some_and(|bound| key >= bound) {
                return Err(format!("key {key:?} between {least:?} and {bound:?}"));
            }
            Ok(())
        })
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> VisitNodes for ExtLf<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        // What writers are at work on is left out.
        let _ = self.walk(&epoch::pin(), |visited| {
            let parent = visited.parent;
            visit(&match visited.node {
                Node::Inner(inner) => PlacedNode {
                    kind: "inner node",
                    address: ptr::from_ref(inner).addr(),
                    bytes: size_of_val(inner),
                    search_fields: Inner::<K, F, W>::search_fields(),
                    written_fields: Inner::<K, F, W>::WRITTEN,
                    parent,
                },
                Node::Leaf(leaf) => PlacedNode {
                    kind: "leaf",
                    address: ptr::from_ref(leaf).addr(),
                    bytes: size_of_val(leaf),
                    search_fields: Leaf::<K, F>::search_fields(),
                    // Insertions replace it.
                    written_fields: WrittenFields::NONE,
                    parent,
                },
            });
            Ok(())
        });
    }
}
