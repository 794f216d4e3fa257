//! The nodes of a structure, sorted by address.

use std::collections::HashMap;
use std::ops::Range;

use crate::placed_node::{PlacedNode, VisitNodes, WrittenFields};

/// A node. Offsets are counted from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) address: usize,
    /// 0 for a root.
    pub(super) parent: usize,
    pub(super) bytes: u32,
    pub(super) search_start: u32,
    pub(super) search_end: u32,
    /// Which of the [written fields](Nodes::written) it has.
    written: u32,
    pub(super) kind: u16,
}

impl Node {
    /// The addresses of the fields that a search reads.
    pub(super) fn search_fields(&self) -> Range<usize> {
        self.address + self.search_start as usize..self.address + self.search_end as usize
    }

    /// The addresses of all of it.
    pub(super) fn extent(&self) -> Range<usize> {
        self.address..self.address + self.bytes as usize
    }
}

/// All nodes, by address.
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
    pub(super) kinds: Vec<&'static str>,
    /// What updates write in a node: all answers of the structure, each once.
    written: Vec<WrittenFields>,
    pub(super) line_bytes: usize,
}

impl Nodes {
    pub(super) fn of(structure: &dyn VisitNodes, line_bytes: usize) -> Self {
        let mut kinds: Vec<&'static str> = Vec::new();
        let mut nodes = Vec::new();
        let (mut written, mut numbers) = (Vec::new(), HashMap::new());
        structure.visit_nodes(&mut |node: &PlacedNode| {
            let kind = kinds.iter().position(|&kind| kind == node.kind);
            let kind = kind.unwrap_or_else(|| {
                kinds.push(node.kind);
                kinds.len() - 1
            });
            let fields = *numbers.entry(node.written_fields).or_insert_with(|| {
                written.push(node.written_fields);
                written.len() - 1
            });
            nodes.push(Node {
                address: node.address,
                parent: node.parent.unwrap_or(0),
                bytes: node.bytes as u32,
                search_start: node.search_fields.start as u32,
                search_end: node.search_fields.end as u32,
                written: fields as u32,
                kind: kind as u16,
            });
        });
        nodes.sort_unstable_by_key(|node: &Node| node.address);
        Self {
            nodes,
            kinds,
            written,
            line_bytes,
        }
    }

    /// The nodes of a kind, by address.
    pub(super) fn of_kind(&self, kind: usize) -> impl Iterator<Item = &Node> {
        let nodes = self.nodes.iter();
        nodes.filter(move |node| usize::from(node.kind) == kind)
    }

    /// The node at an address.
    pub(super) fn at(&self, address: usize) -> Option<&Node> {
        let at = self.nodes.binary_search_by_key(&address, |n| n.address);
        at.ok().map(|at| &self.nodes[at])
    }

    /// The numbers of the lines that a range of addresses touches; of an empty one none.
    pub(super) fn lines(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.line_bytes..(range.end - 1) / self.line_bytes + 1
    }

    /// The line where a search begins to read a node.
    pub(super) fn first_line(&self, node: &Node) -> usize {
        node.search_fields().start / self.line_bytes
    }

    /// Whether the search fields of a node touch more lines than they must.
    pub(super) fn crosses(&self, node: &Node) -> bool {
        let fields = node.search_fields();
        let least = fields.len().div_ceil(self.line_bytes);
        self.lines(fields).len() > least
    }

    /// Whether updates write bytes of a node that are on this line.
    pub(super) fn writes(&self, node: &Node, line: usize) -> bool {
        let fields = &self.written[node.written as usize];
        let at = |range: Range<usize>| node.address + range.start..node.address + range.end;
        let mut ranges = fields.ranges().map(at);
        ranges.any(|range| self.lines(range).contains(&line))
    }
}
