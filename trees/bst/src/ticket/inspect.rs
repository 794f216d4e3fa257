//! What needs a walk over the whole tree: counts, invariants, where nodes lie, and the end.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};
use hedgerow_sync::epoch;
use hedgerow_sync::word::Word;

use super::edge_locks::{EdgeLocks, Side};
use super::{EMPTY, Inner, InnerFields, InnerSearch, LEAF, Leaf, Ticket};
use crate::form::Form;

/// A node on a walk.
enum Node<'g, K, F: Form, W> {
    Inner(&'g Inner<K, F, W>),
    Leaf(&'g Leaf<K, F>),
}

/// A node with its place in the tree.
struct Placed<'g, K, F: Form, W> {
    node: Node<'g, K, F, W>,
    /// The link to it.
    link: u64,
    parent: Option<&'g Inner<K, F, W>>,
    depth: usize,
    /// The least key that may be below it, and the one that all are below.
    bounds: (Option<K>, Option<K>),
}

impl<K: IntKey, F: Form, W: Word + 'static> Ticket<K, F, W> {
    /// Visits each node before those below it, and leaves from left to right.
    fn walk(&self, mut visit: impl FnMut(Placed<'_, K, F, W>)) {
        let guard = epoch::pin();
        let mut waiting = vec![(
            self.head.link.load(Ordering::Acquire),
            None,
            1,
            (None, None),
        )];
        while let Some((link, parent, depth, bounds)) = waiting.pop() {
            // SAFETY: each link was read in this tree under the guard.
            let node = match unsafe { self.inner(link, &guard) } {
                Some(inner) => {
                    let key = Some(inner.fields.search().key);
                    let link = |side| inner.link(side).load(Ordering::Acquire);
                    let (left, right) = ((bounds.0, key), (key, bounds.1));
                    waiting.push((link(Side::Right), Some(inner), depth + 1, right));
                    waiting.push((link(Side::Left), Some(inner), depth + 1, left));
                    Node::Inner(inner)
                }
                // SAFETY: as above; and the link has the leaf's bit.
                None => match unsafe { self.leaf(link, &guard) } {
                    Some(leaf) => Node::Leaf(leaf),
                    None => continue,
                },
            };
            visit(Placed {
                node,
                link,
                parent,
                depth,
                bounds,
            });
        }
    }

    pub(super) fn count(&self) -> Statistics {
        let (mut keys, mut inners, mut height) = (0, 0, 0);
        self.walk(|placed| {
            match placed.node {
                Node::Inner(_) => inners += 1,
                Node::Leaf(_) => keys += 1,
            }
            height = height.max(placed.depth);
        });
        let retries = self.retries.load(Ordering::Relaxed);
        let mut statistics = Statistics::new();
        statistics.push("keys", keys as f64, "Keys stored.");
        let nodes = keys + inners;
        statistics.push("nodes", nodes as f64, "Nodes: inner nodes and leaves.");
        statistics.push("height", height as f64, "Nodes on the longest path.");
        let help = "Searches that updates began again, since the tree was made.";
        statistics.push("retries", retries as f64, help);
        statistics
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let mut first = Ok(());
        let mut last = None;
        let mut complain = |problem: String| {
            if first.is_ok() {
                first = Err(problem);
            }
        };
        if !self.head.locks.versions().is_unlocked() {
            complain("the head is locked".to_owned());
        }
        self.walk(|placed| match placed.node {
            Node::Inner(inner) => {
                let key = inner.fields.search().key;
                if !inner.locks().versions().is_unlocked() {
                    complain(format!("the inner node {key:?} is locked"));
                }
                for side in [Side::Left, Side::Right] {
                    if inner.link(side).load(Ordering::Acquire) == EMPTY {
                        complain(format!("the inner node {key:?} has no {side:?} child"));
                    }
                }
            }
            Node::Leaf(leaf) => {
                let (key, (least, above)) = (leaf.key, placed.bounds);
                let outside =
                    least.is_some_and(|least| key < least) || above.is_some_and(|a| key >= a);
                if outside {
                    complain(format!("leaf {key:?} is not within {:?}", placed.bounds));
                }
                if last.is_some_and(|last| last >= key) {
                    complain(format!("leaf {key:?} comes after {last:?}"));
                }
                last = Some(key);
            }
        });
        first
    }
}

impl<K: IntKey, F: Form, W: Word> Inner<K, F, W> {
    /// What updates write: links, and their locks.
    const WRITTEN: WrittenFields = {
        let search = InnerFields::<K, F, W>::search_offset();
        WrittenFields::NONE
            .and_field::<[W; 2]>(search + offset_of!(InnerSearch<K, W>, links))
            .and_field::<EdgeLocks<W>>(InnerFields::<K, F, W>::update_offset())
    };
}

impl<K: IntKey, F: Form, W: Word + 'static> VisitNodes for Ticket<K, F, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.walk(|placed| {
            let parent = placed
                .parent
                .map(|inner| std::ptr::from_ref(inner) as usize);
            let node = match placed.node {
                Node::Inner(inner) => {
                    let address = std::ptr::from_ref(inner) as usize;
                    let search = inner.fields.search();
                    let start = std::ptr::from_ref(search) as usize - address;
                    PlacedNode {
                        kind: "inner node",
                        address,
                        bytes: size_of::<Inner<K, F, W>>(),
                        search_fields: start..start + size_of::<InnerSearch<K, W>>(),
                        written_fields: Inner::<K, F, W>::WRITTEN,
                        parent,
                    }
                }
                Node::Leaf(leaf) => PlacedNode {
                    kind: "leaf",
                    address: std::ptr::from_ref(leaf) as usize,
                    bytes: size_of::<Leaf<K, F>>(),
                    search_fields: 0..offset_of!(Leaf<K, F>, word) + size_of::<u64>(),
                    // An insert of its key leaves it as it is.
                    written_fields: WrittenFields::NONE,
                    parent,
                },
            };
            visit(&node);
        });
    }
}

impl<K: IntKey, F: Form, W: Word + 'static> Drop for Ticket<K, F, W> {
    fn drop(&mut self) {
        let mut links = Vec::new();
        self.walk(|placed| links.push(placed.link));
        for link in links {
            // SAFETY: nobody else has the tree; each node came from its pool and is freed once.
            unsafe {
                if link & LEAF == 0 {
                    let inner = NonNull::new(link as *mut Inner<K, F, W>);
                    inner.into_iter().for_each(|inner| self.inners.free(inner));
                } else {
                    let leaf = NonNull::new((link & !LEAF) as *mut Leaf<K, F>);
                    leaf.into_iter().for_each(|leaf| self.leaves.free(leaf));
                }
            }
        }
    }
}
