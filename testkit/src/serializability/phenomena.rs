//! Names a cycle: looks for the phenomena one after the other, from the one that the weakest
//! isolation level forbids to the one that serializability alone does, first by dependencies, then
//! with the orders of processes and of real time.

use super::anomaly::{CycleKind, CycleOrder};
use super::cycles::{Paths, components, shortest_cycle};
use super::graph::{Edge, Graph, Reason};
use super::model::Model;

/// Searches for read skew begin at so many anti-dependencies at most.
const MAX_SEARCHES: usize = 4_000;

/// A cycle with its name.
#[derive(Debug)]
pub(super) struct NamedCycle {
    pub kind: CycleKind,
    pub order: CycleOrder,
    pub edges: Vec<Edge>,
}

/// A shortest cycle of the first phenomenon that `edges` have and `model` forbids.
pub(super) fn find(transactions: usize, edges: &[Edge], model: Model) -> Option<NamedCycle> {
    let orders = [
        (CycleOrder::DependenciesAlone, true),
        (CycleOrder::Process, model.has_process_order()),
        (CycleOrder::RealTime, model.has_real_time()),
    ];
    let kinds = [
        (CycleKind::G0, true),
        (CycleKind::G1c, true),
        (CycleKind::GSingle, model.has_anti_dependencies()),
        (CycleKind::GNonadjacent, model.has_anti_dependencies()),
        (
            CycleKind::G2Item,
            model.has_anti_dependencies() && !model.is_snapshot(),
        ),
        (
            CycleKind::G2,
            model.has_anti_dependencies() && !model.is_snapshot(),
        ),
    ];
    for (order, _) in orders.into_iter().filter(|(_, counts)| *counts) {
        let edges: Vec<Edge> = edges
            .iter()
            .filter(|edge| edge.reason.is_of(order))
            .copied()
            .collect();
        for (kind, _) in kinds.into_iter().filter(|(_, counts)| *counts) {
            let found = of_kind(transactions, &edges, kind);
            if let Some(edges) = found {
                return Some(NamedCycle { kind, order, edges });
            }
        }
    }
    None
}

fn of_kind(transactions: usize, edges: &[Edge], kind: CycleKind) -> Option<Vec<Edge>> {
    let cycle = match kind {
        CycleKind::G0 => cycle_among(transactions, edges, |reason| {
            !reason.is_read() && !reason.is_anti()
        }),
        CycleKind::G1c => cycle_among(transactions, edges, |reason| !reason.is_anti()),
        CycleKind::GSingle => read_skew(transactions, edges),
        CycleKind::GNonadjacent => nonadjacent(transactions, edges),
        CycleKind::G2Item => cycle_among(transactions, edges, |reason| !reason.is_predicate()),
        CycleKind::G2 => cycle_among(transactions, edges, |_| true),
    }?;
    Some(cycle.iter().map(|edge| edges[*edge as usize]).collect())
}

fn graph_among(transactions: usize, edges: &[Edge], counts: impl Fn(&Reason) -> bool) -> Graph {
    let counting: Vec<(u32, u32, u32)> = (0..)
        .zip(edges)
        .filter(|(_, edge)| counts(&edge.reason))
        .map(|(number, edge)| (edge.from, edge.to, number))
        .collect();
    Graph::new(transactions, counting.into_iter())
}

fn cycle_among(
    transactions: usize,
    edges: &[Edge],
    counts: impl Fn(&Reason) -> bool,
) -> Option<Vec<u32>> {
    shortest_cycle(&graph_among(transactions, edges, counts))
}

/// A shortest cycle with one anti-dependency: a path back from its end to its beginning.
fn read_skew(transactions: usize, edges: &[Edge]) -> Option<Vec<u32>> {
    let components = components(&graph_among(transactions, edges, |_| true));
    let back = graph_among(transactions, edges, |reason| !reason.is_anti());
    let component = |node: u32| components[node as usize];
    let anti = (0..)
        .zip(edges)
        .filter(|(_, edge)| edge.reason.is_anti() && component(edge.from) == component(edge.to));
    let mut paths = Paths::new(transactions);
    let mut best: Option<Vec<u32>> = None;
    for (number, edge) in anti.take(MAX_SEARCHES) {
        let longest = best.as_ref().map_or(usize::MAX, |best| best.len() - 2);
        let inside = |node| component(node) == component(edge.from);
        if let Some(path) = paths.shortest(&back, edge.to, edge.from, longest, inside) {
            let is_shortest = path.len() == 1;
            best = Some([&[number], path.as_slice()].concat());
            if is_shortest {
                break;
            }
        }
    }
    best
}

/// A shortest cycle without adjacent anti-dependencies: one through the points of a snapshot
/// database, see [`ends`].
fn nonadjacent(transactions: usize, edges: &[Edge]) -> Option<Vec<u32>> {
    let mut cycle = shortest_cycle(&points(transactions, edges, true))?;
    cycle.retain(|edge| *edge != OWN);
    Some(cycle)
}

/// The edge from a transaction's snapshot to its commit.
const OWN: u32 = u32::MAX;

/// The points in time of transactions, and which precedes which.
///
/// Under serializability a transaction is one point, its number. Under snapshot isolation it is
/// two: 2n is when it takes its snapshot, 2n + 1 when it commits. Then a dependency says that one
/// commits before the other takes its snapshot, and an anti-dependency that one takes its snapshot
/// before the other commits. From a commit no anti-dependency leads on, so the cycles are just
/// those without two adjacent anti-dependencies.
pub(super) fn points(transactions: usize, edges: &[Edge], has_snapshots: bool) -> Graph {
    let of_edges = (0..).zip(edges).map(|(number, edge)| {
        let (from, to) = ends(edge, has_snapshots);
        (from, to, number)
    });
    if !has_snapshots {
        return Graph::new(transactions, of_edges);
    }
    let own = (0..transactions as u32).map(|number| (2 * number, 2 * number + 1, OWN));
    Graph::new(2 * transactions, of_edges.chain(own))
}

fn ends(edge: &Edge, has_snapshots: bool) -> (u32, u32) {
    match (has_snapshots, edge.reason.is_anti()) {
        (false, _) => (edge.from, edge.to),
        (true, true) => (2 * edge.from, 2 * edge.to + 1),
        (true, false) => (2 * edge.from + 1, 2 * edge.to),
    }
}
