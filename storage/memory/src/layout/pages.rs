//! Which pages nodes lie on (§4.3.3, Figures 6 and 7).

use crate::superpage::SUPERPAGE_BYTES;

use super::nodes::{Node, Nodes};
use super::share::share;

/// Bytes of a small page.
pub const PAGE_BYTES: usize = 4096;

/// Consecutive pages of 4 KiB that all hold nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The address of the first page, divided by 4096.
    pub first: usize,
    /// How many there are.
    pub pages: usize,
}

/// Pages that nodes touch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageUse {
    /// Bytes of the nodes.
    pub node_bytes: usize,
    /// Pages of 4 KiB.
    pub pages: usize,
    /// Aligned ranges of 2 MiB: superpages, where the kernel backs them so.
    pub superpages: usize,
    /// The pages as runs, by address: what Figures 6 and 7 draw.
    pub runs: Vec<PageRun>,
}

impl PageUse {
    /// The pages that the nodes would fill if they lay side by side.
    #[must_use]
    pub fn least_pages(&self) -> usize {
        self.node_bytes.div_ceil(PAGE_BYTES)
    }

    /// The share of the pages' bytes that are nodes.
    #[must_use]
    pub fn density(&self) -> f64 {
        share(self.node_bytes, self.pages * PAGE_BYTES)
    }

    /// Pages of a run on average.
    #[must_use]
    pub fn mean_run(&self) -> f64 {
        share(self.pages, self.runs.len())
    }

    /// Pages of the longest run.
    #[must_use]
    pub fn longest_run(&self) -> usize {
        let longest = self.runs.iter().map(|run| run.pages).max();
        longest.unwrap_or(0)
    }
}

/// Pages of the nodes of a kind, or of all.
pub(super) fn page_use(nodes: &Nodes, kind: Option<usize>) -> PageUse {
    let wanted = |node: &&Node| kind.is_none_or(|kind| usize::from(node.kind) == kind);
    let mut found = PageUse {
        node_bytes: 0,
        pages: 0,
        superpages: 0,
        runs: Vec::new(),
    };
    // The first pages that were not seen yet: nodes come by address.
    let (mut next, mut next_superpage) = (0, 0);
    for node in nodes.nodes.iter().filter(wanted) {
        let extent = node.extent();
        found.node_bytes += extent.len();
        let last = extent.end.saturating_sub(1).max(extent.start);
        let superpages = extent.start / SUPERPAGE_BYTES..last / SUPERPAGE_BYTES + 1;
        let fresh = superpages.start.max(next_superpage)..superpages.end;
        found.superpages += fresh.len();
        next_superpage = next_superpage.max(superpages.end);
        let pages = extent.start / PAGE_BYTES..last / PAGE_BYTES + 1;
        let fresh = pages.start.max(next)..pages.end;
        if fresh.is_empty() {
            continue;
        }
        found.pages += fresh.len();
        match found.runs.last_mut() {
            Some(run) if fresh.start == next => run.pages += fresh.len(),
            _ => found.runs.push(PageRun {
                first: fresh.start,
                pages: fresh.len(),
            }),
        }
        next = fresh.end;
    }
    found
}
