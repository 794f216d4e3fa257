//! How the nodes of a running structure lie in memory: what "Getting to the Root of Concurrent
//! Binary Search Tree Performance" (Arbel-Raviv, Brown, Morrison; USENIX ATC 2018) found to decide
//! the speed of trees, and asks allocators to show (§6).
//!
//! ```text
//!  VisitNodes ──► Inspector ──► Layout
//!  kind, address,   caches,       a kind:  search fields across lines (§3.2.2)
//!  bytes, parent    page frames            cache sets in use (§3.2.3, §4.3.1)
//!                                          strides; pages and their runs (§4.3.3, Figs. 6, 7)
//!                                 kinds:   children beside their parents (§3.2.4)
//!                                          nodes on lines that updates write (§4.3.2)
//!                                          what the neighbouring lines hold
//! ```
//!
//! The inspector reads no node: it computes with the addresses that a structure reports. It keeps
//! 40 bytes for each node and about as much again, and sorts; a million nodes take a second.

mod children;
mod lines;
mod machine;
mod nodes;
mod pages;
mod physical;
mod sets;
mod share;
mod sharing;
mod strides;

pub use children::{Collocation, Nearness};
pub use lines::Neighbours;
pub use machine::{Cache, caches_of_this_machine};
pub use pages::{PAGE_BYTES, PageRun, PageUse};
pub use physical::Translate;
pub use sets::SetUse;
pub use sharing::{LineSharing, WrittenLines};
pub use strides::Strides;

use std::fmt;

use crate::placed_node::VisitNodes;
use nodes::Nodes;
use share::share;
use sharing::Sharing;

/// Computes the layouts of structures for the caches of a machine.
pub struct Inspector {
    caches: Vec<Cache>,
    translate: Result<Translate, String>,
}

impl Inspector {
    /// For this machine, as far as its kernel describes it. On Linux, and for a process that may
    /// read the frames of `/proc/self/pagemap`, by physical addresses too.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            caches: caches_of_this_machine(),
            translate: physical::translation(),
        }
    }

    /// For a machine with these caches, from the first level on. Without a translation it knows
    /// virtual addresses alone, for the reason given.
    #[must_use]
    pub fn new(caches: Vec<Cache>, translate: Result<Translate, String>) -> Self {
        Self { caches, translate }
    }

    /// The layout of a structure. Exact while nobody changes it.
    #[must_use]
    pub fn layout_of(&self, structure: &dyn VisitNodes) -> Layout {
        let line_bytes = self.caches.first().map_or(64, |cache| cache.line_bytes);
        let nodes = Nodes::of(structure, line_bytes);
        let Sharing { kinds, lines } = sharing::sharing(&nodes);
        let kinds = kinds.into_iter().enumerate();
        Layout {
            line_bytes,
            kinds: kinds
                .map(|(kind, written)| self.kind(&nodes, kind, written))
                .collect(),
            children: children::collocations(&nodes),
            neighbours: lines::neighbours(&nodes, lines::Which::Either),
            pairs: lines::neighbours(&nodes, lines::Which::Pair),
            written_lines: lines,
            whole: pages::page_use(&nodes, None),
            no_physical: self.translate.as_ref().err().cloned(),
        }
    }

    fn kind(&self, nodes: &Nodes, kind: usize, written: LineSharing) -> KindLayout {
        let bytes = || nodes.of_kind(kind).map(|node| node.bytes as usize);
        let crossing = |node: &&nodes::Node| nodes.crosses(node);
        let translate = self.translate.as_ref().ok();
        KindLayout {
            kind: nodes.kinds[kind],
            nodes: bytes().count(),
            bytes: bytes().sum(),
            least_bytes: bytes().min().unwrap_or(0),
            most_bytes: bytes().max().unwrap_or(0),
            crossing: nodes.of_kind(kind).filter(crossing).count(),
            strides: strides::strides(nodes, kind),
            sets: sets::set_uses(nodes, kind, &self.caches, translate),
            pages: pages::page_use(nodes, Some(kind)),
            written,
        }
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_physical = self.translate.as_ref().err();
        f.debug_struct("Inspector")
            .field("caches", &self.caches)
            .field("no_physical", &no_physical)
            .finish()
    }
}

/// How the nodes of a structure lie.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Layout {
    /// Bytes of a cache line.
    pub line_bytes: usize,
    /// Each kind of nodes by itself, in the order in which the structure first named them.
    pub kinds: Vec<KindLayout>,
    /// How near children are to their parents, by both kinds.
    pub children: Vec<Collocation>,
    /// What the lines before and after a kind's lines hold.
    pub neighbours: Neighbours,
    /// What the other line of each aligned pair holds, which some processors fetch along (§3.2.4).
    pub pairs: Neighbours,
    /// Whose nodes are on the lines that updates write (§4.3.2).
    pub written_lines: WrittenLines,
    /// Pages that nodes of any kind touch.
    pub whole: PageUse,
    /// Why nothing is said by physical addresses; `None` if it is.
    pub no_physical: Option<String>,
}

/// How the nodes of one kind lie.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KindLayout {
    /// The kind.
    pub kind: &'static str,
    /// Its nodes.
    pub nodes: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of the smallest.
    pub least_bytes: usize,
    /// Bytes of the largest.
    pub most_bytes: usize,
    /// Nodes whose search fields touch one cache line more than they would if they were aligned
    /// to a line (§3.2.2).
    pub crossing: usize,
    /// Distances from one node to the next one in memory.
    pub strides: Strides,
    /// Use of the sets of each cache, by virtual addresses and, where these can be had, by
    /// physical ones.
    pub sets: Vec<SetUse>,
    /// Pages that the nodes touch.
    pub pages: PageUse,
    /// Lines with fields that updates write, and those where updates write several nodes.
    pub written: LineSharing,
}

impl KindLayout {
    /// The share of nodes whose search fields cross a line; 0 if there are none.
    #[must_use]
    pub fn crossing_share(&self) -> f64 {
        share(self.crossing, self.nodes)
    }
}

impl Layout {
    /// The layout of a kind, if the structure has such nodes.
    #[must_use]
    pub fn kind(&self, kind: &str) -> Option<&KindLayout> {
        self.kinds.iter().find(|layout| layout.kind == kind)
    }
}
