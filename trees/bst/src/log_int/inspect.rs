//! What needs a walk over the whole tree: counts, invariants, where nodes lie, and the end.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::{LEFT, LogInt, Node, NodeFields, NodeSearch, NodeUpdate, RIGHT};
use crate::form::Form;
use crate::lock::NodeLock;

impl<K: IntKey, F: Form, W: Word + 'static> LogInt<K, F, W> {
    /// Visits the nodes of the tree in key order, with their depths.
    fn walk<'g>(&'g self, guard: &'g Guard, mut visit: impl FnMut(&'g Node<K, F, W>, usize)) {
        let mut above = Vec::new();
        let mut next = self.greatest(guard).child(LEFT).map(|node| (node, 1));
        loop {
            while let Some((node, depth)) = next {
                above.push((node, depth));
                next = node.child(LEFT).map(|child| (child, depth + 1));
            }
            let Some((node, depth)) = above.pop() else {
                return;
            };
            visit(node, depth);
            next = node.child(RIGHT).map(|child| (child, depth + 1));
        }
    }

    pub(super) fn count(&self) -> Statistics {
        let (mut nodes, mut height) = (0, 0);
        self.walk(&epoch::pin(), |_, depth| {
            nodes += 1;
            height = height.max(depth);
        });
        let retries = self.retries.load(Ordering::Relaxed);
        let mut statistics = Statistics::new();
        statistics.push("keys", f64::from(nodes), "Keys stored.");
        statistics.push("nodes", f64::from(nodes), "Nodes, one for each key.");
        statistics.push("height", height as f64, "Nodes on the longest path.");
        let help = "Attempts that updates began again, since the tree was made.";
        statistics.push("retries", retries as f64, help);
        statistics
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let guard = epoch::pin();
        let least = self.least(&guard);
        is_unlocked(least, "the least end")?;
        is_unlocked(self.greatest(&guard), "the greatest end")?;
        let mut first = Ok(());
        let mut last = least;
        self.walk(&guard, |node, _| {
            if first.is_ok() {
                first = self.check_node(node, last);
                last = node;
            }
        });
        first?;
        match last.succ().is(self.greatest(&guard)) && self.greatest(&guard).pred().is(last) {
            true => Ok(()),
            false => Err(format!("the list goes on after {:?}", self.key(last))),
        }
    }

    /// Checks a node, and the list between it and the node before it in the tree's order.
    fn check_node(&self, node: &Node<K, F, W>, last: &Node<K, F, W>) -> Result<(), String> {
        let (Some(key), last_key) = (self.key(node), self.key(last)) else {
            return Err("an end of the list is in the tree".to_owned());
        };
        if last_key.is_some_and(|last| last >= key) {
            return Err(format!("node {key:?} comes after {last_key:?}"));
        }
        if node.is_removed() {
            return Err(format!("node {key:?} is in the tree and removed"));
        }
        if !last.succ().is(node) || !node.pred().is(last) {
            return Err(format!(
                "{last_key:?} and {key:?} follow each other in the tree, not in the list"
            ));
        }
        for child in [LEFT, RIGHT]
            .into_iter()
            .filter_map(|side| node.child(side))
        {
            if !child.parent().is_some_and(|parent| parent.is(node)) {
                let child = self.key(child);
                return Err(format!("child {child:?} of {key:?} has another parent"));
            }
        }
        is_unlocked(node, &format!("node {key:?}"))
    }
}

fn is_unlocked<K: IntKey, F: Form, W: Word>(
    node: &Node<K, F, W>,
    what: &str,
) -> Result<(), String> {
    for lock in [&node.update().succ_lock, &node.update().tree_lock] {
        if !lock.try_lock() {
            return Err(format!("{what} is locked"));
        }
        lock.unlock();
    }
    Ok(())
}

impl<K: IntKey, F: Form, W: Word> Node<K, F, W> {
    /// What updates write: links of tree and list, and locks. Key and word stay.
    const WRITTEN: WrittenFields = {
        let search = NodeFields::<K, F, W>::search_offset();
        let update = NodeFields::<K, F, W>::update_offset();
        let succ_lock = update + offset_of!(NodeUpdate<F::Lock, W>, succ_lock);
        let tree_lock = update + offset_of!(NodeUpdate<F::Lock, W>, tree_lock);
        WrittenFields::NONE
            .and_field::<[W; 2]>(search + offset_of!(NodeSearch<K, W>, links))
            .and_field::<W>(search + offset_of!(NodeSearch<K, W>, succ))
            .and_field::<W>(search + offset_of!(NodeSearch<K, W>, pred))
            .and_field::<W>(update + offset_of!(NodeUpdate<F::Lock, W>, parent))
            .and(succ_lock..succ_lock + F::Lock::WRITTEN_BYTES)
            .and(tree_lock..tree_lock + F::Lock::WRITTEN_BYTES)
    };
}

impl<K: IntKey, F: Form, W: Word + 'static> VisitNodes for LogInt<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.walk(&epoch::pin(), |node, depth| {
            let address = node.address() as usize;
            let search = node.search();
            let start = std::ptr::from_ref(search) as usize - address;
            // A search that finds its key reads the first fields, up to the word.
            let end = std::ptr::from_ref(&search.pred) as usize - address;
            let parent = node.parent().filter(|_| depth > 1);
            visit(&PlacedNode {
                kind: "node",
                address,
                bytes: size_of::<Node<K, F, W>>(),
                search_fields: start..end,
                written_fields: Node::<K, F, W>::WRITTEN,
                parent: parent.map(|parent| parent.address() as usize),
            });
        });
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> Drop for LogInt<K, F, W> {
    fn drop(&mut self) {
        let mut nodes = vec![self.least.as_ptr() as u64, self.greatest.as_ptr() as u64];
        self.walk(&epoch::pin(), |node, _| nodes.push(node.address()));
        for address in nodes {
            if let Some(node) = NonNull::new(address as *mut Node<K, F, W>) {
                // SAFETY: nobody else has the tree; each node came from its pool and is freed once.
                unsafe { self.nodes.free(node) };
            }
        }
    }
}
