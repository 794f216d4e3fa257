//! Shortest cycles: strongly connected components by Tarjan (1972), and breadth-first search in
//! each that has more than one node.

use std::collections::VecDeque;

use super::graph::Graph;

/// Searches from so many nodes look for the shortest cycle; beyond it a short one will do.
const MAX_SEARCHES: usize = 1_000;

/// The strongly connected component of each node, numbered in reverse topological order.
pub(super) fn components(graph: &Graph) -> Vec<u32> {
    let mut search = Tarjan {
        graph,
        index: vec![0; graph.nodes()],
        low: vec![0; graph.nodes()],
        component: vec![OPEN; graph.nodes()],
        visited: 0,
        components: 0,
        stack: Vec::new(),
    };
    for node in 0..graph.nodes() as u32 {
        if search.index[node as usize] == 0 {
            search.visit(node);
        }
    }
    search.component
}

const OPEN: u32 = u32::MAX;

struct Tarjan<'g> {
    graph: &'g Graph,
    /// The order of visits, from 1; 0 is unvisited.
    index: Vec<u32>,
    /// The earliest visited node that a node's subtree leads back to.
    low: Vec<u32>,
    component: Vec<u32>,
    visited: u32,
    components: u32,
    stack: Vec<u32>,
}

impl Tarjan<'_> {
    fn enter(&mut self, node: u32) {
        self.visited += 1;
        self.index[node as usize] = self.visited;
        self.low[node as usize] = self.visited;
        self.stack.push(node);
    }

    /// A depth-first search with a stack of its own: paths are as long as histories.
    fn visit(&mut self, root: u32) {
        let mut path: Vec<(u32, usize)> = vec![(root, 0)];
        self.enter(root);
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if let Some((to, _)) = self.graph.leaving(node).get(*edge) {
                *edge += 1;
                let to = *to;
                if self.index[to as usize] == 0 {
                    self.enter(to);
                    path.push((to, 0));
                } else if self.component[to as usize] == OPEN {
                    let low = self.low[node as usize].min(self.index[to as usize]);
                    self.low[node as usize] = low;
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                let low = self.low[*parent as usize].min(self.low[node as usize]);
                self.low[*parent as usize] = low;
            }
            if self.low[node as usize] == self.index[node as usize] {
                self.close(node);
            }
        }
    }

    fn close(&mut self, root: u32) {
        while let Some(node) = self.stack.pop() {
            self.component[node as usize] = self.components;
            if node == root {
                break;
            }
        }
        self.components += 1;
    }
}

/// The numbers of the edges of a shortest cycle, in order, if there is a cycle.
pub(super) fn shortest_cycle(graph: &Graph) -> Option<Vec<u32>> {
    let components = components(graph);
    let mut sizes = vec![0u32; graph.nodes()];
    for component in &components {
        sizes[*component as usize] += 1;
    }
    let on_cycles = (0..graph.nodes() as u32).filter(|node| {
        let component = components[*node as usize];
        sizes[component as usize] > 1
    });
    let mut paths = Paths::new(graph.nodes());
    let mut best: Option<Vec<u32>> = None;
    for node in on_cycles.take(MAX_SEARCHES) {
        let longest = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
        let inside = |to: u32| components[to as usize] == components[node as usize];
        if let Some(cycle) = paths.shortest(graph, node, node, longest, inside) {
            let is_shortest = cycle.len() == 2;
            best = Some(cycle);
            if is_shortest {
                break;
            }
        }
    }
    best
}

/// Breadth-first search, with memory that searches share.
#[derive(Debug)]
pub(super) struct Paths {
    /// The search that reached each node last, from which node and by which edge.
    reached: Vec<(u32, u32, u32)>,
    searches: u32,
}

impl Paths {
    pub fn new(nodes: usize) -> Self {
        Paths {
            reached: vec![(0, 0, 0); nodes],
            searches: 0,
        }
    }

    /// The edges of a shortest path of one to `longest` edges, through nodes that `inside` admits.
    pub fn shortest(
        &mut self,
        graph: &Graph,
        from: u32,
        to: u32,
        longest: usize,
        inside: impl Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        self.searches += 1;
        let mut open: VecDeque<(u32, usize)> = VecDeque::from([(from, 0)]);
        while let Some((node, length)) = open.pop_front() {
            if length == longest {
                return None;
            }
            for (next, edge) in graph.leaving(node) {
                if self.reached[*next as usize].0 == self.searches || !inside(*next) {
                    continue;
                }
                self.reached[*next as usize] = (self.searches, node, *edge);
                if *next == to {
                    return Some(self.path_back(from, to));
                }
                open.push_back((*next, length + 1));
            }
        }
        None
    }

    fn path_back(&self, from: u32, to: u32) -> Vec<u32> {
        let mut edges = Vec::new();
        let mut node = to;
        loop {
            let (_, before, edge) = self.reached[node as usize];
            edges.push(edge);
            node = before;
            if node == from {
                edges.reverse();
                return edges;
            }
        }
    }
}
