//! The invariants of one tree, checked one by one, and its numbers. For trees at rest.

use hedgerow_index::Statistics;

use super::{EVENTS, Events, Node, Tree};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::{Router, SharedNodeKey};

const EVENT_NAMES: [(&str, &str); EVENTS] = [
    (
        "retries",
        "Reads begun again because a writer came in between.",
    ),
    ("page_growths", "Full pages replaced by larger ones."),
    ("page_splits", "Full pages cut in two."),
    ("page_merges", "Pages that ran low joined with a neighbour."),
    ("inner_splits", "Full inner nodes cut in two."),
    (
        "inner_merges",
        "Inner nodes that ran low joined with a neighbour.",
    ),
];

/// What a tree, or several, consist of.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Shape {
    /// Pairs in pages.
    pub(crate) pairs: usize,
    pub(crate) pages: usize,
    pub(crate) inner_nodes: usize,
    pub(crate) page_bytes: usize,
    inner_bytes: usize,
    /// Pairs that as many pages of full size could hold.
    room: usize,
    /// Inner levels above the pages, of the highest tree.
    pub(crate) height: usize,
}

impl Shape {
    pub(crate) fn add<C: Capacity, L: SharedNodeKey>(&mut self, tree: &Tree<C, L>) {
        for node in tree.nodes() {
            self.height = self.height.max(node.level);
            if let Some(page) = node.page() {
                self.pages += 1;
                self.pairs += page.keys();
                self.page_bytes += page.bytes();
                self.room += Tree::<C, L>::LINES * L::LEAF;
            } else {
                self.inner_nodes += 1;
                self.inner_bytes += size_of::<Inner<L>>();
            }
        }
    }

    /// Bytes of all nodes.
    pub(crate) fn node_bytes(&self) -> usize {
        self.page_bytes + self.inner_bytes
    }

    pub(crate) fn push(&self, statistics: &mut Statistics, events: &Events) {
        let room = self.room as f64;
        let numbers = [
            (
                "outer_height",
                self.height as f64,
                "Inner levels above pages.",
            ),
            ("pages", self.pages as f64, "Pages with their leaf lines."),
            ("inner_nodes", self.inner_nodes as f64, "Nodes above pages."),
            (
                "page_fill",
                self.pairs as f64 / room,
                "Pairs by what as many pages of full size can hold.",
            ),
            (
                "node_bytes",
                self.node_bytes() as f64,
                "Bytes of pages and inner nodes.",
            ),
        ];
        for (name, value, help) in numbers {
            statistics.push(name, value, help);
        }
        push_events(statistics, events);
    }
}

/// What was counted as it happened.
pub(crate) fn push_events(statistics: &mut Statistics, events: &Events) {
    for (event, (name, help)) in EVENT_NAMES.into_iter().enumerate() {
        statistics.push(name, events.sum(event) as f64, help);
    }
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// Checks everything; the first violation in words.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let nodes = self.nodes();
        let pages = nodes.iter().filter(|node| node.page().is_some());
        let height = pages.map(|node| node.level).max().unwrap_or(0);
        for node in nodes {
            verify_node::<C, L>(node, height).map_err(|problem| {
                format!("node {:#x}, level {}: {problem}", node.address, node.level)
            })?;
        }
        Ok(())
    }
}

fn verify_node<C: Capacity, L: SharedNodeKey>(node: Node<L>, height: usize) -> Result<(), String> {
    if !node.is_at_rest() {
        return Err("is latched, marked or deleted".to_owned());
    }
    if let Some(page) = node.page() {
        if node.level != height {
            return Err(format!("a page above level {height}"));
        }
        let keys = page.verify(node.low, node.high)?;
        if keys == 0 && height > 0 {
            return Err("an empty page".to_owned());
        }
    } else if let Some(inner) = node.inner() {
        let count = inner.count();
        if !(2..=C::FAN_OUT).contains(&count) {
            return Err(format!("{count} children"));
        }
        if inner.over_pages != (node.level + 1 == height) {
            return Err("does not know what its children are".to_owned());
        }
        inner.routing.verify(count - 1)?;
        let inside = |separator: &L| {
            node.low.is_none_or(|low| low < *separator)
                && node.high.is_none_or(|high| *separator <= high)
        };
        if !inner.separators().iter().all(inside) {
            return Err("a separator outside its bounds".to_owned());
        }
    }
    Ok(())
}
