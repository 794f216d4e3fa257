//! What a tree says of itself at rest: statistics, invariants, where its nodes lie.

use hedgerow_index::{IntKey, Statistics};
use hedgerow_memory::{PlacedNode, VisitNodes};
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::word::Word;

use super::node::{Node, Side};
use super::repair::{Condition, condition};
use super::{DOUBLE_ROTATIONS, OccAvl, RETRIES, ROTATIONS, UNLINKS, Validation};
use crate::form::Form;

/// No AVL tree that fits into memory is as high as this; a walk along more left links goes in
/// circles, and comes to the same keys again.
const HIGHEST: usize = 200;

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    /// Visits every node with its parent, in key order, until `visit` fails.
    fn walk<E>(
        &self,
        guard: &Guard,
        visit: &mut impl FnMut(&Node<K, F, W>, &Node<K, F, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        let top = self.top(guard);
        let mut path = Vec::new();
        let (mut parent, mut node) = (top.node, top.node.child(top.side, guard));
        loop {
            while let Some(next) = node.filter(|_| path.len() < HIGHEST) {
                path.push((parent, next));
                (parent, node) = (next, next.child(Side::Left, guard));
            }
            let Some((above, next)) = path.pop() else {
                return Ok(());
            };
            visit(above, next)?;
            (parent, node) = (next, next.child(Side::Right, guard));
        }
    }

    /// Visits the words of all items.
    pub(crate) fn for_each_word(&self, mut visit: impl FnMut(u64)) {
        let walked: Result<(), ()> = self.walk(&epoch::pin(), &mut |_, node| {
            node.word().into_iter().for_each(&mut visit);
            Ok(())
        });
        debug_assert!(walked.is_ok());
    }

    /// Some keys in order, at most `most`, between which lie about as many others each: those of
    /// the nodes next to the root. Beside writers they may be any keys.
    pub(crate) fn keys_at_the_top(&self, most: usize) -> Vec<K> {
        let guard = epoch::pin();
        let top = self.top(&guard);
        let mut level: Vec<_> = top.node.child(top.side, &guard).into_iter().collect();
        let mut keys = Vec::new();
        while !level.is_empty() && keys.len() + level.len() <= most {
            keys.extend(level.iter().map(|node| node.key()));
            let below = |node: &&Node<K, F, W>| {
                let (left, right) = (Side::Left, Side::Right);
                [node.child(left, &guard), node.child(right, &guard)]
            };
            level = level.iter().flat_map(below).flatten().collect();
        }
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(K::decode).collect()
    }

    /// What happened to nodes since the tree was made.
    pub(crate) fn counters(&self) -> Statistics {
        let mut statistics = Statistics::new();
        self.push_counters(&mut statistics);
        statistics
    }

    fn push_counters(&self, statistics: &mut Statistics) {
        let counters = [
            (
                "retries",
                RETRIES,
                "Searches that went back, since what they read had changed.",
            ),
            ("rotations", ROTATIONS, "Single rotations."),
            ("double_rotations", DOUBLE_ROTATIONS, "Double rotations."),
            ("unlinked_nodes", UNLINKS, "Nodes that left the tree."),
        ];
        for (name, counter, help) in counters {
            statistics.push(name, self.counters.sum(counter) as f64, help);
        }
    }

    /// Numbers of nodes and of what happened to them.
    pub(crate) fn describe(&self) -> Statistics {
        let guard = epoch::pin();
        let (mut nodes, mut keys) = (0_u64, 0_u64);
        let counted: Result<(), ()> = self.walk(&guard, &mut |_, node| {
            nodes += 1;
            keys += u64::from(node.is_present());
            Ok(())
        });
        debug_assert!(counted.is_ok());
        let height = self.holder.height_of(Side::Right, &guard);
        let mut statistics = Statistics::new();
        statistics.push("keys", keys as f64, "Keys stored.");
        statistics.push("nodes", nodes as f64, "Nodes in the tree.");
        let routing = "Nodes of removed keys that have two children.";
        statistics.push("routing_nodes", (nodes - keys) as f64, routing);
        let bytes = size_of::<Node<K, F, W>>();
        statistics.push("node_bytes", bytes as f64, "Bytes of a node.");
        statistics.push("height", height as f64, "Nodes on the longest path.");
        self.push_counters(&mut statistics);
        statistics
    }

    /// Checks order, parent links, versions, heights and balance.
    pub(crate) fn check(&self) -> Result<(), String> {
        let guard = epoch::pin();
        let mut last: Option<K::Encoded> = None;
        self.walk(&guard, &mut |parent, node| {
            let key = K::decode(node.key());
            if last.is_some_and(|last| last >= node.key()) {
                return Err(format!("{key:?} comes after {:?}", last.map(K::decode)));
            }
            last = Some(node.key());
            if !node.has_parent(parent) {
                return Err(format!("the parent link of {key:?} names another node"));
            }
            if !Node::<K, F, W>::is_stable(node.version()) {
                return Err(format!(
                    "{key:?} is in the tree and marked as leaving or shrinking"
                ));
            }
            match condition(node, &guard) {
                Condition::Sound => Ok(()),
                damage => Err(format!("{key:?}, height {}: {damage:?}", node.height())),
            }
        })
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> VisitNodes for OccAvl<K, F, V, W> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let guard = epoch::pin();
        let holder = self.holder.address();
        let visited: Result<(), ()> = self.walk(&guard, &mut |parent, node| {
            visit(&PlacedNode {
                kind: "node",
                address: node.address() as usize,
                bytes: size_of::<Node<K, F, W>>(),
                search_fields: node.search_bytes(),
                written_fields: Node::<K, F, W>::WRITTEN,
                parent: Some(parent.address())
                    .filter(|&address| address != holder)
                    .map(|address| address as usize),
            });
            Ok(())
        });
        debug_assert!(visited.is_ok());
    }
}
