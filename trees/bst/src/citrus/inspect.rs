//! What needs a walk over the whole tree: counts, invariants, where nodes lie, and the end.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::{Citrus, LEFT, MARKED, Node, NodeFields, NodeSearch, NodeUpdate, RIGHT};
use crate::form::Form;
use crate::grace_period::GracePeriods;
use crate::lock::NodeLock;

/// A node on a walk.
struct Placed<'g, K, F: Form, W> {
    node: &'g Node<K, F, W>,
    parent: &'g Node<K, F, W>,
    depth: usize,
}

impl<K: IntKey, F: Form, W: Word + 'static, G: GracePeriods> Citrus<K, F, W, G> {
    /// Visits the nodes in key order.
    fn walk<'g>(&'g self, guard: &'g Guard, mut visit: impl FnMut(Placed<'g, K, F, W>)) {
        let mut above = Vec::new();
        let (mut parent, mut side, mut depth) = (self.root(guard), LEFT, 1);
        loop {
            while let Some(node) = parent.child(side) {
                above.push(Placed {
                    node,
                    parent,
                    depth,
                });
                (parent, side, depth) = (node, LEFT, depth + 1);
            }
            let Some(placed) = above.pop() else {
                return;
            };
            (parent, side, depth) = (placed.node, RIGHT, placed.depth + 1);
            visit(placed);
        }
    }

    pub(super) fn count(&self) -> Statistics {
        let (mut nodes, mut height) = (0, 0);
        self.walk(&epoch::pin(), |placed| {
            nodes += 1;
            height = height.max(placed.depth);
        });
        let mut statistics = Statistics::new();
        statistics.push("keys", f64::from(nodes), "Keys stored.");
        statistics.push("nodes", f64::from(nodes), "Nodes, one for each key.");
        statistics.push("height", height as f64, "Nodes on the longest path.");
        let retries = self.retries.load(Ordering::Relaxed) as f64;
        let help = "Searches that updates began again, since the tree was made.";
        statistics.push("retries", retries, help);
        let grace_periods = self.grace_periods.load(Ordering::Relaxed) as f64;
        let help = "Grace periods that removals waited for, since the tree was made.";
        statistics.push("grace_periods", grace_periods, help);
        statistics
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let guard = epoch::pin();
        let root = self.root(&guard);
        if root.child(RIGHT).is_some() {
            return Err("the root has a right child".to_owned());
        }
        is_sound(root, "the root")?;
        let (mut first, mut last) = (Ok(()), None);
        self.walk(&guard, |placed| {
            // SAFETY: a child is not the root.
            let key = unsafe { placed.node.key() };
            if first.is_ok() {
                first = match last {
                    Some(last) if last >= key => Err(format!("node {key:?} comes after {last:?}")),
                    _ => is_sound(placed.node, &format!("node {key:?}")),
                };
            }
            last = Some(key);
        });
        first
    }
}

fn is_sound<K: IntKey, F: Form, W: Word>(node: &Node<K, F, W>, what: &str) -> Result<(), String> {
    if node.state() & MARKED != 0 {
        return Err(format!("{what} is in the tree and marked"));
    }
    let lock = &node.update().lock;
    if !lock.try_lock() {
        return Err(format!("{what} is locked"));
    }
    lock.unlock();
    Ok(())
}

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    /// What updates write: links, state and lock. Key and word stay.
    const WRITTEN: WrittenFields = {
        let search = NodeFields::<K, F, W>::search_offset();
        let update = NodeFields::<K, F, W>::update_offset();
        let lock = update + offset_of!(NodeUpdate<F::Lock, W>, lock);
        WrittenFields::NONE
            .and_field::<[W; 2]>(search + offset_of!(NodeSearch<K, W>, links))
            .and_field::<W>(update + offset_of!(NodeUpdate<F::Lock, W>, state))
            .and(lock..lock + F::Lock::WRITTEN_BYTES)
    };
}

impl<K, F, W, G> VisitNodes for Citrus<K, F, W, G>
where
    K: IntKey,
    F: Form,
    W: Word + 'static,
    G: GracePeriods,
{
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.walk(&epoch::pin(), |placed| {
            let address = placed.node.address() as usize;
            let search = placed.node.search();
            let start = std::ptr::from_ref(search) as usize - address;
            visit(&PlacedNode {
                kind: "node",
                address,
                bytes: size_of::<Node<K, F, W>>(),
                search_fields: start..start + size_of_val(search),
                written_fields: Node::<K, F, W>::WRITTEN,
                parent: (placed.depth > 1).then(|| placed.parent.address() as usize),
            });
        });
    }
}

impl<K, F, W, G> Drop for Citrus<K, F, W, G>
where
    K: IntKey,
    F: Form,
    W: Word + 'static,
    G: GracePeriods,
{
    fn drop(&mut self) {
        let mut nodes = vec![self.root.as_ptr() as u64];
        self.walk(&epoch::pin(), |placed| nodes.push(placed.node.address()));
        for address in nodes {
            if let Some(node) = NonNull::new(address as *mut Node<K, F, W>) {
                // SAFETY: nobody else has the tree; each node came from its pool and is freed once.
                unsafe { self.nodes.free(node) };
            }
        }
    }
}
